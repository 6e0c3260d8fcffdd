# SPDX-License-Identifier: Apache-2.0
"""Barriers, states, errors and leave among the tasks of a job, by raw varlink."""

import os
import signal

import pytest

from harness import Varlink, puppet, spec, wait_file, wait_gone, wait_text
from workers import Group, environment, script


def names(n):
    return [f"worker:{i}" for i in range(n)]


@pytest.fixture
def group_of(daemon):
    groups = []

    def make(n, **top):
        groups.append(Group(daemon, spec("hang", replicas=n, **top)))
        return groups[-1], *groups[-1].all(*names(n))

    yield make
    for g in groups:
        g.close()


def roles(*rows, **top):
    puppet = spec("hang")["roles"][0]["command"]
    return {"roles": [{"name": n, "command": puppet, "replicas": k, **more} for n, k, more in rows], **top}


@pytest.fixture
def group_like(daemon):
    groups = []

    def make(document):
        groups.append(Group(daemon, document))
        return groups[-1]

    yield make
    for g in groups:
        g.close()


# --- readiness -------------------------------------------------------------------------------------


def agents(group):
    return getattr(group.daemon, "daemons", [group.daemon])


def n_ready(group):
    """How often the agents have said that the job is ready."""
    return sum(e["event"] == "ready" for d in agents(group) for e in d.events(group.name))


def await_ready(group):
    for d in agents(group):
        assert d.wait(group.name, until="ready")["ready"] is True


def test_the_job_is_ready_once_its_barrier_has_passed(group_of):
    group, a, b, c = group_of(3, ready={"barrier": "up"})
    for name in ("other", "up"):
        a.send("Barrier", name=name)
        b.send("Barrier", name=name)
        c.put("sync", "", overwrite=True)
        assert n_ready(group) == 0
        c.call("Barrier", name=name)
        a.reply(), b.reply()
    await_ready(group)
    assert n_ready(group) == len(agents(group))


def test_the_job_is_ready_when_all_workers_have_said_so(group_of):
    group, a, b, c = group_of(3, ready={"call": True})
    a.call("Ready")
    c.call("Ready")
    c.call("Ready")
    one_host = len(agents(group)) == 1
    assert n_ready(group) == (0 if one_host else 2)
    if one_host:  # the next process of a worker has to say it again
        group.daemon.call("StopWorkers", job=group.name, workers="worker:0", again=True)
    b.call("Ready")
    if one_host:
        assert n_ready(group) == 0
        group.connect("worker:0").call("Ready")
    await_ready(group)
    assert n_ready(group) == len(agents(group))


# --- barriers --------------------------------------------------------------------------------------


def test_no_worker_passes_a_barrier_before_the_last_has_come(group_of):
    _, a, b, c = group_of(3)
    for n in range(3):
        a.send("Barrier", name="x")
        b.send("Barrier", name="x")
        # A call of a third task that is answered after those were read.
        c.put("sync", "", overwrite=True)
        assert a.waits() and b.waits()
        assert c.call("Barrier", name="x")["generation"] == n
        assert a.reply()["generation"] == n and b.reply()["generation"] == n


def test_a_member_that_comes_twice_counts_once(group_of):
    group, a, b = group_of(2)
    again = group.connect("worker:0")
    a.send("Barrier", name="x")
    b.put("sync", "")
    again.send("Barrier", name="x")
    assert a.error().name == "Cancelled"
    assert again.waits()
    b.call("Barrier", name="x")
    again.reply()


def test_a_barrier_that_times_out_names_who_is_missing(group_of):
    group, a, b, c = group_of(3)
    e = a.refused("Barrier", name="x", timeout_ms=1000)
    assert e.name == "DeadlineExceeded"
    assert e.missing == ["worker:1", "worker:2"]
    assert "worker:1" in e.message and "worker:2" in e.message and "worker:0" not in e.message
    # Who was too late gets the same error once, then all go together.
    assert b.refused("Barrier", name="x").name == "DeadlineExceeded"
    assert c.refused("Barrier", name="x").name == "DeadlineExceeded"
    for w in (a, b, c):
        w.send("Barrier", name="x")
    assert [w.reply()["generation"] for w in (a, b, c)] == [1, 1, 1]
    # So long a wait has an event; of the quick ones after it there is none.
    waits = [x["data"] for d in agents(group) for x in d.events(group.name) if x["event"] == "barrier"]
    assert [(w["status"], w["first"], [x["ranks"] for x in w["waits"]]) for w in waits] == [
        ("DeadlineExceeded", "worker:0", ["0"])]


