# SPDX-License-Identifier: Apache-2.0
"""A state directory without room costs history at most, never what was counted."""

import pytest

from harness import fill, spec, wait_file, wait_lines
from killing import kill_agent


@pytest.fixture
def small(box):
    """An elasticd whose state has a small disk of its own."""
    daemon = box.new_daemon()
    box.mount_small(daemon.state, "2m", "700")
    return daemon.start()


def restarted_twice_without_room(box, daemon, max_restarts=3, **more):
    name, run = daemon.submit(spec(
        f"mark:{box.path('marks')}", f"if-attempt:0:wait-file:{box.path('go')}+exit:1", "if-attempt:1:exit:1",
        f"touch:{box.path('up')}.%a", f"wait-file:{box.path('end')}",
        restart={"max": max_restarts, **more}))
    wait_lines(box.path("marks"), 1)
    daemon.watch(name, lambda job, _: job["state"] == "running")
    fill(daemon.state / "ballast")
    box.path("go").touch()
    wait_file(box.path("up.2"))
    return name, run, daemon.watch(name, lambda job, _: job["state"] == "running" and job["attempt"] == 2)


def counts(daemon, run):
    job = daemon.status(run)
    return job["restarts"], job["max_restarts"]


@pytest.mark.parametrize("whom", ["agent", "both"])
def test_counts_are_right_after_a_full_disk_and_a_killed_agent(box, small, whom):
    name, run, job = restarted_twice_without_room(box, small)
    assert counts(small, run) == (2, 3)
    kill_agent(job, whom)
    wait_file(box.path("up.3"))
    small.watch(name, lambda job, _: job["state"] == "running" and job["attempt"] == 3)
    assert counts(small, run) == (3, 3)
    (small.state / "ballast").unlink()
    box.path("end").touch()
    assert small.wait(run)["state"] == "succeeded"
    assert counts(small, run) == (3, 3)


def test_counts_are_right_after_a_full_disk_when_the_run_ends_without_room(box, small):
    name, run, job = restarted_twice_without_room(box, small)
    box.path("end").touch()
    assert small.wait(run)["state"] == "succeeded"
    assert counts(small, run) == (2, 3)
    small.kill()
    small.start()
    assert counts(small, run) == (2, 3)


def test_counts_are_right_after_a_full_disk_and_elasticd_and_agent_killed(box, small):
    name, run, job = restarted_twice_without_room(box, small, max_restarts=2)
    small.kill()
    kill_agent(job, "both")
    small.start()
    assert small.wait(run)["verdict"]["result"] == "agent_lost"
    assert counts(small, run) == (2, 2)
    assert "2 of 2 restarts used" in small.call("Why", job=run)["text"]
