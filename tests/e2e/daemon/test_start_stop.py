# SPDX-License-Identifier: Apache-2.0
"""elasticd accepts, names, stops and restarts jobs, and several go side by side."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from harness import (ALL, CTL, PATIENCE, PUPPET, SLOWER, VarlinkError, alive, as_user, is_root,
                     other_user, parse_environ, processes_of_run, puppet, spec, wait_file, wait_for,
                     wait_gone, wait_lines)


def test_start_answers_with_name_and_run_and_the_job_runs(box, daemon):
    name, run = daemon.submit(spec(f"env:{box.path('env')}", name="first"))
    assert name == "first" and run.startswith("first_") and len(run) == len("first_") + 8
    job = daemon.wait(run)
    assert job["state"] == "succeeded" and job["verdict"]["exit_status"] == 0
    env = parse_environ(box.path("env").read_bytes())
    assert (env["ELASTICD_JOB"], env["ELASTICD_RUN"]) == (name, run)


def test_the_answer_comes_when_the_job_is_on_disk(daemon):
    job, run = daemon.submit(spec("hang"))
    record = json.loads((daemon.record(run) / "record.json").read_text())
    assert record["run"] == run and record["brief"]["name"] == job
    assert json.loads((daemon.record(run) / "spec.json").read_text())["roles"]


def test_a_job_without_a_name_is_named_after_its_program(daemon):
    names = {daemon.submit(spec())[0] for _ in range(3)}
    assert len(names) == 3 and all(n.startswith("puppet-") for n in names)


def test_a_name_is_taken_while_its_job_is_active_and_free_after(daemon):
    _, run = daemon.submit(spec("hang", name="one"))
    with pytest.raises(VarlinkError) as e:
        daemon.submit(spec("hang", name="one"))
    assert e.value.name == "AlreadyExists" and e.value.parameters["run"] == run
    daemon.call("Stop", job="one")
    daemon.wait("one")
    _, second = daemon.submit(spec(name="one"))
    assert second != run
    assert daemon.wait("one")["run"] == second, "a name means its newest run"


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "-x", "a b", "x" * 65, "x.latest", "a\nb"])
def test_names_that_would_escape_are_refused(daemon, name):
    with pytest.raises(VarlinkError) as e:
        daemon.submit(spec(name=name))
    assert e.value.name == "InvalidArgument" and "name" in e.value.parameters["field"]


def test_a_worker_of_the_daemon_gets_a_clean_environment(box):
    daemon = box.new_daemon(env={"SECRET_OF_THE_DAEMON": "x", "NOTIFY_SOCKET": ""}).start()
    daemon.run(spec(f"env:{box.path('env')}", f"fds:{box.path('fds')}", f"stdin:{box.path('in')}"))
    env = parse_environ(box.path("env").read_bytes())
    assert "SECRET_OF_THE_DAEMON" not in env and "PATH" in env
    assert [f.split()[0] for f in box.path("fds").read_text().splitlines()] == ["0", "1", "2"]
    assert box.path("in").read_bytes() == b""


def test_environment_of_role_and_replica(box, daemon):
    daemon.run(spec(f"env:{box.path('env')}.%r", replicas=2, role={
        "env": {"COMMON": "c", "OVER": "role"},
        "env_per_replica": [{"OVER": "zero"}, {"MINE": "one"}]}))
    env = [parse_environ(box.path(f"env.{r}").read_bytes()) for r in (0, 1)]
    assert (env[0]["COMMON"], env[0]["OVER"]) == ("c", "zero")
    assert (env[1]["OVER"], env[1]["MINE"]) == ("role", "one")


def test_arguments_per_replica_directory_mask_and_limits(box, daemon):
    daemon.run(spec(f"cwd:{box.path('cwd')}.%r", f"limits:{box.path('limits')}.%r", replicas=2,
                    role={"args": [[f"touch:{box.path('zero')}"], [f"touch:{box.path('one')}"]],
                          "limits": {"nofile": 222}},
                    cwd=str(box.path("work")), umask="077"))
    assert box.path("zero").exists() and box.path("one").stat().st_mode & 0o777 == 0o600
    assert box.path("cwd.1").read_text() == str(box.path("work"))
    assert "222" in [line for line in box.path("limits.0").read_text().splitlines()
                     if line.startswith("Max open files")][0]


def test_a_directory_that_is_not_there_is_a_clear_failure(box, daemon):
    job = daemon.run(spec(cwd=str(box.path("missing")), restart={"max": 3}))
    assert job["state"] == "failed" and job["attempt"] == 0
    assert str(box.path("missing")) in json.dumps(job["verdict"])


def test_stop_is_orderly(box, daemon):
    name, _ = daemon.submit(spec(f"on:TERM:touch:{box.path('saved')}.%r+exit:0",
                                 f"touch:{box.path('up')}.%r", "hang", replicas=2))
    for rank in (0, 1):
        wait_file(box.path(f"up.{rank}"))
    daemon.call("Stop", job=name)
    job = daemon.wait(name)
    assert job["state"] == "stopped" and job["verdict"]["result"] == "stopped"
    assert box.path("saved.0").exists() and box.path("saved.1").exists()


def test_stop_replaces_the_deadline_and_keeps_one_for_all(box, daemon):
    name, _ = daemon.submit(spec("ignore:TERM", f"touch:{box.path('up')}.%r", "hang", replicas=8,
                                 stop={"timeout": "10m"}))
    for rank in range(8):
        wait_file(box.path(f"up.{rank}"))
    begun = time.monotonic()
    daemon.call("Stop", job=name, timeout_ms=500)
    job = daemon.wait(name)
    assert 0.4 < time.monotonic() - begun < 600
    assert job["state"] == "stopped"
    assert {t["exit"]["signal"] for t in job["workers"]} == {9}


def test_a_second_stop_can_shorten_the_first(box, daemon):
    name, _ = daemon.submit(spec("ignore:TERM", f"touch:{box.path('up')}", "hang",
                                 stop={"timeout": "10m"}))
    wait_file(box.path("up"))
    daemon.call("Stop", job=name)
    daemon.call("Stop", job=name, timeout_ms=0)
    assert daemon.wait(name)["state"] == "stopped"


def test_another_stop_signal(box, daemon):
    name, _ = daemon.submit(spec("ignore:TERM", f"on:USR2:touch:{box.path('got')}+exit:0",
                                 f"touch:{box.path('up')}", "hang", stop={"signal": "USR2"}))
    wait_file(box.path("up"))
    daemon.call("Stop", job=name)
    daemon.wait(name)
    assert box.path("got").exists()


@pytest.mark.parametrize("whom,child_too", [("group", True), ("main", False), ("all", True)])
def test_whom_the_stop_signal_reaches(box, daemon, whom, child_too):
    # It is reached at once, and not only when it has outlived the worker.
    wait = f"wait-file:{box.path('child-got')}+" if child_too else ""
    name, _ = daemon.submit(spec(
        f"fork:on:TERM:{{touch:{box.path('child-got')}+exit:0}}+touch:{box.path('child-up')}+hang",
        f"wait-file:{box.path('child-up')}", f"on:TERM:touch:{box.path('main-got')}+{wait}exit:0",
        f"touch:{box.path('up')}", "hang", stop={"whom": whom, "timeout": "10m"}))
    wait_file(box.path("up"))
    daemon.call("Stop", job=name)
    daemon.wait(name)
    assert box.path("main-got").exists()
    assert box.path("child-got").exists() == child_too


def test_whom_all_reaches_other_sessions(box, daemon):
    name, _ = daemon.submit(spec(
        f"setsid-fork:on:TERM:{{touch:{box.path('got')}+exit:0}}+touch:{box.path('up')}+hang",
        f"wait-file:{box.path('up')}", f"on:TERM:wait-file:{box.path('got')}+exit:0",
        f"touch:{box.path('all-up')}", "hang", stop={"whom": "all", "timeout": "10m"}))
    wait_file(box.path("all-up"))
    daemon.call("Stop", job=name)
    daemon.wait(name)
    assert box.path("got").exists()


def test_stop_right_after_start(daemon):
    for _ in range(10):
        name, run = daemon.submit(spec("hang", replicas=3))
        daemon.call("Stop", job=name)
        assert daemon.wait(run)["state"] == "stopped"
        assert processes_of_run(run) == []


def test_restart_is_not_counted_and_gives_a_new_attempt(box, daemon):
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", "hang", replicas=2))
    wait_lines(box.path("marks"), 2)
    assert daemon.call("Restart", job=name)["run"] == run
    lines = wait_lines(box.path("marks"), 4)
    assert sorted(line.split()[2] for line in lines) == ["0", "0", "1", "1"]
    assert daemon.until_attempt(name, 1)["restarts"] == 0


def test_restart_of_an_ended_job_is_a_new_run(box, daemon):
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", name="again"))
    daemon.wait(run)
    new = daemon.call("Restart", job=name)["run"]
    assert new != run and new.startswith("again_")
    assert daemon.wait(new)["state"] == "succeeded"
    assert len(wait_lines(box.path("marks"), 2)) == 2
    assert daemon.status(run)["state"] == "succeeded", "the earlier run is still there"


def test_jobs_side_by_side_do_not_touch_each_other(box, daemon):
    jobs = [daemon.submit(spec(f"touch:{box.path(f'up{i}')}.%r", "hang", replicas=2))
            for i in range(6)]
    for i in range(6):
        for rank in (0, 1):
            wait_file(box.path(f"up{i}.{rank}"))
    agents = {daemon.agent_pid(run) for _, run in jobs}
    assert len(agents) == 6
    daemon.call("Kill", job=jobs[0][1], signal="KILL")
    assert daemon.wait(jobs[0][1])["state"] == "failed"
    daemon.call("Stop", job=jobs[1][1])
    assert daemon.wait(jobs[1][1])["state"] == "stopped"
    for _, run in jobs[2:]:
        job = daemon.status(run)
        assert job["state"] == "running" and job["attempt"] == 0


@pytest.mark.ci
def test_many_jobs_one_after_the_other_leave_no_process(box, daemon):
    runs = [daemon.submit(spec("exit:0"))[1] for _ in range((100 if ALL else 40) // SLOWER)]
    assert {daemon.wait(run)["state"] for run in runs} == {"succeeded"}
    wait_for(lambda: not [p for p in children_of(daemon.pid) if alive(p)],
             what="all agents to have left")


def children_of(pid):
    from harness import children
    return children(pid)


def test_start_by_command_line(box, daemon):
    result = box.ctl("start", "--name=cli", "--nproc-per-node=2", "-r", "3", PUPPET, "print:hello %r",
                     "hang")
    assert result.rc == 0 and "cli" in result.out, result
    assert daemon.wait("cli", until="running")["state"] == "running"
    assert box.ctl("stop", "cli").rc == 0
    assert daemon.wait("cli")["state"] == "stopped"


def test_start_json_says_job_and_run(box, daemon):
    result = box.ctl("start", "--json", "--name=cli", PUPPET)
    assert result.rc == 0 and result.json["job"] == "cli", result
    assert result.json["run"].startswith("cli_")


def test_start_runs_in_the_callers_directory_and_environment_of_choice(box, daemon):
    result = box.ctl("start", "--name=cwd", PUPPET, f"cwd:{box.path('cwd')}")
    assert result.rc == 0, result
    daemon.wait("cwd")
    assert box.path("cwd").read_text() == str(box.path("work"))


def test_start_follow_shows_the_console_and_hands_on_the_status(box, daemon):
    result = box.ctl("start", "--follow", "--name=f", "--nproc-per-node=2", PUPPET, "print:hello %r",
                     "eprint:err %r", f"barrier:{box.path('bar')}", "if-rank:1:exit:9", "hang")
    assert result.rc == 9, result
    assert sorted(line.split("hello")[1] for line in result.out.splitlines() if "hello" in line) == \
        [" 0", " 1"], result


def test_follow_tells_of_a_restart_between_the_lines_of_two_attempts(box, daemon):
    """Lines and events come on two connections, and what lags a tenth of a second behind is not waited
    for: a machine with other things to do may need several tries."""
    lines, restarts = [f"mine {i}" for i in range(3)], [f"attempt {i}: restart" for i in range(2)]
    wanted = [lines[0], restarts[0], lines[1], restarts[1], lines[2]]
    for i in range(30):
        out = subprocess.run([CTL, "--socket", str(daemon.socket), "start", "--follow", f"--name=f{i}",
                              "--max-restarts=2", "--", "/bin/sh", "-c",
                              "echo mine $ELASTICD_ATTEMPT; test $ELASTICD_ATTEMPT = 2"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=2 * PATIENCE).stdout
        told = re.findall(r"mine \d|attempt \d: restart\b", out)
        assert [t for t in told if t in lines] == lines, out
        assert [t for t in told if t in restarts] == restarts, out
        if told == wanted:
            return
    raise AssertionError(f"never in order: {out}")


def test_leaving_start_follow_leaves_the_job(box, daemon):
    follow = box.ctl_start("start", "--follow", "--name=f", PUPPET, "print:hello",
                           f"touch:{box.path('up')}", "hang")
    wait_file(box.path("up"))
    follow.wait_out("hello")
    follow.signal(signal.SIGKILL)
    follow.wait()
    assert daemon.wait("f", until="running")["state"] == "running"


def test_shutdown_waits_for_no_reader_and_no_waiter(box, daemon):
    daemon.submit(spec("hang", name="j"))
    daemon.wait("j", until="running")
    with daemon.connect() as reads, daemon.connect() as waits:
        assert next(reads.stream("Events", job="j", follow=True))
        waits.send("Wait", job="j")
        assert box.ctl("shutdown").rc == 0
        assert daemon.program.wait(timeout=20).rc == 0
    daemon.start()


def test_shutdown_leaves_jobs_and_with_stop_jobs_ends_them(box, daemon):
    name, run = daemon.submit(spec("hang", name="stay"))
    pid = daemon.wait(name, until="running")["workers"][0]["pid"]
    assert box.ctl("shutdown").rc == 0
    assert daemon.program.wait().rc == 0
    assert alive(pid)
    daemon.drop()
    daemon.start()
    assert box.ctl("shutdown", "--stop-jobs").rc == 0
    assert daemon.program.wait().rc == 0
    wait_gone(pid)
    daemon.drop()
    daemon.start()
    assert daemon.status(run)["state"] == "stopped"


@pytest.mark.root
def test_a_job_of_root_can_run_as_another_user(box, daemon):
    box.open_to_all()
    user = other_user()
    job = daemon.run(spec(f"status:{box.path('work/status')}", f"env:{box.path('work/env')}",
                          user=user.pw_name, logs={"dir": "/dev/null"}))
    assert job["state"] == "succeeded", job
    status = box.path("work/status").read_text()
    assert f"Uid:\t{user.pw_uid}\t{user.pw_uid}\t{user.pw_uid}" in status
    assert job["user"] == user.pw_name and job["uid"] == user.pw_uid
    assert parse_environ(box.path("work/env").read_bytes())["USER"] == user.pw_name


def test_an_unknown_user_is_refused(daemon):
    with pytest.raises(VarlinkError) as e:
        daemon.submit(spec(user="no-such-user-here"))
    assert "no-such-user-here" in str(e.value)
