# SPDX-License-Identifier: Apache-2.0
"""A terminal whose screen a test can look at, by tmux: what a program draws with all its movements."""

import pytest

from harness import have, wait_for


class Screen:
    """Runs a shell command in a terminal of that size."""

    def __init__(self, box, command, columns=80, rows=24, **env):
        if not have("tmux"):
            pytest.skip("no tmux")
        place = box.path(f"tmux{len(box.programs)}")
        self.box, self.socket = box, str(place)
        self.drawn = place.with_suffix(".drawn")  # grows with each byte that the program writes
        self.drawn.touch()
        self.server = box.start("tmux", "-D", "-S", self.socket, "-f", "/dev/null",
                                env={"TERM": "xterm-256color"})
        wait_for(place.exists, box.dir, what="tmux's socket")
        words = " ".join(f"{k}={v}" for k, v in {"TERM": "screen-256color", **env}.items())
        # The pane is watched before the program begins to draw.
        self.tmux("new-session", "-d", "-s", "t", "-x", columns, "-y", rows,
                  f"read go; env {words} {command}; echo ended with $?; stty -a | grep icanon; read wait")
        self.tmux("pipe-pane", "-t", "t", f"cat >> {self.drawn}")
        self.press("Enter")

    def tmux(self, *args):
        result = self.box.sh("tmux", "-S", self.socket, *map(str, args))
        assert result.rc == 0, result
        return result.out

    def press(self, *keys):
        self.tmux("send-keys", "-t", "t", *keys)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-t", "t", "-x", columns, "-y", rows)

    def lines(self, *options):
        return self.tmux("capture-pane", "-p", *options, "-t", "t").splitlines()

    def see(self, *texts, without=()):
        """Waits until all these texts are on the screen, and none of the others; returns its lines."""
        seen = []

        def shown():
            seen[:] = self.lines()
            whole = "\n".join(seen)
            return all(t in whole for t in texts) and not any(t in whole for t in without)

        try:
            wait_for(shown, self.drawn, what=f"{texts} on the screen")
        except AssertionError as e:
            raise AssertionError(f"{e}; there is:\n" + "\n".join(seen)) from None
        return seen

    def pid(self, program):
        """Of the program in the terminal."""
        shell = self.tmux("display-message", "-p", "-t", "t", "#{pane_pid}").strip()
        with open(f"/proc/{shell}/task/{shell}/children", encoding="ascii") as f:
            return int(f.read().split()[0])
