# SPDX-License-Identifier: Apache-2.0
"""A worker never reads a value older than one that any worker knows, and calls that wait end with
the agent."""

import os
import pathlib
import signal
import sys

import pytest

from harness import SANITIZED, spec, wait_file
from python_package import ENV, needs_library, outputs, spec_of, told, write_script
from silence import call_before_silence
from workers import TASK_ENV, Group

pytestmark = [needs_library, pytest.mark.seconds(180)]

# Each worker writes its own keys and reads those of all; "first" is always written before "second".
CONSISTENT = """
    import json, sys
    import elasticd
    ROUNDS, N = %d, %d
    with elasticd.init() as job:
        kv, me = job.kv, job.rank
        newest = {}
        def number(key):
            n = int(kv.try_get(key, b"0"))
            assert n >= newest.get(key, 0), (key, n, newest[key])
            newest[key] = n
            return n
        for i in range(1, ROUNDS + 1):
            kv.put(f"first/{me}", str(i), overwrite=True)
            assert number(f"first/{me}") == i
            kv.put(f"second/{me}", str(i), overwrite=True, persistent=i %% 2 == 0)
            assert number(f"second/{me}") == i
            other = (me + i) %% N
            second = number(f"second/{other}")
            assert number(f"first/{other}") >= second
            if i %% 10 == 0:
                kv.put(f"gone/{me}", str(i))
                assert kv[f"gone/{me}"] == b"%%d" %% i
                try:
                    kv.put(f"gone/{me}", "again")
                    raise AssertionError("it is there")
                except elasticd.AlreadyExists:
                    pass
                assert kv.delete(f"gone/{me}") == 1
                assert kv.try_get(f"gone/{me}") is None
                try:
                    kv.get(f"gone/{me}", 0.001)
                    raise AssertionError("it was deleted")
                except elasticd.DeadlineExceeded:
                    pass
            if i %% 25 == 0:
                job.barrier(f"round {i}")
                assert [number(f"second/{r}") for r in range(N)] == [i] * N
                assert {e.key: int(e.value) for e in kv.list("second")} == {
                    f"second/{r}": i for r in range(N)}
                job.barrier(f"read {i}")
        for size in 0, 1, 4096, 20000:
            for byte in b"x", b"\\0", b"\\xff":
                kv.put(f"size/{me}", byte * size, overwrite=True)
                assert kv[f"size/{me}"] == byte * size
        job.barrier("done")
        print(json.dumps(newest, sort_keys=True))
"""


def test_no_reader_finds_an_older_value_than_it_knows(box, daemon):
    replicas = 4
    done = daemon.run(spec_of(box, CONSISTENT % (100, replicas), replicas=replicas))
    assert done["state"] == "succeeded", outputs(daemon, done, stream="stderr")
    for newest in told(daemon, done):
        assert {k: n for k, n in newest.items() if k.startswith("second/")} == {
            f"second/{r}": 100 for r in range(replicas)}


def test_an_attempt_finds_no_key_of_the_attempt_before(box, daemon):
    done = daemon.run(spec_of(box, """
        import sys
        import elasticd
        with elasticd.init() as job:
            kv, attempt = job.kv, job.attempt
            for i in range(20):
                for r in range(2):
                    found = kv.try_get(f"k/{r}/{i}")
                    assert found in (None, b"%d" % attempt), (found, attempt)
                kept = kv.try_get("kept", b"0")  # the other one may have come so far
                assert kept == b"1" or (kept == b"0" and not attempt), (kept, attempt)
                kv.put(f"k/{job.rank}/{i}", str(attempt))
                assert kv[f"k/{job.rank}/{i}"] == b"%d" % attempt
            kv.put("kept", "1", overwrite=True, persistent=True)
            assert kv["kept"] == b"1"
            job.barrier("done")
            for r in range(2):
                for i in range(20):
                    assert kv[f"k/{r}/{i}"] == b"%d" % attempt
            job.barrier("read")
            if attempt == 0:
                sys.exit(1)
    """, replicas=2, restart={"max": 1}))
    assert done["state"] == "succeeded" and done["attempt"] == 1, [
        outputs(daemon, done, a, "stderr") for a in (0, 1)]


WAITING = """
    import pathlib, sys
    import elasticd
    kv, waits = elasticd.init().kv, sys.argv[1] == "waits"
    for i in range(50):
        kv.put(sys.argv[1], str(i), overwrite=True)
        assert kv[sys.argv[1]] == b"%d" % i
    pathlib.Path(sys.argv[2]).touch()
    try:
        if waits:
            kv.get("never")
        while True:
            kv.put(sys.argv[1], "more", overwrite=True)
    except elasticd.Error as e:
        print(type(e).__name__)
"""


def test_a_waiter_hears_that_the_agent_was_lost(box, daemon):
    group = Group(daemon, spec("hang"))
    # These are no children of the agent, and are not killed with it.
    env = {k: v for k, v in group.environment("worker:0").items() if k in TASK_ENV}
    script = write_script(box, WAITING)
    programs = []
    for name in "waits", "writes":
        up = box.path(f"{name}.up")
        programs.append(box.start(sys.executable, script, name, up, env={**env, **ENV}))
        wait_file(up)
    os.kill(daemon.agent_pid(group.name), signal.SIGKILL)
    for program in programs:
        done = program.wait()
        assert done.rc == 0 and done.out.split() == ["Unavailable"], done
    group.close()


IDLE = """
    import pathlib, signal, sys
    import elasticd
    job = elasticd.init()
    for i in range(50):
        job.kv.put(f"k/{job.rank}", str(i), overwrite=True)
        assert job.kv[f"k/{job.rank}"] == b"%d" % i
    job.barrier("idle")
    pathlib.Path(sys.argv[1] + str(job.rank)).touch()
    signal.pause()
"""


@pytest.fixture
def idle_group(box, daemon):
    """Workers that have shared much, and are idle now."""
    name = str(box.path("idle."))
    document = spec_of(box, IDLE, replicas=8)
    document["roles"][0]["command"] += [name]
    group = Group(daemon, document)
    for rank in range(8):
        wait_file(pathlib.Path(name + str(rank)))
    yield group
    group.close()


@pytest.mark.skipif(SANITIZED, reason="sanitizers' own threads make calls")
def test_an_agent_makes_no_system_call_when_workers_that_have_shared_are_idle(box, daemon, idle_group):
    made = call_before_silence(box, {daemon.agent_pid(idle_group.name)})
    assert not made, made


def test_an_agent_maps_no_memory_that_its_workers_have(daemon, idle_group):
    maps = pathlib.Path(f"/proc/{daemon.agent_pid(idle_group.name)}/maps").read_text()
    assert not [line for line in maps.splitlines() if line.split()[1] == "rw-s"], maps
