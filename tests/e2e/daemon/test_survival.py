# SPDX-License-Identifier: Apache-2.0
"""What dies, and what goes on: elasticd, agent and guard killed, records hurt, disks full, clocks jumping."""

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import (DAEMON, PATIENCE, SANITIZED, SLOWER, Unmet, Varlink, VarlinkError, alive, fill,
                     line_bytes, processes_of_run, spec, stat_of, wait_file, wait_for, wait_gone,
                     wait_lines)
from killing import kill_agent, up


def strip(job):
    """What must not change by a restart of elasticd."""
    volatile = {"last_line", "rss_bytes", "cpu_ms"}
    spent = {"goodput", "memory_bytes", "cpu_ms"}
    job = {k: v for k, v in job.items() if k not in spent and v is not None}
    job["workers"] = [{k: v for k, v in t.items() if k not in volatile and v is not None}
                    for t in job["workers"]]
    return job


def settled(daemon, job):
    """The Job object as soon as elasticd has heard all that the job's agent says of it."""
    def known():
        told, live = strip(daemon.status(job)), strip(daemon.status(job, live=True))
        live["created_us"] = told["created_us"]  # elasticd's word, which counts, is of a moment before
        return told if told == live else None

    return wait_for(known, what="elasticd to know what the agent does")


# --- elasticd dies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lives", [False, True])
def test_the_lock_of_a_daemon_that_died_may_be_held_for_a_while(daemon, lives):
    """By a child that has not executed its program yet."""
    daemon.call("Version")
    daemon.kill()
    lock = next(daemon.base.rglob("elasticd.lock"))
    with open(lock, "r+", encoding="ascii") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if lives:
            held.write(f"{os.getpid()}\n")
            held.flush()
            with pytest.raises(Unmet, match=rf"another elasticd \(pid {os.getpid()}\)"):
                daemon.start()
        else:
            later = threading.Timer(3, lambda: fcntl.flock(held, fcntl.LOCK_UN))
            later.start()
            daemon.start()
            later.join()
    if lives:
        daemon.start()
    assert daemon.call("Version")["pid"] == daemon.pid


def test_everything_is_as_if_nothing_had_been(box, daemon):
    running, _ = daemon.submit(spec("print:line %r", "if-attempt:0:exit:1", f"touch:{box.path('up')}.%r",
                                    "hang", replicas=3, restart={"max": 5}, logs={"redirects": 3}))
    for rank in range(3):
        wait_file(box.path(f"up.{rank}"))
    waiting, _ = daemon.submit(spec("exit:1", restart={"max": 5, "backoff": "10m"}))
    daemon.watch(waiting, lambda job, _: job["state"] == "backoff")
    failed = daemon.run(spec("if-rank:1:error-json:object:boom+exit:3", replicas=2))["run"]
    runs = [running, waiting, failed]
    daemon.until_attempt(running, 1)
    before = [settled(daemon, r) for r in runs]
    assert [job["state"] for job in before] == ["running", "backoff", "failed"]
    events = [daemon.events(r) for r in runs]
    why = [daemon.call("Why", job=r)["budget"] for r in runs]
    daemon.restart()
    # Its first word is from a file that an agent may have been about to write anew.
    with contextlib.suppress(Unmet):
        wait_for(lambda: [strip(daemon.status(r)) for r in runs] == before)
    assert [strip(daemon.status(r)) for r in runs] == before
    assert [daemon.events(r) for r in runs] == events, "history was lost or made up"
    assert [daemon.call("Why", job=r)["budget"] for r in runs] == why
    assert daemon.call("Errors", job=failed)["failures"][0]["message"] == "boom"
    assert {j["run"] for j in daemon.call("List", ended=True)["jobs"]} == {b["run"] for b in before}


