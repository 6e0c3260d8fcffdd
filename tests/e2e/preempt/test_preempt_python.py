# SPDX-License-Identifier: Apache-2.0
"""The Python package's promise when a machine is taken away: a training loop in a with statement saves
where all tasks do, once, and leaves with the code that was agreed; by hand it does the same alone."""

import json

import pytest
from harness import wait_file
from python_package import by_hand, needs_library, outputs, spec_of, told

pytestmark = [needs_library, pytest.mark.seconds(120)]

TRAIN = """
import json, signal, sys, time
import elasticd

job = elasticd.init()
saved = []

def save(n):
    saved.append(n)
    return f"/ckpt/{job.rank}-{n}"

def ready():
    "All take part from here on."
    job.step(0)
    job.barrier("ready")

def train(first, last, notice=lambda n: None, **more):
    "What it came to: the exit code, or None; and where it has saved."
    code = None
    try:
        with job.preemptible(save=save, **more) as work:
            for n in range(first, last):
                work.step(n)
                notice(n)
                time.sleep(0.001)
    except SystemExit as e:
        code = e.code
    return code, saved

"""

FOR_EVER = 1_000_000_000


def spec(box, body, **top):
    return spec_of(box, TRAIN + body, **top)


def alone(box, body, **env):
    """The last line of what the program prints by hand."""
    done = by_hand(box, TRAIN + body, **env)
    assert done.rc == 0, done
    return json.loads(done.out.splitlines()[-1])


# --- by hand


def test_by_hand_a_notice_saves_once_and_leaves(box):
    assert alone(box, """
assert job.preempted() is None and not job.notice and job.exit_code == 42
assert [job.step(n) for n in range(3)] == [elasticd.Action.CONTINUE] * 3
job.notify("on a whim")
said = job.preempted()
assert (said.source, said.reason, said.step, said.final, said.exit_code) == (
    "worker", "on a whim", 3, True, 42), said
assert said.deadline is None and abs(time.time() - said.time) < 3600
try:
    job.saved(2)
except elasticd.OutOfRange:
    pass
assert job.step(3) is elasticd.Action.SAVE_AND_EXIT and job.preempted().step == 3
job.saved(3, __import__("pathlib").Path("/ckpt/3"))
assert job.step(4) is elasticd.Action.EXIT
print(json.dumps("done"))
""") == "done"


def test_by_hand_a_signal_is_a_notice(box):
    assert alone(box, """
before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)
def notice(n):
    if n == 5:
        signal.raise_signal(signal.SIGUSR1)
came = train(0, 100, notice, signals=(signal.SIGTERM, signal.SIGUSR1))
assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)) == before
assert job.preempted().reason == "worker:0 got SIGUSR1"
print(json.dumps(came))
""") == [42, [6]]


def test_by_hand_the_actions_of_a_step_save_and_leave(box):
    assert alone(box, """
left = []
with job.preemptible(save=lambda n: left.append(n), exit=lambda code: left.append(-code), signals=()) as work:
    assert work.step(1) == elasticd.Action.CONTINUE
    job.notify()
    assert work.step(2) == elasticd.Action.SAVE_AND_EXIT
    assert work.step(3) == elasticd.Action.EXIT
print(json.dumps(left))
""") == [2, -42, -42]


def test_a_save_that_raises_is_not_told_and_does_not_leave(box):
    assert alone(box, """
def fail(n):
    raise OSError("no space")
try:
    with job.preemptible(save=fail) as work:
        work.step(0)
        job.notify()
        work.step(1)
except OSError as e:
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    print(json.dumps(str(e)))
""") == "no space"


def test_a_grace_period_that_is_not_a_number_is_refused(box):
    assert alone(box, """
refused = []
for grace in (float("inf"), float("-inf"), float("nan")):
    for call in (lambda: job.notify("x", grace=grace),
                 lambda: job.preemptible(save=save, signals=(), grace=grace)):
        try:
            call()
        except elasticd.InvalidArgument as e:
            refused.append(str(e))
assert not job.notice
job.preemptible(save=save, signals=(), grace=1e308)
job.notify("x", grace=10 ** 400)
print(json.dumps([refused, job.preempted().deadline - time.time() > 1e9]))
""") == [[f"grace: expected a number of seconds, got {g}" for g in ("inf", "-inf", "nan") for _ in "ab"],
         True]


