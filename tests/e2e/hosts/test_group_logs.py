# SPDX-License-Identifier: Apache-2.0
"""Logs of the workers of all hosts, on any host."""

import os
import signal
import socket
import time

import pytest

from harness import VarlinkError, line_bytes, spec, wait_for
from shared_hosts import HostsGroup
from stranger import third_of_three


def lines_of(daemon, job, **kwargs):
    """(rank, stream, bytes) of all lines, in the order in which they come."""
    got = []
    with daemon.connect() as v:
        for answer in v.stream("Logs", job=job, **kwargs):
            assert not answer.get("note"), answer
            got += [(line["rank"], line["stream"], line_bytes(line)) for line in answer["lines"]]
    return got


@pytest.fixture
def group_of(box):
    groups = []

    def make(*steps, replicas=3, **top):
        logs = {"redirects": 3, "timestamps": True}
        groups.append(HostsGroup(box, spec(*steps, replicas=replicas, logs=logs, **top)))
        return groups[-1]

    yield make
    for g in groups:
        g.close()


def written(group, *texts):
    """Waits until all workers have written these lines."""
    def there():
        logs = [d.log(d.status(group.name), 0, w["local_rank"], "stdout").read_bytes()
                for d in group.daemon.daemons for w in d.status(group.name)["workers"]]
        return all(text in log for log in logs for text in texts)
    wait_for(there, group.box.dir, what=f"the lines {texts}")


def test_every_host_has_the_lines_of_every_rank(group_of):
    group = group_of("print:one %r", "print:two %r", "eprint:err %r", "print:ready", "hang", replicas=6)
    written(group, b"ready")
    daemons = group.daemon.daemons
    for d in daemons:
        for rank in range(6):
            assert lines_of(d, group.name, ranks=str(rank), stream="stdout") == [
                (rank, "stdout", f"{word} {rank}".encode()) for word in ("one", "two")] + [
                    (rank, "stdout", b"ready")]
        assert {r for r, _, _ in lines_of(d, group.name)} == set(range(6))
        assert {r for r, _, _ in lines_of(d, group.name, ranks="0,3-4")} == {0, 3, 4}
        assert sorted(lines_of(d, group.name, stream="stderr", lines=1)) == [
            (r, "stderr", f"err {r}".encode()) for r in range(6)]
        own = {w["rank"] for w in d.status(group.name)["workers"]}
        assert {r for r, _, _ in lines_of(d, group.name, own=True)} == own and len(own) == 2
        assert lines_of(d, group.name, ranks="5", contains="tw") == [(5, "stdout", b"two 5")]
        for refused, name in (({"ranks": "6"}, "NotFound"), ({"ranks": "1,x"}, "InvalidArgument"),
                              ({"attempt": 9}, "NotFound"), ({"attempt": 9, "ranks": "5"}, "NotFound")):
            with pytest.raises(VarlinkError) as e:
                lines_of(d, group.name, **refused)
            assert e.value.name == name, refused


def test_the_command_shows_workers_of_other_hosts_by_rank_and_by_role(group_of):
    group = group_of("print:line of %r", "print:ready", "hang")
    written(group, b"ready")
    for d in group.daemon.daemons:
        for where in ("1", "worker:1"):
            r = d.ctl("logs", f"{group.name}/{where}", "--raw")
            assert (r.rc, r.out) == (0, "line of 1\nready\n"), r
        r = d.ctl("logs", f"{group.name}/worker:7")
        assert r.rc == 1 and "there is no worker worker:7" in r.err, r


def test_lines_of_all_hosts_come_in_the_order_of_their_times(box, group_of):
    order = [2, 0, 1, 2, 0]
    turns = [f"if-rank:{r}:{{wait-file:{box.path(f'turn{t}')}+print:t{t}}}" for t, r in enumerate(order)]
    group = group_of(*turns, "print:ready", "hang")
    daemons = group.daemon.daemons
    for turn, rank in enumerate(order):
        if turn > 0:
            time.sleep(0.1)  # hosts do not know each other's clocks to the millisecond
        box.path(f"turn{turn}").touch()
        d = daemons[rank]
        log = d.log(d.status(group.name), 0, 0, "stdout")
        wait_for(lambda: f"t{turn}".encode() in log.read_bytes(), log.parent, what=f"line {turn}")
    written(group, b"ready")
    for d in daemons:
        assert [text for _, _, text in lines_of(d, group.name) if text != b"ready"] == [
            b"t0", b"t1", b"t2", b"t3", b"t4"]