def test_events_while_elasticd_is_away_are_known_afterwards(box, daemon):
    restarting, r1 = daemon.submit(spec(f"mark:{box.path('m1')}", f"if-attempt:0:wait-file:{box.path('go')}"
                                        "+exit:7", "hang", restart={"max": 3}))
    ending, r2 = daemon.submit(spec(f"mark:{box.path('m2')}", f"wait-file:{box.path('go')}",
                                    "print:done", "exit:0", logs={"redirects": 3}))
    failing, r3 = daemon.submit(spec(f"mark:{box.path('m3')}", f"wait-file:{box.path('go')}",
                                     "error-json:object:while away", "exit:9"))
    for m in ("m1", "m2", "m3"):
        wait_lines(box.path(m), 1)
    agents = [daemon.agent_pid(r) for r in (r2, r3)]
    daemon.kill()
    box.path("go").touch()
    wait_lines(box.path("m1"), 2)
    for pid in agents:
        wait_gone(pid)
    daemon.start()
    assert daemon.until_attempt(restarting, 1)["restarts"] == 1
    seqs = [e["seq"] for e in daemon.events(r1)]
    assert seqs == list(range(1, len(seqs) + 1)), "a gap in the history"
    assert daemon.wait(r2)["state"] == "succeeded"  # a guard may still be ending
    job = daemon.wait(r3)
    assert (job["state"], job["verdict"]["exit_status"]) == ("failed", 9)
    assert job["verdict"]["root_cause"]["message"] == "while away"
    with daemon.connect() as v:
        lines = [line_bytes(x) for a in v.stream("Logs", job=ending) for x in a["lines"]]
    assert lines == [b"done"]


def test_running_workers_are_not_touched(box, daemon):
    name, run = daemon.submit(spec("ignore:TERM", "hang", replicas=4))
    job = daemon.wait(name, until="running")
    pids = [t["pid"] for t in job["workers"]]
    starts = [stat_of(p)[3] for p in pids]
    for signo in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        daemon.restart(signo)
        assert [stat_of(p)[3] for p in pids] == starts
        again = daemon.wait(name, until="running")
        assert [t["pid"] for t in again["workers"]] == pids
        assert again["agent_pid"] == job["agent_pid"]


def test_commands_work_on_an_adopted_job(box, daemon):
    name, run = daemon.submit(spec(f"on:USR1:touch:{box.path('got')}", f"mark:{box.path('marks')}",
                                   "print:x", "hang", logs={"redirects": 3}))
    wait_lines(box.path("marks"), 1)
    daemon.restart()
    daemon.call("Kill", job=name, signal="USR1")
    wait_file(box.path("got"))
    daemon.call("Restart", job=name)
    wait_lines(box.path("marks"), 2)
    daemon.call("Scale", job=name, replicas=2)
    wait_lines(box.path("marks"), 4)
    assert len(daemon.until_attempt(name, 2)["workers"]) == 2
    daemon.call("Stop", job=name)
    assert daemon.wait(run)["state"] == "stopped"


def test_a_name_stays_taken_over_a_restart(daemon):
    daemon.submit(spec("hang", name="one"))
    daemon.restart()
    with pytest.raises(VarlinkError) as e:
        daemon.submit(spec(name="one"))
    assert e.value.name == "AlreadyExists"


@pytest.mark.ci
@pytest.mark.slow
def test_killed_at_many_moments_of_a_start(box, daemon):
    """A job whose start was answered is there afterwards; one that was not may be, but never half."""
    accepted = []
    for i in range(24 // SLOWER):
        v = daemon.connect()
        for k in range(3):
            v.send("Start", spec=spec("exit:0" if k else "hang", name=f"j{i}.{k}"))
        if i % 3 == 0:
            accepted.append(v.reply()["run"])
        elif i % 3 == 1:
            wait_for(lambda: any((daemon.state / "jobs").glob(f"j{i}.*")), daemon.state / "jobs",
                     what="a record")
        daemon.kill()
        try:
            while True:
                accepted.append(v.reply()["run"])
        except (ConnectionError, OSError):
            pass
        v.close()
        daemon.start()
        if i % 3 != 2:
            known = {j["run"] for j in daemon.call("List", ended=True)["jobs"]}
            assert set(accepted) <= known, f"round {i}: accepted jobs were lost"
    for job in daemon.call("List", ended=True)["jobs"]:
        if job["name"].endswith(".0"):
            assert daemon.wait(job["run"], until="running")["state"] == "running"
        else:
            assert daemon.wait(job["run"])["state"] == "succeeded"
    records = [p.name for p in (daemon.state / "jobs").iterdir()]
    assert not [r for r in records if "corrupt" in r], records


def test_killed_while_jobs_restart_and_end(box, daemon):
    name, run = daemon.submit(spec("if-attempt:60:exit:0", "sleep:5", "exit:1", replicas=2,
                                   restart={"max": 60}))
    for _ in range(8):
        daemon.restart()
    job = daemon.wait(run)
    assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 60, 60)
    seqs = [e["seq"] for e in daemon.events(run)]
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_caller_that_waits_is_told_that_the_connection_broke(box, daemon):
    name, _ = daemon.submit(spec("hang"))
    wait = box.ctl_start("wait", name)
    events = box.ctl_start("events", "-f", name)
    daemon.wait(name, until="running")
    events.wait_out("running")
    daemon.kill()
    assert wait.wait().rc not in (0, 1)
    assert events.wait().rc != 0
    daemon.start()


