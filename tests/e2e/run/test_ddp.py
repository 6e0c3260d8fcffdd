# SPDX-License-Identifier: Apache-2.0
"""The same data by torch's DistributedDataParallel: unmodified from what runs under torchrun, and with
preemption."""

import functools
import os
import re
import shutil
import subprocess

import pytest

from harness import ALL, ROOT, SLOWER
from python_package import ENV, needs_library

SCRIPT = ROOT / "examples/ddp_digits.py"
LONG = 280 * SLOWER


@functools.cache
def python_with_torch():
    for python in (os.environ.get("ELASTIC_TORCH_PYTHON"), "/opt/venv-torch/bin/python3",
                   shutil.which("python3"), "/usr/bin/python3"):
        if python and os.path.exists(python):
            r = subprocess.run([python, "-c", "import torch.distributed as d; assert d.is_available()"],
                               check=False, capture_output=True)
            if r.returncode == 0:
                return python
    return None


@pytest.mark.slow
@pytest.mark.seconds(900)
def test_distributed_data_parallel_trains_under_run(box):
    python = python_with_torch()
    if not python:
        pytest.skip("no python with torch")
    # torchrun's PYTHON_EXEC names the interpreter.
    result = box.run("--nproc-per-node=2", "--max-restarts=1", "-t", "3", SCRIPT, "--epochs=5",
                     "--target=85", cwd=str(ROOT), env={"PYTHON_EXEC": python}, timeout=LONG)
    assert result.rc == 0, result
    assert "%" in result.out or "accuracy" in result.out.lower(), result


# In each run frameworks/test_ddp_shares_by_elasticd_and_survives_a_lost_worker has a group meet again.
@pytest.mark.all
@pytest.mark.slow
@pytest.mark.seconds(900)
def test_a_gloo_group_meets_again_after_a_restart(box):
    python = python_with_torch()
    if not python:
        pytest.skip("no python with torch")
    result = box.run("--nproc-per-node=4", "--max-restarts=1", "-t", "3", ROOT / "examples/gloo_restart.py",
                     env={"PYTHON_EXEC": python}, timeout=LONG)
    assert result.rc == 0, result
    for rank in range(4):
        assert f"rank {rank} has met the others" in result.out, result


@needs_library
@pytest.mark.slow
@pytest.mark.seconds(900)
def test_a_preempted_job_goes_on_with_every_step_done_once(box):
    """In ./bootstrap all the weights are compared with those of a training that nobody has disturbed, as
    run/digits does for a worker in C."""
    python = python_with_torch()
    if not python:
        pytest.skip("no python with torch")

    def run(checkpoint, *args):
        return box.run("--nproc-per-node=2", "-t", "3", ROOT / "examples/preempt.py",
                       f"--checkpoint={box.path(checkpoint)}", "--steps=40", *args,
                       env={"PYTHON_EXEC": python, **ENV}, timeout=LONG)

    first = run("a.pt", "--notice-at=17")
    assert first.rc == 42 and "saved before step 18" in first.out, first
    again = run("a.pt", "--notice-at=17")
    assert again.rc == 0 and "goes on at step 18" in again.out and "40 steps trained" in again.out, again
    if not ALL:
        return
    whole = run("b.pt")
    assert whole.rc == 0, whole
    assert box.path("a.pt").read_bytes() == box.path("b.pt").read_bytes()
