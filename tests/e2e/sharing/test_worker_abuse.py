# SPDX-License-Identifier: Apache-2.0
"""What a worker may do wrong on worker.sock, and that it harms nobody else: identity, rubbish, floods."""

import contextlib
import json
import os
import pathlib
import signal
import socket

import pytest

from harness import as_user, other_user, puppet, spec, wait_for, wait_gone, wait_text
from workers import Group, script


@pytest.fixture
def two(daemon):
    group = Group(daemon, spec("hang", replicas=2))
    yield (group, *group.all("worker:0", "worker:1"))
    group.close()


def still_serves(group, b):
    """The other worker, and the supervision, are as before."""
    b.put("still", "here", overwrite=True)
    assert b.get("still") == b"here"
    job = group.daemon.status(group.name)
    assert job["state"] == "running" and job["attempt"] == 0
    assert all(t["state"] == "running" for t in job["workers"])


# --- identity --------------------------------------------------------------------------------------


def test_the_environment_tells_a_worker_what_it_needs(two):
    group, a, b = two
    env = group.environment("worker:1")
    assert pathlib.Path(env["ELASTICD_BOARD"]).stat().st_mode & 0o777 == 0o600
    assert env["ELASTICD_SLOT"] == "1" and env["ELASTICD_START"] == "0"
    assert env["ELASTICD_LOG_FILE"].endswith("attempt_0/1/log.jsonl")
    assert pathlib.Path(env["ELASTICD_WORKER_SOCKET"]).parent == group.daemon.agent_sock(group.name).parent
    assert b.hello == {"job": group.name, "run": group.run, "worker": "worker:1", "rank": 1, "attempt": 0,
                       "start": 0, "members": ["worker:0", "worker:1"]}
    assert b.call("Hello", token=env["ELASTICD_TOKEN"]) == b.hello
    board = pathlib.Path(env["ELASTICD_BOARD"]).read_bytes()
    assert board[:8] == (0x316472616f626c65).to_bytes(8, "little")
    expected = int.from_bytes(board[4096 + 128 + 64:4096 + 128 + 72], "little")
    assert expected == int(env["ELASTICD_TOKEN"]) != 0


def test_two_tasks_never_have_one_token(two):
    group, _, _ = two
    assert len({group.environment(n)["ELASTICD_TOKEN"] for n in ("worker:0", "worker:1")}) == 2


def test_an_unknown_token_is_refused_and_a_bad_one_is_named(two):
    group, a, b = two
    path = group.environment("worker:0")["ELASTICD_WORKER_SOCKET"]
    w = group.at(path)
    assert w.refused("Hello", token="12345").name == "PermissionDenied"
    for bad in ("", "0", "-1", "1x", "99999999999999999999", " 1", "01", "0x10"):
        e = w.refused("Hello", token=bad)
        assert e.name == "InvalidArgument" and "token" in e.message
    assert w.call("Hello", token=a.token)["worker"] == "worker:0"
    assert w.refused("Hello", token=b.token).name == "FailedPrecondition"


def test_a_stranger_without_a_token_is_told_what_to_do(two):
    group, a, b = two
    w = group.at(a.path)
    e = w.refused("Put", key="k", value="v")
    assert e.name == "FailedPrecondition" and "ELASTICD_TOKEN" in e.message


def test_a_worker_and_its_children_are_known_without_a_token(box, daemon):
    body = f"""
import subprocess
w = me(greet=False)
w.put("mine", "1")
code = ("import sys; sys.path.insert(0, %r)\\n" % os.path.dirname(sys.modules["workers"].__file__)
        + "from workers import *\\n"
        + "me(greet=False).call('Result', value=me(greet=False).get('mine').decode())")
subprocess.run([sys.executable, "-c", code], check=True, start_new_session=True)
"""
    job = daemon.run({"roles": [{"command": script(body)}]})
    assert job["state"] == "succeeded", job["verdict"]
    kept = json.loads((pathlib.Path(job["log_dir"]) / "results.json").read_text())
    assert kept["results"][0]["value"] == "1"


def test_a_process_of_an_earlier_start_is_refused(box, daemon):
    group = Group(daemon, spec("hang", replicas=1, restart={"max": 3}))
    old = group.connect("worker:0")
    old.put("k", "v")
    first = group.task("worker:0")["pid"]
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: group.daemon.status(group.name)["attempt"] == 1
             and group.daemon.status(group.name)["state"] == "running", what="the second attempt")
    e = old.refused("Get", key="k")
    assert e.name == "Aborted" and "earlier process of worker:0" in e.message
    again = group.at(old.path)
    e = again.refused("Hello", token=old.token)
    assert e.name == "Aborted" and "earlier process of worker:0" in e.message
    assert "worker:0" in daemon.wait_event(group.name, "stale-worker")["text"]
    new = group.connect("worker:0")
    assert new.hello["attempt"] == 1 and new.refused("Get", key="k").name == "NotFound"
    group.close()