# --- the agent dies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("whom", ["agent", "guard", "both"])
def test_a_lost_agent_without_budget(box, daemon, whom):
    name, run, job = up(box, daemon)
    old = processes_of_run(run)
    kill_agent(job, whom)
    ended = daemon.wait(run)
    assert ended["state"] == "failed" and ended["verdict"]["result"] == "agent_lost", ended
    assert ended["verdict"]["exit_status"] == 125
    assert [p for p in old if alive(p)] == []
    assert box.ctl("wait", run).rc == 125


@pytest.mark.parametrize("whom", ["agent", "guard", "both"])
def test_a_lost_agent_with_budget(box, daemon, whom):
    name, run, job = up(box, daemon, f"hold:{box.path('lock')}.%r", restart={"max": 2})
    old = processes_of_run(run)
    kill_agent(job, whom)
    for rank in range(3):
        wait_file(box.path(f"up.1.{rank}"))
    assert [p for p in old if alive(p)] == [], "the next attempt began beside the old one"
    assert daemon.until_attempt(name, 1)["restarts"] == 1
    budget = daemon.call("Why", job=name)["budget"]
    assert budget["by_cause"].get("agent-lost") == 1 and budget["left"] == 1, budget
    assert "agent-lost" in [e["event"] for e in daemon.events(run)]


@pytest.mark.parametrize("first", ["agent", "elasticd"])
def test_agent_and_elasticd_killed_together(box, daemon, first):
    name, run, job = up(box, daemon, f"hold:{box.path('lock')}.%r", restart={"max": 1})
    old = processes_of_run(run)
    if first == "agent":
        kill_agent(job, "both")
        daemon.kill()
    else:
        daemon.kill()
        kill_agent(job, "both")
    daemon.start()
    for rank in range(3):
        wait_file(box.path(f"up.1.{rank}"))
    assert [p for p in old if alive(p)] == []
    assert daemon.until_attempt(name, 1)["restarts"] == 1


def test_an_agent_that_keeps_dying_is_given_up(box, daemon):
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", "hang", restart={"max": 1000}))
    seen, killed = [], []  # when each agent was
    while True:
        job = daemon.watch(name, lambda job, _, n=len(killed): job.get("verdict")
                           or (job["state"], job["attempt"]) == ("running", n))
        if job.get("verdict"):
            break
        seen.append(time.monotonic())
        wait_lines(box.path("marks"), len(seen))
        killed.append(time.monotonic())
        kill_agent(job, "both")
    assert job["verdict"]["result"] == "agent_lost", job
    # Three times within a minute: on a slow machine it takes more of them.
    assert len(killed) >= 3 and len(wait_lines(box.path("marks"), 3)) == len(killed)
    assert all(late - early >= 60 for early, late in zip(killed, seen[3:])), (killed, seen)
    daemon.restart()
    assert daemon.status(run)["verdict"]["result"] == "agent_lost", "the verdict is on disk"


