# SPDX-License-Identifier: Apache-2.0
"""Barriers, states, errors, leave and keys among workers of several hosts: the tests of one host's."""

import os
import pathlib
import signal
import sys

import pytest

from harness import spec
from shared_hosts import HostsGroup
from stranger import third_of_three

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "sharing"))
from test_worker_group import (  # noqa: E402,F401
    names, test_a_barrier_can_be_cancelled,
    test_a_barrier_of_some_is_none_of_the_others_business,
    test_a_barrier_that_has_passed_cannot_be_cancelled_and_is_used_again,
    test_a_barrier_that_times_out_names_who_is_missing,
    test_a_caller_that_is_no_member_fails_the_barrier_for_all,
    test_a_dead_member_is_seen_at_once_by_those_who_wait,
    test_a_leave_that_times_out_names_the_others,
    test_a_member_that_comes_twice_counts_once,
    test_a_member_that_leaves_after_it_came_changes_nothing_for_the_others,
    test_a_member_that_there_is_not_is_named_to_all,
    test_a_recoverable_task_that_a_person_starts_again_is_waited_for,
    test_a_task_that_is_started_again_by_itself_is_a_member_like_before,
    test_alive_gives_all_the_same_set_when_all_who_live_have_asked,
    test_all_leave_together,
    test_an_error_that_one_reports_reaches_all_with_its_origin,
    test_calls_are_cancelled_when_the_group_is_stopped,
    test_no_worker_passes_a_barrier_before_the_last_has_come,
    test_other_members_fail_the_barrier_for_all,
    test_states_name_who_is_dead_until_it_is_there_again,
    test_the_job_is_ready_once_its_barrier_has_passed,
    test_the_job_is_ready_when_all_workers_have_said_so)
from test_worker_kv import (  # noqa: E402,F401
    test_a_key_is_written_once_unless_it_may_be_overwritten,
    test_a_list_is_what_lies_below_sorted,
    test_a_read_may_wait_for_a_later_write,
    test_a_reader_that_stops_reading_slows_nobody_and_misses_no_last_value,
    test_a_wait_has_a_limit_and_says_what_it_waited_for,
    test_a_watch_of_everything_may_be_written_as_slashes,
    test_a_watch_of_what_is_forgotten_is_out_of_range,
    test_a_watch_tells_every_change_in_order_and_can_be_resumed,
    test_a_watch_without_more_is_refused,
    test_all_who_wait_are_served_by_one_write_even_if_it_is_deleted_at_once,
    test_any_bytes_are_a_value, test_bad_keys_and_values_are_refused_and_named,
    test_delete_takes_all_below_a_key, test_keys_are_normalised,
    test_the_first_answer_of_a_watch_has_the_revision_that_it_goes_on_from)


@pytest.fixture
def group_like(box):
    groups = []

    def make(document, **more):
        groups.append(HostsGroup(box, document, **more))
        return groups[-1]

    yield make
    for g in groups:
        g.close()


@pytest.fixture
def group_of(group_like):
    def make(n, **top):
        group = group_like(spec("hang", replicas=n, **top))
        return group, *group.all(*names(n))
    return make


@pytest.fixture
def two(group_like):
    group = group_like(spec("hang", replicas=2))
    return (group, *group.all("worker:0", "worker:1"))


def test_what_a_worker_puts_before_it_closes_its_connection_is_there(two):
    group, a, b = two
    for i in range(50):
        w = group.connect("worker:1")
        w.send("Put", oneway=True, key=f"k{i}", value="v")
        w.close()
        a.call("Get", key=f"k{i}", wait=True, timeout_ms=60000)


def test_what_a_worker_puts_before_it_ends_is_there(box):
    group, s, n = third_of_three(box)
    worker = {"round": n, "worker": "worker:2"}
    put = {"method": "io.elasticd.Worker.Put", "oneway": True, "parameters": {"key": "k", "value": "v"}}
    get = {"method": "io.elasticd.Worker.Get", "parameters": {"key": "k"}}
    both = {**worker, "rank": 2, "time_us": 1}
    s.say_at_once(
        ("Call", {**worker, "connection": 1, "message": put}),
        ("Report", {**both, "start": 0, "event": "exited", "exit": {"code": 1}, "state": "waiting",
                    "alone": True}),
        ("Report", {**both, "start": 1, "event": "started"}))
    s.say("Call", **worker, connection=2, message=get)
    assert s.wait("Answer")["message"]["parameters"]["entry"]["value"] == "v"
    group.stop()


def test_more_unread_answers_than_a_link_takes_lose_no_host(group_like):
    """80 workers' connections on one host wait for a key of 1 MiB; a link ends where 64 MiB wait."""
    group = group_like(spec("hang", replicas=4), hosts=2)
    me = group.connect("worker:0")
    readers = [group.connect(w) for w in ("worker:2", "worker:3") for _ in range(40)]
    for w in readers:
        w.send("Get", key="big", wait=True, timeout_ms=60000)
    group.flush()
    me.put("big", "x" * (1 << 20))
    for w in readers:
        assert len(w.reply()["entry"]["value"]) == 1 << 20


def test_a_worker_that_a_person_stops_while_it_waits_for_its_start_is_waited_for_by_none(group_like):
    group = group_like(spec("hang", replicas=2, role={"recoverable": True},
                            restart={"scope": "worker", "max": 3, "backoff": "1h"}))
    a, b = group.all("worker:0", "worker:1")
    a.send("Barrier", name="x", members=["worker:0", "worker:1"])
    b.put("sync", "")
    os.kill(group.task("worker:1")["pid"], signal.SIGKILL)
    group.daemon.wait_event(group.name, "worker-restart")
    group.daemon.call("StopWorkers", job=group.name, workers="worker:1")
    assert a.error().parameters["missing"] == ["worker:1"]
