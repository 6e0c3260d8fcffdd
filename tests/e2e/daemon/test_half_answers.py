# SPDX-License-Identifier: Apache-2.0
"""An agent that says half an answer: how much that holds, and for how long, is limited, and others are
answered meanwhile."""

import pathlib
import select

import pytest

from fake_agent import FakeAgent
from harness import SANITIZED, spec, wait_for

MIB = 1 << 20
HALF = b'{"parameters":{"job":{"x":"'


@pytest.fixture
def hostile(daemon):
    """A job whose agent gives what the test says: hostile(answers). Another job runs beside it."""
    opened = []

    def start(answers):
        runs = [daemon.submit(spec("hang", name=name))[1] for name in ("hostile", "other")]
        pids = [daemon.wait(run, until="running")["workers"][0]["pid"] for run in runs]
        opened.append(FakeAgent(daemon.agent_sock("hostile"), answers))
        opened[0].run, opened[0].other, opened[0].pid = *runs, pids[0]
        return opened[0]

    yield start
    for fake in opened:
        fake.close()


def peak(daemon):
    text = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) * 1024


def others_are_answered(daemon, fake):
    assert [job["state"] for job in daemon.call("List")["jobs"]] == ["running", "running"]
    assert daemon.status(fake.other, live=True)["state"] == "running"


def half_a_minute_ends(daemon, set_clocks, is_over):
    """In small steps: what a host stood still for costs an answer nothing."""
    half_minutes = 3
    for n in range(60 * half_minutes):
        if is_over():
            return
        set_clocks(monotonic=n / 2)
        daemon.call("Ping")
    wait_for(is_over)


def test_half_an_answer_is_waited_for_30_s_and_others_are_answered(set_clocks, daemon, hostile):
    fake = hostile({"Status": HALF})
    with daemon.connect() as v:
        v.send("Status", job=fake.run, live=True)
        wait_for(lambda: fake.asked.count("Status") == 1)
        others_are_answered(daemon, fake)
        assert fake.closed["Status"] == 0
        fake.answers["Status"] = {"job": daemon.status(fake.run)}
        half_a_minute_ends(daemon, set_clocks, lambda: fake.closed["Status"] > 0)
        assert v.reply()["job"]["workers"][0]["pid"] == fake.pid, "it was asked again"


def test_half_a_state_is_waited_for_30_s(set_clocks, daemon, hostile):
    fake = hostile({"Watch": HALF})
    daemon.restart()
    wait_for(lambda: fake.asked.count("Watch") == 1)
    half_a_minute_ends(daemon, set_clocks, lambda: fake.closed["Watch"] > 0)
    half_a_minute_ends(daemon, set_clocks, lambda: fake.asked.count("Watch") > 1)
    assert daemon.status(fake.other, live=True)["state"] == "running"


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is its own")
def test_half_answers_of_an_agent_take_a_bounded_part_of_memory(daemon, hostile):
    fake = hostile({"Status": HALF + b"x" * int(7.8 * MIB)})
    before = peak(daemon)
    asked = [daemon.connect().send("Status", job=fake.run, live=True).sock for _ in range(20)]
    # Two have room; each other one is asked again, and then told from what is known.
    wait_for(lambda: len(select.select(asked, [], [], 0)[0]) >= 17)
    others_are_answered(daemon, fake)
    assert peak(daemon) < before + 50 * MIB
    for connection in asked:
        connection.close()
