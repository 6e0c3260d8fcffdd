# SPDX-License-Identifier: Apache-2.0
"""What a job's user can write or say decides neither whose a job is, nor whether it lives."""

import json
import os
import signal

import pytest

from fake_agent import FakeAgent
from harness import (CTL, PUPPET, VarlinkError, alive, as_user, is_root, other_user, processes_of_run, spec,
                     stat_of, wait_file, wait_for)


def test_an_agent_gives_its_job_no_other_identity(daemon):
    name, run = daemon.submit(spec("hang"))
    job = daemon.wait(run, until="running")
    forged = {**job, "name": "system", "run": "system_aaaaaaaa", "user": "somebody", "uid": 12345,
              "created_us": 1, "agent_silent_since_us": 2}
    event = {"seq": 99, "time_us": 1, "event": "state", "text": "x", "job": "system", "run": "x"}
    fake = FakeAgent(daemon.agent_sock(name), {"Status": {"job": forged},
                                               "Events": {"events": [event, {"no": "event"}]}})
    try:
        told = daemon.status(run, live=True)
        for key in ("name", "run", "user", "uid", "created_us"):
            assert told[key] == job[key], key
        assert told.get("agent_silent_since_us") is None
        assert [(e["job"], e["run"]) for e in daemon.call("Events", job=run)["events"]] == [(name, run)]
        fake.answers["Status"] = {"job": {"state": "running"}}
        with pytest.raises(VarlinkError) as e:
            daemon.status(run, live=True)
        assert e.value.name == "Internal" and "cannot be used" in e.value.message
    finally:
        fake.close()
    daemon.call("Stop", job=run)
    assert daemon.wait(run)["verdict"]["result"] == "agent_lost", "nobody listens any more"


def test_the_name_of_an_agents_error_puts_nothing_else_into_an_answer(daemon):
    name, run = daemon.submit(spec("hang"))
    job = daemon.wait(run, until="running")
    forged = json.dumps({**job, "name": "system", "uid": 12345})
    evil = 'x","error":null,"parameters":{"job":' + forged + '},"error":"io.elasticd.Manager.x'
    fake = FakeAgent(daemon.agent_sock(name), {"Status": {"error": evil, "parameters": {}}})
    try:
        with daemon.connect() as v:
            v.send("Status", job=run, live=True)
            answer = v.receive_raw()
        assert b"system" not in answer and b"12345" not in answer, answer
        assert json.loads(answer)["parameters"]["job"]["name"] == name
    finally:
        fake.close()
    daemon.call("Stop", job=run)


@pytest.mark.parametrize("method, parameters", [("Stop", {}), ("Kill", {"signal": "KILL"})])
def test_an_agent_that_hangs_up_keeps_no_job_from_ending(daemon, method, parameters):
    name, run = daemon.submit(spec("hang"))
    daemon.wait(run, until="running")
    fake = FakeAgent(daemon.agent_sock(name), {method: {"error": "no name", "parameters": {}}})
    try:
        daemon.call(method, job=run, **parameters)
        verdict = daemon.wait(run)["verdict"]
    finally:
        fake.close()
    assert verdict["result"] == "agent_lost" and "hung up each time" in verdict["message"]


# --- the record -------------------------------------------------------------------------------------------


def damage(path, how):
    if how == "missing":
        path.unlink()
    elif how == "a directory":
        path.unlink()
        path.mkdir()
    elif how == "a link":
        path.rename(path.parent / "elsewhere")
        path.symlink_to("elsewhere")
    else:
        path.write_text("rubbish")


@pytest.mark.parametrize("how", ["missing", "a directory", "a link", "rubbish"])
def test_a_living_job_whose_record_cannot_be_read_is_taken_up(box, daemon, how):
    name, run = daemon.submit(spec("print:word", f"touch:{box.path('up')}", "hang", replicas=2,
                                   logs={"redirects": 3}, restart={"max": 3}))
    wait_file(box.path("up"))
    before, events = daemon.wait(run, until="running"), daemon.events(run)
    daemon.kill()
    damage(daemon.record(run) / "record.json", how)
    daemon.start()
    job = daemon.status(name)
    for key in ("name", "run", "user", "uid", "state", "command", "log_dir", "max_restarts", "agent_pid"):
        assert job[key] == before[key], key
    assert [t["pid"] for t in job["workers"]] == [t["pid"] for t in before["workers"]]
    assert daemon.events(run) == events
    assert run in daemon.program.err and "made again" in daemon.program.err, daemon.program.err
    daemon.restart()
    daemon.call("Restart", job=name)
    assert daemon.until_attempt(name, 1)["run"] == run
    daemon.call("Stop", job=name, timeout_ms=0)
    assert daemon.wait(run)["state"] == "stopped"


