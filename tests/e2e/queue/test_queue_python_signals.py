# SPDX-License-Identifier: Apache-2.0
"""The work queue in Python by hand: signals that come during its waits, and tasks that are cancelled while
they run."""

import pytest

from python_package import needs_library
from python_queue import runs

pytestmark = [needs_library, pytest.mark.seconds(300)]

INTERRUPTED = """
    def on_signal(*_):
        again = handled.is_set()  # another one was sent before this was seen
        handled.set()
        if sys.argv[2] == "raise" and not again:
            raise KeyboardInterrupt

    def insist():  # a signal that comes just before the wait has no wait to end
        while not handled.wait(0.05):
            os.kill(os.getpid(), signal.SIGINT)
        go.set()

    def handler(task):
        begun.set()
        go.wait()
        return task.payload

    handled, begun, go = [threading.Event() for _ in range(3)]
    signal.signal(signal.SIGINT, on_signal)
    q = job.queue()
    if sys.argv[1] != "tasks":
        start(handler)
    h = q.submit("value") if sys.argv[1] != "tasks" else None
    if h:
        begun.wait()  # cancelling a task that no worker has begun does not wait
    other = threading.Thread(target=insist)
    waits = {"fetch": lambda: h.fetch(timeout=3600), "join": q.join, "cancel": lambda: q.cancel([h]),
             "any": lambda: next(q.as_completed([h])), "call": lambda: job.call(1),
             "tasks": lambda: next(job.tasks())}
    if sys.argv[1] == "tasks":
        def give():
            go.wait()
            if sys.argv[2] == "return":
                q.submit("for the loop")
        giver = threading.Thread(target=give)
        giver.start()
        loops.append(giver)
    try:
        other.start()
        try:
            waits[sys.argv[1]]()
            print("done")
        except elasticd.CallFailed:
            print("done")
    except KeyboardInterrupt:
        print("interrupted")
    other.join()
    if h and sys.argv[1] != "cancel":
        assert h.fetch() == "value"
        assert q.submit("more").fetch() == "more"
    finish()
"""


@pytest.mark.parametrize("way", ["return", "raise"])
@pytest.mark.parametrize("wait", ["fetch", "join", "cancel", "any", "call", "tasks"])
def test_signals_come_through_and_the_queue_goes_on(box, wait, way):
    result = runs(box, INTERRUPTED, wait, way)
    assert result.out == {"return": "done", "raise": "interrupted"}[way] + "\nwell\n"


def test_a_cancelled_task_is_interrupted_and_no_other_one(box):
    """A hundred are cancelled, some in their sleep, some while they end by themselves: none of the tasks
    in between is hit, and all are accounted for."""
    runs(box, """
        hit = []

        def coordinator():
            with job.queue() as q:
                for n in range(60):
                    bad, good = q.submit("bad"), q.submit("good")
                    until(lambda: bad.task in begun)
                    if n % 3 == 0:
                        ends.add(bad.task)
                    bad.cancel()
                    assert type(bad.exception()) in (elasticd.Cancelled, type(None))
                    assert good.fetch() == "good"
            finish()

        begun, ends = set(), set()
        thread = threading.Thread(target=coordinator)
        thread.start()
        def handler(task):
            begun.add(task.number)
            if task.payload == "good":
                sum(range(1000))
                return "good"
            try:
                while task.number not in ends:
                    time.sleep(0.002)
            except elasticd.TaskCancelled:
                hit.append(task.number)
                raise

        job.work(handler, interrupt=signal.SIGUSR1)
        thread.join()
        assert hit and len(set(hit)) == len(hit)
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
        """)


def test_a_cancellation_right_after_its_task_is_seen(box):
    """The task may be cancelled before its thread has looked at it. Each of these loops would not end if the
    cancellation were missed."""
    runs(box, """
        def handler(task):
            until(lambda: task.cancelled)

        start(handler), start(handler)
        with job.queue() as q:
            for _ in range(300):
                h = q.submit()
                assert q.cancel([h], "no more of it") == 1
                assert str(raised(elasticd.Cancelled, h.fetch)) == "no more of it"
        finish()
        """)


def test_no_task_is_interrupted_below_a_finalizer(box):
    """An exception that is raised there would be lost; the task is interrupted after the finalizer."""
    runs(box, """
        class Slow:
            def __del__(self):
                self.leave()

            def leave(self):
                begun.append(task.number)
                until(lambda: task.cancelled)
                end = time.monotonic() + 0.5  # that a signal comes meanwhile
                until(lambda: time.monotonic() > end)
                left.append(task.number)

        def cancel():
            with job.queue() as q:
                h = q.submit()
                until(lambda: begun)
                assert h.cancel()
            finish()

        begun, left, hit = [], [], []
        thread = threading.Thread(target=cancel)
        thread.start()
        for task in job.tasks(interrupt=signal.SIGUSR1):
            with task:
                try:
                    Slow()
                    time.sleep(3600)
                except elasticd.TaskCancelled:
                    hit.append(task.number)
                    raise
        thread.join()
        assert begun == left == hit, (begun, left, hit)
        """)


def test_a_signal_from_elsewhere_goes_to_the_former_handler(box):
    runs(box, """
        seen = []
        signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
        with job.queue() as q:
            h = q.submit()
            for task in job.tasks(interrupt=signal.SIGUSR1):
                with task:
                    os.kill(os.getpid(), signal.SIGUSR1)
                    until(lambda: seen)
                task.finish()
                break
            os.kill(os.getpid(), signal.SIGUSR1)
            until(lambda: len(seen) == 2)
            assert h.fetch() is None
        assert len(threading.enumerate()) == 1
        """)


def test_a_loop_with_an_interrupt_ends_by_hand_as_any_other(box):
    """With one thread it ends when no other thread could submit a task; a try's own limit interrupts it."""
    runs(box, """
        begun, hit = [], []
        with job.queue() as q:
            first, slow, last = q.submit(1, alone=True), q.submit(2, limit=0.05, alone=True), q.submit(3)
            for task in job.tasks(interrupt=signal.SIGUSR1):
                begun.append(task.payload)
                with task:
                    if task.payload == 2:  # its time may be over before this
                        time.sleep(3600)
                if task.answered:  # by what the body has raised
                    hit.append(task.payload)
            assert begun == [1, 2, 3] and hit == [2]
            raised(elasticd.DeadlineExceeded, slow.fetch)
            assert first.fetch() is None and last.fetch() is None
            again = q.submit(4)
            job.close_queues()
            job.work(lambda task: task.payload, interrupt=signal.SIGUSR1)
            assert again.fetch() == 4
        assert len(threading.enumerate()) == 1
        """)