def test_counts_and_history_survive_the_agent(box, daemon):
    name, run = daemon.submit(spec("if-attempt:0:exit:42", "if-attempt:1:exit:1",
                                   f"touch:{box.path('up')}.%a", "hang", restart={"max": 5}))
    wait_file(box.path("up.2"))
    job = daemon.watch(name, lambda job, _: job["attempt"] == 2 and job["state"] == "running")
    assert (job["attempt"], job["restarts"]) == (2, 1)
    kill_agent(job, "agent")
    wait_file(box.path("up.3"))
    job = daemon.watch(name, lambda job, _: job["attempt"] == 3 and job["state"] == "running")
    assert (job["attempt"], job["restarts"]) == (3, 2)
    seqs = [e["seq"] for e in daemon.events(run)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert (pathlib.Path(job["log_dir"]) / "attempt_0").is_dir()


def test_a_stop_that_was_answered_holds_when_the_agent_dies(box, daemon):
    name, run, job = up(box, daemon, restart={"max": 5})
    daemon.call("Stop", job=name)
    kill_agent(job, "both")
    job = daemon.wait(run)
    assert (job["state"], job["attempt"]) == ("stopped", 0), job
    assert job["verdict"]["exit_status"] == 143 and "on request" in job["verdict"]["message"]


@pytest.mark.parametrize("whom", ["agent", "guard", "both"])
def test_a_worker_stopped_by_a_person_stays_stopped_under_later_agents(box, daemon, whom):
    name, _, job = up(box, daemon, restart={"max": 9})
    for tasks in ("worker:0", "worker:2"):
        assert daemon.call("StopWorkers", job=name, workers=tasks, timeout_ms=0)["stopped"] == 1
    daemon.call("StartWorker", job=name, role="worker", index=2)
    for attempt in (1, 2):  # the second one knows it from the first, which never ran it
        kill_agent(job, whom)
        job = daemon.watch(name, lambda job, _, n=attempt: (job["attempt"], job["state"]) == (n, "running"))
        assert [(t["state"], t.get("on_purpose", False)) for t in job["workers"]] == [
            ("stopped", True), ("running", False), ("running", False)]


@pytest.mark.parametrize("whom", ["agent", "both"])
@pytest.mark.parametrize("again", ["StartWorker", "Restart"])
def test_a_worker_started_again_by_a_person_is_started_by_the_next_agent(box, daemon, whom, again):
    name, _, job = up(box, daemon, restart={"max": 9})
    assert daemon.call("StopWorkers", job=name, workers="worker:0", timeout_ms=0)["stopped"] == 1
    if again == "StartWorker":
        daemon.call("StartWorker", job=name, role="worker", index=0)
    else:
        daemon.call("Restart", job=name)
    kill_agent(job, whom)
    job = daemon.watch(name, lambda job, _: job["attempt"] > 0 and job["state"] == "running")
    assert [t["state"] for t in job["workers"]] == ["running"] * 3


def test_a_failure_that_was_decided_holds_when_the_agent_dies(box, daemon):
    name, run = daemon.submit(spec("ignore:TERM", f"barrier:{box.path('bar')}", "if-rank:1:exit:7", "hang",
                                   replicas=2, restart={"max": 5, "codes": {"7": "fatal"}}))
    job = daemon.watch(name, lambda job, _: job["state"] == "stopping")
    kill_agent(job, "both")
    job = daemon.wait(run)
    assert (job["state"], job["attempt"], job["verdict"]["result"]) == ("failed", 0, "failed"), job
    assert job["verdict"]["exit_status"] == 7 and "fatal" in job["verdict"]["message"]


@pytest.mark.parametrize("whom", ["agent", "guard", "both"])
def test_an_agent_lost_in_a_backoff_costs_no_restart(box, daemon, whom):
    for seconds in (3, 30):  # one of them is long enough for any machine to come in time
        begun = time.monotonic()
        name, run = daemon.submit(spec("if-attempt:0:exit:1", "hang",
                                       restart={"max": 1, "backoff": f"{seconds}s"}))
        job = daemon.watch(name, lambda job, _: job["state"] == "backoff")
        kill_agent(job, whom)
        if time.monotonic() - begun < seconds:
            break
    job = daemon.watch(name, lambda job, _: job["state"] == "running")
    assert (job["attempt"], job["restarts"]) == (1, 1)
    times = {}
    for e in daemon.events(run):
        times.setdefault((e["event"], e.get("attempt")), e["time_us"])
    assert times["started", 1] - times["backoff", 0] >= seconds * 1_000_000 - 10_000, "the wait was cut short"


@pytest.mark.parametrize("lost", ["verdict", "verdict and state", "verdict, state and last event"])
def test_a_job_that_had_ended_is_not_run_again_for_want_of_its_verdict(box, daemon, lost):
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", f"wait-file:{box.path('go')}",
                                   "error-json:object:boom", "exit:9",
                                   restart={"max": 5, "codes": {"9": "fatal"}}))
    agent = daemon.wait(run, until="running")["agent_pid"]
    daemon.kill()
    box.path("go").touch()
    wait_gone(agent)
    verdict = json.loads((daemon.record(run) / "verdict.json").read_text())
    (daemon.record(run) / "verdict.json").unlink()
    if "state" in lost:
        path = daemon.record(run) / "state.json"
        state = json.loads(path.read_text())
        del state["job"]["verdict"]
        path.write_text(json.dumps({**state, "job": {**state["job"], "state": "stopping"}, "seq": 7}))
    if "event" in lost:
        path = daemon.record(run) / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        assert '"event":"ended"' in lines[-1]
        path.write_text("".join(lines[:-1]))
    daemon.start()
    job = daemon.wait(run)
    assert job["verdict"] == verdict and job["state"] == "failed"
    assert len(wait_lines(box.path("marks"), 1)) == 1, "it was run again"
    assert [e["event"] for e in daemon.events(run)].count("ended") == 1