def test_a_follower_gets_lines_over_restarts_and_to_the_end_of_the_group(box, group_of):
    steps = ["print:a%a of %r", f"if-attempt:0:if-rank:2:{{wait-file:{box.path('fail')}+exit:3}}",
             "if-attempt:0:hang", f"wait-file:{box.path('end')}", "print:last of %r"]
    group = group_of(*steps, restart={"max": 1, "backoff": "0"})
    daemons = group.daemon.daemons
    with daemons[0].connect() as a, daemons[1].connect() as b, daemons[2].connect() as c:
        streams = [v.stream("Logs", job=group.name, follow=True) for v in (a, b, c)]
        seen = [[] for _ in streams]

        def until(text, count):
            for stream, lines in zip(streams, seen):
                while sum(line_bytes(x).startswith(text) for x in lines) < count:
                    lines += next(stream)["lines"]

        until(b"a0", 3)
        box.path("fail").touch()
        until(b"a1", 3)
        box.path("end").touch()
        for stream, lines in zip(streams, seen):
            for answer in stream:
                lines += answer["lines"]
            got = sorted(line_bytes(x) for x in lines)
            assert got == sorted(f"{w} of {r}".encode() for w in ("a0", "a1", "last") for r in range(3))
    for d in daemons:
        assert d.wait(group.name)["state"] == "succeeded"


def test_a_follower_gets_the_lines_of_hosts_that_come_later_and_none_twice(box):
    rendezvous = {"nodes": "1:3", "last_call": "0", "join_delay": "0", "lease": "2s"}
    group = HostsGroup(box, spec("print:a%a of %r", "hang", replicas=3, logs={"redirects": 3},
                                 rendezvous=rendezvous), started=1)
    lead = group.daemon.daemons[0]
    with lead.connect() as v:
        stream = v.stream("Logs", job=group.name, follow=True)
        lines = []

        def until(text):
            while text not in [line_bytes(x) for x in lines]:
                lines.extend(next(stream)["lines"])

        until(b"a0 of 0")
        group.add_host()
        until(b"a1 of 1")
        # The same host is lost, and joins again with the logs of its earlier attempt.
        agent = group.daemon.daemons[1].agent_pid(group.name)
        os.kill(agent, signal.SIGSTOP)
        until(b"a2 of 0")
        os.kill(agent, signal.SIGCONT)
        until(b"a3 of 1")
        until(b"a3 of 0")
        got = sorted(line_bytes(x) for x in lines)
    assert got == [b"a0 of 0", b"a1 of 0", b"a1 of 1", b"a2 of 0", b"a3 of 0", b"a3 of 1"], got
    group.close()


def test_a_host_that_leaves_waits_for_no_reader(box):
    """The group, of which its own one reads, goes on."""
    document = spec("hang", replicas=3, logs={"redirects": 3}, rendezvous={"nodes": "2:3", "lease": "60s"})
    document["roles"][0]["command"] = ["/bin/sh", "-c", "while echo on; do sleep 0.05; done"]
    group = HostsGroup(box, document)
    lead, _, leaves = group.daemon.daemons
    with leaves.connect() as v, lead.connect() as other:
        streams = [x.stream("Logs", job=group.name, follow=True) for x in (v, other)]
        for stream in streams:
            next(stream)
        began = time.monotonic()
        leaves.call("Leave", job=group.name)
        assert leaves.wait(group.name)["state"] == "stopped"
        # Such a reader is waited for no longer than 10 s where the group itself ends.
        assert time.monotonic() - began < 8
        with pytest.raises(VarlinkError) as e:
            for _ in streams[0]:
                pass
        assert e.value.name == "Unavailable"
        lead.until_attempt(group.name, 1)
        assert next(streams[1])["lines"]


def rss_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_Dirty"))


@pytest.mark.ci
def test_a_reader_that_does_not_read_fills_no_memory_and_misses_nothing(box, group_of):
    """32 MiB on a host that does not lead, read on another one that does not, either."""
    count, size = 32 * 1024, 1024
    group = group_of(f"if-rank:1:lines:{count}:{size}", "print:ready", "hang")
    written(group, b"ready")
    daemons = group.daemon.daemons
    agents = [d.agent_pid(group.name) for d in daemons]
    before = [rss_kb(pid) for pid in agents]
    v = daemons[2].connect()
    v.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    v.send("Logs", more=True, job=group.name, ranks="1")
    first = v.receive()["parameters"]["lines"]
    # Other readers are served while this one reads nothing.
    assert len(lines_of(daemons[2], group.name, ranks="1", lines=10)) == 10
    grown = [rss_kb(pid) - b for pid, b in zip(agents, before)]
    assert max(grown) < 16 * 1024, grown
    got = len(first)
    while True:
        message = v.receive()
        got += len(message["parameters"]["lines"])
        assert not message["parameters"].get("missed"), message
        if not message.get("continues"):
            break
    assert got == count + 1, got
    v.close()


