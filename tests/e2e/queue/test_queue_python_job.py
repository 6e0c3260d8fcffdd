# SPDX-License-Identifier: Apache-2.0
"""The work queue in Python in real jobs: a coordinator, which is a worker of the job or a program
outside, and workers, which may die."""

import signal
import sys
import textwrap

import pytest

from harness import wait_text
from python_package import ENV, needs_library, outputs, told, write_script

pytestmark = [needs_library, pytest.mark.seconds(120)]

CHIEF = """
import collections, json, os, signal, sys, threading, time
import elasticd

def raised(kind, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except kind as e:
        return e
    raise AssertionError(f"{function} did not raise {kind}")

def until(condition):
    while not condition():
        time.sleep(0.001)

def began_at(pid):
    "When the process began, in ticks of the kernel."
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[19])

"""

ECHO = """
    with elasticd.init() as job:
        job.work(lambda task: task.payload)
"""


def job_of(box, chief, worker=ECHO, workers=2, role=None, **top):
    """A job with one coordinator, which closes the queues when it is done, and so ends the workers: its own
    end gives nobody but a few seconds, and one that waits to be started again then has failed."""
    programs = [write_script(box, CHIEF + textwrap.dedent(text), name)
                for text, name in ((chief, "chief.py"), (worker, "worker.py"))]
    chief, worker = [{"env": dict(ENV), "command": [sys.executable, "-u", str(p)]} for p in programs]
    return {"roles": [{"name": "chief", **chief},
                      {"name": "worker", "replicas": workers, **worker, **(role or {})}],
            "cwd": str(box.path("work")), "logs": {"redirects": "3"}, **top}


RESTART = {"scope": "worker", "max": 20, "backoff": "0s"}


def succeeded(daemon, spec):
    job = daemon.run(spec)
    assert job["state"] == "succeeded", (job["verdict"], outputs(daemon, job, stream="stderr"))
    return job


def test_tasks_are_spread_over_the_workers_and_come_back(box, daemon):
    job = succeeded(daemon, job_of(box, r"""
        with elasticd.init() as job, job.queue() as q:
            values = [None, "text \0 \N{SNOWMAN}", b"\0\xff", {"a": [1, {"b": None}]}, b"z" * 500000]
            for h, value in zip(q.map(values), values):
                got = q.fetch({"deep": [h, (h, 1)]})
                assert got == {"deep": [value, (value, 1)]} and type(h.fetch()) is type(value)
            both = set()
            while len(both) < 2:
                both |= set(q.fetch([q.submit("who") for _ in range(10)]))
            q.join()
            print(json.dumps(sorted(both)))
            job.close_queues()
        """, """
        with elasticd.init() as job:
            for task in job.tasks():
                with task:
                    assert (task.index, task.start, task.tries) == (job.index, 0, 0)
                    task.value = job.me if task.payload == "who" else task.payload
            print(json.dumps("closed"))
        """))
    assert told(daemon, job) == [["worker:0", "worker:1"], "closed", "closed"]


def test_tasks_of_a_dead_worker_are_done_by_another(box, daemon):
    """Every tenth task kills its worker, the first time; one task does so twice."""
    job = succeeded(daemon, job_of(box, """
        with elasticd.init() as job, job.queue() as q:
            handles = q.map(range(50))
            stubborn = q.submit("twice")
            assert [v for v, _ in q.fetch(handles)] == list(range(50))
            assert stubborn.fetch()[1] == 2
            early = handles[10].fetch()
            assert early == handles[10].fetch() and early[1] == 1
            q.join()
            print(q.stats().put_back)
            job.close_queues()
        """, """
        with elasticd.init() as job:
            for task in job.tasks():
                deaths = 2 if task.payload == "twice" else task.payload % 10 == 0
                if task.tries < deaths:
                    os.kill(os.getpid(), signal.SIGKILL)
                task.finish([task.payload, task.tries])
        """, role={"restart": RESTART}))
    assert told(daemon, job)[0] >= 7