def test_an_agent_that_hangs_does_not_hang_elasticd(box, daemon):
    name, run, job = up(box, daemon)
    os.kill(job["agent_pid"], signal.SIGSTOP)
    try:
        with daemon.connect() as slow:
            slow.send("Status", job=name, live=True)
            assert daemon.call("Status", job=name)["job"]["state"] == "running"
            assert daemon.run(spec())["state"] == "succeeded"
            assert len(daemon.call("List")["jobs"]) == 1
    finally:
        os.kill(job["agent_pid"], signal.SIGCONT)


# --- records, sockets, disks -----------------------------------------------------------------------------


DAMAGE = {
    "empty": lambda text: b"",
    "half": lambda text: text[: len(text) // 2],
    "rubbish": lambda text: b"\x00\xff" * 200,
    "not an object": lambda text: b"[1, 2]\n",
    "no spec": lambda text: b'{"name": "x", "run": "x_12345678"}\n',
    "deep": lambda text: b"[" * 100000,
    "wrong types": lambda text: text.replace(b'"uid":', b'"uid": "root", "u":'),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_record_is_named_and_hurts_nothing_else(box, daemon, kind):
    good, good_run = daemon.submit(spec("hang"))
    daemon.wait(good, until="running")
    bad = daemon.run(spec(name="bad"))["run"]
    wait_for(lambda: not daemon.agent_sock("bad").parent.exists(), what="the guard to leave")
    daemon.kill()
    path = daemon.record(bad) / "record.json"
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    daemon.start()
    assert daemon.wait(good, until="running")["state"] == "running"
    assert daemon.run(spec())["state"] == "succeeded"
    assert "record.json" in daemon.program.err and bad in daemon.program.err, daemon.program.err
    names = [p.name for p in (daemon.state / "jobs").iterdir()]
    assert any(n.startswith(f"{bad}.corrupt") for n in names), names
    with pytest.raises(VarlinkError):
        daemon.status(bad)


def test_a_run_that_is_over_is_known_without_the_files_of_its_user(daemon):
    """They are not read when elasticd begins: it would take as long as that user likes."""
    over = [daemon.run(spec("exit:3", name="failed"))["run"], daemon.run(spec())["run"]]
    before = daemon.call("List", ended=True)["jobs"]
    daemon.stop()
    for run in over:
        for name in ("state.json", "verdict.json", "events.jsonl", "spec.json"):
            (daemon.record(run) / name).write_text("rubbish")
    daemon.start()
    assert daemon.call("List", ended=True)["jobs"] == before
    assert "rubbish" not in daemon.program.err and "json" not in daemon.program.err, daemon.program.err
    for run, job in zip(over, before):
        status = daemon.status(run)
        assert (status["state"], status["verdict"]) == (job["state"], job["verdict"])


@pytest.mark.ci
def test_files_that_take_long_to_read_do_not_hold_up_the_start(box, daemon):
    """Of runs that are not over some are read, as long as there is time; of the others all comes to light."""
    runs = [daemon.submit(spec(f"mark:{box.path('m')}", f"wait-file:{box.path('go')}" if i % 2 else "hang",
                               name=f"j{i}"))[1] for i in range(12 if SANITIZED else 24)]
    wait_lines(box.path("m"), len(runs))
    agents = [daemon.agent_pid(run) for run in runs]
    daemon.kill()
    box.path("go").touch()
    for pid in agents[1::2]:
        wait_gone(pid)
    for run in runs:
        path = daemon.record(run) / "state.json"
        state = json.loads(path.read_text())
        state["job"]["x"] = ["yyyyyyyy"] * 240000
        path.write_text(json.dumps(state))
    daemon.start()
    assert "its files are not read now" in daemon.program.err
    for run in runs[1::2]:
        assert daemon.wait(run)["state"] == "succeeded"
    assert [daemon.status(run)["agent_pid"] for run in runs[::2]] == agents[::2]
    for run in runs[::2]:
        daemon.call("Stop", job=run, timeout_ms=0)


@pytest.mark.parametrize("name", ["state.json", "events.jsonl", "verdict.json"])
@pytest.mark.parametrize("kind", ["empty", "half", "rubbish"])
def test_damaged_files_of_the_agent_are_survived(box, daemon, name, kind):
    good, _ = daemon.submit(spec("hang"))
    bad = daemon.run(spec("exit:3", name="bad"))["run"]
    daemon.kill()
    path = daemon.record(bad) / name
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    daemon.start()
    assert daemon.wait(good, until="running")["state"] == "running"
    assert daemon.run(spec())["state"] == "succeeded"
    assert daemon.call("List", ended=True)["jobs"]


def test_strange_things_in_the_state_directory(box, daemon):
    daemon.submit(spec("hang", name="good"))
    daemon.wait("good", until="running")
    daemon.kill()
    jobs = daemon.state / "jobs"
    (jobs / "a-file").write_text("x")
    (jobs / "empty_12345678").mkdir()
    (jobs / "link_12345678").symlink_to("/etc")
    (jobs / ".hidden").mkdir()
    daemon.start()
    assert daemon.wait("good", until="running")["state"] == "running"


def test_a_stale_control_socket_is_replaced(box):
    daemon = box.new_daemon()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(daemon.socket))
    daemon.start()
    assert daemon.call("Ping") == {}


def test_something_else_in_the_sockets_place_is_refused(box):
    daemon = box.new_daemon()
    daemon.socket.write_text("precious")
    with pytest.raises(Unmet):
        daemon.start()
    assert daemon.socket.read_text() == "precious"
    assert str(daemon.socket) in daemon.program.err


def test_stale_agent_sockets_are_no_trouble(box, daemon):
    name, run, job = up(box, daemon, restart={"max": 1})
    daemon.kill()
    kill_agent(job, "both")
    wait_gone(job["agent_pid"])
    daemon.start()
    wait_file(box.path("up.1.0"))
    assert daemon.until_attempt(name, 1)["restarts"] == 1


def test_one_death_of_an_agent_counts_once_however_often_it_seems_to_be_there(box, daemon):
    """As long as the kernel has not torn it down its socket may take connections, which end at once."""
    name, run, job = up(box, daemon, restart={"max": 2})
    guard = stat_of(job["agent_pid"])[1]
    sock = daemon.agent_sock(name)
    sock.unlink()
    with socket.socket(socket.AF_UNIX) as dying:
        dying.bind(str(sock))
        dying.listen()
        dying.settimeout(PATIENCE)
        os.kill(guard, signal.SIGSTOP)
        try:
            os.kill(job["agent_pid"], signal.SIGKILL)
            # Each time elasticd looks whether there is one, and connects.
            for _ in range(6):
                dying.accept()[0].close()
        finally:
            os.kill(guard, signal.SIGCONT)
    for attempt in (1, 2):
        job = daemon.until_attempt(name, attempt)
        if attempt < 2:
            kill_agent(job, "agent")


def test_a_second_elasticd_is_refused_by_name_of_the_first(box, daemon):
    daemon.submit(spec("hang", name="j"))
    for other in (
        [DAEMON, *daemon.argv()[1:]],
        [DAEMON, "--socket", str(box.path("other.sock")), "--runtime-dir", str(box.path("orun")),
         "--state-dir", str(daemon.state), "--log-dir", str(daemon.logs)],
        [DAEMON, "--socket", str(box.path("other.sock")), "--runtime-dir", str(daemon.runtime),
         "--state-dir", str(box.path("ostate")), "--log-dir", str(daemon.logs)],
    ):
        result = box.sh(*other)
        assert result.rc != 0 and str(daemon.pid) in result.err, result
    assert daemon.status("j")["name"] == "j"


@pytest.mark.root
def test_a_full_state_disk_refuses_starts_and_jobs_go_on(box):
    daemon = box.new_daemon()
    box.mount_small(daemon.state, "1m", "700")
    daemon.start()
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", f"if-attempt:0:wait-file:{box.path('go')}"
                                   "+exit:1", f"wait-file:{box.path('end')}", restart={"max": 1}))
    wait_lines(box.path("marks"), 1)
    # The file that the agent replaces once more would leave room.
    wait_for(lambda: json.loads((daemon.record(run) / "state.json").read_text())["job"]["state"] == "running",
             daemon.record(run), what="the record of a job that runs")
    ballast = daemon.state / "ballast"
    fill(ballast)
    with pytest.raises(VarlinkError) as e:
        daemon.submit(spec(name="no"))
    assert e.value.name == "Internal" and "space" in str(e.value).lower()
    assert not [p for p in (daemon.state / "jobs").iterdir() if p.name.startswith("no_")], \
        "half a record is left"
    box.path("go").touch()
    wait_lines(box.path("marks"), 2)
    assert daemon.until_attempt(name, 1)["restarts"] == 1
    ballast.unlink()
    assert daemon.run(spec())["state"] == "succeeded"
    box.path("end").touch()
    assert daemon.wait(run)["state"] == "succeeded"
    daemon.restart()
    assert daemon.status(run)["state"] == "succeeded"


