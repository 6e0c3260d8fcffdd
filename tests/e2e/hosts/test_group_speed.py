# SPDX-License-Identifier: Apache-2.0
"""Stragglers among the workers of several hosts."""

import sys

from python_package import ENV, needs_library
from shared_hosts import HostsGroup

# All wait for each other in each step; while the file is there, rank 2 needs 120 ms before it calls step().
TIED = """
import os, time, elasticd
job = elasticd.init()
n = 0
while not os.path.exists(os.environ["END"]):
    if job.rank == 2 and os.path.exists(os.environ["SLOW"]):
        time.sleep(0.12)
    job.step(n)
    job.barrier(f"step {n}")
    time.sleep(0.03)
    n += 1
"""


@needs_library
def test_the_slow_host_of_several_with_one_worker_each_is_named_on_all(box):
    end, slow = box.path("end"), box.path("slow")
    slow.touch()
    group = HostsGroup(box, {
        "roles": [{"replicas": 4, "command": [sys.executable, "-S", "-c", TIED],
                   "env": {**ENV, "END": str(end), "SLOW": str(slow)}}],
        "rendezvous": {"lease": "1s"}, "speed": {"window": "1s", "straggler": 40}}, hosts=4)
    daemons = group.daemon.daemons
    for d in daemons:
        named = d.wait_event(group.name, "straggler")
        host = named["data"]["host"]
        assert (named["rank"], named["data"]["worker"]) == (2, "worker:2") and named["data"]["percent"] >= 40
        assert f"worker:2 of host {host} begins its steps " in named["text"], named
    live = [d.status(group.name, live=True)["workers"][0] for d in daemons]
    assert ["straggler" in w for w in live] == [False, False, True, False], live
    assert all(w["steps_per_s"] > 1 for w in live), live
    text = daemons[0].ctl("status", group.name).out
    assert f"Slow: worker:2 of host {host} begins its steps " in text, text
    slow.unlink()
    for d in daemons:
        assert "not slower than the others any more" in d.wait_event(group.name, "straggler-over")["text"]
    assert "straggler" not in daemons[2].status(group.name, live=True)["workers"][0]
    end.touch()
    for d in daemons:
        assert d.wait(group.name)["state"] == "succeeded"
        names = [e["data"]["worker"] for e in d.events(group.name) if e["event"].startswith("straggler")]
        assert names == ["worker:2"] * 2, names
    group.close()
