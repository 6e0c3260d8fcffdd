# SPDX-License-Identifier: Apache-2.0
"""The Python package by hand: outside elasticd a process is a group of one, in which all of it works,
from threads, in children of fork(), and with signals."""

import contextlib
import inspect
import json
import logging
import os
import pickle
import re
import sys
import threading
import time
import zipfile

import pytest

import python_package
from harness import ROOT, SLOWER
from python_package import ENV, PACKAGE, by_hand, needs_library

pytestmark = needs_library
LONG = 60 * SLOWER


@pytest.fixture
def elasticd(monkeypatch):
    for name in [n for n in os.environ if n.startswith(("ELASTICD_", "TORCHELASTIC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ELASTICD_LIBRARY", ENV["ELASTICD_LIBRARY"])
    monkeypatch.syspath_prepend(str(PACKAGE))
    import elasticd
    return elasticd


@pytest.fixture
def job(elasticd):
    with elasticd.init() as job:
        for key in job.kv:  # the store is the process's, and so there for all tests
            job.kv.delete(key)
        yield job


def in_thread(function, *args):
    """Starts it; the list gets its result or its exception."""
    got = []

    def body():
        try:
            got.append(function(*args))
        except Exception as e:
            got.append(e)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread, got


def joined(thread, got):
    thread.join(LONG)
    assert not thread.is_alive(), "the thread still waits"
    return got[0]


def until_waiting(thread):
    """The thread sleeps in the system (mostly: nothing here depends on it)."""
    path = f"/proc/self/task/{thread.native_id}/stat"
    with contextlib.suppress(OSError):
        while open(path).read().rsplit(")", 1)[1].split()[0] != "S":
            time.sleep(0)


def test_a_process_by_hand_is_a_group_of_one(job):
    assert (job.supervised, job.name, job.run, job.role, job.me) == (False, "", "", "worker", "worker:0")
    assert (job.index, job.rank, job.local_rank, job.world_size, job.attempt, job.start) == (
        0, 0, 0, 1, 0, 0)
    assert not job.notice and not job.stopping
    job.beat()
    job.step(7)
    job.barrier("start", timeout=LONG)
    assert job.alive() == ["worker:0"]
    assert [m.worker for m in job.states()] == ["worker:0"]
    job.result({"loss": 0.5})


def test_the_store_reads_what_was_written(job, elasticd):
    kv = job.kv
    kv.put("//data//b/", b"\0\xff")
    kv.put("data/a", "text")
    assert kv.get("data/b") == b"\0\xff" and kv["data/a"] == b"text"
    assert [(e.key, e.value) for e in kv.list("data")] == [("data/a", b"text"), ("data/b", b"\0\xff")]
    assert kv.list("data")[0].revision > kv.list("data")[1].revision
    with pytest.raises(elasticd.AlreadyExists):
        kv.put("data/a", "other")
    kv.put("data/a", bytearray(b"other"), overwrite=True)
    assert kv.try_get("data/a") == b"other" and kv.try_get("none") is None and kv.try_get("none", 3) == 3
    assert "data/a" in kv and "none" not in kv and list(kv) == ["data/a", "data/b"] and len(kv) == 2
    assert kv.delete("data") == 2 and kv.delete("data") == 0 and not list(kv)


def test_the_store_is_like_a_mapping(job):
    job.kv["k"] = "1"
    job.kv["k"] = "2"
    assert job.kv["k"] == b"2"
    job.kv["empty"] = ""
    assert job.kv["empty"] == b"" and "empty" in job.kv and job.kv.list("empty") == []
    del job.kv["k"]
    for missing in (lambda: job.kv["k"], lambda: job.kv.__delitem__("k")):
        with pytest.raises(KeyError):
            missing()


def test_errors_are_those_of_python_too(job, elasticd):
    with pytest.raises(TimeoutError) as late:
        job.kv.get("never", 0.01)
    assert type(late.value) is elasticd.DeadlineExceeded and late.value.code == 4
    with pytest.raises(LookupError):
        job.kv.get("never", timeout=0)
    with pytest.raises(ValueError) as bad:
        job.kv.put("k" * 2000, "")
    assert type(bad.value) is elasticd.InvalidArgument and "1024" in str(bad.value)
    with pytest.raises(elasticd.Error):
        job.kv.put("", "")
    error = elasticd.Aborted("two of three", ("worker:1", "worker:2"))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is elasticd.Aborted and copy.missing == error.missing and str(copy) == str(error)
    codes = {c.code for c in vars(elasticd).values()
             if isinstance(c, type) and issubclass(c, elasticd.Error) and c is not elasticd.Error}
    assert codes == set(elasticd.Status) - {elasticd.Status.OK}
    assert elasticd.Status.of("DeadlineExceeded") == elasticd.Status.of("DEADLINE_EXCEEDED") == 4


@pytest.mark.parametrize("call", [
    lambda job: job.kv.put("k", 3), lambda job: job.kv.put(3, "k"), lambda job: job.kv.get("a\0b"),
    lambda job: job.kv.get("k", -1), lambda job: job.kv.get("k", float("nan")),
    lambda job: job.kv.get("k", "soon"), lambda job: job.barrier("b", "worker:0"),
    lambda job: job.barrier("b", [0]), lambda job: job.result(object()), lambda job: job.step("one"),
    lambda job: job.step(1 << 70), lambda job: job.report_error("no", code="Nonsense"),
    lambda job: job.report_error("no", code=77), lambda job: job.kv.watch("k", 1 << 64),
    lambda job: job.kv.watch("k", -2), lambda job: job.kv.watch("k", 1.5),
    lambda job: job.kv.put("k", "\ud800"), lambda job: job.kv.get_many(["k", "\ud800"]),
    lambda job: job.kv.get_many(["k", None]), lambda job: job.kv.get_many(["k", "a\0b"]),
])
def test_bad_arguments_are_refused(job, elasticd, call):
    with pytest.raises((TypeError, elasticd.InvalidArgument)):
        call(job)


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", "\udc80"])
def test_a_key_that_is_no_text_is_an_invalid_argument_of_every_call(job, elasticd, bad):
    calls = [lambda: job.kv.put(bad, ""), lambda: job.kv.get(bad), lambda: job.kv.try_get(bad),
             lambda: job.kv.list(bad), lambda: job.kv.delete(bad), lambda: job.kv[bad], lambda: bad in job.kv,
             lambda: job.kv.get_many(["k", bad]), lambda: job.kv.watch(bad), lambda: job.barrier(bad),
             lambda: job.barrier("b", [bad]), lambda: job.barrier_cancel(bad), lambda: job.states(bad),
             lambda: job.call(1, [bad]), lambda: job.queue(bad)]
    for n, call in enumerate(calls):
        with pytest.raises(elasticd.InvalidArgument):
            call()
            raise AssertionError(n)


def test_a_negative_timeout_is_an_invalid_argument_of_every_call(job, elasticd):
    calls = [lambda: job.kv.get("k", -1), lambda: job.kv.flush(-1), lambda: job.kv.get_many(["k"], -1),
             lambda: job.barrier("b", timeout=-1), lambda: job.alive(timeout=-0.001),
             lambda: job.leave(-1), lambda: job.wait_error(-1), lambda: job.call(1, timeout=-1),
             lambda: job.call(1, answer_timeout=-1), lambda: job.kv.pipeline(timeout=-1)]
    for n, call in enumerate(calls):
        with pytest.raises(elasticd.InvalidArgument, match="expected seconds >= 0 or None, got -"):
            call()
            raise AssertionError(n)


def test_waits_for_others_have_a_default_limit_of_ten_minutes(elasticd):
    limited = {elasticd.Job: ["barrier", "alive", "leave"],
               elasticd.KV: ["get", "get_many", "pipeline", "wait_change"],
               elasticd.Pipeline: ["__init__"],
               elasticd.Handle: ["fetch", "result", "exception", "cancel"],
               elasticd.Queue: ["submit", "map", "imap", "fetch", "over", "as_completed", "join", "cancel"]}
    endless = {elasticd.Job: ["tasks", "work", "wait_error"], elasticd.KV: ["flush"],
               elasticd.Events: ["next"], elasticd.Watch: ["next"]}
    assert elasticd.DEFAULT_TIMEOUT == 600.0
    for names, default in ((limited, elasticd.DEFAULT_TIMEOUT), (endless, None)):
        for kind, methods in names.items():
            for method in methods:
                parameters = inspect.signature(getattr(kind, method)).parameters
                assert parameters["timeout"].default is default, method
    documented = {name for kind in (elasticd.Job, elasticd.KV, elasticd.Queue, elasticd.Handle)
                  for name, method in inspect.getmembers(kind, inspect.isfunction)
                  if not name.startswith("_") and "timeout" in inspect.signature(method).parameters}
    assert documented - {"call"} == {m for names in (limited, endless) for k, ms in names.items()
                                     for m in ms if k in (elasticd.Job, elasticd.KV, elasticd.Queue,
                                                          elasticd.Handle)}


def test_no_limit_is_said_explicitly(job, elasticd):
    """A barrier without limit ends all the same, and a call without limit is one of the library's longest."""
    job.barrier("b", timeout=None)
    job.kv.put("k", "v")
    assert job.kv.get("k", None) == b"v" and job.kv.get_many(["k"], None) == [b"v"]
    with job.queue() as q, pytest.raises(elasticd.FailedPrecondition, match="no other thread"):
        q.submit(1)
        q.join(timeout=None)


def test_by_hand_a_join_that_would_never_end_fails_at_once_in_spite_of_the_limit(job, elasticd):
    with job.queue() as q:
        handle = q.submit(1)
        for wait in (q.join, handle.fetch, lambda: q.fetch([handle])):
            with pytest.raises(elasticd.FailedPrecondition, match="no other thread"):
                wait()


def test_an_empty_list_of_workers_is_refused(job, elasticd):
    calls = [lambda: job.barrier("b", []), lambda: job.alive([]), lambda: job.call(1, [])]
    for call in calls:
        with pytest.raises(elasticd.InvalidArgument, match=": expected at least 1 name"):
            call()
    assert job.alive() == ["worker:0"] and len(job.states()) == 1


@pytest.mark.parametrize("named,call", [
    ("step: expected -9223372036854775808 to 9223372036854775807", lambda job: job.step(1 << 70)),
    ("step: expected int, got str", lambda job: job.step("one")),
    ("step: expected int, got float", lambda job: job.step(1.5)),
    ("step: expected int, got float", lambda job: job.saved(1.5)),
    ("timeout: expected seconds >= 0 or None, got 'soon'", lambda job: job.kv.get("k", timeout="soon")),
    ("timeout: expected seconds >= 0 or None, got '5'", lambda job: job.kv.get("k", timeout="5")),
    ("timeout: expected seconds >= 0 or None, got nan", lambda job: job.leave(float("nan"))),
    ("timeout: expected seconds >= 0 or None, got 1000", lambda job: job.leave(10**400)),
    ("timeout: expected seconds >= 0 or None, got -1", lambda job: job.barrier("b", timeout=-1)),
    ("timeout: expected seconds >= 0 or None, got [1]", lambda job: job.wait_error(timeout=[1])),
    ("answer_timeout: expected seconds >= 0", lambda job: job.call(1, ["worker:0"], answer_timeout="x")),
    ("workers: expected a list of names, got the int 3", lambda job: job.call(1, 3)),
    ("members: expected a list of names, got the str", lambda job: job.barrier("b", "worker:0")),
    ("members: expected a list of names, got the int 3", lambda job: job.alive(3)),
    ("members: expected str, got int", lambda job: job.barrier("b", [0])),
    ("members: expected 1 to the 1 workers of", lambda job: job.barrier("b", ["worker:0", "worker:0"])),
    ("roles: expected str, got NoneType", lambda job: job.states(None)),
    ("keys: expected a list of keys, got the int 3", lambda job: job.kv.get_many(3)),
    ("since: expected int, got float", lambda job: job.kv.watch("k", 1.5)),
    ("since: expected 0 to 9223372036854775807, got -2", lambda job: job.kv.watch("k", -2)),
    ("reason: expected str, got int", lambda job: job.notify(3)),
    ("grace: expected a number of seconds, got 'x'", lambda job: job.notify("n", grace="x")),
    ("error: expected str, got int", lambda job: job.report_error(3)),
    ("message: expected str, got NoneType", lambda job: job.write_error(None)),
    ("traceback: expected str, got int", lambda job: job.write_error("m", 3)),
    ("level: expected str, got NoneType", lambda job: job.log(None, "m")),
    ("message: expected str, got int", lambda job: job.log("info", 3)),
    ("result: object is not JSON-able", lambda job: job.result(object())),
    ("result: nan and infinities are not JSON-able", lambda job: job.result(float("nan"))),
    ("result['loss'][1]: nan and infinities are not",
     lambda job: job.result({"loss": [0.5, float("-inf")]})),
    ("slots: expected int, got str", lambda job: job.work(print, slots="two")),
    ("ahead: expected int, got float", lambda job: job.queue().imap([], ahead=1.5)),
    ("limit: expected seconds > 0, got 'x'", lambda job: job.queue().submit(1, limit="x")),
    ("resources: expected a list of names, got the int 3", lambda job: job.queue().submit(1, resources=3)),
    ("task: expected int, got str", lambda job: job.queue().cancel(["x"])),
])
def test_bad_arguments_are_named(job, elasticd, named, call):
    with pytest.raises((TypeError, elasticd.InvalidArgument)) as refused:
        call(job)
    assert str(refused.value).startswith(named), refused


def test_a_refused_step_does_not_count(elasticd):
    with elasticd.init() as job:
        for bad in 1 << 63, -(1 << 63) - 1, None:
            with pytest.raises((TypeError, ValueError)):
                job.step(bad)
        assert job.step((1 << 63) - 1) == job.step(-(1 << 63)) == elasticd.Action.CONTINUE


def test_a_job_that_is_closed_takes_no_steps(elasticd):
    job, other = elasticd.init(), elasticd.init()
    job.close()
    job.beat()
    with pytest.raises(elasticd.Cancelled, match="closed"):
        job.step(3)
    with pytest.raises(elasticd.Cancelled, match="closed"), job.preemptible(print, signals=()) as work:
        work.step(3)
    with other:
        assert other.step(3) is elasticd.Action.CONTINUE


def test_a_worker_that_has_left_is_in_no_barrier(box):
    assert by_hand(box, """
        import elasticd
        with elasticd.init() as job:
            job.leave(timeout=60)
            for members in None, ["worker:0"]:
                try:
                    job.barrier("b", members, timeout=0)
                except elasticd.FailedPrecondition as e:
                    assert "worker:0 has taken its leave" in str(e), e
                else:
                    raise AssertionError(members)
                assert job.alive(members) == []
        """).rc == 0


def test_a_step_that_is_not_a_number_is_refused(job):
    job.step(0)
    job.notify("soon")
    assert job.step(1)
    for n in (1 << 64) + 1, -(1 << 63) - 1:
        with pytest.raises(ValueError):
            job.saved(n)
    job.saved(1)


def test_a_watch_returns_all_changes_in_order(job):
    with job.kv.watch("a") as watch:
        job.kv["a/1"] = "x"
        job.kv["b"] = "not below a"
        job.kv["a/1"] = "y"
        del job.kv["a"]
        changes = [watch.next(LONG) for _ in range(3)]
        assert [(c.key, c.value, c.deleted) for c in changes] == [
            ("a/1", b"x", False), ("a/1", b"y", False), ("a/1", None, True)]
        assert watch.next(0) is None and watch.next(0.01) is None
        thread, got = in_thread(job.kv.wait_change, "a", changes[-1].revision, LONG)
        job.kv["a"] = "z"
        assert joined(thread, got).value == b"z" == watch.next(LONG).value
    with pytest.raises(Exception, match="closed"):
        watch.next(0)


def test_the_error_of_the_group_reaches_waits_and_events(box):
    result = by_hand(box, """
        import elasticd

        with elasticd.init() as job, job.events() as events:
            try:
                job.wait_error(0.01)
            except TimeoutError:
                print("none yet")
            job.report_error(KeyError("epoch"), code="DATA_LOSS")
            error = job.wait_error(3600)
            event = events.next(3600)
            assert event.event == "error" and event.error == error, event
            print(error.code.name, error.worker, error.reported, error.message)
        """)
    assert result.rc == 0 and result.out == "none yet\nDATA_LOSS worker:0 True KeyError: 'epoch'\n", result


def test_a_get_ends_when_another_thread_puts(job):
    waits = [in_thread(job.kv.get, "late") for _ in range(8)]
    for thread, _ in waits:
        until_waiting(thread)
    job.kv["late"] = "here"
    assert [joined(*w) for w in waits] == [b"here"] * 8


def test_closing_ends_the_waits_of_other_threads(elasticd):
    job = elasticd.init()
    waits = [in_thread(job.kv.get, "never"), in_thread(job.kv.watch("b").next)]
    loop = in_thread(list, job.kv.watch("a"))
    for thread, _ in [*waits, loop]:
        until_waiting(thread)
    job.close()
    assert [type(joined(*w)) for w in waits] == [elasticd.Cancelled] * 2
    assert joined(*loop) == []
    job.close()
    job.beat()  # harmless
    with pytest.raises(elasticd.Cancelled):
        job.kv.list()


def test_closing_a_stream_ends_only_its_readers_loop(job):
    streams = [job.kv.watch("a"), job.kv.watch("a"), job.events()]
    loops = [in_thread(list, stream) for stream in streams]
    for thread, _ in loops:
        until_waiting(thread)
    streams[0].close()
    assert joined(*loops[0]) == []
    assert loops[1][0].is_alive() and loops[2][0].is_alive()
    streams[1].close()
    streams[2].close()
    assert [joined(*loop) for loop in loops[1:]] == [[], []]


def test_handles_may_be_closed_while_threads_use_them(elasticd):
    """Each round closes a handle below threads that call it without pause."""
    for _ in range(20):
        job = elasticd.init()
        started = threading.Barrier(5)

        def hammer(job=job, started=started):
            started.wait()
            n = 0
            while True:
                n += 1
                job.step(n)
                job.kv.put("k", str(n), overwrite=True)
                job.kv.try_get("k")

        waits = [in_thread(hammer) for _ in range(4)]
        started.wait()
        job.close()
        assert [type(joined(*w)) for w in waits] == [elasticd.Cancelled] * 4


def test_get_returns_the_open_job(elasticd):
    with elasticd.init() as job:
        assert elasticd.get() is job
    other = elasticd.get()
    assert other is not job and elasticd.get() is other
    other.close()


def test_record_writes_tells_and_raises(box):
    result = by_hand(box, """
        import elasticd

        @elasticd.record
        def fine(n):
            "What it does."
            return n + 1

        @elasticd.record
        def leave():
            raise SystemExit(3)

        @elasticd.record
        def main(name, *, end=""):
            raise RuntimeError(name + end)

        assert fine(2) == 3 and fine.__name__ == "fine" and fine.__doc__ == "What it does."
        try:
            leave()
        except SystemExit:
            pass
        try:
            main("it ", end="broke")
        except RuntimeError:
            print(elasticd.get().wait_error(3600).message)
        main("again")
        """, TORCHELASTIC_ERROR_FILE=str(box.path("error.json")))
    assert result.rc == 1 and result.out == "RuntimeError: it broke\n", result
    assert "RuntimeError: again" in result.err
    written = box.path("error.json").read_text()
    assert "RuntimeError: it broke" in written and "in main" in written and "again" not in written


def test_structured_lines_go_to_the_log_file(elasticd, tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    monkeypatch.setenv("ELASTICD_LOG_FILE", str(path))
    with elasticd.init() as job:
        job.log("info", "begin", epoch=3, path=path)
        logger = logging.getLogger("test.python")
        handler = elasticd.LogHandler(job)
        logger.addHandler(handler)
        try:
            try:
                raise OSError("disk")
            except OSError:
                logger.exception("could not %s", "save", extra={"step": 12})
        finally:
            logger.removeHandler(handler)
    first, second = [json.loads(line) for line in path.read_text().splitlines()]
    assert (first["level"], first["message"], first["epoch"]) == ("info", "begin", 3)
    assert (second["level"], second["message"], second["step"]) == ("error", "could not save", 12)
    assert "OSError: disk" in second["exception"] and second["logger"] == "test.python"


def test_a_child_of_fork_opens_the_log_file_itself(box):
    """What another thread has opened during fork() is in the child's memory, but not in its table."""
    path = box.path("log.jsonl")
    result = by_hand(box, """
        import os
        import elasticd
        path = os.environ["ELASTICD_LOG_FILE"]
        with elasticd.init() as job:
            job.log("info", "parent")
            open_ones = {os.path.realpath(f"/proc/self/fd/{n}"): int(n) for n in os.listdir("/proc/self/fd")}
            fd = open_ones[path]
            pid = os.fork()
            if not pid:
                os.close(fd)
                with open(path + ".other", "w") as other:
                    assert other.fileno() == fd
                    job.log("info", "child")
                    job.close()
                    other.write("kept")
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            job.log("info", "parent again")
        """, ELASTICD_LOG_FILE=str(path))
    assert result.rc == 0, result
    assert [json.loads(line)["message"] for line in path.read_text().splitlines()] == [
        "parent", "child", "parent again"]
    assert box.path("log.jsonl.other").read_text() == "kept"


INTERRUPTED = """
    import os, signal, sys, threading
    import elasticd

    def on_signal(*_):
        if not seen.is_set():
            seen.set()
            if sys.argv[1] == "raise":
                raise KeyboardInterrupt

    def insist():  # a signal that comes just before the wait has no wait to end
        while not seen.wait(0.05):
            os.kill(os.getpid(), signal.SIGINT)
        job.kv["late"] = "here"

    seen = threading.Event()
    signal.signal(signal.SIGINT, on_signal)
    with elasticd.init() as job:
        watch = job.kv.watch("late")
        try:
            threading.Thread(target=insist).start()
            if sys.argv[2] == "get":
                print(job.kv.get("late", timeout=3600).decode())
            else:
                print(next(iter(watch)).value.decode())
        except KeyboardInterrupt:
            print("interrupted")
"""


@pytest.mark.parametrize("wait", ["get", "watch"])
@pytest.mark.parametrize("handler,said", [("raise", "interrupted"), ("return", "here")])
def test_signals_reach_python_while_it_waits(box, handler, said, wait):
    result = by_hand(box, INTERRUPTED, handler, wait)
    assert result.rc == 0 and result.out == said + "\n", result


def test_children_of_fork_are_the_same_worker(box):
    result = by_hand(box, """
        import multiprocessing, os, threading
        import elasticd

        job = elasticd.init()
        job.kv["before"] = "1"
        threading.Thread(target=lambda: job.kv.try_get("x") or job.kv.get("end")).start()

        def child():
            with elasticd.get() as mine:
                assert mine is job and mine.me == "worker:0" and mine.kv["before"] == b"1"
                mine.step(2)
                mine.kv.put("child", "1")
                with mine.kv.watch("child") as watch:
                    mine.kv["child"] = "2"
                    assert watch.next(3600).value == b"2"

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0, process.exitcode
        pid = os.fork()
        if not pid:
            raise SystemExit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        job.kv["end"] = "1"
        print("done")
        """)
    assert result.rc == 0 and result.out == "done\n", result


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)", "del job, watch, events",
                                 "job.close()", "sys.job = job; sys.watch = watch"])