def test_a_signal_is_for_the_main_thread(box):
    assert alone(box, """
import threading
came = []
def elsewhere():
    try:
        train(0, 3)
    except ValueError as e:
        came.append("ValueError")
    came.append(train(0, 3, signals=())[0])
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
print(json.dumps(came))
""") == ["ValueError", None]


def test_handlers_are_restored_where_one_cannot_be_installed(box):
    assert alone(box, """
try:
    train(0, 3, signals=(signal.SIGTERM, signal.SIGKILL))
except OSError:
    print(json.dumps(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL))
""") is True


def test_a_child_of_fork_dies_of_the_signal_that_its_parent_notes(box):
    assert alone(box, """
import multiprocessing, os
with job.preemptible(save=save) as work:
    work.step(0)
    context = multiprocessing.get_context("fork")
    up = context.Event()
    child = context.Process(target=lambda: up.set() or [time.sleep(0.1) for _ in range(1 << 30)])
    child.start()
    up.wait()
    child.terminate()
    child.join()
    assert work.step(1) == 0
print(json.dumps(child.exitcode))
""") == -15


def test_a_signal_after_the_last_step_is_a_notice_too(box):
    assert alone(box, """
code, _ = train(0, 3, lambda n: n == 2 and signal.raise_signal(signal.SIGTERM))
print(json.dumps([code, job.preempted().reason]))
""") == [None, "worker:0 got SIGTERM"]


def test_a_worker_raises_its_own_error_at_its_next_step(box):
    assert alone(box, """
job.report_error("Running out of resources", elasticd.Status.RESOURCE_EXHAUSTED)
try:
    job.step(1)
except elasticd.ResourceExhausted as e:
    print(json.dumps([str(e), e.missing]))
""") == ["Running out of resources", ["worker:0"]]


# --- tasks of a job


def ended(daemon, job, state="preempted"):
    assert job["state"] == state, (job["verdict"], outputs(daemon, job, stream="stderr"))
    return told(daemon, job)


def test_all_save_at_one_step_and_leave(box, daemon):
    job = daemon.run(spec(box, f"""
ready()
came = train(0, {FOR_EVER}, lambda n: job.rank == 1 and n == 10 and job.notify("tired"))
print(json.dumps(came))
sys.exit(came[0])
""", replicas=3))
    said = ended(daemon, job)
    assert said[0] == said[1] == said[2]
    assert said[0][0] == 42 and len(said[0][1]) == 1
    assert job["verdict"]["exit_status"] == 42
    assert {t["saved_path"] for t in job["workers"]} == {f"/ckpt/{r}-{said[0][1][0]}" for r in range(3)}


def test_a_signal_to_one_worker_is_a_notice_for_all(box, daemon):
    job = daemon.run(spec(box, f"""
import os
ready()
came = train(0, {FOR_EVER}, lambda n: job.rank == 2 and n == 10 and os.kill(os.getpid(), signal.SIGTERM))
print(json.dumps([*came, job.preempted().reason]))
sys.exit(came[0])
""", replicas=3))
    said = ended(daemon, job)
    assert said[0] == said[1] == said[2]
    assert (said[0][0], len(said[0][1]), said[0][2]) == (42, 1, "worker:2 got SIGTERM")


def test_a_save_that_does_nothing_is_a_coordinated_exit(box, daemon):
    job = daemon.run(spec(box, f"""
ready()
with job.preemptible(save=lambda n: None) as work:
    for n in range({FOR_EVER}):
        print(n)
        work.step(n)
        if job.rank == 0 and n == 10:
            job.notify("tired")
        time.sleep(0.001)
""", replicas=3))
    assert len(set(ended(daemon, job))) == 1
    assert "saved_path" not in job["workers"][0]


