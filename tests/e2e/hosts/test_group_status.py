# SPDX-License-Identifier: Apache-2.0
"""status, why, errors and dump show the group's state on any host."""

import json
import os
import pathlib
import re
import signal

import pytest

from clocks import Clocks
from etcd_group import EtcdGroup
from group import Group
from harness import VarlinkError, spec, wait_for
from shared_hosts import HostsGroup, HostsTrainees
from stranger import third_of_three
from trainees import SAVE_AT_AT


@pytest.fixture
def group_of(box):
    groups = []

    def make(*steps, replicas=6, **top):
        groups.append(HostsGroup(box, spec(*steps, replicas=replicas, **top)))
        return groups[-1]

    yield make
    for g in groups:
        g.close()


def places(job):
    return [(h["group_rank"], h["first_rank"], h["workers"], h["state"], h["leads"]) for h in job["hosts"]]


def test_every_host_shows_a_line_for_each_host(group_of):
    group = group_of("hang", rendezvous={"lease": "1s"})
    daemons = group.daemon.daemons
    expected = [(i, 2 * i, 2, "running", i == 0) for i in range(3)]
    for d in daemons:
        job = d.watch(group.name, lambda j, _: j["state"] == "running")
        wait_for(lambda d=d: all("offset_us" in h for h in d.status(group.name)["hosts"]), d.box.dir,
                 what="the clocks of all hosts")
        job = d.status(group.name)
        assert places(job) == expected and "note" not in job
        for h in job["hosts"]:
            assert h["version"] and h["heard_us"] > 0 and h["uncertainty_us"] >= 0, h
        assert [h["roles"] for h in job["hosts"]] == [
            [{"role": "worker", "workers": 2, "first_rank": 2 * i, "first_index": 2 * i}] for i in range(3)]
        # The workers are this host's own.
        assert len(job["workers"]) == 2 and job["workers"][0]["pid"] > 0
        lines = [line.strip() for line in d.ctl("status", group.name).out.splitlines() if "running" in line]
        for i in range(3):
            found = [x for x in lines if re.search(rf"\b{i} \S+: ranks {2 * i}-{2 * i + 1}, running", x)]
            assert len(found) == 1, lines
            clock = r"clock [+-][\d.]+ ms \(\+-[\d.]+ ms\)"
            assert re.search(rf"heard .* ago, {clock}, version \d", found[0]), found
            assert (", leads" in found[0]) == (i == 0)


def test_a_picture_has_the_times_of_the_host_that_leads(box):
    group = Group(box, 2, "2").start(0)
    Clocks(box)(wall=3600.5)  # of what starts from now on
    group.start(1).wait_round(0, 1)

    def told():
        of = next(box.path("logs").glob("g.node1_*/events.jsonl")).read_text().splitlines()
        return [e for e in map(json.loads, of) if e["event"] == "clock"]

    clock = wait_for(told, what="the clock of node1")[0]
    assert abs(clock["data"]["offset_us"] / 1e6 + 3600.5) < 0.4, clock
    assert clock["text"] == "the clock of this host is 1h 0m ahead of that of the host that leads"
    group.stop()
    runs = [next(box.path("logs").glob(f"g.node{i}_*")) for i in range(2)]
    page = box.ctl("plot", "--html", *runs).out
    begin, end = re.search(r'data-from="(\d+)" data-to="(\d+)"', page).groups()
    assert 0 < int(end) - int(begin) < 1800e6
    assert not any(e["event"] == "clock" for e in map(json.loads, (runs[0] / "events.jsonl").open()))


def test_the_budget_and_why_are_the_groups_on_every_host(box, group_of):
    group = group_of(f"if-attempt:0:{{wait-file:{box.path('fail')}+if-rank:5:exit:7}}", "hang",
                     restart={"max": 3, "backoff": "0"})
    box.path("fail").touch()
    group.daemon.until_attempt(group.name, 1)
    answers = [d.call("Why", job=group.name) for d in group.daemon.daemons]
    for d, answer in zip(group.daemon.daemons, answers):
        assert answer == answers[0] and "note" not in answer
        assert answer["budget"]["used"] == 1 and answer["budget"]["left"] == 2
        assert answer["budget"]["by_cause"] == {"exit": 1}
        assert "1 of 3 restarts used" in answer["text"] and "worker:5 on " in answer["text"]
        job = d.status(group.name)
        assert (job["restarts"], job["max_restarts"]) == (1, 3)
        r = d.ctl("why", group.name)
        assert r.rc == 0 and "1 of 3 restarts used; 2 left" in r.out, r


