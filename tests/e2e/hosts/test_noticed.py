# SPDX-License-Identifier: Apache-2.0
"""A notice of preemption on one of several hosts: all workers save at one step, and the host leaves."""

import os
import signal
import time

import pytest

from harness import SLOWER, wait_for
from local_etcd import LocalEtcd
from several_hosts import free_port
from shared_hosts import HostsTrainees
from trainees import SAVE_AT_AT, preempt as preempt_job


@pytest.fixture
def job_of(box):
    jobs = []

    def make(hosts, n=1, **document):
        jobs.append(HostsTrainees(box, hosts, n, **document))
        return jobs[-1]

    yield make
    for job in jobs:
        job.close()


def at_steps(team, *steps):
    for t, n in zip(team, steps):
        while t.n < n:
            assert t.step() == "continue"


def preempt(job, host, **parameters):
    """Gives notice, and waits until a step is agreed on: no worker begins one meanwhile."""
    job.preempt(host, **parameters)
    heard(job)


def heard(job):
    wait_for(lambda: all(t.notice() and t.word(SAVE_AT_AT, "q") > -1 << 63 for t in job.there),
             what="the agreed step on all boards")


def verdicts(job):
    return [(j["verdict"]["result"], j["verdict"]["exit_status"]) for j in job.ended()]


def test_all_hosts_save_at_one_step_and_leave_where_none_can_be_spared(job_of):
    job = job_of(3, n=2)
    team = job.there = job.team()
    at_steps(team, 3, 5, 4, 5, 9, 1)
    preempt(job, 2, reason="maintenance")
    for t in team:
        assert t.until_told() == ("save_exit", 10)
        t.saved(f"/ckpt/{t.rank}")
    for t in team:
        assert t.step() == "exit", "it saves once"
        t.leave()
    assert verdicts(job) == [("preempted", 42)] * 3
    messages = {j["verdict"]["message"] for j in job.ended()}
    assert len(messages) == 1 and "maintenance; all 6 saved at step 10" in messages.pop()
    lead = job.daemon.daemons[0]
    names = [e["event"] for e in lead.events(job.name)]
    assert [names.count(n) for n in ("notice", "agreed", "saved", "all-saved")] == [1, 1, 6, 1]
    # Workers of the head's own host are shown with the checkpoints that they have saved.
    assert [(w["state"], w["saved_step"], w["saved_path"]) for w in lead.wait(job.name)["workers"]] == [
        ("stopped", 10, "/ckpt/0"), ("stopped", 10, "/ckpt/1")]


def test_the_others_go_on_without_a_host_that_has_a_notice(job_of):
    job = job_of(3, rendezvous={"nodes": "2:3", "last_call": "60s"}, restart={"max": 0})
    team = job.there = job.team()
    at_steps(team, 1, 2, 3)
    preempt(job, 1, reason="spot")
    for t in team:
        assert t.until_told() == ("save_exit", 4)
        t.save_and_leave()
    first, noticed, last = job.daemon.daemons
    verdict = noticed.wait(job.name)["verdict"]
    assert (verdict["result"], verdict["exit_status"]) == ("preempted", 42) and "spot" in verdict["message"]
    for d in (first, last):
        d.until_attempt(job.name, 1)
        d.wait(job.name, until="running")
    job.daemon.daemons = [first, last]
    team = job.there = job.team()
    # The notice is over, and the restart was not counted.
    assert [t.env["WORLD_SIZE"] for t in team] == ["2", "2"]
    assert [t.env["TORCHELASTIC_RESTART_COUNT"] for t in team] == ["0", "0"]
    assert not any(t.notice() for t in team)
    at_steps(team, 7, 8)
    # A second notice is one of its own. Now no host can be spared.
    preempt(job, 1, reason="again")
    for t in team:
        assert t.until_told() == ("save_exit", 9)
        t.save_and_leave()
    assert verdicts(job) == [("preempted", 42)] * 2


