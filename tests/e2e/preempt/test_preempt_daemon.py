# SPDX-License-Identifier: Apache-2.0
"""Notices of preemption by way of elasticd: who may give them, to which jobs, what people see of them, and
runs that go on when elasticd starts the next time."""

import json
import os
import random
import re
import signal
import time

import pytest

from harness import (BUILD, CTL, Program, VarlinkError, Watch, as_user, other_user, puppet, spec,
                     wait_for, wait_gone)
from trainees import Trainees


def leaves(name, code=42, **top):
    """A job whose one worker knows nothing of the library and leaves on the signal."""
    return spec(f"on:TERM:exit:{code}", "print:up", "hang", name=name, **top)


def started(daemon, document):
    name, run = daemon.submit(document)
    daemon.wait(run, until="running")
    # The signal must find its handler.
    job = daemon.status(run)
    path = daemon.log(job, job["attempt"], 0)
    wait_for(lambda: path.exists() and b"up" in path.read_bytes(), path.parent, path,
             what="the worker's handler")
    return name, run


def redirected(document):
    document["logs"] = {"redirects": "3"}
    return document


def start_leaver(daemon, name, **top):
    return started(daemon, redirected(leaves(name, **top)))


def notices(daemon, run):
    return [e for e in daemon.events(run) if e["event"] == "notice"]


def test_a_worker_is_seen_to_end_before_it_is_said_to_have_left(box, daemon):
    _, run = start_leaver(daemon, "order")
    assert box.ctl("preempt", "order").rc == 0
    daemon.wait(run)
    said = [(e["event"], e.get("rank")) for e in daemon.events(run)]
    left = [what for what in said if what[0] == "left"]
    assert left and all(said[said.index(what) - 1] == ("worker-ended", what[1]) for what in left), said


def test_a_preempted_run_says_so_once(box, daemon):
    _, run = start_leaver(daemon, "once")
    assert box.ctl("preempt", "once", "--reason=a new kernel").rc == 0
    verdict = daemon.wait(run)["verdict"]
    assert verdict["result"] == "preempted"
    assert verdict["message"].startswith("notice from operator: a new kernel"), verdict
    for verb in ("wait", "why"):
        assert "preempted: preempted" not in box.ctl(verb, run).out
    assert "no failures of workers; the run was preempted with exit status 42" in box.ctl("errors", run).out
    texts = [e["text"] for e in daemon.events(run)]
    assert not [t for t in texts if "preempted: preempted" in t], texts


def test_a_job_that_gets_notice_saves_and_ends_preempted(box, daemon):
    start_leaver(daemon, "digits", restart={"max": 3})
    given = box.ctl("preempt", "digits", "--reason=a new kernel")
    assert given.rc == 0 and "digits has notice" in given.out, given
    waited = box.ctl("wait", "digits")
    assert waited.rc == 42 and "preempted" in waited.out, waited
    job = daemon.status("digits")
    assert job["state"] == "preempted" and job["restarts"] == 0, job
    assert job["preemption"]["source"] == "operator", job["preemption"]
    assert job["preemption"]["reason"] == "a new kernel"
    assert job["preemption"]["state"] == "over"
    page = box.ctl("status", "digits")
    assert page.rc == 3, page
    assert "Notice: operator" in page.out and "a new kernel" in page.out, page
    listed = box.ctl("list", "--all")
    assert "preempted" in listed.out, listed
    events = box.ctl("events", "digits")
    assert "a new kernel" in events.out, events


def test_an_empty_reason_leaves_no_empty_colon(box, daemon):
    _, run = start_leaver(daemon, "digits")
    assert box.ctl("preempt", "digits", "--reason=").rc == 0
    failed = daemon.run({"name": "f", "roles": [{"command": [
        str(BUILD / "tests/tools/libworker"), "error:13:", "exit:1"]}]})
    job = daemon.wait(run)
    assert job["preemption"]["reason"] == "" and failed["state"] == "failed"
    said = [job["verdict"]["message"], failed["verdict"]["message"], daemon.program.err]
    said += [e["text"] for name in (run, failed["run"]) for e in daemon.events(name)]
    said += [box.ctl(verb, name).out for verb in ("why", "status", "errors", "events")
             for name in (run, failed["run"])]
    bad = [line for text in said for line in text.splitlines()
           if ("notice" in line or "worker:0" in line) and re.search(r"\w:\s*($|[;,)(])", line)]
    assert not bad, bad


