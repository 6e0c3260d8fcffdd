# SPDX-License-Identifier: Apache-2.0
"""elasticctl task: whoever submits is told what was accepted, however it ends, and what was wrong."""

import json
import os
import signal

import pytest

from harness import CTL, wait_for

OPENING = 'read -r x; case "$x" in late) exec sleep 100000;; bad) echo "no luck" >&2; exit 3;; '


def job(daemon, script="cat", *options, queue=None):
    """A job whose worker does tasks with a script."""
    command = [CTL, "task", "work", *options, "--", "sh", "-c", script]
    document = {"name": "j", "roles": [{"command": command}], "logs": {"redirects": 3}}
    if queue:
        document["queue"] = queue
    daemon.submit(document)
    daemon.wait("j", until="running")


def rows(result):
    return [json.loads(line) for line in result.out.splitlines()]


def listed(box):
    result = box.ctl("task", "list", "--json", "j")
    assert result.rc == 0, result
    return [row["task"] for row in rows(result)]


def feed(box, text, *args):
    path = box.path("work/input")
    path.write_bytes(text)
    return box.ctl("task", "submit", f"--file={path}", *args)


# --- how many are in


def fetching(box, daemon, *last, script=OPENING + 'esac; echo "$x"'):
    """task submit --fetch of three tasks, which has heard of all, and printed what came of the first."""
    job(daemon, script)
    program = box.ctl_start("task", "submit", "--fetch", "--alone", "j", "first", *last)
    program.wait_out('"task":1')
    return program


LEFT = "3 tasks were accepted; 2 results were not fetched: elasticctl task fetch --all j"
LOST = LEFT.replace("not fetched:", "not fetched; if the job goes on:")


def test_fetch_ends_when_the_agent_is_lost(box, daemon):
    program = fetching(box, daemon, "late", "late")
    os.kill(daemon.agent_pid("j"), signal.SIGKILL)
    result = program.wait()
    assert result.rc == 1 and result.err.count(LOST) == 1, result


def test_fetch_goes_on_when_elasticd_is_lost(box, daemon):
    program = fetching(box, daemon, "late", "late")
    daemon.kill()
    result = program.wait()
    assert result.rc == 5 and result.err.count(LEFT) == 1, result
    assert "the connection to elasticd broke" in result.err, result
    daemon.start()


def test_fetch_ends_when_the_job_ends(box, daemon):
    program = fetching(box, daemon, "late", "late")
    assert box.ctl("stop", "j").rc == 0
    result = program.wait()
    assert result.rc == 1 and result.err.count(LOST) == 1, result


def test_fetch_ends_when_the_job_fails(box, daemon):
    go = box.path("work/go")
    deadly = f'deadly) until [ -e {go} ]; do sleep 0.05; done; kill -KILL "$PPID"; sleep 100000;; '
    program = fetching(box, daemon, "deadly", "late", script=OPENING + deadly + 'esac; echo "$x"')
    go.touch()
    result = program.wait()
    assert result.rc == 1 and result.err.count(LOST) == 1, result


def test_fetch_can_be_interrupted(box, daemon):
    program = fetching(box, daemon, "late", "late")
    program.signal(signal.SIGTERM)
    result = program.wait()
    assert result.rc == 143 and f"interrupted: {LEFT}" in result.err, result


def test_the_queue_that_is_to_be_fetched_is_named(box, daemon):
    job(daemon, 'read -r x; [ "$x" = 1 ] || exec sleep 100000')
    program = box.ctl_start("task", "submit", "--fetch", "--queue=side", "j", "1", "2")
    program.wait_out('"task":1')
    program.signal(signal.SIGINT)
    result = program.wait()
    assert "; 1 result was not fetched: elasticctl task fetch --all --queue=side j\n" in result.err, result


@pytest.mark.parametrize("options,how", [
    ((), "their numbers: elasticctl task list j"),
    (("--fetch",), "3 results were not fetched: elasticctl task fetch --all j")])
def test_a_full_disk_does_not_hide_what_is_in(box, daemon, options, how):
    job(daemon)
    result = box.sh("sh", "-c", 'exec "$0" "$@" > /dev/full', CTL, "task", "submit", *options, "j", *"123")
    assert result.rc == 1 and "cannot write to standard output: No space left" in result.err, result
    assert f"3 tasks were accepted; {how}\n" in result.err, result
    assert listed(box) == [1, 2, 3]


# --- values and failures


@pytest.mark.parametrize("value", ["12345678901234567890", "0.1", '[0.10,-1E+2,"a  b"]'])
def test_json_values_are_shown_as_they_are_written(box, daemon, value):
    job(daemon, "cat", "--format=json")
    result = feed(box, value.encode() + b"\n", "--fetch", "j")
    assert result.rc == 0 and f'"value":{value},' in result.out, result
    assert box.ctl("task", "submit", "--format=json", "j", value).out == "2\n"
    result = box.ctl("task", "fetch", "j", "2")
    assert result.rc == 0 and f'"value":{value},' in result.out, result
    result = box.ctl("call", "j", value)
    assert result.rc == 0 and f'"value":{value},' in result.out, result


