# SPDX-License-Identifier: Apache-2.0
"""Tasks that kill who does them, with workers that are processes of their own: nobody holds their connections
open, so that these are gone before their ends are seen."""

import sys

import pytest

from harness import CTL
from python_package import ENV, needs_library, write_script
from queue_workers import Coordinator

pytestmark = pytest.mark.seconds(120)

RESTART = {"scope": "worker", "max": 20, "backoff": "0s"}
PYTHON = """
    import os, signal, elasticd
    with elasticd.init() as job:
        for task in job.tasks():
            if task.payload == "bad":
                os.kill(os.getpid(), signal.SIGKILL)
            task.finish(task.payload)
"""
SHELL = 'read what; if [ "$what" = bad ]; then kill -9 $PPID; fi; echo "$what"'


def by_python(box):
    return {"command": [sys.executable, "-u", str(write_script(box, PYTHON))], "env": dict(ENV)}


def by_shell(_):
    return {"command": [CTL, "task", "work", "--", "sh", "-c", SHELL]}


@pytest.fixture(params=[pytest.param(by_python, marks=needs_library), by_shell], ids=["python", "shell"])
def worker(request, box):
    return request.param(box)


def started(daemon, worker, replicas, **queue):
    name, run = daemon.submit({"roles": [{"name": "w", "replicas": replicas, **worker}], "restart": RESTART,
                               "queue": {"deaths": 2, **queue}})
    daemon.wait(run, until="running")
    return name, run, Coordinator(daemon.socket, name)


def put_back(daemon, run):
    return [e["text"] for e in daemon.events(run) if e["event"] == "queue-put-back"]


def has_failed(outcome):
    assert outcome["state"] == "failed", outcome
    assert outcome["error"]["code"] == "Aborted"
    assert "2 workers died with it (queue.deaths): w:" in outcome["error"]["message"]


def goes_on(c):
    """Others are done, if one by one, as who dies does so beside them."""
    for text in ("good", "better"):
        outcome = c.fetch(c.submit(text, format="text", alone=True))
        assert outcome["value"].strip() == text, outcome


@pytest.mark.parametrize("durable", [False, True])
def test_one_worker_dies_so_often_with_a_task_and_does_the_next_ones(daemon, worker, durable):
    name, run, c = started(daemon, worker, 1, durable=durable)
    with c:
        bad = c.fetch(c.submit("bad", format="text", alone=True))
        has_failed(bad)
        assert bad["tries"] == 2 and bad["error"]["message"].endswith("w:0, w:0")
        goes_on(c)
    job = daemon.status(name, live=True)
    assert job["state"] == "running" and [t["restarts"] for t in job["workers"]] == [2]
    assert [text.split(":")[0] for text in put_back(daemon, run)] == [f"task {bad['task']} is put back"]
    assert "w:0 was killed by SIGKILL" in put_back(daemon, run)[0]


def test_of_two_workers_each_may_die_with_it_and_the_job_lives_on(daemon, worker):
    name, _, c = started(daemon, worker, 2)
    with c:
        bad = c.fetch(c.submit("bad", format="text", alone=True))
        has_failed(bad)
        goes_on(c)
    # A third one takes it where the end of the second one is not seen yet.
    assert bad["tries"] in (2, 3)
    assert sum(t["restarts"] for t in daemon.status(name, live=True)["workers"]) <= 3


def test_the_queue_fails_of_such_a_task_and_is_as_new(daemon, worker):
    name, _, c = started(daemon, worker, 1)
    with c:
        bad = c.submit("bad", format="text")
        e = c.refused("Join")
        assert e.code == "Aborted" and e.parameters["error"]["task"] == bad
        goes_on(c)
    assert "verdict" not in daemon.status(name, live=True)
