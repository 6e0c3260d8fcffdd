# SPDX-License-Identifier: Apache-2.0
"""attach: one worker in the caller's terminal, the others under the agent."""

import os
import signal

import pytest

from harness import (CTL, PUPPET, VarlinkError, alive, as_user, cmdline, environ_of, other_user,
                     parse_environ, spec, stat_of, wait_file, wait_for, wait_gone)
from terminal import Terminal


def task(job, rank):
    return next(t for t in job["workers"] if t["rank"] == rank)


def start(box, daemon, *steps, stop=True, replicas=2, **top):
    """A job that runs, the first worker of which was stopped by a person."""
    top.setdefault("stop", {"timeout": "10m"})  # only what is to be killed is
    name, run = daemon.submit(spec(*steps, f"touch:{box.path('up')}.%a.%r", "hang",
                                   replicas=replicas, name="j", **top))
    for rank in range(replicas):
        wait_file(box.path(f"up.0.{rank}"))
    daemon.wait(name, until="running")
    if stop:
        assert daemon.call("StopWorkers", job=name, workers="worker:0")["stopped"] == 1
    return run


def attach(box, *program, args=()):
    return Terminal(box, CTL, "attach", *args, "j/worker:0", "--", *program)


def attached(daemon):
    """Waits until it runs; the task."""
    return task(daemon.watch("j", lambda job, _: task(job, 0).get("attached")
                             and task(job, 0)["state"] == "running"), 0)


def pending(daemon, index=0):
    """Somebody who has asked for a task and has not told yet that its program runs."""
    caller = daemon.connect()
    caller.send("Attach", more=True, job="j", role="worker", index=index)
    assert caller.receive()["parameters"]["order"]["order"] == "start"
    return caller


def test_the_program_has_the_terminal_and_the_others_go_on(box, daemon):
    start(box, daemon)
    other = task(daemon.status("j", live=True), 1)["pid"]
    t = attach(box, "sh", "-c", 'test -t 0 && test -t 1 && echo "I am $RANK of $WORLD_SIZE"; '
               'read line; echo "read <$line>"; exit 0')
    t.expect("I am 0 of 2")
    mine = attached(daemon)
    assert cmdline(mine["pid"]).startswith("sh -c") and t.foreground() == mine["pid"]
    t.type("some words\n")
    t.expect("read <some words>")
    assert t.wait().rc == 0
    job = daemon.status("j", live=True)
    assert (job["state"], job["attempt"]) == ("running", 0)
    assert (task(job, 0)["state"], task(job, 0)["exit"]["code"]) == ("succeeded", 0)
    assert not task(job, 0).get("attached")
    assert task(job, 1)["pid"] == other and alive(other)


def test_its_exit_code_is_the_workers_and_the_programs(box, daemon):
    start(box, daemon)
    t = attach(box, PUPPET, "print:here", "exit:7")
    t.expect("here")
    assert t.wait().rc == 7
    job = daemon.wait("j")
    assert (job["state"], job["verdict"]["exit_status"]) == ("failed", 7)
    assert job["verdict"]["root_cause"]["rank"] == 0


def test_the_environment_is_the_workers(box, daemon):
    env = str(box.path("env"))
    name, run = daemon.submit(spec(f"env:{env}.%r", "hang", replicas=2, name="j",
                                   role={"env": {"OWN": "yes"}, "cwd": str(box.path("home"))}))
    daemon.wait(name, until="running")
    for rank in (0, 1):
        wait_for(lambda r=rank: os.path.exists(f"{env}.{r}") and b"OWN=" in open(f"{env}.{r}", "rb").read(),
                 box.dir, what="its environment")
    want = parse_environ(open(f"{env}.0", "rb").read())
    t = attach(box, PUPPET, f"env:{env}.there", f"cwd:{env}.cwd", args=["--replace"])
    assert t.wait().rc == 0, t.seen
    got = parse_environ(open(f"{env}.there", "rb").read())
    assert got["ELASTICD_START"] > want["ELASTICD_START"]
    for changed in ("ELASTICD_TOKEN", "ELASTICD_START", "TERM"):
        assert (changed in got), changed
        got.pop(changed), want.pop(changed, None)
    differ = {k: (want.get(k), got.get(k)) for k in {*want, *got} if want.get(k) != got.get(k)}
    assert not differ
    assert open(f"{env}.cwd").read().strip() == str(box.path("home"))