def test_all_leave_where_the_group_is_to_stay_whole(job_of):
    job = job_of(2, rendezvous={"nodes": "1:2", "last_call": "60s"}, preemption={"whole": True})
    team = job.there = job.team()
    at_steps(team, 1, 1)
    preempt(job, 1)
    for t in team:
        assert t.until_told() == ("save_exit", 2)
        t.save_and_leave()
    assert verdicts(job) == [("preempted", 42)] * 2


def test_all_leave_on_a_notice_of_the_host_that_leads(job_of):
    job = job_of(2, rendezvous={"nodes": "1:2", "last_call": "60s"})
    team = job.there = job.team()
    at_steps(team, 1, 1)
    preempt(job, 0)
    for t in team:
        assert t.until_told() == ("save_exit", 2)
        t.save_and_leave()
    assert verdicts(job) == [("preempted", 42)] * 2


@pytest.mark.parametrize("away", [False, True], ids=["hands-over", "etcd-away"])
def test_the_host_that_leads_hands_the_lead_over_on_its_notice_while_etcd_answers(box, job_of, away):
    etcd = LocalEtcd(box)
    job = job_of(3, restart={"max": 0},
                 rendezvous={"backend": "etcd", "endpoints": etcd.address, "nodes": "2:3", "last_call": "60s",
                             "lease": f"{2 * SLOWER}s"})
    team = job.there = job.team()
    at_steps(team, 1, 2, 3)
    if away:
        etcd.pause()
        time.sleep(2.5 * SLOWER)
    preempt(job, 0, reason="spot")
    for t in team:
        assert t.until_told() == ("save_exit", 4)
        t.save_and_leave()
    if away:
        assert verdicts(job) == [("preempted", 42)] * 3
        return
    first, *others = job.daemon.daemons
    verdict = first.wait(job.name)["verdict"]
    assert (verdict["result"], verdict["exit_status"]) == ("preempted", 42) and "spot" in verdict["message"]
    for d in others:
        d.until_attempt(job.name, 1)
        d.wait(job.name, until="running")
    job.daemon.daemons = others
    team = job.there = job.team()
    assert [t.env["WORLD_SIZE"] for t in team] == ["2", "2"]
    assert [t.env["TORCHELASTIC_RESTART_COUNT"] for t in team] == ["0", "0"]
    assert not any(t.notice() for t in team)
    # Now no host can be spared, whichever leads.
    at_steps(team, 7, 8)
    preempt(job, 0, reason="again")
    for t in team:
        assert t.until_told() == ("save_exit", 9)
        t.save_and_leave()
    assert verdicts(job) == [("preempted", 42)] * 2
    wait_for(lambda: {key.rpartition("/")[2] for key in etcd.keys()} <= {"end"},
             what="nothing else to stay in etcd")


def test_with_a_grace_period_all_save_again_at_one_step(job_of):
    job = job_of(2)
    team = job.there = job.team()
    at_steps(team, 1, 5)
    preempt(job, 1, grace_ms=600000)
    for t in team:
        assert t.until_told() == ("save", 6)
        t.saved()
    wait_for(lambda: [e for e in job.daemon.events(job.name) if e["event"] == "countdown"],
             what="the time between the two saves")
    at_steps(team, 20, 30)
    job.preempt(0, grace_ms=0)
    wait_for(lambda: all(-1 << 63 < t.word(SAVE_AT_AT, "q") <= 31 for t in team),
             what="the second agreed step")
    for t in team:
        assert t.until_told() == ("save_exit", 31)
        t.save_and_leave()
    assert verdicts(job) == [("preempted", 42)] * 2


def test_workers_without_the_library_get_the_signal_on_all_hosts(job_of):
    job = job_of(2, preemption={"how": "signal"})
    job.preempt(1)
    assert verdicts(job) == [("preempted", 42)] * 2
    for j in job.ended():
        assert [w["state"] for w in j["workers"]] == ["stopped"] and "root_cause" not in j["verdict"]
    assert len([e for e in job.daemon.events(job.name) if e["event"] == "notice-signal"]) == 2


