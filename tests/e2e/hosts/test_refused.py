# SPDX-License-Identifier: Apache-2.0
"""Hosts and strangers that a group does not let in: each learns why, and no other host is disturbed."""

import contextlib
import time

import pytest

from group import Group
from harness import VarlinkError, alive, spec, wait_for
from several_hosts import free_port
from stranger import FalseHead, Stranger, third_of_three


@pytest.fixture
def group(box):
    """Two of the three hosts run."""
    group = Group(box, 3, "2:3")
    group.first = group.start(0, 1).wait_round(0, 1)
    return group


def assert_undisturbed(group):
    assert len(group.rounds()) == 1, group.records.read_text()
    assert all(alive(w.pid) for w in group.first.workers.values())
    group.check()


def assert_refused(group, *texts, rc=1, node=2, **keys):
    result = group.start(node, **keys).runs[node].wait()
    assert result.rc == rc, result
    for text in texts:
        assert text in result.err, result
    group.runs[node] = None
    assert_undisturbed(group)


def test_settings_that_differ_are_named_with_both_values_and_both_hosts(group):
    role = dict(group.document["roles"][0], name="other")
    for key, change, ours, theirs in [
        ("restart.max", {"restart": {"max": 7}}, "0", "7"),
        ("roles[0].name", {"roles": [role]}, '"worker"', '"other"'),
        ("preemption.grace", {"preemption": {"grace": "9s"}}, "none", '"9s"'),
    ]:
        assert_refused(group, f"{key}: expected {ours}", f"as on node0, which leads the group, got {theirs}",
                       " on node2\n", change=change)
    assert_refused(group, 'rendezvous.nodes: expected "2:3" as on node0, which leads the group, '
                   'got "1:3" on node2\n', nodes="1:3")
    group.start(2).wait_round(0, 1, 2)
    group.stop()


def test_a_node_rank_is_given_once(box):
    group = Group(box, 3, "2:3", backend="direct")
    group.start(0, node_rank=1).start(1, node_rank=0)
    group.first = group.wait_round(0, 1)
    assert group.first.workers[1].rank == 0
    assert_refused(group, "rendezvous.node_rank", "node1", node_rank=0)
    assert_refused(group, "rendezvous.node_rank", "node0", node_rank=1)
    group.start(2, node_rank=2).wait_round(0, 1, 2)
    group.stop()


def test_in_a_static_group_each_node_rank_is_given_once_too(box):
    group = Group(box, 3, 3, backend="static")
    group.start(0, node_rank=0).start(1, 2, node_rank=1)
    late = wait_for(lambda: [i for i in (1, 2) if group.runs[i].popen.poll() is not None],
                    box.path("out"), what="one of two hosts with one rank to be refused")[0]
    first = 3 - late
    result = group.runs[late].wait()
    assert result.rc == 1 and f"rendezvous.node_rank: host node{first} has" in result.err, result
    only = group.start(late, node_rank=2).wait_round(0, 1, 2)
    assert [only.workers[i].rank for i in (0, first, late)] == [0, 1, 2]
    group.stop()


def test_another_group_s_head_is_named(group):
    assert_refused(group, "rendezvous.id", "expected tests", "got others", id="others")
    group.stop()


def token(box, name, text):
    path = box.path(name)
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def test_a_secret_has_to_be_the_group_s(box):
    right = token(box, "right", "a secret of the group\n")
    wrong = token(box, "wrong", "another secret here\n")
    group = Group(box, 3, "2:3", token_file=right)
    group.first = group.start(0, 1).wait_round(0, 1)
    assert_refused(group, "rendezvous.token_file", token_file=wrong, join_timeout="2s")
    assert_refused(group, "TLS", token_file=None, join_timeout="2s")
    group.start(2).wait_round(0, 1, 2)
    group.stop()


