# SPDX-License-Identifier: Apache-2.0
"""The work queue in Python by hand: a process without an agent is coordinator and workers in one, by its
threads, and in children of fork()."""

import pytest

from python_package import needs_library
from python_queue import runs

pytestmark = [needs_library, pytest.mark.seconds(300)]


def test_values_come_back_as_they_were(box):
    runs(box, r"""
        start()
        with job.queue() as q:
            for value in [None, 0, -1.5, True, "", "text \0 \udcff \N{SNOWMAN}", b"", b"\0\xff", [], {},
                          "x" * 300, {"a": [1, {"b": None}], "": [[["deep"]]]}, b"z" * 500000, 10 ** 30]:
                got = q.submit(value).fetch()
                assert got == value and type(got) is type(value), (value, got)
            assert q.submit((1, 2)).fetch() == [1, 2] and q.submit({1: 2}).fetch() == {"1": 2}
            assert q.submit(bytearray(b"ab")).fetch() == b"ab" == q.submit(memoryview(b"ab")).fetch()
        finish()
        """)


def test_a_structure_of_handles_becomes_one_of_values(box):
    runs(box, """
        import dataclasses, typing

        class Point(typing.NamedTuple):
            x: typing.Any
            y: typing.Any

        @dataclasses.dataclass(frozen=True)
        class Trial:
            name: str
            loss: typing.Any
            more: list = dataclasses.field(default_factory=list)

        start(), start()
        with job.queue() as q:
            a, b, c = q.map([1, {"two": [2]}, b"3"])
            untouched = {"k": [object()], "t": Trial("x", 0)}
            got = q.fetch({"list": [a, (b, "same")], "point": Point(c, a), "trial": Trial("t", a, [b]),
                           "ordered": collections.OrderedDict(z=a, y=0), "count": collections.Counter(),
                           "default": collections.defaultdict(list, k=[c]), "plain": untouched, 7: None})
            two = {"two": [2]}
            assert got == {"list": [1, (two, "same")], "point": Point(b"3", 1), "trial": Trial("t", 1, [two]),
                           "ordered": collections.OrderedDict(z=1, y=0), "count": {}, "plain": untouched,
                           "default": {"k": [b"3"]}, 7: None}, got
            assert [type(v).__name__ for v in got.values()] == [
                "list", "Point", "Trial", "OrderedDict", "Counter", "defaultdict", "dict", "NoneType"]
            assert got["plain"] is untouched and got["default"].default_factory is list
            assert q.fetch([a, a, q.handle(b.task)])[:2] == [1, 1] if not a.done() else True
            assert q.fetch(a) == 1 and q.fetch("x") == "x" and q.fetch([]) == []
        finish()
        """)


def test_an_impossible_payload_is_refused_and_named(box):
    runs(box, """
        start()
        with job.queue() as q:
            h = q.submit(1)
            for payload, text in [(h, "handle"), ({"a": [0, h]}, "payload['a'][1]: a handle"),
                                  ({"a": {"b": {1, 2}}}, "payload['a']['b']: set"), (object(), "object"),
                                  ([[], [(0, 1j)]], "payload[1][0][1]: complex"), ({(1, 2): 3}, "(1, 2)"),
                                  ({h: 1}, "key")]:
                assert text in str(raised(TypeError, q.submit, payload)), payload
                raised(TypeError, q.map, ["fine", payload])
            for payload, text in [(float("nan"), "payload: nan"),
                                  ({"a": [1, float("inf")]}, "['a'][1]: nan")]:
                assert text in str(raised(ValueError, q.submit, payload)), payload
                raised(ValueError, q.map, ["fine", payload])
            raised(TypeError, __import__("pickle").dumps, h)
            for wrong in [dict(limit=0), dict(limit=-1), dict(limit=float("inf")), dict(limit=1e300),
                          dict(limit=2**50), dict(timeout=-1), dict(resources="r"), dict(resources=[3])]:
                raised((TypeError, ValueError), q.submit, 1, **wrong)
            raised(ValueError, job.queue, "no such name!")
            raised(ValueError, job.work, print, 0)
            raised(ValueError, job.work, print, slots=2, interrupt=signal.SIGUSR1)
            raised(TypeError, job.call, 1, "worker:0")
            assert h.fetch() == 1
        finish()
        """)