def test_the_first_error_interrupts_the_others_and_three_new_ones_succeed(box, daemon):
    job = succeeded(daemon, job_of(box, """
        with elasticd.init() as job, job.queue() as q:
            long = q.submit("long")
            until(lambda: q.stats().running == 1)
            bad = q.submit("bad")
            error = raised(elasticd.QueueFailed, q.join)
            assert type(long.exception()) is elasticd.Cancelled
            assert error.task == bad.task and error.worker == "worker:1", vars(error)
            assert "ValueError: not this one" in str(error) and "in handler" in error.details
            assert q.fetch(q.map([1, 2, 3])) == [1, 2, 3]
            q.join()
            job.close_queues()
        """, """
        def handler(task):
            if task.payload == "long":
                try:
                    job.kv["begun"] = ""
                    time.sleep(3600)
                finally:
                    interrupted.append(task.number)
            if task.payload == "bad":
                raise ValueError("not this one")
            return task.payload

        interrupted = []
        with elasticd.init() as job:
            if job.index == 1:  # the long one is the other's
                job.kv.get("begun")
            job.work(handler, interrupt=signal.SIGUSR1)
            print(json.dumps(interrupted))
        """))
    assert [len(said) for said in told(daemon, job)[1:]] == [1, 0]


def test_a_worker_that_ignores_its_cancellation_is_killed(box, daemon):
    job = succeeded(daemon, job_of(box, """
        with elasticd.init() as job, job.queue() as q:
            deaf = q.submit("deaf")
            until(lambda: q.stats().running == 1)
            assert deaf.cancel("not needed")
            assert "not needed" in str(deaf.exception())
            assert q.submit("fine").fetch() == ["fine", 1]
            job.close_queues()
        """, """
        with elasticd.init() as job:
            for task in job.tasks():
                while task.payload == "deaf":
                    time.sleep(3600)
                task.finish([task.payload, job.start])
        """, workers=1, role={"restart": RESTART}, queue={"cancel_grace": "200ms"}))
    assert job["verdict"]["exit_status"] == 0


def test_a_full_queue_holds_up_its_submitters(box, daemon):
    """With a limit of 2 and 5 workers nothing stands still, and a generator is not run ahead of."""
    succeeded(daemon, job_of(box, """
        def payloads(n):
            global taken
            for taken in range(1, n + 1):
                yield taken

        with elasticd.init() as job, job.queue() as q:
            assert q.fetch(q.map(payloads(300))) == list(range(1, 301))
            assert list(q.imap(payloads(300), ahead=20)) == list(range(1, 301))
            others = [threading.Thread(target=lambda: q.fetch(q.map(range(50)))) for _ in range(4)]
            for thread in others:
                thread.start()
            q.join()
            for thread in others:
                thread.join()
            gate = q.map(["wait"] * 7)  # 5 run, 2 wait
            error = raised(elasticd.ResourceExhausted, q.submit, "third", timeout=0)
            error = raised(elasticd.ResourceExhausted, q.map, ["third", "fourth"], timeout=0.05)
            assert error.handles == []
            job.kv["go"] = ""
            assert q.fetch(gate) == ["wait"] * 7 and q.submit("third").fetch() == "third"
            job.close_queues()
        """, """
        def handler(task):
            if task.payload == "wait":
                job.kv.get("go")
            return task.payload

        with elasticd.init() as job:
            job.work(handler)
        """, workers=5, queue={"max": 2}))


def test_resources_are_built_by_each_worker_and_again_after_a_restart(box, daemon):
    job = succeeded(daemon, job_of(box, """
        with elasticd.init() as job, job.queue() as q:
            job.create_resource("shard", {"of": 2})
            job.create_resource("broken")
            seen = set()
            while len(seen) < 2:
                seen |= {tuple(v[:2]) for v in q.fetch(q.map([""] * 10, resources=["shard"]))}
            assert seen == {(0, "0 of 2"), (1, "1 of 2")}, seen
            error = raised(elasticd.FailedPrecondition, q.submit("", resources=["broken"], alone=True).fetch)
            assert "no such disk" in str(error), error
            assert q.submit("die", resources=["shard"]).fetch()[1].endswith("of 2")
            until(lambda: any(v[2] for v in q.fetch(q.map([""] * 10, resources=["shard"]))))
            job.close_queues()
        """, """
        def shard(payload):
            print("built")
            return f"{job.index} of {payload['of']}"

        def broken(_):
            raise OSError("no such disk")

        def handler(task):
            if task.payload == "die" and not task.tries:
                os.kill(os.getpid(), signal.SIGKILL)
            return [job.index, task.resource("shard"), job.start]

        with elasticd.init() as job:
            job.work(handler, resources={"shard": shard, "broken": broken})
        """, role={"restart": RESTART}))
    said = "".join(outputs(daemon, job))
    assert said.count("built") == 3, said


