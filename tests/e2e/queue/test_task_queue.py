# SPDX-License-Identifier: Apache-2.0
"""elasticctl task and call: a job's queue from the shell, on both of its sides."""

import json
import os
import signal
import subprocess

import pytest

from harness import CTL, VarlinkError, wait_file, wait_for, wait_gone, wait_lines, wait_text
from terminal import Terminal

MIB = 1 << 20
COPY = "cat"


def work(script, *options):
    """The command of a worker that runs a shell script for each task."""
    return [CTL, "task", "work", *options, "--", "sh", "-c", script]


def job(daemon, script=COPY, *options, replicas=1, queue=None, name="j", **more):
    """A job whose workers do tasks with a script."""
    document = {"name": name, "roles": [{"replicas": replicas, "command": work(script, *options)}],
                "logs": {"redirects": 3}, **more}
    if queue:
        document["queue"] = queue
    daemon.submit(document)
    daemon.wait(name, until="running")
    return name


def idle_job(daemon, queue=None, **more):
    """One whose only worker never asks for work."""
    document = {"name": "j", "roles": [{"command": ["sleep", "100000"]}], **more}
    if queue:
        document["queue"] = queue
    daemon.submit(document)
    daemon.wait("j", until="running")


def feed(box, text, *args, **kwargs):
    """elasticctl task submit with text on its standard input."""
    path = box.path("work/input")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with open(path, "rb") as f:
        return box.ctl("task", "submit", "--file=-", *args, stdin=f, **kwargs)


def stats(box, *args):
    result = box.ctl("task", "stats", "--json", *args, "j")
    assert result.rc == 0, result
    return result.json


def rows(result):
    return [json.loads(line) for line in result.out.splitlines()]


def numbers(result):
    return [int(line) for line in result.out.split()]


# --- from arguments, and back


def test_payloads_become_tasks_and_values_come_back(box, daemon):
    job(daemon, 'read -r x; echo "$ELASTICD_ITEM $ELASTICD_TASK $ELASTICD_TASK_TRY $x"')
    result = box.ctl("task", "submit", "j", "one", "two")
    assert (result.rc, numbers(result)) == (0, [1, 2]), result
    result = box.ctl("task", "fetch", "j", "2", "1")
    assert result.rc == 0, result
    assert rows(result) == [
        {"task": n, "state": "succeeded", "value": f"task {n} 0 {x}\n", "worker": "worker:0", "tries": 1}
        for n, x in ((2, "two"), (1, "one"))]
    assert box.ctl("task", "fetch", "--raw", "j", "1").out == "task 1 0 one\n"
    assert box.ctl("task", "fetch", "--all", "--release", "j").out.count("\n") == 2
    result = box.ctl("task", "fetch", "j", "1")
    assert result.rc == 1 and "1" in result.err, result


def test_json_is_checked_and_stays_as_it_is_written(box, daemon):
    job(daemon, "cat", "--format=json")
    lines = '{"lr": 0.10,  "n": 123456789012345678901234567890}\n\n  [1, "\\u0000ä"]\t\r\n1e999999\n"end"'
    result = feed(box, lines, "j")
    assert result.rc == 1 and "line 4" in result.err and "3 tasks were accepted" not in result.err, result
    result = feed(box, lines.replace("1e999999", "-0.0"), "j", "--fetch", "--ordered")
    assert result.rc == 0, result
    assert [r["value"] for r in rows(result)][1:] == [[1, "\0ä"], -0.0, "end"]
    result = box.ctl("task", "submit", "--format=json", "j", '{"a": 1}', "{oops}")
    assert result.rc == 1 and "argument 2: expected one JSON value" in result.err, result
    (n,) = numbers(result)
    assert rows(box.ctl("task", "fetch", "j", str(n)))[0]["value"] == {"a": 1}


def test_lines_are_any_bytes(box, daemon):
    job(daemon)
    text = b"plain\n\n\xff\x00bytes\nlast"
    result = feed(box, text, "--text", "--fetch", "--ordered", "j")
    assert result.rc == 0, result
    got = rows(result)
    assert [r.get("value") for r in got] == ["plain", "", None, "last"]
    assert got[2]["base64"] == "/wBieXRlcw=="
    result = feed(box, text, "--format=csv", "--alone", "j")
    assert len(numbers(result)) == 4
    raw = box.ctl("task", "fetch", "--raw", "j", result.out.split()[2])
    assert raw.out_bytes == b"\xff\x00bytes", raw


