# SPDX-License-Identifier: Apache-2.0
"""Logs: whole, byte for byte, in time, for readers near and late, and never at a worker's cost."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from harness import (CTL, PUPPET, SANITIZED, SLOWER, Unmet, VarlinkError, fill, have, line_bytes, pss_kb,
                     spec, wait_file, wait_for, wait_text)

BOTH = {"redirects": 3}
LONG = 600  # seconds for what takes a disk's time
HELD = 40 << 20  # bytes of a line that show when a process holds the line: it may have 32 MiB


def lines_of(daemon, job, **kwargs):
    """All lines as (rank, stream, bytes)."""
    got = []
    with daemon.connect() as v:
        for answer in v.stream("Logs", job=job, **kwargs):
            got += [(line["rank"], line["stream"], line_bytes(line)) for line in answer["lines"]]
    return got


def follow_until(daemon, job, enough, **kwargs):
    got = []
    with daemon.connect() as v:
        for answer in v.stream("Logs", job=job, follow=True, **kwargs):
            got += answer["lines"]
            if enough(got):
                return got
    return got


# --- reading -------------------------------------------------------------------------------------------


def test_lines_by_rank_stream_attempt_and_number(daemon):
    job = daemon.run(spec("print:a%a one", "print:a%a two", "eprint:a%a err", "if-attempt:0:exit:1",
                          replicas=12, restart={"max": 1}, logs=BOTH))
    run = job["run"]
    assert len(lines_of(daemon, run)) == 36, "the newest attempt by default"
    assert lines_of(daemon, run, ranks="11") == [
        (11, "stdout", b"a1 one"), (11, "stdout", b"a1 two"), (11, "stderr", b"a1 err")]
    assert {r for r, _, _ in lines_of(daemon, run, ranks="0,3-5,10")} == {0, 3, 4, 5, 10}
    assert lines_of(daemon, run, ranks="2", stream="stderr") == [(2, "stderr", b"a1 err")]
    assert lines_of(daemon, run, ranks="2", stream="stdout", lines=1) == [(2, "stdout", b"a1 two")]
    assert lines_of(daemon, run, ranks="2", contains="on") == [(2, "stdout", b"a1 one")]
    if job["attempt"] == 1:
        got = lines_of(daemon, run, attempt=0)
        assert got and all(text.startswith(b"a0") for _, _, text in got)
    with pytest.raises(VarlinkError) as e:
        lines_of(daemon, run, attempt=9)
    assert e.value.name == "NotFound"
    with pytest.raises(VarlinkError) as e:
        lines_of(daemon, run, ranks="1,x")
    assert e.value.name == "InvalidArgument"


def test_a_daemons_job_has_files_even_where_nothing_is_redirected(daemon):
    job = daemon.run(spec("print:out", "eprint:err"))
    assert daemon.log(job, 0, 0).read_bytes() == b"out\n"
    assert daemon.log(job, 0, 0, "stderr").read_bytes() == b"err\n"
    assert sorted(lines_of(daemon, job["run"])) == [(0, "stderr", b"err"), (0, "stdout", b"out")]


@pytest.mark.parametrize("payload", [
    b"plain", b"", b"nul \x00 inside", b"\xff\xfe invalid", "ünïcödé ✓".encode(), b"\xe2\x82",
    b"tab\there", b"\x1b[31mred\x1b[0m", b"ends with cr\r",
])
def test_bytes_arrive_as_they_were_written(daemon, payload):
    job = daemon.run(spec(f"raw:{payload.hex()}0a", "print:after", logs=BOTH))
    assert daemon.log(job, 0, 0).read_bytes() == payload + b"\nafter\n"
    got = b"\n".join(text for _, _, text in lines_of(daemon, job["run"]))
    assert got.replace(b"\r", b"") == payload.replace(b"\r", b"") + b"\nafter"


def test_logs_by_command_line(box, daemon):
    job = daemon.run(spec("print:out %r", "eprint:err %r", replicas=11, logs=BOTH))
    result = box.ctl("logs", job["run"])
    assert result.rc == 0, result
    assert "out 10" in result.out and "err 3" in result.out + result.err
    result = box.ctl("logs", "-n", "1", f"{job['run']}/10")
    assert "out 10" in result.out and "out 3" not in result.out, result


def take_turns(box, daemon, lines, **logs):
    """A job of two workers that write these lines in turns, each when the one before is in its file."""
    steps = [f"if-rank:{i % 2}:{step}" for i, text in enumerate(lines)
             for step in (f"wait-file:{box.path('go')}.{i}", text)]
    name, run = daemon.submit(spec(*steps, replicas=2, logs=dict(BOTH, **logs)))
    job = daemon.status(name)
    for i, text in enumerate(lines):
        box.path(f"go.{i}").touch()
        stream = "stderr" if text.startswith("e") else "stdout"
        wait_text(daemon.log(job, 0, i % 2, stream), text.split(":")[1])
    daemon.wait(run)
    return run


def test_lines_of_several_ranks_come_in_order_of_time(box, daemon):
    lines = [f"{'e' if i % 3 == 0 else ''}print:line-{i}." for i in range(8)]
    run = take_turns(box, daemon, lines, timestamps=True)
    shown = box.ctl("logs", run).out.splitlines()
    assert shown == [f"[worker:{i % 2}{' err' if i % 3 == 0 else ''}] line-{i}." for i in range(8)]
    assert box.ctl("logs", "-n1", "--stream=out", run).out.split() == [
        "[worker:0]", "line-4.", "[worker:1]", "line-7."], "the last of each file"


def test_of_a_time_no_more_is_shown_than_is_known(box, daemon):
    before = int(time.time() - 1) * 1000000
    run = take_turns(box, daemon, ["print:a.", "eprint:b."])
    result = box.ctl("logs", "--timestamps=iso", run)
    assert re.fullmatch(r"(~[-0-9]{10}T[0-9:]{8}(\.\d{1,5})?[-+][0-9:]{5} \[worker:.( err)?\] .\.\n){2}",
                        result.out), result
    with daemon.connect() as v:
        got = [line for answer in v.stream("Logs", job=run) for line in answer["lines"]]
    for line in got:
        assert 0 < line["range_us"] and before < line["time_us"] < time.time() * 1000000, got
    result = box.ctl("logs", "--timestamps=relative", run)
    assert re.fullmatch(r"( +~\+\d+(\.\d{1,5})? \[.*\n){2}", result.out), result


def test_grep_shows_lines_that_contain_a_text(box, daemon):
    job = daemon.run(spec("print:one %r", "eprint:two %r", "print:twofold", "long:50000", "print:no",
                          replicas=2, logs=BOTH))
    result = box.ctl("logs", "--grep=two", job["run"])
    assert sorted(result.out.splitlines()) == sorted(
        line for r in range(2) for line in (f"[worker:{r} err] two {r}", f"[worker:{r}] twofold"))
    assert sorted(box.ctl("logs", "-g", "t", "-n1", f"{job['run']}/1").out.splitlines()) == [
        "[worker:1 err] two 1", "[worker:1] twofold"]
    result = box.ctl("logs", "--grep=" + "x" * 5000, job["run"])
    assert (result.rc, result.err) == (
        1, "elasticctl: contains: expected at most 4096 bytes\n"), result


def test_binary_bytes_on_the_console(box):
    result = box.run("-t", "3", PUPPET, "raw:6100ff620a", "eraw:00c3280a")
    assert result.out_bytes == b"[default:0] a\x00\xffb\n", result
    assert result.err_bytes == b"[default:0] \x00\xc3(\n", result


# --- following -------------------------------------------------------------------------------------------


def test_a_follower_sees_lines_as_they_come_and_the_end(box, daemon):
    name, run = daemon.submit(spec("print:first", f"wait-file:{box.path('go')}", "print:second",
                                   logs=BOTH))
    with daemon.connect() as v:
        stream = v.stream("Logs", job=name, follow=True)
        got = []
        for answer in stream:
            got += [line_bytes(line) for line in answer["lines"]]
            if b"first" in got:
                box.path("go").touch()
        assert got == [b"first", b"second"], "and the stream ends with the run"


def test_a_follower_goes_on_over_restarts(box, daemon):
    name, _ = daemon.submit(spec("print:attempt %a rank %r", f"wait-file:{box.path('go')}",
                                 f"barrier:{box.path('bar')}", "if-attempt:2:exit:0", "exit:1",
                                 replicas=2, restart={"max": 2}, logs=BOTH))
    got = []
    with daemon.connect() as v:
        for answer in v.stream("Logs", job=name, follow=True):
            got += [line_bytes(line).decode() for line in answer["lines"]]
            # Not before it follows: it begins with the newest attempt.
            if got:
                box.path("go").touch()
    assert sorted(got) == sorted(f"attempt {a} rank {r}" for a in range(3) for r in range(2))


def test_a_follower_from_a_time_on_begins_with_the_first_attempt(box, daemon):
    name, _ = daemon.submit(spec("print:attempt %n", "if-attempt:0:exit:1", "if-attempt:1:exit:1", "hang",
                                 restart={"max": 2}))
    wait_for(lambda: daemon.call("Status", job=name)["job"]["attempt"] == 2, what="attempt 2")
    lines = follow_until(daemon, name, lambda lines: len(lines) >= 3, since_us=0)
    assert [x["attempt"] for x in lines] == [0, 1, 2]
    assert [x["attempt"] for x in follow_until(daemon, name, lambda lines: lines)] == [2]


def test_a_partial_line_is_shown_and_what_follows_belongs_to_it(box, daemon):
    name, _ = daemon.submit(spec("partial:Password- ", f"wait-file:{box.path('go')}", "print:given",
                                 logs=BOTH))
    got = follow_until(daemon, name, lambda lines: lines)
    assert got[0]["partial"] is True and got[0]["text"] == "Password- "
    box.path("go").touch()
    daemon.wait(name)
    assert lines_of(daemon, name) == [(0, "stdout", b"Password- given")]


def test_a_partial_line_on_the_console_is_never_mixed_with_another_ranks(box):
    run = box.run_start("-t", "1", "--nproc-per-node=2", PUPPET, "partial:par",
                        f"wait-file:{box.path('go')}", "print:tial")
    run.wait_out("par")
    box.path("go").touch()
    result = run.wait()
    assert result.rc == 0
    lines = result.out.splitlines()
    whole = "".join(line.split(":", 1)[1] for line in lines)
    assert whole.count("par") == 2 and whole.count("tial") == 2, result
    assert not re.search(r"\[default:\d\] .*\[default:\d\] ", result.out), result


def test_the_last_unterminated_line_gets_its_newline_on_the_console(box):
    result = box.run("-t", "1", "--nproc-per-node=2", PUPPET, "partial:no newline %r")
    assert sorted(result.out.splitlines()) == ["[default:0] no newline 0", "[default:1] no newline 1"]


def test_progress_bars_do_not_flood(box):
    result = box.run("-t", "1", PUPPET, "progress:20000", "print:done")
    assert result.rc == 0, result
    text = result.out_bytes.replace(b"\r", b"\n")
    assert b"step 20000/20000" in text and b"done" in text
    assert len(text) < 200000, "each of 20000 updates was shown"
    log = (box.run_dir() / "attempt_0/0/stdout.log").read_bytes()
    assert log.count(b"\r") == 20000, "the file has them all"


def test_lines_of_many_ranks_are_never_torn(box):
    result = box.run("-t", "1", "--nproc-per-node=16", PUPPET, "lines:2000:200")
    assert result.rc == 0
    lines = result.out_bytes.splitlines()
    assert len(lines) == 32000
    seen = {}
    for line in lines:
        m = re.fullmatch(rb"\[default:(\d+)\] (\d+) (\d+) x+", line)
        assert m and m[1] == m[2] and len(line) == len(b"[default:] ") + len(m[1]) + 199, line[:100]
        assert int(m[3]) == seen.get(m[1], -1) + 1, "out of order"
        seen[m[1]] = int(m[3])


@pytest.mark.seconds(900)
def test_a_follower_that_lags_is_told_what_it_missed_and_slows_nobody(box, daemon):
    count, size = 50000 // SLOWER, 2000
    name, run = daemon.submit(spec(f"wait-file:{box.path('go')}", f"lines:{count}:{size}",
                                   f"touch:{box.path('written')}", "hang", logs=BOTH))
    with daemon.connect() as v:
        v.send("Logs", more=True, job=name, follow=True, ranks="0", stream="stdout")
        box.path("go").touch()
        wait_file(box.path("written"), LONG)  # nobody reads, and the worker is through
        job = daemon.wait(name, until="running")  # the worker may be quicker than its agent's first word
        assert job["state"] == "running"
        if not SANITIZED:
            assert pss_kb(job["agent_pid"]) < 64 * 1024, "the agent keeps what nobody reads"
        got, missed, front = 0, 0, ""
        more, stopped = True, False
        while more:
            message = v.receive()
            for line in message["parameters"]["lines"]:
                # The front of a line may come by itself, but then it says so.
                begun = re.match(r"0 \d+ x", line["text"])
                text = line["text"] if begun else front + line["text"]
                front = text if line.get("partial") else ""
                if not line.get("partial"):
                    assert re.fullmatch(r"0 \d+ x+", text) and len(text) == size - 1, line["text"]
                    got += 1
            missed += message["parameters"].get("missed") or 0
            more = message.get("continues")
            if got + missed == count and not stopped:  # all has come: now its end does
                stopped = True
                daemon.call("Stop", job=name)
    assert got + missed == count, (got, missed)


def test_a_follower_that_vanishes_is_forgotten(box, daemon):
    name, _ = daemon.submit(spec("print:x", "hang", logs=BOTH))
    agent = daemon.wait(name, until="running")["agent_pid"]
    follow_until(daemon, name, lambda lines: lines)
    before = len(os.listdir(f"/proc/{agent}/fd"))
    for _ in range(20):
        follow_until(daemon, name, lambda lines: lines)
    wait_for(lambda: len(os.listdir(f"/proc/{agent}/fd")) <= before + 2,
             what="descriptors of gone followers to be closed")


def test_follow_by_command_line_ends_with_the_job(box, daemon):
    name, _ = daemon.submit(spec("print:first", f"wait-file:{box.path('go')}", "print:last", logs=BOTH))
    follow = box.ctl_start("logs", "-f", name)
    follow.wait_out("first")
    box.path("go").touch()
    result = follow.wait()
    assert result.rc == 0 and "last" in result.out, result


def test_a_follower_ends_with_its_reader_also_while_the_job_is_silent(box, daemon):
    name, _ = daemon.submit(spec("print:first", "hang", logs=BOTH))
    reading, writing = os.pipe()
    follow = box.ctl_start("logs", "-f", name, stdout=writing)
    os.close(writing)
    assert b"first" in os.read(reading, 1000)
    os.close(reading)
    assert follow.wait().rc in (-signal.SIGPIPE, 128 + signal.SIGPIPE)


# --- long lines, speed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100_000, HELD // SLOWER, pytest.param(1_000_000_000, marks=[
    pytest.mark.all, pytest.mark.slow, pytest.mark.seconds(1500)])])
def test_a_line_however_long(box, size):
    """The file has it whole; the console too, in bounded memory."""
    if size > 100_000_000:
        st = os.statvfs(box.dir)
        if SANITIZED or st.f_bavail * st.f_frsize < 4 * size:
            pytest.skip("too slow under sanitizers, or too little room on the disk")
    run = box.run_start("-t", "1", PUPPET, f"long:{size}", f"touch:{box.path('written')}",
                        f"wait-file:{box.path('go')}", "print:after")
    wait_file(box.path("written"), LONG)
    run.wait_out("L" * 1000, LONG)
    if not SANITIZED:
        for pid in [run.pid, *_agent_of(run.pid)]:
            assert pss_kb(pid) < 32 * 1024, "a long line is held in memory"
    box.path("go").touch()
    result = run.wait(LONG)
    assert result.rc == 0
    assert (box.run_dir() / "attempt_0/0/stdout.log").stat().st_size == size + 1 + 6
    assert b"after" in result.out_bytes[-100:]
    if size <= HELD:
        assert result.out_bytes.count(b"L") == size


def _agent_of(pid):
    from harness import children
    return children(pid)[:1]


@pytest.mark.ci
@pytest.mark.parametrize("size", [HELD // SLOWER, pytest.param(1 << 30, marks=[
    pytest.mark.all, pytest.mark.slow, pytest.mark.seconds(900)])])
def test_a_line_however_long_through_logs_in_bounded_memory(box, daemon, size):
    if size > HELD and (SANITIZED or shutil.disk_usage(box.dir).free < 4 * size):
        pytest.skip("too slow under sanitizers, or too little room on the disk")
    run = f"j{size}"
    daemon.submit(spec(f"long:{size}", "print:after", f"touch:{box.path('written')}", "hang",
                       name=run, logs={"redirects": 1}))
    wait_file(box.path("written"), LONG)
    agent = daemon.agent_pid(run)
    for args, n, others in (([], size, b"after\n"), (["-n2"], size, b"after\n"), (["--grep=LL"], size, b""),
                            (["-n1"], 0, b"after\n"), (["--grep=aft"], 0, b"after\n")):
        client = subprocess.Popen([CTL, "logs", "--raw", *args, run], env=daemon.env | {
            "ELASTICD_SOCKET": str(daemon.socket)}, stdout=subprocess.PIPE)
        box.cleanups.append(client.kill)
        got, others_got, peak = 0, b"", 0
        while block := client.stdout.read1(1 << 20):
            got += block.count(b"L")
            others_got = (others_got + block.replace(b"L", b""))[:100]
            if not SANITIZED and (not peak or got >> 25 != (got - block.count(b"L")) >> 25):
                with contextlib.suppress(ProcessLookupError):  # at its end the client is gone
                    peak = max(peak, *map(pss_kb, (agent, daemon.pid, client.pid)))
        assert client.wait() == 0
        assert (got, others_got) == (n, (b"\n" if n else b"") + others), args
        assert peak < 32 * 1024, f"a long line is held in memory: {peak} KiB with {args}"


def test_a_tee_of_a_flood_is_complete(box):
    count = 100000 // SLOWER
    result = box.run("-t", "3", "--nproc-per-node=4", PUPPET, f"lines:{count}:95", "eprint:end")
    assert result.rc == 0
    assert len(result.out_bytes.splitlines()) == 4 * count
    assert result.err.count("end") == 4


# --- rotation, time stamps, merge --------------------------------------------------------------------------


def test_rotation_keeps_head_and_tail(box, daemon):
    job = daemon.run(spec("print:THE FIRST LINE", "lines:20000:100", "print:THE LAST LINE",
                          logs={"redirects": 1, "max_size": "64KiB", "keep": 2}))
    assert job["state"] == "succeeded"
    d = daemon.log(job, 0, 0).parent
    # What is being compressed when the agent leaves stays as it is.
    runtime = daemon.agent_sock(job["name"]).parent
    wait_for(lambda: not runtime.exists(), runtime.parent, what="the agent to leave")
    assert not list(d.glob("*.tmp"))
    files = sorted(p for p in d.iterdir() if p.name.startswith("stdout"))
    assert len(files) >= 3, files
    assert sum(p.stat().st_size for p in files) < 600_000, [(p.name, p.stat().st_size) for p in files]
    text = b"".join(plain(p) for p in files)
    assert b"THE FIRST LINE" in text and b"THE LAST LINE" in text
    assert b"THE LAST LINE" in daemon.log(job, 0, 0).read_bytes()
    lines = [t for _, _, t in lines_of(daemon, job["run"])]
    assert lines[-1] == b"THE LAST LINE"


def test_a_gap_left_by_rotation_is_one_line_that_counts(box, daemon):
    job = daemon.run(spec("lines:20000:100", logs={"redirects": 1, "max_size": "64KiB", "keep": 2}))
    shown = box.ctl("logs", job["run"]).out.splitlines()
    gap, = (line for line in shown if "missing" in line)
    m = re.fullmatch(r"\[worker:0\] elasticd: (\d+) lines \((\d+) bytes\) are missing here: rotation has "
                     r"removed \d+ parts of this log", gap)
    assert m and int(m[1]) == 20000 - (len(shown) - 1) and int(m[2]) == 100 * int(m[1]), gap
    before, after = shown[shown.index(gap) - 1], shown[shown.index(gap) + 1]
    assert int(after.split()[2]) - int(before.split()[2]) == int(m[1]) + 1, (before, after)
    assert len(box.ctl("logs", "--raw", job["run"]).out.splitlines()) == len(shown) - 1


def plain(path):
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", str(path)], capture_output=True, check=True).stdout
    return path.read_bytes()


def test_rotation_of_a_traceback_at_the_end_is_never_lost(box, daemon):
    job = daemon.run(spec("elines:5000:100", "eprint:Traceback", "eprint:  the culprit", "exit:1",
                          logs={"redirects": 2, "max_size": "16KiB", "keep": 1}))
    assert job["verdict"]["root_cause"]["stderr_tail"][-2:] == ["Traceback", "  the culprit"]
    assert b"the culprit" in daemon.log(job, 0, 0, "stderr").read_bytes()


def test_a_follower_follows_through_rotation(box, daemon):
    name, _ = daemon.submit(spec(f"wait-file:{box.path('go')}", "lines:3000:100", "print:end",
                                 logs={"redirects": 1, "max_size": "32KiB", "keep": 50}))
    with daemon.connect() as v:
        v.send("Logs", more=True, job=name, follow=True)
        box.path("go").touch()
        got, missed = [], 0
        while True:
            message = v.receive()
            got += [line_bytes(line) for line in message["parameters"]["lines"]]
            missed += message["parameters"].get("missed") or 0
            if not message.get("continues"):
                break
    assert len(got) + missed == 3001 and got[-1] == b"end", (len(got), missed)
    assert len(set(got)) == len(got), "a line came twice"


def test_timestamps_are_of_the_moment_the_line_was_read(box, daemon):
    before = time.time_ns() // 1000
    name, run = daemon.submit(spec("print:one", f"wait-file:{box.path('go')}", "print:two",
                                   logs={"redirects": 1, "timestamps": True}))
    assert [line["text"] for line in follow_until(daemon, name, lambda lines: lines)] == ["one"]
    between = time.time_ns() // 1000
    box.path("go").touch()
    daemon.wait(run)
    after = time.time_ns() // 1000
    got = []
    with daemon.connect() as v:
        for answer in v.stream("Logs", job=run):
            got += answer["lines"]
    assert [line["text"] for line in got] == ["one", "two"], got
    one, two = (line["time_us"] for line in got)
    assert before <= one <= between <= two <= after, (before, one, between, two, after)


def test_a_worker_that_writes_to_a_pipe_of_the_agent_is_never_killed_by_it(box, daemon):
    """Timestamps put a pipe in the way; the agent dies; the next attempt writes on."""
    name, _ = daemon.submit(spec("print:attempt %a", f"touch:{box.path('up')}.%a", "hang",
                                 restart={"max": 1}, logs={"redirects": 3, "timestamps": True}))
    wait_file(box.path("up.0"))
    os.kill(daemon.agent_pid(name), signal.SIGKILL)
    wait_file(box.path("up.1"))
    # It is the agent that writes, when it comes to it.
    got = follow_until(daemon, name, lambda lines: lines, attempt=1)
    assert [line_bytes(line) for line in got] == [b"attempt 1"]


def test_merge_puts_both_streams_into_one_file_in_order(daemon):
    job = daemon.run(spec("print:1", "eprint:2", "print:3", "eprint:4",
                          logs={"redirects": 3, "merge": True}))
    assert daemon.log(job, 0, 0).read_bytes() == b"1\n2\n3\n4\n"


def test_since_reads_only_what_is_newer(box, daemon):
    """A time is right within a second, and that of what is written while the agent stands still is an older
    one: what is new is written until it has a time of its own."""
    name, run = daemon.submit(spec("on:USR1:print:new", "print:old", f"touch:{box.path('up')}", "hang",
                                   logs=BOTH))
    wait_file(box.path("up"))
    times = daemon.log(daemon.wait(name, until="running"), 0, 0).with_suffix(".idx")
    wait_for(lambda: times.exists() and times.stat().st_size, times.parent, what="the time of what is old")
    time_limit = time.monotonic() + 1.2
    wait_for(lambda: time.monotonic() > time_limit, what="a second to pass")
    since, first = time.time_ns() // 1000, times.stat().st_size

    def has_its_own():
        daemon.call("Kill", job=name, signal="USR1")
        return times.stat().st_size > first

    wait_for(has_its_own, what="the time of what is new")
    daemon.call("Stop", job=name)
    daemon.wait(run)
    lines = [t for _, _, t in lines_of(daemon, run)]
    assert lines[0] == b"old" and set(lines[1:]) == {b"new"}
    assert set(lines_of(daemon, run, since_us=since)) == {(0, "stdout", b"new")}


def test_duplicates_go_to_the_attempts_filtered_file(daemon):
    job = daemon.run(spec("print:loss 1", "print:other", "eprint:ERROR x", "eprint:fine", replicas=2,
                          logs={"tee": 3, "duplicate_stdout": ["loss"], "duplicate_stderr": ["ERROR"]}))
    d = pathlib.Path(job["log_dir"]) / "attempt_0"
    out = sorted((d / "filtered_stdout.log").read_text().splitlines())
    assert out == ["[worker:0] loss 1", "[worker:1] loss 1"]
    err = sorted((d / "filtered_stderr.log").read_text().splitlines())
    assert err == ["[worker:0] ERROR x", "[worker:1] ERROR x"]


def test_a_worker_has_one_name_on_the_console_and_in_logs(box, daemon):
    roles = [{"name": name, "replicas": 2, "command": [PUPPET, "print:hello"]} for name in ("ps", "tr")]
    job = daemon.run({"name": "names", "roles": roles, "logs": {"tee": 1, "duplicate_stdout": ["hello"]}})
    shown = sorted(box.ctl("logs", job["run"]).out.splitlines())
    assert shown == ["[ps:0] hello", "[ps:1] hello", "[tr:0] hello", "[tr:1] hello"]
    copied = pathlib.Path(job["log_dir"]) / "attempt_0/filtered_stdout.log"
    assert sorted(copied.read_text().splitlines()) == shown, "with the prefix of the console"


# --- what goes wrong -------------------------------------------------------------------------------------


def test_a_log_file_that_vanishes_hurts_nobody_and_is_told(box, daemon):
    name, _ = daemon.submit(spec("print:one", f"touch:{box.path('up')}", f"wait-file:{box.path('go')}",
                                 "print:two", logs={"tee": 3}))
    wait_file(box.path("up"))
    job = daemon.status(name)
    daemon.log(job, 0, 0).unlink()
    box.path("go").touch()
    assert daemon.wait(name)["state"] == "succeeded"


def test_a_log_directory_that_vanishes_does_not_end_the_job(box, daemon):
    import shutil
    name, _ = daemon.submit(spec("print:one", f"touch:{box.path('up')}.%a",
                                 f"if-attempt:0:wait-file:{box.path('go')}+exit:1",
                                 restart={"max": 1}, logs={"tee": 3}))
    wait_file(box.path("up.0"))
    job = daemon.wait(name, until="running")
    # The last file that the agent makes there: it must not come while the directory is being emptied.
    times = daemon.log(job, 0, 0).with_suffix(".idx")
    wait_for(lambda: times.exists() and times.stat().st_size, times.parent, what="the time of the line")
    shutil.rmtree(job["log_dir"])
    box.path("go").touch()
    job = daemon.wait(name)
    assert job["state"] == "succeeded" and job["attempt"] == 1, job


@pytest.mark.root
def test_a_full_disk_does_not_hurt_the_worker_and_logging_resumes(box, daemon, small_disk):
    note = "the disk of the logs {} full: they lack lines"
    ballast = small_disk / "ballast"
    name, run = daemon.submit(spec(
        "print:before", f"touch:{box.path('a')}", f"wait-file:{box.path('b')}", "lines:2000:100",
        f"touch:{box.path('c')}", f"wait-file:{box.path('d')}", "lines:10:100",
        f"wait-file:{box.path('e')}", "print:after", "exit:3",
        logs={"dir": str(small_disk), "redirects": 3, "timestamps": True}))
    wait_file(box.path("a"))
    follow_until(daemon, name, lambda lines: lines)
    fill(ballast)
    box.path("b").touch()
    wait_file(box.path("c"))  # the worker wrote 200 kB and went on
    daemon.wait_event(name, "log-disk-full")
    assert f"Note: {note.format('is')}\n" in box.ctl("status", name).out
    ballast.unlink()
    box.path("d").touch()
    daemon.wait_event(name, "log-resumed")
    box.path("e").touch()
    assert daemon.wait(name)["state"] == "failed"
    assert f"note      : {note.format('was')}\n" in box.ctl("errors", name).out
    names = [e["event"] for e in daemon.events(run)]
    assert names.count("log-disk-full") == 1, "said once"
    assert lines_of(daemon, run)[-1][2] == b"after"


@pytest.mark.root
def test_a_full_disk_under_a_redirect_does_not_end_the_job(box, daemon, small_disk):
    job = daemon.run(spec("lines:20000:100", "if-attempt:0:exit:1", "print:x", restart={"max": 1},
                          logs={"dir": str(small_disk), "redirects": 3}))
    assert job["state"] == "succeeded", job["verdict"]


def test_a_console_that_nobody_reads_does_not_stop_the_worker(box):
    """run's standard output is a pipe that is full; the files go on and the report still comes."""
    read, write = os.pipe()
    run = box.run_start("-t", "1", PUPPET, "lines:30000:100", f"touch:{box.path('through')}", "exit:3",
                        stdout=write)
    os.close(write)
    wait_file(box.path("through"))
    os.read(read, 100)
    os.close(read)
    assert run.wait().rc == 3
    log = (box.run_dir() / "attempt_0/0/stdout.log").read_bytes()
    assert log.count(b"\n") == 30000


def test_ranks_above_nine_in_maps_and_filters(box):
    result = box.run("-t", "11:3", "-r", "10:1", "--local-ranks-filter=10,11",
                     "--nproc-per-node=12", PUPPET, "print:rank %r")
    assert result.rc == 0 and result.out == "[default:11] rank 11\n", result
    assert (box.run_dir() / "attempt_0/10/stdout.log").read_text() == "rank 10\n"


def test_time_colour_and_prefix_are_never_stored(box, daemon):
    job = daemon.run(spec("print:bare", logs={"tee": 3, "prefix": "<${rank}@${host}> "}))
    assert daemon.log(job, 0, 0).read_bytes() == b"bare\n"
    result = box.ctl("logs", "--color=always", job["run"])
    if result.rc == 0:
        assert "bare" in result.out
