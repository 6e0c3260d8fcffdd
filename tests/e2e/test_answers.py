# SPDX-License-Identifier: Apache-2.0
"""Who has an answer finds in elasticd's own page of the job what the answer was about."""

import json
import os
import signal

import pytest

from harness import SANITIZED, Varlink, spec, traced, wait_for


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
    "StopTask": ({"tasks": "1", "timeout_ms": 0}, lambda job: job["tasks"][1]["state"] == "stopped"),
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


def test_who_waits_for_a_restarted_job_to_run_hears_of_the_next_incarnation(box, daemon):
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