def test_a_daemon_that_requires_a_secret_starts_no_group_without_one(box):
    daemon = box.new_daemon(config="[rendezvous]\nrequire = token\n").start()
    rendezvous = {"nodes": "1:2", "endpoints": f"127.0.0.1:{free_port()}", "last_call": 0, "lease": "100ms"}
    with pytest.raises(VarlinkError) as refused:
        daemon.submit(spec("exit:0", rendezvous=rendezvous))
    assert refused.value.parameters["field"] == "rendezvous.token_file", refused.value
    assert "elasticd requires a secret" in refused.value.parameters["message"]
    secret = token(box, "token", "a secret of the group\n")
    for job in (spec("exit:0", rendezvous={**rendezvous, "token_file": secret}), spec("exit:0")):
        assert daemon.run(job)["verdict"]["exit_status"] == 0


def test_a_host_with_a_secret_learns_that_the_head_has_none(box, group):
    assert_refused(group, "TLS", token_file=token(box, "token", "a secret of one host\n"), join_timeout="2s")
    group.stop()


def test_an_endpoint_that_is_not_there_is_named_with_this_host_s_addresses(box):
    group = Group(box, 2, 2, join_timeout="1s")
    for endpoint in (group.net.address(0) + ":29400", "10.77.0.200:29400"):
        result = group.start(1, endpoints=endpoint).runs[1].wait()
        assert result.rc == 124 and endpoint in result.err and group.net.address(1) in result.err, result
        assert "none of this host's addresses" in result.err, result


def test_an_endpoint_that_no_resolver_knows_is_named(box):
    group = Group(box, 2, 2, join_timeout="1s")
    result = group.start(1, endpoints="no-such-host.invalid:29400").runs[1].wait()
    assert result.rc == 124 and "rendezvous.endpoints: no-such-host.invalid" in result.err, result


def test_strangers_disturb_no_link(group):
    def stranger(*data, **hello):
        s = Stranger(group, 2, **hello)
        for piece in data:
            s.send_raw(piece)
        return s

    hello = Stranger.frame("Hello", **Stranger(group, 2).hello)
    refused = [
        (stranger(b"\x00"), "message"),
        (stranger(bytes(range(256)) * 8), None),
        (stranger(b"GET / HTTP/1.1\r\n\r\n\0"), None),
        (stranger(b"{}\0"), None),
        (stranger(b"[" * 100000), None),
        (stranger(Stranger.frame("Beat", ack=0, boot_us=1, time_us=1)), "method"),
        (stranger(hello.replace(b'"major": 1', b'"major": 2')), "parameters.major"),
        (stranger(hello.replace(b'"tests"', b'"others"')), "rendezvous.id"),
        (stranger(hello.replace(b'"session": "5555', b'"session": "5')), "parameters.session"),
        (stranger(Stranger.frame("LastWord", major=1, minor=0, group="tests", agent="a" * 32, word="w" * 32)),
         "parameters.word"),
    ]
    for s, field in refused:
        why = s.wait_end()
        assert field is None or (why and why["field"] == field), (field, why)
    assert_undisturbed(group)
    group.stop()


def test_a_flood_ends_and_silence_holds_no_place_for_long(group):
    flood = Stranger(group, 2)
    with contextlib.suppress(OSError):
        while flood.send_raw(b"x" * 65536):
            pass
    silent = [Stranger(group, 2) for _ in range(100)]
    half = Stranger(group, 2)
    half.send_raw(Stranger.frame("Hello", **half.hello)[:40])
    assert_undisturbed(group)
    group.start(2).wait_round(0, 1, 2, after=group.first)
    for s in [*silent, half]:
        s.sock.close()
    group.stop()


def join(s, **changes):
    s.say_hello()
    s.say("Join", **{
        "run": "stranger", "address": "10.77.0.3", "known_round": 0, "attempts": 0, "restarts": 0,
        "roles": [{"role": "worker", "replicas": 1}], "settings": [], **changes})


def test_links_that_break_the_protocol_end_alone(group):
    for message, field in [
        (("Prepared", {"round": 1}), None),  # no member says this
        (("Welcome", {}), None),
        (("Nonsense", {}), None),
    ]:
        s = Stranger(group, 2)
        s.say_hello()
        s.say(message[0], **message[1])
        s.send_raw(b"rubbish\0")
        assert s.wait_end(), message
    s = Stranger(group, 2)
    join(s)
    assert s.wait_end()["field"] == "rendezvous.nodes"
    s = Stranger(group, 2)
    s.say_hello()
    while s.send("Beat", ack=0, boot_us=1, time_us=1):
        pass
    assert_undisturbed(group)
    group.stop()


