# SPDX-License-Identifier: Apache-2.0
"""A training host is rebooted, for real but for its kernel: a systemd and a logind in namespaces of their
own. Jobs that ask for it save first, and go on afterwards; those of jobs.d are there again."""

import json
import os

import pytest

from harness import PUPPET
from machine import machine_or_skip

pytestmark = [pytest.mark.slow, pytest.mark.seconds(1200)]

SAVED = "/var/lib/saved"
LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")

# A worker that is lost where anybody but the notice ends it, and takes its time to save.
WORKER = [PUPPET, f"if-file:{SAVED}:print:resumed",
          f"on:USR1:sleep:2000+mark:{SAVED}+exit:42", "print:up", "hang"]


def document(name, **preemption):
    return {"name": name, "roles": [{"replicas": 2, "command": WORKER}], "logs": {"redirects": "3"},
            "preemption": {"notices": ["logind"], "signal": "USR1", "resume": True, **preemption}}


def start(m, doc):
    path = f"/root/{doc['name']}.yaml"
    m.sh("sh", "-c", f"cat > {path} <<'END'\n{json.dumps(doc)}\nEND")
    m.ctl("start", f"--spec={path}")
    m.ctl("wait", "--until=running", doc["name"])
    job = m.job(doc["name"])
    for rank in range(2):
        m.until(lambda r=rank: "up" in m.sh("cat", f"{job['log_dir']}/attempt_0/{r}/stdout.log",
                                            check=False).stdout, "the worker to be up")
    return job


def keep(m, name):
    """A job of jobs.d."""
    path = m.configuration().with_name("jobs.d") / f"{name}.json"
    m.sh("mkdir", "-p", path.parent)
    m.sh("sh", "-c", f"printf %s \"$0\" > {path}", json.dumps({"roles": [{"command": [PUPPET, "hang"]}]}))


def prepare(m):
    m.sh("mkdir", "-p", "/etc/systemd/logind.conf.d")
    m.sh("sh", "-c", "printf '[Login]\\nInhibitDelayMaxSec=120\\n' > /etc/systemd/logind.conf.d/e.conf")
    m.sh("systemctl", "start", "elasticd.service")


def comes_back(m, old):
    """After the reboot: the old run's end, and the new one."""
    m.sh("systemctl", "start", "elasticd.service")
    ended = json.loads(m.ctl("status", "--json", old["run"], check=False).stdout)
    assert ended["state"] == "preempted", (ended, m.journal())
    assert ended["preemption"]["source"] == "logind", ended["preemption"]

    new = m.until(lambda: runs_after(m, old), "the run that goes on")
    assert len(new) == 1, new
    m.ctl("wait", "--until=running", new[0])


def runs_after(m, old):
    listed = json.loads(m.ctl("list", "--all", "--json").stdout)
    return [j["run"] for j in listed if j["name"] == old["name"] and j["run"] != old["run"]]


def saved(m):
    return m.sh("cat", SAVED, check=False).stdout.splitlines()


@pytest.fixture
def machine():
    m = machine_or_skip(masked=())
    try:
        if m.sh("systemctl", "start", "dbus.service", check=False).returncode:
            pytest.skip("no D-Bus daemon can be started here")
        if not os.path.exists("/lib/systemd/systemd-logind"):
            pytest.skip("no systemd-logind on this machine")
        logind = m.sh("systemctl", "start", "systemd-logind.service", check=False)
        if logind.returncode:
            pytest.skip(f"systemd-logind cannot be started here: {logind.stderr}")
        prepare(m)
        yield m
    finally:
        m.close()


@pytest.fixture
def plain_machine():
    """Without logind: the service manager alone."""
    m = machine_or_skip()
    try:
        prepare(m)
        yield m
    finally:
        m.close()


def lock_of(m):
    listed = m.sh("systemd-inhibit", "--list", "--no-legend", check=False).stdout
    return [line for line in listed.splitlines() if "elasticd" in line and "shutdown" in line]


def test_a_reboot_waits_until_the_jobs_have_saved_and_they_go_on_afterwards(machine):
    m = machine
    assert not lock_of(m), "nobody has asked for it"
    old = start(m, document("digits"))
    m.until(lambda: lock_of(m), "the inhibitor lock")
    # The next logind knows of no lock that it must give, and is asked for one.
    m.sh("systemctl", "restart", "systemd-logind.service")
    m.until(lambda: len(lock_of(m)) == 1, "the inhibitor lock of the next logind")
    # The lock is a job's, not elasticd's own.
    other = m.ctl("start", "--name=other", PUPPET, "hang")
    assert other.returncode == 0
    m.ctl("stop", "other")
    m.until(lambda: "watching" in m.ctl("platform").stdout, "elasticd to know of its lock")
    # A service that is restarted is no host that goes down.
    m.sh("systemctl", "restart", "elasticd.service")
    m.ctl("wait", "--until=running", "digits")
    assert m.job("digits")["state"] == "running" and not saved(m)
    m.until(lambda: lock_of(m), "the inhibitor lock of the next elasticd")
    keep(m, "kept")
    assert m.ctl("update").stdout == "started kept\n"
    kept = m.running("kept")
    m.reboot()
    assert len(saved(m)) == 2, "each worker saves once before the host goes down"
    comes_back(m, old)
    assert len(m.until(lambda: runs_after(m, kept), "the job of jobs.d")) == 1
    m.running("kept")
    m.until(lambda: lock_of(m), "the inhibitor lock after the reboot")
    m.ctl("stop", "digits")
    m.until(lambda: not lock_of(m), "the lock to go with the last job")


def test_a_reboot_that_is_called_off_is_forgotten(machine):
    m = machine
    # logind finds it possible, tells everybody, waits for the locks, and cannot do it after all.
    dropin = "/etc/systemd/system/reboot.target.d"
    m.sh("sh", "-c", f"mkdir -p {dropin} && printf '[Unit]\\nRefuseManualStart=yes\\n' > {dropin}/no.conf")
    m.sh("systemctl", "daemon-reload")
    old = start(m, document("digits"))
    m.until(lambda: lock_of(m), "the inhibitor lock")
    m.sh("busctl", "call", *LOGIND, "Reboot", "b", "false", check=False)
    m.until(lambda: m.job("digits")["state"] == "preempted", "the job to leave")
    assert m.job("digits")["run"] == old["run"] and len(saved(m)) == 2
    m.until(lambda: "true" not in m.sh("busctl", "get-property", *LOGIND, "PreparingForShutdown").stdout,
            "logind to call it off")
    later = start(m, document("later"))
    m.until(lambda: lock_of(m), "the inhibitor lock of the next job")
    assert m.job("later")["state"] == "running", m.journal()
    assert not later.get("preemption") and not m.job("later").get("preemption"), later


def test_a_reboot_without_logind_waits_as_well(plain_machine):
    m = plain_machine
    old = start(m, document("digits"))
    m.sh("systemctl", "restart", "elasticd.service")
    m.ctl("wait", "--until=running", "digits")
    assert m.job("digits")["state"] == "running" and not saved(m)
    m.reboot()
    assert len(saved(m)) == 2, "each worker saves once before the host goes down"
    comes_back(m, old)