def test_the_exit_code_of_wait_is_the_specifications(box, daemon):
    start_leaver(daemon, "a", code=43, preemption={"exit_code": 43})
    assert box.ctl("preempt", "a").rc == 0
    assert box.ctl("wait", "a").rc == 43


def test_a_preemption_costs_no_restart(box, daemon):
    start_leaver(daemon, "a", restart={"max": 3})
    assert box.ctl("preempt", "a", "--wait").rc == 0
    why = box.ctl("why", "a")
    assert why.rc == 0 and "preempt" in why.out, why
    assert box.ctl("why", "--json", "a").json["budget"]["used"] == 0


def test_preempt_can_wait_for_the_end_and_tells_it(box, daemon):
    start_leaver(daemon, "a")
    start_leaver(daemon, "b")
    waited = box.ctl("preempt", "--wait", "a", "b")
    assert waited.rc == 0, waited
    assert "a ended after" in waited.out and "b ended after" in waited.out, waited
    assert daemon.status("a")["state"] == daemon.status("b")["state"] == "preempted"
    _, run = start_leaver(daemon, "c")
    report = box.ctl("preempt", "--wait", "--json", "c").json
    assert [job["run"] for job in report] == [run]
    assert report[0]["verdict"]["exit_status"] == 42


def test_all_means_every_active_job(box, daemon):
    ended = daemon.run(spec("exit:0", name="ended"))
    runs = {start_leaver(daemon, name)[1] for name in ("a", "b", "c")}
    told = box.ctl("preempt", "--all", "--json")
    assert set(told.json) <= runs, told  # all of them, unless an agent is very slow to answer
    for run in runs:
        assert daemon.wait(run)["state"] == "preempted"
    assert daemon.status(ended["run"])["state"] == "succeeded"
    none = box.ctl("preempt", "--all")
    assert none.rc == 0 and "0 jobs have notice" in none.out, none


def test_the_grace_period_is_the_machines_last_time(box, daemon):
    document = redirected(spec("on:TERM:print:saves", "print:up", "hang", name="a"))
    started(daemon, document)
    before = time.time_ns() // 1000
    assert box.ctl("preempt", "a", "--grace=1h", "--reason=soon").rc == 0
    after = time.time_ns() // 1000
    up = daemon.status("a")["preemption"]
    assert before + 3600e6 <= up["deadline_us"] <= after + 3600e6, (before, up, after)
    page = box.ctl("status", "a")
    assert page.rc == 0 and "left" in page.out and "soon" in page.out, page
    assert box.ctl("stop", "--grace=0s", "a").rc == 0
    assert daemon.status("a")["state"] == "stopped", "a stop is no preemption"


@pytest.fixture
def trainees(box, daemon):
    made = []

    def make(n, **document):
        made.append(Trainees(box, daemon, n, **document))
        return made[-1]

    yield make
    for job in made:
        job.close()


def saved_column(page):
    """Rank -> what the worker has saved, of the table of workers; None: it has no such column."""
    lines = page.out.splitlines()
    head = next((i for i, line in enumerate(lines) if "SAVED" in line), None)
    if head is None:
        return None
    at = lines[head].index("SAVED")
    cells = {}
    for line in filter(None, lines[head + 1:]):
        step, path = line[at:].split()[:2]
        cells[line.split()[0]] = f"{step} {path}" if path.startswith("/") else step
    return cells