def test_directories_that_cannot_be_made_are_named(box):
    box.path("file").write_text("")
    result = box.sh(DAEMON, "--socket", str(box.path("s.sock")), "--runtime-dir", str(box.path("r")),
                    "--state-dir", str(box.path("file/x")), "--log-dir", str(box.path("l")))
    assert result.rc != 0 and str(box.path("file")) in result.err, result


def test_no_descriptors_left_is_not_the_end(box):
    daemon = box.new_daemon()
    daemon.prefix = ["prlimit", "--nofile=40:40"]
    daemon.start()
    name, run = daemon.submit(spec("hang"))
    daemon.wait(name, until="running")
    held = []
    try:
        for _ in range(60):
            held.append(Varlink(daemon.socket, timeout=2))
    except OSError:
        pass
    finally:
        for v in held:
            v.close()
    daemon.drop()
    wait_for(lambda: _answers(daemon), what="elasticd to answer again")
    daemon.call("Stop", job=name)
    assert daemon.wait(run)["state"] == "stopped"


def _answers(daemon):
    """On the connection that is used from then on."""
    try:
        return daemon.call("Ping") == {}
    except (OSError, VarlinkError):  # those that were closed may count for a moment longer
        daemon.drop()
        return False


def test_a_clock_that_jumps(box):
    """The monotonic clock is what delays and limits hang on; a time namespace moves that one, and
    a process started in it sees another boot."""
    if subprocess.run(["unshare", "--time", "--monotonic", "86400", "true"], check=False,
                      capture_output=True).returncode != 0:
        pytest.skip("no time namespaces here")
    daemon = box.new_daemon().start()
    name, run = daemon.submit(spec("exit:1", restart={"max": 5, "backoff": "10m", "window": "1h",
                                                      "window_max": 5}))
    daemon.watch(name, lambda job, _: job["state"] == "backoff")
    up_name, _ = daemon.submit(spec("hang"))
    daemon.wait(up_name, until="running")
    daemon.kill()
    daemon.prefix = ["sh", "-c", 'exec unshare --time --monotonic 864000 --boottime 864000 "$@"', "sh"]
    try:
        daemon.start()
    except Unmet as e:
        if "unshare" in str(e):
            pytest.skip(f"cannot enter a time namespace: {e}")
        raise
    daemon.watch(name, lambda job, _: job["state"] == "backoff" and job["attempt"] == 0)
    assert daemon.wait(up_name, until="running")["state"] == "running"
    assert daemon.run(spec("if-attempt:0:exit:1", restart={"max": 1}))["state"] == "succeeded"


@pytest.mark.root
def test_the_wall_clock_set_back_and_forth_breaks_nothing(box, daemon):
    library = next((p for p in pathlib.Path("/usr/lib").rglob("libfaketime.so.1")), None)
    if not library or SANITIZED:
        pytest.skip("libfaketime is not installed, and this machine's own clock is left alone")
    daemon.kill()
    for offset in ("+400d", "-400d"):
        daemon.env = dict(box.env, LD_PRELOAD=str(library), FAKETIME=offset,
                          FAKETIME_DONT_FAKE_MONOTONIC="1")
        daemon.start()
        job = daemon.run(spec("if-attempt:0:exit:1", "sleep:50", restart={"max": 1, "backoff": "50ms"}))
        assert job["state"] == "succeeded"
        daemon.kill()
    daemon.env = box.env
    daemon.start()
    assert len(daemon.call("List", ended=True)["jobs"]) == 2
