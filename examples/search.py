#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Searches for hyper-parameters over images of handwritten digits, with a queue of trials.

    elasticctl run --spec examples/search.yaml

The worker of the role search submits trials; the workers of the role trial run them, each with images that it
has loaded once. Half of the trials, the better ones, go on to the next round with four times the training
(successive halving). A worker that dies loses no trial: it is put back, and another one runs it. By hand,
python3 examples/search.py is both in one process.
"""
import argparse
import contextlib
import math
import os
import pathlib
import random
import signal
import threading

import elasticd

DATA = pathlib.Path(__file__).resolve().parent / "data" / "digits.csv"
HELD_OUT, PIXELS, DIGITS = 360, 64, 10
ROUNDS = (1, 4)  # epochs


def parse_args():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--trials", type=int, default=12)
    p.add_argument("--images", type=int, default=400, help="of the training set, for each trial")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--die", type=int, default=-1, metavar="INDEX",
                   help="this worker kills itself in its first trial, the first time it lives")
    return p.parse_args()


# The worker's part.


def load(_):
    """The images, with values of 0 to 1, and which digit each is: what all trials of a worker share."""
    with open(DATA, encoding="ascii") as f:
        rows = [[int(v) for v in line.split(",")] for line in f]
    images = [([v / 16 for v in row[:PIXELS]] + [1.0], row[PIXELS]) for row in rows]
    return images[:-HELD_OUT], images[-HELD_OUT:]


def scores(weights, pixels):
    return [sum(map(float.__mul__, w, pixels)) for w in weights]


def train(images, epochs, rate, decay, seed):
    """Softmax regression: a vector of weights for each digit, which takes a step after each image."""
    rng = random.Random(seed)
    weights = [[0.0] * (PIXELS + 1) for _ in range(DIGITS)]
    for epoch in range(epochs):
        step = rate * decay**epoch
        for pixels, digit in rng.sample(images, len(images)):
            found = scores(weights, pixels)
            if found[digit] < max(found) - 50:
                raise ValueError(f"rate {rate:.4f} diverges in epoch {epoch}")
            shares = [math.exp(s - max(found)) for s in found]
            total = sum(shares)
            for d, share in enumerate(shares):
                by = step * ((d == digit) - share / total)
                if abs(by) > 1e-4:
                    weights[d] = [w + by * v for w, v in zip(weights[d], pixels)]
    return weights


def trial(task, n_images):
    """The share of images held out that it recognises after training."""
    training, held_out = task.resource("digits")
    weights = train(training[:n_images], **task.payload)
    right = sum(scores(weights, pixels).index(max(scores(weights, pixels))) == digit
                for pixels, digit in held_out)
    return right / len(held_out)


def work(job, args):
    def run(task):
        if job.index == args.die and job.start == 0 and job.attempt == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trial(task, args.images)

    job.work(run, resources={"digits": load})


# The search.


def halve(queue, trials, epochs):
    """Runs them all; returns the better half as (accuracy, parameters), best first."""
    tasks = {queue.submit({**p, "epochs": epochs}, resources=["digits"], alone=True): p for p in trials}
    found = []
    for handle in queue.as_completed(tasks):
        try:
            found.append((handle.fetch(), tasks[handle]))
        except elasticd.Error as e:
            print(f"{tasks[handle]}: {e}", flush=True)
    found.sort(key=lambda f: (-f[0], f[1]["seed"]))
    return found[:max(len(found) // 2, 1)]


def search(job, args):
    rng = random.Random(args.seed)
    trials = [{"rate": 10 ** rng.uniform(-3, 1.5), "decay": rng.uniform(0.5, 1), "seed": i}
              for i in range(args.trials)]
    with contextlib.suppress(elasticd.AlreadyExists):  # by who was killed, and comes back
        job.create_resource("digits", None)
    with job.queue() as queue:
        for epochs in ROUNDS:
            found = halve(queue, trials, epochs)
            best = 100 * found[0][0]
            print(f"{epochs} epochs, {len(trials)} trials: the best has {best:.1f} %", flush=True)
            trials = [p for _, p in found]
    accuracy, best = found[0]
    print(f"rate {best['rate']:.4f}, decay {best['decay']:.2f}: {100 * accuracy:.1f} %", flush=True)
    job.result({"accuracy": accuracy, **best})
    job.close_queues()  # no more tasks: the workers leave


def main():
    args = parse_args()
    with elasticd.init() as job:
        if job.role == "trial":
            work(job, args)
        elif job.supervised:
            search(job, args)
        else:
            worker = threading.Thread(target=work, args=(job, args))
            worker.start()
            search(job, args)
            worker.join()


if __name__ == "__main__":
    main()