def test_status_shows_the_step_and_who_has_saved_where(box, trainees):
    job = trainees(3, name="digits")
    team = job.team()
    for t in team:
        for _ in range(7):
            assert t.step() == "continue"
    before = box.ctl("status", "digits")
    assert "Notice:" not in before.out and saved_column(before) is None, before
    assert box.ctl("preempt", "digits", "--reason=a new kernel").rc == 0
    page = box.ctl("status", "digits")
    assert page.rc == 0 and "a new kernel" in page.out, page
    assert "Leaving: saving, step 8 is the last, 0 of 3 saved" in page.out, page
    for t in team:
        assert t.until_told() == ("save_exit", 8)
    team[0].saved("/ckpt/8")
    team[1].saved()
    page = box.ctl("status", "digits")
    assert "step 8 is the last, 2 of 3 saved" in page.out, page
    assert saved_column(page) == {"0": "8 /ckpt/8", "1": "8", "2": "-"}, page
    team[2].saved("/elsewhere/8")
    for t in team:
        t.leave()
    assert job.ended()["state"] == "preempted"
    page = box.ctl("status", "digits")
    assert page.rc == 3 and "Leaving: over, step 8 is the last, 3 of 3 saved" in page.out, page
    assert saved_column(page) == {"0": "8 /ckpt/8", "1": "8", "2": "8 /elsewhere/8"}, page
    why = box.ctl("why", "digits")
    assert why.rc == 0 and "preempted" in why.out, why


def test_status_shows_that_the_tasks_go_on_until_the_time_is_nearly_up(box, daemon, trainees):
    job = trainees(2, name="digits")
    team = job.team()
    for t in team:
        assert t.step(1) == "continue"
    assert box.ctl("preempt", "digits", "--grace=10h").rc == 0
    for t in team:
        assert t.until_told() == ("save", 2)
        t.saved(f"/ckpt/2.{t.rank}")
        assert t.step() == "continue"
    page = box.ctl("status", "digits")
    assert "Leaving: saved once, goes on until the time is nearly up" in page.out, page
    assert " left" in page.out and saved_column(page) == {"0": "2 /ckpt/2.0", "1": "2 /ckpt/2.1"}, page
    # What is told again is no second agreement, and the next elasticd knows all of it.
    assert box.ctl("preempt", "digits", "--grace=11h").rc == 0
    daemon.restart(signal.SIGKILL)

    def told_by_the_next():  # which does not wait for an agent that is slow to answer
        page = box.ctl("status", "digits")
        return page if "(1 more since)" in page.out else None

    page = wait_for(told_by_the_next, what="the next elasticd to know of both notices")
    assert saved_column(page) == {"0": "2 /ckpt/2.0", "1": "2 /ckpt/2.1"}, page
    # No time at all is left now: the last round begins.
    assert box.ctl("preempt", "digits", "--grace=0s").rc == 0
    for t in team:
        assert t.until_told()[0] == "save_exit"
        t.save_and_leave()
    ended = job.ended()
    assert ended["state"] == "preempted" and ended["preemption"]["final"] is True, ended["preemption"]


def test_a_job_that_cannot_have_notice_says_why(box, daemon):
    daemon.run(spec("exit:0", name="over"))
    over = box.ctl("preempt", "over")
    assert over.rc == 1 and "over" in over.err, over
    unknown = box.ctl("preempt", "nobody")
    assert unknown.rc == 1 and "nobody" in unknown.err, unknown
    for args in ((), ("--all", "over"), ("--grace=soon", "over")):
        wrong = box.ctl("preempt", *args)
        assert wrong.rc == 2 and "usage" in wrong.err or "--grace" in wrong.err, wrong
    # One that is refused does not keep the others from their notice.
    start_leaver(daemon, "a")
    assert box.ctl("preempt", "nobody", "a").rc == 1
    assert daemon.wait("a")["state"] == "preempted"
    for wrong in ({"source": "weather"}, {"grace_ms": -5}, {"deadline_us": -1}):
        with pytest.raises(VarlinkError) as e:
            daemon.call("Preempt", job="a", **wrong)
        assert e.value.error == "org.varlink.service.InvalidParameter", e.value


