# SPDX-License-Identifier: Apache-2.0
"""An agent that is there and does not answer: what is known is told, and a job can be ended all the same."""

import errno
import os
import signal
import socket

import pytest

from harness import (VarlinkError, alive, line_bytes, processes_of_run, spec, stat_of, wait_file, wait_for,
                     wait_gone)

STOP, CONT = signal.SIGSTOP, signal.SIGCONT


def up(box, daemon, name, *steps, **top):
    """A job that runs, with a child that left its session, and a word in its log."""
    name, run = daemon.submit(spec("print:word", "ignore:TERM", "setsid-fork:ignore:TERM+hang",
                                   f"touch:{box.path(name)}", *steps, "hang", name=name,
                                   logs={"redirects": 3}, **top))
    wait_file(box.path(name))
    return run, daemon.wait(run, until="running")


def silence(job, whom="agent"):
    """Stops the agent proper, its guard or both. Returns their pids."""
    agent = job["agent_pid"]
    guard = stat_of(agent)[1]
    for pid in {"agent": [agent], "both": [guard, agent]}[whom]:
        os.kill(pid, STOP)
    return guard, agent


def test_status_and_list_say_since_when_an_agent_is_silent(box, daemon):
    run, job = up(box, daemon, "mute")
    assert job.get("agent_silent_since_us") is None
    _, agent = silence(job)
    told = daemon.status(run, live=True)
    assert told["state"] == "running" and told["workers"][0]["pid"] == job["workers"][0]["pid"]
    since = told["agent_silent_since_us"]
    assert daemon.status(run, live=True)["agent_silent_since_us"] == since, "the first unanswered call counts"
    assert daemon.call("List")["jobs"][0]["agent_silent_since_us"] == since
    page = box.ctl("status", run)
    assert page.rc == 0 and "has not answered since" in page.out, page
    assert "has not answered for" in box.ctl("list").out
    os.kill(agent, CONT)
    job = daemon.watch(run, lambda job, _: job.get("agent_silent_since_us") is None)
    assert job["state"] == "running" and daemon.status(run, live=True)["agent_pid"] == agent


def test_files_of_a_silent_agents_job_can_be_read(box, daemon):
    run, job = up(box, daemon, "mute", "error-json:object:boom", restart={"max": 3})
    _, agent = silence(job)
    with daemon.connect() as v:
        lines = [line_bytes(x) for a in v.stream("Logs", job=run) for x in a["lines"]]
    assert lines == [b"word"]
    assert daemon.call("Errors", job=run)["failures"] == []
    assert daemon.call("Why", job=run)["budget"]["max"] == 3
    assert "running" in [e["event"] if e["event"] != "state" else e["data"]["to"] for e in daemon.events(run)]
    assert daemon.call("Results", job=run) == {"results": []}
    assert box.ctl("logs", run).out.endswith("word\n")
    os.kill(agent, CONT)


def test_reading_kills_nothing_and_what_needs_the_agent_fails(box, daemon):
    run, job = up(box, daemon, "mute")
    _, agent = silence(job)
    told = box.ctl_start("restart", run)
    asked = [daemon.connect().send(method, job=run, **more) for method, more in (
        ("Logs", {"more": True, "follow": True}), ("Kill", {"signal": "USR1"}),
        ("Kill", {"signal": "KILL", "ranks": "0"}), ("Scale", {"replicas": 2}))]
    for v in asked:
        with pytest.raises(VarlinkError) as e:
            v.reply()
        assert e.value.name == "Unavailable" and e.value.parameters["job"] == "mute", e.value
        v.close()
    told = told.wait()
    assert told.rc == 1 and "elasticctl stop" in told.err, told
    os.kill(agent, CONT)
    job = daemon.watch(run, lambda job, _: job.get("agent_silent_since_us") is None)
    assert job["agent_pid"] == agent and "verdict" not in job


def ends(daemon, run, how):
    if how == "stop":
        daemon.call("Stop", job=run)
    elif how == "kill":
        assert daemon.call("Kill", job=run, signal="SIGKILL") == {"signalled": 1}
    else:
        daemon.call("Wait", job=run, kill=True, timeout_ms=0)


@pytest.mark.parametrize("how, whom", [("stop", "agent"), ("stop", "both"), ("kill", "agent"),
                                       ("wait", "agent")])
def test_a_job_whose_agent_is_silent_can_be_ended(box, daemon, how, whom):
    run, job = up(box, daemon, "mute", restart={"max": 3})
    old = [*silence(job, whom), *processes_of_run(run)]
    ends(daemon, run, how)
    job = daemon.wait(run)
    assert (job["state"], job["verdict"]["result"], job["verdict"]["exit_status"]) == (
        "failed", "agent_lost", 125)
    assert "did not answer for 5 s" in job["verdict"]["message"], job["verdict"]
    assert len(old) >= 4 and [p for p in old if alive(p)] == []
    assert job.get("agent_silent_since_us") is None
    daemon.restart()
    assert daemon.status(run)["verdict"] == job["verdict"]


def test_a_guard_that_stands_still_after_its_agent_died_can_be_ended(box, daemon):
    run, job = up(box, daemon, "mute", restart={"max": 3})
    guard, agent = silence(job, "both")
    old = [guard, *processes_of_run(run)]
    os.kill(agent, signal.SIGKILL)
    wait_for(lambda: "agent-lost" in daemon.status(run).get("reason", ""), what="elasticd to see the death")
    daemon.call("Stop", job=run)
    # elasticd kills it at about the same moment as the guard of any lost agent, whose successor can be asked.
    assert daemon.wait(run)["verdict"]["result"] in ("agent_lost", "stopped")
    assert [p for p in old if alive(p)] == []