def failure(rank):
    return {"role": "worker", "index": rank, "rank": rank, "local_rank": 0, "host": "node0", "attempt": 0,
            "time_us": 1, "class": "exit", "exit": {"code": 1}, "message": "it failed", "collateral": False}


def report(round_number, rank, **more):
    return {"round": round_number, "worker": f"worker:{rank}", "rank": rank, "start": 0, "event": "failed",
            "time_us": 1, **more}


def test_a_member_that_speaks_of_another_host_s_worker_is_lost_with_its_host(box):
    """The first round has the stranger; the others go on without it, and no failure is counted."""
    for method, body in [
        ("Report", lambda n: report(n, 2, failure=failure(0))),
        ("Report", lambda n: report(n, 0, event="exited", exit={"code": 0})),
        ("Gone", lambda n: {"round": n, "failures": [failure(1)]}),
    ]:
        if box.path("solo").exists():
            box.path("solo").rename(box.path(f"solo-{len(box.programs)}"))
        group, s, n = third_of_three(box)
        s.say(method, **body(n))
        assert s.wait_end()["field"] == "rank", method
        second = group.wait_round(0, 1)
        assert {w.restarts for w in second.workers.values()} == {0}
        group.stop()


def test_a_member_that_calls_for_another_host_s_worker_is_lost_with_its_host(box):
    """A stranger's own worker may call as it likes; what is no call ends its connection alone."""
    group, s, n = third_of_three(box)
    put = {"method": "io.elasticd.Worker.Put", "parameters": {"key": "k", "value": "v"}}
    s.say("Call", round=n, connection=1, worker="worker:2", message=put)
    assert "revision" in s.wait("Answer")["message"]["parameters"]
    # Of an earlier round, of connections that are not there, no call at all.
    s.say("Call", round=n + 7, connection=2, worker="worker:0", message=put)
    for method, more in (("Hangup", {}), ("Hangup", {"shut": True}), ("Flow", {"paused": True})):
        s.say(method, connection=99, **more)
    s.say("Samples", number=5, samples=[])
    s.say("Call", round=n, connection=3, worker="worker:2", message={"method": 7})
    assert s.wait("Hangup")["connection"] == 3
    s.say("Call", round=n, connection=1, worker="worker:2", message=put)
    assert "AlreadyExists" in s.wait("Answer")["message"]["error"]
    s.say("Call", round=n, connection=4, worker="worker:0", message=put)
    assert s.wait_end()["field"] == "worker"
    group.wait_round(0, 1)
    group.stop()


def test_a_link_has_one_member(box):
    group = Group(box, 4, "3:4", last_call="30s")
    group.start(0, 1)
    s = Stranger(group, 2)
    s.join()
    s.say("Join", **{**s.joined, "run": "another"})
    assert s.wait_end()["field"] == "run"
    # Two hosts that are there, and one that is not: the round begins when the fourth one has come.
    group.start(2)
    group.start(3)
    group.wait_round(0, 1, 2, 3)
    group.stop()


def test_a_master_without_a_port_ends_alone(box):
    group = Group(box, 3, "2:3", last_call="30s")
    group.start(0, 1)
    s = Stranger(group, 2, host="a-first")
    s.join(node_rank=0)
    n = s.wait("Assign")["round"]
    s.say("Prepared", round=n)
    # A head that takes it starts the round.
    message = s.receive()
    while message and message[0] not in ("Refuse", "Start"):
        message = s.receive()
    assert message and message[0] == "Refuse" and message[1]["field"] == "master_port", message
    group.wait_round(0, 1)
    group.stop()


def test_times_beyond_all_dates_do_no_harm(box):
    group, s, n = third_of_three(box)
    end = {**failure(2), "time_us": -2**63, "uncertainty_us": 2**63 - 1}
    s.say("Report", **report(n, 2, failure=end))
    s.wait("Stop")
    s.say("Gone", round=n, failures=[{**end, "time_us": 2**63 - 1}])
    assert s.wait("End")["verdict"]["root_cause"]["rank"] == 2
    s.say("Bye")
    assert [group.runs[i].wait().rc for i in (0, 1)] == [1, 1]