@pytest.mark.root
def test_another_user_cannot_connect(box, daemon, two):
    box.open_to_all()
    group, a, b = two
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({a.path!r})"
    r = box.sh(*as_user(other_user(), "/usr/bin/python3", "-c", code))
    assert r.rc != 0 and "PermissionError" in r.err
    still_serves(group, b)


# --- rubbish ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [
    b"\0", b"rubbish\0", b"{}\0", b"[]\0", b"\xff\xfe\0", b'{"method":3}\0', b'{"method":"x"}\0',
    b'{"method":"io.elasticd.Worker.Nope"}\0',
    b'{"method":"io.elasticd.Worker.Put","parameters":{"key":{}}}\0',
    b"[" * 5000 + b"\0", b'{"method":"io.elasticd.Worker.Put","parameters":{"key":"k",', b"\0" * 10000,
    b'{"method":"io.elasticd.Worker.Put","parameters":{"key":"k","value":"a\\u0000b"}}\0',
], ids=range(13))
def test_rubbish_ends_at_most_its_own_connection(two, data):
    group, a, b = two
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        a.send_raw(data)
        a.sock.shutdown(socket.SHUT_WR)
        while a.receive_raw() is not None:
            pass
    still_serves(group, b)


def test_a_message_over_the_limit_is_refused_with_the_limit(two):
    group, a, b = two
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(9):
            a.send_raw(b"x" * (1 << 20))
    with contextlib.suppress(ConnectionResetError):
        message = json.loads(a.receive_raw())
        assert message["error"] == "io.elasticd.Worker.ResourceExhausted"
        assert str(8 << 20) in message["parameters"]["message"]
    still_serves(group, b)


def test_a_value_of_a_mebibyte_fits_even_with_every_byte_escaped(two):
    _, a, b = two
    text = ('{"method":"io.elasticd.Worker.Put","parameters":{"key":"k","value":"'
            + "\\u0001" * (1 << 20) + '"}}')
    a.send_raw(text.encode() + b"\0")
    a.reply()
    assert b.get("k") == b"\x01" * (1 << 20)


# --- floods ----------------------------------------------------------------------------------------


def test_a_client_that_sends_without_reading_harms_no_other(two):
    group, a, b = two
    a.put("big", "x" * (1 << 20))
    a.sock.setblocking(False)
    one = json.dumps({"method": "io.elasticd.Worker.Get", "parameters": {"key": "big"}}).encode() + b"\0"
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while sent < 100000:
            a.sock.send(one * 100)
            sent += 100
    assert sent < 100000, "the server reads without end"
    still_serves(group, b)


def test_a_client_with_thousands_of_calls_lets_others_in_between(two):
    group, a, b = two
    one = json.dumps({"method": "io.elasticd.Worker.Put", "oneway": True,
                      "parameters": {"key": "flood", "value": "v", "overwrite": True}}).encode() + b"\0"
    a.send_raw(one * 20000)
    still_serves(group, b)
    assert a.get("flood") == b"v"


def test_a_task_cannot_take_the_connections_of_another(box, daemon):
    """Each is sure of some, however many another one opens."""
    body = f"""
held = []
end = os.environ["ELASTICD_INDEX"]
if end == "0":
    refused = 0
    while refused < 3:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(os.environ["ELASTICD_WORKER_SOCKET"])
        try:
            s.sendall(b'{{"method":"org.varlink.service.GetInfo"}}\\0')
        except BrokenPipeError:
            pass  # refused and closed already; the answer says so
        answer = s.recv(1 << 16)
        refused += b"ResourceExhausted" in answer
        held.append(s)
    with open({str(box.path('some'))!r}, "w") as f:
        f.write(str(len(held)))
    os.rename({str(box.path('some'))!r}, {str(box.path('full'))!r})
else:
    while not os.path.exists({str(box.path('full'))!r}):
        time.sleep(0.05)
    w = me()
    w.put("k", "v")
    open({str(box.path('other'))!r}, "w").write(str(w.get("k")))
signal.pause()
"""
    group = Group(daemon, {"roles": [{"command": script(body), "replicas": 2}]})
    wait_text(box.path("other"), "v")
    assert int(box.path("full").read_text()) > 100
    job = daemon.status(group.name)
    assert job["state"] == "running"
    other = box.path("other").read_text()
    assert other == "b'v'"
    group.close()


def test_a_client_that_reconnects_without_end_harms_no_other(two):
    group, a, b = two
    for _ in range(2000):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(a.path)
        s.close()
    still_serves(group, b)
    assert group.connect("worker:0").get("still") == b"here"


