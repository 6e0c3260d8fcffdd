# SPDX-License-Identifier: Apache-2.0
"""Signals and the end of a foreground run: Ctrl-C, TERM, HUP, QUIT, forwarded ones, kill -9."""

import json
import os
import pty
import signal
import termios
import time

import pytest

from harness import (CTL, PATIENCE, PUPPET, SLOWER, Unmet, alive, descendants, stat_of, wait_file, wait_for,
                     wait_gone)
from processes import children
from terminal import Terminal

# Where the flag is not heeded, the run does not end in the time of the test.
ENDLESS = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3600"}


def up(box, *steps, args=(), count=2, **kwargs):
    """A run whose workers are all there."""
    run = box.run_start(f"--nproc-per-node={count}", *args, PUPPET, *steps,
                        f"touch:{box.path('up')}.%r.%a", "hang", **kwargs)
    for rank in range(count):
        wait_file(box.path(f"up.{rank}.0"))
    return run


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT"])
def test_the_same_signal_arrives_at_every_worker(box, name):
    steps = [f"on:{other}:touch:{box.path('got')}.{other}.%r+exit:0"
             for other in ("INT", "TERM", "HUP", "QUIT")]
    run = up(box, *steps)
    run.signal(getattr(signal, f"SIG{name}"))
    result = run.wait()
    got = sorted(p.name for p in box.dir.glob("got.*"))
    assert got == [f"got.{name}.0", f"got.{name}.1"], result
    assert result.rc == 128 + getattr(signal, f"SIG{name}"), result


def test_signals_that_go_on_to_the_very_end_do_not_change_it(box):
    for i in range(10):
        run = box.run_start("--nproc-per-node=1", PUPPET, "on:TERM:exit:0", f"touch:{box.path('up')}.{i}",
                            "hang")
        wait_file(box.path(f"up.{i}"))
        while run.popen.poll() is None:
            run.signal(signal.SIGTERM)
        assert run.wait().rc == 143


def test_interrupt_once_is_graceful_and_waits(box):
    run = up(box, f"on:INT:touch:{box.path('saving')}.%r+wait-file:{box.path('saved')}+exit:0")
    run.signal(signal.SIGINT)
    for rank in (0, 1):
        wait_file(box.path(f"saving.{rank}"))
    assert run.popen.poll() is None, "it must not leave before its workers"
    box.path("saved").touch()
    assert run.wait().rc == 130


def test_interrupt_twice_kills(box):
    run = up(box, f"on:INT:touch:{box.path('saving')}.%r", "ignore:TERM",
             args=["--shutdown-timeout=600"])
    run.signal(signal.SIGINT)
    for rank in (0, 1):
        wait_file(box.path(f"saving.{rank}"))
    assert run.popen.poll() is None
    run.signal(signal.SIGINT)
    result = run.wait(PATIENCE)
    assert result.rc not in (0, 1), result


def test_interrupt_twice_kills_a_group_that_ends_by_a_failure(box):
    run = box.run_start("--nproc-per-node=2", "--shutdown-timeout=600", PUPPET,
                        f"on:TERM:touch:{box.path('told')}", f"barrier:{box.path('bar')}",
                        "if-rank:0:exit:5", "hang")
    wait_file(box.path("told"))
    run.signal(signal.SIGINT)
    run.wait_err("got SIGINT")
    run.signal(signal.SIGINT)
    assert run.wait(PATIENCE).rc == 5, "the verdict had been reached"


def test_control_c_on_a_terminal(box):
    master, slave = pty.openpty()

    def own_terminal():
        os.setsid()
        import fcntl
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    run = box.start(CTL, "run", f"--log-dir={box.path('logs')}", "--nproc-per-node=2", PUPPET,
                    f"on:INT:mark:{box.path('ints')}+exit:0", f"touch:{box.path('up')}.%r", "hang",
                    stdin=slave, stdout=slave, session=False, preexec_fn=own_terminal)
    os.close(slave)
    for rank in (0, 1):
        wait_file(box.path(f"up.{rank}"))
    os.write(master, b"\x03")
    result = run.wait()
    os.close(master)
    assert result.rc == 130, result
    marks = box.path("ints").read_text().splitlines()
    assert sorted(m.split()[1] for m in marks) == ["0", "1"], "one interrupt each, not two"


def test_workers_that_ignore_the_signal_are_killed_at_the_deadline(box):
    run = up(box, "ignore:TERM", args=["--shutdown-timeout=1"], env=ENDLESS)
    begun = time.monotonic()
    run.signal(signal.SIGTERM)
    result = run.wait()
    seconds = time.monotonic() - begun
    assert 0.9 < seconds, f"a deadline of 1 s took {seconds}"
    assert result.rc == 143, result