def test_one_whose_queue_of_connections_is_full_can_be_ended(box, daemon):
    run, job = up(box, daemon, "mute")
    silence(job)
    held = []
    try:
        while True:
            held.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
            held[-1].connect(str(daemon.agent_sock("mute")))
    except OSError as e:
        assert e.errno == errno.EAGAIN, e
    assert daemon.status(run, live=True)["agent_silent_since_us"]
    daemon.call("Stop", job=run)
    assert daemon.wait(run)["verdict"]["result"] == "agent_lost"
    for s in held:
        s.close()


def test_an_agent_that_was_busy_for_less_is_not_killed(box, daemon):
    run, job = up(box, daemon, "busy")
    _, agent = silence(job)
    stop = daemon.connect()
    stop.send("Stop", job=run, timeout_ms=0)
    # Answers after a second.
    assert daemon.status(run, live=True)["agent_silent_since_us"]
    os.kill(agent, CONT)
    assert stop.reply() == {}
    assert daemon.wait(run)["verdict"]["result"] == "stopped"


def test_a_silent_agent_delays_no_other_job_at_the_shutdown(box, daemon):
    mute, job = up(box, daemon, "mute")
    other, _ = daemon.submit(spec(f"on:TERM:touch:{box.path('told')}+exit:0", f"touch:{box.path('other')}",
                                  "hang", name="other"))
    wait_file(box.path("other"))
    pids = silence(job)
    shutdown = box.ctl_start("shutdown", "--stop-jobs")
    with daemon.connect() as v:
        assert v.call("Wait", job="other")["job"]["state"] == "stopped"
        assert v.call("Status", job=mute)["job"].get("verdict") is None, "the other one was not waited for"
    assert box.path("told").exists()
    assert shutdown.wait().rc == 0
    daemon.program.wait()
    for pid in pids:
        wait_gone(pid)


def test_a_silent_agent_delays_no_other_job_at_the_start(box, daemon):
    mute, job = up(box, daemon, "mute")
    other, _ = up(box, daemon, "other")
    daemon.kill()
    silence(job)
    daemon.start()
    assert daemon.status(other, live=True)["state"] == "running"
    listed = {j["name"]: j for j in daemon.call("List")["jobs"]}
    assert set(listed) == {"mute", "other"}
    assert daemon.status(mute, live=True)["name"] == "mute"
    daemon.call("Stop", job=mute)
    assert daemon.wait(mute)["verdict"]["result"] == "agent_lost"
    daemon.call("Stop", job=other, timeout_ms=0)
    wait_for(lambda: daemon.status(other)["state"] == "stopped", what="the other job's end")


# --- its socket -------------------------------------------------------------------------------------------


def replace_socket(path, how):
    """Puts something else in the place of an agent's socket. Returns what is said of it."""
    path.rename(path.parent / "elsewhere")
    if how == "a link":
        path.symlink_to("elsewhere")
        return "is a symbolic link, expected the agent's socket"
    if how == "a directory":
        path.mkdir()
        return "is a directory, expected the agent's socket"
    if how == "a FIFO":
        os.mkfifo(path)
        return "expected the agent's socket"
    return "No such file or directory"


@pytest.mark.parametrize("how", ["a link", "a directory", "a FIFO", "nothing"])
def test_a_file_in_place_of_an_agents_socket_is_named(box, daemon, how):
    run, job = up(box, daemon, "mute")
    path = daemon.agent_sock("mute")
    said = f"{path}: {replace_socket(path, how)}"
    told = daemon.status(run, live=True)
    assert (told["state"], told["agent_silent_reason"]) == ("running", said)
    assert daemon.call("List")["jobs"][0]["agent_silent_reason"] == said
    page = box.ctl("status", run)
    assert page.rc == 0 and said in " ".join(page.out.split()), page
    logs = box.ctl("logs", run)
    assert logs.rc == 0 and logs.out.endswith("word\n"), logs
    assert daemon.call("Errors", job=run)["failures"] == []
    if how != "nothing":  # an agent that is about to leave has none, either
        restart = box.ctl("restart", run)
        assert restart.rc == 1 and said in restart.err and "elasticctl stop" in restart.err, restart
    # Once it is in its place again, the agent is heard.
    if how == "a directory":
        path.rmdir()
    (path.parent / "elsewhere").rename(path)
    daemon.call("Errors", job=run)
    job = daemon.watch(run, lambda job, _: job.get("agent_silent_since_us") is None)
    assert job["state"] == "running" and job.get("agent_silent_reason") is None
    assert daemon.status(run, live=True)["agent_pid"] == job["agent_pid"]


@pytest.mark.parametrize("how", ["a link", "nothing"])
def test_a_job_whose_agents_socket_was_replaced_can_be_read_and_ended(box, daemon, how):
    run, job = up(box, daemon, "mute")
    old = [job["agent_pid"], *processes_of_run(run)]
    daemon.kill()
    path = daemon.agent_sock("mute")
    said = f"{path}: {replace_socket(path, how)}"
    daemon.start()
    assert daemon.status(run, live=True)["reason"] == f"agent-lost: {said}"
    assert box.ctl("logs", run).out.endswith("word\n")
    page = box.ctl("status", run)
    assert page.rc == 0 and said in " ".join(page.out.split()), page
    daemon.call("Stop", job=run)
    assert daemon.wait(run)["verdict"]["result"] == "agent_lost"
    assert [p for p in old if alive(p)] == []
