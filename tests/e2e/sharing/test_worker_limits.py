# SPDX-License-Identifier: Apache-2.0
"""What one worker may take or break of what all share: the board, the agent's time, its memory."""

import contextlib
import ctypes
import mmap
import os
import pathlib
import random
import signal
import subprocess
import sys

import pytest

from harness import BUILD, ROOT, SANITIZED, puppet, spec, wait_file, wait_for
from workers import Group, WorkerError, script


MIB = 1 << 20


@pytest.fixture
def group_of(daemon):
    with contextlib.ExitStack() as stack:
        def start(document):
            group = Group(daemon, document)
            stack.callback(group.close)
            return group
        yield start


def events(daemon, group, kind):
    return [e for e in daemon.events(group.name) if e["event"] == kind]


# --- the board -------------------------------------------------------------------------------------


def test_no_worker_can_cut_the_board_that_others_have_mapped(box, daemon):
    """Each worker beats and steps on its mapping while the first one tries all ways to cut it."""
    body = """
path = os.environ["ELASTICD_BOARD"]
refused = []
for cut in (lambda: os.truncate(path, 0), lambda: open(path, "wb").close(),
            lambda: os.ftruncate(os.open(path, os.O_RDWR), 4096),
            lambda: os.ftruncate(os.open(path, os.O_RDWR), 1 << 30)):
    try:
        cut()
    except PermissionError:
        refused.append(True)
me().call("Result", value=str(len(refused)))
with mmap.mmap(os.open(path, os.O_RDWR), 0) as board:
    assert len(board) == 4096 + 8192 * 128 and board[:8] == b"elboard1"
"""
    job = daemon.run({"roles": [{"command": script("import mmap\n" + body), "replicas": 2}]})
    assert job["state"] == "succeeded", job["verdict"]
    assert [r["value"] for r in daemon.call("Results", job=job["run"])["results"]] == ["4", "4"]
    assert "board-damaged" not in [e["event"] for e in daemon.events(job["run"])]


def test_from_a_container_the_file_beside_it_is_the_board(box, daemon):
    """In a user namespace of its own a process cannot open what is the agent's in /proc."""
    if subprocess.run(["unshare", "-Ur", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no user namespaces here")
    code = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT / "worker/python")!r})
try:
    os.close(os.open(os.environ["ELASTICD_BOARD"], os.O_RDWR))
    os._exit(9)
except OSError:
    pass
import elasticd
job = elasticd.init()
job.step(41)
while not os.path.exists({str(box.path("go"))!r}):
    job.beat()
    time.sleep(0.01)