def test_a_value_that_cannot_travel_fails_its_task(box):
    runs(box, """
        start(lambda task: {"a": {task.payload}} if task.payload < 3 else b"x" * (1 << 21))
        with job.queue() as q:
            for n in range(3):
                error = raised(elasticd.Unknown, q.submit(n, alone=True).fetch)
                assert "TypeError: value['a']: set is not JSON-able" in str(error), error
            error = raised(elasticd.InvalidArgument, q.submit(3, alone=True).fetch)
        finish()
        """)


def test_the_first_error_is_raised_once_and_the_queue_goes_on(box):
    """The long task is interrupted in its sleep; three new ones succeed."""
    runs(box, """
        slept, fail, cancelled = threading.Event(), threading.Event(), []

        def coordinator():
            with job.queue() as q:
                long = q.submit("long")
                slept.wait()
                start(handler)
                bad = q.submit("bad")
                queued = q.map(["never"] * 5)
                fail.set()
                error = raised(elasticd.QueueFailed, q.join)
                assert isinstance(error, elasticd.Unknown) and str(error) == "ValueError: not this one", error
                assert error.task == bad.task and error.worker == "worker:0", vars(error)
                assert "in handler" in error.details and error.exit_code is None
                again = raised(elasticd.Unknown, bad.fetch)
                assert (str(again), again.task, again.worker) == (str(error), bad.task, "worker:0")
                assert type(again) is elasticd.Unknown and "in handler" in again.details
                assert all(type(h.exception()) is elasticd.Cancelled for h in [long, *queued])
                q.join()
                assert q.done()
                assert q.fetch(q.map([1, 2, 3])) == [1, 2, 3]
                assert cancelled == [long.task]
            finish()

        def handler(task):
            if task.payload == "bad":
                fail.wait()
                raise ValueError("not this one")
            return task.payload

        thread = threading.Thread(target=coordinator)
        thread.start()
        before = signal.getsignal(signal.SIGUSR1)
        for task in job.tasks(interrupt=signal.SIGUSR1):
            with task:
                if task.payload != "long":
                    task.value = handler(task)
                    continue
                try:
                    slept.set()
                    time.sleep(3600)
                except elasticd.TaskCancelled:
                    cancelled.append(task.number)
                    raise
        thread.join()
        assert signal.getsignal(signal.SIGUSR1) == before
        """)


def test_a_failure_of_an_alone_task_is_no_error_of_the_queue(box):
    runs(box, """
        def handler(task):
            if task.payload is None:
                raise elasticd.DataLoss("gone")
            return task.payload

        start(handler)
        with job.queue() as q:
            handles = [q.submit(alone=True), *q.map(range(3))]
            q.join()
            assert q.fetch(handles[1:]) == [0, 1, 2]
            assert str(raised(elasticd.DataLoss, q.fetch, handles)) == "DataLoss: gone"
            error = handles[0].exception()
            assert error.code == elasticd.Status.DATA_LOSS and handles[1].exception() is None
        finish()
        """)


def test_handles_come_as_their_tasks_end(box):
    runs(box, """
        gates = [threading.Event() for _ in range(4)]

        def handler(task):
            if task.payload < 4:
                gates[task.payload].wait()
            return task.payload

        for _ in range(4):
            start(handler)
        with job.queue() as q:
            handles = q.map(range(4))
            told = q.as_completed(handles * 2)
            assert not any(h.done() for h in handles)
            raised(TimeoutError, list, q.as_completed(handles, timeout=0.01))
            raised(TimeoutError, handles[0].fetch, 0.01)
            raised(TimeoutError, handles[0].fetch, 0)
            for n in (2, 0, 3, 1):
                gates[n].set()
                assert next(told) is handles[n] and handles[n].done() and handles[n].fetch(0) == n
            assert list(told) == [] and list(q.as_completed(handles)) == handles
            many = q.map(range(10, 3000))
            assert sorted(h.fetch() for h in q.as_completed(many)) == list(range(10, 3000))
        finish()
        """)


