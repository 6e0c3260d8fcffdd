#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DistributedDataParallel: all workers save at the same step when the machine is taken away.

    elasticctl run --nproc-per-node=2 examples/preempt.py --checkpoint=digits.pt

and, from elsewhere, `elasticctl preempt`, or a signal where the job's preemption.notices say so (see
doc/tutorial.md). It exits with 42 then; started again it goes on with the next step, so that each step is
done once. By hand, python3 examples/preempt.py is a group of one, and SIGTERM is its notice.
"""
import argparse
import os
import pathlib
import sys

import elasticd
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

DATA = pathlib.Path(__file__).resolve().parent / "data" / "digits.csv"
HELD_OUT = 360


def parse_args():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--checkpoint", default="digits.pt")
    p.add_argument("--steps", type=int, default=600)
    p.add_argument("--batch", type=int, default=64, help="images per step, of all workers")
    p.add_argument("--notice-at", type=int, default=-1, metavar="STEP",
                   help="rank 0 gives notice in this step of a training that begins at step 0")
    return p.parse_args()


def load_images():
    with open(DATA, encoding="ascii") as f:
        rows = torch.tensor([[int(v) for v in line.split(",")] for line in f])
    return rows[:, :64].float() / 16, rows[:, 64]


def batch_of(step, n, args):
    """The images of a step, which are the same for every worker and run."""
    generator = torch.Generator().manual_seed(step)
    return torch.randperm(n, generator=generator)[:args.batch]


class Training:
    """All that a checkpoint holds: what one step leaves to the next."""

    def __init__(self, args):
        torch.manual_seed(1)
        self.path = args.checkpoint
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.trained = 0  # steps, by all runs
        self.begin = 0

    def load(self):
        if not os.path.exists(self.path):
            return
        state = torch.load(self.path)
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.begin, self.trained = state["step"], state["trained"]
        print(f"goes on at step {self.begin}", flush=True)

    def save(self, step):
        """Before this step, on all workers. Their networks are the same, and one of them writes."""
        if dist.get_rank() != 0:
            return None
        with open(self.path + ".new", "wb") as f:
            torch.save({"step": step, "trained": self.trained, "net": self.net.state_dict(),
                        "optimizer": self.optimizer.state_dict()}, f)
            f.flush()
            os.fsync(f.fileno())  # on the disk before it gets its name
        os.replace(self.path + ".new", self.path)
        print(f"saved before step {step}", flush=True)
        return self.path


def train(job, training, args):
    images, digits = load_images()
    n = len(images) - HELD_OUT
    model = DistributedDataParallel(training.net)
    rank, world = dist.get_rank(), dist.get_world_size()
    with job.preemptible(save=training.save) as work:
        for step in range(training.begin, args.steps):
            work.step(step)
            if step == args.notice_at and training.begin == 0 and rank == 0:
                job.notify("as asked for by --notice-at")
            share = batch_of(step, n, args)[rank::world]
            training.optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[share]), digits[share]).backward()
            training.optimizer.step()
            training.trained += 1
    training.save(args.steps)
    with torch.no_grad():
        right = training.net(images[n:]).argmax(1) == digits[n:]
    return 100 * right.float().mean().item()


@elasticd.record
def main():
    args = parse_args()
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    job = elasticd.init()
    dist.init_process_group("gloo")
    training = Training(args)
    training.load()
    dist.barrier()  # no worker saves before all have read
    accuracy = train(job, training, args)
    assert training.trained == args.steps, f"{training.trained} of {args.steps} steps were trained"
    if dist.get_rank() == 0:
        print(f"done: {accuracy:.1f} % of the held-out images recognised, {training.trained} steps trained",
              flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