def test_a_host_that_is_lost_while_its_lines_are_read_is_named(box, group_of):
    group = group_of("print:line", "print:ready", "hang", restart={"max": 0},
                     rendezvous={"lease": "2s", "nodes": "2:3"})
    written(group, b"ready")
    daemons = group.daemon.daemons
    agent = daemons[1].agent_pid(group.name)
    os.kill(agent, signal.SIGSTOP)
    try:
        with daemons[2].connect() as v:
            notes, got = [], []
            for answer in v.stream("Logs", job=group.name):
                notes += [answer["note"]] if "note" in answer else []
                got += answer["lines"]
    finally:
        os.kill(agent, signal.SIGCONT)
    assert len(notes) == 1 and notes[0].startswith("lines of host "), notes
    assert {x["rank"] for x in got} == {0, 2}


def test_a_host_without_a_link_shows_its_own_lines_and_says_so(group_of):
    group = group_of("print:line of %r", "print:ready", "hang", restart={"max": 0},
                     rendezvous={"lease": "2s"})
    written(group, b"ready")
    lead, other, _ = group.daemon.daemons
    os.kill(lead.agent_pid(group.name), signal.SIGKILL)
    wait_for(lambda: other.status(group.name)["hosts"][0]["state"] == "away", group.box.dir,
             what="a host without a head")
    r = other.ctl("logs", group.name, "--raw")
    assert (r.rc, r.out) == (0, "line of 1\nready\n"), r
    assert "only workers of host " in r.err and "no link to the host that leads the group" in r.err, r
    r = other.ctl("logs", f"{group.name}/1", "--raw")
    assert (r.rc, r.out, r.err) == (0, "line of 1\nready\n", ""), r
    r = other.ctl("logs", f"{group.name}/2")
    assert r.rc == 1 and "no link to the host that leads the group" in r.err, r


def ask(s, n, number, **parameters):
    call = {"method": "io.elasticd.Manager.Logs", "more": True, "parameters": {"job": "", **parameters}}
    s.say("Call", round=n, worker="", connection=number, message=call)


def answer(s, number, *lines, last=True):
    message = {"parameters": {"lines": list(lines)}}
    s.say("Answer", connection=number, message=message if last else {**message, "continues": True})


def line(rank, text, attempt=0):
    return {"rank": rank, "role": "worker", "index": rank, "local_rank": 0, "stream": "stdout", "text": text,
            "attempt": attempt}


def test_a_host_that_sends_lines_of_another_host_s_workers_is_lost(box):
    group, s, n = third_of_three(box)
    ask(s, n, 1, ranks="2")
    call = s.wait("Call")
    assert call["connection"] < 0 and call["message"]["parameters"]["ranks"] == "2"
    answer(s, call["connection"], line(2, "mine"))
    assert s.wait("Answer")["message"]["parameters"]["lines"][0]["text"] == "mine"
    ask(s, n, 2, ranks="2")
    answer(s, s.wait("Call")["connection"], line(0, "not mine"))
    assert s.wait_end()["field"] == "message"
    group.wait_round(0, 1)
    group.stop()


def test_a_host_sends_one_answer_and_waits_for_the_next_to_be_wanted(box):
    group, s, n = third_of_three(box)
    ask(s, n, 1)
    call = s.wait("Call")["connection"]
    answer(s, call, line(2, "one"), last=False)
    flow = s.wait("Flow")
    assert flow["connection"] == call and flow["paused"] is False
    # The reader does not read, so nothing more is wanted.
    s.say("Flow", connection=1, paused=True)
    s.say("Hangup", connection=1)
    assert s.wait("Hangup")["connection"] == call
    group.stop()


def test_a_host_that_sends_more_than_is_wanted_is_lost(box):
    group, s, n = third_of_three(box)
    ask(s, n, 1, follow=True)
    s.say("Flow", connection=1, paused=True)
    call = s.wait("Call")["connection"]
    # 8 MiB wait for the reader then, and it has no room for a half of that.
    s.say_at_once(*[("Answer", {"connection": call, "message": {
        "continues": True, "parameters": {"lines": [line(2, "x" * 1024)] * 1024}}})] * 8)
    # The head closes the link with bytes unread, so its reset may overtake the reason.
    assert (s.wait_end() or {"field": "message"})["field"] == "message"
    group.wait_round(0, 1)
    group.stop()


def test_readers_of_one_host_are_limited_and_others_still_read(box):
    group, s, n = third_of_three(box)
    for i in range(1, 66):
        ask(s, n, i, follow=True)
    refused = s.wait("Answer")
    assert refused["connection"] == 65
    assert "readers of logs of one host" in refused["message"]["parameters"]["message"]
    # Answers without a call, and calls with numbers of the head's.
    answer(s, -99, line(0, "nobody asked"))
    s.say("Flow", connection=-5, paused=False)
    s.say("Hangup", connection=-98)
    ask(s, n, -7)
    assert s.wait_end()["field"] == "connection"
    group.stop()
