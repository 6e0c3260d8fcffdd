# SPDX-License-Identifier: Apache-2.0
"""The load program of the benchmarks, which speaks for many hosts, with a small group."""

import collections
import json
import os
import signal
import sys

import harness

sys.path.insert(0, os.path.join(harness.ROOT, "bench"))

from head import Head  # noqa: E402

HOSTS, WORKERS = 64, 4


def test_a_head_leads_many_hosts_through_two_attempts(box):
    logs = box.path("logs")
    head = Head(box, HOSTS, WORKERS, logs, lease="2s")
    try:
        done = head.life("notice", "step")
    finally:
        head.close()
    assert done.rc == 128 + signal.SIGTERM, done.err
    assert "exited with code 1; restart 1 of 1" in done.err
    assert "stopped by head_load" in done.err
    events = [json.loads(line) for line in next(logs.glob("*/events.jsonl")).read_text().splitlines()]
    count = collections.Counter(e["event"] for e in events)
    assert [count[what] for what in ("host-joined", "host-left", "restart")] == [HOSTS, HOSTS, 1]
    # The second round tells all hosts of the failure, too.
    for steps, most in ((("join", "start"), 1024), (("fail", "again"), 1536)):
        said = [head.steps[s] for s in steps]
        assert sum(s.messages for s in said) <= 6 * HOSTS + 10, said
        assert sum(s.bytes for s in said) <= most * HOSTS, said
