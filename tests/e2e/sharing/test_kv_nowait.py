# SPDX-License-Identifier: Apache-2.0
"""Puts that do not wait: later calls happen after them, and no write that was handed over is lost."""

import os
import signal
import sys

import pytest

from harness import spec, wait_file
from python_package import ENV, needs_library, outputs, spec_of, write_script
from workers import TASK_ENV, Group

pytestmark = [needs_library, pytest.mark.seconds(180)]

# The numbers of a key that all write never go back where one reads after its own write.
OWN = """
    import elasticd
    ROUNDS, N = 300, %d
    with elasticd.init() as job:
        kv, me = job.kv, job.rank
        for i in range(1, ROUNDS + 1):
            kv.put(f"own/{me}", str(i), overwrite=True, wait=False)
            assert kv[f"own/{me}"] == b"%%d" %% i
            kv.put("all", f"{me} {i}", overwrite=True, wait=False)
            who, n = map(int, kv["all"].split())
            assert who != me or n == i, (who, n, i)
            kv.put(f"second/{me}", str(i), overwrite=True, wait=False)
            other = (me + i) %% N
            second = int(kv.try_get(f"second/{other}", b"0"))
            assert int(kv.try_get(f"own/{other}", b"0")) >= second
            if i %% 10 == 0:
                kv.put(f"gone/{me}", "1", overwrite=True, wait=False)
                kv.put(f"gone/{me}", "2", overwrite=True, wait=False)
                assert kv[f"gone/{me}"] == b"2"
                assert kv.delete(f"gone/{me}") == 1
                assert kv.try_get(f"gone/{me}") is None
            if i %% 50 == 0:
                for k in range(40):
                    kv.put(f"many/{me}/{k}", str(i), overwrite=True, wait=False)
                job.barrier(f"written {i}")
                for r in range(N):
                    assert kv[f"own/{r}"] == b"%%d" %% i
                    assert [int(kv[f"many/{r}/{k}"]) for k in range(40)] == [i] * 40
                assert {int(e.value) for e in kv.list("many")} == {i}
                job.barrier(f"read {i}")
        for size in 0, 1, 480, 4096, 11000, 16000, 17000, 200000:
            for byte in b"x", b"\\0", b"\\xff":
                kv.put(f"size/{me}", byte * size, overwrite=True, wait=False)
                assert kv[f"size/{me}"] == byte * size
        kv.flush()
        assert kv[f"size/{me}"] == b"\\xff" * 200000
"""


def test_a_writer_reads_its_value_and_all_do_after_a_barrier(box, daemon):
    replicas = 4
    done = daemon.run(spec_of(box, OWN % replicas, replicas=replicas))
    assert done["state"] == "succeeded", outputs(daemon, done, stream="stderr")


# A child of fork() is the same worker.
ENDS = """
    import os, signal
    import elasticd
    job = elasticd.init()
    kv = job.kv
    kv.put("ours", "1", overwrite=True, wait=False)
    pid = os.fork()
    if pid == 0:
        for i in range(20):
            kv.put("before", str(i), overwrite=True)
        for i in range(100):
            kv.put(f"k/{i}", str(i), overwrite=True, wait=False)
        LAST
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL), status
    assert kv.get("k/99", 100) == b"99"
    assert {e.key: e.value for e in kv.list("k")} == {f"k/{i}": b"%d" % i for i in range(100)}
    job.close()
"""


@pytest.mark.parametrize("last", ["raise SystemExit", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_put_that_was_handed_over_is_done_though_the_process_ends(box, daemon, last):
    done = daemon.run(spec_of(box, ENDS.replace("LAST", last)))
    assert done["state"] == "succeeded", outputs(daemon, done, stream="stderr")


FULL = """
    import elasticd
    with elasticd.init() as job:
        kv, n = job.kv, 0
        for i in range(20):
            kv.put("k", str(i), overwrite=True)
        value = b"x" * (1 << 20)
        try:
            while True:
                kv.put(f"big/{n}", value, overwrite=True)
                n += 1
        except elasticd.ResourceExhausted:
            pass
        value = b"x" * 8000
        try:
            while True:
                kv.put(f"small/{n}", value, overwrite=True)
                n += 1
        except elasticd.ResourceExhausted:
            pass
        kv.put(f"small/{n}", value, overwrite=True, wait=False)
        for call in kv.flush, lambda: kv.put("k", "not done", overwrite=True, wait=False):
            try:
                call()
                raise AssertionError("the store is full")
            except elasticd.ResourceExhausted:
                pass
            kv.flush()  # once
            assert kv["k"] == b"19"
            kv.put(f"small/{n}", value, overwrite=True, wait=False)
            assert kv.try_get("nothing") is None
        try:
            job.close()
            raise AssertionError("the store is full")
        except elasticd.ResourceExhausted:
            pass
        assert job.closed
"""


def test_an_error_is_raised_once_by_a_later_call(box, daemon):
    done = daemon.run(spec_of(box, FULL))
    assert done["state"] == "succeeded", outputs(daemon, done, stream="stderr")


def test_only_overwriting_puts_need_not_wait(box, daemon):
    done = daemon.run(spec_of(box, """
        import elasticd
        with elasticd.init() as job:
            try:
                job.kv.put("k", "v", wait=False)
                raise AssertionError("it must be said to write over")
            except elasticd.InvalidArgument as e:
                assert "OVERWRITE" in str(e)
            assert "k" not in job.kv
    """))
    assert done["state"] == "succeeded", outputs(daemon, done, stream="stderr")


def test_puts_without_waiting_work_by_hand(box):
    script = write_script(box, """
        import elasticd
        with elasticd.init() as job:
            job.kv.put("k", "v", overwrite=True, wait=False)
            assert job.kv["k"] == b"v"
            job.kv.flush()
    """)
    done = box.start(sys.executable, script, env=ENV).wait()
    assert done.rc == 0, done


LOST = """
    import pathlib, sys, time
    import elasticd
    job = elasticd.init()
    kv = job.kv
    for i in range(20):
        kv.put("k", str(i), overwrite=True)
    pathlib.Path(sys.argv[1]).touch()
    try:
        while True:
            kv.put("k", "more", overwrite=True, wait=False)
    except elasticd.Error as e:
        print(type(e).__name__)
"""


def test_a_put_without_wait_hears_that_the_agent_was_lost(box, daemon):
    group = Group(daemon, spec("hang"))
    # This is no child of the agent, and not killed with it.
    env = {k: v for k, v in group.environment("worker:0").items() if k in TASK_ENV}
    up = box.path("up")
    program = box.start(sys.executable, write_script(box, LOST), up, env={**env, **ENV})
    wait_file(up)
    os.kill(daemon.agent_pid(group.name), signal.SIGKILL)
    done = program.wait()
    assert done.rc == 0 and done.out.split() == ["Unavailable"], done
    group.close()
