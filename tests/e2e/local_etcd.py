# SPDX-License-Identifier: Apache-2.0
"""A real etcd of one member on loopback, with its data in the box."""

import base64
import contextlib
import json
import os
import signal
import urllib.error
import urllib.request

import pytest

from harness import have, wait_for
from several_hosts import free_port


class LocalEtcd:
    def __init__(self, box, *args, name="etcd"):
        if not have("etcd"):
            pytest.skip("needs etcd (Debian's etcd-server)")
        self.address = f"127.0.0.1:{free_port()}"
        self.url, peer = f"http://{self.address}", f"http://127.0.0.1:{free_port()}"
        self.token = None
        self.process = box.start(
            "etcd", "--name=one", f"--data-dir={box.path(name)}", f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=one={peer}",
            "--unsafe-no-fsync", *args)
        box.cleanups.append(self.kill)
        wait_for(self.is_healthy, box.dir, what="etcd to answer")

    def is_healthy(self):
        with contextlib.suppress(OSError):
            return b"true" in urllib.request.urlopen(f"{self.url}/health", timeout=5).read()
        return False

    def post(self, path, **body):
        headers = {"Authorization": self.token} if self.token else {}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def keys(self):
        everything = base64.b64encode(b"\0").decode()
        found = self.post("/v3/kv/range", key=everything, range_end=everything, keys_only=True)
        return [base64.b64decode(kv["key"]).decode() for kv in found.get("kvs", [])]

    def value(self, end):
        """The JSON of the key that ends so, or None."""
        everything = base64.b64encode(b"\0").decode()
        for kv in self.post("/v3/kv/range", key=everything, range_end=everything).get("kvs", []):
            if base64.b64decode(kv["key"]).decode().endswith(end):
                return json.loads(base64.b64decode(kv["value"]))
        return None

    def requests(self, method):
        """How many it has had of a kind."""
        text = urllib.request.urlopen(f"{self.url}/metrics", timeout=10).read().decode()
        return sum(int(float(line.split()[-1])) for line in text.splitlines()
                   if line.startswith("grpc_server_msg_received_total{") and f'"{method}"' in line)

    def put(self, key, value):
        self.post("/v3/kv/put", key=base64.b64encode(key.encode()).decode(),
                  value=base64.b64encode(value.encode()).decode())

    def demand_users(self, user, password, prefix):
        """From now on there are users; that one has rights below prefix only."""
        def code(text):
            return base64.b64encode(text.encode()).decode()

        for name, role in (("root", "root"), (user, "few")):
            if role != "root":
                self.post("/v3/auth/role/add", name=role)
            self.post("/v3/auth/user/add", name=name, password=password)
            self.post("/v3/auth/user/grant", user=name, role=role)
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        self.post("/v3/auth/role/grant", name="few",
                  perm={"permType": "READWRITE", "key": code(prefix), "range_end": code(end)})
        self.post("/v3/auth/enable")
        self.token = self.post("/v3/auth/authenticate", name="root", password=password)["token"]

    def alarm(self):
        """Says that it is full, whatever it holds."""
        member = self.post("/v3/maintenance/status")["header"]["member_id"]
        self.post("/v3/maintenance/alarm", action="ACTIVATE", memberID=member, alarm="NOSPACE")

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def kill(self):
        if self.process.popen.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