def test_with_a_grace_period_there_are_two_saves(box, daemon):
    # A day, which another notice cuts short once all have saved: how fast they are does not matter.
    _, run = daemon.submit(spec(box, f"""
ready()
came = train(0, {FOR_EVER}, lambda n: job.rank == 0 and n == 2 and job.notify("maintenance", grace=86400))
print(json.dumps(came))
sys.exit(came[0])
""", replicas=3))
    daemon.wait_event(run, "countdown")
    daemon.call("Preempt", job=run, reason="now")
    said = ended(daemon, daemon.wait(run))
    assert said[0] == said[1] == said[2]
    code, (first, second) = said[0]
    assert code == 42 and second > first


def test_an_error_of_one_worker_is_raised_on_all(box, daemon):
    """With the same code and text; nothing is saved."""
    job = daemon.run(spec(box, f"""
def fails(n):
    if job.rank == 1 and n == 10:
        job.report_error("Running out of resources", elasticd.Status.RESOURCE_EXHAUSTED)
try:
    train(0, {FOR_EVER}, fails)
except elasticd.Error as e:
    print(json.dumps([type(e).__name__, int(e.code), str(e), e.missing, saved]))
job.kv.put(f"heard/{{job.rank}}", "")
for rank in range(3):
    job.kv.get(f"heard/{{rank}}")
sys.exit(1)
""", replicas=3))
    assert ended(daemon, job, "failed") == [
        ["ResourceExhausted", 8, "Running out of resources", ["worker:1"], []]] * 3


def test_an_exception_that_record_reports_is_raised_on_all(box, daemon):
    job = daemon.run(spec(box, f"""
@elasticd.record
def main():
    train(0, {FOR_EVER}, lambda n: 1 / 0 if job.rank == 1 and n == 10 else None)

try:
    main()
except Exception as e:
    print(json.dumps([type(e).__name__, str(e)]))
job.kv.put(f"heard/{{job.rank}}", "")
for rank in range(3):
    job.kv.get(f"heard/{{rank}}")
sys.exit(1)
""", replicas=3))
    theirs = ["Unknown", "ZeroDivisionError: division by zero"]
    assert ended(daemon, job, "failed") == [theirs, ["ZeroDivisionError", "division by zero"], theirs]
    assert job["verdict"]["root_cause"]["rank"] == 1


def test_an_ordinary_stop_is_no_notice(box, daemon):
    """The signal of a stop has its usual effect."""
    path = box.path("work", "stepped")
    _, run = daemon.submit(spec(box, f"""
def stepped(n):
    if n == 5:
        open({str(path)!r}, "w").close()
train(0, {FOR_EVER}, stepped)
print(json.dumps("never"))
""", replicas=1, stop={"timeout": "600s"}))
    wait_file(path)
    daemon.call("Stop", job=run)
    job = daemon.wait(run)
    assert job["state"] == "stopped"
    assert told(daemon, job) == [None]
    assert job["workers"][0]["exit"]["signal"] == 15, job["workers"]


# The first process of worker 0 waits for its signal between two steps.
HELD = """
held = job.rank == 0 and job.start == 0
with job.preemptible(save=save) as work:
    for n in range({last}):
        work.step(n)
        if held and n == 5:
            open({stepped!r}, "w").close()
            while work._noted is None:
                time.sleep(0.01)
        if not held and os.path.exists({over!r}):
            break
        time.sleep(0.001)
print(json.dumps("over"))
"""


def held_job(box, daemon, replicas=2, **top):
    paths = {"stepped": str(box.path("work", "stepped")), "over": str(box.path("work", "over"))}
    _, run = daemon.submit(spec(box, "import os" + HELD.format(last=FOR_EVER, **paths), replicas=replicas,
                                stop={"timeout": "600s"}, **top))
    return run, box.path("work", "stepped"), box.path("work", "over")


def names(daemon, run):
    return [e["event"] for e in daemon.events(run)]


@pytest.mark.parametrize("again", [False, True])
def test_the_stop_and_the_restart_of_one_worker_are_no_notice(box, daemon, again):
    run, stepped, over = held_job(box, daemon)
    wait_file(stepped)
    daemon.call("StopWorkers", job=run, workers="worker:0", again=again)
    daemon.wait_event(run, "worker-restarted" if again else "worker-stopped")
    over.touch()
    job = daemon.wait(run)
    assert "notice" not in names(daemon, run)
    assert job["state"] == "succeeded" and job["attempt"] == 0, job["verdict"]
    if again:
        assert told(daemon, job) == ["over", "over"]
        assert [t["restarts"] for t in job["workers"]] == [1, 0]
    else:
        assert told(daemon, job) == [None, "over"]
        assert job["workers"][0]["exit"]["signal"] == 15