def test_values_of_a_generator_come_with_back_pressure(box):
    """No more are taken from it than are wanted ahead."""
    runs(box, """
        taken = 0

        def payloads(n):
            global taken
            for i in range(n):
                taken += 1
                yield i

        for _ in range(3):
            start(lambda task: task.payload * 2)
        with job.queue() as q:
            for i, value in enumerate(q.imap(payloads(3000), ahead=100)):
                assert value == 2 * i and taken <= i + 1 + 100, (i, value, taken)
            assert i == 2999
            taken = 0
            got = []
            for value in q.imap(payloads(3000), ordered=False, ahead=64):
                got.append(value)
                assert taken <= len(got) + 64 * 2, (taken, len(got))
            assert sorted(got) == list(range(0, 6000, 2))
            assert list(q.imap([])) == [] and list(q.imap([3], ahead=1)) == [6]
            raised(ValueError, q.imap, [], ahead=0)
            assert q.fetch(q.map(payloads(5000))) == list(range(0, 10000, 2))
            q.join()
            assert q.stats().succeeded == 0
        finish()
        """)


def test_leaving_the_loop_puts_back_its_task(box):
    runs(box, """
        class Enough(Exception):
            pass

        def left_by_error():
            for task in job.tasks():
                seen.append((task.number, task.tries))
                raise Enough

        def left_in_with(error):
            for task in job.tasks():
                with task:
                    seen.append((task.number, task.tries))
                    raise error

        seen = []
        with job.queue() as q:
            h = q.submit("again and again")
            for task in job.tasks():
                seen.append((task.number, task.tries))
                break
            assert not task.answered
            raised(elasticd.FailedPrecondition, task.finish)
            assert task.cancelled
            raised(Enough, left_by_error)
            raised(KeyboardInterrupt, left_in_with, KeyboardInterrupt())
            raised(SystemExit, left_in_with, SystemExit(3))
            for task in job.tasks():
                seen.append((task.number, task.tries))
                assert task.finish("now") and task.answered
                raised(elasticd.FailedPrecondition, task.finish)
                break
            assert seen == [(h.task, n) for n in range(5)], seen
            assert h.fetch() == "now" and q.stats().put_back == 4
        """)


def test_a_task_is_answered_in_one_way_or_another(box):
    runs(box, """
        def loop():
            for task in job.tasks():
                how = task.payload
                if how == "value":
                    task.value = [1]
                elif how == "fail":
                    assert task.fail("no good", "OUT_OF_RANGE", details="line 3")
                elif how == "raise":
                    with task:
                        raise elasticd.OutOfRange("no good")
                elif how == "put back":
                    if task.tries < 3:
                        assert task.put_back()
                elif how == "after":
                    try:
                        with task:
                            task.finish("early")
                            raise ValueError("late")
                    except ValueError:
                        pass
                elif how == "with":
                    with task as same:
                        assert same is task
                elif how == "code":
                    for wrong in ("OK", "Nonsense", 99):
                        raised(ValueError, task.fail, "x", wrong)

        loops.append(threading.Thread(target=loop))
        loops[0].start()
        with job.queue() as q:
            ways = {how: q.submit(how, alone=True) for how in
                    ("nothing", "value", "fail", "raise", "put back", "after", "with", "code")}
            errors = {how: str(ways[how].exception()) for how in ("fail", "raise")}
            assert errors == {"fail": "no good", "raise": "OutOfRange: no good"}, errors
            assert ways["fail"].exception().details == "line 3"
            assert type(ways.pop("fail").exception()) is type(ways.pop("raise").exception())
            assert q.fetch(ways) == {"nothing": None, "value": [1], "put back": None, "after": "early",
                                     "with": None, "code": None}
        finish()
        """)


def test_a_retry_is_absorbed_as_often_as_the_limit_says(box):
    """Three failures of one blame are an error, by the job's default."""
    runs(box, """
        tries = collections.Counter()

        def handler(task):
            tries[task.payload] += 1
            if task.payload == "twice" and tries["twice"] <= 2:
                raise elasticd.Retry("not yet")
            if task.payload == "ever":
                raise elasticd.Retry("ps:0 does not answer", blame="ps:0")
            return tries[task.payload]

        start(handler)
        with job.queue() as q:
            assert q.submit("twice").fetch() == 3
            h = q.submit("ever")
            error = raised(elasticd.QueueFailed, q.join)
            assert isinstance(error, elasticd.Unavailable) and error.task == h.task, vars(error)
            assert "ps:0 does not answer" in str(error) and tries["ever"] == 3, (error, tries)
        finish()
        """)


