# SPDX-License-Identifier: Apache-2.0
"""The Python package in workers of a real agent."""

import json

import pytest

from harness import wait_for
from python_package import ENV, needs_library, spec_of, told, write_script

pytestmark = [needs_library, pytest.mark.seconds(120)]


def succeeded(daemon, spec):
    job = daemon.run(spec)
    assert job["state"] == "succeeded", (job["verdict"], daemon.call("Errors", job=job["run"]))
    return job


def test_a_worker_knows_its_identity(box, daemon):
    job = succeeded(daemon, spec_of(box, """
        import json, os
        import elasticd
        with elasticd.init() as job:
            print(json.dumps([job.supervised, job.name, job.run, job.me, job.rank, job.local_rank,
                              job.world_size, job.attempt, job.start, job.stopping]))
            assert job.rank == int(os.environ["RANK"]) and elasticd.get() is job
        """, replicas=2, name="who"))
    assert told(daemon, job) == [
        [True, "who", job["run"], f"worker:{r}", r, r, 2, 0, 0, False] for r in range(2)]


def test_workers_share_a_store_and_meet_at_barriers(box, daemon):
    """Rank 0 writes once all watch; each sees the writes of the others in one order."""
    job = succeeded(daemon, spec_of(box, """
        import json
        import elasticd
        with elasticd.init() as job, job.kv.watch("state") as watch:
            job.barrier("watching")
            if job.rank == 0:
                job.kv.put("state/raw", b"\\0\\xff")
            for r in range(job.world_size):
                job.kv.get("state/raw")
                job.kv.put(f"state/{job.rank}/{r}", f"{job.rank} to {r}")
                job.barrier("round")
            changes = [watch.next() for _ in range(1 + job.world_size ** 2)]
            assert [c.revision for c in changes] == sorted({c.revision for c in changes})
            try:
                job.kv.put("state/raw", "again")
            except elasticd.AlreadyExists:
                pass
            assert job.kv["state/raw"] == b"\\0\\xff"
            print(json.dumps([[c.key for c in changes], [e.key for e in job.kv.list("state")]]))
        """, replicas=3))
    said = told(daemon, job)
    keys = sorted(["state/raw", *(f"state/{a}/{b}" for a in range(3) for b in range(3))])
    assert all(listed == keys and sorted(changed) == keys for changed, listed in said)
    assert said[0][0] == said[1][0] == said[2][0]


def test_a_watch_reports_every_write_after_it_opened(box, daemon):
    """The writes take another connection. A child goes on with its parent's watch."""
    job = succeeded(daemon, spec_of(box, """
        import json, os
        import elasticd
        with elasticd.init() as job:
            told = []
            for n in range(100):
                with job.kv.watch("w") as watch:
                    job.kv.put(f"w/{n}", "")
                    told.append(watch.next().key)
            with job.kv.watch("w") as watch:
                first = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
                pid = os.fork()
                if not pid:
                    for fd in first:  # so that the child's connection is another descriptor
                        os.close(fd)
                    job.kv.put("w/child", "")
                    os._exit([watch.next().key, watch.next().key] != ["w/child", "w/parent"])
                keys = [watch.next().key]
                job.kv.put("w/parent", "")
                keys.append(watch.next().key)
            print(json.dumps([told == [f"w/{n}" for n in range(100)], keys,
                              os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]))
        """))
    assert told(daemon, job) == [[True, ["w/child", "w/parent"], 0]]


def test_a_child_that_closes_does_not_wake_its_parents_readers(box, daemon):
    job = succeeded(daemon, spec_of(box, """
        import json, os, select, threading, time
        import elasticd
        with elasticd.init() as job, job.kv.watch("w") as watch:
            got = []
            thread = threading.Thread(target=lambda: got.append(watch.next().key))
            thread.start()
            while not watch._wake._pipe:
                time.sleep(0.001)
            pid = os.fork()
            if not pid:
                job.close()
                os._exit(0)
            os.waitpid(pid, 0)
            woken = select.select([watch._wake._pipe[0]], [], [], 0)[0]
            job.kv["w"] = ""
            thread.join()
            print(json.dumps([woken, got]))
        """))
    assert told(daemon, job) == [[[], ["w"]]]


