# SPDX-License-Identifier: Apache-2.0
"""Tables on a terminal of 50 columns: no line is longer, and what matters most is there."""

import re

import pytest

from harness import CTL, spec, wait_file
from terminal import Terminal


def shown(box, *args, columns=50):
    """The lines of a table, from its titles on, as they are on the terminal."""
    t = Terminal(box, CTL, *args, env={"COLUMNS": str(columns)})
    assert t.wait().rc in (0, 3), t.seen
    lines = t.seen.decode().replace("\r", "").splitlines()
    first = next(i for i, line in enumerate(lines) if re.match(r" *(JOB|RANK|TASK|SOURCE) ", line))
    return lines[first:]


@pytest.fixture
def jobs(box, daemon):
    name, _ = daemon.submit(spec("print:loss 0.125 after many steps of training and some more", "hang",
                                 name="a-job-with-a-rather-long-name-of-its-own", replicas=2,
                                 role={"name": "trainer-with-a-name"}, logs={"redirects": 3}))
    daemon.wait(name, until="running")
    daemon.run(spec("exit:3", name="failed-with-a-message"))
    return name


@pytest.mark.parametrize("columns", [50, 80])
def test_a_list_fits_and_says_who_and_how(box, daemon, jobs, columns):
    lines = shown(box, "list", "--all", columns=columns)
    assert max(len(line) for line in lines) <= columns, lines
    assert re.match(r"JOB +STATE +", lines[0]) and lines[0].endswith("REASON"), lines
    assert any(" running " in line for line in lines) and any(" failed " in line for line in lines), lines


@pytest.mark.parametrize("columns", [50, 80])
def test_a_status_fits_and_says_who_and_how(box, daemon, jobs, columns):
    lines = shown(box, "status", jobs, columns=columns)
    assert max(len(line) for line in lines) <= columns, lines
    assert re.match(r"RANK ROLE +STATE +", lines[0]) and lines[0].endswith("LAST LINE"), lines
    assert len(lines) == 3 and all(" running " in line for line in lines[1:]), lines
    # The whole of it is a question of an option.
    assert "RESTARTS" in shown(box, "status", "--full", jobs, columns=columns)[0]


def test_the_processor_is_a_share_beside_the_time(box, daemon):
    name, _ = daemon.submit(spec("spin:80", f"touch:{box.path('up')}", "hang"))
    daemon.wait(name, until="running")
    wait_file(box.path("up"))
    titles, row = shown(box, "status", "--full", name)
    assert " CPU " in titles and re.search(r" [0-9]+% [0-9.]+m?s( |$)", row), (titles, row)
