# SPDX-License-Identifier: Apache-2.0
"""A verb that takes longer than a second says on a terminal for whom it waits."""

import pytest

from harness import CTL, spec, wait_file
from terminal import Terminal


@pytest.fixture
def stubborn(box, daemon):
    """A job whose workers do not end until it is killed."""
    name, _ = daemon.submit(spec("ignore:TERM", f"touch:{box.path('up')}.%r", "hang", name="j", replicas=2,
                                 stop={"timeout": "600s"}))
    for rank in range(2):
        wait_file(box.path(f"up.{rank}"))
    return daemon.wait(name, until="running")


def terminal(box, *args):
    return Terminal(box, CTL, *args, env={"TERM": "xterm", "NO_COLOR": "1"})


def test_the_line_shows_how_far_a_stop_has_got_and_goes(box, daemon, stubborn):
    other = terminal(box, "wait", "j", "--until", "ended")
    quiet = terminal(box, "-q", "wait", "j")
    piped = box.ctl_start("wait", "j")
    t = terminal(box, "stop", "j")
    t.expect("Waiting 1s for j: stopping, 2 of 2 workers are left\x1b[K")
    t.expect("Waiting 2s for j: stopping")
    other.expect("Waiting 1s for j\x1b[K")
    daemon.call("Kill", job="j", signal="KILL")
    t.expect("\r\x1b[Kj stopped after ")
    assert t.wait().rc == 0 and other.wait().rc != 0
    # The line is gone before anything else is printed.
    assert b"\r\x1b[Kj " in other.seen, other.seen
    assert b"Waiting" not in quiet.seen + quiet.wait().out.encode()
    assert piped.wait().err == "", piped.err


def test_a_timeout_removes_the_line(box, daemon, stubborn):
    t = terminal(box, "--timeout", "1500ms", "stop", "j/0")
    t.expect("Waiting 1s for j/0 to stop\x1b[K")
    t.expect("\r\x1b[Kelasticctl: timed out after 1.5 s")
    assert t.wait().rc == 124
    daemon.call("Kill", job="j", signal="KILL")
