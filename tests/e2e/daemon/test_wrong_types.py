# SPDX-License-Identifier: Apache-2.0
"""Whatever an answer holds, elasticctl prints it or says that it cannot be used: much of what elasticd
answers is the word of some job's user."""

import concurrent.futures
import contextlib
import copy
import json
import os
import socket
import subprocess
import threading

import pytest

from harness import CTL

EXIT = {"code": 1, "signal": 9, "signal_name": "SIGKILL", "core_dumped": False, "error": "no", "errno": 2}
FAILURE = {"role": "worker", "index": 0, "rank": 0, "local_rank": 0, "host": "h", "pid": 1, "attempt": 0,
           "time_us": 1, "exit": EXIT, "message": "m", "text": "t", "exit_status": 1, "reported": True,
           "made_good": False, "traceback": "t", "error_file": "f", "error_file_problem": "p",
           "collateral": False, "stderr_tail": ["s"]}
NOTICE = {"source": "operator", "reason": "r", "time_us": 1, "deadline_us": 2, "state": "saving", "step": 1,
          "final": False, "participants": 1, "saved": 1, "notices": 1}
TASK = {"role": "worker", "index": 0, "rank": 0, "local_rank": 0, "state": "running", "reason": "r", "pid": 1,
        "exit": EXIT, "started_us": 1, "ended_us": 2, "restarts": 0, "max_restarts": 1, "rss_bytes": 1,
        "cpu_ms": 1, "last_line": "l", "start": 0, "on_purpose": True, "extra": True, "attached": True,
        "leader": True, "next_start_us": 1, "step": 1, "saved_step": 1, "saved_path": "p"}
JOB = {"name": "j", "run": "j_12345678", "state": "failed", "reason": "r",
       "verdict": {"result": "failed", "exit_status": 1, "message": "m", "root_cause": FAILURE,
                   "preemption": NOTICE},
       "user": "u", "uid": 1, "created_us": 1, "started_us": 1, "ended_us": 2, "attempt": 0, "restarts": 0,
       "max_restarts": 1, "next_try_us": 1, "agent_pid": 1, "agent_silent_since_us": 1,
       "agent_silent_reason": "r", "command": "c", "cwd": "/", "log_dir": "/l", "log_bytes": 1, "workers": 1,
       "preemption": NOTICE, "queue": {"queued": 1, "running": 1, "succeeded": 1, "failed": 1, "cancelled": 1,
                                       "over": 1, "put_back": 1, "workers": 1, "error": "e"},
       "workers": [TASK]}
EVENT = {"seq": 1, "time_us": 1, "event": "started", "job": "j", "run": "j_12345678", "attempt": 0, "rank": 0,
         "text": "t", "data": {}}
LINE = {"rank": 0, "role": "worker", "index": 0, "local_rank": 0, "stream": "stdout", "text": "t",
        "base64": "dA==", "time_us": 1, "range_us": 1, "attempt": 0, "partial": True, "missing_lines": 1,
        "missing_bytes": 1}
BUDGET = {"used": 1, "max": 1, "left": 0, "window_ms": 1, "window_used": 1, "window_max": 1, "free": 0,
          "by_cause": {"exit": 1}, "backoff_ms": 1, "next_try_us": 1}
RESULT = {"role": "worker", "index": 0, "rank": 0, "start": 0, "value": "v", "base64": "dg==",
          "error": {"code": "Internal", "message": "m"}, "exit": EXIT, "time_us": 1}

ANSWERS = {
    ("status", "j"): {"job": JOB},
    ("list", "-a"): {"jobs": [JOB | {"workers": []}]},
    ("wait", "j"): {"job": JOB},
    ("errors", "j"): {"failures": [FAILURE]},
    ("why", "j"): {"budget": BUDGET, "text": "t"},
    ("results", "j"): {"results": [RESULT]},
    ("events", "j"): {"events": [EVENT]},
    ("logs", "j"): {"lines": [LINE], "missed": 1},
    ("stop", "j/0"): {"stopped": 1, "job": JOB},
    ("dump", "j"): {"dirs": ["d"]},
    ("platform",): {"platform": "gce", "details": "d", "watches": [
        {"source": "s", "state": "watching", "text": "t", "jobs": 1, "last_us": 1}]},
}
VALUES = [None, True, -1, 2**63 - 1, -2**63, 1.5, "", "x", [], {}, [[]], [None], {"": {}}]