def test_the_roles_limits_and_the_jobs_umask_hold(box, daemon):
    start(box, daemon, umask="0027", role={"limits": {"nofile": "100:200", "core": 0}})
    t = attach(box, PUPPET, f"limits:{box.path('limits')}", f"status:{box.path('status')}")
    assert t.wait().rc == 0, t.seen
    limits = box.path("limits").read_text()
    assert any(line.split()[:5] == ["Max", "open", "files", "100", "200"]
               for line in limits.splitlines()), limits
    assert "Umask:\t0027" in box.path("status").read_text()


def test_a_directory_that_is_gone_is_named(box, daemon):
    there = box.path("there")
    there.mkdir()
    start(box, daemon, role={"cwd": str(there)})
    there.rmdir()
    t = attach(box, PUPPET, "print:never")
    t.expect(f"the worker's directory {there} cannot be entered")
    assert t.wait().rc == 127


def test_without_a_program_it_is_the_roles(box, daemon):
    start(box, daemon)
    t = Terminal(box, CTL, "attach", "j/0")
    pid = attached(daemon)["pid"]
    wait_for(lambda: cmdline(pid).startswith(PUPPET), what="the role's command")
    os.kill(pid, signal.SIGKILL)
    assert t.wait().rc == 137


def test_the_keyboard_interrupts_the_program_alone(box, daemon):
    start(box, daemon)
    t = attach(box, PUPPET, "on:INT:print:caught", "on:QUIT:exit:4", "print:ready", "hang")
    t.expect("ready")
    t.type("\x03")
    t.expect("caught")
    attached(daemon)
    t.type("\x1c")
    assert t.wait().rc == 4


def test_a_death_by_signal_is_a_failure(box, daemon):
    start(box, daemon)
    t = attach(box, PUPPET, "print:ready", "hang")
    t.expect("ready")
    t.type("\x03")
    assert t.wait().rc == 128 + signal.SIGINT
    job = daemon.wait("j")
    assert job["state"] == "failed" and task(job, 0)["exit"]["signal"] == signal.SIGINT


def test_a_signal_to_the_client_goes_to_the_program(box, daemon):
    start(box, daemon)
    client = box.ctl_start("attach", "j/worker:0", "--", PUPPET, "on:TERM:exit:9", "print:ready", "hang")
    client.wait_out("ready")
    client.signal(signal.SIGTERM)
    assert client.wait().rc == 9


def test_it_says_before_it_begins_that_its_exit_counts(box, daemon):
    run = start(box, daemon)
    result = box.ctl("attach", "j/worker:0", "--", PUPPET, "eprint:begun", "exit:9")
    first, second = result.err.splitlines()[:2]
    assert first == ("elasticctl: worker:0: the exit of the program counts as the worker's; "
                     "--detached-exit=ignore leaves it out"), result
    assert second == "begun" and result.rc == 9, result
    verdict = daemon.wait(run)["verdict"]
    assert (verdict["result"], verdict["exit_status"]) == ("failed", 9), verdict


@pytest.mark.parametrize("end", ["exit:9", "exit:0", "signal:KILL"])
@pytest.mark.parametrize("stop", [True, False])
def test_an_exit_that_is_ignored_leaves_the_worker_stopped(box, daemon, end, stop):
    run = start(box, daemon, stop=stop)
    args = [] if stop else ["--replace"]
    result = box.ctl("attach", "--detached-exit=ignore", *args, "j/worker:0", "--", PUPPET, end)
    assert "the worker is stopped, whatever its exit" in result.err.splitlines()[0], result
    assert result.rc == {"exit:9": 9, "exit:0": 0, "signal:KILL": 137}[end], result
    job = daemon.status("j")
    assert job["state"] == "running" and not job.get("verdict"), job
    mine = task(job, 0)
    assert mine["state"] == "stopped" and mine["on_purpose"] and not mine.get("attached"), mine
    assert box.ctl("restart", "j/worker:0").rc == 0
    daemon.watch("j", lambda job, _: task(job, 0)["state"] == "running")
    assert daemon.status("j")["run"] == run


