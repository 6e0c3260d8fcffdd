# SPDX-License-Identifier: Apache-2.0
"""elasticd.Manager over a real elasticd, and the same interface by varlink clients of others."""

import asyncio
import json
import os
import signal
import time

import pytest

from harness import IFACE, descriptors, have, is_root, other_user, puppet, spec, wait_file, wait_for
from impostor import heard, impostor
from managers import LIMIT, import_package, in_thread
from python_package import python_with


@pytest.fixture
def elasticd(monkeypatch):
    return import_package(monkeypatch)


@pytest.fixture
def m(elasticd, daemon):
    with elasticd.Manager(daemon.socket) as m:
        yield m


def test_a_job_from_a_dict_until_its_end(box, m):
    job = m.start(spec("print:hello %r", "eprint:oh", f"wait-file:{box.path('go')}",
                       f"barrier:{box.path('work')}", "exit:3", replicas=2, restart={"max": 1}), name="train")
    follow = job.logs(follow=True)
    first = next(follow)
    box.path("go").touch()  # not before it follows: it begins with the newest attempt
    lines = [(line.rank, line.attempt, line.stream, line.data) for line in (first, *follow)]
    assert sorted(lines) == sorted((r, a, s, d) for r in (0, 1) for a in (0, 1) for s, d in
                                   (("stdout", f"hello {r}".encode()), ("stderr", b"oh")))
    ended = job.wait()
    assert ended.ended and ended.state == "failed" and ended.verdict.exit_status == 3
    assert ended.verdict.root_cause.exit.code == 3 and len(ended.workers) == 2
    failures = job.errors()
    assert failures[0].text == ended.verdict.root_cause.text and failures[0].stderr_tail == ["oh"]
    why = job.why()
    assert (why.budget.used, why.budget.max) == (1, 1) and "1 of 1" in why.text
    events = [e.event for e in job.events()]
    assert events.count("started") == 2 and events[-1] == "ended"
    assert [e.event for e in job.events(since=len(events) - 1)] == ["ended"]
    assert m.jobs() == [] and [j.run for j in m.jobs(ended=True)] == [job.run]
    assert [line.data for line in job.logs(ranks=[1], stream="stdout", attempt=0, lines=1)] == [b"hello 1"]
    assert job.remove() == 1 and m.jobs(ended=True) == []


def test_a_job_from_a_file_and_what_is_wrong_with_one(box, elasticd, m, monkeypatch):
    file = box.path("work/job.yaml")
    file.write_text(f"name: filed\nroles:\n- command: {json.dumps(puppet('cwd:c', 'env:e'))}\n"
                    "  env: {A: file}\n")
    monkeypatch.chdir(box.path("work"))
    job = m.start(file, env={"A": "call", "B": "call"})
    assert job.name == "filed" and job.run.startswith("filed_") and job.wait(LIMIT).state == "succeeded"
    assert box.path("work/c").read_text().strip() == str(box.path("work"))
    env = box.path("work/e").read_text().split("\0")
    assert {"A=file", "B=call", f"PATH={os.environ['PATH']}"} <= set(env)
    file.write_text("roles:\n- {command: [x], replicas: many}\n")
    with pytest.raises(elasticd.InvalidArgument, match=r"job.yaml:2:\d+: roles\[0\].replicas: "):
        m.start(file)
    with pytest.raises(elasticd.InvalidArgument, match=r"roles\[0\]") as e:
        m.start({"roles": [{"command": "x"}]})
    assert isinstance(e.value.about, dict)
    with pytest.raises(elasticd.NotFound, match="no job named nobody") as e:
        m.job("nobody").status()
    assert e.value.about == {"job": "nobody"}


@pytest.mark.parametrize("value", ["a\0b", "\ud800", 1 << 63, float("nan"), {1, 2}])
def test_values_that_no_message_can_hold_are_named(elasticd, m, value):
    with pytest.raises(elasticd.InvalidArgument, match="cannot be sent as JSON"):
        m.start({"roles": [{"command": ["true"], "env": {"A": value}}]})


def test_a_running_job_is_controlled(box, elasticd, m):
    job = m.start(spec("on:USR1:print:hit", f"touch:{box.path('up')}.%r", "hang", name="held", replicas=2))
    assert job.wait(LIMIT, until="running").state == "running"
    wait_file(box.path("up.1"))  # it knows what to do with the signal
    with pytest.raises(elasticd.AlreadyExists):
        m.start(spec("hang", name="held"))
    with pytest.raises(elasticd.DeadlineExceeded):
        job.wait(0.01)
    lines = job.logs(follow=True)
    assert lines.next(0) is None
    job.kill(signal.SIGUSR1, ranks=1)
    line = lines.next(LIMIT)
    assert (line.rank, line.data) == (1, b"hit")
    with job.events(follow=True) as events:
        job.scale(1)
        assert any(e.attempt == 1 and e.event == "started" for e in events)
    assert [w.state for w in job.status().workers] == ["running"]
    job.restart()
    assert m.job("held").wait(LIMIT, until="running").run == job.run
    job.stop(0)
    assert job.wait(LIMIT).state == "stopped" and lines.next(LIMIT) is None
    first = job.run
    job.restart()  # of a run that has ended: a new one
    assert job.run != first and job.wait(LIMIT, until="running").run == job.run