def test_grace_zero_kills_at_once(box):
    run = up(box, f"on:TERM:wait-file:{box.path('never')}", args=["--shutdown-timeout=0"], env=ENDLESS)
    run.signal(signal.SIGTERM)
    assert run.wait().rc == 143


def test_the_flag_for_the_grace_beats_the_environment(box):
    run = up(box, "ignore:TERM", args=["--shutdown-timeout=0"],
             env={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "500", "PET_SHUTDOWN_TIMEOUT": "400"})
    run.signal(signal.SIGTERM)
    run.wait(PATIENCE)


def test_the_environment_gives_the_grace(box):
    run = up(box, "ignore:TERM", env={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "0"})
    run.signal(signal.SIGTERM)
    run.wait(PATIENCE)


def test_the_grace_holds_on_the_failure_path_too(box):
    result = box.run("--nproc-per-node=2", "--shutdown-timeout=1", PUPPET, "ignore:TERM",
                     f"barrier:{box.path('bar')}", "if-rank:0:exit:5", "hang", env=ENDLESS)
    assert result.rc == 5, result


def test_a_configured_signal_is_forwarded(box):
    run = up(box, f"on:USR1:touch:{box.path('got')}.%r+exit:0",
             args=["--signals-to-handle=SIGTERM,SIGUSR1"])
    run.signal(signal.SIGUSR1)
    result = run.wait()
    assert box.path("got.0").exists() and box.path("got.1").exists(), result


@pytest.mark.parametrize("name", ["USR1", "USR2", "ALRM", "PIPE"])
def test_any_other_signal_orphans_nobody(box, name):
    run = up(box)
    workers = descendants(run.pid)
    assert len(workers) >= 2
    run.signal(getattr(signal, f"SIG{name}"))
    # Ignoring it and ending with all workers are both right; leaving workers is not.
    try:
        run.wait(1)
    except Unmet:
        run.signal(signal.SIGTERM)
        run.wait()
    for pid in workers:
        wait_gone(pid)


def test_kill_nine_of_the_run_takes_agent_and_workers_along(box):
    run = up(box, "setsid-fork:ignore:TERM+hang", "daemon:ignore:TERM+hang", "ignore:TERM", count=3)
    below = descendants(run.pid)
    assert len(below) >= 9, "the agent, three workers and their children"
    run.signal(signal.SIGKILL)
    run.wait()
    for pid in below:
        wait_gone(pid)


def test_kill_nine_of_the_agent_proper_takes_the_workers_along(box):
    run = up(box, "setsid-fork:ignore:TERM+hang", "daemon:hang", "ignore:TERM")
    below = descendants(run.pid)
    proper = [p for p in below if alive(p)][0]
    os.kill(proper, signal.SIGKILL)
    result = run.wait(PATIENCE)
    assert result.rc in (125, 137), result
    for pid in below:
        wait_gone(pid)


def test_a_signal_before_the_first_worker_leaves_nothing(box):
    for delay in range(6):
        run = box.run_start("--nproc-per-node=8", PUPPET, "hang")
        if delay:
            wait_for(lambda: len(descendants(run.pid)) >= delay or run.popen.poll() is not None,
                     what="some children")
        run.signal(signal.SIGTERM)
        result = run.wait()
        assert result.rc in (143, -signal.SIGTERM), result
        # What went down with it may still be on its way.
        while left := [p for p in descendants(os.getpid()) if alive(p)]:
            for pid in left:
                wait_gone(pid)


def test_a_stopped_worker_still_ends(box):
    run = up(box)
    for pid in descendants(run.pid):
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "puppet":
            os.kill(pid, signal.SIGSTOP)
    run.signal(signal.SIGTERM)
    assert run.wait().rc == 143


def states(pids):
    return {stat_of(pid)[0] for pid in pids}