# --- from a pipe


def test_many_lines_come_through_a_pipe_in_order(box, daemon):
    idle_job(daemon)
    count = 20000
    result = box.sh("sh", "-c", f'seq 1 {count} | "$0" task submit --file - j', CTL)
    assert result.rc == 0, result
    assert numbers(result) == list(range(1, count + 1))
    assert stats(box)["queued"] == count
    seen = []
    with daemon.connect() as v:
        v.INTERFACE = "io.elasticd.Queue."
        assert v.call("List", job="j", after=count - 2)["tasks"][0]["task"] == count - 1
    listed = box.ctl("task", "list", "--json", "j")
    seen = [row["task"] for row in rows(listed)]
    assert seen == list(range(1, count + 1))
    result = box.ctl("task", "cancel", "--all", "--reason=enough", "j")
    assert result.out == f"cancelled {count}\n", result


def test_a_queue_of_two_is_enough(box, daemon):
    out = box.path("work/done")
    job(daemon, f"cat >> {out}; echo >> {out}", queue={"max": 2})
    result = feed(box, "".join(f"{n}\n" for n in range(60)), "j")
    assert result.rc == 0, result
    assert numbers(result) == list(range(1, 61))
    assert box.ctl("task", "join", "j").rc == 0
    assert out.read_text().split() == [str(n) for n in range(60)]


def test_no_more_is_read_than_there_is_room_for(box, daemon):
    """A reader that goes on would end a pipe that nobody else reads."""
    idle_job(daemon, queue={"max": 2})
    read, write = os.pipe()
    program = box.ctl_start("task", "submit", "--text", "--file=-", "j", stdin=read)
    os.close(read)
    os.set_blocking(write, False)
    line = b"x" * 1000 + b"\n"
    sent = 0
    # Pipe and buffers fill, and then it ends.
    while sent < 64 * MIB:
        try:
            sent += os.write(write, line)
        except BlockingIOError:
            break
    assert sent < 16 * MIB
    program.wait_out("2\n")
    program.signal(signal.SIGINT)
    result = program.wait()
    os.close(write)
    assert result.rc == 130 and "interrupted: 2 tasks were accepted" in result.err, result
    assert stats(box)["queued"] == 2


def test_a_slow_pipe_is_submitted_line_by_line(box, daemon):
    job(daemon)
    read, write = os.pipe()
    program = box.ctl_start("task", "submit", "--file=-", "j", stdin=read)
    os.close(read)
    for n in range(1, 4):
        os.write(write, b"%d\n" % n)
        program.wait_out(f"{n}\n")
    os.close(write)
    assert program.wait().rc == 0


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_prints_how_many_tasks_were_accepted(box, daemon, signo):
    job(daemon)
    read, write = os.pipe()
    program = box.ctl_start("task", "submit", "--file=-", "j", stdin=read)
    os.close(read)
    os.write(write, b"1\n2\n3\n4")
    program.wait_out("3\n")
    program.signal(signo)
    result = program.wait()
    os.close(write)
    assert result.rc == 128 + signo and "interrupted: 3 tasks were accepted" in result.err, result


def test_a_line_that_is_no_json_ends_it_and_what_came_before_stays(box, daemon):
    idle_job(daemon)
    result = feed(box, "1\n2\n{\n4\n", "j")
    assert result.rc == 1 and numbers(result) == [1, 2], result
    assert "line 3: expected one JSON value" in result.err, result
    assert "2 tasks were accepted" in result.err, result
    assert stats(box)["queued"] == 2
    result = feed(box, f'"{"x" * (MIB - 2)}"\n"{"x" * MIB}"\n', "j")
    assert result.rc == 1 and "line 2" in result.err and "1048576 bytes" in result.err, result
    assert numbers(result) == [3]


def test_a_reader_that_goes_away_ends_it(box, daemon):
    idle_job(daemon)
    read, write = os.pipe()
    feeding, feeder = os.pipe()
    program = box.ctl_start("task", "submit", "--file=-", "j", stdin=feeding, stdout=write)
    os.close(write)
    os.close(feeding)
    os.write(feeder, b"1\n")
    assert os.read(read, 100) == b"1\n"
    os.close(read)
    result = program.wait()
    os.close(feeder)
    assert result.rc == 141 and "1 task was accepted" in result.err, result
    result = box.sh("sh", "-c", '{ seq 1 2000 | "$0" task submit --file - --fetch j; echo $? >&2; } | :', CTL)
    assert "141" in result.err, result


