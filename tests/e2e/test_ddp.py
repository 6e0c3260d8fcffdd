# SPDX-License-Identifier: Apache-2.0
"""The same data by torch's DistributedDataParallel, unmodified from what runs under torchrun."""

import os
import shutil
import subprocess

import pytest

from harness import ROOT, SLOWER

SCRIPT = ROOT / "examples/ddp_digits.py"


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
@pytest.mark.seconds(150)
def test_distributed_data_parallel_trains_under_run(box):
    python = python_with_torch()
    if not python:
        pytest.skip("no python with torch")
    # torchrun's PYTHON_EXEC names the interpreter.
    result = box.run("--nproc-per-node=2", "--max-restarts=1", "-t", "3", SCRIPT, cwd=str(ROOT),
                     env={"PYTHON_EXEC": python}, timeout=140 * SLOWER)
    assert result.rc == 0, result
    assert "%" in result.out or "accuracy" in result.out.lower(), result