def test_failures_are_told_as_those_of_fetch_are(box, daemon):
    job(daemon, OPENING + 'esac; echo "$x"')
    result = box.ctl("task", "submit", "--fetch", "--ordered", "--alone", "j", "good", "bad")
    assert result.rc == 1 and [r["state"] for r in rows(result)] == ["succeeded", "failed"], result
    assert "task 2 failed: Internal: sh exited with code 3" in result.err, result
    assert "    no luck\n" in result.err and "1 of 2 tasks did not succeed" in result.err, result


# --- what is wrong


@pytest.mark.parametrize("limit", ["-1", "0", "0s", "soon"])
def test_a_limit_is_no_less_than_a_millisecond(box, daemon, limit):
    job(daemon)
    result = box.ctl("task", "submit", f"--limit={limit}", "j", "1")
    text = f'--limit: expected a duration from 1ms to 36500d, such as "30s", got "{limit}"'
    assert result.rc == 2 and text in result.err and "limit_ms" not in result.err, result


def test_a_word_for_the_format_is_short(box, daemon):
    job(daemon)
    word = "x" * 32
    for args in (("task", "submit", "j", "1"), ("task", "resource", "create", "j", "r", "1"),
                 ("task", "work", "cat"), ("call", "j", "1")):
        verb, rest = (args[:2], args[2:]) if args[0] == "task" else (args[:1], args[1:])
        result = box.ctl(*verb, f"--format={word}", *rest)
        assert result.rc == 2 and "--format: expected at most 31 bytes, got 32" in result.err, result
    assert box.ctl("task", "submit", f"--format={word[1:]}", "j", "1").rc == 0


def test_numbers_are_of_no_queue(box, daemon):
    job(daemon)
    assert box.ctl("task", "submit", "j", "1").rc == 0
    for verb in ("fetch", "cancel"):
        result = box.ctl("task", verb, "--queue=other", "j", "1")
        assert (result.rc, result.out) == (2, "") and "--queue is for --all" in result.err, result
    assert box.ctl("task", "cancel", "j", "999").out == "cancelled 0\n"


def test_a_file_that_cannot_be_read_is_named(box, daemon):
    job(daemon)
    result = box.ctl("task", "submit", "--file=/tmp", "j")
    assert result.rc == 1 and "cannot read /tmp: Is a directory" in result.err, result
    assert "line" not in result.err and "accepted" not in result.err, result


def test_a_byte_order_mark_is_skipped(box, daemon):
    job(daemon, "cat", "--format=json")
    result = feed(box, b'\xef\xbb\xbf{"a": 1}\n2\n', "--fetch", "--ordered", "j")
    assert result.rc == 0 and [r["value"] for r in rows(result)] == [{"a": 1}, 2], result
    result = feed(box, b"\xef\xbb\xbf\n3\n", "--fetch", "j")
    assert result.rc == 0 and [r["value"] for r in rows(result)] == [3], result


def test_text_keeps_its_bytes(box, daemon):
    job(daemon)
    (number,) = feed(box, b"\xef\xbb\xbfx\n", "--text", "j").out.split()
    assert box.ctl("task", "fetch", "--raw", "j", number).out_bytes == b"\xef\xbb\xbfx"


def test_missing_parameters_are_named(box, daemon):
    for args, text in ((("submit",), "expected PAYLOADs or --file"),
                       (("fetch",), "expected numbers of tasks"),
                       (("cancel",), "expected numbers of tasks"),
                       (("work", "cat"), "task work runs in a worker")):
        result = box.ctl("task", *args)
        assert result.rc == 2 and f"elasticctl: {text}" in result.err and " needs [" not in result.err, result
    result = box.ctl("call")
    assert result.rc == 2 and "elasticctl: JOB can be left out in a worker" in result.err, result


def test_a_worker_calls_its_job_with_nothing_else(box, daemon):
    out = box.path("work/called")
    ask = f'until [ -s {out} ]; do "{CTL}" call > {out}; done; exec sleep 100000'
    document = {"name": "j", "roles": [
        {"name": "asker", "command": ["sh", "-c", ask]},
        {"name": "hand", "command": [CTL, "task", "work", "--", "sh", "-c", "echo here"]}]}
    daemon.submit(document)
    wait_for(lambda: out.exists() and out.read_text().endswith("\n"), out.parent)
    assert json.loads(out.read_text()) == {"worker": "hand:0", "value": "here\n"}


def test_help_says_which_queues_are_shown(box):
    for verb in ("list", "stats"):
        result = box.ctl("help", "task", verb)
        assert "only this queue of the job (default: all of them)" in result.out, result