STOPPED = """
    import json, os, signal, threading, time
    import elasticd

    class Enough(Exception):
        pass

    def on_signal(*_):
        global handled
        handled += 1
        if raises and handled == 1:
            raise Enough

    def insist():
        while handled < (1 if raises else 3):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.01)
        if not raises:
            os.kill(agent, signal.SIGCONT)

    def attempt(function, *arguments):
        global handled
        handled = 0
        os.kill(agent, signal.SIGSTOP)
        thread = threading.Thread(target=insist)
        try:
            thread.start()
            said = function(*arguments)
        except Enough:
            said = "enough"
        thread.join()
        os.kill(agent, signal.SIGCONT)
        return said

    agent, raises = os.getppid(), False
    signal.signal(signal.SIGUSR1, on_signal)
    with elasticd.init() as job:
        kv, large = job.kv, b"x" * 1000000
        said = [attempt(kv.put, "large", large), attempt(kv.put, "small", b"s"),
                attempt(kv.delete, "small"), [e.key for e in attempt(kv.list)],
                attempt(kv.watch, "small").next(0), attempt(job.result, {"n": 1})]
        raises = True
        said += [attempt(kv.put, "none", large), attempt(kv.delete, "large"), attempt(job.states),
                 attempt(kv.watch, "small")]
        print(json.dumps([said, "small" in kv]))
"""


def test_signals_reach_python_while_the_agent_is_stopped(box, daemon):
    """Where a handler just returns, each call is done once; where it raises, it ends."""
    job = succeeded(daemon, spec_of(box, STOPPED))
    assert told(daemon, job) == [[[None, None, 1, ["large"], None, None, *["enough"] * 4], False]]


def test_closing_a_stream_ends_its_readers_loop(box, daemon):
    job = succeeded(daemon, spec_of(box, """
        import threading
        import elasticd
        with elasticd.init() as job:
            streams = [job.kv.watch("w"), job.events()]
            loops = [threading.Thread(target=list, args=(s,)) for s in streams]
            for thread in loops:
                thread.start()
            for stream, thread in zip(streams, loops):
                stream.close()
                thread.join()
            print('"ended"')
        """))
    assert told(daemon, job) == ["ended"]


def test_a_barrier_names_missing_workers(box, daemon):
    job = succeeded(daemon, spec_of(box, """
        import json
        import elasticd
        with elasticd.init() as job:
            if job.rank == 0:
                try:
                    job.barrier("all", timeout=0.2)
                except elasticd.DeadlineExceeded as e:
                    print(json.dumps(sorted(e.missing)))
                    job.kv["over"] = ""
            job.kv.get("over")
            job.barrier("some", ["worker:0", "worker:2"]) if job.rank != 1 else None
            print(json.dumps(job.alive()))
        """, replicas=3))
    assert daemon.log(job, 0, 0).read_text().splitlines()[0] == '["worker:1", "worker:2"]'
    assert told(daemon, job) == [["worker:0", "worker:1", "worker:2"]] * 3


def test_results_are_kept_with_the_run(box, daemon):
    job = succeeded(daemon, spec_of(box, """
        import elasticd
        with elasticd.init() as job:
            job.result("early")
            job.result([{"rank": job.rank}, "text", b"\\0\\xff"][job.rank])
        """, replicas=3))
    results = daemon.call("Results", job=job["run"])["results"]
    assert [(r["role"], r["index"]) for r in results] == [("worker", i) for i in range(3)]
    assert json.loads(results[0]["value"]) == {"rank": 0} and results[1]["value"] == "text"
    assert results[2]["base64"] == "AP8=" and results[2].get("value") is None


def test_an_exception_reaches_the_others_and_the_verdict(box, daemon):
    """Rank 1 fails; rank 0, which waits for it, learns why from the wait itself and from the group."""
    job = daemon.run(spec_of(box, """
        import json, signal
        import elasticd
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that it can print

        @elasticd.record
        def main():
            job = elasticd.init()
            if job.rank == 1:
                job.kv.get("waiting")
                raise RuntimeError("the data is gone")
            with job.events() as events:
                job.kv["waiting"] = ""
                error = job.wait_error()
                seen = []
                while "error" not in [e.event for e in seen]:
                    seen.append(events.next())
            print(json.dumps([error.worker, error.message, error.reported, seen[-1].error == error,
                              {e.event for e in seen} <= {"joined", "gone", "error"}]))

        main()
        """, replicas=2))
    assert job["state"] == "failed" and job["verdict"]["root_cause"]["rank"] == 1, job["verdict"]
    assert "RuntimeError: the data is gone" in job["verdict"]["root_cause"]["message"]
    written = json.loads((daemon.log(job, 0, 1).parent / "error.json").read_text())
    assert "in main" in json.dumps(written)
    assert told(daemon, job)[0] == ["worker:1", "RuntimeError: the data is gone", True, True, True]


