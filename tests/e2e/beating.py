# SPDX-License-Identifier: Apache-2.0
"""Workers that beat by hand, and what is saved of those that hang."""

import pathlib
import sys

from harness import PATIENCE

# A worker that speaks to its slot of the board by hand: "beat N", "step N", "token T", "hang", "exit C",
# "wait PATH", "touch PATH", "stop" (does nothing more, but lives).
WORKER = r"""
import mmap, os, struct, sys, time
fd = os.open(os.environ["ELASTICD_BOARD"], os.O_RDWR)
board = mmap.mmap(fd, 0)
at = 4096 + 128 * int(os.environ["ELASTICD_SLOT"])
def put(word, value):
    board[at + 8 * word:at + 8 * word + 8] = struct.pack("=Q", value)
beats = steps = 0
for word in sys.argv[1:]:
    what, _, arg = word.partition(" ")
    if what == "if-attempt":
        attempt, _, rest = arg.partition(" ")
        if int(attempt) != int(os.environ["ELASTICD_ATTEMPT"]):
            continue
        what, _, arg = rest.partition(" ")
    if what == "if-rank":
        rank, _, rest = arg.partition(" ")
        if int(rank) != int(os.environ["RANK"]):
            continue
        what, _, arg = rest.partition(" ")
    if what in ("beat", "step", "beat-on", "beat-until", "step-until") and not beats:
        put(0, int(os.environ["ELASTICD_TOKEN"]))
    if what == "beat":
        for _ in range(int(arg)):
            beats += 1
            put(1, beats)
            time.sleep(0.02)
    elif what == "step":
        for _ in range(int(arg)):
            beats += 1
            steps += 1
            put(2, steps)
            put(3, steps)
            put(1, beats)
            time.sleep(0.02)
    elif what in ("beat-on", "beat-until"):
        while what == "beat-on" or not os.path.exists(arg):
            beats += 1
            put(1, beats)
            time.sleep(0.02)
    elif what == "step-until":  # and no step while the second one is there
        until, _, held = arg.partition(" ")
        while not os.path.exists(until):
            if not os.path.exists(held):
                print("on", flush=True)
                beats += 1
                steps += 1
                put(2, steps)
                put(3, steps)
                put(1, beats)
            time.sleep(0.02)
    elif what == "token":
        put(0, int(arg))
    elif what == "meet":  # all of them are here
        where, _, count = arg.rpartition(" ")
        os.makedirs(where, exist_ok=True)
        open(os.path.join(where, os.environ["RANK"]), "w").close()
        while len(os.listdir(where)) < int(count):
            time.sleep(0.01)
    elif what == "await":
        while not os.path.exists(arg):
            time.sleep(0.01)
    elif what == "print":
        print(arg, flush=True)
    elif what == "chatter":
        while True:
            print(arg, flush=True)
            time.sleep(0.02)
    elif what == "write":
        for i in range(10):
            open(arg, "w").write(str(i))
            time.sleep(0.02)
    elif what == "touch":
        open(arg, "w").close()
    elif what == "exit":
        os._exit(int(arg))
    elif what == "hang":
        time.sleep(100000)
"""


def dumped(daemon, **parameters):
    """The directories of a dump on demand, however long a debugger takes."""
    with daemon.connect(4 * PATIENCE) as v:
        return v.call("Dump", timeout_ms=3 * PATIENCE * 1000, **parameters)["dirs"]


def hang_dirs(job, attempt=0, rank=0):
    return sorted(pathlib.Path(job["log_dir"], f"attempt_{attempt}", str(rank)).glob("hang*"))


def job_of(command, replicas=1, **top):
    top.setdefault("stop", {"timeout": "100ms"})
    top.setdefault("logs", {"redirects": 3})
    return {"roles": [{"replicas": replicas, "command": command}], **top}


def texts(daemon, job, event):
    return [e["text"] for e in daemon.events(job) if e["event"] == event]


def worker(*words):
    return [sys.executable, "-S", "-c", WORKER, *words]
