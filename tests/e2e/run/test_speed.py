# SPDX-License-Identifier: Apache-2.0
"""Steps per second, stragglers, and goodput: where the time of a run has gone."""

import json
import os
import pathlib
import signal
import sys

import pytest

from beating import worker
from harness import BUILD, wait_for
from python_package import ENV, needs_library

LIBWORKER = str(BUILD / "tests/tools/libworker")
PARTS = ("working", "waiting", "starting", "stopping", "saving", "hanging", "repeated", "unknown")

# Steps FROM to TO of 50 ms, by lines of the log alone.
LINES = """
import os, sys, time
for n in range(5 if os.environ["ELASTICD_ATTEMPT"] == "1" else 0, 10):
    print(f"epoch 0 step {n} loss 0.1", flush=True)
    time.sleep(0.05)
sys.exit(os.environ["ELASTICD_ATTEMPT"] == "0")
"""

# All wait for each other in each step; rank 1 needs 40 ms before it calls step().
TIED = """
import os, time, elasticd
job = elasticd.init()
n = 0
while not os.path.exists(os.environ["END"]):
    if job.index == 1:
        time.sleep(0.04)
    job.step(n)
    job.barrier(f"step {n}", [f"tied:{i}" for i in range(4)])
    time.sleep(0.01)
    n += 1
"""


def whole(goodput):
    assert sum(goodput[f"{part}_ms"] for part in PARTS) == goodput["total_ms"], goodput
    assert goodput["percent"] == pytest.approx(goodput["working_ms"] / goodput["total_ms"] * 100, abs=0.11)
    return goodput


@pytest.mark.parametrize("told_by", ["the library", "lines"])
def test_goodput_of_a_run_that_makes_half_of_its_steps_again(box, daemon, told_by):
    if told_by == "lines":
        command, speed = [sys.executable, "-S", "-c", LINES], {"pattern": "step ([0-9]+)", "window": "1s"}
    else:
        command = [LIBWORKER, "if-attempt:0:train:0:10:50", "if-attempt:0:exit:1", "train:5:10:50"]
        speed = {}
    job = daemon.run({"roles": [{"command": command}], "logs": {"redirects": 3},
                      "restart": {"max": 1, "backoff": "200ms"}, "speed": speed})
    assert (job["state"], job["attempt"]) == ("succeeded", 1)
    goodput = whole(job["goodput"])
    ends = [e["data"] for e in daemon.events(job["run"]) if e["event"] == "worker-ended"]
    assert [(e["first_step"], e["step"], e["steps"]) for e in ends] == [(0, 9, 10), (5, 9, 5)]
    half = (ends[0]["ended_us"] - ends[0]["first_step_us"]) / 2000
    assert goodput["repeated_ms"] == pytest.approx(half, abs=50)
    assert goodput["waiting_ms"] >= 200 and goodput["working_ms"] >= 400
    assert [w["step"] for w in job["workers"]] == [9]
    text = box.ctl("status", job["run"]).out
    assert f"Goodput: {goodput['percent']:.1f}% of " in text and " repeated" in text, text
    head, row = box.ctl("history").out.splitlines()
    assert row[:head.index("GOODPUT") + 7].endswith(f" {goodput['percent']:.1f}%"), row
    saved = json.loads(pathlib.Path(job["log_dir"], "verdict.json").read_text())
    assert saved["goodput"] == goodput


def test_what_a_lost_agent_did_is_unknown_and_what_was_before_it_stays(daemon):
    name, run = daemon.submit({"roles": [{"command": [
        LIBWORKER, "if-attempt:0:train:0:10:30", "if-attempt:0:exit:1", "if-attempt:1:step:10",
        "if-attempt:1:hang", "train:5:10:1"]}], "restart": {"max": 3}})
    agent = daemon.until_attempt(name, 1)["agent_pid"]
    wait_for(lambda: daemon.status(name, live=True)["workers"][0].get("step") == 10, what="step 10")
    before = whole(daemon.status(name, live=True)["goodput"])
    assert before["working_ms"] >= 250 and not before["unknown_ms"]
    os.kill(agent, signal.SIGKILL)
    job = daemon.wait(run)
    assert job["state"] == "succeeded"
    goodput = whole(job["goodput"])
    assert goodput["unknown_ms"] > 0, goodput
    assert goodput["working_ms"] >= 100 and goodput["repeated_ms"] >= 100, goodput


@needs_library
def test_stragglers_are_named_while_they_are_slow(box, daemon):
    end, held = box.path("end"), box.path("held")
    roles = [{"name": "free", "replicas": 4,
              "command": worker(f"if-rank 2 step-until {end} {held}", f"step-until {end} {end}")},
             {"name": "tied", "replicas": 4, "command": [sys.executable, "-S", "-c", TIED],
              "env": {**ENV, "END": str(end)}}]
    name, run = daemon.submit({"roles": roles, "logs": {"redirects": 3},
                               "speed": {"window": "1s", "straggler": 40}})
    tied = daemon.wait_event(run, "straggler")
    assert tied["data"]["worker"] == "tied:1" and "later than the others" in tied["text"]
    held.touch()
    free = daemon.wait_event(run, "straggler", count=2)
    live = daemon.status(name, live=True)["workers"]
    held.unlink()
    assert free["data"]["worker"] == "free:2" and "others" in free["text"]
    assert [w["role"] for w in live if "straggler" in w] == ["free", "tied"]
    assert all(w["steps_per_s"] > 1 for w in live if w["rank"] != 2), live
    over = daemon.wait_event(run, "straggler-over")
    end.touch()
    assert daemon.wait(run)["state"] == "succeeded"
    assert over
