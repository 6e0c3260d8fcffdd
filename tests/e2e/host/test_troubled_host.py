# SPDX-License-Identifier: Apache-2.0
"""A host in trouble: processes stopped or traced, clocks that jump, a disk that refuses, a full table."""

import json
import os
import re
import resource
import select
import signal
import subprocess
import sys

import pytest

from fake_agent import FakeAgent
from harness import (PUPPET, Unmet, Varlink, alive, have, is_root, processes_of_run, spec, wait_file,
                     wait_for, wait_gone, wait_lines, wait_text)
from python_package import ENV, needs_library


def parent(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def stopped(box, pid):
    os.kill(pid, signal.SIGSTOP)
    box.cleanups.append(lambda: cont(pid))


def cont(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def test_a_stopped_guard_keeps_no_job_from_ending(box, daemon):
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", "hang", replicas=2))
    daemon.wait(name, until="running")
    guard = parent(daemon.agent_pid(name))
    stopped(box, guard)
    assert box.ctl("stop", name).rc == 0
    job = daemon.wait(run)
    assert job["state"] == "stopped"
    # And its name is free again.
    _, later = daemon.submit(spec("exit:0", name=name))
    assert daemon.wait(later)["state"] == "succeeded"
    assert not alive(guard)


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_stopped_guard_whose_agent_died_is_killed(box, daemon, restarts):
    """With what left its session, and the restart policy goes on as for any lost agent."""
    name, run = daemon.submit(spec("setsid-fork:ignore:TERM+hang", f"mark:{box.path('marks')}", "hang",
                                   replicas=2, restart={"max": restarts}))
    wait_lines(box.path("marks"), 2)
    agent = daemon.agent_pid(name)
    guard = parent(agent)
    old = [guard, *processes_of_run(run)]
    assert len(old) == 5
    stopped(box, guard)
    os.kill(agent, signal.SIGKILL)
    for pid in old:
        wait_gone(pid)
    text = f"its guard (pid {guard}) had not ended 5 s after the agent, and elasticd killed it"
    if restarts:
        job = daemon.until_attempt(run, 1)
        assert job["restarts"] == 1
        daemon.call("Stop", job=run, timeout_ms=0)
    else:
        verdict = daemon.wait(run)["verdict"]
        assert (verdict["result"], verdict["exit_status"]) == ("agent_lost", 125), verdict
        assert text in verdict["message"], verdict
        assert text in box.ctl("status", run).out
    assert text in daemon.wait_event(run, "agent-lost")["text"]
    assert text in box.ctl("why", run).out
    assert text in daemon.program.err


def test_a_guard_whose_agent_lives_is_left_alone(box, daemon):
    """Also where elasticd cannot reach the agent: another's guard tells here that as much time has passed."""
    name, run = daemon.submit(spec("hang"))
    job = daemon.wait(name, until="running")
    daemon.kill()
    daemon.agent_sock(name).unlink()
    daemon.start()
    assert "agent-lost" in daemon.status(run)["reason"]
    agent = daemon.agent_pid(daemon.submit(spec("hang"))[0])
    guard = parent(agent)
    stopped(box, guard)
    os.kill(agent, signal.SIGKILL)
    wait_gone(guard)
    assert [alive(pid) for pid in (parent(job["agent_pid"]), job["workers"][0]["pid"])] == [True, True]
    daemon.call("Stop", job=run)
    assert daemon.wait(run)["verdict"]["result"] == "agent_lost"


def test_a_stopped_run_holds_up_nothing(box):
    """The process of elasticctl run is the guard: while it is stopped workers write, fail and restart."""
    run = box.run_start("--max-restarts=1", PUPPET, f"mark:{box.path('marks')}", "if-attempt:0:exit:3",
                        f"wait-file:{box.path('end')}")
    wait_lines(box.path("marks"), 1)
    stopped(box, run.pid)
    wait_lines(box.path("marks"), 2)
    box.path("end").touch()
    wait_file(box.run_dir() / "verdict.json")
    cont(run.pid)
    assert run.wait().rc == 0


def test_a_stopped_run_whose_agent_dies_ends_its_workers(box):
    run = box.run_start("--nproc-per-node=2", PUPPET, f"mark:{box.path('marks')}", "hang")
    pids = [int(line.split()[0]) for line in wait_lines(box.path("marks"), 2)]
    agent = parent(pids[0])
    assert parent(agent) == run.pid
    stopped(box, run.pid)
    os.kill(agent, signal.SIGKILL)
    for pid in pids:
        wait_gone(pid)
    cont(run.pid)
    assert run.wait().rc == 125


def test_a_traced_agent_goes_on(box, daemon):
    if not have("strace"):
        pytest.skip("no strace")
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", f"if-attempt:0:wait-file:{box.path('go')}"
                                   "+exit:1", f"wait-file:{box.path('end')}", restart={"max": 1}))
    wait_lines(box.path("marks"), 1)
    tracer = box.start("strace", "-f", "-o", box.path("trace"), "-p", daemon.agent_pid(name))
    wait_file(box.path("trace"))
    box.path("go").touch()
    wait_lines(box.path("marks"), 2)
    box.path("end").touch()
    assert daemon.wait(run)["state"] == "succeeded"
    tracer.wait()