def test_the_first_failure_is_shown_on_every_host(box, group_of):
    steps = f"if-attempt:0:{{wait-file:{box.path('fail')}+if-rank:3:{{eprint:boom+exit:7}}}}"
    group = group_of(steps, "hang", restart={"max": 1, "backoff": "0"}, logs={"redirects": 3})
    box.path("fail").touch()
    group.daemon.until_attempt(group.name, 1)
    for d in group.daemon.daemons:
        for parameters in ({}, {"attempt": 0}):
            failures = d.call("Errors", job=group.name, **parameters)["failures"]
            assert (failures[0]["rank"], failures[0]["exit"]) == (3, {"code": 7}), failures
            assert failures[0]["stderr_tail"] == ["boom"]
            assert [f["rank"] for f in failures].count(3) == 1
        assert d.call("Errors", job=group.name, attempt=1)["failures"] == []
        with pytest.raises(VarlinkError) as e:
            d.call("Errors", job=group.name, attempt=9)
        assert e.value.name == "NotFound"
        assert "worker:3" in d.ctl("errors", group.name).out
    # So it is afterwards, when each host has its own record.
    group.daemon.call("Stop", job=group.name)
    for d in group.daemon.daemons:
        d.wait(group.name)
        failures = d.call("Errors", job=group.name, attempt=0)["failures"]
        assert failures[0]["rank"] == 3 and failures[0]["stderr_tail"] == ["boom"], failures


def test_a_notice_and_the_step_that_was_saved_are_shown_on_every_host(box):
    group = HostsTrainees(box, 3, preemption={"grace": "10m"})
    team = group.team()
    for t in team:
        assert t.step() == "continue"
    group.preempt(1, reason="a test")
    wait_for(lambda: all(t.notice() and t.word(SAVE_AT_AT, "q") > -1 << 63 for t in team),
             what="the agreed step on all boards")
    for t in team[:2]:
        action, step = t.until_told()
        assert action == "save"
        t.saved()
    for d in group.daemon.daemons:
        shown = d.status(group.name)["preemption"]
        assert (shown["reason"], shown["state"], shown["step"], shown["saved"], shown["participants"]) == (
            "a test", "saving", step, 2, 3), shown
        assert "a test" in d.ctl("status", group.name).out
    group.daemon.call("Stop", job=group.name, timeout_ms=0)
    group.close()


def test_a_host_without_a_link_says_that_it_knows_only_itself(group_of):
    group = group_of("hang", restart={"max": 0}, rendezvous={"lease": "6s"})
    lead, other, _ = group.daemon.daemons
    os.kill(lead.agent_pid(group.name), signal.SIGKILL)
    # Its workers live until its lease is over.
    wait_for(lambda: "note" in other.status(group.name), other.box.dir, what="a host without a link")
    dump = other.call("Dump", job=group.name)
    assert len(dump["dirs"]) == 2 and "no link" in dump["note"], dump
    wait_for(lambda: other.status(group.name)["hosts"][0]["state"] == "away", other.box.dir,
             what="a host without a head")
    note = "only what host {} knows: there is no link to the host that leads the group"
    job = other.status(group.name)
    assert job["note"] == note.format(job["hosts"][0]["host"])
    assert f"Note: {job['note']}" in " ".join(other.ctl("status", group.name).out.split())
    for verb in ("why", "errors"):
        r = other.ctl(verb, group.name)
        assert r.rc == 0 and job["note"] in r.err, r


def test_a_host_that_leads_and_does_not_answer_is_not_waited_for(group_of):
    group = group_of("hang", restart={"max": 0}, rendezvous={"lease": "20s"})
    lead, other, _ = group.daemon.daemons
    agent = lead.agent_pid(group.name)
    os.kill(agent, signal.SIGSTOP)
    try:
        job = other.status(group.name)
        assert job["note"].endswith("the host that leads the group has not answered"), job
        assert len(job["workers"]) == 2
        for method in ("Why", "Errors"):
            assert "note" in other.call(method, job=group.name)
    finally:
        os.kill(agent, signal.SIGCONT)