def test_put_backs_among_ten_workers_lose_nothing(box):
    runs(box, """
        def loop():
            for n, task in enumerate(job.tasks()):
                if n % 2:
                    task.put_back()
                elif n % 3:
                    with task:
                        task.value = task.payload
                else:
                    task.finish(task.payload)

        for _ in range(10):
            loops.append(threading.Thread(target=loop))
            loops[-1].start()
        with job.queue() as q:
            handles = q.map(range(100))
            q.join()
            assert q.done() and q.fetch(handles) == list(range(100))
        finish()
        """)


def test_cancelling_ends_queued_and_running_tasks(box):
    runs(box, """
        begun, seen = threading.Event(), []

        def handler(task):
            if task.payload == "run":
                begun.set()
                until(lambda: task.cancelled)
                seen.append(task.payload)
                assert not task.finish("for nobody")
            return task.payload

        start(handler)
        with job.queue() as q:
            running, queued, kept = q.map(["run", "queued", "kept"])
            begun.wait()
            assert queued.cancel("not needed") and not queued.cancel()
            assert "not needed" in str(raised(elasticd.Cancelled, queued.fetch))
            assert q.cancel([running]) == 1 and seen == ["run"]
            raised(elasticd.Cancelled, running.fetch)
            assert kept.fetch() == "kept" and not kept.cancel() and q.cancel() == 0 and q.cancel([]) == 0
        finish()
        """)


def test_handlers_of_several_slots_run_at_once(box):
    runs(box, """
        together, names = threading.Barrier(4), set()

        def handler(task):
            together.wait()
            names.add(threading.current_thread().name)
            return task.payload

        start(handler, slots=4)
        with job.queue() as q:
            assert q.fetch(q.map(range(16))) == list(range(16))
        finish()
        assert len(names) == 4, names

        class Enough(BaseException):
            pass

        def enough(task):
            raise Enough
        """)


def test_a_slot_that_fails_ends_the_others(box):
    """Its task is put back once, when no other slot can get it any more, and before work() raises."""
    runs(box, """
        class Enough(BaseException):
            pass

        def handler(task):
            begun.append(task.number)
            if task.payload:
                first.fetch()
                raise Enough

        with job.queue() as q:
            for n in range(50):
                begun = []
                before = q.stats().put_back
                first, last = q.submit(0), q.submit(1)
                raised(Enough, job.work, handler, slots=4)
                assert sorted(begun) == [first.task, last.task], (n, begun)
                stats = q.stats()
                assert (stats.running, stats.queued, stats.put_back - before) == (0, 1, 1), (n, stats)
                assert first.done() and not last.done()
                if n < 49:
                    assert last.cancel()
            assert [t.name for t in threading.enumerate() if t.name.startswith("elasticd")] == []
            raised(TimeoutError, job.work, lambda task: last.task == task.number, slots=2, timeout=0.05)
            assert last.fetch() is True
        """)


def test_a_slot_that_fails_lets_the_others_finish_their_tasks(box):
    runs(box, """
        class Enough(BaseException):
            pass

        def handler(task):
            if task.payload == "fails":
                until(lambda: begun)
                raise Enough
            begun.append(1)
            until(lambda: ended)
            return "done"

        class Slots(elasticd._work.Slots):
            def _stop(self):
                super()._stop()
                ended.append(1)

        import elasticd._job
        elasticd._job.Slots = Slots
        begun, ended = [], []
        with job.queue() as q:
            slow, fails, never = q.submit("slow"), q.submit("fails"), q.submit("never")
            raised(Enough, job.work, handler, slots=2)
            assert slow.fetch(0) == "done"
            stats = q.stats()
            assert (stats.running, stats.queued, stats.put_back) == (0, 2, 1), stats
        """)