def test_a_state_directory_that_becomes_read_only(box, daemon):
    """Jobs go on; elasticd does not start there, says why, and knows the end when it can write again."""
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", f"if-attempt:0:wait-file:{box.path('go')}"
                                   "+exit:1", f"wait-file:{box.path('end')}", restart={"max": 1}))
    wait_lines(box.path("marks"), 1)
    mount = read_only(box, daemon.state)
    box.path("go").touch()
    wait_lines(box.path("marks"), 2)
    assert daemon.until_attempt(name, 1)["restarts"] == 1
    box.path("end").touch()
    assert daemon.wait(run)["state"] == "succeeded"
    refused = box.ctl("rm", name)
    assert refused.rc == 1 and "Read-only file system" in refused.err, refused
    daemon.kill()
    with pytest.raises(Unmet, match="Read-only file system"):
        daemon.start()
    mount("rw")
    daemon.start()
    assert daemon.status(run)["state"] == "succeeded"


def read_only(box, path):
    """Makes a directory read-only; returns a function that mounts it with other options."""
    if not is_root():
        pytest.skip("only root can mount a directory read-only")

    def mount(how, where=path):
        subprocess.run(["mount", "-o", f"remount,bind,{how}", str(where)], check=True)

    def bind(what, where):
        done = subprocess.run(["mount", "--bind", str(what), str(where)], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            pytest.skip(f"cannot mount: {done.stderr.strip()}")
        box.cleanups.append(lambda: subprocess.run(["umount", "-l", str(where)], check=False))

    # Read-only before anybody sees it: the kernel refuses that while a file is being written there.
    aside = box.path("aside")
    aside.mkdir()
    bind(path, aside)
    mount("ro", aside)
    bind(aside, path)
    return mount


HOUR, YEAR = 3600, 365 * 86400


def write_job(box, *steps, **top):
    box.path("job.json").write_text(json.dumps(spec(*steps, **top)))
    return f"--spec={box.path('job.json')}"


@pytest.mark.parametrize("wall", [HOUR, -HOUR, YEAR, -YEAR])
def test_a_wall_clock_that_jumps_while_a_job_runs(box, set_clocks, wall):
    """No limit ends, no restart is forgotten, and the failure before the jump is the root cause."""
    job = write_job(box, f"mark:{box.path('marks')}", "print:one",
                    f"if-attempt:0:wait-file:{box.path('go')}+exit:3", f"wait-file:{box.path('end')}",
                    "print:two", "exit:4", max_run_time="30m", logs={"tee": "3"},
                    restart={"max": 1, "window": "1m", "window_max": 1, "backoff": "50ms"})
    run = box.run_start(job)
    wait_lines(box.path("marks"), 1)
    set_clocks(wall=wall)
    box.path("go").touch()
    wait_lines(box.path("marks"), 2)
    set_clocks()
    box.path("end").touch()
    result = run.wait()
    assert result.rc == 4, result
    took = [float(s) for s in re.findall(r"code \d after (\S+) s", result.err)]
    assert len(took) == 2 and all(0 < s < result.seconds for s in took), result
    assert "the only restart is used" in result.err and "[worker:0] two" in result.out, result
    verdict = json.loads((box.run_dir() / "verdict.json").read_text())
    assert verdict["root_cause"]["exit"] == {"code": 4} and verdict["root_cause"]["attempt"] == 1, verdict
    goodput = verdict["goodput"]
    assert goodput["total_ms"] < result.seconds * 1000 and goodput["working_ms"] > 0, goodput
    log = [json.loads(line) for line in (box.run_dir() / "events.jsonl").read_text().splitlines()]
    assert [round(e["data"]["by_us"] / 1e6) for e in log if e["event"] == "clock-set"] == [wall, -wall]


def test_a_monotonic_clock_that_jumps_while_a_job_runs(box, set_clocks):
    """As after a suspend: what was to happen meanwhile happens now, and nothing else does."""
    job = write_job(box, f"mark:{box.path('marks')}", "print:one",
                    f"if-attempt:0:wait-file:{box.path('go')}+exit:3", "ignore:TERM", "print:two", "hang",
                    logs={"tee": "3"}, restart={"max": 1, "backoff": "50ms"}, stop={"timeout": "200ms"})
    run = box.run_start(job)
    wait_lines(box.path("marks"), 1)
    set_clocks(monotonic=HOUR)
    box.path("go").touch()
    run.wait_out("two")
    set_clocks(monotonic=2 * HOUR)
    run.signal(signal.SIGTERM)
    result = run.wait()
    assert result.rc == 128 + signal.SIGTERM and "SIGKILL" in result.err, result


@pytest.fixture
def liar(box, set_clocks, daemon):
    """A job whose agent says yes to everything, and what its processes are."""
    name, run = daemon.submit(spec("ignore:TERM", "setsid-fork:ignore:TERM+hang", f"mark:{box.path('marks')}",
                                   "hang", stop={"timeout": "1h"}, restart={"max": 3}))
    wait_lines(box.path("marks"), 1)
    agent = daemon.agent_pid(name)
    old = [parent(agent), *processes_of_run(run)]
    fake = FakeAgent(daemon.agent_sock(name), {"Kill": None})
    yield run, fake, old
    fake.close()


@pytest.mark.parametrize("how", ["stop", "wait", "kill", "shutdown"])
def test_an_agent_that_only_says_that_it_ends_its_job(box, set_clocks, daemon, liar, how):
    """The workers have all of the time that they may take, and the agent a minute more."""
    run, fake, old = liar
    asked = daemon.connect()
    asked.send(**{"stop": {"method": "Stop", "job": run},
                  "wait": {"method": "Wait", "job": run, "kill": True, "timeout_ms": 0},
                  "kill": {"method": "Kill", "job": run, "signal": "KILL"},
                  "shutdown": {"method": "Shutdown", "stop_jobs": True}}[how])
    method = {"stop": "Stop", "wait": "Wait", "kill": "Kill", "shutdown": "Stop"}[how]
    wait_for(lambda: method in fake.asked, what=f"the agent to hear of {method}")
    if how == "stop":
        assert asked.reply() == {}
    if how != "kill":
        for hours in 0.99, 1.01:
            set_clocks(monotonic=hours * HOUR)
            assert daemon.status(run).get("verdict") is None
    set_clocks(monotonic=1.01 * HOUR + 61)
    daemon.call("Version")
    if how == "shutdown":
        daemon.program.wait()
    else:
        verdict = daemon.wait(run)["verdict"]
        assert verdict["result"] == "agent_lost", verdict
        assert ("did not answer for 60 s after" if how == "kill" else
                "had not ended the run 3660 s after it was asked to") in verdict["message"], verdict
    for pid in old:
        wait_gone(pid)


def test_an_honest_stop_has_the_time_that_it_was_given(box, set_clocks, daemon):
    """Also where another elasticd was asked for it."""
    name, run = daemon.submit(spec("ignore:TERM", f"mark:{box.path('marks')}", "hang",
                                   stop={"timeout": "1s"}))
    wait_lines(box.path("marks"), 1)
    daemon.wait(name, until="running")
    daemon.call("Stop", job=run, timeout_ms=10 * HOUR * 1000)
    daemon.restart()
    daemon.call("Stop", job=run)
    for hours in 1, 9:
        set_clocks(monotonic=hours * HOUR)
        assert daemon.status(run, live=True)["state"] == "stopping"
    daemon.call("Stop", job=run, timeout_ms=0)
    assert daemon.wait(run)["state"] == "stopped"


@pytest.mark.parametrize("how", ["start", "rm"])
def test_an_agent_that_stays_after_the_end_keeps_no_name(box, set_clocks, daemon, how):
    """A reader that takes nothing kept it, until it was stopped."""
    name, run = daemon.submit(spec("lines:100000:200", f"mark:{box.path('marks')}", "hang",
                                   logs={"redirects": 3}))
    wait_lines(box.path("marks"), 1)
    agent = daemon.agent_pid(name)
    old = [parent(agent), agent]
    reader = Varlink(daemon.agent_sock(name))
    next(reader.stream("Logs", job=run))
    daemon.call("Stop", job=run)
    daemon.wait(run)
    stopped(box, agent)
    asked = daemon.connect()
    if how == "start":
        asked.send("Start", spec=spec("exit:0", name=name))
    else:
        asked.send("Remove", job=run)
    for seconds in 0, 0, 31:  # the call is heard before the clock jumps
        set_clocks(monotonic=seconds)
        daemon.call("Version")
    reply = asked.reply()
    assert how == "start" and daemon.wait(reply["run"])["state"] == "succeeded" or reply == {"removed": 1}
    for pid in old:
        wait_gone(pid)
    reader.close()


def test_an_agent_whose_descriptor_table_is_full(box, daemon):
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", f"if-attempt:0:wait-file:{box.path('go')}"
                                   "+exit:1", "hang", restart={"max": 1}))
    wait_lines(box.path("marks"), 1)
    agent = daemon.agent_pid(name)
    _, hard = resource.prlimit(agent, resource.RLIMIT_NOFILE)
    resource.prlimit(agent, resource.RLIMIT_NOFILE, (3, hard))  # what is open stays so
    box.path("go").touch()
    job = daemon.wait(run)
    assert (job["state"], job["verdict"]["exit_status"]) == ("failed", 125), job
    assert "Too many open files" in job["reason"], job