# --- what comes of them, at once


def test_results_are_printed_and_forgotten(box, daemon):
    job(daemon, 'read -r x; echo "$x"', "--format=json", replicas=2, queue={"results": 5})
    count = 100
    for options in ((), ("--ordered",)):
        result = feed(box, "".join(f"{n}\n" for n in range(count)), "--fetch", *options, "j")
        assert result.rc == 0, result
        values = [r["value"] for r in rows(result)]
        assert values == list(range(count)) if options else sorted(values) == list(range(count))
        assert stats(box)["succeeded"] == 0


def test_the_first_that_is_ready_is_printed_first(box, daemon):
    go = box.path("work/go")
    job(daemon, f'read -r x; [ "$x" = 1 ] && until [ -e {go} ]; do sleep 0.05; done; echo "$x"',
        "--format=json", replicas=2)
    path = box.path("work/input")
    path.write_text("1\n2\n3\n")
    program = box.ctl_start("task", "submit", f"--file={path}", "--fetch", "j")
    program.wait_out('"value":3')
    assert '"value":1' not in program.out
    go.touch()
    assert [r["value"] for r in rows(program.wait())][-1] == 1
    go.unlink()
    program = box.ctl_start("task", "submit", f"--file={path}", "--fetch", "--ordered", "j")
    wait_for(lambda: stats(box)["succeeded"] == 2, box.path("work"))
    assert program.out == ""
    go.touch()
    assert [r["value"] for r in rows(program.wait())] == [1, 2, 3]


def test_failures_among_results_are_an_exit_status(box, daemon):
    job(daemon, 'read -r x; [ "$x" = 3 ] && { echo "bad luck" >&2; exit 7; }; echo "$x"')
    result = feed(box, "1\n2\n3\n4\n", "--fetch", "--ordered", "--alone", "j")
    assert result.rc == 1 and "1 of 4 tasks did not succeed" in result.err, result
    got = rows(result)
    assert [r["state"] for r in got] == ["succeeded", "succeeded", "failed", "succeeded"]
    error = got[2]["error"]
    assert error["code"] == "Internal" and error["message"] == "sh exited with code 7"
    assert error["worker"] == "worker:0" and error["details"] == "bad luck\n"


def test_the_first_error_is_the_queues(box, daemon):
    job(daemon, 'read -r x; [ "$x" = bad ] && { echo "the reason" >&2; exit 7; }; echo "$x"')
    assert box.ctl("task", "submit", "j", "good", "bad", "late").rc == 0
    result = box.ctl("task", "join", "j")
    assert result.rc == 1, result
    for text in ("task 2", "worker:0", "Internal", "sh exited with code 7", "    the reason"):
        assert text in result.err, result
    assert box.ctl("task", "join", "j").rc == 0
    result = box.ctl("task", "fetch", "j", "1", "2", "3")
    assert result.rc == 1 and [r["state"] for r in rows(result)][:2] == ["succeeded", "failed"], result
    assert "task 2 failed" in result.err and "the reason" in result.err, result
    assert numbers(box.ctl("task", "submit", "j", "new")) == [4]


# --- time


def test_a_task_over_its_limit_fails(box, daemon):
    idle_job(daemon, queue={"max": 2})
    assert box.ctl("task", "submit", "j", "1").rc == 0
    for verb in (("join", "j"), ("fetch", "j", "1")):
        result = box.ctl("task", *verb, "--timeout=300ms")
        assert result.rc == 124, result
    for seconds in (0.3, 3, 30):  # for one of them there is time enough, on whatever machine
        result = box.ctl("task", "submit", f"--timeout={int(seconds * 1000)}ms", "j", "2", "3")
        assert result.rc == 124 and "timed out" in result.err, result
        if result.out:
            break
    assert numbers(result) == [2], result
    assert "timed out" in result.err and "1 task was accepted" in result.err, result
    result = box.ctl("task", "submit", "--no-wait", "j", "4")
    assert result.rc == 1 and "accepted" not in result.err, result
    result = box.ctl("task", "done", "j")
    assert (result.rc, result.out) == (1, "not done\n"), result
    assert box.ctl("task", "cancel", "j", "1", "2").out == "cancelled 2\n"
    result = box.ctl("task", "done", "--quiet", "j")
    assert (result.rc, result.out) == (0, ""), result