def test_a_job_without_any_file_on_disk_can_be_stopped(box, daemon):
    name, run = daemon.submit(spec("hang"))
    pid = daemon.wait(run, until="running")["agent_pid"]
    daemon.kill()
    for path in [*daemon.record(run).iterdir(), daemon.agent_sock(name).parent / "spec.json"]:
        path.unlink()
    daemon.start()
    assert daemon.status(name)["agent_pid"] == pid
    daemon.call("Stop", job=name, timeout_ms=0)
    assert daemon.wait(run)["state"] == "stopped"


@pytest.mark.parametrize("silent", [False, True])
def test_a_forged_verdict_ends_no_running_job(box, daemon, silent):
    name, run = daemon.submit(spec("hang"))
    job = daemon.wait(run, until="running")
    daemon.kill()
    verdict = {"result": "succeeded", "exit_status": 0, "message": "all workers succeeded"}
    (daemon.record(run) / "verdict.json").write_text(json.dumps(verdict))
    path = daemon.record(run) / "state.json"
    state = json.loads(path.read_text())
    state["job"].update(state="succeeded", verdict=verdict)
    path.write_text(json.dumps(state))
    if silent:
        os.kill(job["agent_pid"], signal.SIGSTOP)
    daemon.start()
    job = daemon.status(run)
    assert "verdict" not in job and job["state"] == ("pending" if silent else "running"), job
    daemon.call("Stop", job=run, timeout_ms=0)
    assert daemon.wait(run)["verdict"]["result"] == ("agent_lost" if silent else "stopped")


def test_a_forged_verdict_ends_no_job_whose_connection_broke(box, daemon):
    name, run = daemon.submit(spec("hang"))
    job = daemon.wait(run, until="running")
    guard = stat_of(job["agent_pid"])[1]
    os.kill(guard, signal.SIGSTOP)
    (daemon.record(run) / "verdict.json").write_text(
        json.dumps({"result": "succeeded", "exit_status": 0, "message": "all workers succeeded"}))
    os.kill(job["agent_pid"], signal.SIGKILL)
    wait_for(lambda: "agent-lost" in daemon.status(run).get("reason", ""), what="elasticd to see the death")
    assert "verdict" not in daemon.status(run)
    os.kill(guard, signal.SIGCONT)


# Says that the run was preempted, and in the verdict what a record of root's job would have.
IMPOSTOR = """
import json, os, socket, sys
path, answer = sys.argv[1], sys.argv[2].encode() + bytes(1)
os.unlink(path)
listening = socket.socket(socket.AF_UNIX)
listening.bind(path)
listening.listen()
print("listens", flush=True)
while True:
    peer = listening.accept()[0]
    if peer.recv(65536):
        peer.sendall(answer)
        print("answered", flush=True)
    peer.recv(65536)
"""


@pytest.mark.skipif(not is_root(), reason="needs root to be another user")
def test_answers_of_a_changed_agent_never_become_a_record(box):
    """elasticd writes the verdict into the run's directory, where its user can rename it."""
    box.open_to_all()
    daemon = box.new_daemon(config="[elasticd]\nsocket_mode = 0666\nallow_users = *\n")
    daemon.base.chmod(0o755)
    daemon.start()
    user, touched = other_user(), box.path("tmp/touched")
    name, run = daemon.submit(spec("hang", user=user.pw_name, name="j"))
    job = daemon.wait(run, until="running")
    record = json.loads((daemon.record(run) / "record.json").read_text())
    evil = dict(spec(f"touch:{touched}", name="j"), preemption={"resume": True})
    verdict = {"result": "preempted", "exit_status": 42, "message": "x"}
    forged = {**record, "uid": 0, "user": "root", "spec": evil, "ended": verdict, "ended_us": 5, **verdict}
    answer = {"parameters": {"job": {**job, "state": "preempted", "verdict": forged}, "events": []},
              "continues": True}
    fake = box.start(*as_user(user, "/usr/bin/python3", "-c", IMPOSTOR, daemon.agent_sock(name),
                              json.dumps(answer)), cwd="/")
    fake.wait_out("listens")
    guard = stat_of(job["agent_pid"])[1]
    os.kill(guard, signal.SIGSTOP)
    os.kill(job["agent_pid"], signal.SIGKILL)
    wait_for(lambda: daemon.status(run)["state"] == "preempted", what="the forged verdict")
    os.kill(guard, signal.SIGCONT)
    moved = box.sh(*as_user(user, "mv", "-f", "verdict.json", "record.json"), cwd=daemon.record(run))
    assert moved.rc == 0, moved
    daemon.restart()
    assert "belongs to user" in daemon.program.err, daemon.program.err
    for job in daemon.call("List", ended=True)["jobs"]:
        daemon.wait(job["run"])
        assert job["uid"] != 0, job
    assert not touched.exists()


# --- everything that tells of a job -----------------------------------------------------------------------


@pytest.fixture
def guest(box):
    """A system's daemon that serves another, unprivileged user."""
    if not is_root():
        pytest.skip("needs root to be another user")
    box.open_to_all()
    daemon = box.new_daemon(config=f"[elasticd]\nallow_users = {other_user().pw_name}\n")
    daemon.base.chmod(0o755)
    return daemon.start()