def test_users_give_notice_to_their_own_jobs_alone(box, guest):
    user, daemon = guest.user, guest
    _, roots = start_leaver(daemon, "roots")
    theirs = box.sh(*as_user(user, CTL, "start", "--name=theirs", puppet()[0], "on:TERM:exit:42",
                             "touch:" + str(box.path("work/up")), "hang"))
    assert theirs.rc == 0, theirs
    wait_for(box.path("work/up").exists, box.path("work"), what="their worker")
    refused = box.sh(*as_user(user, CTL, "preempt", "roots"))
    assert refused.rc == 1 and "roots" in refused.err, refused
    given = box.sh(*as_user(user, CTL, "preempt", "--all", "--json"))
    assert roots not in given.json, given
    assert daemon.wait("theirs")["state"] == "preempted"
    assert daemon.status(roots)["state"] == "running" and not notices(daemon, roots)


@pytest.mark.root
def test_only_root_may_say_that_somebody_else_gives_notice(box, daemon):
    user = other_user()
    box.open_to_all()
    os.chmod(daemon.socket, 0o666)
    os.chmod(daemon.base, 0o755)
    # It is refused as it connects, and may be before it writes.
    code = ("import contextlib,json,socket,sys\n"
            "s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
            "with contextlib.suppress(BrokenPipeError):\n"
            "    s.sendall(json.dumps({'method':'io.elasticd.Manager.Preempt','parameters':"
            "{'source':'gce'}}).encode()+b'\\0')\n"
            "print(s.recv(65536).decode())")
    said = box.sh(*as_user(user, "/usr/bin/python3", "-c", code, str(daemon.socket)))
    assert "PermissionDenied" in said.out, said
    _, run = start_leaver(daemon, "a")
    assert daemon.call("Preempt", job="a", source="gce", reason="MIGRATE")["runs"] == [run]
    assert daemon.wait(run)["preemption"]["source"] == "gce"


def asked_for(daemon, text="notice of preemption by uid"):
    daemon.program.wait_err(text)


def test_a_notice_waits_for_an_agent_that_stands_still(box, daemon):
    _, run = start_leaver(daemon, "a")
    _, other = start_leaver(daemon, "b")
    pid = daemon.agent_pid(run)
    os.kill(pid, signal.SIGSTOP)
    try:
        giver = box.ctl_start("preempt", "a", "--json")
        asked_for(daemon)
        # The other one has it, so there was time enough for both.
        assert box.ctl("preempt", "b").rc == 0
        assert daemon.wait(other)["state"] == "preempted"
        assert giver.popen.poll() is None, "it has not taken it yet"
    finally:
        os.kill(pid, signal.SIGCONT)
    result = giver.wait()
    assert result.rc == 0 and result.json == [run], result
    assert daemon.wait(run)["state"] == "preempted"


def test_all_is_answered_without_an_agent_that_stands_still(box, daemon):
    _, run = start_leaver(daemon, "a")
    _, other = start_leaver(daemon, "b")
    pid = daemon.agent_pid(run)
    os.kill(pid, signal.SIGSTOP)
    try:
        result = box.ctl("preempt", "--all", "--json")
        assert result.rc == 1 and "a: its agent does not answer" in result.err, result
        assert set(result.json) <= {other}, result
        assert daemon.wait(other)["state"] == "preempted"
    finally:
        os.kill(pid, signal.SIGCONT)
    # It hears of it all the same.
    assert daemon.wait(run)["state"] == "preempted"


def test_a_notice_reaches_the_next_agent_where_one_was_lost(box, daemon):
    _, run = start_leaver(daemon, "a", restart={"max": 3})
    pid = daemon.agent_pid(run)
    os.kill(pid, signal.SIGSTOP)
    giver = box.ctl_start("preempt", "a")
    asked_for(daemon)
    os.kill(pid, signal.SIGKILL)
    result = giver.wait()
    assert result.rc == 0, result
    job = daemon.wait(run)
    assert job["state"] == "preempted", job["verdict"]