def test_a_barrier_of_some_is_none_of_the_others_business(group_of):
    _, a, b, c = group_of(3)
    some = ["worker:2", "worker:0"]
    a.send("Barrier", name="x", members=some)
    c.call("Barrier", name="x", members=list(reversed(some)))
    a.reply()
    b.put("k", "v")


def test_other_members_fail_the_barrier_for_all(group_of):
    _, a, b, c = group_of(3)
    a.send("Barrier", name="x", members=names(3))
    c.put("sync", "")
    assert b.refused("Barrier", name="x", members=names(2)).name == "InvalidArgument"
    assert a.error().name == "InvalidArgument"


def test_a_caller_that_is_no_member_fails_the_barrier_for_all(group_of):
    _, a, b, c = group_of(3)
    a.send("Barrier", name="x", members=names(2))
    b.put("sync", "")
    e = c.refused("Barrier", name="x", members=names(2))
    assert e.name == "InvalidArgument" and "worker:2" in e.message
    assert a.error().name == "InvalidArgument"


def test_a_member_that_there_is_not_is_named_to_all(group_of):
    _, a, b = group_of(2)
    a.send("Barrier", name="x", members=names(2))
    b.put("sync", "")
    for bad in ("worker:7", "nobody:0", "worker", "", "worker:00"):
        e = b.refused("Barrier", name=f"y{bad}", members=["worker:0", bad])
        assert e.name == "InvalidArgument" and e.message.endswith(f"there is no worker {bad}"), e
    assert a.waits()
    assert b.refused("Barrier", name="x", members=["worker:9"]).name == "InvalidArgument"
    e = a.error()
    assert e.name == "InvalidArgument" and "worker:9" in e.message


def test_a_barrier_can_be_cancelled(group_of):
    _, a, b = group_of(2)
    a.send("Barrier", name="x")
    b.put("sync", "")
    b.call("CancelBarrier", name="x", message="not today")
    e = a.error()
    assert e.name == "Cancelled" and "not today" in e.message
    e = b.refused("CancelBarrier", name="z")
    assert (e.name, e.message) == ("FailedPrecondition", 'name: no worker waits at "z"')


def test_a_barrier_that_has_passed_cannot_be_cancelled_and_is_used_again(group_of):
    _, a, b = group_of(2)
    for _ in range(2):
        a.send("Barrier", name="x")
        b.call("Barrier", name="x")
        a.reply()
        assert b.refused("CancelBarrier", name="x", message="too late").name == "FailedPrecondition"


def test_bad_names_of_barriers_are_refused(group_of):
    _, a = group_of(1)
    assert a.refused("Barrier", name="").name == "InvalidArgument"
    assert a.refused("Barrier", name="n" * 257).name == "InvalidArgument"
    assert a.call("Barrier", name="n" * 256) == {"generation": 0}


def test_a_dead_member_is_seen_at_once_by_those_who_wait(group_of):
    group, a, b, c = group_of(3, restart={"policy": "never"}, stop={"timeout": "60s"})
    watcher = group.connect("worker:0").send("WaitError")
    a.send("Barrier", name="x")
    b.send("Barrier", name="x")
    group.connect("worker:1").put("sync", "")
    os.kill(group.task("worker:2")["pid"], signal.SIGKILL)
    for w in (a, b):
        e = w.error()
        assert e.name in ("Internal", "Cancelled") and "worker:2" in e.message, e
    error = watcher.reply()["error"]
    assert (error["worker"], error["code"], error["reported"]) == ("worker:2", "Unavailable", False)


