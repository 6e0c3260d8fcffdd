# SPDX-License-Identifier: Apache-2.0
"""What the exit status of run, wait, status and the other verbs says."""

import signal

import pytest

from harness import CTL, PUPPET, as_user, is_root, other_user, spec, wait_file


@pytest.mark.parametrize("code", [1, 17, 100, 138, 255])
def test_run_hands_on_the_root_causes_exit_code(box, code):
    result = box.run(PUPPET, f"exit:{code}")
    assert result.rc == code, result


@pytest.mark.parametrize("name", ["SEGV", "KILL", "ABRT", "TERM"])
def test_run_says_128_and_the_signal(box, name):
    result = box.run(PUPPET, f"signal:{name}")
    assert result.rc == 128 + getattr(signal, f"SIG{name}"), result
    assert f"SIG{name}" in result.err


def test_exit_138_is_a_code_and_not_a_signal(box):
    result = box.run(PUPPET, "exit:138")
    assert result.rc == 138 and "Signal" not in result.err, result
    assert "138" in result.err


def test_a_real_time_signal_is_still_reported(box):
    result = box.run(PUPPET, "signal:40")
    assert result.rc == 168 and "40" in result.err and "Root Cause" in result.err, result


def test_all_zero_is_zero(box):
    assert box.run("--nproc-per-node=3", PUPPET).rc == 0


def test_not_found_is_127_and_names_the_file(box):
    result = box.run("--max-restarts=3", "/no/such/program")
    assert result.rc == 127 and "/no/such/program" in result.err, result


def test_not_in_the_path_is_127(box):
    result = box.run("--no-python", "no-such-program-anywhere")
    assert result.rc == 127 and "no-such-program-anywhere" in result.err, result


@pytest.mark.parametrize("found", [False, True])
def test_a_path_that_may_not_be_searched_is_passed_over(box, found):
    """As a shell does: 126 is for a file that was found."""
    box.open_to_all()
    box.path("closed").mkdir(mode=0o700 if is_root() else 0)
    box.path("work/program").write_text("not a program\n")
    path = f"{box.path('closed')}:/usr/bin:/bin" + (f":{box.path('work')}" if found else "")
    argv = [CTL, "run", "--no-python", "program"]
    r = box.sh(*(as_user(other_user(), *argv) if is_root() else argv), env={"PATH": path})
    assert r.rc == (126 if found else 127), r
    assert ("cannot exec program: Permission denied" in r.err) == found, r


def test_not_executable_is_126_and_names_the_file(box):
    path = box.path("work/plain")
    path.write_text("not a program\n")
    result = box.run("--max-restarts=3", path)
    assert result.rc == 126 and str(path) in result.err, result


def test_a_directory_or_a_bad_interpreter_cannot_be_executed(box):
    assert box.run(box.path("work")).rc == 126
    path = box.path("work/bad")
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    assert box.run(path).rc in (126, 127)


def test_a_directory_that_is_not_there_is_no_program_that_is_not_there(box, daemon):
    job = daemon.run(spec("exit:0", cwd="/no/such/place"))
    assert job["verdict"]["exit_status"] == 125 and "/no/such/place" in job["verdict"]["message"], job


def test_a_refused_request_is_125_or_usage(box):
    assert box.run("--nproc-per-node=0", PUPPET).rc in (2, 125)
    box.path("file").write_text("")
    assert box.run(f"--log-dir={box.path('file')}/x", PUPPET).rc == 125


def test_the_time_limit_is_124(box):
    path = box.path("job.json")
    path.write_text('{"max_run_time": "300ms", "roles": [{"command": ["%s", "hang"]}]}' % PUPPET)
    result = box.ctl("run", "--spec", path)
    assert result.rc == 124, result


def test_wait_says_the_same_as_run(box, daemon):
    for steps, rc in ((["exit:17"], 17), (["signal:SEGV"], 139), ([], 0)):
        name, _ = daemon.submit(spec(*steps))
        assert box.ctl("wait", name).rc == rc
    name, _ = daemon.submit({"roles": [{"command": ["/no/such/program"]}]})
    assert box.ctl("wait", name).rc == 127


def test_wait_with_a_time_limit_is_124_and_leaves_the_job_alone(box, daemon):
    name, _ = daemon.submit(spec("hang"))
    result = box.ctl("wait", "--timeout=100ms", name)
    assert result.rc == 124, result
    assert daemon.status(name)["state"] in ("starting", "running", "pending", "rendezvous")


def test_wait_for_an_unknown_job(box, daemon):
    result = box.ctl("wait", "nobody")
    assert result.rc in (4, 125) and "nobody" in result.err, result


def test_status_says_active_not_active_and_unknown(box, daemon):
    name, _ = daemon.submit(spec("hang"))
    assert box.ctl("status", name).rc == 0
    done, _ = daemon.submit(spec("exit:3"))
    daemon.wait(done)
    assert box.ctl("status", done).rc == 3
    assert box.ctl("status", "nobody").rc == 4


def test_no_daemon_is_5_and_names_the_socket(box):
    for verb in (["list"], ["status", "x"], ["stop", "x"], ["ping"], ["ping", "--timeout=50ms"], ["events"],
                 ["logs", "x"]):
        result = box.ctl(*verb)
        assert result.rc == 5 and str(box.path("d/control.sock")) in result.err, result


def test_usage_errors_are_2(box, daemon):
    for args in (["surely-not-a-verb"], ["status", "--surely-not-an-option", "x"], ["stop"], ["kill"]):
        result = box.ctl(*args)
        assert result.rc == 2 and result.err.strip(), result


def test_a_refused_call_exits_with_1(box, daemon):
    done, _ = daemon.submit(spec())
    daemon.wait(done)
    assert box.ctl("stop", done).rc == 1
    assert box.ctl("kill", "-s", "TERM", done).rc == 1


def test_a_stopped_job_is_not_a_failure_of_elasticd(box, daemon):
    name, _ = daemon.submit(spec(f"touch:{box.path('up')}", "hang"))
    wait_file(box.path("up"))
    assert box.ctl("stop", name).rc == 0
    verdict = daemon.wait(name)["verdict"]
    assert verdict["result"] == "stopped"
    assert box.ctl("wait", name).rc == verdict["exit_status"] != 125


def test_a_lost_agent_is_125(box):
    import os
    from harness import descendants
    run = box.run_start(PUPPET, f"touch:{box.path('up')}", "hang")
    wait_file(box.path("up"))
    os.kill(descendants(run.pid)[0], signal.SIGKILL)
    assert run.wait().rc in (125, 137)
