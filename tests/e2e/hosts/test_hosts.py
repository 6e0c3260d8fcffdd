# SPDX-License-Identifier: Apache-2.0
"""One group on several hosts: ranks, restarts, failures and the end are alike everywhere."""

import json
import os
import re
import signal
import sys

import pytest

from harness import alive, puppet, wait_file, wait_for, wait_lines
from python_package import ENV, needs_library
from several_hosts import Group, agent_of, variables


@pytest.fixture
def up(box):
    return box.path("up")


def ranks(path):
    """The lines of mark: "pid rank attempt"."""
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []


def runs(path, attempt, world):
    """Waits until all ranks of that attempt are there."""
    def there():
        return sorted(r for _, r, a in ranks(path) if a == attempt) == list(range(world))
    wait_for(there, path.parent, what=f"attempt {attempt} with {world} ranks")


def gone(path, attempt):
    """Waits until no worker of that attempt lives."""
    def dead():
        return not [p for p, _, a in ranks(path) if a == attempt and alive(p)]
    wait_for(dead, what=f"the end of attempt {attempt}")


def test_all_hosts_succeed_and_workers_know_their_places(box):
    group = Group(box, "2")
    for _ in range(2):
        group.start(puppet(f"env:{box.path('env')}.%r"), rendezvous={"id": "exp7"})
    assert [r.rc for r in group.wait()] == [0, 0]
    for rank in range(4):
        v = variables(box.path(f"env.{rank}"))
        assert [v[k] for k in ("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ELASTICD_INDEX")] == [
            str(rank), str(rank % 2), str(rank // 2), str(rank), str(rank)]
        assert [v[k] for k in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE")] == [
            "4", "2", "2", "4"]
        assert v["TORCHELASTIC_RUN_ID"] == "exp7" and v["MASTER_ADDR"] == "127.0.0.1"
        assert v["MASTER_PORT"] == variables(box.path("env.0"))["MASTER_PORT"] != "0"


def test_flags_of_torchrun_make_the_same_group(box):
    group = Group(box, "2")
    for _ in range(2):
        group.host("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--no-python",
                   f"--rdzv-endpoint={group.endpoint}", "--rdzv-id=exp", *puppet(f"env:{box.path('env')}.%r"))
    assert [r.rc for r in group.wait()] == [0, 0]
    assert [variables(box.path(f"env.{r}"))["GROUP_RANK"] for r in range(2)] == ["0", "1"]


def test_a_static_group_has_the_ranks_and_the_master_that_were_given(box):
    group = Group(box, "2")
    # The host of rank 0 comes last, and the master's port is the one that is given.
    for rank in (1, 0):
        group.host("--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=1", "--master-addr=127.0.0.1",
                   f"--master-port={group.endpoint.split(':')[1]}", "--no-python",
                   *puppet(f"env:{box.path('env')}.%r", f"touch:{box.path('rank')}.{rank}.%r"))
    assert [r.rc for r in group.wait()] == [0, 0]
    assert box.path("rank.1.1").exists() and box.path("rank.0.0").exists()
    v = variables(box.path("env.1"))
    assert (v["MASTER_ADDR"], v["MASTER_PORT"]) == ("127.0.0.1", group.endpoint.split(":")[1])


def test_a_worker_that_fails_has_all_hosts_start_again(box, up):
    group = Group(box, "2")
    steps = puppet(f"mark:{up}", f"barrier:{box.path('met')}", "if-attempt:0:{if-rank:3:exit:7}",
                   "if-attempt:0:hang", f"env:{box.path('env')}.%r")
    for _ in range(2):
        group.start(steps, restart={"max": 1, "backoff": "0"})
    results = group.wait()
    assert [r.rc for r in results] == [0, 0], results
    assert "worker:3 on " in results[0].err and "restart 1 of 1" in results[0].err
    for rank in range(4):
        v = variables(box.path(f"env.{rank}"))
        assert (v["TORCHELASTIC_RESTART_COUNT"], v["ELASTICD_ATTEMPT"]) == ("1", "1")


def test_a_failure_without_a_restart_ends_all_hosts_alike(box, up):
    group = Group(box, "2")
    for _ in range(2):
        group.start(puppet(f"mark:{up}", f"barrier:{box.path('met')}", "if-rank:3:exit:7", "hang"))
    first, second = group.wait()
    assert (first.rc, second.rc) == (7, 7)
    # The report is at group rank 0 alone; the other host has one line.
    assert "Root Cause" in first.err and "rank      : 3" in first.err
    assert "Root Cause" not in second.err
    for r in (first, second):
        assert "failed (exit status 7): worker:3: exit code 7" in r.err


def reports(results):
    return ["Root Cause" in r.err for r in results]


def test_a_spare_prints_one_line_of_a_failure(box, up):
    group = Group(box, "2")
    steps = puppet(f"mark:{up}", f"wait-file:{box.path('fail')}", "if-rank:3:exit:7", "hang")
    for _ in range(3):
        group.start(steps)
    runs(up, 0, 4)
    # It has nothing to do, and is there.
    waits_for_three(group)
    box.path("fail").touch()
    results = group.wait()
    assert [r.rc for r in results] == [7, 7, 7], results
    assert reports(results) == [True, False, False], results
    assert "failed (exit status 7): worker:3: exit code 7" in results[2].err


def waits_for_three(group):
    events = next(group.box.path("logs0").glob("*_*/events.jsonl"))
    wait_for(lambda: events.read_text().count('"host-joined"') == 3, events.parent, what="three hosts")


def test_the_failure_is_reported_also_where_the_host_of_rank_0_is_lost(box, up):
    group = Group(box, "2")
    steps = puppet(f"mark:{up}", f"if-rank:0:{{wait-file:{box.path('fail')}+exit:7}}", "ignore:TERM",
                   f"wait-file:{box.path('end')}")
    for rank in (1, 0):
        group.start(steps, replicas=1, stop={"timeout": "60s"},
                    rendezvous={"backend": "direct", "node_rank": rank})
    runs(up, 0, 2)
    box.path("fail").touch()
    group.hosts[0].wait_err("worker:0 on ")
    os.kill(agent_of(group.hosts[1]), signal.SIGKILL)
    assert group.hosts[1].wait().rc == 125
    group.hosts[0].wait_err("the agent of host ")
    box.path("end").touch()
    last = group.hosts[0].wait()
    assert last.rc == 7 and reports([last]) == [True], last


def test_the_error_file_of_the_root_cause_is_the_same_on_all_hosts(box, up):
    group = Group(box, "2")
    steps = puppet(f"mark:{up}", f"barrier:{box.path('met')}",
                   "if-rank:2:{error-json:object:boom+exit:1}", "hang")
    for i in range(2):
        job = group.job(steps)
        group.host("--spec", job, env={"TORCHELASTIC_ERROR_FILE": str(box.path(f"error{i}.json"))})
    assert [r.rc for r in group.wait()] == [1, 1]
    errors = [json.loads(box.path(f"error{i}.json").read_text())["message"] for i in range(2)]
    assert errors[0] == errors[1] and "boom" in errors[0]["message"]


def test_all_hosts_share_one_budget_of_restarts(box, up):
    group = Group(box, "2")
    for _ in range(2):  # first a worker of one host fails, then one of the other
        group.start(puppet(f"mark:{up}", f"barrier:{box.path('met')}.%a", "if-attempt:0:{if-rank:0:exit:1}",
                           "if-attempt:1:{if-rank:3:exit:2}", "hang"), restart={"max": 1, "backoff": "0"})
    assert [r.rc for r in group.wait()] == [2, 2]
    assert {a for _, _, a in ranks(up)} == {0, 1}


def test_a_host_that_is_stopped_leaves_and_the_others_go_on(box, up):
    group = Group(box, "1:2")
    for _ in range(2):
        group.start(puppet(f"mark:{up}", f"wait-file:{box.path('end')}"), rendezvous={"last_call": "20s"})
    runs(up, 0, 4)
    group.hosts[1].signal(signal.SIGTERM)
    assert group.hosts[1].wait().rc == 143
    runs(up, 1, 2)
    box.path("end").touch()
    assert group.hosts[0].wait().rc == 0


def test_stopping_the_host_that_leads_ends_the_group(box, up):
    group = Group(box, "1:2")
    for _ in range(2):
        group.start(puppet(f"mark:{up}", "hang"), rendezvous={"last_call": "20s"})
    runs(up, 0, 4)
    group.hosts[0].signal(signal.SIGINT)
    results = group.wait()
    assert [r.rc for r in results] == [130, 130] and "stopped (exit status 130): got SIGINT" in results[1].err


def test_stop_and_restart_at_any_host_are_for_the_group(box, up):
    group = Group(box, "2")
    daemons = [box.new_daemon(name=f"d{i}") for i in range(2)]
    for i, d in enumerate(daemons):
        d.start()
        d.submit({**json.loads(group.job(puppet(f"mark:{up}", "hang")).read_text()), "name": "job"})
        # The first one leads.
        d.wait_event("job", "host-joined" if i == 0 else "started")
    runs(up, 0, 4)
    daemons[1].call("Restart", job="job")
    runs(up, 1, 4)
    daemons[1].call("Stop", job="job")
    ended = [d.wait("job") for d in daemons]
    assert [e["state"] for e in ended] == ["stopped"] * 2
    assert all("stopped on request of user" in e["verdict"]["message"] for e in ended)
    # Where the stop was asked for, and where it was decided, an event says so, as on one host.
    for d in daemons:
        stops = [e["text"] for e in d.events("job") if e["event"] == "stop"]
        assert len(stops) == 1 and "stopped on request of user" in stops[0], stops


def test_a_time_limit_is_an_event_of_the_host_that_leads(box, up):
    group = Group(box, "2")
    for _ in range(2):
        group.start(puppet(f"mark:{up}", "hang"), max_run_time="2s")
    results = group.wait()
    assert results[0].rc == results[1].rc and all("timed out after 2 s" in r.err for r in results), results
    events = next(box.path("logs0").glob("*_*/events.jsonl"))
    found = [json.loads(line) for line in events.read_text().splitlines()]
    assert [e["text"] for e in found if e["event"] == "timeout"] == ["timed out after 2 s"]


def test_a_failure_after_the_leaders_success_changes_nothing(box, up):
    group = Group(box, "2")
    for i in range(2):
        leads = puppet(f"mark:{up}", f"wait-file:{box.path('end')}")
        works = puppet(f"mark:{up}", "ignore:TERM", f"wait-file:{box.path('fail')}", "exit:3")
        group.start(None, leader={"grace": "20s"}, roles=[
            {"name": "chief", "replicas": 1, "command": leads, "leader": True},
            {"name": "worker", "replicas": 1, "command": works}])
    runs(up, 0, 3)  # the leader is on the first host alone
    box.path("end").touch()
    group.hosts[0].wait_err("the others have 20s to leave")
    box.path("fail").touch()
    results = group.wait()
    assert [r.rc for r in results] == [0, 0], results


def test_an_interrupt_after_the_verdict_changes_no_exit_status(box, up):
    group = Group(box, "2")
    for _ in range(2):
        group.start(puppet(f"on:TERM:touch:{box.path('told')}.%r", f"mark:{up}", f"barrier:{box.path('met')}",
                           "if-rank:3:exit:7", "hang"), stop={"timeout": "1s"})
    wait_file(box.path("told.0"))
    wait_file(box.path("told.2"))
    for host in group.hosts:
        host.signal(signal.SIGINT)
    assert [r.rc for r in group.wait()] == [7, 7]


def test_a_worker_that_is_stopped_and_started_again_counts_once(box, up):
    group = Group(box, "2")
    d = box.daemon
    steps = puppet(f"mark:{up}", f"if-rank:1:{{wait-file:{box.path('end')}+exit:0}}", "hang")
    d.submit({**json.loads(group.job(steps).read_text()), "name": "job"})
    d.wait_event("job", "host-joined")
    group.host("--spec", group.job(puppet(f"mark:{up}", "if-rank:2:{exit:0}", "if-rank:3:{exit:0}", "hang")))
    runs(up, 0, 4)
    for _ in range(2):
        d.call("StopWorkers", job="job", workers="worker:0")
        d.call("StartWorker", job="job", role="worker", index=0)
    ended = sum(e["event"] == "worker-ended" for e in d.events("job"))
    box.path("end").touch()
    d.wait_event("job", "worker-ended", count=ended + 1)
    # Worker 0 runs, so the others' success does not end the group.
    assert d.status("job")["state"] == "running"
    d.call("Stop", job="job")
    assert d.wait("job")["state"] == "stopped" and group.hosts[0].wait().rc == 143


def test_a_worker_whose_own_restarts_are_used_up_fails_the_group(box, up):
    group = Group(box, "2")
    for _ in range(2):
        group.start(puppet(f"mark:{up}", f"barrier:{box.path('met')}", "if-rank:3:exit:4", "hang"),
                    restart={"max": 1, "backoff": "0", "scope": "worker"})
    first, second = group.wait()
    assert (first.rc, second.rc) == (4, 4)
    assert len([1 for _, r, a in ranks(up) if (r, a) == (3, 0)]) == 2  # alone, and once
    assert {a for _, _, a in ranks(up)} == {0}


def test_a_host_that_comes_later_has_all_start_again(box, up):
    group = Group(box, "1:2")
    steps = puppet(f"mark:{up}", f"wait-file:{box.path('end')}")
    group.start(steps, rendezvous={"join_delay": "0", "lease": "500ms"})
    runs(up, 0, 2)
    group.start(steps, rendezvous={"join_delay": "0", "lease": "500ms"})
    runs(up, 1, 4)
    box.path("end").touch()
    assert [r.rc for r in group.wait()] == [0, 0]


def test_a_spare_takes_the_seat_of_a_host_that_is_lost(box, up):
    group = Group(box, "2")
    steps = puppet(f"mark:{up}", f"wait-file:{box.path('end')}")
    for _ in range(2):
        group.start(steps)
    runs(up, 0, 4)
    spare = group.start(steps)
    # Its first own event says that it waits.
    events = wait_for(lambda: list(box.path("logs2").glob("*/events.jsonl")), what="the spare's events")
    wait_lines(events[0], 1)
    group.hosts[1].signal(signal.SIGTERM)
    runs(up, 1, 4)
    box.path("end").touch()
    assert spare.wait().rc == 0 and group.hosts[0].wait().rc == 0


def test_hosts_that_get_notice_at_once_all_leave_on_it(box, up):
    group = Group(box, "2")
    for _ in range(2):
        group.start(puppet("if-rank:0:ignore:TERM", f"mark:{up}", "hang"), replicas=1,
                    stop={"timeout": "200ms"},
                    preemption={"notices": ["signal"], "how": "signal", "timeout": "1s"})
    runs(up, 0, 2)
    # The first one's worker still runs when the other one's has left.
    group.hosts[0].signal(signal.SIGTERM)
    group.hosts[0].wait_err("notice of preemption")
    group.hosts[1].signal(signal.SIGTERM)
    results = group.wait()
    assert [r.rc for r in results] == [42, 42], results


def test_the_guard_of_an_agent_that_died_tells_the_head(box, up):
    """No lease of a minute is waited for."""
    group = Group(box, "1:2")
    for _ in range(2):
        group.start(puppet(f"mark:{up}", f"wait-file:{box.path('end')}"),
                    rendezvous={"last_call": "20s", "lease": "60s"})
    runs(up, 0, 4)
    os.kill(agent_of(group.hosts[1]), signal.SIGKILL)
    assert group.hosts[1].wait().rc == 125
    runs(up, 1, 2)
    gone(up, 0)
    box.path("end").touch()
    assert group.hosts[0].wait().rc == 0


def test_the_end_of_the_heads_guard_ends_no_group(box, up):
    group = Group(box, "1:2")
    for _ in range(2):
        group.start(puppet(f"mark:{up}", "hang"), rendezvous={"last_call": "20s", "lease": "1s"})
    runs(up, 0, 4)
    group.hosts[0].signal(signal.SIGKILL)
    gone(up, 0)
    group.start(puppet(f"mark:{up}", "hang"), rendezvous={"last_call": "20s", "lease": "1s"})
    runs(up, 1, 4)
    group.hosts[2].signal(signal.SIGTERM)
    assert [h.wait().rc for h in group.hosts[1:]] == [143, 143]


def test_too_few_hosts_end_after_the_limit_and_are_named(box):
    group = Group(box, "2:3")
    group.start(puppet("hang"), rendezvous={"join_timeout": "1s"})
    r = group.hosts[0].wait()
    assert r.rc == 124 and "1 of at least 2 hosts were there for 1s: " in r.err


def test_tf_config_has_the_workers_of_all_hosts(box):
    group = Group(box, "2")
    for _ in range(2):
        group.start(puppet(f"env:{box.path('env')}.%r"), compat={"tf_config": True})
    assert [r.rc for r in group.wait()] == [0, 0]
    configs = [json.loads(variables(box.path(f"env.{r}"))["TF_CONFIG"]) for r in range(4)]
    assert [c["task"]["index"] for c in configs] == [0, 1, 2, 3]
    assert all(c["cluster"] == configs[0]["cluster"] for c in configs)
    assert len(set(configs[0]["cluster"]["worker"])) == 4


@needs_library
def test_workers_of_all_hosts_share_keys_barriers_and_results(box):
    group = Group(box, "2")
    code = """if True:
        import elasticd
        job = elasticd.init()
        job.kv.put(f"from/{job.rank}", str(job.rank))
        for other in range(4):
            assert job.kv.get(f"from/{other}") == str(other).encode()
        job.barrier("all")
        assert [e.key for e in job.kv.list("from")] == [f"from/{r}" for r in range(4)]
        assert [w.worker for w in job.states()] == [f"worker:{i}" for i in range(4)]
        assert job.alive() == [f"worker:{i}" for i in range(4)]
        job.result(f"result {job.rank}")
        job.leave()
        """
    for _ in range(2):
        group.start(None, roles=[{"name": "worker", "replicas": 2, "command": [sys.executable, "-c", code],
                                  "env": ENV}])
    assert [r.rc for r in group.wait()] == [0, 0]
    # The host that leads has those of all; each host keeps those of its own workers.
    kept = [json.loads(next(box.path(f"logs{i}").glob("*/results.json")).read_text()) for i in range(2)]
    assert [r["value"] for r in kept[0]["results"]] == [f"result {r}" for r in range(4)]
    assert [r["value"] for r in kept[1]["results"]] == ["result 2", "result 3"]


def test_jobs_of_two_daemons_are_one_group(box, up):
    group = Group(box, "2")
    daemons = [box.new_daemon(name=f"d{i}") for i in range(2)]
    label = os.uname().nodename.split(".")[0]
    for i, d in enumerate(daemons):
        d.start()
        job = group.job(puppet(f"mark:{up}", f"wait-file:{box.path('end')}"))
        _, run = d.submit({**json.loads(job.read_text()), "name": f"job{i}"})
        assert re.fullmatch(rf"job{i}\.{label}_[a-z0-9]{{8}}", run)
    runs(up, 0, 4)
    for i, d in enumerate(daemons):
        d.wait(f"job{i}", until="running")
    # Each shows what it knows: one of them leads, and has both hosts with their ranks.
    known = [d.status(f"job{i}")["hosts"] for i, d in enumerate(daemons)]
    assert [[h["leads"] for h in hosts].count(True) for hosts in known] == [1, 1]
    lead = next(hosts for hosts in known if len([h for h in hosts if "first_rank" in h]) == 2)
    assert sorted((h["group_rank"], h["first_rank"], h["workers"]) for h in lead) == [(0, 0, 2), (1, 2, 2)]
    shown = daemons[1].ctl("status", "job1")
    assert "ranks 2-3, running" in shown.out
    box.path("end").touch()
    assert [d.wait(f"job{i}")["state"] for i, d in enumerate(daemons)] == ["succeeded"] * 2


def test_a_host_that_waits_for_the_head_can_be_stopped_at_once(box):
    group = Group(box, "2")
    host = group.host("--spec", group.job(puppet("hang"), rendezvous={"lead": "never"}))
    events = wait_for(lambda: list(box.path("logs0").glob("*/events.jsonl")), box.dir, what="events")
    wait_lines(events[0], 1)
    host.signal(signal.SIGINT)
    r = host.wait()
    assert r.rc == 130 and r.seconds < 60, r