@pytest.mark.parametrize("order, field", [
    (("Assign", {}), "method"),
    (("Nonsense", {}), "method"),
    (("Start", {"round": "one"}), "parameters"),
])
def test_a_head_that_breaks_the_protocol_is_left_for_good(box, order, field):
    group = Group(box, 2, 2, join_timeout="2s")
    head = FalseHead(group)
    group.start(1)
    join = head.admit()
    head.have_run(join)
    if order[0] == "Assign":
        head.assign(join, round=2, group_rank=1)
    else:
        head.say(order[0], **order[1])
    assert head.wait_end()["field"].startswith(field)
    result = group.runs[1].wait()
    assert result.rc == 1 and field in result.err, result
    # It has its workers killed, and does not try again with such a head.
    assert not head.has_another() and not group.net.nodes[1].processes()
    group.check()


def test_an_order_that_is_refused_changes_no_rank(box):
    """The seat in status is the one of the workers that run."""
    group = Group(box, 2, 2)
    head = FalseHead(group)
    daemon = box.new_daemon()
    daemon.prefix = group.net.nodes[1].command()
    daemon.start()
    daemon.submit(group.document)
    join = head.admit()
    head.have_run(join)
    head.assign(join, round=2, group_rank=1)
    head.wait_end()
    own = daemon.wait("g")["hosts"][0]
    assert own["group_rank"] == 0, own


def test_a_member_that_reads_another_host_s_worker_is_lost_with_its_host(box):
    group, s, _ = third_of_three(box)
    s.say("Notice", source="operator", reason="x")
    number = s.wait("Read")["number"]
    ours = {"stepped": True, "connected": True, "step": 1, "steps": 1}
    s.say("Samples", number=number, samples=[{"worker": "worker:7", **ours}, {"worker": "worker:0", **ours}])
    assert s.wait_end()["field"] == "worker"
    group.wait_round(0, 1)
    group.stop()


def test_a_restart_that_comes_with_the_last_end_on_a_notice_counts(box):
    """The head's own host goes on: no worker was left for the notice to end."""
    group, s, n = third_of_three(box, preemption={"how": "signal"})
    s.say("Notice", source="operator", reason="x")
    s.wait("Order")
    states, ask = [], {"method": "io.elasticd.Worker.States"}
    while states[:2] != ["stopped"] * 2:
        s.say("Call", round=n, connection=1, worker="worker:2", message=ask)
        states = [m["state"] for m in s.wait("Answer")["message"]["parameters"]["members"]]
    s.say_at_once(
        ("Report", report(n, 2, event="exited", exit={"signal": 15}, state="stopped", left="signal")),
        ("Ask", {"want": "restart", "text": "please"}))
    s.wait("Stop")
    s.say("Bye")
    group.wait_round(0, 1, after=group.rounds()[0])
    group.stop()


def test_a_member_that_calls_its_worker_by_another_s_name_is_lost_with_its_host(box):
    group, s, n = third_of_three(box)
    of_another = {**report(n, 2, event="exited", exit={"code": 0}, state="succeeded"), "worker": "worker:0"}
    s.say("Report", **of_another)
    assert s.wait_end()["field"] == "worker"
    group.wait_round(0, 1)
    group.stop()


def test_a_host_that_sends_no_steps_on_a_notice_is_lost(box):
    """Without it no step can be agreed on. It beats, and says nothing else."""
    group, s, n = third_of_three(box)
    notify = {"method": "io.elasticd.Worker.Notify", "parameters": {"reason": "by hand"}}
    s.say("Call", round=n, connection=1, worker="worker:2", message=notify)
    assert "MethodNotImplemented" in s.wait("Answer")["message"]["error"]
    s.say("Notice", source="operator", reason="x")
    s.wait("Read")
    s.sock.settimeout(0.1)
    deadline = time.monotonic() + 60
    while s.send("Beat", ack=0, boot_us=1, time_us=1) and not s.has_ended():
        assert time.monotonic() < deadline
    group.runs[0].wait_err("has not said how far its workers are")
    group.wait_round(0, 1)
    group.stop()
