# SPDX-License-Identifier: Apache-2.0
"""Rows of groups whose head etcd elects, with a real etcd of one member: how long the others take without the
host that leads, and what etcd sees of a group. torchrun has no peer: its etcd backends speak version 2, and
its c10d does not outlive the store's host."""

import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

from hosts import LEASE_S, Group, Hosts, Wire, free_port, wait_until


class Etcd:
    """An etcd whose data lies in memory, where that can be: its disk is not what is measured."""

    def __init__(self, box, address="127.0.0.1", prefix=()):
        self.url = f"http://{address}:{free_port()}"
        peer = f"http://{address}:{free_port()}"
        self.dir = f"/dev/shm/elastic-bench-etcd.{os.getpid()}"
        shutil.rmtree(self.dir, ignore_errors=True)
        self.process = box.start(
            *prefix, "etcd", "--name=one", f"--data-dir={self.dir}", f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=one={peer}", name="etcd")
        self.prefix = prefix
        wait_until(lambda: "true" in self.get("/health"), "etcd answers", 20)

    def get(self, path):
        program = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())"
        argv = [*self.prefix, sys.executable, "-c", program, self.url + path]
        return subprocess.run(argv, check=False, capture_output=True).stdout.decode()

    def requests(self):
        """How many messages it has had."""
        return sum(int(float(line.split()[-1])) for line in self.get("/metrics").splitlines()
                   if line.startswith("grpc_server_msg_received_total{") and "Health" not in line)

    def close(self):
        self.process.signal(signal.SIGKILL)
        self.process.popen.wait(10)
        shutil.rmtree(self.dir, ignore_errors=True)


class EtcdGroup(Group):
    """A group that etcd elects the head of."""

    elects = True

    def __init__(self, bench, etcd, nodes, **kwargs):
        super().__init__(bench, "ours", nodes, **kwargs)
        self.flags = [*self.flags[:-3], f"--rdzv-endpoint={etcd.url}", f"--rdzv-id=bench{Group.count}",
                      "--rdzv-backend=etcd"]

    def start_first(self, *args):
        first = self.start(*args)
        wait_until(lambda: "this host leads" in first.err, "the first host to lead")
        return first


class EtcdRows(Hosts):
    def loss_of_head(self, lose, etcd, wire=None, lease_s=10):
        """Nanoseconds from the loss of the host that leads to the start of the other two's workers."""
        here, there = (wire.enter(p) for p in wire.holders) if wire else ((), ())
        if wire:
            wire.heal()
        conf = f",keep_alive_interval=1,keep_alive_max_attempt={lease_s}"
        group = EtcdGroup(self.bench, etcd, "2:3", conf=conf)
        try:
            group.start_first(wire.THERE if wire else "127.0.0.1", there)
            for _ in range(2):
                group.start(wire.HERE if wire else "127.0.0.1", here)
            group.starts(0, 3)
            # The group comes to rest; the loss comes at any time between two beats.
            time.sleep(random.uniform(0.5, 0.5 + LEASE_S / 5))
            group.lost.append(group.hosts[0])
            begun = time.time_ns()
            lose(group, group.hosts[0])
            return group.starts(begun, 2)[-1][0] - begun
        finally:
            group.end()

    def add_losses(self, what, took, limit_ms, lease_s=0):
        ms, worst = (f(took) / 1e6 - lease_s * 1e3 for f in (statistics.median, max))
        self.bench.add(what, ms, "ms", f"< {limit_ms} ms", ms < limit_ms, None, None, None,
                       note=f"at most {worst:.1f}, with the death of the others")

    def times(self):
        return 3 if self.bench.quick else 10

    def killed(self, etcd):
        def kill(group, host):
            os.kill(group.agent(host), signal.SIGKILL)

        self.add_losses("kill -9 of the agent that leads -> the others execute again",
                        [self.loss_of_head(kill, etcd) for _ in range(self.times())], 500)

    def silent(self):
        wire = Wire(self.bench.box)
        try:
            etcd = Etcd(self.bench.box, wire.HERE, wire.enter(wire.holders[0]))
            try:
                took = [self.loss_of_head(lambda *_: wire.cut(), etcd, wire, LEASE_S)
                        for _ in range(self.times())]
            finally:
                wire.heal()
                etcd.close()
        finally:
            wire.close()
        self.add_losses("link of the host that leads down -> the others execute, beyond lease", took, 1500,
                        LEASE_S)

    def many(self, etcd):
        """What etcd sees of a group of many hosts, which then loses the one that leads."""
        n = 16 if self.bench.quick else 64
        before = etcd.requests()
        group = EtcdGroup(self.bench, etcd, f"{n - 1}:{n}")
        try:
            group.start_first()
            for _ in range(n - 1):
                group.start()
            group.starts(0, n)
            formed = etcd.requests() - before
            time.sleep(1)
            before = etcd.requests()
            time.sleep(10)
            at_rest = etcd.requests() - before
            group.lost.append(group.hosts[0])
            begun = time.time_ns()
            os.kill(group.agent(group.hosts[0]), signal.SIGKILL)
            starts = group.starts(begun, n - 1)
        finally:
            group.end()
        self.bench.add(f"messages to etcd until {n} hosts have formed", formed, "", f"<= {4 * n + 10}",
                       formed <= 4 * n + 10)
        # Two leases in each of five keep-alives, and one more for where the ten seconds began.
        self.bench.add(f"messages to etcd in 10 s at rest, {n} hosts", at_rest, "", "<= 12", at_rest <= 12)
        ms = (starts[-1][0] - begun) / 1e6
        self.bench.add(f"kill -9 of the head of {n} hosts -> all others execute", ms, "ms", "< 500 ms",
                       ms < 500, note=f"the first after {(starts[0][0] - begun) / 1e6:.1f}")

    def rows(self):
        if not shutil.which("etcd"):
            print("groups that etcd leads: there is no etcd here", flush=True)
            return
        etcd = Etcd(self.bench.box)
        try:
            self.killed(etcd)
            self.many(etcd)
        finally:
            etcd.close()
        try:
            self.silent()
        except (RuntimeError, OSError, subprocess.CalledProcessError) as e:
            print(f"link of the host that leads down: no network namespaces here: {e}", flush=True)
