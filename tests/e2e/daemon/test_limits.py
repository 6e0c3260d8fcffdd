# SPDX-License-Identifier: Apache-2.0
"""What one user may take of elasticd: memory and connections have totals, shares, and a reserve for
administrators. The attacker is another user; root and a third one are served meanwhile."""

import contextlib
import json
import os
import pathlib
import queue
import resource
import signal
import subprocess
import threading
import time

import pytest

from harness import (ALL, DAEMON, PATIENCE, SANITIZED, SLOWER, VarlinkError, as_user, is_root,
                     other_user, spec, stat_of, wait_for, wait_gone)
from processes import children, cmdline

# Others may not read where this tree is: they get the text.
VARLINK = (pathlib.Path(__file__).parents[1] / "raw_varlink.py").read_text()
THIRD = 54321
MIB = 1 << 20

# What a script of another user stands on: it prints one line of JSON when it is at its worst, and holds
# on until it is killed.
PRELUDE = """
import re, signal, sys
class Manager(Connection):
    INTERFACE = "io.elasticd.Manager."
def connect():
    return Manager(sys.argv[1], 60)
keep, said = [], {}
def count(what):
    said[what] = said.get(what, 0) + 1
def limited(parameters):
    return re.search(r"limit of (?:[0-9]+ )?(.*?) is reached", parameters["message"]).group(1)
def refused(c):
    try:
        count(limited(json.loads(c.receive_raw())["parameters"]))
    except (OSError, TypeError):
        count("closed")
def at_worst():
    print(json.dumps(said), flush=True)
    signal.pause()
"""

HALF_FRAMES = """
half = b'{"method":"io.elasticd.Manager.Ping","parameters":{"x":"' + b"x" * int(7.8 * 2**20)
for i in range(150):
    c = connect()
    keep.append(c)
    try:
        c.send_raw(half)
        count("half")
    except OSError:
        refused(c)
at_worst()
"""

NEVER_READ = """
call = b'{"method":"org.varlink.service.GetInterfaceDescription","parameters":' \\
       b'{"interface":"io.elasticd.Manager"}}\\0'
for i in range(200):
    c = connect()
    keep.append(c)
    c.sock.setblocking(False)
    try:
        c.sock.send(call * 1000)
    except OSError:
        count("refused")
last = connect()
last.call("Ping")
at_worst()
"""

CONNECTIONS = """
for i in range(4096):
    c = connect()
    keep.append(c)
for c in keep:
    c.sock.setblocking(False)
last = keep[-1]
last.sock.settimeout(60)
refused(last)
at_worst()
"""


@pytest.fixture
def shared(box):
    """A daemon for all users, and a way to have another one attack it."""
    if not is_root():
        pytest.skip("needs root to be other users")
    box.open_to_all()
    daemon = box.new_daemon(config="[elasticd]\nsocket_mode = 0666\nallow_users = *\n")
    daemon.base.chmod(0o755)
    daemon.start()
    with contextlib.ExitStack() as stack:
        def attack(script, *args, user=None):
            p = subprocess.Popen(["/usr/bin/python3", "-c", VARLINK + PRELUDE + script, str(daemon.socket),
                                  *args],
                                 stdout=subprocess.PIPE, preexec_fn=as_uid(user or other_user().pw_uid))
            stack.callback(p.wait)
            stack.callback(p.kill)
            line = p.stdout.readline()
            assert line, "the script failed"
            return json.loads(line)
        daemon.attack = attack
        yield daemon


def as_uid(uid):
    def become():
        resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    return become


def rss(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) * 1024


def still_serves(daemon):
    """Root and a third user have their answers, and quickly: the best of a few tries says so also where
    the machine is busy."""
    best = 1e9
    for _ in range(10):
        begun = time.monotonic()
        with daemon.connect() as v:
            assert v.call("List")["jobs"] == []
        best = min(best, time.monotonic() - begun)
    third = subprocess.run(["/usr/bin/python3", "-c", VARLINK + PRELUDE + "print(connect().call('List'))",
                            str(daemon.socket)], preexec_fn=as_uid(THIRD), check=False,
                           capture_output=True, text=True)
    assert third.stdout == "{'jobs': []}\n", third
    assert best < 0.05 * SLOWER, best


@pytest.mark.root
@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is its own")
def test_half_calls_of_one_user_take_a_bounded_part_of_memory(shared):
    before = rss(shared.pid)
    said = shared.attack(HALF_FRAMES)
    still_serves(shared)
    assert rss(shared.pid) < before + 40 * MIB
    assert said["half"] >= 2, said
    assert said["bytes of unfinished calls and unread answers of one user"] >= 100, said


@pytest.mark.root
@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is its own")
def test_connections_that_never_read_take_a_bounded_part_of_memory(shared):
    before = rss(shared.pid)
    shared.attack(NEVER_READ)
    still_serves(shared)
    assert rss(shared.pid) < before + 60 * MIB