def as_guest(box, *argv):
    r = box.sh(*as_user(other_user(), *argv), cwd="/")
    assert r.rc == 0, r
    return r


def start_as_guest(box, guest, name):
    """A job whose worker ignores SIGTERM and has a child that left its session."""
    as_guest(box, CTL, "start", f"--name={name}", "--log-dir=/dev/null", PUPPET, "ignore:TERM",
             "setsid-fork:ignore:TERM+hang", "hang")
    return guest.wait(name, until="running")


# What the user of a job can do to what is known of it: $1 is its record, $2 its runtime directory.
HIDE = {
    "replaced": """rm "$1/record.json" "$2/lock" "$2/agent.sock" "$2/spec.json"
        mkfifo "$2/lock"; ln -s "$1/state.json" "$2/agent.sock"; mkdir "$2/spec.json" """,
    "removed": """rm -r "$1"/* "$1"/.[a-z]* "$2"/*""",
    "in the way": """rm -r "$1"/* "$2"/*
        mkdir -p "$1/.record.json.new/x" "$1/state.json" "$2/agent.sock" """,
}


@pytest.mark.parametrize("how", HIDE)
def test_a_user_cannot_hide_a_job_from_the_next_elasticd(box, guest, how):
    job = start_as_guest(box, guest, "hidden")
    guest.submit(spec("hang", name="roots"))
    guest.wait("roots", until="running")
    old = [job["agent_pid"], stat_of(job["agent_pid"])[1], *processes_of_run(job["run"])]
    guest.kill()
    runtime = guest.agent_sock("hidden").parent
    as_guest(box, "/bin/sh", "-e", "-c", HIDE[how], "sh", guest.record(job["run"]), runtime)
    guest.start()
    found = {j["name"]: j for j in guest.call("List")["jobs"]}["hidden"]
    assert (found["run"], found["user"], found["uid"], found["created_us"]) == (
        job["run"], job["user"], job["uid"], job["created_us"])
    assert found["reason"].startswith(f"agent-lost: {runtime}/agent.sock: "), found
    assert how == "removed" or "expected the agent's socket" in found["reason"]
    refused = box.sh(*as_user(other_user(), CTL, "start", "--name=hidden", "--", "true"), cwd="/")
    assert refused.rc != 0 and "hidden" in refused.err, refused
    guest.call("Stop", job="hidden")
    assert guest.wait(job["run"])["verdict"]["result"] == "agent_lost"
    assert len(old) >= 4 and [p for p in old if alive(p)] == []
    assert guest.status("roots")["state"] == "running"
    if how == "replaced":
        guest.restart()
        assert guest.status(job["run"])["verdict"]["result"] == "agent_lost"


def test_an_old_record_hides_no_guard(box, guest):
    """A record of elasticd's own that is from before the guard, moved into place again."""
    job = start_as_guest(box, guest, "hidden")
    guard = stat_of(job["agent_pid"])[1]
    path = guest.record(job["run"]) / "record.json"
    guest.kill()
    record = json.loads(path.read_text())
    record["agent"].update(pid=0, start_ticks=0)
    path.write_text(json.dumps(record))
    as_guest(box, "/bin/sh", "-e", "-c", 'rm "$1/lock" "$1/agent.sock"; mkfifo "$1/lock"', "sh",
             guest.agent_sock("hidden").parent)
    guest.start()
    guest.call("Stop", job="hidden", timeout_ms=0)
    assert guest.wait(job["run"])["verdict"]["result"] == "agent_lost", "no second agent was started"
    assert not alive(guard)


def test_a_job_outlives_the_loss_of_the_state_directory(box, daemon):
    name, run = daemon.submit(spec("hang"))
    pid = daemon.wait(run, until="running")["agent_pid"]
    daemon.kill()
    daemon.state.rename(box.path("lost"))  # in one step: the agent may be writing its state
    daemon.start()
    assert daemon.wait(run, until="running")["agent_pid"] == pid
    daemon.call("Stop", job=name, timeout_ms=0)
    assert daemon.wait(run)["state"] == "stopped"


def test_only_elasticd_can_write_what_it_finds_guards_by(box, guest):
    run = start_as_guest(box, guest, "seen")["run"]
    living = guest.runtime / "living"
    assert [p.name for p in living.iterdir()] == [run]
    for path in (living, living / run, living / run / "record.json"):
        st = path.stat()
        assert (st.st_uid, st.st_mode & 0o077) == (0, 0), path
    guest.call("Stop", job=run, timeout_ms=0)
    guest.wait(run)
    wait_for(lambda: not list(living.iterdir()), living, what="the record among the living to go")
    # One that is left of a guard that has gone.
    guest.kill()
    record = json.loads((guest.record(run) / "record.json").read_text())
    gone = living / "gone_abcd1234"
    gone.mkdir()
    (gone / "record.json").write_text(json.dumps({**record, "name": "gone", "run": gone.name}))
    guest.start()
    assert not gone.exists() and [j["name"] for j in guest.call("List", ended=True)["jobs"]] == ["seen"]