def test_a_member_that_leaves_after_it_came_changes_nothing_for_the_others(group_of):
    group, a, b, c, d = group_of(4)
    c.send("Barrier", name="x")
    d.send("Barrier", name="x")
    b.put("sync", "")
    assert c.waits() and d.waits()
    leaves = group.connect("worker:2").send("Leave")
    b.put("sync", "", overwrite=True)
    assert leaves.waits()
    group.daemon.call("StopWorkers", job=group.name, workers="worker:3")
    a.send("Barrier", name="x")
    assert b.call("Barrier", name="x") == {"generation": 0}
    assert a.reply() == c.reply() == {"generation": 0}
    a.send("Barrier", name="x")
    assert b.call("Barrier", name="x") == a.reply() == {"generation": 1}


def test_a_list_of_nobody_means_neither_all_nor_nobody(group_of):
    group, a, b = group_of(2)
    for method, parameters, named in (("Barrier", {"name": "x", "members": []}, "members: expected 1 to"),
                                      ("Alive", {"members": []}, "members: expected 1 to"),
                                      ("States", {"roles": []}, "roles: expected 1 to"),
                                      ("io.elasticd.Queue.Call", {"workers": []}, "workers: expected 1 to")):
        e = a.refused(method, **parameters)
        assert e.name.endswith("InvalidArgument") and named in e.message, e
    a.send("Barrier", name="x")
    assert b.call("Barrier", name="x") == a.reply()


def test_a_barrier_fails_at_once_when_an_operator_stops_a_member(group_like):
    # worker:2 takes its time to go: nobody waits for that.
    group = group_like(roles(("worker", 3, {}), stop={"timeout": "100s"}))
    a, b, c = group.all(*names(3))
    os.kill(group.task("worker:2")["pid"], signal.SIGSTOP)
    a.send("Barrier", name="x")
    b.put("sync", "")
    assert a.waits()
    with Varlink(group.daemon.agent_sock(group.name)) as v:
        v.send("StopWorkers", job=group.name, workers="worker:2")
        e = a.error()
        assert e.name == "FailedPrecondition" and e.missing == ["worker:2"], e
        assert "worker:2 was stopped by an operator" in e.message
        e = b.refused("Barrier", name="x")
        assert e.name == "FailedPrecondition", "it is told of what it missed"
        a.send("Barrier", name="x")
        assert b.call("Barrier", name="x") == a.reply(), "where members are left out it is none any more"
        e = b.refused("Barrier", name="y", members=names(3))
        assert e.name == "FailedPrecondition" and "worker:2 was stopped by an operator" in e.message


def lone(*rows, **top):
    return roles(*rows, restart={"scope": "worker", "max": 3, "backoff": "0s"}, **top)


def next_process(group, name, old):
    """The pid of the task's next process, once it runs. What the agent tells may be ahead of Status."""
    role, index = name.split(":")

    def of(job):
        return next(t for t in job["workers"] if t["role"] == role and t["index"] == int(index))

    job = group.daemon.watch(
        group.name, lambda j, _: of(j)["state"] == "running" and of(j)["pid"] != old)
    return of(job)["pid"]


def kill(group, name):
    pid = group.task(name)["pid"]
    os.kill(pid, signal.SIGKILL)
    return next_process(group, name, pid)


def of_pid(group, pid):
    env = environment(pid)
    return group.at(env["ELASTICD_WORKER_SOCKET"], env["ELASTICD_TOKEN"])


def test_a_task_that_is_started_again_by_itself_is_a_member_like_before(group_like):
    group = group_like(lone(("worker", 2, {})))
    a, b = group.all("worker:0", "worker:1")
    watcher = group.connect("worker:0").send("WaitError")
    a.send("Barrier", name="x")
    b.put("sync", "")
    assert a.waits() and watcher.waits()
    pid = kill(group, "worker:1")
    assert watcher.reply()["error"]["worker"] == "worker:1"
    assert a.error().missing == ["worker:1"]
    b = of_pid(group, pid)
    assert b.hello["start"] == 1
    members = a.call("States")["members"]
    assert [(m["healthy"], m.get("error")) for m in members] == [(True, None)] * 2
    assert a.refused("WaitError", timeout_ms=1).name == "DeadlineExceeded"
    a.send("Barrier", name="x")
    b.call("Barrier", name="x")
    a.reply()
    a.send("Leave")
    b.call("Leave")
    a.reply()


