# SPDX-License-Identifier: Apache-2.0
"""results: what each worker said of itself, while the job runs and afterwards."""

import base64
import json
import os
import pathlib
import sys

import pytest

from harness import ROOT, fill, spec, wait_file, wait_for

WORKER = f"""
import base64, json, os, pathlib, socket, sys
sys.path.insert(0, {str(ROOT / 'tests/e2e')!r})
from harness import Varlink
from harness import wait_file as wait
worker = Varlink(os.environ["ELASTICD_WORKER_SOCKET"], timeout=3600)
def say(method, **p):
    return worker.call("io.elasticd.Worker." + method, **p)
def wait_file(path):
    wait(path, timeout=3600)
say("Hello", token=os.environ["ELASTICD_TOKEN"])
role, index = os.environ["ELASTICD_ROLE"], os.environ["ELASTICD_INDEX"]
"""


def worker(script, **role):
    return {"command": [sys.executable, "-c", WORKER + script], **role}


def tasks(results):
    return {f"{r['role']}:{r['index']}": r for r in results}


def test_every_role_returns_its_name(box, daemon):
    roles = [worker("say('Result', value=role)", name=name, replicas=n)
             for name, n in (("chief", 1), ("worker", 2), ("ps", 3))]
    job = daemon.run({"name": "j", "roles": roles})
    assert job["state"] == "succeeded"
    results = daemon.call("Results", job="j")["results"]
    assert sorted(r["value"] for r in results) == ["chief", "ps", "ps", "ps", "worker", "worker"]
    assert all(r["value"] == r["role"] and r["exit"]["code"] == 0 for r in results)
    table = box.ctl("results", "j")
    assert table.rc == 0 and len(table.out.splitlines()) == 7, table
    assert [line.split() for line in table.out.splitlines() if line.startswith("ps:1")] \
        == [["ps:1", "4", "0", "ps"]]
    for place in (daemon.record(job["run"]), daemon.logs / job["run"]):
        modes = {path.name: oct(path.stat().st_mode & 0o7777) for path in place.glob("*.json")}
        assert "0o644" not in modes.values(), modes


def test_a_run_has_its_own_results_only(daemon):
    say = worker("say('Result', value=role)", replicas=2)
    first = daemon.run({"name": "j", "roles": [say]})
    second = daemon.run({"name": "j", "roles": [worker("pass", replicas=2)]})
    assert not [r for r in daemon.call("Results", job=second["run"])["results"] if r.get("value")]
    assert len(daemon.call("Results", job=first["run"])["results"]) == 2


def test_they_are_there_while_the_job_runs_and_outlive_everything(box, daemon):
    go = box.path("go")
    _, run = daemon.submit({"name": "j", "roles": [
        worker(f"say('Result', value='early'); say('Result', value='late' + index); "
               f"open({str(box.path('said'))!r} + index, 'w'); wait_file({str(go)!r})", replicas=2)]})
    for index in (0, 1):
        wait_for(lambda i=index: box.path(f"said{i}").exists(), box.dir, what="a result")
    results = tasks(daemon.call("Results", job="j")["results"])
    assert {name: r["value"] for name, r in results.items()} == {"worker:0": "late0", "worker:1": "late1"}
    go.touch()
    daemon.wait("j")
    ended = daemon.call("Results", job=run)["results"]
    daemon.restart()
    assert daemon.call("Results", job=run)["results"] == ended
    assert {r["value"] for r in ended} == {"late0", "late1"}


def test_bytes_and_errors_are_shown_as_what_they_are(box, daemon):
    data, said = bytes(range(256)), str(box.path("said"))
    daemon.run({"name": "j", "roles": [
        worker(f"say('Result', base64={base64.b64encode(data).decode()!r}); "
               f"open({said + '1'!r}, 'w')", name="bytes"),
        worker(f"wait_file({said + '1'!r}); wait_file({said + '2'!r}); "
               "say('ReportError', code='DataLoss', message='the disk is gone')", name="error"),
        worker(f"say('Result', value='x' * 5000); open({said + '2'!r}, 'w')", name="long"),
        worker("pass", name="silent")]})
    results = tasks(daemon.call("Results", job="j")["results"])
    assert base64.b64decode(results["bytes:0"]["base64"]) == data
    assert results["error:0"]["error"]["code"] == "DataLoss"
    out = box.ctl("results", "j").out
    assert "(256 bytes)" in out and "(5000 bytes)" in out and "DataLoss: the disk is gone" in out
    parsed = tasks(box.ctl("results", "--json", "j").json)
    assert parsed["long:0"]["value"] == "x" * 5000


def test_after_a_restart_of_one_worker_its_last_start_is_shown(box, daemon):
    first = worker("""
if os.environ["ELASTICD_START"] == "0":
    say('Result', value='of the first start')
    say('ReportError', code='Internal', message='of the first start')
    sys.exit(1)
if index == "1":
    say('Result', value='of the second start')
""", replicas=2)
    job = daemon.run({"name": "j", "roles": [first], "restart": {"scope": "worker", "max": 1}})
    assert job["state"] == "succeeded", job
    results = tasks(daemon.call("Results", job="j")["results"])
    assert [r["start"] for r in results.values()] == [1, 1]
    assert "value" not in results["worker:0"] and "error" not in results["worker:0"], results
    assert results["worker:0"]["exit"]["code"] == 0
    assert results["worker:1"]["value"] == "of the second start" and "error" not in results["worker:1"]


def test_nothing_said_and_no_such_job(box, daemon):
    daemon.run({"name": "j", "roles": [{"command": ["true"]}]})
    result = box.ctl("results", "j")
    assert result.rc == 0, result
    assert box.ctl("results", "nobody").rc == 1


def test_a_worker_stopped_by_a_failure_keeps_its_result(box, daemon):
    job = daemon.run({"name": "j", "roles": [
        worker("say('Result', value='almost'); os._exit(3)", name="bad")]})
    assert job["verdict"]["exit_status"] == 3
    (result,) = daemon.call("Results", job="j")["results"]
    assert (result["value"], result["exit"]["code"]) == ("almost", 3)
    assert os.path.exists(daemon.record(job["run"]))


@pytest.mark.root
def test_a_full_disk_costs_the_copy_there_alone(box, daemon, small_disk):
    """The log directory's: the record and its readers have all, the job ends as it would."""
    name, run = daemon.submit({"logs": {"dir": str(small_disk)}, "roles": [
        worker(f"say('Result', value='x' * 10000); open({str(box.path('said'))!r} + index, 'w'); "
               f"wait_file({str(box.path('go'))!r})", replicas=2)]})
    for rank in (0, 1):
        wait_file(box.path(f"said{rank}"))
    ballast = small_disk / "ballast"
    fill(ballast)
    box.path("go").touch()
    job = daemon.wait(name)
    assert job["state"] == "succeeded", job["verdict"]
    left = [p.name for p in pathlib.Path(job["log_dir"]).iterdir()]
    assert "results.json" not in left and not [n for n in left if ".tmp" in n], left
    kept = json.loads((daemon.record(run) / "results.json").read_text())
    assert [r["value"] for r in kept["results"]] == ["x" * 10000] * 2
    assert box.ctl("results", "--json", run).rc == 0
    ballast.unlink()
    again = daemon.run(spec(logs={"dir": str(small_disk)}))
    assert (pathlib.Path(again["log_dir"]) / "results.json").exists()