@pytest.mark.ci
@pytest.mark.root
@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is its own")
def test_several_users_together_take_a_bounded_part_of_memory(shared):
    before = rss(shared.pid)
    for uid in range(60001, 60007):
        shared.attack(HALF_FRAMES, user=uid)
    still_serves(shared)
    assert rss(shared.pid) < before + 90 * MIB
    # What is large gets through, too: for root by the reserve, for others since the greediest is cut.
    with shared.connect() as v:
        with pytest.raises(Exception) as e:
            v.call("Status", job="x" * (7 * MIB))
        assert "NotFound" in str(e.value) or "InvalidParameter" in str(e.value), str(e.value)[:200]


@pytest.mark.root
def test_connections_of_one_user_lock_out_nobody_else(shared):
    said = shared.attack(CONNECTIONS)
    still_serves(shared)
    assert said == {"connections of one user": 1}, said


# --- readers of ended runs -------------------------------------------------------------------------

STOPPED_READERS = """
import os
job = connect().call("Start", spec={"name": "long", "logs": {"dir": sys.argv[2]},
                                    "roles": [{"command": ["/usr/bin/seq", "100000"]}]})
connect().call("Wait", job=job["run"], until="ended")
stopped = set()
def stop_readers():
    # Others of this user may read from another elasticd.
    pid = connect().call("Version")["pid"]
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        readers = f.read().split()
    for pid in readers:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                reads = f.read().startswith(b"elastic-agent\\0--serve=")
                if reads and os.stat(f"/proc/{pid}").st_uid == os.getuid():
                    os.kill(int(pid), signal.SIGSTOP)
                    stopped.add(int(pid))
        except OSError:
            pass
for i in range(64):
    c = connect()
    # More than is taken by whoever does not read: its reader lives until it is stopped.
    c.send("Logs", more=True, job=job["run"], lines=1000000)
    m = json.loads(c.receive_raw())
    if m.get("error"):
        count(limited(m["parameters"]))
        break
    keep.append(c)
stop_readers()
said["stopped"] = sorted(stopped)
if sys.argv[3] == "leave":
    for c in keep:
        c.close()
at_worst()
"""


def reads_an_ended_run(daemon):
    job = daemon.run(spec("exit:0"))
    assert daemon.call("Events", job=job["run"])["events"]


# Readers that leave go through all that the others do: one kind is enough under sanitizers.
@pytest.mark.ci
@pytest.mark.root
@pytest.mark.parametrize("what", ["leave"] if SANITIZED and not ALL else ["stay", "leave"])
def test_stopped_readers_of_ended_runs_lock_out_no_other_user(box, shared, what):
    said = shared.attack(STOPPED_READERS, str(box.path("work")), what)
    assert said["readers of runs that are over for one user"] == 1, said
    assert len(said["stopped"]) == 16
    reads_an_ended_run(shared)
    if what == "leave":
        for pid in said["stopped"]:
            wait_gone(pid)


MANY_VALUES = """
body = sys.argv[2].encode()
body = b"[" + body * (int(7.9 * 2**20) // len(body)) + b"0]"
call = b'{"method":"io.elasticd.Manager.Validate","parameters":{"spec":{"x":' + body + b'}}}\\0'
for i in range(3):
    c = connect()
    try:
        c.send_raw(call)
    except OSError:
        pass
    refused(c)
at_worst()
"""


@pytest.mark.root
@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is its own")
@pytest.mark.parametrize("value", ["{},", "0,", '{"":0},'])
def test_a_call_of_many_values_is_refused_before_it_takes_memory(shared, value):
    """Eight mebibytes of "{}," were 600 MB in memory, and three seconds for everybody."""
    before = rss(shared.pid)
    assert shared.attack(MANY_VALUES, value) == {"values in one call": 3}
    assert rss(shared.pid) - before < 100 * MIB
    still_serves(shared)


def readers(daemon):
    return [pid for pid in children(daemon.pid) if "--serve=" in cmdline(pid)]


def test_a_reader_that_its_user_stops_is_killed_after_30_s_of_its_callers_wait(set_clocks, daemon):
    """As long as the caller does not read, it may take any time."""
    run = daemon.run(spec("lines:200000:100", logs={"redirects": 3}))["run"]
    got, ends = queue.SimpleQueue(), []

    def read_all(v):
        try:
            for _ in v.stream("Logs", job=run, lines=1000000):
                got.put("lines")
                held.wait()
        except VarlinkError as e:
            ends.append(e.message)

    held = threading.Event()
    with daemon.connect() as v:
        caller = threading.Thread(target=read_all, args=(v,))
        caller.start()
        got.get(timeout=PATIENCE)
        os.kill(readers(daemon)[0], signal.SIGSTOP)
        held.set()
        with contextlib.suppress(queue.Empty):  # the caller has read all that was written before
            while True:
                got.get(timeout=1)
        assert not ends, "no 30 s are over"
        # One step ends it, unless the caller got its last lines only after more than a second.
        for n in range(1, 4):
            set_clocks(monotonic=31 * n)
            daemon.call("Ping")
            caller.join(5)
        assert ends == ["the process that reads the run's files got nothing done, and was killed"]
    assert readers(daemon) == []