def test_a_slot_without_a_task_asks_again_while_another_works(box):
    """While one slot does a task the other one is still there, though no task came in time several times."""
    runs(box, """
        import elasticd._work as work

        class Counting(work.Patience):
            def asking(self, get, again):
                def counted():
                    asked.append(1)
                    return again()
                return super().asking(get, counted)

        def handler(task):
            if task.payload == "kept":
                until(lambda: len(asked) > 3)
                second.append(q.submit("second"))
                until(lambda: second[0].done())
            return task.payload

        work.Patience = Counting
        asked, second = [], []
        with job.queue() as q:
            h = q.submit("kept")
            raised(TimeoutError, job.work, handler, slots=2, timeout=0.05)
            assert h.fetch(0) == "kept" and second[0].fetch(0) == "second" and q.stats().put_back == 0
            assert not [t for t in threading.enumerate() if t.name.startswith("elasticd-slot")]
        """)


def test_resources_are_built_before_the_tasks_that_need_them(box):
    runs(box, """
        built = []

        def data(path):
            built.append(path)
            return {"path": path}

        def broken(_):
            raise OSError("no such disk")

        def handler(task):
            return task.resource(task.payload)["path"] if task.payload else "none"

        job.create_resource("data", "/a")
        job.create_resource("broken")
        raised(elasticd.AlreadyExists, job.create_resource, "data")
        start(handler, resources={"data": data, "broken": broken})
        with job.queue() as q:
            assert q.fetch(q.map(["data"] * 3, resources=["data"])) == ["/a"] * 3 and built == ["/a"]
            job.create_resource("later", "/b")
            bad = q.submit("broken", resources=["broken"], alone=True)
            error = raised(elasticd.FailedPrecondition, bad.fetch)
            assert "broken" in str(error) and "no such disk" in str(error), error
            assert q.submit("").fetch() == "none"
            unknown = q.submit("later", resources=["later"], alone=True).exception()
            assert "cannot build later" in str(unknown), unknown
            assert "name" in str(q.submit("other", alone=True).exception())
            raised(elasticd.NotFound, q.submit, "", resources=["nothing"])
            job.drop_resource("data")
            raised(elasticd.NotFound, q.submit, "data", resources=["data"])
        raised(TypeError, job.tasks, resources={"data": "/a"})
        finish()
        """)


def test_calls_are_answered_between_tasks(box):
    runs(box, """
        def calls(payload):
            if payload == "bad":
                raise KeyError("epoch")
            return [payload]

        start(calls=calls)
        answers = job.call({"set": 1}, timeout=3600)
        assert answers == [elasticd.Answer("worker:0", [{"set": 1}], None)], answers
        error = raised(elasticd.CallFailed, job.call, "bad")
        assert isinstance(error, elasticd.Unknown) and "KeyError: 'epoch'" in str(error), error
        assert [a.worker for a in error.answers] == ["worker:0"] and "in calls" in error.details
        assert str(error.answers[0].error) == "KeyError: 'epoch'"
        assert job.call([], workers=["worker:0"])[0].value == [[]]
        error = raised(elasticd.InvalidArgument, job.call, 1, workers=[])
        assert "workers: expected at least 1 name" in str(error)
        with job.queue() as q:
            assert q.submit("task").fetch() == "task"
        finish()
        """)


def test_a_loop_without_functions_takes_no_calls(box):
    runs(box, """
        start()
        error = raised(elasticd.CallFailed, job.call, "anybody?")
        assert isinstance(error, elasticd.Unimplemented), error
        finish()
        """)


def test_results_of_handles_that_are_gone_are_released(box):
    runs(box, """
        import gc
        start()
        with job.queue("named") as q:
            kept = q.map(range(10))
            detached = q.submit("stays").detach()
            for n in range(3000):
                q.submit(n)
            cycle = [q.submit("cycle")]
            cycle.append(cycle)
            del cycle
            gc.collect()
            q.join()
            assert q.stats().succeeded == 11 and q.stats().queued == 0, q.stats()
            assert q.fetch(kept) == list(range(10))
            q.join()
            assert q.stats().succeeded == 1, q.stats()
            assert [q.handle(detached).fetch() for _ in range(2)] == ["stays"] * 2
            q.release([detached])
            raised(elasticd.NotFound, q.handle(detached).fetch)
        late = kept
        del kept, late
        finish()
        """)


