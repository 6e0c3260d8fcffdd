# SPDX-License-Identifier: Apache-2.0
"""Hosts of a group that are cut off, stopped or killed: the others go on, and no worker lives twice."""

import os
import signal

import pytest

from group import Group
from harness import SLOWER, children, wait_for, wait_gone


@pytest.fixture
def group(box):
    return Group(box, 3, "2:3")


@pytest.mark.parametrize("how", [
    pytest.param(lambda net, i: net.cut(i), id="both"),
    pytest.param(lambda net, i: net.cut(i, hears=False), id="unheard"),
    pytest.param(lambda net, i: net.cut(i, sends=False), id="deaf"),
    pytest.param(lambda net, i: net.unplug(i), id="unplugged"),
])
def test_the_others_go_on_without_a_host_that_is_cut_off_until_it_is_back(group, how):
    first = group.start().wait_round(0, 1, 2)
    how(group.net, 2)
    second = group.wait_round(0, 1, after=first)
    group.runs[0].wait_err("host node2 was lost")
    group.runs[2].wait_err("the lease of this host is over")
    group.net.heal(2)
    group.wait_round(0, 1, 2, after=second)
    assert [r.rc for r in group.stop()] == [143, 143, 143]
