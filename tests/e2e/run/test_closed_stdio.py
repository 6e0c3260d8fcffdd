# SPDX-License-Identifier: Apache-2.0
"""Programs that were started without some of standard input, output and error: no descriptor of their own
takes the place of these."""

import os
import pathlib

import pytest

from harness import CTL, spec

IDLE = {"name": "j", "roles": [{"command": ["sleep", "100000"]}]}
TOLD = "cannot write to standard output: Bad file descriptor"


@pytest.fixture
def idle(daemon):
    daemon.submit(IDLE)
    daemon.wait("j", until="running")
    return daemon


def closed(box, redirections, *args):
    """elasticctl without some descriptors."""
    return box.sh("sh", "-c", f'exec "$0" "$@" {redirections}', CTL, *args)


def numbers(daemon):
    with daemon.connect() as v:
        v.INTERFACE = "io.elasticd.Queue."
        return [t["task"] for t in v.call("List", job="j")["tasks"]]


@pytest.mark.parametrize("redirections", [">&-", "<&- >&-"])
def test_a_submit_without_standard_output_says_so(box, idle, redirections):
    result = closed(box, redirections, "task", "submit", "j", "a", "b")
    assert result.rc == 1 and TOLD in result.err and "2 tasks were accepted" in result.err, result
    assert numbers(idle) == [1, 2]


def test_all_three_may_be_closed(box, idle):
    result = closed(box, "<&- >&- 2>&-", "task", "submit", "j", "a")
    assert (result.rc, result.out, result.err) == (1, "", ""), result
    assert numbers(idle) == [1]


def test_no_standard_input_is_an_empty_one(box, idle):
    result = closed(box, "<&-", "task", "submit", "--file=-", "j")
    assert (result.rc, result.out, result.err) == (0, "", ""), result
    result = closed(box, "<&- 2>&-", "task", "submit", "j", "a")
    assert (result.rc, result.out) == (0, "1\n"), result


@pytest.mark.parametrize("verb", [("task", "list", "j"), ("task", "stats", "j"), ("status", "j"), ("list",)])
def test_output_that_goes_nowhere_is_an_error(box, idle, verb):
    result = closed(box, ">&-", *verb)
    assert result.rc == 1 and TOLD in result.err, result


def descriptors(path):
    """What a worker saw of its own."""
    return pathlib.Path(path).read_text().split()


def look(out):
    """A program that tells what its first three descriptors are, and writes to 1 and 2 and reads 0."""
    return ["sh", "-c", 'd=; for n in 0 1 2; do d="$d $(readlink /proc/$$/fd/$n)"; done; '
            f'cat && echo out && echo err >&2 && echo "$d" > {out}']


def test_workers_of_run_find_the_null_device(box):
    out = box.path("seen")
    result = closed(box, "<&- >&- 2>&-", "run", f"--log-dir={box.path('logs')}", "--", *look(out))
    assert result.rc == 0, result
    assert descriptors(out) == ["/dev/null"] * 3


def test_the_program_of_attach_finds_the_null_device(box, idle):
    out = box.path("seen")
    result = closed(box, "<&- >&- 2>&-", "attach", "--replace", "j/worker:0", "--", *look(out))
    assert result.rc == 0, result
    assert descriptors(out) == ["/dev/null"] * 3


def test_elasticd_keeps_their_places_free(box):
    daemon = box.new_daemon()
    daemon.prefix = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-']
    daemon.start()
    assert [os.readlink(f"/proc/{daemon.pid}/fd/{n}") for n in range(3)] == ["/dev/null"] * 3
    assert daemon.run(spec("print:hello"))["state"] == "succeeded"
    assert daemon.stop().rc == 0