def test_a_client_that_is_killed_leaves_the_worker_stopped_where_its_exit_is_ignored(box, daemon):
    start(box, daemon)
    client = box.ctl_start("attach", "--detached-exit=ignore", "j/worker:0", "--", PUPPET, "hang")
    attached(daemon)
    client.signal(signal.SIGKILL)
    daemon.watch("j", lambda job, _: task(job, 0)["state"] == "stopped")
    assert daemon.status("j")["state"] == "running"


def test_a_word_that_says_nothing_about_the_exit_is_refused(box, daemon):
    result = box.ctl("attach", "--detached-exit=maybe", "j/worker:0", "--", "true")
    assert result.rc == 125 and "--detached-exit: expected count or ignore, got \"maybe\"" in result.err


def test_a_shell_stops_and_continues_it(box, daemon):
    start(box, daemon)
    t = Terminal(box, "bash", "--norc", "--noprofile", "-i", env={"PS1": "$ "})
    t.type(f"{CTL} attach j/worker:0 -- {PUPPET} print:re''ady hang; echo rc=$?\n")
    t.expect("ready")
    pid = attached(daemon)["pid"]
    for _ in range(2):
        wait_for(lambda: t.foreground() == pid, what="the terminal to be its own")
        t.type("\x1a")
        t.expect("Stopped")
        wait_for(lambda: stat_of(pid)[0] == "T" and t.foreground() == t.program.pid,
                 what="the stop")
        assert daemon.status("j", live=True)["state"] == "running"
        t.type("fg\n")
        wait_for(lambda: stat_of(pid)[0] == "S", what="it to go on")
    wait_for(lambda: t.foreground() == pid, what="the terminal to be its own")
    t.type("\x1a")
    t.expect("Stopped")
    wait_for(lambda: t.foreground() == t.program.pid, what="the shell to have the terminal")
    t.type("bg\n")
    wait_for(lambda: stat_of(pid)[0] == "S", what="it to go on behind the shell")
    t.type("fg\n")
    wait_for(lambda: t.foreground() != t.program.pid, what="it to come back")
    t.type("\x03")
    wait_for(lambda: t.foreground() == t.program.pid, what="the shell to have the terminal")
    t.type("echo left $?\n")
    t.expect("left 130")
    t.type("exit\n")
    t.wait()


def test_an_interactive_shell_is_a_worker_too(box, daemon):
    start(box, daemon)
    t = attach(box, "bash", "--norc", "--noprofile", "-i")
    t.type("echo is $((6 * 7)) rank=$RANK\n")
    t.expect("is 42 rank=0")
    t.type("sleep 1000\n")
    pid = attached(daemon)["pid"]
    wait_for(lambda: cmdline(t.foreground()).startswith("sleep"), what="a job in the terminal")
    t.type("\x1a")
    t.expect("Stopped")
    t.type("fg\n")
    wait_for(lambda: cmdline(t.foreground()).startswith("sleep"), what="the job to go on")
    t.type("\x03")
    wait_for(lambda: t.foreground() == pid, what="the shell to have the terminal")
    t.type("exit 0\n")
    assert t.wait().rc == 0
    assert daemon.status("j", live=True)["state"] == "running"


def test_a_killed_client_is_a_lost_worker(box, daemon):
    start(box, daemon)
    t = attach(box, PUPPET, f"setsid-fork:touch:{box.path('child')}+hang", "print:ready", "hang")
    t.expect("ready")
    wait_file(box.path("child"))
    pid = attached(daemon)["pid"]
    os.kill(t.program.pid, signal.SIGKILL)
    job = daemon.wait("j")
    assert (job["state"], job["verdict"]["exit_status"]) == ("failed", 137)
    assert task(job, 0)["exit"]["signal"] == signal.SIGKILL
    wait_gone(pid)