def test_results_that_are_there_are_printed_at_the_time_limit(box, daemon):
    job(daemon, 'read -r x; [ "$x" = slow ] && exec sleep 100000; echo "$x"', replicas=2)
    assert box.ctl("task", "submit", "j", "slow", "fast").rc == 0
    assert box.ctl("task", "fetch", "j", "2").rc == 0
    result = box.ctl("task", "fetch", "--timeout=300ms", "j", "1", "2")
    assert result.rc == 124 and [r["task"] for r in rows(result)] == [2], result


# --- whom it talks to


def test_missing_jobs_and_tasks_are_named(box):
    result = box.ctl("task", "submit", "j", "1")
    assert result.rc == 5 and "no elasticd listens" in result.err, result
    assert box.ctl("task", "stats", "j").rc == 5
    daemon = box.daemon
    for verb in (("submit", "none", "1"), ("fetch", "none", "1"), ("join", "none"), ("list", "none"),
                 ("work",)):
        result = box.ctl("task", *verb)
        assert result.rc == (2 if verb == ("work",) else 1), result
        assert "none" in result.err or verb == ("work",), result
    result = box.ctl("call", "none")
    assert result.rc == 1 and "none" in result.err, result
    idle_job(daemon)
    daemon.call("Stop", job="j")
    daemon.wait("j")
    result = box.ctl("task", "submit", "j", "1")
    assert result.rc == 1 and result.err, result


def test_wrong_usage_is_told(box):
    for args, text in (
            (("submit", "j"), "PAYLOADs or --file"), (("submit", "--file=x", "j", "y"), "not both"),
            (("submit", "j", "--ordered", "1"), "--fetch"), (("fetch", "j"), "NUMBER"),
            (("fetch", "j", "x"), "number of a task"), (("fetch", "j", "--all", "1"), "--all"),
            (("fetch", "j", "--raw", "1", "2"), "one task"), (("cancel", "j"), "--all"),
            (("join",), "in a worker"), (("list", "--state=lost", "j"), "lost"),
            (("work", "--slots=0", "x"), "--slots"), (("work", "x"), "in a worker"),
            (("resource", "make", "j", "r"), "create or drop"), (("nonsense",), "no verb"),
            (("fetcch", "j"), 'did you mean "task fetch"'), (("release", "j", "-1"), "-1"),
            ((), "Verbs:")):
        result = box.ctl("task", *args)
        assert result.rc == 2 and text in result.err, result


def test_within_a_job_no_job_is_named(box, daemon):
    script = f"""set -e
{CTL} task submit - one two
seq 1 300 | {CTL} task submit --file -
{CTL} task join
{CTL} task fetch --raw - 1
{CTL} task done
until {CTL} task stats | grep -q 'workers: 2,'; do sleep 0.05; done
{CTL} call - hello
{CTL} task close
"""
    daemon.submit({"name": "j", "logs": {"redirects": 3}, "roles": [
        {"name": "lead", "command": ["sh", "-c", script], "env": {"ELASTICD_SOCKET": "/nowhere"}},
        {"name": "worker", "replicas": 2, "command": work(COPY)}]})
    ended = daemon.wait("j")
    assert ended["state"] == "succeeded", daemon.log(ended, 0, 0, "stderr").read_text()
    out = daemon.log(ended, 0, 0).read_text().splitlines()
    assert out[:302] == [str(n) for n in range(1, 303)]
    assert out[302] == "onedone"
    assert [json.loads(line) for line in out[303:305]] == [
        {"worker": f"worker:{n}", "value": "hello"} for n in (0, 1)]


# --- workers


def test_a_worker_runs_as_many_as_it_is_told(box, daemon):
    """Two that wait for each other."""
    here = box.path("work")
    job(daemon, f'read -r x; touch {here}/$x; until [ -e {here}/a ] && [ -e {here}/b ]; do sleep 0.05; done',
        "--slots=2", queue={"slots": 2})
    result = feed(box, "a\nb\n", "--text", "--fetch", "j")
    assert result.rc == 0, result


