# SPDX-License-Identifier: Apache-2.0
"""The main job: real training on real data, a crash, a restart from the checkpoint, a machine that is taken
away, a result."""

import os
import re
import signal

import pytest

from harness import BUILD, ROOT, SLOWER, wait_for, wait_text
from trainees import preempt

DIGITS = BUILD / "examples/digits"

LONG = 280 * SLOWER

pytestmark = [pytest.mark.seconds(900), pytest.mark.slow]


@pytest.fixture(autouse=True)
def built():
    if not DIGITS.exists():
        pytest.skip(f"{DIGITS} is not built")


def accuracies(text):
    """Percentages of the held-out part, as the example prints them."""
    return [float(x) for x in re.findall(r"(\d+\.\d+) ?%", text)]


def test_four_workers_learn_the_digits(box):
    result = box.run("--nproc-per-node=4", "-t", "3", DIGITS, "--checkpoint", box.path("ck"),
                     cwd=str(ROOT), timeout=LONG)
    assert result.rc == 0, result
    assert max(accuracies(result.out)) > 93, result


def test_a_crash_is_survived_from_the_checkpoint(box, daemon):
    command = [str(DIGITS), "--checkpoint", str(box.path("ck")), "--crash-rank=1",
               "--crash-epoch=3"]
    name, run = daemon.submit({"name": "digits", "cwd": str(ROOT), "restart": {"max": 1},
                               "roles": [{"replicas": 4, "command": command}],
                               "logs": {"tee": 3}})
    job = daemon.wait(run, timeout=LONG)
    assert job["state"] == "succeeded", job["verdict"]
    assert (job["attempt"], job["restarts"]) == (1, 1)
    cause = daemon.call("Errors", job=run, attempt=0)["failures"][0]
    assert not cause["collateral"]
    text = daemon.log(job, 1, 0).read_text()
    assert max(accuracies(text)) > 93, text
    assert re.search(r"resum", text, re.I), "the second attempt did not start from the checkpoint"


@pytest.mark.parametrize("grace_ms", [0, 3600 * 1000])
def test_a_preempted_job_goes_on_with_every_step_done_once(box, daemon, grace_ms):
    """All bits of the last checkpoint are those of a training that nobody has disturbed: the sums of four
    ranks are the same each time, and a step that is missing or done twice would show."""
    # The first run pauses after each epoch: it is not over when the notice comes.
    box.path("pause").write_text("4000")
    script = f'exec "$0" "$@" --timeout=600 --slow="$(cat {box.path("pause")})"'
    command = ["sh", "-c", script, str(DIGITS), "--epochs=12", f"--checkpoint={box.path('ck')}"]
    name, run = daemon.submit({"name": "digits", "cwd": str(ROOT), "logs": {"tee": 3},
                               "roles": [{"replicas": 4, "command": command}]})
    job = daemon.wait(run, until="running")
    wait_text(daemon.log(job, 0, 0), "epoch  1/12")
    # Rank 1 stands still, and so do all, once they wait for it in the middle of an epoch of 45 steps.
    pid = daemon.status(run)["workers"][1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: daemon.status(run, live=True)["workers"][0].get("step", 0) >= 45)
    preempt(daemon, name, grace_ms=grace_ms)
    os.kill(pid, signal.SIGCONT)
    if grace_ms:  # they go on after the first save, which the second notice ends
        daemon.wait_event(name, "countdown")
        preempt(daemon, name)
    job = daemon.wait(run, timeout=LONG)
    assert (job["state"], job["verdict"]["exit_status"]) == ("preempted", 42), job["verdict"]
    saved = {t["saved_step"] for t in job["workers"]}
    assert len(saved) == 1 and job["workers"][0]["saved_path"] == str(box.path("ck"))
    step = saved.pop()
    text = daemon.log(job, 0, 0).read_text()
    steps = [int(n) for n in re.findall(r"^saved before step (\d+)$", text, re.M)]
    assert steps[-1] == step and len(steps) == (2 if grace_ms else 1), text

    box.path("pause").write_text("0")
    again = daemon.call("Restart", job=name)["run"]
    job = daemon.wait(again, timeout=LONG)
    assert job["state"] == "succeeded", job["verdict"]
    text = daemon.log(job, 0, 0).read_text()
    assert f"resumed at step {step}\n" in text and "540 steps trained" in text, text
    alone = box.run("--nproc-per-node=4", DIGITS, "--epochs=12", "--checkpoint", box.path("whole"),
                    cwd=str(ROOT), timeout=LONG)
    assert alone.rc == 0, alone
    assert box.path("ck").read_bytes() == box.path("whole").read_bytes()