def test_leftover_processes_of_a_worker_are_gone(box, daemon):
    start(box, daemon)
    t = attach(box, PUPPET, f"setsid-fork:mark:{box.path('left')}+touch:{box.path('marked')}+hang",
               f"wait-file:{box.path('marked')}", "exit:0")
    assert t.wait().rc == 0
    left = int(box.path("left").read_text().split()[0])
    wait_gone(left)
    assert daemon.status("j", live=True)["state"] == "running"


def test_it_stops_with_the_group(box, daemon):
    start(box, daemon)
    t = attach(box, PUPPET, "on:TERM:print:saving+exit:0", "print:ready", "hang")
    t.expect("ready")
    daemon.call("Stop", job="j")
    t.expect("stopped on request")
    assert t.wait().rc == 0
    assert b"saving" in t.seen
    assert daemon.wait("j")["state"] == "stopped"


def test_a_worker_that_does_not_stop_is_killed(box, daemon):
    start(box, daemon)
    t = attach(box, PUPPET, "ignore:TERM", f"fork:mark:{box.path('child')}+touch:{box.path('marked')}+hang",
               f"wait-file:{box.path('marked')}", "print:ready", "hang")
    t.expect("ready")
    daemon.call("Stop", job="j", timeout_ms=100)
    assert t.wait().rc == 137
    assert daemon.wait("j")["state"] == "stopped"
    wait_gone(int(box.path("child").read_text().split()[0]))


def test_after_a_restart_of_the_group_it_runs_as_specified(box, daemon):
    start(box, daemon)
    t = attach(box, PUPPET, "print:ready", "hang")
    t.expect("ready")
    daemon.call("Restart", job="j")
    assert t.wait().rc == 128 + signal.SIGTERM
    job = daemon.watch("j", lambda job, _: job["attempt"] == 1 and job["state"] == "running")
    assert task(job, 1)["state"] == "running"
    if task(job, 0)["state"] != "running":  # stopped on purpose before: it stays so
        assert box.ctl("add", "j/worker:0").rc == 0
    wait_file(box.path("up.1.0"))
    assert not task(daemon.status("j", live=True), 0).get("attached")


def test_stopping_the_task_ends_it_without_blame(box, daemon):
    start(box, daemon)
    t = attach(box, PUPPET, "print:ready", "hang")
    t.expect("ready")
    result = box.ctl("stop", "j/worker:0")
    assert result.rc == 0, result
    assert t.wait().rc == 128 + signal.SIGTERM
    job = daemon.status("j", live=True)
    assert job["state"] == "running" and task(job, 0)["state"] == "stopped"


def test_a_worker_that_runs_is_not_taken_away(box, daemon):
    start(box, daemon, stop=False)
    pid = task(daemon.status("j", live=True), 0)["pid"]
    result = box.ctl("attach", "j/worker:0", "--", "true")
    assert result.rc == 125 and "running" in result.err, result
    assert "elasticctl stop j/worker:0" in result.err, result
    assert alive(pid)
    t = attach(box, PUPPET, "print:ready", "hang", args=["--replace"])
    t.expect("ready")
    wait_gone(pid)
    again = box.ctl("attach", "j/worker:0", "--", "true")
    assert again.rc == 125 and "running" in again.err, again
    t.type("\x03")
    t.wait()


def succeeded_but_the_first(box, daemon, *steps):
    """A job whose only worker that has not ended is the first one."""
    start(box, daemon, *steps, f"if-rank:1:{{touch:{box.path('up')}.%a.1+exit:0}}", stop=False)
    daemon.watch("j", lambda job, _: task(job, 1)["state"] == "succeeded")


def replace(caller):
    caller.send("Attach", more=True, job="j", role="worker", index=0, replace=True)