def test_a_barrier_fails_at_once_with_a_member(box, daemon):
    job = daemon.run(spec_of(box, """
        import json, os, signal
        import elasticd
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with elasticd.init() as job:
            if job.rank == 1:
                job.kv.get("waiting")
                os._exit(9)
            job.kv["waiting"] = ""
            try:
                job.barrier("never")
            except elasticd.Error as e:
                print(json.dumps([type(e).__name__, list(e.missing)]))
        """, replicas=2))
    assert job["verdict"]["exit_status"] == 9
    name, missing = told(daemon, job)[0]
    # Which of the two comes first: that the member failed, or that the group is being stopped.
    assert (name, missing) in [("Aborted", ["worker:1"]), ("Internal", ["worker:1"]), ("Cancelled", [])]


def test_the_default_limit_ends_waits_and_names_the_missing_workers(box, daemon):
    """With a default of 0.2 s in place of the ten minutes."""
    job = succeeded(daemon, spec_of(box, """
        import json
        import elasticd
        with elasticd.init() as job:
            if job.rank == 0:
                elasticd.Job.barrier.__defaults__ = (None, 0.2)
                elasticd.KV.get.__defaults__ = elasticd.Queue.join.__defaults__ = (0.2,)
                q = job.queue("q")
                q.submit("it stays there")
                missing = []
                for wait in (lambda: job.barrier("b"), lambda: job.kv.get("never"), q.join):
                    try:
                        wait()
                    except elasticd.DeadlineExceeded as e:
                        missing.append(e.missing)
                job.kv.put("on", json.dumps(missing))
            print(job.kv.get("on", 600).decode())
        """, replicas=2))
    assert told(daemon, job) == [[["worker:1"], [], []]] * 2


def test_a_new_attempt_begins_with_persistent_keys(box, daemon):
    job = succeeded(daemon, spec_of(box, """
        import json
        import elasticd
        with elasticd.init() as job:
            if job.attempt == 0:
                job.kv.put("a", "gone")
                job.kv.put("b", "stays", persistent=True)
                raise SystemExit(1)
            print(json.dumps([job.kv.try_get("a"), job.kv["b"].decode(), job.attempt]))
        """, restart={"max": 1}))
    assert told(daemon, job, attempt=1) == [[None, "stays", 1]]


def test_waits_end_when_the_group_is_stopped(box, daemon):
    marks = box.path("marks")
    name, run = daemon.submit(spec_of(box, f"""
        import signal, threading
        import elasticd
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        said = []

        def ends(name, wait):
            try:
                wait()
            except elasticd.Cancelled:
                said.append(name)

        with elasticd.init() as job:
            waits = dict(get=lambda: job.kv.get("x"), barrier=lambda: job.barrier(job.me),
                         error=job.wait_error, watch=lambda: list(job.kv.watch("x")))
            threads = [threading.Thread(target=ends, args=w) for w in waits.items()]
            for t in threads:
                t.start()
            open({str(marks)!r} + str(job.rank), "w").close()
            for t in threads:
                t.join()
            print(" ".join(sorted(said)), job.stopping)
        """, replicas=2))
    wait_for(lambda: all(box.path(f"marks{r}").exists() for r in range(2)), box.dir)
    daemon.call("Stop", job=name)
    job = daemon.wait(run)
    assert job["state"] == "stopped"
    for rank in range(2):
        assert daemon.log(job, 0, rank).read_text() == "barrier error get watch True\n"


def test_a_worker_that_stops_beating_is_found(box, daemon):
    """It lives, but stands still after a few steps; the next attempt does not begin to beat."""
    job = daemon.run(spec_of(box, """
        import signal
        import elasticd
        with elasticd.init() as job:
            if job.attempt == 0:
                for n in range(3):
                    job.step(n)
                signal.pause()
        """, restart={"max": 1}, heartbeat={"period": "100ms", "timeout": "200ms", "failures": 2}))
    assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 1, 1)
    assert "beat" in json.dumps(daemon.events(job["run"]))


