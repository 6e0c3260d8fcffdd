# SPDX-License-Identifier: Apache-2.0
"""elasticctl prints nothing that steers a terminal, not even what other users wrote."""

import json
import re
import socket
import threading

import pytest

from harness import CTL, spec
from terminal import Terminal

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[8m\u009b31mfoo\rbar\x7f"
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


def steers(data):
    """Control characters, but for ends of lines, tabs and colours."""
    text = COLOUR.sub(b"", data).replace(b"\r\n", b"\n").decode(errors="replace")
    return [c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0"]


class FakeDaemon:
    """Answers every call with the same message."""

    def __init__(self, box, **message):
        self.path = str(box.path("fake.sock"))
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path)
        self.listening.listen()
        self.reply = json.dumps(message, ensure_ascii=False).encode() + b"\0"
        box.cleanups.append(self.close)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                peer = self.listening.accept()[0]
            except OSError:
                return
            with peer:
                rest = b""
                while data := peer.recv(65536):
                    *calls, rest = (rest + data).split(b"\0")
                    for _ in calls:
                        peer.sendall(self.reply)

    def close(self):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join()


def error(name, **parameters):
    return {"error": f"io.elasticd.Manager.{name}", "parameters": parameters}


@pytest.mark.parametrize("message", [
    error("Internal", message=EVIL),
    error("NotFound", message=EVIL, job=EVIL),
    error("InvalidArgument", field=EVIL, message=EVIL),
    error(EVIL),
    {"parameters": {"job": EVIL, "run": EVIL}},
])
def test_an_answer_steers_no_terminal(box, message):
    fake = FakeDaemon(box, **message)
    t = Terminal(box, CTL, "--socket", fake.path, "start", "--", "true")
    t.wait()
    assert b"foo" in t.seen
    assert steers(t.seen) == []


def test_an_error_in_a_file_steers_no_terminal_either(box):
    fake = FakeDaemon(box, **error("Internal", message=EVIL))
    r = box.ctl("--socket", fake.path, "status", "j")
    assert "foo" in r.err and steers(r.err_bytes) == []


@pytest.mark.parametrize("text", [
    'name: "\\e]0;owned\\a\\x9b31mfoo"\n',
    '"\\e[2Jfoo": 1\n',
    'roles: [{name: "a\\ePfoo\\e\\\\", command: [x]}]\n',
    'name: *foo\n',
])
def test_a_name_in_yaml_steers_no_terminal(box, text):
    path = box.path("work/\x1b[2Jjob.yaml")
    path.write_text(text)
    t = Terminal(box, CTL, "validate", str(path))
    assert t.wait().rc != 0
    assert b"foo" in t.seen or b"alias" in t.seen
    assert steers(t.seen) == []


def test_lines_of_a_log_steer_no_terminal_and_are_exact_in_a_pipe(box, daemon):
    line = b"\x1b]0;owned\x07\x1b[31mfoo\x1b[2J"
    script = "printf '%s\\n' '" + line.decode() + "'"
    daemon.run(spec(name="j", role={"command": ["sh", "-c", script]}))
    t = Terminal(box, CTL, "logs", "j")
    assert t.wait().rc == 0
    assert b"\x1b[31mfoo" in t.seen  # its colours stay
    assert steers(t.seen) == []
    assert box.ctl("logs", "--raw", "j").out_bytes == line + b"\n"


def test_json_for_a_terminal_steers_it_not(box):
    job = dict.fromkeys(("run", "user", "command"), "x") | dict.fromkeys(
        ("uid", "created_us", "attempt", "restarts", "max_restarts"), 0)
    job |= {"name": "\x7f\u009bfoo", "state": "running", "workers": []}
    fake = FakeDaemon(box, parameters={"jobs": [job]})
    t = Terminal(box, CTL, "--socket", fake.path, "--json", "list")
    assert t.wait().rc == 0
    assert b"foo" in t.seen and steers(t.seen) == []
    assert box.ctl("--socket", fake.path, "--json", "list").json[0]["name"] == "\x7f\u009bfoo"