"""
    name, _ = daemon.submit({"roles": [{"command": ["unshare", "-Ur", sys.executable, "-c", code],
                                        "env": {"ELASTICD_LIBRARY": str(BUILD / "libelasticd.so.0")}}],
                             "heartbeat": {"period": "100ms", "timeout": "10m"}})
    daemon.wait(name, until="running")
    wait_for(lambda: daemon.status(name, live=True)["workers"][0].get("step") == 41
             or daemon.status(name)["state"] != "running", what="its step")
    box.path("go").touch()
    job = daemon.wait(name)
    assert job["state"] == "succeeded", job["verdict"]


def test_a_board_that_a_worker_cuts_is_made_anew_and_the_agent_lives(daemon, group_of):
    g = group_of(spec("hang", replicas=3, restart={"scope": "worker", "max": 5}))
    agent = daemon.agent_pid(g.name)
    board = pathlib.Path(g.environment("worker:0")["ELASTICD_BOARD"] + ".file")
    whole = board.stat().st_size
    for _ in range(2):
        before = g.task("worker:1")["pid"]
        os.truncate(board, 0)
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: g.task("worker:1")["pid"] not in (None, before, 0))
        wait_for(lambda: board.stat().st_size == whole)
    assert daemon.agent_pid(g.name) == agent
    data = board.read_bytes()
    assert data[:8] == (0x316472616f626c65).to_bytes(8, "little")
    for i in range(3):
        at = 4096 + 128 * i + 64
        token = g.environment(f"worker:{i}")["ELASTICD_TOKEN"]
        assert int.from_bytes(data[at:at + 8], "little") == int(token)
    assert len(events(daemon, g, "board-damaged")) == 1


BOARD_BYTES = 4096 + 8192 * 128
LIBC = ctypes.CDLL(None)


def spoil(path, dice):
    """Whatever a worker may do to the board, but for writing to the slots of others."""
    with open(path, "r+b", buffering=0) as board:
        with contextlib.suppress(OSError, ValueError):
            os.ftruncate(board.fileno(), dice.choice([0, 4096, 4160, 1 << 30, BOARD_BYTES]))
        with contextlib.suppress(OSError, ValueError), mmap.mmap(board.fileno(), BOARD_BYTES) as memory:
            at = dice.randrange(4096 + 128 * 64, BOARD_BYTES - 256)
            memory[at:at + 256] = dice.randbytes(256)
            if dice.random() < 0.5:
                memory.madvise(mmap.MADV_REMOVE)
        begin, length = dice.choice([(0, BOARD_BYTES), (4096, 4096), (8192, 65536)])
        LIBC.fallocate(board.fileno(), 3, ctypes.c_long(begin), ctypes.c_long(length))  # punches a hole


def test_a_worker_that_spoils_the_board_harms_no_agent(daemon, group_of):
    """It is cut, punched and written over while the agent looks at it, and writes to it."""
    g = group_of(spec("hang", replicas=3, restart={"scope": "worker", "max": 5},
                      heartbeat={"period": "50ms", "timeout": "10m"}))
    agent, dice = daemon.agent_pid(g.name), random.Random(1)
    board, a = g.environment("worker:0")["ELASTICD_BOARD"], g.connect("worker:0")
    for i in range(300):
        spoil(board if i % 2 else board + ".file", dice)
        a.put("k", str(i), overwrite=True)
        if i % 20 == 0:
            daemon.status(g.name, live=True)
        if i % 100 == 50:
            before = g.task("worker:1")["pid"]
            os.kill(before, signal.SIGKILL)
            wait_for(lambda: g.task("worker:1")["pid"] not in (None, before, 0))
    assert daemon.agent_pid(g.name) == agent and a.get("k") == b"299"
    assert g.connect("worker:1").get("k") == b"299"


# --- names -----------------------------------------------------------------------------------------


def test_more_names_than_there_are_tasks_are_refused(group_of):
    g = group_of(spec("hang", replicas=2))
    a, b = g.all("worker:0", "worker:1")
    for method in ("Barrier", "Alive"):
        more = {"name": "b"} if method == "Barrier" else {}
        e = a.refused(method, members=["worker:0", "worker:1", "worker:0"], **more)
        assert e.name == "InvalidArgument"
        assert "members: expected 1 to the 2 workers of this job, got 3" in e.message
    e = a.refused("States", roles=["worker", "worker"])
    assert e.name == "InvalidArgument" and "roles: expected 1 to the 1" in e.message
    # Who waits already is told: it would wait in vain.
    b.send("Barrier", name="c", members=["worker:0", "worker:1"])
    a.put("sync", "")
    assert b.waits()
    assert a.refused("Barrier", name="c", members=["worker:0"] * 100000).name == "InvalidArgument"
    assert b.error().name == "InvalidArgument"


def test_names_of_all_tasks_are_found_in_whatever_order(group_of):
    counts = {"worker": 12, "b": 3, "a": 2}
    g = group_of({"roles": [{"name": r, "command": puppet("hang"), "replicas": n}
                            for r, n in counts.items()]})
    names = [f"{r}:{i}" for r, n in counts.items() for i in range(n)]
    for n, order in enumerate((names, names[::-1], sorted(names))):
        w = g.connect(order[0])
        e = w.refused("Barrier", name=f"all {n}", members=order, timeout_ms=0)
        assert e.name == "DeadlineExceeded" and sorted(e.missing) == sorted(order[1:])
        w.close()
    states = g.connect("worker:0").call("States")["members"]
    assert sorted(m["worker"] for m in states) == sorted(names)
    of_workers = [m["worker"] for m in states if m["worker"].startswith("worker:")]
    assert of_workers == [f"worker:{i}" for i in range(12)]


# --- answers that nobody reads ---------------------------------------------------------------------


def test_lists_that_a_task_does_not_read_are_refused_at_a_limit(daemon, group_of):
    g = group_of(spec("hang", replicas=2))
    a, b = g.all("worker:0", "worker:1")
    for i in range(16):
        a.put(f"big/{i}", "x" * 1000000)
    flood = []
    for _ in range(24):
        w = g.at(a.path)
        w.call("Hello", token=a.token)
        flood.append(w.send("List", key="big"))
        # The connection is served after that of the one before it.
        a.put("turn", "x", overwrite=True)
    refused = 0
    for w in flood:
        try:
            assert len(w.reply()["entries"]) == 16
        except WorkerError as e:
            assert e.name == "ResourceExhausted" and "wait for this worker" in e.message
            refused += 1
    # 64 MiB and one answer are let through.
    assert refused >= 16
    # Who has read all gets all, and another task never knew of it.
    assert len(a.call("List", key="big")["entries"]) == 16
    assert len(b.call("List", key="big")["entries"]) == 16


# --- half a call -----------------------------------------------------------------------------------

HALF = b'{"method":"io.elasticd.Worker.Put","parameters":{"key":"k","value":"'


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is its own")
def test_half_calls_of_one_worker_take_no_more_than_its_share(daemon, group_of):
    g = group_of(spec("hang", replicas=2))
    a, b = g.all("worker:0", "worker:1")
    agent = daemon.agent_pid(g.name)
    before = peak(agent)
    refused = []
    for _ in range(18):
        w = g.at(a.path, a.token)
        try:
            w.send_raw(HALF + b"x" * int(7.9 * MIB))
        except ConnectionError:
            refused.append(w.error())
        b.put("turn", "x", overwrite=True)
    assert len(refused) >= 2, "16 times 8 MiB have room"
    for e in refused:
        assert e.name == "ResourceExhausted" and "unread answers of one worker" in e.message, e
    # What is small goes through, also for that one.
    assert a.get("turn") == b"x"
    assert peak(agent) < before + 160 * MIB


def peak(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) * 1024


def test_half_a_call_of_a_worker_has_30_s_and_others_go_on(box, set_clocks):
    body = f"""
w = me()
if os.environ["RANK"] == "0":
    half = me()
    half.send_raw({HALF!r})
    w.put("half", "sent")
    w.put("over", half.error().message)
else:
    w.get("half", wait=True)
    open({str(box.path("half"))!r}, "x").close()
    said = b""
    while not said:
        try:
            print("tick")
            said = w.get("over", timeout_ms=10)
        except WorkerError as e:
            assert e.name == "NotFound", e
    print(said.decode())
"""
    run = box.run_start("--nproc-per-node=2", "--no-python", *script(body))
    wait_file(box.path("half"))
    # In small steps, each with a turn of the agent: what the host stood still for costs a call nothing.
    for n in range(180):
        if "call to come" in run.out:
            break
        set_clocks(monotonic=n / 2)
        ticks = run.out.count("tick") + 2
        wait_for(lambda: run.out.count("tick") >= ticks or "call to come" in run.out, run.out_path)
    run.wait_out("30000 ms for a call to come as a whole")
    assert run.wait().rc == 0
