# SPDX-License-Identifier: Apache-2.0
"""A group that meets through an etcd of its own, on the last node of the network."""

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import threading

import pytest

from group import Group
from harness import PATIENCE, SLOWER, alive, have, wait_for

LEASE_MS = 2000 * SLOWER
PREFIX = "/elasticd/tests/"
HTTPS_PORT = 2378


def code(text):
    return base64.b64encode(text.encode()).decode()


class Etcd:
    """A real etcd, reached from any node; one member of a cluster on these nodes."""

    def __init__(self, box, net, node, cluster=None, options=()):
        self.box, self.net, self.node, self.process = box, net, node, None
        self.options, self.data = options, box.path(f"etcd{node}")
        self.cluster = ",".join(f"m{i}=http://{net.address(i)}:2380" for i in cluster or [node])
        self.launch()
        box.cleanups.append(self.kill)

    def url(self, port=2379, scheme="http"):
        return f"{scheme}://{self.net.address(self.node)}:{port}"

    def launch(self, *options):
        https = [self.url(HTTPS_PORT, "https")] if "--client-cert-auth" in self.options else []
        urls = ",".join([self.url(), *https])
        self.process = self.box.start(*self.net.nodes[self.node].command(
            "etcd", f"--name=m{self.node}", f"--data-dir={self.data}",
            f"--listen-client-urls={urls}", f"--advertise-client-urls={urls}",
            f"--listen-peer-urls={self.url(2380)}", f"--initial-advertise-peer-urls={self.url(2380)}",
            f"--initial-cluster={self.cluster}", "--heartbeat-interval=50", "--election-timeout=500",
            *self.options, *options), name=f"etcd{self.node}")

    def wait(self):
        wait_for(self.answers, what="etcd to answer")

    def start(self, *options):
        self.launch(*options)
        self.wait()

    def kill(self):
        if self.process and self.runs():
            self.process.signal(signal.SIGKILL)
            self.process.wait()

    def runs(self):
        return self.process.popen.poll() is None

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.net.address(self.node), 2379)
        connection.sock = self.net.nodes[self.node].socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.sock.settimeout(5)
            connection.sock.connect((self.net.address(self.node), 2379))
            connection.request(method, path, body and json.dumps(body))
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def relay(self):
        """The URL of another way to it, and that way."""
        return self.url(4001), Relay(self.box, self)

    def put(self, key, value):
        """A key of the group."""
        self.request("POST", "/v3/kv/put", {"key": code(PREFIX + key), "value": code(value)})

    def fill(self):
        """Until it has no room left, and takes nothing more."""
        junk = {"key": code("/junk"), "value": code("x" * 100000)}
        for _ in range(100):
            if "space exceeded" in self.request("POST", "/v3/kv/put", junk):
                return
        raise AssertionError("etcd does not get full")

    def empty(self):
        deleted = json.loads(self.request("POST", "/v3/kv/deleterange", {"key": code("/junk")}))
        self.request("POST", "/v3/kv/compaction",
                     {"revision": deleted["header"]["revision"], "physical": True})
        self.request("POST", "/v3/maintenance/defragment", {})
        for alarm in json.loads(self.request("POST", "/v3/maintenance/alarm", {}))["alarms"]:
            self.request("POST", "/v3/maintenance/alarm", {"action": "DEACTIVATE", **alarm})

    def answers(self):
        try:
            return "true" in self.request("GET", "/health")
        except OSError:
            return False

    def delete_all(self):
        """Removes all that the group has there."""
        span = {"key": PREFIX, "range_end": PREFIX[:-1] + "0"}
        self.request("POST", "/v3/kv/deleterange",
                     {key: base64.b64encode(text.encode()).decode() for key, text in span.items()})

    def keys(self, values=True):
        """The group's keys without the prefix, with their values, which are JSON, unless without."""
        answer = json.loads(self.request("POST", "/v3/kv/range", {
            "key": code(PREFIX), "range_end": code(PREFIX[:-1] + "0"), "keys_only": not values}))
        return {base64.b64decode(kv["key"]).decode().removeprefix(PREFIX):
                json.loads(base64.b64decode(kv["value"])) if values else None for kv in answer.get("kvs", [])}

    def requests(self):
        """How many requests it has had, by their kind."""
        found = {}
        for line in self.request("GET", "/metrics").splitlines():
            if line.startswith("grpc_server_msg_received_total{"):
                found[line.split('grpc_method="')[1].split('"')[0]] = int(float(line.split()[-1]))
        return {kind: n for kind, n in found.items() if n}