def test_calls_reach_all_workers_of_a_pool_and_answers_are_in_order(box, daemon):
    """Processes stay, whatever a call raises."""
    succeeded(daemon, job_of(box, """
        with elasticd.init() as job:
            first = job.call("pid")
            assert [a.worker for a in first] == ["worker:0", "worker:1", "worker:2"]
            error = raised(elasticd.CallFailed, job.call, "bad")
            assert [a.error is None for a in error.answers] == [True, False, True], error.answers
            assert isinstance(error, elasticd.OutOfRange) and error.worker == "worker:1"
            assert job.call("pid") == first and len({a.value[0] for a in first}) == 3
            assert [a.value[1] for a in first] == ["seed 7"] * 3
            job.close_queues()
        """, """
        def init(payload):
            global seed
            seed = payload

        def calls(payload):
            if payload == "bad" and job.index == 1:
                raise elasticd.OutOfRange("too far")
            return [os.getpid(), seed]

        with elasticd.init() as job:
            job.work(print, init=init, calls=calls)
        """, workers=3, mode="pool", role={"init": "seed 7"}))


def test_a_group_that_is_stopped_ends_loops_and_waits(box, daemon):
    name, _ = daemon.submit(job_of(box, """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with elasticd.init() as job, job.queue() as q:
            h = q.submit("never")
            job.kv.get("begun")
            job.barrier("ready")
            print("waiting", flush=True)
            raised(elasticd.Cancelled, q.join)
            raised(elasticd.Cancelled, h.fetch)
            print('"stopped"')
        """, """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        def never(task):
            job.kv["begun"] = ""
            job.barrier("ready")
            job.kv.get("never")

        with elasticd.init() as job:
            if job.index == 0:
                raised(elasticd.Cancelled, job.work, never)
            else:
                job.barrier("ready")  # the other worker has the task
                raised(elasticd.Cancelled, list, job.tasks())
            print('"stopped"')
        """))
    job = daemon.wait(name, until="running")
    wait_text(daemon.log(job, 0, 0), "waiting")
    daemon.call("Stop", job=name)
    job = daemon.wait(name)
    assert [said[-1] for said in (text.splitlines() for text in outputs(daemon, job))] == ['"stopped"'] * 3


OUTSIDE = """
    def descriptors():
        return sorted(os.listdir("/proc/self/fd"))

    before = descriptors(), threading.active_count()
    with elasticd.connect_queue("work") as q:
        assert q.fetch({"a": q.map(range(100))}) == {"a": list(range(100))}
        q.submit("forgotten with its queue")
    with elasticd.connect("work") as work:
        with work.queue("named") as q:
            assert work.call("who")[0].value == "who"
            assert q.submit("x").fetch() == "x" and q.name == "named"
            q.join()
        core = work._core
        for flags in 0, 1, 1 | 4:  # ELASTICD_PUT_OVERWRITE, and ELASTICD_PUT_NOWAIT
            raised(elasticd.FailedPrecondition, core.call, "put", b"k", b"v", 1, flags)
        raised(elasticd.NotFound, elasticd.connect_queue, "nobody")
    assert (descriptors(), threading.active_count()) == before, descriptors()
    if sys.argv[1:] == ["last"]:
        with elasticd.connect("work") as work:
            work.close_queues()
    print("well")
"""


def test_a_coordinator_outside_leaves_nothing_behind(box, daemon):
    spec = job_of(box, "", """
        with elasticd.init() as job:
            job.work(lambda task: task.payload, calls=lambda payload: payload)
        """, workers=2, name="work")
    del spec["roles"][0]
    daemon.submit(spec)
    env = {**ENV, "ELASTICD_SOCKET": str(daemon.socket)}
    script = write_script(box, CHIEF + textwrap.dedent(OUTSIDE), "outside.py")
    for last in ([], ["last"]):
        result = box.sh(sys.executable, script, *last, env=env)
        assert result.rc == 0 and result.out == "well\n", result
    assert daemon.wait("work")["state"] == "succeeded"


