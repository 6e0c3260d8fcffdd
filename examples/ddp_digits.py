#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on the UCI digits by PyTorch's DistributedDataParallel (gloo).

The same training as examples/digits.c, and an ordinary PyTorch program: it runs unchanged under

    torchrun --standalone --nproc-per-node 4 examples/ddp_digits.py
    elasticctl run --nproc-per-node 4 examples/ddp_digits.py

Rank 0 saves a checkpoint after each epoch, from which the next attempt goes on. (torchrun of
PyTorch 2.13 needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 to restart a gloo group.)
"""
import argparse
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

HELD_OUT = 360
DATA = pathlib.Path(__file__).resolve().parent / "data" / "digits.csv"


def parse_args():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", default=str(DATA))
    p.add_argument("--checkpoint", help="resume from this file, save to it after each epoch")
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--batch", type=int, default=32, help="images per step, of all workers")
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--target", type=float, default=0, help="fail below this percentage")
    p.add_argument("--crash-rank", type=int, default=-1, help="fails in its first attempt")
    p.add_argument("--crash-epoch", type=int, default=-1)
    return p.parse_args()


def load_images(path):
    """Pixels of 0..1 as (n, 1, 8, 8), and digits."""
    with open(path, encoding="ascii") as f:
        rows = torch.tensor([[int(v) for v in line.split(",")] for line in f])
    return rows[:, :64].float().reshape(-1, 1, 8, 8) / 16, rows[:, 64]


def distort(images, generator):
    """Each image a little shifted, turned, sheared and scaled."""
    n = len(images)
    limits = torch.tensor([0.2, 0.2, 0.15, 0.15, 0.2, 0.2])
    turn, shear, wide, high, right, down = (
        (torch.rand(n, 6, generator=generator) * 2 - 1) * limits).unbind(1)
    wide, high = 1 + wide, 1 + high
    rows = [turn.cos() * wide, shear - turn.sin() * high, right,
            turn.sin() * wide, turn.cos() * high, down]
    theta = torch.stack(rows, 1).reshape(n, 2, 3)
    grid = nn.functional.affine_grid(theta, list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, grid, align_corners=False)


def train_epoch(model, optimizer, images, digits, epoch, args):
    rank, world = dist.get_rank(), dist.get_world_size()
    # The same order and the same variants on all ranks, of which each takes its share.
    generator = torch.Generator().manual_seed(args.seed * 1000 + epoch)
    order = torch.randperm(len(images), generator=generator)
    variants = distort(images, generator)
    for step, start in enumerate(range(0, len(order) - args.batch + 1, args.batch)):
        share = order[start + rank:start + args.batch:world]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(variants[share]), digits[share]).backward()
        if step == 20 and rank == args.crash_rank and epoch == args.crash_epoch:
            if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
                raise RuntimeError(f"rank {rank} was told to fail in epoch {epoch}")
        optimizer.step()


def evaluate(model, images, digits):
    with torch.no_grad():
        scores = model(images)
    loss = nn.functional.cross_entropy(scores, digits).item()
    return loss, 100 * (scores.argmax(1) == digits).float().mean().item()


def save_checkpoint(path, epoch, model, optimizer):
    torch.save({"epoch": epoch, "model": model.state_dict(),
                "optimizer": optimizer.state_dict()}, path + ".new")
    os.replace(path + ".new", path)


def load_checkpoint(path, model, optimizer):
    if not path or not os.path.exists(path):
        return 0
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"]


@record
def main():
    args = parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world}: pid {os.getpid()}, torch {torch.__version__}", flush=True)

    images, digits = load_images(args.data)
    torch.manual_seed(args.seed)
    bare = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(bare.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    done = load_checkpoint(args.checkpoint, bare, optimizer)
    if rank == 0 and done:
        print(f"resumed from the checkpoint of epoch {done}", flush=True)
    # No rank may still be reading the checkpoint when rank 0 replaces it.
    dist.barrier()
    model = DistributedDataParallel(bare)
    accuracy = evaluate(bare, images[-HELD_OUT:], digits[-HELD_OUT:])[1]
    for epoch in range(done + 1, args.epochs + 1):
        for group in optimizer.param_groups:
            group["lr"] = args.lr * (1 - (epoch - 1) / args.epochs)
        train_epoch(model, optimizer, images[:-HELD_OUT], digits[:-HELD_OUT], epoch, args)
        loss, accuracy = evaluate(bare, images[-HELD_OUT:], digits[-HELD_OUT:])
        if rank == 0:
            if args.checkpoint:
                save_checkpoint(args.checkpoint, epoch, bare, optimizer)
            print(f"epoch {epoch:2}/{args.epochs}  loss {loss:.4f}  "
                  f"held-out accuracy {accuracy:.1f} %", flush=True)
    if rank == 0:
        print(f"done: {accuracy:.1f} % of the held-out images recognised", flush=True)
    # Gloo may abort in a worker whose peers are gone while it tears down.
    dist.barrier()
    dist.destroy_process_group()
    return 1 if accuracy < args.target else 0


if __name__ == "__main__":
    sys.exit(main())