class Relay:
    """A way to etcd by another port of its node, which can keep back what etcd answers."""

    def __init__(self, box, etcd, port=4001):
        self.etcd, self.text, self.answers, self.kept = etcd, None, threading.Event(), threading.Event()
        self.answers.set()
        self.listening = self.socket()
        self.listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listening.bind((etcd.net.address(etcd.node), port))
        self.listening.listen()
        self.sockets = [self.listening]
        threading.Thread(target=self.accept, daemon=True).start()
        box.cleanups.append(self.close)

    def socket(self):
        return self.etcd.net.nodes[self.etcd.node].socket(socket.AF_INET, socket.SOCK_STREAM)

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                asks, answers = self.listening.accept()[0], self.socket()
                self.sockets += asks, answers
                answers.connect((self.etcd.net.address(self.etcd.node), 2379))
                threading.Thread(target=self.pump, args=(asks, answers, False), daemon=True).start()
                threading.Thread(target=self.pump, args=(answers, asks, True), daemon=True).start()

    def pump(self, source, sink, answer):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not answer and self.text and self.text in data:
                    self.text = None
                    self.answers.clear()
                    self.kept.set()
                if answer:
                    self.answers.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def keep_from(self, key):
        """From the next request that puts a key of the group like that on, all answers are kept back."""
        begin = (PREFIX + key).encode()
        code = base64.b64encode(begin[:len(begin) // 3 * 3]).decode()
        self.text = f'"request_put":{{"key":"{code}'.encode()

    def keep(self):
        self.answers.clear()

    def wait_kept(self):
        assert self.kept.wait(PATIENCE)

    def let_go(self):
        self.answers.set()

    def close(self):
        self.answers.set()
        for s in self.sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()


class EtcdGroup(Group):
    """Hosts 0 to count - 1, which etcd has elect their head; etcd's members are on the nodes behind them."""

    def __init__(self, box, count, nodes, lease_ms=LEASE_MS, members=1, etcd_options=(), **rendezvous):
        if not have("etcd"):
            pytest.skip("needs etcd (Debian's etcd-server)")
        super().__init__(box, count + members, nodes, lease_ms=lease_ms, backend="etcd", **rendezvous)
        self.count = count
        behind = range(count, count + members)
        self.members = [Etcd(box, self.net, i, behind, etcd_options) for i in behind]
        for member in self.members:
            member.wait()
        self.etcd = self.members[0]  # the one that the test asks
        self.document["rendezvous"]["endpoints"] = ",".join(member.url() for member in self.members)

    def start(self, *hosts, **more):
        return super().start(*(hosts or range(self.count)), **more)

    def start_led(self, head=0, **more):
        """Starts all hosts, and that one leads."""
        self.start(head, **more)
        self.wait_leads(head)
        return self.start(*[i for i in range(self.count) if i != head], **more)

    def wait_leads(self, host):
        self.runs[host].wait_err("this host leads the group")

    def kill_hosts(self, *hosts):
        """All processes of these hosts at once: none sees another one die. Guards die last, since the kernel
        continues stopped processes that have lost their parent."""
        pids = [pid for i in hosts for pid in self.net.nodes[i].processes()]
        guards = [self.runs[i].pid for i in hosts]
        for signo in (signal.SIGSTOP, signal.SIGKILL):
            for pid in [*[p for p in pids if p not in guards], *guards]:
                with contextlib.suppress(ProcessLookupError):  # the kernel was first
                    os.kill(pid, signo)
        for i in hosts:
            self.runs[i].wait()

    def leader(self):
        """The number of the host that leads, as etcd has it; None: none does."""
        lead = self.etcd.keys().get("lead")
        return lead and int(lead["host"].removeprefix("node"))

    def wait_leader(self, *hosts):
        return wait_for(lambda: (found := self.leader()) in hosts and [found], self.dir,
                        what=f"one of {hosts} to lead")[0]

    def succeed(self, last):
        """Has the workers of that round end well; returns the results of all runs. etcd then has nothing but
        how the group ended."""
        self.check()
        for worker in last.workers.values():
            if alive(worker.pid):
                self.kill_worker(worker, signal.SIGUSR1)
        results = [run.wait() for run in self.runs if run]
        self.check()
        assert set(self.etcd.keys()) <= {"end"}, self.etcd.keys()
        return results
