#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits a line to points that many workers hold: doc/tutorial.md explains it.

    elasticctl run --nproc-per-node=3 --max-restarts=1 examples/elastic.py
    python3 examples/elastic.py
"""
import json
import os
import random

import elasticd

STEPS, RATE = 60, 0.3
CHECKPOINT = os.environ.get("CHECKPOINT", "checkpoint.json")


def shard(rank):
    """This worker's points, close to the line y = 3x + 1."""
    rng = random.Random(rank)
    xs = [rng.uniform(-1, 1) for _ in range(50)]
    return [(x, 3 * x + 1 + rng.gauss(0, 0.01)) for x in xs]


def gradient(points, a, b):
    errors = [(x, a * x + b - y) for x, y in points]
    return [2 * sum(e * x for x, e in errors) / len(errors), 2 * sum(e for _, e in errors) / len(errors)]


def mean(job, step, mine):
    """What all workers have found in this step, averaged."""
    job.kv.put(f"gradient/{step}/{job.rank}", json.dumps(mine))
    found = [json.loads(job.kv.get(f"gradient/{step}/{r}")) for r in range(job.world_size)]
    job.kv.delete(f"gradient/{step - 1}/{job.rank}")  # all are past it: each has put a newer one
    return [sum(column) / len(found) for column in zip(*found)]


def load():
    """Where to go on: step, a, b."""
    if not os.path.exists(CHECKPOINT):
        return 0, 0.0, 0.0
    with open(CHECKPOINT) as f:
        return json.load(f)


def save(*state):
    with open(CHECKPOINT + ".new", "w") as f:
        json.dump(state, f)
    os.replace(CHECKPOINT + ".new", CHECKPOINT)  # whole or not at all


@elasticd.record
def main():
    with elasticd.init() as job:
        begin, a, b = load()
        job.barrier("loaded")  # no worker saves before all have read
        points = shard(job.rank)
        for step in range(begin, STEPS):
            job.step(step)
            if step == 25 and job.rank == 1 and job.attempt == 0:
                raise RuntimeError("a bad batch")
            da, db = mean(job, step, gradient(points, a, b))
            a, b = a - RATE * da, b - RATE * db
            if job.rank == 0 and step % 10 == 9:
                save(step + 1, a, b)
        if job.rank == 0:
            print(f"y = {a:.2f} x + {b:.2f}, from step {begin} on")
        job.result({"a": round(a, 2), "b": round(b, 2), "begin": begin})
        job.leave()


if __name__ == "__main__":
    main()
