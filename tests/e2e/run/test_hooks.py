# SPDX-License-Identifier: Apache-2.0
"""Hooks: programs that run when the group starts, fails, starts again, gets a notice, or ends."""

import json
import signal

from harness import spec, wait_file, wait_for
from processes import wait_gone

WRITE = 'printf "%s %s " "$ELASTICD_HOOK" "$ELASTICD_ATTEMPT" >> "$0"; cat >> "$0"; echo >> "$0"'


def written(path, n):
    """[(hook, attempt, input)], when there are n"""
    found = []
    wait_for(lambda: path.exists() and path.read_text().count("\n") == n, path.parent)
    for line in path.read_text().splitlines():
        hook, attempt, text = line.split(" ", 2)
        found.append((hook, int(attempt), json.loads(text)))
    return found


def hooks(path, *names, **more):
    return {**{name: ["sh", "-c", WRITE, str(path)] for name in names}, **more}


def test_hooks_run_in_order_with_what_happened(box, daemon):
    out = box.path("hooks.out")
    job = daemon.run(spec("exit:3", name="j", restart={"max": 1},
                          hooks=hooks(out, "start", "failure", "restart", "preemption", "end")))
    assert job["state"] == "failed"
    found = written(out, 5)
    assert [(h, a) for h, a, _ in found] == [("start", 0), ("failure", 0), ("restart", 1), ("failure", 1),
                                             ("end", 1)]
    for hook, _, said in found:
        assert said["hook"] == hook and said["job"]["run"] == job["run"] and said["time_us"] and said["host"]
    assert found[1][2]["failures"][0]["exit"] == {"code": 3} and "failures" not in found[0][2]
    assert found[-1][2]["job"]["verdict"]["exit_status"] == 3


def test_a_hook_that_hangs_or_fails_holds_up_no_worker(box, daemon):
    name, _ = daemon.submit(spec(
        f"touch:{box.path('up')}.%a", "hang", name="j", restart={"max": 1},
        hooks={"start": ["sh", "-c", f"touch {box.path('hangs')}; sleep 1000 & wait"],
               "failure": ["sh", "-c", "echo no mail here >&2; exit 7"],
               "restart": ["/nonexistent/program"], "timeout": "1h"}))
    wait_file(box.path("up.0"))
    wait_file(box.path("hangs"))
    daemon.call("Kill", job=name, signal="KILL")
    wait_file(box.path("up.1"))
    daemon.call("Stop", job=name)
    assert daemon.wait(name)["state"] == "stopped"


def test_the_hook_of_the_last_failure_is_not_cut_off_by_the_end(box, daemon):
    out = box.path("hooks.out")
    wait = f"until test -e {box.path('go')}; do sleep 0.05; done; "
    job = daemon.run(spec("exit:3", name="j", hooks={"failure": ["sh", "-c", wait + WRITE, str(out)]}))
    assert job["state"] == "failed"
    box.path("go").touch()
    written(out, 1)


def test_a_signal_after_the_end_ends_the_wait_for_hooks(box):
    spec_file = box.path("work") / "job.json"
    spec_file.write_text(json.dumps(spec(
        "print:x", name="j", cwd=str(box.path("work")), hooks={
            "timeout": "1h",
            "end": ["sh", "-c", "trap '' INT TERM; sleep 1000 & echo $! > pid.tmp; mv pid.tmp pid; wait"]})))
    run = box.run_start("--spec", spec_file)
    wait_file(box.path("work") / "pid")
    run.signal(signal.SIGINT)
    result = run.wait()
    assert result.rc == 0 and "hooks.end: it did not end in" in result.err, result
    wait_gone(int((box.path("work") / "pid").read_text()))


def test_faults_of_hooks_are_events(box, daemon):
    out = box.path("hooks.out")
    job = daemon.run(spec("exit:3", name="j", hooks=hooks(
        out, "end", start=["/nonexistent/program"],
        failure=["sh", "-c", "echo no mail here >&2; exit 7"])))
    written(out, 1)
    faults = [e["text"] for e in daemon.events(job["run"]) if e["event"] == "hook-failed"]
    assert faults == ["hooks.start: /nonexistent/program: cannot exec: No such file or directory",
                      "hooks.failure: it exited with 7: no mail here"]


def test_run_waits_for_the_last_hook_and_kills_it_at_its_limit(box):
    spec_file = box.path("work") / "job.json"
    # The hook's children are killed with it: the box fails where a process is left.
    text = spec("print:x", name="j", hooks={"end": ["sh", "-c", "sleep 1000 & wait"], "timeout": "100ms"})
    spec_file.write_text(json.dumps(text))
    result = box.run("--spec", spec_file)
    assert result.rc == 0, result
    assert "hooks.end: it did not end in 100ms, and was killed" in result.err


def test_a_notice_runs_its_hook_once(box, daemon):
    out = box.path("hooks.out")
    name, _ = daemon.submit(spec(f"touch:{box.path('up')}", "hang", name="j", preemption={"timeout": "1ms"},
                                 hooks=hooks(out, "preemption", "end")))
    wait_file(box.path("up"))
    daemon.call("Preempt", job=name, reason="the rack")
    daemon.wait(name)
    found = written(out, 2)
    assert [h for h, _, _ in found] == ["preemption", "end"]
    assert found[0][2]["job"]["preemption"]["reason"] == "the rack"
