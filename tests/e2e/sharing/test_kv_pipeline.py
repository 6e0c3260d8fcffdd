# SPDX-License-Identifier: Apache-2.0
"""Calls of the store that go together, from Python: by hand, and in workers of a real agent."""

import json

import pytest

from harness import SLOWER
from python_package import by_hand, needs_library, outputs, spec_of, told
from workers import Group

pytestmark = [needs_library, pytest.mark.seconds(120)]


def test_by_hand_each_call_has_its_own_result(box):
    result = by_hand(box, """
        import elasticd
        with elasticd.init() as job:
            with job.kv.pipeline() as p:
                written, read = p.put("a", b"\\0\\xff"), p.get("a")
                again = p.put("a", "2", overwrite=True)
                newer, gone = p.get("//a/"), p.delete("a")
                assert len(p) == 5
                try:
                    read.result()
                except elasticd.FailedPrecondition:
                    print("not made")
            assert written.result() is None and again.result() is None and len(p) == 0
            assert (read.result(), newer.result(), gone.result()) == (b"\\0\\xff", b"2", 1)
            with job.kv.pipeline(0, check=False) as p:
                missing, kept = p.get("none"), p.put("b", "")
                odd = p.get("")
            for call in missing, odd:
                try:
                    call.result()
                except (elasticd.NotFound, elasticd.InvalidArgument) as e:
                    assert e is call.error
                    print(type(e).__name__)
            assert kept.error is None
            try:
                with job.kv.pipeline() as p:
                    p.put("b", "again")
                    p.put("c", "behind it")
            except elasticd.AlreadyExists:
                print("raised")
            assert job.kv["c"] == b"behind it"
            try:
                with job.kv.pipeline() as p:
                    p.put("d", "")
                    raise KeyError
            except KeyError:
                print("d" in job.kv)
            p.run()
            print("d" in job.kv)
            try:
                with job.kv.pipeline(0.001) as p:
                    p.get("never")
            except elasticd.DeadlineExceeded:
                print("late")
    """)
    assert result.rc == 0, result
    assert result.out.split("\n")[:-1] == [
        "not made", "NotFound", "InvalidArgument", "raised", "False", "True", "late"]


def test_many_keys_at_once_by_hand_and_with_an_agent(box, daemon):
    script = """
        import elasticd, threading

        def raised(kind, function, *arguments, **more):
            try:
                function(*arguments, **more)
            except kind as e:
                return str(e)
            raise AssertionError(function)

        with elasticd.init() as job:
            kv = job.kv
            pairs = {f"k/{i}/\N{SNOWMAN}": bytes([i % 256]) * (i * 7) for i in range(500)}
            kv.put_many(pairs)
            assert kv.get_many(pairs) == list(pairs.values())
            assert kv.get_many(reversed(list(pairs)), 0) == list(pairs.values())[::-1]
            kv.put_many({"a": "text", "b": bytearray(b"b"), "c": memoryview(b"c")})
            kv.put_many({"kept": "1"}, persistent=True)
            assert kv.get_many(["kept"]) == [b"1"]
            assert kv.get_many(["a", "c", "b", "a"], timeout=60) == [b"text", b"c", b"b", b"text"]
            kv.put_many({})
            assert kv.get_many([]) == [] == kv.get_many(iter([]), 0)
            assert "b" in raised(elasticd.AlreadyExists, kv.put_many, {"new": "1", "b": "2", "newer": "3"})
            assert kv.get_many(["new", "b", "newer"]) == [b"1", b"b", b"3"]
            kv.put_many({"b": "2", "a": ""}, overwrite=True)
            assert kv.get_many(["a", "b"]) == [b"", b"2"]
            assert "none" in raised(elasticd.NotFound, kv.get_many, ["a", "none"], 0)
            raised(elasticd.DeadlineExceeded, kv.get_many, ["a", "none"], 0.01)
            raised(elasticd.InvalidArgument, kv.put_many, {"": "no key"})
            raised(TypeError, kv.get_many, "a")
            raised(TypeError, kv.get_many, [3])
            raised(TypeError, kv.put_many, {"a": 3})
            raised(ValueError, kv.get_many, ["a\\0b"])
            raised(ValueError, kv.get_many, ["a"], -1)
            later = threading.Timer(0.01, kv.put, ("later", "now"))
            later.start()
            assert kv.get_many(["a", "later"]) == [b"", b"now"]
            later.join()
        print("well")
        """
    result = by_hand(box, script, timeout=180 * SLOWER)
    assert result.rc == 0 and result.out == "well\n", result
    job = daemon.run(spec_of(box, script))
    assert job["state"] == "succeeded", (job["verdict"], outputs(daemon, job, stream="stderr"))


