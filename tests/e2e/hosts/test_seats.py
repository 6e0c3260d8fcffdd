# SPDX-License-Identifier: Apache-2.0
"""restart.scope worker over hosts: the others go on without a lost host, and another one gets its ranks."""

import os
import signal

from etcd_group import EtcdGroup
from group import Group, Worker
from harness import alive, puppet, wait_for
from shared_hosts import HostsHands, HostsTrainees
from test_leave import Daemons
from test_noticed import at_steps, preempt
from workers import Worker as Sharing

ALONE = {"scope": "worker", "max": 3}


def starts(group, host):
    """The workers that this host has started, in their order."""
    return [Worker(int(r), int(rank), h, *map(int, others))
            for r, rank, h, *others in group.lines("start") if h == f"node{host}"]


def wait_start(group, host, count=1):
    return wait_for(lambda: starts(group, host)[count - 1:], group.dir, what=f"a worker of node{host}")[0]


def assert_same_seat(new, old):
    assert (new.round, new.rank, new.world, new.attempt) == (old.round, old.rank, old.world, old.attempt)


def hosts_of(daemon):
    return {h["host"]: h for h in daemon.status("g", live=True)["hosts"]}


def known(group):
    return {h["name"] for h in group.etcd.keys()["state"]["hosts"]}


def test_the_others_go_on_and_the_newcomer_has_the_lost_ranks(box):
    group = Daemons(box, 4, "2:3", restart=ALONE, child=False, last_call="60s")
    first = group.submit(0, 1, 2).wait_round(0, 1, 2)
    lost, others = first.workers[1], [first.workers[0], first.workers[2]]
    # The host that comes back would get its own seat.
    agent = group.daemons[1].agent_pid("g")
    group.daemons[1].kill()
    os.kill(agent, signal.SIGKILL)
    vacant = group.daemons[0].wait_event("g", "seat-vacant")
    assert vacant["data"] == {"host": "node1", "first_rank": lost.rank, "workers": 1}
    group.wait_end_of(lost)
    seat = hosts_of(group.daemons[2])["node1"]
    assert (seat["state"], seat["group_rank"], seat["first_rank"]) == ("vacant", lost.rank, lost.rank)
    assert f"node1: rank {lost.rank}, vacant" in group.ctl(0, "status", "g").out
    new = wait_start(group.submit(3), 3)
    assert_same_seat(new, lost)
    wait_for(lambda: hosts_of(group.daemons[0])["node3"]["state"] == "running", what="node3 to run")
    assert "node1" not in hosts_of(group.daemons[0])
    assert group.daemons[3].status("g", live=True)["workers"][0]["start"] == 1
    assert all(alive(w.pid) for w in others) and len(group.lines("start")) == 4
    # Its failure is its own; that of the group is not counted.
    group.kill_worker(new, signal.SIGUSR2)
    again = wait_start(group, 3, count=2)
    assert_same_seat(again, lost)
    for worker in [*others, again]:
        group.kill_worker(worker, signal.SIGUSR1)
    for i in (0, 2, 3):
        assert group.daemons[i].wait("g")["verdict"]["result"] == "succeeded"
    group.check()


def test_a_spare_takes_the_seat_of_a_host_that_leaves(box):
    group = Daemons(box, 4, "3", restart=ALONE, child=False)
    first = group.submit(0, 1, 2).wait_round(0, 1, 2)
    group.submit(3).daemons[0].wait_event("g", "host-joined", count=4)
    assert group.ctl(0, "drain", "g", "node2").rc == 0
    assert_same_seat(wait_start(group, 3), first.workers[2])
    assert group.daemons[2].wait("g")["verdict"]["exit_status"] == 143
    # A failure that is the group's stops all, the newcomer, too.
    group.daemons[0].call("Restart", job="g")
    second = group.wait_round(0, 1, 3, after=first)
    assert second.workers[3].rank == first.workers[2].rank
    assert {w.attempt for w in second.workers.values()} == {1}
    group.end(0, 1, 3)


def test_an_agent_that_is_started_again_takes_its_own_seat(box):
    group = Daemons(box, 3, "2:3", restart=ALONE, child=False, last_call="60s")
    first = group.submit(0, 1, 2).wait_round(0, 1, 2)
    os.kill(group.daemons[1].agent_pid("g"), signal.SIGKILL)
    assert_same_seat(wait_start(group, 1, count=2), first.workers[1])
    assert all(alive(first.workers[i].pid) for i in (0, 2)) and len(group.lines("start")) == 4
    group.end(0, 1, 2)


def test_the_job_waits_for_lost_workers_as_long_as_others_may_come(box):
    group = Group(box, 3, "1:3", restart=ALONE, child=False, last_call="60s", join_timeout="1s")
    # The head must be up before the others' second begins.
    group.start(0).wait_event('"host-joined"')
    first = group.start(1, 2).wait_round(0, 1, 2)
    late = "host node%d left rank %d, which no other host has taken for "
    group.kill_agent(1)
    group.runs[0].wait_err(late % (1, 1))
    group.kill_agent(2)
    group.kill_worker(first.workers[0], signal.SIGUSR1)
    wait_for(lambda: len(group.lines("end")) == 1, group.dir, what="the other's end")
    assert group.runs[0].popen.poll() is None
    result = group.runs[0].wait()
    assert result.rc == 0 and [result.err.count(late % (i, i)) for i in (1, 2)] == [1, 1], result
    group.check()


