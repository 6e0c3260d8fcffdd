# SPDX-License-Identifier: Apache-2.0
"""Groups whose etcd has three members, or speaks https."""

import signal
import subprocess
import time

import pytest

from etcd_group import HTTPS_PORT, LEASE_MS, EtcdGroup
from harness import have, wait_for


def wait_recorded(group, last):
    """etcd knows of the attempt that runs."""
    attempts = max(worker.attempt for worker in last.workers.values()) + 1
    wait_for(lambda: group.etcd.keys().get("state", {}).get("attempt") == attempts, group.dir,
             what=f"etcd to have {attempts} attempts")


def fail_one(group, last):
    """A worker fails; returns the round after."""
    group.kill_worker(last.workers[1], signal.SIGUSR2)
    return group.wait_round(*last.workers, after=last)


def test_workers_see_nothing_of_a_lost_member_of_etcd_and_outlive_two(box):
    group = EtcdGroup(box, 3, "2:3", members=3, restart={"max": 4, "backoff": "0"}, quarantine="off")
    members = group.members
    last = group.start_led(0).wait_round(0, 1, 2)
    # Each one once: one of them leads etcd, and one is in use.
    for i, (lose, find) in enumerate([
            (lambda m: m.kill(), lambda m: m.start()),
            (lambda m: m.pause(), lambda m: m.go_on()),
            (lambda m: group.net.cut(m.node), lambda m: group.net.heal(m.node))]):
        lose(members[i])
        group.etcd = members[i - 1]
        last = fail_one(group, last)
        wait_recorded(group, last)
        find(members[i])
        members[i].wait()
    # Without a majority etcd is away.
    for member in members[:2]:
        member.kill()
    group.runs[0].wait_err("etcd has no leader")
    time.sleep(1.2 * LEASE_MS / 1000)
    last = fail_one(group, last)
    members[0].launch()
    group.etcd = members[0]
    group.etcd.wait()
    wait_recorded(group, last)
    group.runs[0].wait_err("etcd answers again")
    assert group.leader() == 0
    assert "no more" not in group.runs[0].err
    assert [r.rc for r in group.succeed(last)] == [0, 0, 0]


class Certificates:
    """Of a CA, for a server at that address, and for its clients."""

    def __init__(self, box, address):
        self.dir = box.path("tls")
        self.dir.mkdir()
        self.make("ca", "/CN=CA")
        self.make("server", "/CN=etcd", "-CA", self.file("ca.pem"), "-CAkey", self.file("ca.key"),
                  "-addext", f"subjectAltName=IP:{address}", "-addext", "basicConstraints=critical,CA:FALSE")
        self.make("client", "/O=client", "-CA", self.file("ca.pem"), "-CAkey", self.file("ca.key"),
                  "-addext", "basicConstraints=critical,CA:FALSE")
        self.make("other", "/CN=another CA")

    def file(self, name):
        return str(self.dir / name)

    def make(self, name, subject, *options):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-days", "2", "-subj", subject, "-keyout", self.file(f"{name}.key"),
                        "-out", self.file(f"{name}.pem"), *options], check=True, capture_output=True)


def test_a_group_reaches_etcd_by_https_with_a_certificate(box):
    if not have("openssl"):
        pytest.skip("needs openssl")
    made = Certificates(box, "10.77.0.4")  # of node 3
    group = EtcdGroup(box, 3, "2:3", etcd_options=[
        "--client-cert-auth", f"--trusted-ca-file={made.file('ca.pem')}",
        f"--cert-file={made.file('server.pem')}", f"--key-file={made.file('server.key')}"])
    tls = {"ca": made.file("ca.pem"), "cert": made.file("client.pem"), "key": made.file("client.key")}
    group.document["rendezvous"].update(endpoints=f"{group.net.address(3)}:{HTTPS_PORT}", tls=tls)
    group.start(0)
    group.wait_leads(0)
    first = group.start(1).wait_round(0, 1)
    for wrong, why in (({**tls, "ca": made.file("other.pem")}, "name the CA"),
                       ({"ca": tls["ca"]}, "client certificate")):
        result = group.start(2, tls=wrong, join_timeout="1s").runs[2].wait()
        assert result.rc == 124 and why in result.err.splitlines()[-1], result
    second = group.start(2).wait_round(0, 1, 2, after=first)
    group.kill_agent(0)
    third = group.wait_round(1, 2, after=second)
    assert group.runs[0].wait().rc == 125
    group.runs[0] = None
    assert [r.rc for r in group.succeed(third)] == [0, 0]