def test_a_child_does_not_release_what_its_parent_holds(box):
    runs(box, """
        start()
        with job.queue() as q:
            handles = q.map(range(300))
            q.join()
            pid = os.fork()
            if not pid:
                handles.clear()
                try:
                    q.stats()
                    q.join(timeout=0)
                except elasticd.Error:
                    pass
                q.close()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert q.fetch(handles) == list(range(300))
        finish()
        """)


def test_a_closed_queue_refuses_calls(box):
    runs(box, """
        q = job.queue()
        h, other = q.submit(1), q.submit(2)
        waits = [threading.Thread(target=raised, args=(elasticd.Cancelled, w.fetch)) for w in (h, other)]
        for thread in waits:
            thread.start()
        q.close()
        q.close()
        for thread in waits:
            thread.join()
        assert q.closed
        for function in (q.submit, q.join, q.done, q.stats, h.fetch, q.cancel):
            raised(elasticd.Cancelled, function)
        del h, other, q
        with job.queue("x") as named:
            number = named.submit(3).detach()
        with job.queue("x") as named:
            assert named.name == "x" and named.stats().queued == 1
            start()
            assert named.handle(number).fetch() == 3
        finish()
        """)


def test_a_loop_ends_after_its_timeout(box):
    runs(box, """
        raised(TimeoutError, list, job.tasks(timeout=0.01))
        raised(TimeoutError, list, job.tasks(timeout=0))
        raised(TimeoutError, job.work, print, timeout=0.01)
        raised(ValueError, job.tasks, timeout=-1)
        with job.queue() as q:
            h = q.submit(3)
            raised(TimeoutError, job.work, lambda task: task.payload, timeout=0.01)
            assert h.fetch() == 3
            raised(TimeoutError, q.submit(4, alone=True).fetch, 0.01)
            raised(TimeoutError, q.join, 0.01)
        finish()
        """)


def test_many_threads_submit_and_fetch_on_one_queue(box):
    runs(box, """
        for _ in range(4):
            start()
        failed = []

        def use(n):
            try:
                handles = q.map(range(n, n + 200))
                assert q.fetch(handles) == list(range(n, n + 200))
                assert [q.submit(i).fetch() for i in range(20)] == list(range(20))
            except BaseException as e:
                failed.append(e)

        with job.queue() as q:
            users = [threading.Thread(target=use, args=(1000 * i,)) for i in range(8)]
            for thread in users:
                thread.start()
            for thread in users:
                thread.join()
            q.join()
            assert not failed and q.stats().succeeded == 0, (failed, q.stats())
        finish()
        """)


def test_an_executor_runs_functions_in_the_workers(box):
    runs(box, """
        import concurrent.futures, math, operator

        def wait():
            begun.set()
            go.wait()

        begun, go = threading.Event(), threading.Event()
        start(elasticd.execute)
        with job.queue() as q, elasticd.Executor(q) as pool:
            assert list(pool.map(operator.add, range(1000), range(1000))) == list(range(0, 2000, 2))
            futures = [pool.submit(pow, n, 2) for n in range(100)]
            assert [f.result() for f in futures] == [n * n for n in range(100)]
            assert concurrent.futures.wait(futures).not_done == set()
            error = raised(ZeroDivisionError, pool.submit(operator.truediv, 1, 0).result)
            assert "in execute" in str(error.__cause__), error.__cause__
            raised(ValueError, list, pool.map(math.sqrt, [1, -1]))
            busy, late = pool.submit(wait), pool.submit(abs, -1)
            begun.wait()
            assert late.cancel() and not late.running()
            raised(TimeoutError if sys.version_info >= (3, 11) else concurrent.futures.TimeoutError,
                   busy.result, timeout=0.01)
            go.set()
            assert busy.result() is None and pool.submit(abs, -2).result() == 2
        raised(RuntimeError, pool.submit, abs, 1)
        finish()
        assert threading.active_count() == 1
        """)
