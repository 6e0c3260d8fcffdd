# SPDX-License-Identifier: Apache-2.0
"""Long output on a terminal goes through a pager; nothing else does."""

import pytest

from harness import CTL, have, spec
from terminal import Terminal
from tmux import Screen


def shown(box, *args, rc=0, **env):
    """The lines that a terminal shows in the end."""
    t = Terminal(box, CTL, *args, env={"TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1",
                                       "ELASTICD_PAGER": "sed s/^/P:/", **env})
    assert t.wait().rc == rc, t.seen
    return t.seen.decode().replace("\r", "").splitlines()


@pytest.fixture
def failed(daemon):
    return daemon.run(spec("print:hello \x1b[31mred\x1b[0m \x07", "exit:3", name="j", logs={"redirects": 3}))


def test_output_of_verbs_that_look_goes_to_the_pager(box, daemon, failed):
    for args in (("logs", "j"), ("errors", "j"), ("why", "j"), ("events", "j"), ("history",), ("help",),
                 ("help", "run"), ("diff", "j", failed["run"])):
        lines = shown(box, *args)
        assert all(line.startswith("P:") for line in lines), lines
        assert lines or args[0] == "diff"
    # An error is not left behind on the other screen; colours go through, other controls do not.
    assert shown(box, "errors", "k", rc=1)[0].startswith("P:elasticctl: ")
    assert shown(box, "logs", "j")[0].endswith("\x1b[31mred\x1b[0m ^G")


def test_other_output_goes_to_no_pager(box, daemon, failed):
    for args in (("logs", "-f", "j"), ("events", "-f", "j"), ("list", "-a"), ("--no-pager", "history"),
                 ("history", "--json")):
        lines = shown(box, *args)
        assert lines and not any(line.startswith("P:") for line in lines), lines
    for env in ({"TERM": "dumb"}, {"ELASTICD_PAGER": ""}, {"ELASTICD_PAGER": "cat"}):
        assert shown(box, "history", **env)[0].startswith("RUN ")
    assert box.ctl("history", env={"TERM": "xterm", "ELASTICD_PAGER": "sed s/^/P:/"}).out.startswith("RUN ")
    assert shown(box, "history", ELASTICD_PAGER=None, PAGER="sed s/^/Q:/")[0].startswith("Q:RUN ")


def test_a_pager_that_is_left_early_is_no_error(box):
    assert len(shown(box, "help", ELASTICD_PAGER="head -n 1")) == 1


@pytest.mark.skipif(not have("less"), reason="no less")
def test_less_shows_a_screen_of_it_and_leaves_where_all_fits(box, daemon, failed):
    t = Screen(box, f"{CTL} help", 80, 10)
    t.see("Run a group of workers", without=["ended with"])
    t.press("q")
    t.see("ended with 0")
    t = Screen(box, f"{CTL} history", 80, 10)
    t.see("RUN ", "ended with 0")
