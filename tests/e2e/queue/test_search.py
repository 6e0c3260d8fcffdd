# SPDX-License-Identifier: Apache-2.0
"""The example that searches for hyper-parameters: it finds the same as by hand, also when workers die."""

import json
import os
import signal
import sys

import pytest

from harness import ROOT, SLOWER, wait_for
from python_package import ENV, needs_library
from queue_workers import Coordinator

SCRIPT, SPEC = ROOT / "examples/search.py", ROOT / "examples/search.yaml"
SIZE = ("--trials=4", "--images=60")

pytestmark = [needs_library, pytest.mark.slow, pytest.mark.seconds(300)]


def specification(box, *changes):
    """The example's own, of a smaller size."""
    text = SPEC.read_text()
    for old, new in (("cwd: ..", f"cwd: {ROOT}"), ("[python3,", f"[{sys.executable},"),
                     ("    command:", f"    env: {json.dumps(ENV)}\n    command:"),
                     ("examples/search.py, -", ", ".join([str(SCRIPT), *SIZE, "-"])),
                     ("examples/search.py]", ", ".join([str(SCRIPT), *SIZE]) + "]"), *changes):
        assert old in text
        text = text.replace(old, new)
    path = box.path("work/search.yaml")
    path.write_text(text)
    return path


@pytest.fixture
def by_hand(box):
    """Its output without elasticd: a line for each round, and the result."""
    result = box.sh(sys.executable, SCRIPT, *SIZE, env=ENV, timeout=140 * SLOWER)
    assert result.rc == 0, result
    lines = result.out.splitlines()
    assert [line.rpartition(":")[0] for line in lines[:2]] == ["1 epochs, 4 trials", "4 epochs, 2 trials"]
    assert lines[2].endswith(" %") and float(lines[2].split()[-2]) > 30, lines
    return lines


def said(out):
    return [line.partition("] ")[2] for line in out.splitlines() if line.startswith("[search 0] ")]


def test_four_workers_find_what_one_finds_by_hand(box, by_hand):
    result = box.run("--spec", specification(box), timeout=140 * SLOWER)
    assert result.rc == 0, result
    assert said(result.out) == by_hand, result


def test_a_worker_that_dies_loses_no_trial(box, by_hand):
    """There is no other worker: the same one gets the trial again."""
    path = specification(box, ("replicas: 4", "replicas: 1"), ("--die=1", "--die=0"))
    result = box.run("--spec", path, timeout=140 * SLOWER)
    assert result.rc == 0, result
    assert said(result.out) == by_hand, result
    assert "trial:0" in result.err and "SIGKILL" in result.err, result


def test_a_killed_search_begins_again(box, daemon, by_hand):
    go, trial = box.path("go"), " ".join([sys.executable, "-u", str(SCRIPT), *SIZE])
    wait = f'[sh, -c, "until test -e {go}; do sleep 0.05; done; exec {trial}"]'
    path = specification(box, (f"[{sys.executable}, -u, {', '.join([str(SCRIPT), *SIZE, '--die=1'])}]", wait))
    result = box.ctl("start", "--spec", path)
    assert result.rc == 0, result
    daemon.wait("search", until="running")
    c = Coordinator(daemon.socket, "search")

    def submitted(*numbers):
        return [t["task"] for t in c.call("List")["tasks"]] == list(numbers)

    wait_for(lambda: submitted(1, 2, 3, 4), what="the trials of the first one")
    task = next(t for t in daemon.status("search")["workers"] if t["role"] == "search")
    os.kill(task["pid"], signal.SIGKILL)
    # The tasks of the dead one are gone.
    wait_for(lambda: submitted(5, 6, 7, 8), what="the trials of the second one")
    go.touch()
    c.close()
    job = daemon.wait("search")
    assert job["verdict"]["result"] == "succeeded", job["verdict"]
    assert daemon.log(job, 0, task["rank"]).read_text().splitlines() == by_hand
    assert job["queue"]["over"] == 4 + 6, job["queue"]