def test_the_last_that_runs_is_replaced_before_the_job_ends(box, daemon):
    succeeded_but_the_first(box, daemon)
    t = attach(box, PUPPET, "print:ready", f"wait-file:{box.path('go')}", "exit:0", args=["--replace"])
    t.expect("ready")
    assert attached(daemon) and daemon.status("j", live=True)["state"] == "running"
    box.path("go").touch()
    assert t.wait().rc == 0
    verdict = daemon.wait("j")["verdict"]
    assert (verdict["result"], verdict["message"]) == ("succeeded", "all workers succeeded")


def test_a_caller_that_leaves_while_replacing_the_last_worker_stops_it(box, daemon):
    # Before it has ended,
    succeeded_but_the_first(box, daemon, f"on:TERM:touch:{box.path('term')}")
    with daemon.connect() as caller:
        replace(caller)
        wait_file(box.path("term"))
    daemon.call("Kill", job="j", signal="KILL", ranks="0")
    job = daemon.wait("j")
    want = "all workers succeeded, but for worker:0, which was stopped on request"
    assert (job["verdict"]["result"], job["verdict"]["message"]) == ("succeeded", want)
    assert task(job, 0)["state"] == "stopped" and task(job, 0)["on_purpose"]


def test_a_caller_that_leaves_after_the_last_worker_ended_stops_it(box, daemon):
    succeeded_but_the_first(box, daemon)
    with daemon.connect() as caller:
        replace(caller)
        assert caller.receive()["parameters"]["order"]["order"] == "start"
        assert daemon.status("j", live=True)["state"] == "running"
    assert daemon.wait("j")["verdict"]["result"] == "succeeded"


def test_the_others_may_end_while_one_is_replaced(box, daemon):
    start(box, daemon, f"on:TERM:touch:{box.path('term')}",
          f"if-rank:1:{{touch:{box.path('up')}.%a.1+wait-file:{box.path('go')}+exit:0}}", stop=False)
    with daemon.connect() as caller:
        replace(caller)
        wait_file(box.path("term"))
        with daemon.connect() as second:
            replace(second)
            assert second.receive()["error"].endswith("FailedPrecondition")
        box.path("go").touch()
        daemon.watch("j", lambda job, _: task(job, 1)["state"] == "succeeded")
        daemon.call("Kill", job="j", signal="KILL", ranks="0")
        assert caller.receive()["parameters"]["order"]["order"] == "start"
        assert daemon.status("j", live=True)["state"] == "running"
        daemon.call("Stop", job="j")
        assert caller.receive()["parameters"]["order"]["order"] == "end"
    assert daemon.wait("j")["verdict"]["result"] == "stopped"


@pytest.mark.parametrize("how", ["stop", "fail", "restart"])
def test_a_group_that_ends_meanwhile_refuses_who_wants_to_replace(box, daemon, how):
    start(box, daemon, f"if-rank:0:on:TERM:touch:{box.path('term')}",
          f"if-rank:1:{{touch:{box.path('up')}.%a.1+wait-file:{box.path('go')}+exit:3}}", stop=False)
    with daemon.connect() as caller:
        replace(caller)
        wait_file(box.path("term"))
        if how == "fail":
            box.path("go").touch()
            daemon.watch("j", lambda job, _: task(job, 1)["state"] == "failed")
        else:
            daemon.call(how.title(), job="j")
        os.kill(task(daemon.status("j", live=True), 0)["pid"], signal.SIGKILL)
        assert caller.receive()["error"].endswith("FailedPrecondition")
    if how == "restart":
        wait_file(box.path("up.1.0"))  # its stop was not for longer than that
    else:
        assert daemon.wait("j")["state"] == {"stop": "stopped", "fail": "failed"}[how]


def test_workers_that_cannot_be_attached_are_refused(box, daemon):
    start(box, daemon)
    for target, text in (("j/worker:5", "worker:5"), ("j/nobody:0", "nobody:0"), ("j/7", "no worker 7"),
                         ("none/worker:0", "none"), ("j", "JOB/ROLE:INDEX"), ("j/worker", "one worker"),
                         ("j/worker:0-1", "one worker")):
        result = box.ctl("attach", target, "--", "true")
        assert result.rc == 125 and text in result.err, result
    missing = attach(box, "no-such-program-at-all")
    assert missing.wait().rc == 127 and b"no-such-program-at-all" in missing.seen
    assert daemon.wait("j")["verdict"]["exit_status"] == 127
    ended = box.ctl("attach", "j/worker:0", "--", "true")
    assert ended.rc == 125 and "not active" in ended.err, ended


