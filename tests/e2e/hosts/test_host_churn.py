# SPDX-License-Identifier: Apache-2.0
"""A seeded churn of four hosts, of which two are enough: all that can happen to agents, guards, workers and
cables, and to the etcd that elects their head, in any order. No worker may live twice, and when all is healed
the group runs again."""

import contextlib
import os
import random
import signal
import time

import pytest

from etcd_group import LEASE_MS as ETCD_LEASE_MS
from etcd_group import EtcdGroup
from group import LEASE_MS, Group
from harness import PATIENCE, Watch, alive, children, cmdline, pidfd_of, wait_for, wait_gone

SEED = int(os.environ.get("ELASTIC_HOSTS_SEED", 20240117))
SECONDS = float(os.environ.get("ELASTIC_HOSTS_SECONDS", 16))
MEMBERS = int(os.environ.get("ELASTIC_HOSTS_ETCD_MEMBERS", 1))
HOSTS = 4
CONNECT_S = 3  # how long an agent waits for an address before it tries again


class Churn:
    """With children, agent and guard of a host are not both away: only one of them could end these.

    For the same reason no guard is killed while its agent is stopped, and not both are stopped.

    In half of the churns workers start again alone, so that hosts take the places of lost ones."""

    alone = False  # where that is what child is
    again_s = 3 * LEASE_MS / 1000 + CONNECT_S  # two hosts run, after all were started

    def __init__(self, box, child):
        restart = {"max": 100000, "scope": "worker" if child == self.alone else "group"}
        self.group = self.make(box, child=child, restart=restart, quarantine="off")
        self.net, self.rng, self.child = self.group.net, random.Random(SEED + child), child
        self.log, self.began = [], time.monotonic()
        self.stopped = {}  # host -> the descriptor of its agent or guard

    @staticmethod
    def make(box, **options):
        return Group(box, HOSTS, f"2:{HOSTS}", **options)

    def note(self, text):
        self.log.append(f"{time.monotonic() - self.began:.3f} {text}")

    # Hosts and processes

    def runs(self, i):
        return self.group.runs[i] is not None and self.group.runs[i].popen.poll() is None

    def agent(self, i):
        """The agent's descriptor; None: there is none just now."""
        for pid in children(self.group.runs[i].pid):
            fd = pidfd_of(pid)
            if fd is not None and "elastic" in cmdline(pid):
                return fd
        return None

    def guard(self, i):
        return pidfd_of(self.group.runs[i].pid)

    @staticmethod
    def send(fd, signo):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signo)

    def signal(self, fd, signo):
        if fd is not None:
            self.send(fd, signo)
            os.close(fd)

    # Events of a host

    def start(self, i):
        if not self.runs(i):
            self.group.start(i)

    def kill_agent(self, i):
        if self.runs(i) and not (self.child and i in self.stopped):
            self.signal(self.agent(i), signal.SIGKILL)

    def kill_guard(self, i):
        if self.child or not self.runs(i) or i in self.stopped:
            return
        agents = children(self.group.runs[i].pid)
        self.signal(self.guard(i), signal.SIGKILL)
        for pid in agents:
            wait_gone(pid)

    def kill_both(self, i):
        if self.child or not self.runs(i):
            return
        agent = self.agent(i)
        self.signal(self.guard(i), signal.SIGKILL)
        self.signal(agent, signal.SIGKILL)

    def stop_agent(self, i):
        self.stop(i, self.agent)

    def stop_guard(self, i):
        if not self.child:
            self.stop(i, self.guard)

    def stop(self, i, which):
        if self.runs(i) and i not in self.stopped and (fd := which(i)) is not None:
            self.send(fd, signal.SIGSTOP)
            self.stopped[i] = fd

    def go_on(self, i):
        self.signal(self.stopped.pop(i, None), signal.SIGCONT)

    def leave(self, i):
        if self.runs(i):
            self.group.runs[i].signal(signal.SIGTERM)

    def cut(self, i):
        sends, hears = self.rng.choice([(True, True), (True, False), (False, True)])
        self.net.cut(i, sends, hears)

    def cut_pair(self, i):
        self.net.cut_way(i, self.rng.choice(self.net.others(i)))

    def unplug(self, i):
        self.net.unplug(i)

    def heal(self, i):
        self.net.heal(i)

    def end_worker(self, i):
        rounds = self.group.rounds()
        worker = rounds and rounds[-1].workers.get(i)
        fd = pidfd_of(worker.pid) if worker else None
        if fd is None:
            return
        if "solo" in cmdline(worker.pid):
            self.send(fd, self.rng.choice([signal.SIGUSR1, signal.SIGUSR2, signal.SIGKILL, signal.SIGSTOP]))
        os.close(fd)

    def happenings(self):
        """Events of a host, with their weights."""
        return {self.start: 8, self.kill_agent: 2, self.kill_guard: 1, self.kill_both: 1, self.stop_agent: 2,
                self.stop_guard: 1, self.go_on: 5, self.leave: 1, self.cut: 2, self.cut_pair: 2,
                self.unplug: 1, self.heal: 7, self.end_worker: 4}

    def step(self):
        happenings = self.happenings()
        what = self.rng.choices(list(happenings), list(happenings.values()))[0]
        i = self.rng.randrange(HOSTS)
        self.note(f"{what.__name__} {i}")
        what(i)
        self.group.check()

    def heal_all(self):
        """All goes on, and is connected and started again: two hosts run soon, and then all."""
        for i in range(HOSTS):
            self.go_on(i)
            self.heal(i)
        healed = time.monotonic()
        for count, seconds in (2, self.again_s), (HOSTS, PATIENCE):
            self.wait_hosts(count, seconds)
            self.note(f"{count} hosts run {time.monotonic() - healed:.3f} s after all were healed")
        self.group.check()

    def is_whole(self, count):
        """Whether so many hosts are in the last round, and their workers live or have succeeded."""
        rounds = self.group.rounds()
        workers = list(rounds[-1].workers.values()) if rounds else []
        done = [int(end[3]) for end in self.group.lines("end") if end[4] == "0"]
        return (len(workers) >= count and sorted(w.rank for w in workers) == list(range(workers[0].world))
                and all(alive(w.pid) or w.pid in done for w in workers))

    def wait_hosts(self, count, seconds):
        """Starts again what ends meanwhile: a verdict may have been on its way. The seconds begin once the
        last one that was started has its agent."""
        began = time.monotonic()

        def there():
            nonlocal began
            for i in range(HOSTS):
                if not self.runs(i):
                    self.start(i)
                    wait_for(lambda: children(self.group.runs[i].pid) or not self.runs(i), what="an agent")
                    began = time.monotonic()
            if self.is_whole(count):
                return True
            assert time.monotonic() - began < seconds, f"no {count} hosts run {seconds} s after all started"
            return False

        wait_for(there, self.group.dir, self.group.records, what=f"{count} hosts to run")

    def end(self):
        self.group.stop()


