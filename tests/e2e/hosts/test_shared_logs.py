# SPDX-License-Identifier: Apache-2.0
"""Hosts of a group may share a directory for logs: each has a run of its own name there."""

import re

from group import Group


def test_hosts_that_share_a_log_directory_have_runs_of_their_own(box):
    group = Group(box, 2, 2).start()
    group.wait_round(0, 1)
    group.stop()
    runs = [d.name for d in box.path("logs").iterdir() if not d.is_symlink()]
    assert sorted(re.sub("_[a-z0-9]{8}$", "", run) for run in runs) == ["g.node0", "g.node1"]
    assert (box.path("logs") / "g.latest").resolve().name in runs
