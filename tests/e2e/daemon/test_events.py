# SPDX-License-Identifier: Apache-2.0
"""events: what happened, numbered without gaps, as it happens and afterwards."""

import json
import pathlib
import signal

from harness import spec


def test_the_history_of_a_run(box, daemon):
    job = daemon.run(spec("if-attempt:0:exit:3", replicas=2, restart={"max": 1}))
    events = daemon.events(job["run"])
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    times = [e["time_us"] for e in events]
    assert times == sorted(times) and times[0] >= job["created_us"] - 1_000_000
    assert all(e["text"] and e["event"] and e["run"] == job["run"] for e in events)
    names = [e["event"] for e in events]
    for name in ("started", "worker-failed", "restart", "ended"):
        assert name in names, names
    failed = next(e for e in events if e["event"] == "worker-failed")
    assert failed["rank"] in (0, 1) and failed["attempt"] == 0


def test_the_file_beside_the_logs_says_the_same(daemon):
    job = daemon.run(spec("if-attempt:0:exit:3", restart={"max": 1}))
    events = daemon.events(job["run"])
    on_disk = [json.loads(line) for line in
               (pathlib.Path(job["log_dir"]) / "events.jsonl").read_text().splitlines()]
    assert [e["seq"] for e in on_disk] == [e["seq"] for e in events]
    assert [e["event"] for e in on_disk] == [e["event"] for e in events]
    assert json.loads((pathlib.Path(job["log_dir"]) / "verdict.json").read_text())["result"] == "succeeded"


def test_since_leaves_out_what_is_known(daemon):
    job = daemon.run(spec("if-attempt:0:exit:3", restart={"max": 1}))
    events = daemon.events(job["run"])
    later = daemon.call("Events", job=job["run"], since=events[2]["seq"])["events"]
    assert later == events[3:]
    assert daemon.call("Events", job=job["run"], since=events[-1]["seq"])["events"] == []


def test_following_gets_all_in_order_and_ends_with_the_run(box, daemon):
    name, run = daemon.submit(spec(f"if-attempt:0:wait-file:{box.path('go')}", "if-attempt:2:exit:0",
                                   "exit:1", restart={"max": 2}))
    with daemon.connect() as v:
        v.send("Events", more=True, job=name, since=0, follow=True)
        box.path("go").touch()
        got = []
        while True:
            answer = v.receive()
            got += answer["parameters"]["events"]
            if not answer.get("continues"):
                break
    assert got == daemon.events(run)


def test_following_all_jobs(box, daemon):
    with daemon.connect() as v:
        v.send("Events", more=True, follow=True)
        assert v.reply() == {"events": []}, "from here on nothing is missed"
        names = {daemon.submit(spec(name=f"j{i}"))[0] for i in range(3)}
        ended = set()
        while ended != names:
            for event in v.receive()["parameters"]["events"]:
                if event["event"] == "ended":
                    ended.add(event["job"])


def test_by_command_line(box, daemon):
    follow = box.ctl_start("events", "-f", "--json")
    job = daemon.run(spec("exit:3", name="shown"))
    text = box.ctl("events", "shown")
    assert text.rc == 0 and "exit" in text.out and "3" in text.out, text
    follow2 = box.ctl("events", "--json", job["run"])
    lines = [json.loads(line) for line in follow2.out.splitlines()]
    flat = [e for line in lines for e in (line.get("events", [line]) if isinstance(line, dict) else line)]
    assert [e["seq"] for e in flat] == [e["seq"] for e in daemon.events(job["run"])]
    assert follow.popen.poll() is None
    follow.signal(signal.SIGTERM)
    follow.wait()


def test_one_obituary_for_each_worker_that_died(daemon):
    job = daemon.run(spec("exit:3", replicas=4))
    ended = [e for e in daemon.events(job["run"]) if e["event"] == "worker-ended"]
    assert sorted(e["rank"] for e in ended) == [0, 1, 2, 3]


def test_the_texts_of_events_stand_below_each_other(box, daemon):
    run = daemon.run(spec("exit:1", restart={"scope": "worker", "max": 1}))["run"]
    lines = box.ctl("events", run).out.splitlines()
    assert any("worker-failed-once" in line for line in lines), lines
    assert all(line[42] == " " and line[43] != " " for line in lines), lines