def test_many_calls_of_many_sizes_give_the_results_of_single_calls(box, daemon):
    """More than go in one piece, with values from nothing to the largest, errors in between."""
    job = daemon.run(spec_of(box, """
        import json, os
        import elasticd
        with elasticd.init() as job:
            other = 1 - job.rank
            values = {f"{job.rank}/{i}": bytes([i % 256]) * [0, 1, 100, 5000, 70000, 1 << 20][i % 6]
                      for i in range(60)}
            with job.kv.pipeline(check=False) as p:
                puts = [p.put(k, v) for k, v in values.items()]
                too_much = p.put("k", b"x" * ((1 << 20) + 1))
                again = p.put(f"{job.rank}/0", "again")
            assert all(put.result() is None for put in puts)
            assert type(too_much.error) is elasticd.InvalidArgument, too_much.error
            assert type(again.error) is elasticd.AlreadyExists, again.error
            with job.kv.pipeline() as p:
                gets = {k: p.get(k) for k in values}
                theirs = [p.get(f"{other}/{i}") for i in range(60)]
            assert all(gets[k].result() == v for k, v in values.items())
            assert [len(t.result()) for t in theirs] == [len(v) for v in values.values()]
            job.barrier("read")
            with job.kv.pipeline() as p:
                gone = [p.delete(k) for k in values]
            print(json.dumps([sum(g.result() for g in gone), len(job.kv)]))
            job.barrier("gone")
        """, replicas=2))
    assert job["state"] == "succeeded", job["verdict"]
    assert [n for n, _ in told(daemon, job)] == [60, 60]


def test_threads_and_children_have_pipelines_of_their_own(box, daemon):
    """Each sees its own writes in its own order."""
    job = daemon.run(spec_of(box, """
        import json, os, threading
        import elasticd

        def work(name, n):
            for i in range(n):
                with job.kv.pipeline() as p:
                    calls = [(p.put(f"{name}/{j % 3}", str(i + j), overwrite=True), p.get(f"{name}/{j % 3}"))
                             for j in range(20)]
                assert [get.result() for _, get in calls] == [str(i + j).encode() for j in range(20)]
            done.append(name)

        done = []
        with elasticd.init() as job:
            threads = [threading.Thread(target=work, args=(f"t{i}", 20)) for i in range(4)]
            for t in threads:
                t.start()
            pid = os.fork()
            if pid == 0:
                work("child", 20)
                os._exit(0)
            for t in threads:
                t.join()
            print(json.dumps([len(done), os.waitpid(pid, 0)[1]]))
        """))
    assert job["state"] == "succeeded", job["verdict"]
    assert told(daemon, job) == [[4, 0]]


def test_a_signal_runs_its_handler_and_the_calls_go_on(box, daemon):
    """The handler's exception gives them up; later calls have the right answers."""
    job = daemon.run(spec_of(box, """
        import json, signal, threading, time
        import elasticd

        class Enough(Exception):
            pass

        def count(*_):
            seen.append(1)
            if len(seen) == 10:
                job.kv.put("go", "")
            if len(seen) == 20:
                raise Enough

        def signals(until):  # one by one, so that nearly all of them come while the library waits
            while len(seen) < until:
                before = len(seen)
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
                for _ in range(100):  # one that comes right before it waits is heard with the next
                    if len(seen) == before:
                        time.sleep(0.001)

        seen = []
        signal.signal(signal.SIGUSR1, count)
        with elasticd.init() as job:
            for until in 10, 20:
                thread = threading.Thread(target=signals, args=(until,))
                try:
                    thread.start()
                    with job.kv.pipeline() as p:
                        put, get = p.put(f"k{until}", "1"), p.get("go" if until == 10 else "never")
                    assert put.result() is None and get.result() == b""
                except Enough:
                    assert until == 20
                thread.join()
            with job.kv.pipeline() as p:
                p.put("k", "right")
                get = p.get("k")
            print(json.dumps(get.result().decode()))
        """))
    assert job["state"] == "succeeded", job["verdict"]
    assert told(daemon, job) == ["right"]


def test_a_group_that_stops_ends_waiting_pipelines(box, daemon):
    group = Group(daemon, spec_of(box, """
        import json, signal
        import elasticd
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with elasticd.init() as job:
            with job.kv.pipeline(check=False) as p:
                put, get = p.put("here", "1"), p.get("never")
            print(json.dumps([put.error is None, type(get.error).__name__]))
        """, stop={"timeout": "10m"}))
    # The other calls of the pipeline have been done.
    assert group.connect("worker:0").get("here", wait=True) == b"1"
    daemon.call("Stop", job=group.name)
    job = daemon.wait(group.name)
    group.close()
    assert told(daemon, job) == [[True, "Cancelled"]], json.dumps(job)