def test_a_hanging_worker_that_is_stopped_gives_no_notice(box, daemon):
    """The next attempt does not begin to beat."""
    job = daemon.run(spec(box, """
if job.attempt == 0:
    with job.preemptible(save=save) as work:
        work.step(0)
        while work._noted is None:
            time.sleep(0.01)
        work.step(1)
print(json.dumps(job.attempt))
""", replicas=1, restart={"max": 1}, stop={"timeout": "600s"},
                          heartbeat={"period": "100ms", "timeout": "200ms", "dump_timeout": "0s"}))
    assert "notice" not in names(daemon, job["run"])
    assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 1, 1), job["verdict"]
    assert told(daemon, job, attempt=1) == [1]


def test_a_stop_of_one_worker_while_a_notice_is_up_is_a_stop(box, daemon):
    run, stepped, _ = held_job(box, daemon)
    wait_file(stepped)
    daemon.call("Preempt", job=run, grace_ms=3600000)
    daemon.call("StopWorkers", job=run, workers="worker:0")
    job = daemon.wait(run)
    assert told(daemon, job)[0] is None
    assert job["workers"][0]["exit"]["signal"] == 15, job["workers"]


def test_with_how_signal_each_worker_saves_at_its_own_step(box, daemon):
    paths = [str(box.path("work", f"stepped{r}")) for r in range(2)]
    _, run = daemon.submit(spec(box, f"""
def stepped(n):
    if n == 5:
        open({paths!r}[job.rank], "w").close()
came = train(0, {FOR_EVER}, stepped)
print(json.dumps(came))
sys.exit(came[0])
""", replicas=2, preemption={"how": "signal"}))
    for path in paths:
        wait_file(path)
    daemon.call("Preempt", job=run)
    job = daemon.wait(run)
    said = ended(daemon, job)
    assert [(code, len(saved)) for code, saved in said] == [(42, 1)] * 2
    assert [t["state"] for t in job["workers"]] == ["stopped"] * 2


def test_a_notice_is_an_event(box, daemon):
    job = daemon.run(spec(box, f"""
if job.rank == 0:
    with job.events() as events:
        job.barrier("listening")
        event = next(e for e in events if e.event == "notice")
    print(json.dumps(event.text))
    job.kv["heard"] = ""
    sys.exit(0)
job.step(0)
job.barrier("listening")
def notice(n):
    if n == 3:
        job.notify("the cloud says so")
        job.kv.get("heard")  # a worker that only listens is stopped when all others have left
came = train(1, {FOR_EVER}, notice)
print(json.dumps(came))
sys.exit(came[0])
""", replicas=2))
    assert "the cloud says so" in outputs(daemon, job)[0]


def test_where_the_kernel_makes_no_barrier_steps_are_the_same(box, daemon):
    job = daemon.run(spec_of(box, f"""
import elasticd._job
elasticd._job.kernel_fences = lambda: False
""" + TRAIN + f"""
ready()
came = train(0, {FOR_EVER}, lambda n: job.rank == 1 and n == 10 and job.notify("tired"))
print(json.dumps(came))
sys.exit(came[0])
""", replicas=3))
    said = ended(daemon, job)
    assert said[0] == said[1] == said[2] and len(said[0][1]) == 1


def test_a_step_is_counted_once_also_under_a_notice(box, daemon):
    """The time of a step is measured by that."""
    job = daemon.run(spec(box, """
from elasticd._board import STEPS
with job.preemptible(save=save) as work:
    for n in range(5):
        work.step(n)
    job.notify("maintenance", grace=3600)
    for n in range(5, 30):
        work.step(n)
print(json.dumps([job._slot[STEPS], saved]))
""", replicas=1))
    (count, saved), = ended(daemon, job, "succeeded")
    assert count == 30
    assert saved == [5]