def test_states_name_who_is_dead_until_it_is_there_again(group_like):
    group = group_like(roles(("worker", 2, {}), restart={"scope": "worker", "max": 3, "backoff": "1h"}))
    a, b = group.all("worker:0", "worker:1")
    b.put("sync", "")
    watcher = group.connect("worker:0").send("WaitError")
    pid = group.task("worker:1")["pid"]
    os.kill(pid, signal.SIGKILL)
    assert watcher.reply()["error"]["worker"] == "worker:1"
    members = a.call("States")["members"]
    assert [m["healthy"] for m in members] == [True, False]
    assert (members[1]["error"]["code"], members[1]["error"]["worker"]) == ("Unavailable", "worker:1")
    group.daemon.wait_event(group.name, "worker-restart")
    group.daemon.call("StopWorkers", job=group.name, workers="worker:1", again=True)
    of_pid(group, next_process(group, "worker:1", pid))
    members = a.call("States")["members"]
    assert [(m["healthy"], m.get("error")) for m in members] == [(True, None)] * 2


def test_a_recoverable_task_that_is_started_no_more_is_not_waited_for(box, group_like):
    over = box.path("over")
    group = group_like(lone(("chief", 1, {"leader": True, "command": puppet(f"wait-file:{over}")}),
                            ("worker", 1, {}), ("ps", 1, {"recoverable": True}),
                            leader={"on_exit": "stop", "grace": "1h"}))
    a, p = group.all("worker:0", "ps:0")
    a.send("Barrier", name="x", members=["worker:0", "ps:0"])
    p.put("sync", "")
    pid = kill(group, "ps:0")
    assert a.waits()
    over.touch()
    group.daemon.wait_event(group.name, "leader-ended")
    os.kill(pid, signal.SIGKILL)
    e = a.error()
    assert e.name == "Internal" and e.missing == ["ps:0"]


def test_a_recoverable_task_that_a_person_starts_again_is_waited_for(group_like):
    group = group_like(lone(("worker", 2, {"recoverable": True})))
    a, b = group.all("worker:0", "worker:1")
    a.send("Barrier", name="x")
    b.put("sync", "")
    pid = group.task("worker:1")["pid"]
    group.daemon.call("StopWorkers", job=group.name, workers="worker:1", again=True)
    pid = next_process(group, "worker:1", pid)
    assert a.waits()
    of_pid(group, pid).call("Barrier", name="x")
    a.reply()


