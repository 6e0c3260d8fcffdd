# SPDX-License-Identifier: Apache-2.0
"""What failed, why, and what was only collateral: error.json, root cause, report."""

import json
import os
import pathlib
import re
import time

import pytest

from harness import CTL, PUPPET, SLOWER, VarlinkError, cgroup1, cgroup2, spec, wait_file


def failures(daemon, job, **kwargs):
    return daemon.call("Errors", job=job["run"], **kwargs)["failures"]


def test_the_first_to_fail_is_the_cause_and_the_others_are_collateral(box, daemon):
    job = daemon.run(spec(f"barrier:{box.path('bar')}", "if-rank:2:exit:7", "hang", replicas=4))
    cause = job["verdict"]["root_cause"]
    assert (cause["rank"], cause["exit"]["code"], cause["collateral"]) == (2, 7, False)
    found = failures(daemon, job)
    assert found[0]["rank"] == 2
    assert all(f["collateral"] for f in found[1:])
    assert {t["state"] for t in job["workers"] if t["rank"] != 2} == {"stopped"}


def test_workers_that_fail_while_being_stopped_are_collateral(box, daemon):
    job = daemon.run(spec("if-rank:0:on:TERM:exit:3", "if-rank:1:on:TERM:signal:SEGV",
                          f"barrier:{box.path('bar')}", "if-rank:2:exit:9", "hang", replicas=3))
    assert job["verdict"]["exit_status"] == 9
    by_rank = {f["rank"]: f for f in failures(daemon, job)}
    assert not by_rank[2]["collateral"]
    assert all(by_rank[r]["collateral"] for r in (0, 1) if r in by_rank)


def test_a_plausible_timestamp_of_the_worker_decides(box, daemon):
    """Rank 0 knew of its error first but took longer to die."""
    job = daemon.run(spec(
        "on:TERM:exit:4", f"barrier:{box.path('bar')}",
        f"if-rank:0:error-json:object:early+touch:{box.path('written')}+sleep:1500+exit:4",
        f"if-rank:1:wait-file:{box.path('written')}+sleep:1200+error-json:object:late+exit:5",
        "hang", replicas=2, stop={"timeout": "5s"}))
    assert job["verdict"]["root_cause"]["message"] == "early", job["verdict"]


def test_a_timestamp_from_long_ago_is_not_believed(box, daemon):
    job = daemon.run(spec(f"barrier:{box.path('bar')}", "if-rank:0:exit:3",
                          "if-rank:1:on:TERM:exit:0",
                          "if-rank:1:error-json:object@1000:liar+hang", "hang", replicas=2))
    assert job["verdict"]["root_cause"]["rank"] == 0


def test_a_timestamp_from_the_future_is_not_believed(box, daemon):
    before = time.time_ns() // 1000
    job = daemon.run(spec(f"error-json:object@{int(time.time()) + 9999}:message", "exit:3"))
    cause = job["verdict"]["root_cause"]
    assert cause["message"] == "message"
    assert before <= cause["time_us"] <= time.time_ns() // 1000


def test_the_object_shape_gives_message_and_traceback(daemon):
    job = daemon.run(spec("error-json:object:ValueError, boom", "exit:1"))
    cause = job["verdict"]["root_cause"]
    assert cause["message"] == "ValueError, boom"
    assert cause["traceback"].startswith("Traceback of ValueError")
    assert cause["error_file"].endswith("attempt_0/0/error.json")
    assert not cause.get("error_file_problem")


@pytest.mark.parametrize("shape", ["int", "string"])
def test_the_string_shape_with_both_kinds_of_timestamp(daemon, shape):
    job = daemon.run(spec(f"error-json:{shape}:plain words", "exit:1"))
    cause = job["verdict"]["root_cause"]
    assert cause["message"] == "plain words" and not cause.get("error_file_problem"), cause


@pytest.mark.parametrize("shape", ["broken", "nokey", "array", "empty"])
def test_an_error_file_that_makes_no_sense_is_reported_and_never_fatal(daemon, shape):
    job = daemon.run(spec(f"error-json:{shape}:x", "if-attempt:2:exit:0", "exit:6",
                          restart={"max": 2}))
    assert job["state"] == "succeeded", "the restarts have to go on"
    cause = failures(daemon, job, attempt=0)[0]
    assert cause["error_file_problem"], cause
    assert cause["exit"]["code"] == 6 and cause["message"]


