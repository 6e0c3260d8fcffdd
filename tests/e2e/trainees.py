# SPDX-License-Identifier: Apache-2.0
"""Tasks of a job that a test is itself, as far as preemption goes: it tells their steps on the board, asks
as they would, and says when and how their processes end. The processes know nothing of elasticd."""

import mmap
import os
import struct

from harness import Varlink
from workers import Group

HEADER, SLOT = 4096, 128
NOTICE_AT, SAVE_AT_AT, ERROR_AT = 32, 48, 56
TOKEN, BEATS, STEP, STEPS = 0, 1, 2, 3


class Trainee:
    """One task. Its process ends with the code that leave() is given."""

    def __init__(self, group, name, fifo):
        self.group, self.name, self.fifo = group, name, fifo
        env = group.environment(name)
        self.env, self.rank = env, int(env["RANK"])
        self.w = group.at(env["ELASTICD_WORKER_SOCKET"], env["ELASTICD_TOKEN"])
        fd = os.open(env["ELASTICD_BOARD"], os.O_RDWR)
        self.board = mmap.mmap(fd, 0)
        os.close(fd)
        self.at = HEADER + SLOT * int(env["ELASTICD_SLOT"])
        self.n = self.steps = 0
        self.exit_code = int(env["ELASTICD_PREEMPTION_EXIT_CODE"])

    def word(self, at, kind="Q"):
        return struct.unpack_from(f"={kind}", self.board, at)[0]

    def write(self, word, value, kind="q"):
        struct.pack_into(f"={kind}", self.board, self.at + 8 * word, value)

    def notice(self):
        return self.word(NOTICE_AT) & 1 == 1

    def tell(self, n):
        """Begins step n, as far as the board goes; whether the agent must be asked then."""
        self.n = n
        self.steps += 1
        self.write(STEP, n)
        self.write(STEPS, self.steps)
        self.write(TOKEN, int(self.env["ELASTICD_TOKEN"]), "Q")
        return self.notice() and n >= self.word(SAVE_AT_AT, "q")

    def step(self, n=None):
        """Begins step n, or the next one. The action, at last."""
        if not self.tell(self.n + 1 if n is None else n):
            return "continue"
        return self.ask(self.n)["action"]

    def ask(self, n):
        return self.w.call("Step", step=n)

    def until_told(self):
        """Steps until there is something to do: (action, step)."""
        while True:
            action = self.step()
            if action != "continue":
                return action, self.n

    def saved(self, path=None):
        return self.w.call("Saved", step=self.n, **({"path": path} if path else {}))

    def leave(self, code=None):
        os.write(self.fifo, f"{self.exit_code if code is None else code}\n".encode())

    def save_and_leave(self, path=None, code=None):
        self.saved(path)
        self.leave(code)


class OutsideTrainee(Trainee):
    """One that has the file beside the board, as from within a container; another task may cut it."""

    def __init__(self, group, name, fifo):
        super().__init__(group, name, fifo)
        self.board.close()
        self.path = self.env["ELASTICD_BOARD"] + ".file"

    def word(self, at, kind="Q"):
        with open(self.path, "rb") as f:
            return struct.unpack(f"={kind}", os.pread(f.fileno(), 8, at))[0]

    def write(self, word, value, kind="q"):
        with open(self.path, "r+b") as f:
            os.pwrite(f.fileno(), struct.pack(f"={kind}", value), self.at + 8 * word)


class Trainees(Group):
    """A running job, and a test that is all of its tasks."""

    def __init__(self, box, daemon, n=1, **document):
        self.fifos = []
        base = box.path("fifo")
        for rank in range(n):
            os.mkfifo(f"{base}.{rank}")
            self.fifos.append(os.open(f"{base}.{rank}", os.O_RDWR | os.O_CLOEXEC))
        # A shell that a signal ends, and that does nothing else.
        command = ["/bin/sh", "-c", f'read code < "{base}.$RANK"; exit "$code"']
        roles = document.pop("roles", [{"replicas": n}])
        roles = [{"command": command, **role} for role in roles]
        document.setdefault("stop", {"timeout": "10s"})
        super().__init__(daemon, {"roles": roles, **document})

    def trainee(self, name, kind=Trainee):
        rank = self.task(name)["rank"]
        return kind(self, name, self.fifos[rank])

    def team(self, *names):
        names = names or [f"{t['role']}:{t['index']}" for t in self.daemon.status(self.name)["workers"]]
        return [self.trainee(n) for n in names]

    def preempt(self, **parameters):
        return preempt(self.daemon, self.name, **parameters)

    def status(self):
        with self.agent() as v:
            return v.call("Status", job=self.name)["job"]

    def agent(self):
        return Varlink(self.daemon.agent_sock(self.name))

    def ended(self):
        return self.daemon.wait(self.run)

    def events(self, *names):
        found = self.daemon.events(self.run)
        return [e for e in found if e["event"] in names] if names else found

    def close(self):
        super().close()
        for fifo in self.fifos:
            os.close(fifo)


def preempt(daemon, job, **parameters):
    with Varlink(daemon.agent_sock(job)) as v:
        return v.call("Preempt", job=job, **parameters)["runs"]


def verdict_of(job, result):
    verdict = job["verdict"]
    assert verdict["result"] == result, verdict
    return verdict