@pytest.mark.ci
def test_one_call_dumps_the_workers_of_all_hosts(group_of):
    group = group_of("hang")
    daemons = group.daemon.daemons
    for n, d in enumerate(daemons):
        answer = d.call("Dump", job=group.name)
        assert len(answer["dirs"]) == 6 and "note" not in answer, answer
        for where in answer["dirs"]:
            directory = pathlib.Path(where.split(":")[-1])
            assert directory.joinpath("why.txt").read_text().endswith(": asked for\n"), where
        per_host = [sum(str(x.base) in where for where in answer["dirs"]) for x in daemons]
        assert per_host == [2, 2, 2], (n, answer)
    answer = daemons[0].call("Dump", job=group.name, workers="3,worker:4")
    assert [any(str(d.base) in where for where in answer["dirs"]) for d in daemons] == [False, True, True]
    assert len(answer["dirs"]) == 2
    with pytest.raises(VarlinkError) as e:
        daemons[1].call("Dump", job=group.name, workers="9")
    assert e.value.name == "NotFound" and "9" in e.value.parameters["worker"]


def test_a_host_that_does_not_dump_in_time_is_named(group_of):
    group = group_of("hang", rendezvous={"lease": "20s"})
    lead, other, silent = group.daemon.daemons
    agent = silent.agent_pid(group.name)
    os.kill(agent, signal.SIGSTOP)
    try:
        answer = other.call("Dump", job=group.name, timeout_ms=500)
    finally:
        os.kill(agent, signal.SIGCONT)
    assert len(answer["dirs"]) == 4 and answer["note"].startswith("no answer of host "), answer


def test_a_host_that_names_failures_of_another_host_s_workers_is_not_believed(box):
    group, s, n = third_of_three(box)
    s.say("Call", round=n, worker="", connection=1,
          message={"method": "io.elasticd.Manager.Errors", "parameters": {"job": ""}})
    call = s.wait("Call")["connection"]
    failure = {"role": "worker", "index": 0, "rank": 0, "local_rank": 0, "host": "node0", "attempt": 0,
               "time_us": 1, "exit": {"code": 1}, "message": "it failed", "collateral": False}
    s.say("Answer", connection=call, message={"parameters": {"failures": [failure]}})
    assert s.wait("Answer")["message"]["parameters"]["failures"] == []
    group.stop()


class Elected(EtcdGroup):
    """The same under an elasticd on each host, which etcd has elect the host that leads."""

    def __init__(self, box, count, nodes):
        super().__init__(box, count, nodes)
        self.daemons = [box.new_daemon(name=f"d{i}") for i in range(count)]
        for i, (daemon, node) in enumerate(zip(self.daemons, self.net.nodes)):
            daemon.prefix = node.command()
            daemon.start()
            daemon.submit(self.document)
            if i == 0:
                self.wait_leader(0)


def test_readers_end_where_the_host_that_leads_leads_no_more(box):
    group = Elected(box, 3, "2:3")
    first = group.wait_round(0, 1, 2)
    lead, other, _ = group.daemons
    with lead.connect() as near, other.connect() as far:
        for v in (near, far):
            v.send("Logs", more=True, job="g", follow=True)
        wait_for(lambda: len(lead.status("g")["hosts"]) == 3, box.dir, what="three hosts")
        group.etcd.pause()
        group.net.cut(2)
        group.wait_end_of(first.workers[0])
        group.etcd.go_on()
        group.wait_round(0, 1, after=first)
        for v in (near, far):
            message = v.receive()
            while message.get("continues"):
                message = v.receive()
            assert message["error"].endswith(".Unavailable"), message
    group.net.heal(2)
    group.wait_round(0, 1, 2)
    for d in group.daemons:
        wait_for(lambda d=d: len(d.status("g")["hosts"]) == 3, box.dir, what="three hosts")
    group.daemons[1].call("Stop", job="g")
    for d in group.daemons:
        assert d.wait("g")["state"] == "stopped"