def test_only_a_child_of_the_caller_is_taken(box, daemon):
    start(box, daemon)
    with daemon.connect() as v:
        orders = v.stream("Attach", job="j", role="worker", index=0)
        order = next(orders)["order"]
        assert order["order"] == "start" and f"ELASTICD_RUN={daemon.status('j')['run']}" in order["env"]
        for pid in (1, os.getpid(), daemon.status("j", live=True)["agent_pid"]):
            with pytest.raises(VarlinkError) as e:
                daemon.call("AttachStarted", job="j", worker="worker:0", pid=pid)
            assert e.value.name == "Internal" and "not a child" in e.value.parameters["message"]
        own = box.start(PUPPET, "hang")
        daemon.call("AttachStarted", job="j", worker="worker:0", pid=own.pid)
        with pytest.raises(VarlinkError) as e:
            daemon.call("AttachEnded", job="j", worker="worker:0", code=0)
        assert "has not ended" in e.value.parameters["message"]
        with pytest.raises(VarlinkError) as e:
            daemon.call("AttachEnded", job="j", worker="worker:1", code=0)
        assert e.value.name == "NotFound"
        own.signal(signal.SIGTERM)
        own.wait()
        daemon.call("AttachEnded", job="j", worker="worker:0", signal=15)
        assert next(orders)["order"]["order"] == "end"


def test_a_caller_that_leaves_before_the_start_leaves_it_stopped(box, daemon):
    start(box, daemon)
    with daemon.connect() as v:
        v.send("Attach", more=True, job="j", role="worker", index=0)
        assert v.reply()["order"]["order"] == "start"
    job = daemon.watch("j", lambda job, _: task(job, 0)["state"] == "stopped")
    assert job["state"] == "running" and task(job, 0).get("on_purpose")
    t = attach(box, PUPPET, "print:here")
    assert t.wait().rc == 0


@pytest.mark.root
def test_no_user_runs_another_users_worker(box, daemon):
    box.open_to_all()
    box.dir.chmod(0o777)
    start(box, daemon, user=other_user().pw_name)
    result = box.ctl("attach", "j/worker:0", "--", "true")
    assert result.rc == 125 and "call as that user" in result.err, result
    assert daemon.status("j", live=True)["state"] == "running"


@pytest.mark.parametrize("again", [False, True])
def test_a_stop_before_its_program_was_made_is_answered(box, daemon, again):
    start(box, daemon, replicas=2)
    agent = daemon.agent_pid("j")
    with pending(daemon) as caller:
        # A connection of its own: the stop ends the call, and is itself answered once.
        assert daemon.call("StopWorkers", job="j", workers="worker:0", again=again)["stopped"] == 1
        last = caller.receive()["parameters"]["order"]
        assert (last["order"], last["text"]) == ("end", "stopped on request")
    want = "running" if again else "stopped"
    job = daemon.watch("j", lambda job, _: task(job, 0)["state"] == want)
    assert (job["state"], job["attempt"], daemon.agent_pid("j")) == ("running", 0, agent)


def test_a_group_that_starts_again_starts_what_was_about_to_be_attached(box, daemon):
    start(box, daemon, stop=False, replicas=3, restart={"max": 2})
    assert daemon.call("StopWorkers", job="j", workers="worker:0-1")["stopped"] == 2
    with pending(daemon, 0) as one, pending(daemon, 1) as two:
        os.kill(task(daemon.status("j"), 2)["pid"], signal.SIGKILL)
        for caller in (one, two):
            assert caller.receive()["parameters"]["order"]["order"] == "end"
        for rank in range(3):
            wait_file(box.path(f"up.1.{rank}"))
    daemon.watch("j", lambda job, _: job["attempt"] == 1 and job["state"] == "running"
                 and [t["state"] for t in job["workers"]] == ["running"] * 3)