def test_a_vanished_caller_takes_no_notice_back(box, daemon):
    _, run = start_leaver(daemon, "a")
    pid = daemon.agent_pid(run)
    os.kill(pid, signal.SIGSTOP)
    try:
        giver = box.ctl_start("preempt", "a")
        asked_for(daemon)
        giver.popen.kill()
        giver.wait()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert daemon.wait(run)["state"] == "preempted"


def test_a_notice_outlives_elasticd(box, daemon):
    document = redirected(spec("on:TERM:wait-file:" + str(box.path("work/go")) + "+exit:42", "print:up",
                               "hang", name="a"))
    _, run = started(daemon, document)
    assert box.ctl("preempt", "a", "--reason=first").rc == 0
    daemon.restart(signal.SIGKILL)
    up = daemon.watch(run, lambda job, _: "preemption" in job)
    assert up["preemption"]["reason"] == "first"
    box.path("work/go").touch()
    job = daemon.wait(run)
    assert job["state"] == "preempted" and len(notices(daemon, run)) == 1, daemon.events(run)


# --- going on ---------------------------------------------------------------------------------------


def resumable(name, **top):
    return redirected(leaves(name, preemption={"resume": True, **top.pop("preemption", {})}, **top))


def preempted(box, daemon, name="a", **top):
    _, run = started(daemon, resumable(name, **top))
    assert box.ctl("preempt", name, "--wait").rc == 0
    assert daemon.status(run)["state"] == "preempted"
    return run


def runs_of(daemon, name):
    listed = daemon.call("List", ended=True)["jobs"]
    return [job["run"] for job in listed if job["name"] == name]


def goes_on(daemon, name, *old):
    """The job of the next run, once that runs; till it is there the name means the old one."""
    new = wait_for(lambda: [r for r in runs_of(daemon, name) if r not in old], daemon.state / "jobs")
    assert len(new) == 1, new
    return daemon.wait(new[0], until="running")


def record(daemon, run):
    return json.loads((daemon.record(run) / "record.json").read_text())


def ended_for_good(daemon, run):
    """Also its guard: nothing of it is left that the next elasticd would wait for."""
    wait_gone(record(daemon, run)["agent"]["pid"])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_preempted_run_goes_on_when_elasticd_starts_the_next_time(box, daemon, how):
    old = preempted(box, daemon)
    assert runs_of(daemon, "a") == [old], "not before"
    daemon.restart(how)
    new = wait_for(lambda: [r for r in runs_of(daemon, "a") if r != old], daemon.state / "jobs")
    assert len(new) == 1
    assert daemon.wait(new[0], until="running")["state"] == "running"
    assert daemon.status("a")["run"] == new[0]
    assert "was preempted, and goes on as run " + new[0] in daemon.program.err
    assert record(daemon, new[0])["follows"] == old and record(daemon, old)["followed"] is True
    # Once.
    assert box.ctl("stop", "a").rc == 0
    daemon.restart(how)
    assert sorted(runs_of(daemon, "a")) == sorted([old, *new])
    assert daemon.status("a")["state"] == "stopped"


def test_a_run_that_is_preempted_again_goes_on_again(box, daemon):
    first = preempted(box, daemon)
    daemon.restart()
    second = wait_for(lambda: [r for r in runs_of(daemon, "a") if r != first], daemon.state / "jobs")[0]
    job = daemon.wait(second, until="running")
    path = daemon.log(job, job["attempt"], 0)
    wait_for(lambda: path.exists() and b"up" in path.read_bytes(), path.parent, path)
    assert box.ctl("preempt", "a", "--wait").rc == 0
    daemon.restart()
    third = wait_for(lambda: [r for r in runs_of(daemon, "a") if r not in (first, second)],
                     daemon.state / "jobs")
    assert len(third) == 1 and record(daemon, third[0])["follows"] == second