def connections(daemon):
    """How many sockets elasticd has open."""
    return sum(name.startswith("socket:") for name in descriptors(daemon.pid).values())


def test_closing_ends_waits_of_other_threads_and_connections(box, elasticd, daemon):
    before = connections(daemon)
    m = elasticd.Manager(daemon.socket)
    job = m.start(spec("hang", name="held"))
    job.wait(LIMIT, until="running")
    events = m.events()
    reads = in_thread(lambda: list(events))
    waits = in_thread(lambda: job.wait(None))
    wait_for(lambda: m._pool._busy and events._reading, what="both to wait")
    events.close()
    assert reads() == [] and events.closed
    m.close()
    assert isinstance(waits(), elasticd.Cancelled)
    with pytest.raises(elasticd.Cancelled):
        m.jobs()
    with elasticd.Manager(daemon.socket) as other:
        other.job("held").stop(0)
        other.job("held").wait(LIMIT)
    wait_for(lambda: connections(daemon) <= before, "/proc")


def test_waits_and_events_go_on_over_a_new_elasticd(box, elasticd, daemon, m):
    job = m.start(spec(f"wait-file:{box.path('work/go')}", name="held"))
    job.wait(LIMIT, until="running")
    events = job.events(follow=True)
    seen = [events.next(LIMIT)]
    waits = in_thread(lambda: job.wait(LIMIT))
    strict = elasticd.Manager(daemon.socket, reconnect=0)
    broken = in_thread(lambda: strict.job("held").wait(LIMIT))
    strict.ping()
    wait_for(lambda: len(m._pool._busy) == 1, what="it to wait")
    limited = in_thread(lambda: job.wait(5))
    wait_for(lambda: len(m._pool._busy) == 2, what="both to wait")
    daemon.kill()
    assert isinstance(broken(), elasticd.manager.Disconnected)
    with pytest.raises(elasticd.Unavailable, match="no elasticd listens on"):
        m.ping()
    begun = time.monotonic()
    assert isinstance(limited(), elasticd.DeadlineExceeded)
    while event := events.next(0.05):
        seen.append(event)
    assert time.monotonic() - begun < LIMIT / 4, "each wait has its own limit"
    daemon.start()
    m.ping()
    box.path("work/go").touch()
    assert waits().state == "succeeded"
    seen += list(events)
    assert [e.seq for e in seen] == list(range(1, len(seen) + 1)) and seen[-1].event == "ended"


def test_asyncio_controls_a_job(box, elasticd, daemon):
    async def main():
        async with elasticd.aio.Manager(daemon.socket) as m:
            one, two = await asyncio.gather(m.start(spec("print:a", name="one")),
                                            m.start(spec("hang", name="two")))
            assert [line.data async for line in one.logs(follow=True)] == [b"a"]
            assert (await one.wait()).state == "succeeded"
            await two.wait(LIMIT, until="running")
            waits = asyncio.ensure_future(two.wait(None))
            async with two.events(follow=True) as events:
                assert (await events.next(LIMIT)).seq == 1
                with pytest.raises(asyncio.TimeoutError):  # a read that is cancelled loses nothing
                    while True:
                        await asyncio.wait_for(events.next(), 0.05)
                await two.stop(0)
                last = [event async for event in events][-1]
            assert last.event == "ended" and (await waits).state == "stopped"
            with pytest.raises(elasticd.NotFound):
                await m.job("nobody").why()
            endless = asyncio.ensure_future(m.job("two").wait(None, until="running"))
            await endless
            cancelled = asyncio.ensure_future(m.events().next())
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            return [j.name for j in await m.jobs(ended=True)]

    assert sorted(asyncio.run(main())) == ["one", "two"]


def test_short_reads_of_asyncio_outlive_a_restart_of_elasticd(box, elasticd, daemon):
    """Each read is shorter than the pause before the next attempt to connect."""
    async def main():
        async with elasticd.aio.Manager(daemon.socket, timeout=LIMIT, reconnect=LIMIT) as m:
            await m.start(spec("hang", name="one"))
            events = m.job("one").events(follow=True)
            while (await events.next(LIMIT)).text != "running":
                pass
            daemon.kill()
            reads = [await events.next(0.05) for _ in range(20)]
            daemon.start()
            await m.job("one").stop()
            deadline = time.monotonic() + LIMIT
            while time.monotonic() < deadline:
                event = await events.next(0.05)
                if event and event.event == "ended":
                    return reads
            return None

    assert asyncio.run(main()) == [None] * 20