# In the place of a job's agent, by its user: says much of the job, and goes on living.
TALKER = """
import json, os, signal, socket, sys
path, job = sys.argv[1], json.loads(sys.argv[2])
job["reason"] = "x" * (7 << 20)
os.unlink(path)
listening = socket.socket(socket.AF_UNIX)
listening.bind(path)
listening.listen()
answer = json.dumps({"parameters": {"job": job, "events": []}, "continues": True}).encode() + bytes(1)
while True:
    peer = listening.accept()[0]
    try:
        if peer.recv(65536):
            peer.sendall(answer)
            break
    except OSError:
        pass  # elasticd has only looked whether somebody listens
print("said", flush=True)
signal.pause()
"""


@pytest.mark.ci
@pytest.mark.root
@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is its own")
def test_states_of_agents_take_a_bounded_part_of_memory(box, shared):
    user = other_user()
    before = rss(shared.pid)
    with contextlib.ExitStack() as at_end:
        for i in range(6):
            name, run = shared.submit(spec("hang", name=f"j{i}", user=user.pw_name))
            job = shared.wait(run, until="running")
            guard = stat_of(job["agent_pid"])[1]
            os.kill(guard, signal.SIGSTOP)
            at_end.callback(os.kill, guard, signal.SIGCONT)
            os.kill(job["agent_pid"], signal.SIGKILL)
            talker = box.start(*as_user(user, "/usr/bin/python3", "-c", TALKER,
                                        shared.agent_sock(name), json.dumps(job)), cwd="/")
            at_end.callback(talker.signal, signal.SIGKILL)
            talker.wait_out("said")
        shared.call("Ping")
        assert rss(shared.pid) - before < 64 * MIB
        assert {j["name"] for j in shared.call("List")["jobs"]} == {f"j{i}" for i in range(6)}


def large_states(daemon, count, size):
    """Runs that are over, of each of which its user's state file says much."""
    runs = [daemon.run(spec("exit:0"))["run"] for _ in range(count)]
    for run in runs:
        path = daemon.record(run) / "state.json"
        state = json.loads(path.read_text())
        state["job"]["workers"][0]["last_line"] = "x" * size
        path.write_text(json.dumps(state))
    return runs


@pytest.mark.ci
@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is its own")
def test_states_of_ended_runs_leave_memory_after_the_answer(daemon):
    before = rss(daemon.pid)
    for run in large_states(daemon, 10, 4 * MIB - 8192):
        assert len(daemon.status(run)["workers"][0]["last_line"]) > 4 * MIB - 10000
        assert daemon.wait(run)["state"] == "succeeded"
    assert rss(daemon.pid) - before < 32 * MIB


# On each connection the answers come in the order of the calls: the others wait behind the first.
WATCHES = """
for i in range(40):
    try:
        c = connect()
        keep.append(c)
        for _ in range(64):
            c.send("Watch", more=True, job=sys.argv[2])
        answer = json.loads(c.receive_raw())
    except (OSError, TypeError):
        count("closed")
        break
    if "error" in answer:
        count(limited(answer["parameters"]))
        break
at_worst()
"""


FOLLOWERS = """
for i in range(66):
    c = connect()
    keep.append(c)
    c.send("Events", more=True, follow=True)
    answer = json.loads(c.receive_raw())
    count(limited(answer["parameters"]) if "error" in answer else "follows")
at_worst()
"""


@pytest.mark.root
def test_streams_of_all_events_have_a_share_for_each_user(shared):
    said = shared.attack(FOLLOWERS)
    assert said == {"follows": 64, "streams of all events of one user": 2}
    with contextlib.ExitStack() as at_end:
        for _ in range(70):
            v = at_end.enter_context(shared.connect())
            assert v.send("Events", more=True, follow=True).receive()["continues"]
        run = shared.run(spec("exit:3"))["run"]
        assert next(e for e in v.receive()["parameters"]["events"] if e["run"] == run)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.root
def test_calls_that_are_handed_on_to_agents_have_a_share_for_each_user(shared):
    user = other_user()
    _, run = shared.submit(spec("hang", user=user.pw_name))
    shared.wait(run, until="running")
    before = descriptors(shared.pid)
    assert shared.attack(WATCHES, run, user=user.pw_uid) == {"calls to agents of one user": 1}
    assert descriptors(shared.pid) - before < 1100
    assert shared.status(run, live=True)["state"] == "running"