class EtcdChurn(Churn):
    """A group that has lost all its hosts waits for store_loss before the next one begins."""

    alone = True
    store_loss_ms = ETCD_LEASE_MS
    again_s = (store_loss_ms + 4 * ETCD_LEASE_MS) / 1000 + CONNECT_S

    @classmethod
    def make(cls, box, **options):
        return EtcdGroup(box, HOSTS, f"2:{HOSTS}", store_loss=f"{cls.store_loss_ms}ms", members=MEMBERS,
                         **options)

    def member(self):
        return self.rng.choice(self.group.members)

    def pause_etcd(self, _):
        if (member := self.member()).runs():
            member.pause()

    def kill_etcd(self, _):
        self.member().kill()

    def heal_etcd(self, _):
        for member in self.group.members:
            if member.runs():
                member.go_on()
            else:
                member.launch()
        for member in self.group.members:
            member.wait()

    def cut_from_etcd(self, i):
        node = self.member().node
        ways = [(i, node), (node, i)]
        for way in self.rng.choice([ways, ways[:1], ways[1:]]):
            self.net.cut_way(*way)

    def happenings(self):
        return {**super().happenings(), self.pause_etcd: 1, self.kill_etcd: 1, self.heal_etcd: 4,
                self.cut_from_etcd: 2}

    def heal_all(self):
        self.heal_etcd(None)
        super().heal_all()

    def end(self):
        last = self.group.rounds()[-1]
        for worker in last.workers.values():
            if alive(worker.pid):
                self.group.kill_worker(worker, signal.SIGCONT)
        self.group.succeed(last)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Churn, EtcdChurn], ids=["direct", "etcd"])
@pytest.mark.parametrize("child", [True, False], ids=["children", "alone"])
def test_no_worker_lives_twice_in_a_churn_and_healed_hosts_run_again(box, child, kind):
    churn = kind(box, child)
    box.note(f"seed {SEED}, {SECONDS} s, {MEMBERS} of etcd (ELASTIC_HOSTS_SEED, _SECONDS, _ETCD_MEMBERS)")
    watch = Watch(churn.group.dir)
    try:
        churn.group.start().wait_round(*range(HOSTS))
        while time.monotonic() < churn.began + SECONDS:
            for _ in range(churn.rng.randint(1, 8)):
                churn.step()
                watch.wait(churn.rng.choice([0, 0.1, 0.5, 1.5]) * LEASE_MS / 1000)
            churn.heal_all()
        churn.end()
    finally:
        watch.close()
        box.note("\n".join([*churn.log, churn.group.records.read_text()]))