def test_an_error_file_of_a_gigantic_size_or_a_directory_hurts_nothing(box, daemon):
    shell = ('if [ "$ELASTICD_ATTEMPT" = 0 ]; then truncate -s 3G "$TORCHELASTIC_ERROR_FILE"; '
             'else mkdir "$TORCHELASTIC_ERROR_FILE"; fi; exit 5')
    job = daemon.run({"roles": [{"command": ["/bin/sh", "-c", shell]}], "restart": {"max": 1}})
    assert job["verdict"]["exit_status"] == 5
    for attempt in (0, 1):
        assert failures(daemon, job, attempt=attempt)[0]["error_file_problem"]


def test_a_failure_without_a_file_says_what_happened(daemon):
    job = daemon.run(spec("exit:3"))
    cause = job["verdict"]["root_cause"]
    assert not cause.get("error_file") and not cause.get("error_file_problem")
    job = daemon.run(spec("signal:SEGV"))
    cause = job["verdict"]["root_cause"]
    assert f"Signal 11 (SIGSEGV) received by PID {cause['pid']}" == cause["message"]
    assert (cause["exit"]["signal"], cause["exit"]["signal_name"]) == (11, "SIGSEGV")


def test_success_reports_nothing(box, daemon):
    job = daemon.run(spec("error-json:object:written but fine"))
    assert job["state"] == "succeeded" and not job["verdict"].get("root_cause")
    with_none = failures(daemon, job)
    assert with_none == []


def test_the_end_of_standard_error_is_in_the_failure(daemon):
    job = daemon.run(spec("elines:500:60", "eprint:the last words", "epartial:unfinished", "exit:1"))
    tail = job["verdict"]["root_cause"]["stderr_tail"]
    assert tail[-2:] == ["the last words", "unfinished"] and len(tail) < 200


def test_the_failures_of_each_attempt(box, daemon):
    job = daemon.run(spec("if-attempt:0:exit:1", "if-attempt:1:exit:2", "exit:3", restart={"max": 2}))
    for attempt in range(3):
        found = failures(daemon, job, attempt=attempt)
        assert [(f["attempt"], f["exit"]["code"]) for f in found] == [(attempt, attempt + 1)]
    assert failures(daemon, job)[0]["exit"]["code"] == 3, "the newest, when none is named"
    with pytest.raises(VarlinkError) as e:
        failures(daemon, job, attempt=7)
    assert e.value.name == "NotFound"


# --- the kernel needs memory -------------------------------------------------------------------------


def little_memory(box):
    """A control group with 48 MiB, as a shell's command and arguments that execute what follows in it."""
    for line in open("/proc/self/cgroup"):
        _, controllers, path = line.strip().split(":", 2)
        if controllers not in ("", "memory"):
            continue
        mount = cgroup1("memory") if controllers else cgroup2()
        group = pathlib.Path(f"{mount}{path.rstrip('/')}/{box.dir.name}")
        limit = group / ("memory.limit_in_bytes" if controllers else "memory.max")
        if not mount or not os.access(group.parent, os.W_OK):
            continue
        group.mkdir()
        box.cleanups.append(group.rmdir)
        if limit.exists():
            limit.write_text("48M")
            return ["sh", "-c", 'echo 0 > "$0"/cgroup.procs && exec "$@"', group]
    pytest.skip("no control group whose memory can be limited")


def test_a_kill_for_want_of_memory_is_named_everywhere(box):
    what = f"killed by the kernel: out of memory (limit 48M of control group {box.dir.name})"
    small = little_memory(box)
    result = box.sh(*small, CTL, "run", "--name=small", f"--log-dir={box.path('logs')}", "--nproc-per-node=2",
                    PUPPET, "if-rank:1:alloc:200", "hang")
    assert result.rc == 137, result
    cause = result.err[result.err.index("Root Cause"):result.err.index("Other failures")]
    assert "rank      : 1 (local_rank: 1)" in cause and what in cause, result
    events = [json.loads(line) for line in (box.run_dir() / "events.jsonl").read_text().splitlines()]
    killed = [e for e in events if e["event"] == "out-of-memory"]
    assert [(e["rank"], e["data"]["limit"]) for e in killed] == [(1, 48 << 20)]
    assert killed[0]["text"].endswith(what)
    verdict = json.loads((box.run_dir() / "verdict.json").read_text())
    assert what in verdict["message"] and verdict["root_cause"]["exit"]["out_of_memory"] is True


# --- run: the report and the copy --------------------------------------------------------------------