@pytest.mark.root
def test_the_last_descriptors_are_for_administrators(box):
    box.open_to_all()
    daemon = box.new_daemon(config="[elasticd]\nsocket_mode = 0666\nallow_users = *\n")
    daemon.base.chmod(0o755)
    daemon.prefix = ["prlimit", "--nofile=400:400"]
    daemon.start()
    user = other_user()
    _, run = daemon.submit(spec("hang", user=user.pw_name))
    daemon.wait(run, until="running")
    attack = box.start(*as_user(user, "/usr/bin/python3", "-c", VARLINK + PRELUDE + WATCHES,
                                str(daemon.socket), run), cwd="/")
    try:
        attack.wait_out("}")
        assert json.loads(attack.out) == {"open descriptors": 1}
        for _ in range(3):
            assert daemon.status(run, live=True)["state"] == "running"
        assert {"name", "run"} <= daemon.call("List")["jobs"][0].keys()
        with daemon.connect(), daemon.connect():
            assert daemon.run(spec("exit:0"))["state"] == "succeeded"
    finally:
        attack.signal(signal.SIGKILL)


SUBMITS = """
refused = None
for i in range(int(sys.argv[2])):
    try:
        connect().call("Start", spec=json.loads(sys.argv[3]))
    except Error as e:
        refused = [i, e.parameters]
        break
print(json.dumps(refused), flush=True)
"""


@pytest.mark.root
@pytest.mark.parametrize("configured, held",
                         [("", 2), ("jobs_per_user = 3\n", 3), ("jobs_per_user = 0\n", 8)])
def test_a_user_who_is_no_administrator_has_a_quarter_of_the_jobs(box, configured, held):
    box.open_to_all()
    daemon = box.new_daemon(config="[elasticd]\nsocket_mode = 0666\nallow_users = *\n"
                                   f"[limits]\njobs = 8\n{configured}")
    daemon.base.chmod(0o755)
    daemon.start()
    job = {"roles": [{"command": ["/bin/sleep", "1000"]}], "logs": {"dir": "/dev/null"}}
    said = subprocess.run(["/usr/bin/python3", "-c", VARLINK + PRELUDE + SUBMITS, str(daemon.socket), "9",
                           json.dumps(job)], stdout=subprocess.PIPE, preexec_fn=as_uid(other_user().pw_uid))
    refused, why = json.loads(said.stdout)
    assert refused == held
    what = "jobs of one user" if held < 8 else "jobs"
    assert why == {"message": f"elasticd's limit of {what} is reached: {held}", "limit": held}
    if not configured:
        for _ in range(8 - held):
            daemon.submit(spec("hang"))


def test_a_reload_of_the_configuration_keeps_connections_and_their_shares(daemon):
    with daemon.connect() as before:
        before.call("Ping")
        daemon.program.signal(signal.SIGHUP)
        daemon.program.wait_err("configuration reloaded")
        before.call("Ping")
        with daemon.connect() as after:
            after.call("Ping")
        assert daemon.run(spec())["state"] == "succeeded"


def test_a_reload_takes_all_of_the_configuration_or_nothing(box):
    daemon = box.new_daemon(config="[limits]\njobs = 1\n")
    daemon.start()
    conf = daemon.base / "elasticd.conf"
    conf.write_text("[limits]\njobs = 2\nslice = s\n[elasticd]\nscopes = maybe\n")
    errors = [f'{conf}:3: unknown key "slice" in section [limits]',
              f'{conf}:5: [elasticd] scopes: expected yes or no, found "maybe"']
    check = box.sh(DAEMON, "--check", f"--config={conf}")
    assert (check.rc, check.out, check.err.splitlines()) == (1, "", errors), check
    daemon.program.signal(signal.SIGHUP)
    daemon.program.wait_err(f"configuration not reloaded: {errors[0]} (and 1 more; ")
    daemon.submit(spec("hang"))
    with pytest.raises(VarlinkError) as e:
        daemon.submit(spec("hang"))
    assert e.value.parameters["limit"] == 1
    conf.write_text("[limits]\njobs = 2\n[elasticd]\nscopes = no\nslice = s.slice\n")
    check = box.sh(DAEMON, "--check", f"--config={conf}")
    assert (check.rc, check.out, check.err) == (0, f"{conf}: no errors\n", ""), check
    daemon.program.signal(signal.SIGHUP)
    daemon.program.wait_err("configuration reloaded; scopes, slice: at the next start")
    conf.write_text("[limits]\njobs = 2\n[elasticd]\nslice = s.slice\n")
    daemon.program.signal(signal.SIGHUP)
    daemon.program.wait_err("configuration reloaded; slice: at the next start")
    daemon.submit(spec("hang"))