def test_a_worker_that_dies_on_a_notice_keeps_no_other_from_saving(job_of):
    job = job_of(3)
    team = job.there = job.team()
    at_steps(team, 1, 1, 1)
    preempt(job, 0)
    assert team[0].until_told() == ("save_exit", 2)
    os.kill(job.task("worker:1")["pid"], signal.SIGKILL)
    for t in (team[0], team[2]):
        if t is team[2]:
            assert t.until_told() == ("save_exit", 2)
        t.save_and_leave()
    assert verdicts(job) == [("preempted", 42)] * 3
    message = job.ended()[1]["verdict"]["message"]
    assert "2 of 3 saved at step 2" in message and "worker:1" in message


def test_a_worker_gives_notice_for_its_host(job_of):
    job = job_of(2)
    team = job.there = job.team()
    at_steps(team, 4, 2)
    team[1].w.call("Notify", reason="the disk is full")
    heard(job)
    for t in team:
        assert t.until_told() == ("save_exit", 5)
        t.save_and_leave()
    assert verdicts(job) == [("preempted", 42)] * 2


def test_an_error_of_one_host_s_worker_ends_the_steps_of_all(job_of):
    job = job_of(2)
    a, b = job.team()
    at_steps([a, b], 1, 1)
    b.w.call("ReportError", code="Internal", message="loss is NaN")
    # The board says so to a's worker, whose next step asks.
    wait_for(lambda: a.word(56) != 0, what="the error on the board of the other host")
    e = a.w.refused("Step", step=2)
    assert e.name == "GroupFailed" and e.parameters["error"]["worker"] == "worker:1"


def test_all_save_before_the_group_grows(job_of):
    job = job_of(2, started=1, restart={"max": 0},
                 rendezvous={"nodes": "1:2", "last_call": "0", "on_join": "save", "join_delay": "0",
                             "lease": f"{2 * SLOWER}s"})
    lead = job.daemon.daemons[0]
    (t,) = job.there = job.team()
    at_steps([t], 5)
    job.add_host()
    heard(job)
    assert t.until_told() == ("save_exit", 6)
    t.save_and_leave()
    for d in job.daemon.daemons:
        d.wait(job.name, until="running")
    lead.until_attempt(job.name, 1)
    team = job.there = job.team()
    assert [(t.env["WORLD_SIZE"], t.env["TORCHELASTIC_RESTART_COUNT"]) for t in team] == [("2", "0")] * 2
    assert not any(t.notice() for t in team)
    assert "has joined" in next(e["text"] for e in lead.events(job.name) if e["event"] == "notice")
    # The head's end is that of all.
    at_steps(team, 7, 7)
    job.preempt(0)
    heard(job)
    for t in team:
        assert t.until_told() == ("save_exit", 8)
        t.save_and_leave()
    assert verdicts(job) == [("preempted", 42)] * 2


def test_workers_that_are_not_started_yet_keep_no_host(box):
    document = {"name": "job", "roles": [{"replicas": 2, "command": ["sleep", "1000"], "start_delay": "1h"}],
                "rendezvous": {"nodes": "2", "endpoints": f"127.0.0.1:{free_port()}", "id": "group"}}
    daemons = [box.new_daemon(name=f"host{i}") for i in range(2)]
    for d in daemons:
        d.start()
        d.submit(document)
    for d in daemons:
        wait_for(lambda d=d: d.status("job", live=True)["state"] == "starting", d.box.dir, what="a start")
    preempt_job(daemons[1], "job")
    ended = [d.wait("job") for d in daemons]
    assert [(j["verdict"]["result"], j["verdict"]["exit_status"]) for j in ended] == [("preempted", 42)] * 2
    assert {w["state"] for j in ended for w in j["workers"]} == {"stopped"}