def test_an_elasticd_that_does_not_answer_yet_keeps_no_reader(box, elasticd, daemon, m):
    m.start(spec("hang", name="one"))
    events = m.job("one").events(follow=True)
    while events.next(LIMIT).text != "running":
        pass
    daemon.restart()
    os.kill(daemon.pid, signal.SIGSTOP)
    begun = time.monotonic()
    assert [events.next(0.1) for _ in range(3)] == [None] * 3 and events.next(1) is None
    assert time.monotonic() - begun < LIMIT / 4
    os.kill(daemon.pid, signal.SIGCONT)
    m.job("one").stop()
    assert list(events)[-1].event == "ended"


def test_streams_of_asyncio_that_fail_leave_no_connection(box, elasticd, daemon):
    async def main():
        async with elasticd.aio.Manager(daemon.socket, timeout=LIMIT) as m:
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(20):
                with pytest.raises(elasticd.NotFound):
                    await m.job("nobody").logs().next()
            return len(os.listdir("/proc/self/fd")) - before

    assert asyncio.run(main()) < 10


def test_a_wait_that_is_the_first_call_outlives_a_restart_of_elasticd(box, elasticd, daemon, m):
    m.start(spec("hang", name="one"))
    with elasticd.Manager(daemon.socket) as fresh:
        waits = in_thread(lambda: fresh.job("one").wait(LIMIT))
        wait_for(lambda: fresh._pool._busy and fresh._plans.seen, what="it to wait")
        daemon.restart()
        m.job("one").stop()
        assert waits().state == "stopped"


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_a_daemon_of_another_user_is_told_nothing(box, elasticd):
    path = str(box.path("tmp/control.sock"))
    liar = impostor(box, path)
    with pytest.raises(elasticd.PermissionDenied, match=f"user {other_user().pw_name}.* listens there"):
        elasticd.Manager(path).ping()
    assert not heard(liar)
    elasticd.Manager(path, trust_uid=other_user().pw_uid).ping()
    assert heard(liar)


def test_the_socket_is_found_as_elasticctl_finds_it(box, elasticd, monkeypatch):
    from elasticd import _endpoint
    monkeypatch.delenv("ELASTICD_SOCKET", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() or 54321)  # not the system's
    monkeypatch.setattr(_endpoint, "SYSTEM_SOCKET", str(box.path("none")))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(box.path("xr")))
    monkeypatch.setenv("XDG_STATE_HOME", str(box.path("xs")))
    assert _endpoint.find_socket() == (str(box.path("xr/elasticd/control.sock")), True)
    box.path("xr").chmod(0o777)
    assert _endpoint.find_socket() == (str(box.path("xs/elasticd/run/control.sock")), True)
    box.path("xs").chmod(0o777)
    with pytest.raises(elasticd.PermissionDenied, match="other users may write there"):
        _endpoint.check_private(str(box.path("xs")))
    monkeypatch.setenv("ELASTICD_SOCKET", "/named")
    assert _endpoint.find_socket() == ("/named", False)


# --- clients of others -------------------------------------------------------------------------------------


FOREIGN = """
import json, sys, varlink
with varlink.Client.new_with_address("unix:" + sys.argv[1]) as client:
    assert "io.elasticd.Manager" in client.get_interfaces()
    with client.open("io.elasticd.Manager") as m:
        started = m.Start(json.loads(sys.argv[2]))
        ended = m.Wait(started["run"], None, 60000, None, None)["job"]
        events = [e["event"] for a in m.Events(started["run"], None, True, _more=True) for e in a["events"]]
        try:
            m.Status("nobody", None)
        except varlink.VarlinkError as e:
            print(json.dumps([ended["state"], events[-1], e.error(), e.parameters()["job"]]))
"""


def test_the_varlink_client_of_pypi_speaks_with_elasticd(box, daemon):
    python = python_with(box, "varlink", "ELASTIC_VARLINK_PYTHON")
    said = box.sh(python, "-c", FOREIGN, daemon.socket, json.dumps(spec("exit:0"))).json
    assert said == ["succeeded", "ended", IFACE + "NotFound", "nobody"]


@pytest.mark.skipif(not have("varlinkctl"), reason="no varlinkctl here")
def test_varlinkctl_speaks_with_elasticd(box, daemon):
    assert IFACE[:-1] in box.sh("varlinkctl", "list-interfaces", daemon.socket).out
    r = box.sh("varlinkctl", "call", "--json=short", daemon.socket, IFACE + "List", "{}")
    assert r.rc == 0 and r.json == {"jobs": []}, r
