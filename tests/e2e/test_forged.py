# SPDX-License-Identifier: Apache-2.0
"""What a job's user can write or say decides neither whose a job is, nor whether it lives."""

import json
import os
import signal
import socket
import threading

import pytest

from harness import VarlinkError, spec, stat_of, wait_file, wait_for


class FakeAgent:
    """Listens in the place of a job's agent, and answers Status, Events and Watch as it likes."""

    def __init__(self, path, answers):
        self.answers = answers
        path.unlink()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(str(path))
        self.sock.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection = self.sock.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        buffer = b""
        while data := connection.recv(65536):
            *messages, buffer = (buffer + data).split(b"\0")
            for message in messages:
                method = json.loads(message)["method"].rpartition(".")[2]
                reply = {"parameters": self.answers.get(method, {})}
                connection.sendall(json.dumps(reply).encode() + b"\0")

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


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
        assert e.value.name == "Failed" and "cannot be used" in e.value.message
    finally:
        fake.close()
    daemon.call("Stop", job=run)
    assert daemon.wait(run)["verdict"]["result"] == "agent_lost", "nobody listens any more"


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
    assert [t["pid"] for t in job["tasks"]] == [t["pid"] for t in before["tasks"]]
    assert daemon.events(run) == events
    assert run in daemon.program.err and "made again" in daemon.program.err, daemon.program.err
    daemon.restart()
    daemon.call("Restart", job=name)
    assert daemon.until_attempt(name, 1)["run"] == run
    daemon.call("Stop", job=name, timeout_ms=0)
    assert daemon.wait(run)["state"] == "stopped"


def test_one_that_nothing_on_disk_tells_of_can_be_stopped(box, daemon):
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
