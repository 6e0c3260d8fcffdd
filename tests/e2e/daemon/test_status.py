# SPDX-License-Identifier: Apache-2.0
"""status: what each rank does right now."""

import json
import os
import re
import time

import pytest

from harness import CTL, PUPPET, VarlinkError, spec, wait_file, wait_for
from terminal import Terminal


def test_every_rank_has_its_figures(box, daemon):
    begun = time.time()
    name, run = daemon.submit(spec("alloc:30", "spin:60", "print:loss 0.125 %r", "if-rank:2:exit:0",
                                   f"touch:{box.path('up')}.%r", "hang", replicas=3,
                                   logs={"redirects": 3}))
    wait_file(box.path("up.0"))
    wait_file(box.path("up.1"))
    daemon.watch(name, lambda job, _: job["workers"][2]["state"] == "succeeded")
    daemon.wait(name, until="running")
    job = daemon.status(name, live=True)
    assert (job["name"], job["run"], job["state"]) == (name, run, "running")
    assert job["user"] and job["uid"] == os.getuid() and job["agent_pid"] > 0
    assert job["started_us"] >= job["created_us"] and PUPPET in job["command"]
    assert [t["rank"] for t in job["workers"]] == [0, 1, 2]
    for task in job["workers"][:2]:
        assert task["state"] == "running" and os.path.exists(f"/proc/{task['pid']}")
        assert 30 << 20 <= task["rss_bytes"] < 600 << 20
        assert task["cpu_ms"] >= 40
        assert task["last_line"] == f"loss 0.125 {task['rank']}"
        assert begun - 1 < task["started_us"] / 1e6 < time.time() + 1
    ended = job["workers"][2]
    assert ended["exit"]["code"] == 0 and ended["ended_us"] >= ended["started_us"]


def test_cpu_and_memory_include_children(box, daemon):
    name, _ = daemon.submit(spec(f"fork:alloc:50+touch:{box.path('up')}+hang", "hang"))
    wait_file(box.path("up"))
    daemon.wait(name, until="running")  # before elasticd has heard of its agent there is nothing live
    assert daemon.status(name, live=True)["workers"][0]["rss_bytes"] > 50 << 20


def test_a_job_that_ended_still_has_its_status(daemon):
    job = daemon.run(spec("if-rank:1:exit:5", replicas=2))
    again = daemon.status(job["run"], live=True)
    assert again["state"] == "failed" and again["verdict"]["exit_status"] == 5
    assert again["workers"][1]["exit"]["code"] == 5 and again["ended_us"] >= again["created_us"]


def test_restarts_and_attempts_are_counted(box, daemon):
    name, _ = daemon.submit(spec("if-attempt:0:exit:1", "if-attempt:1:exit:42",
                                 f"touch:{box.path('up')}", "hang", restart={"max": 3}))
    # The file is there before the daemon was told of the attempt.
    wait_file(box.path("up"))
    job = daemon.until_attempt(name, 2)
    assert (job["attempt"], job["restarts"], job["max_restarts"]) == (2, 1, 3)


def test_an_unknown_job(daemon):
    import pytest
    from harness import VarlinkError
    for method in ("Status", "Stop", "Why", "Errors", "Wait", "Restart"):
        with pytest.raises(VarlinkError) as e:
            daemon.call(method, job="nobody")
        assert e.value.name == "NotFound" and e.value.parameters["job"] == "nobody"


def test_the_table_for_people(box, daemon):
    name, run = daemon.submit(spec("print:epoch 3 loss 0.5", f"touch:{box.path('up')}.%r", "hang",
                                   replicas=12, name="digits", logs={"redirects": 3}))
    for rank in range(12):
        wait_file(box.path(f"up.{rank}"))
    daemon.wait(name, until="running")
    result = box.ctl("status", "digits")
    assert result.rc == 0, result
    job = daemon.status(name)
    assert "digits" in result.out and "running" in result.out and "\x1b" not in result.out
    # Its own row: a year is a number, too.
    rows = {line.split()[0]: line for line in result.out.splitlines() if line.strip()}
    columns = set()
    for task in job["workers"]:
        row = rows.get(str(task["rank"]), "")
        pid = re.search(rf"\b{task['pid']}\b", row)
        assert pid and "epoch 3 loss 0.5" in row, f"no row for rank {task['rank']}: {result}"
        columns.add(pid.end())
    assert len(columns) == 1, f"not aligned: {result}"