def test_the_report_of_run_has_torchelastics_fields_root_cause_first(box):
    result = box.run("--nproc-per-node=3", "-r", "3", PUPPET, f"barrier:{box.path('bar')}",
                     "if-rank:1:eprint:my last words+error-json:object:KeyError here+exit:13",
                     "hang")
    assert result.rc == 13, result
    report = result.err
    assert re.search(r"^=+$", report, re.M) and "FAILED" in report
    root = report.index("Root Cause")
    for field in ("time", "host", "rank", "exitcode", "error_file", "traceback"):
        assert re.search(rf"^\s*{field}\s*:", report[root:], re.M), f"no {field}: {report}"
    assert re.search(r"rank\s*: 1 \(local_rank: 1\)", report[root:])
    assert re.search(r"exitcode\s*: 13 \(pid: \d+\)", report[root:])
    assert "KeyError here" in report and "my last words" in report
    others = report.find("Other")
    assert others == -1 or others > root, "the root cause stands first"


def test_the_report_names_the_script(box):
    path = box.path("work/train.py")
    path.write_text("raise SystemExit(4)\n")
    result = box.run(path, "--epochs=3")
    assert result.rc == 4 and re.search(r"train\.py FAILED", result.err), result


def test_a_report_of_a_signal(box):
    result = box.run(PUPPET, "signal:SEGV")
    assert re.search(r"exitcode\s*: -11 \(pid: \d+\)", result.err), result
    assert "Signal 11 (SIGSEGV) received by PID" in result.err


def test_no_error_file_is_shown_as_not_available(box):
    result = box.run(PUPPET, "exit:3")
    assert re.search(r"error_file\s*: <N/A>", result.err), result


def test_the_root_causes_error_file_is_copied_with_its_code(box):
    out = box.path("reply.json")
    out.write_text("old")
    result = box.run("--nproc-per-node=2", PUPPET, f"barrier:{box.path('bar')}",
                     "if-rank:1:error-json:object:boom+exit:21", "hang",
                     env={"TORCHELASTIC_ERROR_FILE": str(out)})
    assert result.rc == 21, result
    copied = json.loads(out.read_text())
    assert copied["message"]["message"] == "boom" and copied["message"]["errorCode"] == 21


def test_the_copy_after_a_signal_has_a_negative_code(box):
    out = box.path("reply.json")
    box.run(PUPPET, "error-json:object:boom", "signal:ABRT",
            env={"TORCHELASTIC_ERROR_FILE": str(out)})
    assert json.loads(out.read_text())["message"]["errorCode"] == -6


def test_the_string_shape_is_copied_as_it_is(box):
    out = box.path("reply.json")
    box.run("-r", "3", PUPPET, "error-json:int@1700000000:boom", "exit:2",
            env={"TORCHELASTIC_ERROR_FILE": str(out)})
    assert json.loads(out.read_text()) == {"message": "boom", "timestamp": 1700000000}


def test_without_an_error_file_of_the_worker_there_is_no_copy(box):
    out = box.path("reply.json")
    assert box.run(PUPPET, "exit:2", env={"TORCHELASTIC_ERROR_FILE": str(out)}).rc == 2
    assert not out.exists()
    assert box.run(PUPPET, env={"TORCHELASTIC_ERROR_FILE": str(out)}).rc == 0
    assert not out.exists()


def test_a_workers_error_file_is_not_the_callers(box):
    from harness import parse_environ
    out = box.path("reply.json")
    box.run(PUPPET, f"env:{box.path('env')}", env={"TORCHELASTIC_ERROR_FILE": str(out)})
    assert parse_environ(box.path("env").read_bytes())["TORCHELASTIC_ERROR_FILE"] != str(out)


def test_errors_by_command_line(box, daemon):
    job = daemon.run(spec(f"barrier:{box.path('bar')}",
                          "if-rank:1:error-json:object:KeyError here+exit:13", "hang", replicas=2))
    result = box.ctl("errors", job["run"])
    assert result.rc == 0 and "KeyError here" in result.out and "13" in result.out, result
    # A later reader finds how the job was run, and where its logs are.
    about = dict(re.findall(r"^  (\w+) +: (.*)$", result.out.split("\nRun:\n")[1], re.MULTILINE))
    assert about["run"].startswith(f"{job['run']}, as ") and " after its start at " in about["run"], result
    assert about["logs"] == job["log_dir"] and "error-json" in about["command"], result
    assert about["restarts"] == "0 of 0 used" and "exit status 13" in about["verdict"], result
    shown = box.ctl(*about["lines"].split()[1:])
    assert shown.rc == 0, shown
    parsed = box.ctl("errors", "--json", job["run"]).json
    found = parsed["failures"] if isinstance(parsed, dict) else parsed
    assert found[0]["rank"] == 1
