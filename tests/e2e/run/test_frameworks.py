# SPDX-License-Identifier: Apache-2.0
"""Real frameworks as workers: TensorFlow's own resolver reads what TF_CONFIG says, and a program of
torch's DistributedDataParallel uses elasticd beside its process group."""

import json

import pytest

from harness import SLOWER
from python_package import ENV, LIBRARY, python_with, told, write_script

pytestmark = [pytest.mark.slow, pytest.mark.seconds(900)]
LONG = 300 * SLOWER


def role(name, replicas, python, script, **more):
    return {"name": name, "replicas": replicas, "env": {**ENV, "TF_CPP_MIN_LOG_LEVEL": "3"},
            "command": [python, "-u", str(script)], **more}


RESOLVE = """
    import json, os
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = resolver.cluster_spec()
    print(json.dumps([resolver.task_type, resolver.task_id, cluster.as_dict(), resolver.rpc_layer,
                      resolver.master(resolver.task_type, resolver.task_id)
                      if resolver.task_type in cluster.jobs else None]))
"""


def test_tensorflow_reads_the_cluster_that_the_agent_describes(box, daemon):
    python = python_with(box, "tensorflow", "ELASTIC_TF_PYTHON", "/opt/venv-tf/bin/python")
    script = write_script(box, RESOLVE)
    job = daemon.wait(daemon.submit({
        "logs": {"redirects": "3"}, "compat": {"tf_config": True, "rpc_layer": "grpc"},
        "roles": [role("chief", 1, python, script), role("worker", 2, python, script),
                  role("ps", 1, python, script), role("evaluator", 1, python, script)]})[1], timeout=LONG)
    assert job["state"] == "succeeded", daemon.call("Errors", job=job["run"])
    said = told(daemon, job)
    who = [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("evaluator", 0)]
    assert [(kind, index) for kind, index, *_ in said] == who
    cluster = said[0][2]
    assert {kind: len(addresses) for kind, addresses in cluster.items()} == {
        "chief": 1, "worker": 2, "ps": 1}
    addresses = [a for kind in cluster.values() for a in kind]
    assert len(set(addresses)) == 4, addresses
    for kind, index, seen, layer, master in said:
        assert layer == "grpc"
        assert {k: v for k, v in seen.items() if k != "evaluator"} == cluster
        assert master in (None, f"grpc://{cluster[kind][index]}" if kind in cluster else master)


DDP = """
    import json, os
    import torch
    import torch.distributed as dist
    import elasticd

    @elasticd.record
    def main():
        dist.init_process_group("gloo", init_method="env://")
        torch.manual_seed(0)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        with elasticd.init() as job:
            assert (job.rank, job.world_size) == (dist.get_rank(), dist.get_world_size())
            if job.rank == 0:
                job.kv.put("target", json.dumps([1.0, 2.0, 3.0, 4.0]))
            target = torch.tensor(json.loads(job.kv.get("target")))
            generator = torch.Generator().manual_seed(job.rank)
            losses = []
            for n in range(60):
                job.step(n)
                if job.attempt == 0 and job.rank == 1 and n == 5:
                    raise RuntimeError("a worker is lost")
                x = torch.randn(32, 4, generator=generator)
                loss = ((model(x).squeeze(1) - x @ target) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            weights = model.module.weight.detach().flatten().tolist()
            job.barrier("trained")
            job.kv.put(f"weights/{job.rank}", json.dumps(weights))
            others = [json.loads(job.kv.get(f"weights/{r}")) for r in range(job.world_size)]
            assert all(o == weights for o in others), others
            job.result({"first": losses[0], "last": losses[-1], "attempt": job.attempt})
        dist.destroy_process_group()

    main()
"""


def test_ddp_shares_by_elasticd_and_survives_a_lost_worker(box, daemon):
    if not LIBRARY.exists():
        pytest.skip(f"no {LIBRARY}")
    python = python_with(box, "torch", "ELASTIC_TORCH_PYTHON", "/opt/venv-torch/bin/python")
    if box.sh(python, "-c", "import sys; sys.exit(sys.version_info < (3, 9))").rc:
        pytest.skip("the package needs Python 3.9")
    worker = role("worker", 2, python, write_script(box, DDP))
    worker["env"]["OMP_NUM_THREADS"] = "1"
    job = daemon.wait(daemon.submit({"logs": {"redirects": "3"}, "restart": {"max": 1},
                                     "roles": [worker]})[1], timeout=LONG)
    assert job["state"] == "succeeded", daemon.call("Errors", job=job["run"])
    assert (job["attempt"], job["restarts"]) == (1, 1)
    results = [json.loads(r["value"]) for r in daemon.call("Results", job=job["run"])["results"]]
    assert len(results) == 2
    for r in results:
        assert r["attempt"] == 1 and r["last"] < r["first"] / 10, results
    failures = daemon.call("Errors", job=job["run"], attempt=0)["failures"]
    assert "a worker is lost" in failures[0]["message"], failures
