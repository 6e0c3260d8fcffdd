# SPDX-License-Identifier: Apache-2.0
"""Scripts that use the work queue in Python by hand, for tests. One that fails ends, whatever its threads
wait for, and one that hangs says where."""

import os
import textwrap

from harness import SLOWER
from python_package import by_hand

HANGS_AFTER = int(os.environ.get("HANGS_AFTER", 180 * SLOWER))

PRELUDE = """
import collections, faulthandler, json, os, signal, sys, threading, time, traceback
import elasticd

faulthandler.register(signal.SIGALRM, chain=True)  # no thread, by which the process would not be alone
signal.alarm(int(os.environ["HANGS_AFTER"]))

def give_up(kind, error, trace, *_):
    "Whatever a thread raises, the others wait for nothing any more."
    traceback.print_exception(kind, error, trace)
    sys.stdout.flush()
    faulthandler.dump_traceback()
    os._exit(1)

sys.excepthook = give_up
threading.excepthook = lambda a: give_up(a.exc_type, a.exc_value, a.exc_traceback)

job = elasticd.init()
loops = []

def start(handler=lambda task: task.payload, **more):
    "Another worker."
    thread = threading.Thread(target=lambda: job.work(handler, **more))
    thread.start()
    loops.append(thread)

def finish():
    job.close_queues()
    for thread in loops:
        thread.join()

def raised(kind, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except kind as e:
        return e
    raise AssertionError(f"{function} did not raise {kind}")

def until(condition):
    while not condition():
        time.sleep(0.001)

"""


def runs(box, script, *args, err=""):
    """The script, which ends well and says so."""
    result = by_hand(box, PRELUDE + textwrap.dedent(script) + "\nprint('well')\n", *args,
                     timeout=HANGS_AFTER + 60, HANGS_AFTER=str(HANGS_AFTER))
    assert result.rc == 0 and result.out.endswith("well\n") and result.err == err, result
    return result