def test_beats_and_steps_are_on_the_board(box, daemon):
    """As common/base/board.h has them: a header of 4096 bytes, then slots of 128."""
    job = succeeded(daemon, spec_of(box, """
        import json, os, struct
        import elasticd

        def slot():
            with open(os.environ["ELASTICD_BOARD"], "rb") as board:
                board.seek(4096 + 128 * int(os.environ["ELASTICD_SLOT"]))
                return struct.unpack("=QQqQ", board.read(32))

        with elasticd.init() as job:
            before = slot()
            for _ in range(3):
                job.beat()
            beaten = slot()
            for n in (7, 7, -9):
                job.step(n)
            stepped = slot()
        job.beat()
        try:
            job.step(1)
            raise AssertionError("a job that is closed takes no steps")
        except elasticd.Cancelled:
            pass
        assert slot() == stepped  # a job that is closed beats no more
        assert stepped[0] == beaten[0] == int(os.environ["ELASTICD_TOKEN"])
        print(json.dumps([beaten[1] - before[1], beaten[2:], stepped[1] - beaten[1], stepped[2:]]))
        """, replicas=2))
    assert told(daemon, job) == [[3, [-1, 0], 3, [-9, 3]]] * 2


def test_children_of_a_worker_are_the_same_worker(box, daemon):
    job = succeeded(daemon, spec_of(box, """
        import json, multiprocessing
        import elasticd

        def child(how):
            job = elasticd.get()
            job.beat()
            job.kv.put(f"child/{job.me}/{how}", str(job.rank))
            job.barrier(how, ["worker:0", "worker:1"])

        if __name__ == "__main__":
            with elasticd.init() as job:
                for how in ("fork", "spawn"):
                    process = multiprocessing.get_context(how).Process(target=child, args=(how,))
                    process.start()
                    process.join()
                    assert process.exitcode == 0, process.exitcode
                job.barrier("end")
                print(json.dumps({e.key: e.value.decode() for e in job.kv.list("child")}))
        """, replicas=2))
    assert told(daemon, job) == [{f"child/worker:{r}/{how}": str(r) for r in range(2)
                                  for how in ("fork", "spawn")}] * 2


def test_lines_of_threads_and_children_never_mix_in_the_log(box, daemon):
    job = succeeded(daemon, spec_of(box, """
        import faulthandler, logging, os, threading
        import elasticd
        faulthandler.enable()
        with elasticd.init() as job:
            logging.basicConfig(handlers=[elasticd.LogHandler(job)], level=logging.INFO)
            def write(who):
                for n in range(200):
                    logging.info("%s says %d", who, n, extra={"who": who, "pad": "x" * n})
            threads = [threading.Thread(target=write, args=(f"thread{i}",)) for i in range(3)]
            for t in threads:
                t.start()
            pid = os.fork()
            if not pid:
                write("child")
                os._exit(0)
            _, status = os.waitpid(pid, 0)
            for t in threads:
                t.join()
        assert status == 0, f"the child's wait status is {status}"
        """))
    lines = [json.loads(line) for line in
             (daemon.log(job, 0, 0).parent / "log.jsonl").read_text().splitlines()]
    assert len(lines) == 800, daemon.log(job, 0, 0, "stderr").read_text()
    assert {line["rank"] for line in lines} == {0}
    for who in ("thread0", "thread1", "thread2", "child"):
        said = [line["message"] for line in lines if line["who"] == who]
        assert said == [f"{who} says {n}" for n in range(200)]


def test_workers_see_each_other(box, daemon):
    job = succeeded(daemon, spec_of(box, """
        import json
        import elasticd
        with elasticd.init() as job:
            job.barrier("here")
            print(json.dumps([[m.worker, m.state, m.rank, m.healthy, m.left] for m in job.states("worker")]))
            job.barrier("seen")
            job.ready()
            job.leave()
        """, replicas=2))
    assert told(daemon, job) == [[[f"worker:{r}", "running", r, True, False] for r in range(2)]] * 2


def test_it_works_under_run_without_a_daemon(box):
    script = write_script(box, """
        import elasticd
        with elasticd.init() as job:
            job.kv.put(str(job.rank), "here")
            print("met", [job.kv.get(str(r)).decode() for r in range(job.world_size)])
        """)
    result = box.run("--nproc-per-node=2", "-t", "3", script, env=ENV)
    assert result.rc == 0 and result.out.count("met ['here', 'here']") == 2, result