def test_the_interpreter_ends_with_open_handles_and_waiting_threads(box, end):
    result = by_hand(box, f"""
        import functools, sys, threading
        import elasticd

        job = elasticd.init()
        watch, events = job.kv.watch("a"), job.events()
        for wait in (job.wait_error, watch.next, events.next, functools.partial(job.kv.get, "x")):
            def body(wait=wait):
                try:
                    wait()
                except elasticd.Cancelled:
                    pass
            threading.Thread(target=body, daemon=True).start()
        {end}
        """)
    assert (result.rc, result.out, result.err) == (0, "", ""), result


def test_an_environment_that_makes_no_sense_is_named(box):
    for env, named in [({"ELASTICD_WORKER_SOCKET": "/nowhere"}, "ELASTICD_TOKEN"),
                       ({"ELASTICD_LIBRARY": "/nowhere.so"}, "/nowhere.so")]:
        result = by_hand(box, "import elasticd\nelasticd.init()", **env)
        assert result.rc == 1 and named in result.err, result


@pytest.mark.seconds(120)
def test_the_wheel_is_whole_and_works(box):
    out = box.path("wheel")
    out.mkdir()
    build = ("import wheel_backend, sys; "
             "print(wheel_backend.build_wheel(sys.argv[1], {'library': sys.argv[2]}))")
    built = box.sh(sys.executable, "-B", "-c", build, out, python_package.LIBRARY, cwd=str(PACKAGE))
    assert built.rc == 0, built
    name = built.out.strip()
    with zipfile.ZipFile(out / name) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        wheel.extractall(out / "site")
    for f in [*PACKAGE.glob("elasticd/*.py"), PACKAGE / "elasticd/py.typed"]:
        assert f"elasticd/{f.name}" in names
    result = box.sh(sys.executable, "-B", "-c",
                    "import elasticd; print(elasticd.init(), elasticd.__file__)",
                    env={"PYTHONPATH": str(out / "site")})
    assert result.rc == 0 and str(out) in result.out, result


def test_the_versions_are_one(elasticd):
    from elasticd import _library
    configured = (ROOT / "configure.ac").read_text()
    assert f"AC_INIT([elasticd],[{elasticd.__version__}]" in configured
    assert (ROOT / "packaging/debian/changelog").read_text().startswith(f"elasticd ({elasticd.__version__}-")
    assert f"\nVersion:        {elasticd.__version__}\n" in (ROOT / "packaging/rpm/elasticd.spec").read_text()
    assert _library.load().version().decode() == elasticd.__version__


def test_every_function_of_the_library_has_its_binding(elasticd):
    from elasticd import _library
    exported = {n for n in (ROOT / "worker/elasticd.abi").read_text().split() if n.startswith("elasticd_")}
    symbols = (ROOT / "packaging/debian/libelasticd0.symbols").read_text()
    assert {s for s in re.findall(r"^ (\w+)@", symbols, re.M) if s.startswith("elasticd_")} == exported
    bound = {"elasticd_" + n for n in _library._ARGUMENTS}
    by_memory = {f"elasticd_{n}" for n in ("beat", "notice", "stopping")}
    assert exported - bound - by_memory == {"elasticd_status_name", "elasticd_checkpoint"}
    assert bound <= exported
