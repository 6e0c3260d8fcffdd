# SPDX-License-Identifier: Apache-2.0
"""torch's DistributedDataParallel in a group that etcd leads: training loses no step while etcd is away, and
goes on from its checkpoint when the host that leads is lost."""

import os
import pathlib
import sys
import time

import pytest

from etcd_group import LEASE_MS, EtcdGroup
from harness import SLOWER, wait_for
from python_package import write_script

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "run"))
from test_ddp import python_with_torch  # noqa: E402

EVERY = 10  # steps between checkpoints
AWAY_S = float(os.environ.get("ELASTIC_ETCD_AWAY_SECONDS", 1.5 * LEASE_MS / 1000))
TRAINING = f"""
import os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

checkpoint, steps, done = sys.argv[1:]
dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    step = saved["step"]
end = torch.zeros(1)
while not end:
    optimizer.zero_grad()
    model(torch.ones(4, 8)).mean().backward()
    optimizer.step()
    step += 1
    if dist.get_rank() == 0:
        with open(steps, "a") as f:
            print(step, dist.get_world_size(), file=f)
        if step % {EVERY} == 0:
            torch.save({{"model": model.state_dict(), "step": step}}, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
    end = torch.tensor([float(os.path.exists(done))])
    dist.broadcast(end, 0)
    time.sleep(0.01)
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.seconds(900)
def test_training_survives_the_loss_of_etcd_and_of_the_host_that_leads(box):
    python = python_with_torch()
    if not python:
        pytest.skip("no python with torch")
    group = EtcdGroup(box, 3, "2:3")
    script, steps, done = write_script(box, TRAINING), box.path("steps"), box.path("done")
    group.document["roles"] = [{
        "replicas": 1, "command": [python, str(script), str(box.path("checkpoint")), str(steps), str(done)],
        "env": {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}}]
    group.start_led(0)

    def rows():
        lines = steps.read_text().splitlines() if steps.exists() else []
        return [tuple(map(int, line.split())) for line in lines]

    def trained(count, world):
        wait_for(lambda: sum(w == world for _, w in rows()) >= count, timeout=120 * SLOWER,
                 what=f"{count} steps of {world} hosts")

    trained(EVERY, 3)
    group.etcd.pause()
    before = len(rows())
    time.sleep(AWAY_S)
    trained(before + EVERY, 3)
    group.etcd.go_on()
    group.runs[0].wait_err("etcd answers again")
    group.kill_hosts(0)
    group.runs[0] = None
    trained(EVERY, 2)
    # Each step is done once, but for those since the last checkpoint, once.
    numbers = [step for step, _ in rows()]
    again = next(i for i, (_, world) in enumerate(rows()) if world == 2)
    assert numbers[:again] == list(range(1, again + 1))
    assert again - EVERY < numbers[again] <= again + 1, numbers[again - 1:again + 2]
    done.touch()
    assert [run.wait(timeout=120 * SLOWER).rc for run in group.runs if run] == [0, 0]