def test_more_slots_than_the_job_allows_are_refused(box, daemon):
    job(daemon, "sleep 100000", "--slots=2")
    ended = daemon.wait("j")
    assert ended["state"] == "failed"
    assert b"slots" in daemon.log(ended, 0, 0, "stderr").read_bytes()


def test_large_payloads_and_values(box, daemon):
    job(daemon)
    text = "".join(f'"{c * (MIB - 2)}"\n' for c in "ab")
    result = feed(box, text, "--text", "--fetch", "--ordered", "j")
    assert result.rc == 0, result.err
    assert [r["value"] for r in rows(result)] == text.split()


def test_too_large_a_value_is_a_clear_failure(box, daemon):
    job(daemon, f"head -c {MIB + 1} /dev/zero; sleep 100000")
    assert box.ctl("task", "submit", "--alone", "j", "1").rc == 0
    result = box.ctl("task", "fetch", "j", "1")
    assert result.rc == 1 and "ResourceExhausted: sh printed more than 1048576 bytes" in result.err, result


def test_no_stream_waits_for_another(box, daemon):
    """It reads nothing of a lot, and writes a lot to both."""
    job(daemon, f"head -c {MIB // 2} /dev/zero | tr '\\0' e >&2; head -c {MIB // 2} /dev/zero | tr '\\0' o; "
        "exec 1>&- 2>&-; cat > /dev/null")
    result = feed(box, "x" * (MIB // 2) + "\n", "--text", "--fetch", "j")
    assert result.rc == 0, result.err
    assert rows(result)[0]["value"] == "o" * (MIB // 2)
    ended = box.ctl("task", "close", "j")
    assert ended.rc == 0
    log = daemon.log(daemon.wait("j"), 0, 0, "stderr").read_bytes()
    assert log == b"e" * (MIB // 2)


def test_nothing_of_a_task_is_left_when_it_has_ended(box, daemon):
    pid = box.path("work/pid")
    job(daemon, f"sleep 100000 & echo $! > {pid}; echo ready")
    result = feed(box, "1\n", "--fetch", "j")
    assert rows(result)[0]["value"] == "ready\n", result
    wait_gone(int(pid.read_text()))


def test_code_75_means_that_somebody_else_is_to_try(box, daemon):
    job(daemon, 'echo "try $ELASTICD_TASK_TRY" >&2; [ "$ELASTICD_TASK_TRY" -ge 2 ] || exit 75; echo well')
    result = feed(box, "1\n", "--fetch", "j")
    assert result.rc == 0, result
    assert rows(result)[0]["tries"] == 3 and rows(result)[0]["value"] == "well\n"


def test_a_program_that_is_killed_says_so(box, daemon):
    job(daemon, "kill -SEGV $$")
    assert box.ctl("task", "submit", "--alone", "j", "1").rc == 0
    result = box.ctl("task", "fetch", "j", "1")
    assert result.rc == 1 and "sh was killed by SIGSEGV" in result.err, result


def test_a_cancelled_task_ends_in_order(box, daemon):
    up, ended = box.path("work/up"), box.path("work/ended")
    job(daemon, f"trap 'echo $ELASTICD_TASK > {ended}; exit 0' TERM; touch {up}; "
        "while :; do sleep 0.05; done")
    assert box.ctl("task", "submit", "j", "1").rc == 0
    wait_file(up)
    result = box.ctl("task", "cancel", "--reason=no need", "j", "1")
    assert result.out == "cancelled 1\n", result
    assert ended.read_text() == "1\n"
    result = box.ctl("task", "fetch", "j", "1")
    assert result.rc == 1 and "cancelled" in result.err and "no need" in result.err, result
    assert rows(result)[0]["state"] == "cancelled"


def test_a_cancelled_task_that_does_not_end_is_killed(box, daemon):
    up = box.path("work/up")
    job(daemon, f"trap '' TERM; echo $$ > {up}.new; mv {up}.new {up}; while :; do sleep 0.05; done")
    assert box.ctl("task", "submit", "j", "1").rc == 0
    pid = int(wait_file(up).read_text())
    assert box.ctl("task", "cancel", "--all", "j").out == "cancelled 1\n"
    wait_gone(pid)
    # The worker itself goes on.
    assert daemon.status("j")["attempt"] == 0
    assert stats(box)["workers"] == 1


def test_a_limit_ends_a_try(box, daemon):
    job(daemon, "exec sleep 100000")
    assert box.ctl("task", "submit", "--limit=200ms", "--alone", "j", "1").rc == 0
    result = box.ctl("task", "fetch", "j", "1")
    assert result.rc == 1 and "DeadlineExceeded" in result.err, result


def test_a_worker_that_is_ended_gives_its_task_back(box, daemon):
    up = box.path("work/up")
    job(daemon, f'if [ "$ELASTICD_TASK_TRY" = 0 ]; then echo $$ > {up}.new; mv {up}.new {up}; '
        'while :; do sleep 0.05; done; fi; echo done', restart={"max": 3})
    assert box.ctl("task", "submit", "j", "1").rc == 0
    pid = int(wait_file(up).read_text())
    assert box.ctl("kill", "-s", "TERM", "--whom=main", "j").rc == 0
    result = box.ctl("task", "fetch", "j", "1")
    assert result.rc == 0 and rows(result)[0]["value"] == "done\n", result
    wait_gone(pid)
    assert stats(box)["put_back"] == 1
    failure = box.ctl("errors", "--json", "j")
    assert failure.rc == 0 and "143" in failure.out, failure


def test_workers_leave_when_the_queue_is_closed(box, daemon):
    job(daemon, replicas=2)
    assert feed(box, "1\n2\n3\n", "j").rc == 0
    result = box.ctl("task", "close", "j")
    assert result.rc == 0 and "no more tasks" in result.out, result
    assert daemon.wait("j")["state"] == "succeeded"


@pytest.mark.parametrize("program,code", [("/no/such/program", 127), ("/etc/passwd", 126)])
def test_a_program_that_cannot_run_is_the_workers_failure(box, daemon, program, code):
    daemon.submit({"name": "j", "roles": [{"command": [CTL, "task", "work", program]}],
                   "logs": {"redirects": 3}})
    daemon.wait("j", until="running")
    assert box.ctl("task", "submit", "j", "1").rc == 0
    ended = daemon.wait("j")
    assert ended["workers"][0]["exit"]["code"] == code, ended
    assert program.encode() in daemon.log(ended, 0, 0, "stderr").read_bytes()


def test_output_that_must_be_json_is_checked(box, daemon):
    job(daemon, "echo nonsense", "--format=json")
    assert box.ctl("task", "submit", "--alone", "j", "1").rc == 0
    result = box.ctl("task", "fetch", "j", "1")
    assert result.rc == 1 and "InvalidArgument: sh printed no JSON" in result.err, result


# --- tables


def test_tables_of_tasks_counts_and_resources(box, daemon):
    job(daemon, 'read -r x; [ "$ELASTICD_ITEM" != build ] || { [ "$x" != bad ] || exit 3; }; '
        '[ "$x" != late ] || exec sleep 100000')
    assert box.ctl("task", "submit", "--alone", "--queue=side", "j", "bad", "fine").rc == 0
    assert box.ctl("task", "join", "--queue=side", "j").rc == 0
    assert box.ctl("task", "submit", "j", "late", "later").rc == 0
    wait_for(lambda: stats(box)["running"] == 1, box.path("work"))
    out = box.ctl("task", "list", "j").out.splitlines()
    assert out[0].split() == ["TASK", "QUEUE", "STATE", "WORKER", "TRIES", "BYTES", "SINCE", "ERROR"]
    assert [line.split()[:3] for line in out[1:]] == [
        ["1", "side", "succeeded"], ["2", "side", "succeeded"], ["3", "-", "running"], ["4", "-", "queued"]]
    listed = box.ctl("task", "list", "--json", "--queue=side", "--state=succeeded,failed", "j")
    assert [row["task"] for row in rows(listed)] == [1, 2]
    text = box.ctl("task", "stats", "j").out
    for line in ("queued: 1", "running: 1", "succeeded: 2", "put back: 0 times", "workers: 1, 0 slots free"):
        assert line in text
    assert stats(box, "--queue=side")["succeeded"] == 2
    assert box.ctl("task", "release", "j", "1", "2", "99").out == "released 2\n"
    assert box.ctl("task", "list", "--queue=side", "j").out == "There are no tasks.\n"


def test_resources_are_built_by_the_program_too(box, daemon):
    built = box.path("work/built")
    job(daemon, f'[ "$ELASTICD_ITEM" = build ] || {{ echo "with $(cat {built})"; exit; }}; read -r x; '
        f'[ "$x" != bad ] || {{ echo "no way" >&2; exit 3; }}; echo "$ELASTICD_RESOURCE $x" > {built}')
    assert box.ctl("task", "resource", "create", "j", "model", "small").out == "created model\n"
    assert box.ctl("task", "resource", "create", "j", "model", "small").rc == 1
    path = box.path("work/payload")
    path.write_text("bad\n")
    assert box.ctl("task", "resource", "create", f"--file={path}", "j", "wrong").rc == 0
    result = box.ctl("task", "submit", "--resource=model", "--fetch", "j", "1")
    assert result.rc == 0 and rows(result)[0]["value"] == "with model small\n", result
    table = box.ctl("task", "resources", "j").out.splitlines()
    assert table[0].split() == ["RESOURCE", "READY", "BUILDING", "FAILED", "ERROR"]
    assert table[1].split() == ["model", "1", "0", "0"]
    assert table[2].split()[:4] == ["wrong", "0", "0", "1"] and "sh exited with code 3" in table[2]
    result = box.ctl("task", "submit", "--resource=model", "--resource=wrong", "--fetch", "--alone", "j", "1")
    assert result.rc == 1 and "wrong" in rows(result)[0]["error"]["message"], result
    assert box.ctl("task", "resource", "drop", "j", "wrong").out == "dropped wrong\n"
    result = box.ctl("task", "resource", "drop", "j", "wrong")
    assert result.rc == 1 and "wrong" in result.err, result
    assert [r["name"] for r in box.ctl("task", "resources", "--json", "j").json] == ["model"]


def test_all_workers_answer_a_call(box, daemon):
    job(daemon, 'read -r x; [ "$x" != "$ELASTICD_INDEX" ] || { echo "not me" >&2; exit 4; }; '
        'echo "$ELASTICD_ITEM $x $ELASTICD_INDEX"', "--format=text", replicas=3)
    assert box.ctl("task", "submit", "--fetch", "j", "go", "go").rc == 0
    wait_for(lambda: stats(box)["workers"] == 3, box.path("work"))
    result = box.ctl("call", "j", "all")
    assert result.rc == 0, result
    assert rows(result) == [{"worker": f"worker:{n}", "value": f"call all {n}\n", "format": "text"}
                            for n in range(3)]
    result = box.ctl("call", "j", "1")
    assert result.rc == 1 and "worker:1: Internal: sh exited with code 4" in result.err, result
    assert ["error" in row for row in rows(result)] == [False, True, False]
    result = box.ctl("call", "--workers=worker:2,worker:0", "j", "some")
    assert result.rc == 0 and [r["worker"] for r in rows(result)] == ["worker:0", "worker:2"], result


def test_a_call_that_nobody_answers_times_out(box, daemon):
    job(daemon, "exec sleep 100000")
    result = box.ctl("call", "--answer-timeout=300ms", "j", "x")
    assert result.rc == 1 and "DeadlineExceeded" in result.out, result


# --- progress


def test_a_terminal_shows_how_it_goes(box, daemon):
    go = box.path("work/go")
    job(daemon, f"until [ -e {go} ]; do sleep 0.05; done")
    path = box.path("work/input")
    path.write_text("1\n2\n3\n")
    terminal = Terminal(box, CTL, "task", "submit", f"--file={path}", "--fetch", "j")
    terminal.expect("2 queued  1 running  0 done")
    go.touch()
    result = terminal.wait()
    assert result.rc == 0, terminal.seen
    # The line is gone at the end.
    assert terminal.seen.rstrip().rsplit(b"\r", 1)[-1].startswith(b"\x1b[K") or b"ETA" not in \
        terminal.seen.rstrip().rsplit(b"\n", 1)[-1]


def test_progress_elsewhere_only_where_it_is_asked_for(box, daemon):
    job(daemon)
    result = feed(box, "1\n2\n", "--fetch", "j")
    assert result.rc == 0 and result.err == "", result
    read, write = os.pipe()
    program = box.ctl_start("task", "submit", "--file=-", "--progress", "j", stdin=read)
    os.close(read)
    os.write(write, b"1\n")
    program.wait_err("running")
    os.close(write)
    result = program.wait()
    assert result.rc == 0 and "ETA" in result.err and "\x1b" not in result.err, result