@needs_library
def test_a_host_that_was_paused_lost_no_heartbeat(box, daemon):
    """Agent and workers stood still alike, for many times the timeout."""
    script = box.path("beats.py")
    script.write_text(BEATS)
    role = {"replicas": 2, "command": [sys.executable, str(script)], "env": ENV}
    name, run = daemon.submit({"roles": [role],
                               "heartbeat": {"period": "200ms", "timeout": "500ms", "failures": 3},
                               "cwd": str(box.path("work")), "logs": {"redirects": 3}})
    daemon.wait(name, until="running")
    job = daemon.status(name)
    for i in range(2):
        wait_text(daemon.log(job, 0, i), "beats")
    agent = daemon.agent_pid(name)
    pids = [parent(agent), agent, *(t["pid"] for t in job["workers"])]
    for pid in pids:
        stopped(box, pid)
    select.select([], [], [], 4)
    for pid in pids:
        cont(pid)
    for i in range(2):
        wait_text(daemon.log(job, 0, i), "goes on")
    box.path("work/end").touch()
    assert daemon.wait(run)["state"] == "succeeded", daemon.events(run)


# Beats until a file is there, and says so when it has stood still.
BEATS = """
import os, time
import elasticd

with elasticd.init() as job:
    job.step(0)
    last = time.monotonic()
    print("beats", flush=True)
    while not os.path.exists("end"):
        job.beat()
        time.sleep(0.01)
        if time.monotonic() - last > 1:
            print("goes on", flush=True)
        last = time.monotonic()
"""