class Speaker:
    """Answers every call on its socket with one message."""

    def __init__(self, path):
        self.path, self.reply = str(path), b""
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path)
        self.listening.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer = self.listening.accept()[0]
            except OSError:
                return
            with peer, contextlib.suppress(ConnectionError):  # the caller may have closed the connection
                while data := peer.recv(65536):
                    peer.sendall(self.reply * data.count(b"\0"))

    def close(self):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()


def paths(value, at=()):
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield at + (key,)
            yield from paths(value[key], at + (key,))


def changed(answer, path, value):
    answer = copy.deepcopy(answer)
    *way, last = path
    at = answer
    for key in way:
        at = at[key]
    at[last] = value
    return answer


def mutations(answer):
    """All values in the place of some members, some values in the place of each."""
    yield answer
    step = 1 if os.environ.get("ELASTIC_ALL") else 4
    for n, path in enumerate(paths(answer)):
        for value in VALUES[n % step::step]:
            yield changed(answer, path, value)


@pytest.mark.parametrize("verb", ANSWERS, ids=lambda verb: verb[0])
def test_no_answer_of_wrong_types_breaks_elasticctl(box, verb):
    def tell(n, share):
        speaker = Speaker(box.path(f"{n}.sock"))
        box.cleanups.append(speaker.close)
        for answer in share:
            speaker.reply = json.dumps({"parameters": answer}).encode() + b"\0"
            r = subprocess.run([CTL, "--socket", speaker.path, "--timeout=20s", *verb],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            assert 0 <= r.returncode < 124 or r.returncode == 125, (answer, r.returncode, r.stderr)
            assert b"runtime error" not in r.stderr
            assert b"(null)" not in r.stdout + r.stderr, (answer, r.stdout, r.stderr)
    todo = list(mutations(ANSWERS[verb]))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(tell, range(4), [todo[n::4] for n in range(4)]))


@pytest.mark.parametrize("path, value, message", [
    (("job", "reason"), 5, "Status.job.reason: expected a string, got an integer"),
    (("job", "workers", 0, "pid"), "5", 'Status.job.workers[0].pid: expected an integer, got "5"'),
    (("job", "verdict", "message"), None, "Status.job.verdict.message: expected a string, got null"),
])
def test_the_member_that_cannot_be_used_is_named(box, path, value, message):
    speaker = Speaker(box.path("d.sock"))
    box.cleanups.append(speaker.close)
    speaker.reply = json.dumps({"parameters": changed({"job": JOB}, path, value)}).encode() + b"\0"
    r = box.ctl("--socket", speaker.path, "status", "j")
    assert r.rc == 1
    assert r.err == f"elasticctl: elasticd gave an answer that cannot be used: {message}\n"


def test_unknown_members_of_a_newer_elasticd_are_accepted(box):
    speaker = Speaker(box.path("d.sock"))
    box.cleanups.append(speaker.close)
    newer = JOB | {"state": "hovering", "wings": 2}
    speaker.reply = json.dumps({"parameters": {"job": newer}}).encode() + b"\0"
    r = box.ctl("--socket", speaker.path, "status", "j")
    assert r.err == "" and "hovering" in r.out


@pytest.mark.parametrize("status", [256, -256, 2**32])
def test_an_exit_status_that_no_program_can_have_is_no_success(box, status):
    speaker = Speaker(box.path("d.sock"))
    box.cleanups.append(speaker.close)
    answer = changed({"job": JOB}, ("job", "verdict", "exit_status"), status)
    speaker.reply = json.dumps({"parameters": answer}).encode() + b"\0"
    assert box.ctl("--socket", speaker.path, "wait", "j").rc == 125
