# SPDX-License-Identifier: Apache-2.0
"""The main job: real training on real data, a crash, a restart from the checkpoint, a result."""

import re

import pytest

from harness import BUILD, ROOT, SLOWER, wait_file

DIGITS = BUILD / "examples/digits"

pytestmark = [pytest.mark.seconds(120), pytest.mark.slow]


@pytest.fixture(autouse=True)
def built():
    if not DIGITS.exists():
        pytest.skip(f"{DIGITS} is not built")


def accuracies(text):
    """Percentages of the held-out part, as the example prints them."""
    return [float(x) for x in re.findall(r"(\d+\.\d+) ?%", text)]


def test_four_workers_learn_the_digits(box):
    result = box.run("--nproc-per-node=4", "-t", "3", DIGITS, "--checkpoint", box.path("ck"),
                     cwd=str(ROOT), timeout=100 * SLOWER)
    assert result.rc == 0, result
    assert max(accuracies(result.out)) > 93, result


def test_a_crash_is_survived_from_the_checkpoint(box, daemon):
    command = [str(DIGITS), "--checkpoint", str(box.path("ck")), "--crash-rank=1",
               "--crash-epoch=3"]
    name, run = daemon.submit({"name": "digits", "cwd": str(ROOT), "restart": {"max": 1},
                               "roles": [{"replicas": 4, "command": command}],
                               "logs": {"tee": 3}})
    job = daemon.wait(run, timeout=100 * SLOWER)
    assert job["state"] == "succeeded", job["verdict"]
    assert (job["attempt"], job["restarts"]) == (1, 1)
    cause = daemon.call("Errors", job=run, attempt=0)["failures"][0]
    assert not cause["collateral"]
    text = daemon.log(job, 1, 0).read_text()
    assert max(accuracies(text)) > 93, text
    assert re.search(r"resum", text, re.I), "the second incarnation did not start from the checkpoint"