def test_a_state_in_between_is_not_said_to_be_as_old_as_the_job(box, daemon):
    name, _ = daemon.submit(spec("exit:5", restart={"max": 1, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: job["state"] == "backoff")
    shown = box.ctl("status", name)
    assert "State: backoff, started " in shown.out, shown
    refused = box.ctl("stop", f"{name}/0")
    assert refused.rc == 1 and f"job {name} is not running: its state is backoff" in refused.err, refused
    daemon.call("Stop", job=name)
    daemon.wait(name)
    shown = box.ctl("status", name)
    assert "State: stopped since " in shown.out, shown
    refused = box.ctl("stop", f"{name}/0")
    assert refused.rc == 1 and f"job {name} is not active: its state is stopped" in refused.err, refused


def test_colour_only_where_it_is_wanted(box, daemon):
    name, _ = daemon.submit(spec("hang"))
    daemon.wait(name, until="running")
    assert "\x1b[" in box.ctl("status", "--color=always", name).out
    assert "\x1b[" not in box.ctl("status", name).out


def test_json_is_the_protocols_object(box, daemon):
    name, _ = daemon.submit(spec("hang", replicas=2))
    daemon.wait(name, until="running")
    parsed = box.ctl("status", "--json", name).json
    job = parsed.get("job", parsed)
    if isinstance(job, str):
        job = parsed
    assert job["name"] == name and len(job["workers"]) == 2


def test_a_worker_is_addressed_by_role_and_index(box, daemon):
    daemon.submit(spec("print:I am %r", f"touch:{box.path('up')}.%r", "hang", replicas=3, name="j",
                       logs={"redirects": 3}))
    for rank in range(3):
        wait_file(box.path(f"up.{rank}"))
    wait_for(lambda: "I am 2" in box.ctl("logs", "j/worker:2").out, what="its line")
    out = box.ctl("logs", "j/worker:2").out
    assert "I am 2" in out and "I am 1" not in out


def test_some_of_the_workers_are_asked_for(box, daemon):
    name, run = daemon.submit(spec("print:up", f"touch:{box.path('up')}.%r", "hang", replicas=3,
                                   logs={"redirects": 3}))
    for rank in range(3):
        wait_file(box.path(f"up.{rank}"))
    daemon.wait(name, until="running")  # workers may be quicker than the agent's first word to elasticd

    def ranks(**more):
        return [w["rank"] for w in daemon.call("Status", job=run, **more)["job"]["workers"]]

    live = daemon.call("Status", job=name, live=True, ranks="0,2")["job"]
    assert [(w["rank"], w["last_line"]) for w in live["workers"]] == [(0, "up"), (2, "up")]
    assert all(w["rss_bytes"] > 0 for w in live["workers"]), live
    assert ranks(ranks="1") == [1] and ranks() == [0, 1, 2]
    for live in (False, True):
        with pytest.raises(VarlinkError, match="InvalidArgument"):
            daemon.call("Status", job=run, live=live, ranks="2-1")
    box.ctl("stop", name)
    assert ranks(ranks="1-9", live=True) == [1, 2] and ranks(ranks="0") == [0]


def test_watch_shows_each_change_until_the_run_has_ended(box, daemon):
    name, run = daemon.submit(spec("print:up", "hang", name="j", replicas=2, restart={"max": 3}))
    daemon.wait(name, until="running")
    t = Terminal(box, CTL, "status", "--watch", "j/1", env={"TERM": "xterm", "COLUMNS": "80"})
    plain = box.ctl_start("status", "--watch", "j")
    lines = box.ctl_start("--json", "status", "-w", "j")
    everything = box.ctl_start("status", "--watch")
    for seen in (plain, lines):
        seen.wait_out("running")
    everything.wait_out("1 active")
    t.expect("Restarts: 0 of 3 used")
    box.ctl("kill", "-s", "KILL", "j/0")
    t.expect("\x1b[H\x1b[J")
    t.expect("Restarts: 1 of 3 used")
    everything.wait_out(" 1/3 ")
    plain.wait_out("Restarts: 1 of 3 used")  # else it may draw both changes together
    box.ctl("stop", "j")
    everything.wait_out("0 active")
    assert t.wait().rc == 3 and b" default:0 " not in t.seen
    pages = plain.wait().out.split("\n\n\u25cf")
    assert "Restarts: 1 of 3 used" in pages[-1] and "State: stopped since" in pages[-1], pages
    # Changes that come together are shown together, and none is shown twice.
    assert 3 <= len(pages) <= 10 and "".join(pages).count("State: stopped") == 1, pages
    jobs = [json.loads(line) for line in lines.wait().out.splitlines()]
    assert jobs[0]["state"] == "running" and jobs[-1]["verdict"]["result"] == "stopped"
    assert box.ctl("status", "--watch", "j", "k").rc == 2 and box.ctl("status", "-w", "k").rc == 4


@pytest.mark.parametrize("verb", ["status", "logs", "kill", "stop", "restart", "dump", "attach"])
@pytest.mark.parametrize("missing", ["7", "worker:7", "nobody:0"])
def test_a_worker_that_is_not_there_is_named_alike_by_all_verbs(box, daemon, verb, missing):
    name, _ = daemon.submit(spec("print:up", "hang"))
    daemon.call("Wait", job=name, until="running")
    result = box.ctl(verb, f"{name}/{missing}")
    status = 125 if verb == "attach" else 1
    assert (result.rc, result.err) == (status, f"elasticctl: there is no worker {missing}\n"), result


@pytest.mark.parametrize("verb", ["status", "logs", "kill"])
def test_a_worker_that_is_not_there_is_named_among_others_that_are(box, daemon, verb):
    name, _ = daemon.submit(spec("print:up", "hang"))
    daemon.call("Wait", job=name, until="running")
    result = box.ctl(verb, f"{name}/0,7")
    assert (result.rc, result.err) == (1, "elasticctl: there is no worker 7\n"), result


def test_strange_last_lines_do_not_break_the_terminal(box, daemon):
    name, _ = daemon.submit(spec("raw:1b5d303b6576696c071b5b324a62616400ff0a", f"touch:{box.path('up')}",
                                 "hang", logs={"redirects": 3}))
    wait_file(box.path("up"))
    daemon.wait(name, until="running")
    out = box.ctl("status", name).out_bytes
    assert b"\x1b]" not in out and b"\x07" not in out and b"\x00" not in out
    out.decode()
