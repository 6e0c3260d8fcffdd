# SPDX-License-Identifier: Apache-2.0
"""Memory that workers share with the agent: what is read there is never older than what anybody knows, and
who spoils it harms himself alone."""

import array
import json
import mmap
import os
import pathlib
import random
import signal
import socket
import sys

import pytest

from harness import SANITIZED, spec, wait_file, wait_for, wait_text
from python_package import ENV, needs_library, outputs, spec_of, told, write_script
from test_idle import call_before_silence
from workers import Group

pytestmark = [needs_library, pytest.mark.seconds(180)]

RINGS = 16  # of one task


def share(worker, version=1):
    """The answer, and the descriptors that came with it."""
    worker.send("Share", version=version)
    data, more, _, _ = worker.sock.recvmsg(1 << 16, socket.CMSG_SPACE(4 * 8), socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, payload in more:
        assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        fds.frombytes(payload[:len(payload) - len(payload) % fds.itemsize])
    assert data.endswith(b"\0")
    answer = json.loads(data[:-1])
    return answer.get("error", "").rpartition(".")[2], answer["parameters"], list(fds)


def close_all(fds):
    for fd in fds:
        os.close(fd)


@pytest.fixture
def two(daemon):
    group = Group(daemon, spec("hang", replicas=2))
    yield (group, *group.all("worker:0", "worker:1"))
    group.close()


# --- by hand ---------------------------------------------------------------------------------------


def test_share_brings_a_ring_and_a_mirror_once_for_a_connection(two):
    _, a, _ = two
    error, answer, fds = share(a, version=2)
    assert error == "InvalidArgument" and "version" in answer["message"] and not fds
    error, answer, fds = share(a)
    assert not error and answer == {"version": 1, "ring_bytes": 16384, "mirror": True} and len(fds) == 2
    close_all(fds)
    error, answer, fds = share(a)
    assert error == "FailedPrecondition" and not fds
    # The socket serves as before.
    a.put("k", "v")
    assert a.get("k") == b"v"


def test_a_task_has_so_many_rings_and_gets_others_for_those_it_gives_back(two):
    group, _, b = two
    mine = [group.connect("worker:0") for _ in range(RINGS + 1)]
    for connection in mine[:RINGS]:
        error, _, fds = share(connection)
        assert not error
        close_all(fds)
    error, answer, fds = share(mine[RINGS])
    assert error == "ResourceExhausted" and not fds and str(RINGS) in answer["message"]
    mine[RINGS].put("k", "v")
    error, _, fds = share(b)
    assert not error, "those of another task are its own"
    close_all(fds)
    mine[0].close()
    wait_for(lambda: not share_fails(mine[RINGS]), what="a ring that was given back")


def test_who_wants_no_answer_takes_no_ring_from_its_task(two):
    _, a, _ = two
    for _ in range(RINGS + 4):
        a.sock.sendall(json.dumps({"method": "io.elasticd.Worker.Share", "parameters": {"version": 1},
                                   "oneway": True}).encode() + b"\0")
    assert not share_fails(a)


def share_fails(connection):
    error, _, fds = share(connection)
    close_all(fds)
    return error


def test_the_mirror_can_only_be_read(two):
    _, a, _ = two
    _, _, (ring, mirror) = share(a)
    size = os.fstat(mirror).st_size
    a.put("k", "a value to be found", overwrite=True)
    with pytest.raises(PermissionError):
        mmap.mmap(mirror, size)
    with pytest.raises(OSError):
        os.pwrite(mirror, b"x", 0)
    with pytest.raises(OSError):
        os.ftruncate(mirror, 0)
    with pytest.raises(OSError):
        os.ftruncate(ring, 0)
    with pytest.raises(PermissionError):
        fd = os.open(f"/proc/self/fd/{mirror}", os.O_RDWR)
        try:
            mmap.mmap(fd, size)
        finally:
            os.close(fd)
    with mmap.mmap(mirror, size, prot=mmap.PROT_READ) as memory:
        assert b"ka value to be found" in memory[:]
    close_all([ring, mirror])


# --- workers ---------------------------------------------------------------------------------------

# Each task writes its own keys and reads those of all; "first" is always written before "second".
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
        for size in 0, 1, 400, 465, 466, 467, 468, 469, 470, 471, 472, 473, 479, 480, 481, 4096, 20000:
            for byte in b"x", b"\\0", b"\\xff":
                kv.put(f"size/{me}", byte * size, overwrite=True)
                assert kv[f"size/{me}"] == byte * size
                assert kv[f"size/{me}"] == byte * size
        job.barrier("done")
        print(json.dumps(newest, sort_keys=True))
"""


@pytest.mark.parametrize("shared", [None, "0"])
def test_nobody_finds_what_is_older_than_what_is_known(box, daemon, shared):
    replicas = 4
    document = spec_of(box, CONSISTENT % (100, replicas), replicas=replicas)
    if shared is not None:
        document["roles"][0]["env"]["ELASTICD_SHARE"] = shared
    done = daemon.run(document)
    assert done["state"] == "succeeded", outputs(daemon, done, stream="stderr")
    for newest in told(daemon, done):
        assert {k: n for k, n in newest.items() if k.startswith("second/")} == {
            f"second/{r}": 100 for r in range(replicas)}


def test_an_attempt_finds_nothing_of_the_one_before(box, daemon):
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


# Goes on until it is told to end; a file says that it uses what it shares.
STEADY = """
    import pathlib, sys
    import elasticd
    with elasticd.init() as job:
        kv, i = job.kv, 0
        while "stop" not in kv:
            i += 1
            kv.put(f"own/{job.rank}", str(i), overwrite=True)
            assert kv[f"own/{job.rank}"] == b"%d" % i
            if i == 50:
                pathlib.Path(sys.argv[1]).touch()
"""


def steady(box, name, replicas=1):
    up = box.path(f"{name}.up")
    document = spec_of(box, STEADY, replicas=replicas)
    document["roles"][0]["command"] += [str(up)]
    return document, up


def test_who_spoils_its_ring_harms_nobody_else(box, daemon):
    document, up = steady(box, "spoilt", 2)
    group = Group(daemon, document)
    wait_file(up)
    dice, kept = random.Random(1), []
    for turn in range(60):
        bad = group.connect("worker:0")
        _, _, (ring, mirror) = share(bad)
        with mmap.mmap(ring, os.fstat(ring).st_size) as memory:
            for _ in range(20):
                at = dice.randrange(0, 1024 if turn % 2 else len(memory) - 64)
                memory[at:at + 64] = dice.randbytes(64)
                try:
                    bad.sock.send(b"\0")
                except OSError:
                    break
        close_all([ring, mirror])
        if turn % 3:
            bad.close()
        else:
            kept.append(bad)
        if len(kept) > RINGS // 2:  # those that harm not even themselves have theirs still
            kept.pop(0).close()
    a = group.connect("worker:1")
    a.put("stop", "")
    done = daemon.wait(group.name)
    assert done["state"] == "succeeded", outputs(daemon, done, stream="stderr")
    group.close()


def test_what_connections_shared_is_given_back(two):
    group, a, _ = two
    agent = group.daemon.agent_pid(group.name)
    fds, maps = pathlib.Path(f"/proc/{agent}/fd"), pathlib.Path(f"/proc/{agent}/maps")

    def used():
        a.put("all before this was handled", "", overwrite=True)
        return len(list(fds.iterdir())), len(maps.read_text().splitlines())

    def live():
        connection = group.connect("worker:1")
        _, _, shared = share(connection)
        close_all(shared)
        connection.close()
        group.open.remove(connection)

    for _ in range(100):
        live()
    before = used()
    for _ in range(1000):
        live()
    wait_for(lambda: used()[0] <= before[0] + 2 and used()[1] <= before[1] + 8,
             what=f"as much as before ({before}), not {used()}")


TASK_ENV = ("ELASTICD_WORKER_SOCKET", "ELASTICD_BOARD", "ELASTICD_SLOT", "ELASTICD_TOKEN")

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


def test_who_waits_hears_that_the_agent_was_lost(box, daemon):
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


STOPPED = """
    import os, pathlib, sys, time
    import elasticd
    def await_file(name):
        while not pathlib.Path(name).exists():
            time.sleep(0.01)
    with elasticd.init() as job:
        kv, name = job.kv, sys.argv[1]
        for i in range(50):
            kv.put("k", str(i), overwrite=True)
            assert kv["k"] == b"%d" % i
        pathlib.Path(name + "ready").touch()
        await_file(name + "stopped")
        for _ in range(1000):
            assert kv["k"] == b"49"
        pathlib.Path(name + "read").touch()
        kv.put("k", "at last", overwrite=True)
        assert kv["k"] == b"at last"
"""


def test_a_stopped_agent_keeps_who_writes_waiting_and_not_who_reads(box, daemon):
    name = str(box.path("stopped."))
    document = spec_of(box, STOPPED)
    document["roles"][0]["command"] += [name]
    group = Group(daemon, document)
    wait_file(pathlib.Path(name + "ready"))
    agent = daemon.agent_pid(group.name)
    os.kill(agent, signal.SIGSTOP)
    try:
        wait_text(pathlib.Path(f"/proc/{agent}/status"), "T (stopped)")
        pathlib.Path(name + "stopped").touch()
        wait_file(pathlib.Path(name + "read"))
    finally:
        os.kill(agent, signal.SIGCONT)
    done = daemon.wait(group.name)
    assert done["state"] == "succeeded", outputs(daemon, done, stream="stderr")
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


@pytest.mark.skipif(SANITIZED, reason="sanitizers' own threads make calls")
def test_an_agent_whose_workers_have_rings_makes_no_system_call_when_they_are_idle(box, daemon):
    name = str(box.path("idle."))
    document = spec_of(box, IDLE, replicas=8)
    document["roles"][0]["command"] += [name]
    group = Group(daemon, document)
    for rank in range(8):
        wait_file(pathlib.Path(name + str(rank)))
    made = call_before_silence(box, {daemon.agent_pid(group.name)})
    group.close()
    assert not made, made