def test_calls_are_cancelled_when_the_group_is_stopped(group_of):
    group, a, b = group_of(2, stop={"timeout": "60s"})
    pids = [group.task(n)["pid"] for n in names(2)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # they do not go before they are asked below
    waits = [group.connect("worker:0").send("Get", key="k", wait=True),
             group.connect("worker:0").send("Barrier", name="x"),
             group.connect("worker:0").send("WaitError"),
             group.connect("worker:0").send("Alive"),
             group.connect("worker:0").send("Leave")]
    for w in waits:
        w.sync = group.connect("worker:1")
        w.sync.put("sync", "", overwrite=True)
    group.daemon.call("Stop", job=group.name)
    for w in waits:
        e = w.error()
        assert e.name == "Cancelled" and "stopped" in e.message, e


# --- states, errors, leave -------------------------------------------------------------------------


def test_states_are_by_role_and_index(group_like):
    group = group_like(roles(("ps", 2, {}), ("worker", 1, {"recoverable": True}), ("chief", 1, {})))
    w = group.connect("worker:0")
    members = w.call("States")["members"]
    assert [m["worker"] for m in members] == ["ps:0", "ps:1", "worker:0", "chief:0"]
    assert [m["rank"] for m in members] == [0, 1, 2, 3]
    assert all(m["healthy"] and not m["left"] and m.get("error") is None for m in members)
    assert [m["recoverable"] for m in members] == [False, False, True, False]
    some = w.call("States", roles=["chief", "ps"])["members"]
    assert [m["worker"] for m in some] == ["ps:0", "ps:1", "chief:0"]
    e = w.refused("States", roles=["nobody"])
    assert e.name == "InvalidArgument" and "nobody" in e.message


def test_an_error_that_one_reports_reaches_all_with_its_origin(group_of):
    group, a, b, c = group_of(3)
    waiting = [a.send("WaitError"), b.send("WaitError")]
    events = group.connect("worker:1").send("Events", more=True)
    assert events.reply().get("event") is None
    c.call("ReportError", code="ResourceExhausted", message="Running out of resources")
    for w in waiting:
        e = w.reply()["error"]
        assert (e["code"], e["message"], e["worker"], e["reported"]) == (
            "ResourceExhausted", "Running out of resources", "worker:2", True)
    event = events.reply()["event"]
    assert event["event"] == "error" and event["worker"] == "worker:2"
    assert event["error"]["code"] == "ResourceExhausted"
    # Who asks later gets the same one; a second error does not replace it.
    group.connect("worker:0").call("ReportError", code="INTERNAL", message="another")
    assert group.connect("worker:0").call("WaitError")["error"] == e
    states = {m["worker"]: m for m in group.connect("worker:1").call("States")["members"]}
    assert not states["worker:2"]["healthy"] and states["worker:2"]["error"]["code"] == "ResourceExhausted"
    assert states["worker:1"]["healthy"]


def test_an_error_needs_a_code_that_is_one(group_of):
    _, a = group_of(1)
    for code in ("OK", "", "Oops", "7"):
        e = a.refused("ReportError", code=code, message="m")
        assert e.name == "InvalidArgument" and "code" in e.message


def test_a_task_that_reported_an_error_fails_whatever_its_exit_code(box, daemon):
    body = """
me().call("ReportError", code="Internal", message="loss is NaN")
"""
    job = daemon.run({"roles": [{"command": script(body)}]})
    assert job["state"] == "failed"
    assert "loss is NaN" in job["verdict"]["root_cause"]["message"]


def test_waiting_for_an_error_has_a_limit(group_of):
    _, a = group_of(1)
    assert a.refused("WaitError", timeout_ms=10).name == "DeadlineExceeded"
    assert a.refused("WaitError", timeout_ms=0).name == "DeadlineExceeded"


def test_alive_gives_all_the_same_set_when_all_who_live_have_asked(group_of):
    group, a, b, c, d = group_of(4, role={"recoverable": True},
                                 restart={"scope": "worker", "max": 1, "backoff": "1h"})
    pid = group.task("worker:3")["pid"]
    a.send("Alive", members=names(4))
    b.send("Alive", members=names(4))
    c.put("sync", "")
    assert a.waits() and b.waits()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    answers = [c.call("Alive", members=names(4)), a.reply(), b.reply()]
    assert answers == [{"alive": ["worker:0", "worker:1", "worker:2"]}] * 3
    e = a.refused("Alive", members=["worker:1"])
    assert e.name == "InvalidArgument"


def test_all_leave_together(group_of):
    _, a, b, c = group_of(3)
    a.send("Leave")
    b.send("Leave")
    c.put("sync", "")
    assert a.waits() and b.waits()
    c.call("Leave")
    a.reply()
    b.reply()


def test_a_leave_that_times_out_names_the_others(group_of):
    _, a, b, c = group_of(3)
    e = a.refused("Leave", timeout_ms=30)
    assert e.name == "DeadlineExceeded" and e.missing == ["worker:1", "worker:2"]


def test_a_worker_that_has_left_is_in_no_barrier(group_of):
    _, a, b = group_of(2)
    assert a.refused("Leave", timeout_ms=1).name == "DeadlineExceeded"
    for more in {}, {"members": names(2)}, {"members": ["worker:0"]}:
        e = a.refused("Barrier", name="x", **more)
        assert (e.name, e.message.split(" (")[0]) == ("FailedPrecondition", "worker:0 has taken its leave")
    for bad in ["worker:1"], ["worker:0", "worker:7"]:
        assert a.refused("Barrier", name="y", members=bad).name == "InvalidArgument"
    a.send("Alive")
    assert b.call("Alive") == a.reply() == {"alive": ["worker:1"]}
    b.call("Barrier", name="x")
    e = b.refused("Barrier", name="x", members=names(2))
    assert e.name == "Internal" and "it has taken its leave" in e.message


def test_an_evaluator_is_outside_of_what_is_meant_by_default(group_like):
    group = group_like(roles(("worker", 2, {}), ("evaluator", 1, {})))
    a, b, e = group.all("worker:0", "worker:1", "evaluator:0")
    assert a.hello["members"] == ["worker:0", "worker:1"]
    a.send("Barrier", name="x")
    b.put("sync", "")
    assert e.refused("Barrier", name="x").name == "InvalidArgument"
    assert a.waits()
    b.call("Barrier", name="x")
    a.reply()
    e.send("Barrier", name="y", members=["worker:0", "evaluator:0"])
    a.call("Barrier", name="y", members=["worker:0", "evaluator:0"])
    e.reply()


def test_a_result_is_kept_and_the_last_one_counts(box, daemon):
    body = """
w = me()
w.call("Result", value="first")
w.call("Result", **blob(bytes(range(256))) if w.hello["rank"] == 1 else {"value": "last"})
"""
    job = daemon.run({"roles": [{"command": script(body), "replicas": 2}]})
    assert job["state"] == "succeeded"
    import json
    import pathlib
    kept = json.loads((pathlib.Path(job["log_dir"]) / "results.json").read_text())
    assert kept == json.loads((daemon.record(job["run"]) / "results.json").read_text())
    first, second = kept["results"]
    assert first["value"] == "last" and second["base64"].startswith("AAECAwQF")
    assert first["exit"]["code"] == 0 and kept["attempt"] == 0


def test_an_error_counts_though_the_end_of_its_task_is_seen_at_the_same_time(box, daemon):
    body = f"""
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
w = me()
open({str(box.path("ready"))!r}, "w").close()
signal.sigwait([signal.SIGUSR1])
w.send("ReportError", oneway=True, code="Aborted", message="last words")
os._exit(0)
"""
    name, _ = daemon.submit({"roles": [{"command": script(body)}]})
    wait_file(box.path("ready"))
    job = daemon.wait(name, until="running")
    pid, agent = job["workers"][0]["pid"], job["agent_pid"]
    os.kill(agent, signal.SIGSTOP)
    try:
        wait_text(f"/proc/{agent}/status", "T (stopped)")
        os.kill(pid, signal.SIGUSR1)
        wait_gone(pid)
    finally:
        os.kill(agent, signal.SIGCONT)
    assert daemon.wait(name)["state"] == "failed"


def test_a_result_and_an_error_sent_right_before_death_are_not_lost(box, daemon):
    """Nothing is waited for: the process ends with the bytes in the socket."""
    body = """
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.connect(os.environ["ELASTICD_WORKER_SOCKET"])
def one(method, **p):
    return json.dumps({"method": WORKER_IFACE + method, "parameters": p, "oneway": True}).encode() + b"\\0"
s.sendall(one("Hello", token=os.environ["ELASTICD_TOKEN"]) + one("Result", value="kept")
          + one("ReportError", code="Aborted", message="last words"))
os._exit(0)
"""
    import json
    import pathlib
    for _ in range(5):
        job = daemon.run({"roles": [{"command": script(body)}]})
        kept = json.loads((pathlib.Path(job["log_dir"]) / "results.json").read_text())
        assert kept["results"][0]["value"] == "kept"
        assert kept["results"][0]["error"] == {"code": "Aborted", "message": "last words"}
        assert job["state"] == "failed"
