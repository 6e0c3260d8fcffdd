#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The workers of a gloo group meet; in the first attempt rank 1 fails instead, so that all start again.

    elasticctl run --nproc-per-node=4 --max-restarts=3 examples/gloo_restart.py
    torchrun       --nproc-per-node=4 --max-restarts=3 examples/gloo_restart.py

torchrun of torch 2.13 does not survive the restart (pytorch#135712): its agent keeps one store for all
attempts, in which the workers find the addresses of dead workers. They hang, or fail until the
restarts are used up. Under elasticctl rank 0 opens the store, so that each attempt has its own.
"""
import os
import sys

import torch.distributed as dist

dist.init_process_group("gloo")
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    sys.exit("a failure")
dist.barrier()
print(f"rank {dist.get_rank()} has met the others", flush=True)
dist.destroy_process_group()