def test_fewer_than_min_for_join_timeout_end_the_job(box):
    group = Group(box, 3, "3", restart=ALONE, child=False, join_timeout="2s")
    group.start(0).wait_event('"host-joined"')
    first = group.start(1, 2).wait_round(0, 1, 2)
    group.kill_agent(1)
    results = [group.runs[i].wait() for i in (0, 2)]
    assert [r.rc for r in results] == [124, 124]
    _, _, there = results[0].err.partition("2 of at least 3 hosts were there for 2s: ")
    assert there.startswith(("node0, node2", "node2, node0")), results[0].err  # as they joined
    assert len(group.lines("start")) == 3 and not alive(first.workers[0].pid)
    group.check()


def test_workers_that_know_all_addresses_start_again_together(box):
    group = Group(box, 3, "2:3", restart=ALONE, child=False, last_call="60s")
    first = group.start(change={"compat": {"tf_config": True}}).wait_round(0, 1, 2)
    group.kill_agent(1)
    group.wait_round(0, 2, after=first)
    group.runs[1] = None
    group.stop()


def test_etcd_knows_the_newcomer_and_the_next_head_begins_a_round_with_it(box):
    group = EtcdGroup(box, 4, "2:3", restart=ALONE, child=False, last_call="60s")
    group.start(0)
    group.wait_leads(0)
    first = group.start(1, 2).wait_round(0, 1, 2)
    assert {w.attempt for w in first.workers.values()} == {0}
    group.kill_agent(1)
    wait_for(lambda: known(group) == {"node0", "node2"}, what="etcd to forget node1")
    assert_same_seat(wait_start(group.start(3), 3), first.workers[1])
    assert known(group) == {"node0", "node2", "node3"} and group.etcd.keys()["state"]["attempt"] == 1
    assert all(alive(first.workers[i].pid) for i in (0, 2))
    group.kill_agent(0)
    second = group.wait_round(2, 3, after=first)
    assert {w.attempt for w in second.workers.values()} == {1}
    group.runs[0] = group.runs[1] = None
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def lose(group, host):
    """Kills the agent of that host, which does not come back."""
    daemon = group.daemon.daemons[host]
    agent = daemon.agent_pid(group.name)
    daemon.kill()
    os.kill(agent, signal.SIGKILL)
    group.daemon.daemons[0].wait_event(group.name, "seat-vacant")


class Shared(HostsHands):
    """Three workers on as many hosts."""

    def __init__(self, box):
        super().__init__(box, {"roles": [{"replicas": 3, "command": puppet("hang")}], "restart": ALONE,
                               "rendezvous": {"nodes": "2:3"}})

    def sharing(self, name):
        env = self.environment(name)
        self.open.append(Sharing(env["ELASTICD_WORKER_SOCKET"], env["ELASTICD_TOKEN"]))
        return self.open[-1]


def test_what_a_lost_worker_had_goes_on_with_the_others(box):
    g = Shared(box)
    me, kept = g.sharing("worker:0"), "worker:1"
    hand, lost = g.hand("worker:2"), g.hand(kept)
    task = hand.submit("a")
    assert lost.work()["task"] == task
    me.send("Barrier", name="x", members=["worker:0", kept])
    g.sharing("worker:0").put("k", "v")  # after it
    lose(g, 1)
    g.add_host()
    del g.daemon.daemons[1]
    failed = me.error()
    assert failed.parameters["missing"] == [kept] and "is gone" in failed.parameters["message"]
    assert hand.work()["task"] == task
    # Its next process, on the new host, shares what the others have.
    fresh = g.sharing(kept)
    assert fresh.get("k") == b"v"
    for worker in (me, fresh):
        worker.send("Barrier", name="x", members=["worker:0", kept])
    for worker in (me, fresh):
        worker.reply()
    g.close()


def test_a_notice_does_not_wait_for_lost_workers_and_none_starts_meanwhile(box):
    job = HostsTrainees(box, 3, rendezvous={"nodes": "1:3", "last_call": "60s"}, restart=ALONE)
    team = job.there = job.team()
    at_steps(team, 1, 2, 3)
    lose(job, 1)
    left = job.there = [team[0], team[2]]
    preempt(job, 2, reason="spot")
    for t in left:
        assert t.until_told() == ("save_exit", 4)
    job.add_host()
    del job.daemon.daemons[1]
    for t in left:
        t.save_and_leave()
    first, noticed, fresh = job.daemon.daemons
    assert noticed.wait(job.name)["verdict"]["exit_status"] == 42
    for d in (first, fresh):
        d.until_attempt(job.name, 1)
    events = [e["event"] for e in first.events(job.name)]
    assert "seat-taken" not in events and events.count("all-saved") == 1
    job.close()