def test_tasks_of_a_dead_coordinator_are_cancelled(box, daemon):
    """Its worker is interrupted, and free for others."""
    spec = job_of(box, "", """
        def handler(task):
            if task.payload == "long":
                try:
                    print("begun", flush=True)
                    time.sleep(3600)
                except elasticd.TaskCancelled:
                    print("interrupted", flush=True)
                    raise
            return task.payload

        with elasticd.init() as job:
            job.work(handler, interrupt=signal.SIGUSR1)
        """, workers=1, name="work")
    del spec["roles"][0]
    daemon.submit(spec)
    job = daemon.wait("work", until="running")
    env = {**ENV, "ELASTICD_SOCKET": str(daemon.socket)}
    script = write_script(box, CHIEF + textwrap.dedent("""
        q = elasticd.connect_queue("work")
        if len(sys.argv) > 1:
            handles = q.map(["long", "queued", "queued"])
            q.join()
        assert q.submit("more").fetch() == "more"
        assert q.stats().succeeded == 1
        with elasticd.connect("work") as work:
            work.close_queues()
        print("well")
        """), "outside.py")
    first = box.start(sys.executable, str(script), "first", env=env)
    wait_text(daemon.log(job, 0, 0), "begun\n")
    first.signal(signal.SIGKILL)
    first.wait()
    result = box.sh(sys.executable, script, env=env)
    assert result.rc == 0 and result.out == "well\n", result
    assert daemon.wait("work")["state"] == "succeeded"
    assert daemon.log(job, 0, 0).read_text() == "begun\ninterrupted\n"


def test_children_of_fork_submit_and_work_on_their_own(box, daemon):
    succeeded(daemon, job_of(box, """
        with elasticd.init() as job, job.queue("shared") as q:
            kept = q.map(range(300))
            pids = []
            for n in range(3):
                pid = os.fork()
                if not pid:
                    kept.clear()
                    status = 1
                    try:
                        mine = q.map(range(n * 1000, n * 1000 + 300))
                        assert q.fetch(mine) == list(range(n * 1000, n * 1000 + 300))
                        status = 0
                    finally:
                        os._exit(status)
                pids.append(pid)
            assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * 3
            assert q.fetch(kept) == list(range(300))
            q.join()
            job.close_queues()
        """))


@pytest.mark.ci
def test_workers_are_killed_under_load_and_every_task_is_accounted_for(box, daemon):
    """Only a process that lives is killed: a pid in the store may be that of a worker that was just
    killed, and another process may have it by now."""
    job = succeeded(daemon, job_of(box, """
        import random

        def killed(index):
            "Once worker index has said who it is."
            pid, began = map(int, job.kv.get(f"process/{index}").split())
            try:
                process = os.pidfd_open(pid)
            except ProcessLookupError:
                return False
            try:
                same = began_at(pid) == began
                if same:
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                return same
            except (FileNotFoundError, ProcessLookupError):
                return False
            finally:
                os.close(process)

        with elasticd.init() as job, job.queue() as q:
            handles = q.map(range(2000))
            done = 0
            for h in q.as_completed(handles):
                done += 1
                if done % 400 == 200:
                    until(lambda: killed(random.randrange(4)))
            assert q.fetch(handles) == list(range(2000))
            q.join()
            print(q.stats().put_back)
            job.close_queues()
        """, """
        with elasticd.init() as job:
            job.kv.put(f"process/{job.index}", f"{os.getpid()} {began_at(os.getpid())}", overwrite=True)
            job.work(lambda task: task.payload)
        """, workers=4, role={"restart": RESTART}))
    assert told(daemon, job)[0] >= 0


def test_a_worker_does_not_wait_for_its_own_task(box, daemon):
    succeeded(daemon, job_of(box, r"""
        with elasticd.init() as job, job.queue("same") as q:
            assert q.submit("join").fetch() == "well"
            job.close_queues()
    """, worker=r"""
        with elasticd.init() as job:
            def do(task):
                with job.queue("same") as same, job.queue("other") as other:
                    me = same.handle(task.number)
                    for wait in (same.join, same.cancel, me.cancel, me.fetch, lambda: same.fetch([me])):
                        assert "deadlock" in str(raised(elasticd.FailedPrecondition, wait)), wait
                    raised(elasticd.DeadlineExceeded, same.join, timeout=0)
                    raised(elasticd.DeadlineExceeded, me.fetch, timeout=0)
                    assert not task.cancelled
                    other.join()
                    assert other.cancel() == 0
                return "well"
            job.work(do)
    """, workers=1))