def will_stop(pid):
    """Whether it has SIGSTOP or stands still: it makes no further step of its program."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        pending = [int(line.split()[1], 16) for line in f if line.startswith(("SigPnd:", "ShdPnd:"))]
    # In this order: a process that takes the signal in between is stopped by then.
    return any(p >> signal.SIGSTOP - 1 & 1 for p in pending) or states([pid]) == {"T"}


def expect_stop(t, pids):
    """The shell is back once all have the signal; one that waits for a processor stops a little later."""
    t.expect("Stopped")
    assert [pid for pid in pids if not will_stop(pid)] == []
    wait_for(lambda: states(pids) == {"T"}, what="the job to stand still")


def in_a_shell(box, *args):
    """A run in a shell with job control: the terminal, the guard and what is below the agent."""
    t = Terminal(box, "bash", "--norc", "--noprofile", "-i", env={"PS1": "$ "})
    t.type(" ".join([CTL, "run", f"--log-dir={box.path('logs')}", *args]) + "\n")
    for rank in (0, 1):
        wait_file(box.path(f"up.{rank}"))
    guard, = children(t.program.pid)
    agent, = children(guard)
    return t, guard, descendants(agent)


def test_a_shell_stops_and_continues_a_run(box):
    go = box.path("go")
    t, guard, workers = in_a_shell(
        box, "--nproc-per-node=2", PUPPET, f"fork:touch:{box.path('child')}.%r+hang",
        f"touch:{box.path('up')}.%r", f"wait-file:{go}", "print:we''nt-on", "exit:3")
    for rank in (0, 1):
        wait_file(box.path(f"child.{rank}"))
    for how, running in (("fg", True), ("bg", False)):
        workers = descendants(children(guard)[0])
        assert len(workers) == 4 and "T" not in states(workers)
        t.type("\x1a")
        expect_stop(t, [guard, *workers])
        t.type(f"{how}\n")
        wait_for(lambda: "T" not in states([guard, *workers]), what="it to go on")
        wait_for(lambda: (t.foreground() == guard) == running, what="the terminal to be with whom it belongs")
        if not running:
            t.type("fg\n")
            wait_for(lambda: t.foreground() == guard, what="it to come back")
    go.touch()
    t.expect("went-on")
    wait_for(lambda: t.foreground() == t.program.pid, what="the shell to have the terminal")
    t.type("echo left $?\n")
    t.expect("left 3")
    t.type("exit\n")
    t.wait()
    text = (box.run_dir() / "events.jsonl").read_text()
    events = [json.loads(line)["event"] for line in text.splitlines()]
    assert events.count("suspended") == events.count("resumed") == 2


@pytest.mark.parametrize("end", ["kill", "hangup", "guard"])
def test_a_stopped_run_can_be_ended(box, end):
    t, guard, workers = in_a_shell(
        box, "--nproc-per-node=2", PUPPET, f"touch:{box.path('up')}.%r", "hang")
    agent = stat_of(workers[0])[1]
    t.type("\x1a")
    t.expect("Stopped")
    if end == "kill":
        t.type("kill %1\n")
    elif end == "hangup":
        t.close()
    else:
        os.kill(guard, signal.SIGKILL)
    for pid in (guard, agent, *workers):
        wait_gone(pid)


def test_a_run_without_a_shell_that_could_continue_it_does_not_stop(box):
    run = box.run_start(PUPPET, f"touch:{box.path('up')}", f"wait-file:{box.path('go')}", "exit:3")
    wait_file(box.path("up"))
    run.signal(signal.SIGTSTP)
    box.path("go").touch()
    assert run.wait().rc == 3


def test_limits_stand_still_with_a_run(box):
    seconds = 4 * SLOWER
    path = box.path("job.yaml")
    path.write_text(f"""
name: still
max_run_time: {seconds}s
logs: {{redirects: 3}}
heartbeat: {{log_timeout: {seconds}s}}
roles: [{{replicas: 2, command: [{PUPPET}, "print:one", "touch:{box.path('up')}.%r",
          "wait-file:{box.path('go')}", "print:two", "exit:3"]}}]
""")
    t, guard, workers = in_a_shell(box, "--spec", str(path))
    t.type("\x1a")
    expect_stop(t, [guard, *workers])
    # The passing of time is what this is about.
    time.sleep(seconds + 1)
    box.path("go").touch()  # let the workers end at once: their limits run again after fg
    t.type("fg\n")
    wait_for(lambda: t.foreground() == t.program.pid, what="the shell to have the terminal")
    t.type("echo left $?\n")
    t.expect("left 3")
    t.type("exit\n")
    t.wait()


def test_the_grandchildren_of_a_worker_get_the_signal_too(box):
    """The default is the task's process group: wrappers and their children."""
    run = up(box, f"fork:on:TERM:touch:{box.path('got')}.%r+touch:{box.path('child')}.%r+hang",
             f"on:TERM:wait-file:{box.path('got')}.%r+exit:0", args=["--shutdown-timeout=3600"])
    for rank in (0, 1):
        wait_file(box.path(f"child.{rank}"))
    run.signal(signal.SIGTERM)
    assert run.wait().rc == 143, "a child did not get the signal"
    assert box.path("got.0").exists() and box.path("got.1").exists()
