# SPDX-License-Identifier: Apache-2.0
"""Who has an answer finds in elasticd's own page of the job what the answer was about."""

import json
import os
import signal

import pytest

from harness import IFACE, SANITIZED, Varlink, spec, stat_of, traced, wait_for


def stubborn(box, daemon, replicas=2):
    """A job whose workers stay, whatever it is asked for."""
    name, _ = daemon.submit(spec("on:TERM:print:no", f"touch:{box.path('up')}.%r", "hang", name="a",
                                 replicas=replicas, stop={"timeout": "1h"}, restart={"max": 9}))
    daemon.wait(name, until="running")
    for rank in range(replicas):
        wait_for(box.path(f"up.{rank}").exists)
    return name


SENDS = "sendto,sendmsg,write,writev"
VERBS = {
    "Preempt": ({"reason": "soon", "grace_ms": 3600000},
                lambda job: job.get("preemption", {}).get("reason") == "soon"),
    "Stop": ({}, lambda job: job["state"] == "stopping"),
    "Restart": ({}, lambda job: job["state"] == "stopping"),
    "Scale": ({"replicas": 3}, lambda job: job["state"] == "stopping"),
    "StopWorkers": ({"workers": "1", "timeout_ms": 0}, lambda job: job["workers"][1]["state"] == "stopped"),
}


@pytest.mark.skipif(SANITIZED, reason="the leak checker does not work on a process that is traced")
@pytest.mark.parametrize("verb", VERBS)
def test_status_shows_what_was_answered_however_slow_the_agent_sends(box, daemon, verb):
    name = stubborn(box, daemon)
    parameters, shown = VERBS[verb]
    trace = traced(box, [daemon.agent_pid(name)], "-e", f"trace={SENDS}",
                   "-e", f"inject={SENDS}:delay_exit=200000")
    daemon.call(verb, job=name, **parameters)
    job = daemon.status(name)
    listed = daemon.call("List")["jobs"][0]
    trace.signal(signal.SIGINT)
    trace.wait()
    assert shown(job), json.dumps(job)
    assert listed["state"] == job["state"]


@pytest.mark.skipif(SANITIZED, reason="the leak checker does not work on a process that is traced")
def test_status_shows_what_a_stream_has_told(box, daemon):
    name = stubborn(box, daemon)
    with daemon.connect() as watch, Varlink(daemon.agent_sock(name)) as agent:
        stream = watch.stream("Watch", job=name)
        next(stream)
        trace = traced(box, [daemon.agent_pid(name)], "-e", f"trace={SENDS}",
                       "-e", f"inject={SENDS}:delay_exit=200000")
        agent.send("Preempt", job=name, reason="soon", grace_ms=3600000)
        while not next(stream)["job"].get("preemption"):
            pass
        job = daemon.status(name)
        trace.signal(signal.SIGINT)
        trace.wait()
        assert job.get("preemption", {}).get("reason") == "soon", json.dumps(job)


def test_elasticd_reads_what_the_agent_has_said_before_it_answers(box, daemon):
    name = stubborn(box, daemon, replicas=1)
    with daemon.connect() as asks, Varlink(daemon.agent_sock(name)) as agent:
        asks.call("Ping")
        os.kill(daemon.pid, signal.SIGSTOP)
        # The question is there first; the agent's word comes while nobody reads.
        asks.send("Status", job=name)
        agent.call("Preempt", job=name, reason="soon", grace_ms=3600000)
        os.kill(daemon.pid, signal.SIGCONT)
        assert asks.reply()["job"]["preemption"]["reason"] == "soon"
    with daemon.connect() as asks, Varlink(daemon.agent_sock(name)) as agent:
        asks.call("Ping")
        os.kill(daemon.pid, signal.SIGSTOP)
        asks.send("List")
        agent.call("Stop", job=name)
        os.kill(daemon.pid, signal.SIGCONT)
        assert [job["state"] for job in asks.reply()["jobs"]] == ["stopping"]


def test_a_wait_for_a_restarted_job_is_answered_with_the_next_attempt(box, daemon):
    name, _ = daemon.submit(spec("hang", name="a", replicas=2))
    daemon.wait(name, until="running")
    with daemon.connect() as asks, Varlink(daemon.agent_sock(name)) as agent:
        asks.call("Ping")
        os.kill(daemon.pid, signal.SIGSTOP)
        asks.send("Wait", job=name, until="running")
        agent.call("Restart", job=name)
        os.kill(daemon.pid, signal.SIGCONT)
        assert asks.reply()["job"]["attempt"] == 1
    for attempt in (2, 3, 4):
        daemon.call("Restart", job=name)
        assert daemon.wait(name, until="running")["attempt"] == attempt


def test_a_name_is_free_for_who_starts_when_the_run_of_that_name_has_ended(box, daemon):
    # What the agent says of so many is more than is read at once: its guard's end is known before.
    document = spec("hang", name="a", replicas=150, logs={"dir": "/dev/null"})
    _, run = daemon.submit(document)
    guard = stat_of(daemon.wait(run, until="running")["agent_pid"])[1]
    with daemon.connect() as asks, Varlink(daemon.agent_sock("a")) as agent:
        asks.call("Ping")
        os.kill(daemon.pid, signal.SIGSTOP)
        agent.call("Stop", job="a")
        wait_for(lambda: stat_of(guard) is None or stat_of(guard)[0] == "Z", what="the end of its guard")
        asks.send("Start", spec=document)
        os.kill(daemon.pid, signal.SIGCONT)
        assert asks.reply()["run"] != run


def request(method, **parameters):
    return json.dumps({"method": IFACE + method, "parameters": parameters}).encode() + b"\0"


@pytest.mark.ci
def test_answers_that_fill_a_connection_end_nobody_twice(box, daemon):
    """More than a connection holds is sent amid a call, and not at its end."""
    name = stubborn(box, daemon, replicas=1)
    with Varlink(daemon.agent_sock(name)) as agent:
        def size_of(data):
            agent.send_raw(data)
            return len(agent.receive_raw()) + 1

        kill = {"job": name, "signal": "CONT", "ranks": "0", "whom": "main"}
        for _ in range(1100):
            agent.call("Kill", **kill)
        events, wait = request("Events", job=name), request("Wait", job=name, until="running")
        each = size_of(wait)
        full, left = divmod(4 << 20, size_of(events))
        # The rest of what it holds, but for a few answers to Wait.
        fill, held = next((e, n) for e in (request("Events", job=name, since=at) for at in range(1, 1100, 4))
                          if (n := size_of(e)) < left - 4 * each)
        waits = (left - held) // each + 8
        agent.send_raw(request("Kill", **kill) + full * events + fill + waits * wait)
        for _ in range(1 + full + 1 + waits):
            answer = agent.reply()
        assert answer["job"]["state"] == "running"
    assert daemon.status(name)["state"] == "running"
