# SPDX-License-Identifier: Apache-2.0
"""Tables on a terminal of 50 columns: no line is longer, and what matters most is there."""

import re

import pytest

from harness import CTL, spec, wait_file
from terminal import Terminal


def printed(box, *args, columns=50):
    """The lines that are on the terminal in the end."""
    t = Terminal(box, CTL, *args, env={"COLUMNS": str(columns)})
    assert t.wait().rc in (0, 3), t.seen
    return t.seen.decode().replace("\r", "").splitlines()


def shown(box, *args, columns=50):
    """The lines of a table, from its titles on."""
    lines = printed(box, *args, columns=columns)
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


def test_the_head_of_a_status_fits_and_says_each_thing_once(box, daemon, jobs):
    lines = printed(box, "status", "failed-with-a-message")
    head = lines[:lines.index("")]
    assert max(len(line) for line in head if "/" not in line) <= 50, head
    text = " ".join(" ".join(head).split())
    assert "Verdict: failed with exit status 3: worker:0: exit code 3; no restarts" in text, head
    assert text.count("no restarts are configured") == 1 and "Reason:" not in text, head
    whole = printed(box, "status", "--full", "failed-with-a-message")
    assert next(line for line in whole if "Verdict: " in line).endswith("(restart.max is 0)"), whole


def test_the_processor_is_a_share_beside_the_time(box, daemon):
    name, _ = daemon.submit(spec("spin:80", f"touch:{box.path('up')}", "hang"))
    daemon.wait(name, until="running")
    wait_file(box.path("up"))
    titles, row = shown(box, "status", "--full", name)
    assert " CPU " in titles and re.search(r" [0-9]+% [0-9.]+m?s( |$)", row), (titles, row)


@pytest.mark.parametrize("role,titles", [
    ("trainer", "RANK ROLE STATE EXIT UPTIME LAST LINE"),
    ("trainer-with-a-name", "RANK ROLE STATE EXIT LAST LINE"),
    ("trainer-whose-name-takes-all-of-it", "RANK ROLE STATE")])
def test_a_workers_name_is_whole_when_all_else_is_cut_or_left_out(box, daemon, role, titles):
    name, _ = daemon.submit(spec("print:loss 0.125 after many steps of training and some more", "hang",
                                 role={"name": role}, logs={"redirects": 3}))
    daemon.wait(name, until="running")
    first, row = shown(box, "status", name)
    assert " ".join(first.split()) == titles and f" {role}:0 " in row and len(row) <= 50, (first, row)


def words(text):
    return [word for word in text.split() if set(word) - set("=-")]


def test_errors_events_and_why_fit_and_say_all(box, daemon):
    run = daemon.run(spec("if-rank:1:hang", "eprint:it went wrong in a way that takes many words to tell",
                          "error-json:object:no data is left in the files that were to be read", "exit:3",
                          replicas=2, restart={"max": 1}))["run"]
    for verb in ("errors", "events", "why"):
        lines = printed(box, verb, run)
        assert max(len(line) for line in lines if "/" not in line) <= 50, lines
        assert not any(line.endswith(" ") for line in lines), lines
        # Nothing but places and rules differs from what a pipe gets; events have the day there.
        whole = box.ctl(verb, run).out
        if verb == "events":
            whole = re.sub(r"(?m)^\S+ (\S+)\.\d+", r"\1", whole)
        assert words("\n".join(lines)) == words(whole)