def test_a_stop_by_a_person_under_a_notice_holds(box, daemon):
    removed = preempted(box, daemon, "removed")
    assert box.ctl("rm", "removed").rc == 0
    again = preempted(box, daemon, "again")
    assert box.ctl("restart", "again").rc == 0
    assert box.ctl("stop", "again").rc == 0
    anew = preempted(box, daemon, "anew")
    daemon.run(spec("exit:0", name="anew"))
    unasked_job = started(daemon, redirected(leaves("unasked")))[1]
    assert box.ctl("preempt", "unasked", "--wait").rc == 0
    # What else is there goes on, so that the wait below has an end.
    last = preempted(box, daemon, "last")
    before = {name: runs_of(daemon, name) for name in ("removed", "again", "anew", "unasked")}
    assert before["removed"] == [] and len(before["again"]) == 2 and len(before["anew"]) == 2
    daemon.restart()
    goes_on(daemon, "last", last)
    after = {name: runs_of(daemon, name) for name in before}
    assert after == before, (removed, again, anew, unasked_job)
    assert record(daemon, again)["followed"] is True


def test_a_resumed_run_that_was_removed_does_not_come_back(box, daemon):
    old = preempted(box, daemon)
    daemon.restart()
    job = goes_on(daemon, "a", old)
    assert box.ctl("stop", "a").rc == 0
    wait_gone(record(daemon, job["run"])["agent"]["pid"])
    daemon.call("Remove", job=job["run"])
    left = runs_of(daemon, "a")
    daemon.restart()
    assert runs_of(daemon, "a") == left and job["run"] not in left


def test_the_new_record_alone_tells_that_a_run_went_on(box, daemon):
    """As if elasticd had been killed between the new record and the mark in the old one."""
    old = preempted(box, daemon)
    daemon.restart()
    new = goes_on(daemon, "a", old)["run"]
    daemon.kill()
    document = record(daemon, old)
    document.pop("followed", None)
    (daemon.record(old) / "record.json").write_text(json.dumps(document))
    daemon.start()
    assert sorted(runs_of(daemon, "a")) == sorted([old, new])
    wait_for(lambda: record(daemon, old).get("followed"), daemon.record(old))
    assert daemon.wait(new, until="running")["state"] == "running"


def test_elasticd_may_die_at_any_moment_of_a_resumption(box, daemon):
    """Killed at many moments of its start: the run goes on once, and is not lost."""
    rng = random.Random(int(os.environ.get("ELASTIC_SEED", 0)) or os.getpid())
    old = preempted(box, daemon)
    ended_for_good(daemon, old)
    for _ in range(12):
        daemon.kill()
        os.makedirs(daemon.runtime, exist_ok=True)
        watch = Watch(daemon.state / "jobs", daemon.runtime, daemon.record(old))
        daemon.program = Program(box, "elasticd", daemon.argv(), env=daemon.env, cwd="/")
        for _ in range(rng.randrange(8)):
            watch.wait(0.2)
        watch.close()
    daemon.kill()
    daemon.start()
    new = wait_for(lambda: [r for r in runs_of(daemon, "a") if r != old], daemon.state / "jobs")
    assert len(new) == 1, new
    assert daemon.wait(new[0], until="running")["state"] == "running"


def test_a_host_that_died_with_a_notice_up_goes_on(box, daemon):
    """Everything is killed amid the countdown: the next agent ends the run, and then it goes on."""
    document = redirected(spec("on:TERM:print:saves", "print:up", "hang", name="a", restart={"max": 3},
                               preemption={"resume": True}))
    _, old = started(daemon, document)
    assert box.ctl("preempt", "a", "--grace=1h").rc == 0
    pid = daemon.status(old)["agent_pid"]
    guard = record(daemon, old)["agent"]["pid"]
    daemon.kill()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    wait_gone(guard)
    daemon.start()
    assert daemon.wait(old)["state"] == "preempted"
    new = wait_for(lambda: [r for r in runs_of(daemon, "a") if r != old], daemon.state / "jobs")
    assert daemon.wait(new[0], until="running")["state"] == "running"