METHODS = [
    ("Put", {"key": "k", "value": "v"}), ("Get", {"key": "n", "wait": True}), ("List", {"key": ""}),
    ("Delete", {"key": "x"}), ("Watch", {"key": ""}), ("Barrier", {"name": "b"}), ("Alive", {}),
    ("States", {}), ("Result", {"value": "r"}), ("WaitError", {}), ("Events", {}), ("Leave", {}),
    ("CancelBarrier", {"name": "b"}), ("Ready", {}),
]


@pytest.mark.parametrize("method,parameters", METHODS, ids=[m for m, _ in METHODS])
def test_one_whose_connection_ends_in_any_call_harms_nobody(two, method, parameters):
    group, a, b = two
    for _ in range(20):
        w = group.connect("worker:0")
        w.send(method, more=method in ("Watch", "Events"), **parameters)
        w.close()
    half = group.connect("worker:0")
    text = json.dumps({"method": "io.elasticd.Worker." + method, "parameters": parameters}).encode()
    half.send_raw(text[:len(text) // 2])
    half.close()
    still_serves(group, b)


@pytest.mark.parametrize("method,parameters", METHODS, ids=[m for m, _ in METHODS])
def test_a_worker_that_dies_in_any_call_is_restarted_as_ever(box, daemon, method, parameters):
    body = f"""
w = me()
if os.environ["ELASTICD_ATTEMPT"] == "0" and w.hello["rank"] == 0:
    w.send({method!r}, more={method in ("Watch", "Events")}, **{parameters!r})
    os.kill(os.getpid(), signal.SIGKILL)
if os.environ["ELASTICD_ATTEMPT"] == "0":
    signal.pause()
"""
    job = daemon.run({"roles": [{"command": script(body), "replicas": 2}], "restart": {"max": 1}})
    assert (job["state"], job["attempt"]) == ("succeeded", 1), job["verdict"]


# --- where the socket is ---------------------------------------------------------------------------


def test_in_the_foreground_the_directory_is_private_and_goes_with_the_agent(box):
    body = f"""
import stat
d = os.path.dirname(os.environ["ELASTICD_WORKER_SOCKET"])
open({str(box.path('dir'))!r}, "w").write(d + " " + oct(stat.S_IMODE(os.stat(d).st_mode)))
me().put("k", "v", overwrite=True)
"""
    r = box.run("--nproc-per-node=2", "--no-python", *script(body))
    assert r.rc == 0, r
    d, mode = box.path("dir").read_text().split()
    assert mode == "0o700" and d.startswith(str(box.path("xr"))) and not os.path.exists(d)


def test_a_killed_foreground_agent_leaves_no_directory(box):
    steps = puppet(f"env:{box.path('env')}", f"touch:{box.path('up')}", "hang")
    program = box.run_start("--no-python", *steps)
    wait_for(box.path("up").exists, box.dir, what="the worker to run")
    lines = box.path("env").read_text().replace("\0", "\n").splitlines()
    env = dict(e.split("=", 1) for e in lines if "=" in e)
    d = pathlib.Path(env["ELASTICD_WORKER_SOCKET"]).parent
    assert d.is_dir()
    # A guard may come to its name after all that its agent has done.
    agents = wait_for(lambda: [int(p) for p in os.listdir("/proc")
                               if p.isdigit() and is_agent_of(int(p), program.pid)], what="its guard")
    os.kill(agents[-1], signal.SIGKILL)
    program.wait()
    wait_for(lambda: not d.exists(), d.parent, what=f"{d} to go")


def is_agent_of(pid, top):
    """Whether pid is the agent proper, the second process of its name below top."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        parent = int(stat.rpartition(")")[2].split()[1])
        name = pathlib.Path(f"/proc/{parent}/comm").read_text().strip()
        mine = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        while parent not in (top, 1, 0):
            parent = int(pathlib.Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
        return parent == top and mine == "elastic-agent" and name == "elastic-guard"
    return False


def test_a_runtime_directory_with_a_long_name_works_too(box):
    deep = box.path("d" * 60)
    daemon = box.new_daemon(name="d" * 60)
    daemon.start()
    group = Group(daemon, spec("hang"))
    w = group.connect("worker:0")
    assert len(w.path) < 108 and not w.path.startswith(str(deep))
    w.put("k", "v")
    group.close()


def test_a_lost_agents_socket_is_replaced_by_the_next(box, daemon):
    group = Group(daemon, spec("hang", restart={"max": 3}))
    old = group.connect("worker:0")
    agent = daemon.status(group.name)["agent_pid"]
    pid = group.task("worker:0")["pid"]
    os.kill(agent, signal.SIGKILL)
    wait_gone(pid)
    wait_for(lambda: daemon.wait(group.name, until="running")["attempt"] >= 1, what="the next agent")
    with pytest.raises((ConnectionError, OSError)):
        old.call("List", key="")
    new = group.connect("worker:0")
    assert new.path == old.path and new.hello["attempt"] == 1
    new.put("k", "v")
    group.close()

