# SPDX-License-Identifier: Apache-2.0
"""Under a real systemd, booted in namespaces of its own over this machine's files: the installed units,
readiness, watchdog, socket activation, a scope for each job, the journal."""

import json
import os
import pathlib
import re
import select
import subprocess
import tempfile

import pytest

from harness import (BUILD, PATIENCE, PUPPET, ROOT, SANITIZED, Popen, Unmet, children, descendants,
                     have, is_root, wait_for, wait_gone)

BOOT = r"""
set -e
mount -t tmpfs none "$1"
mkdir "$1/up" "$1/wk" "$1/root"
mount -t overlay none -o "lowerdir=/,upperdir=$1/up,workdir=$1/wk" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs none run
mount -t tmpfs none tmp
# Last: a checkout below /tmp is there all the same.
mkdir -p "./$2"
mount --rbind "$2" "./$2"
ln -sf /lib/systemd/system/basic.target etc/systemd/system/default.target
for unit in systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
	systemd-udev-trigger.service systemd-networkd.service systemd-resolved.service \
	systemd-logind.service systemd-modules-load.service systemd-remount-fs.service \
	systemd-random-seed.service systemd-firstboot.service dev-hugepages.mount \
	sys-kernel-debug.mount sys-kernel-tracing.mount kmod-static-nodes.service; do
	ln -sf /dev/null "etc/systemd/system/$unit"
done
: > etc/fstab
mkdir -p old
pivot_root . old
umount -l /old
export container=e2e
echo booting
exec chroot . /lib/systemd/systemd --system </dev/null
"""

pytestmark = [pytest.mark.slow, pytest.mark.seconds(600)]


class Machine:
    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="e2e-systemd-", dir="/tmp"))
        self.where = self.dir / "root"
        self.where.mkdir()
        self.out = self.dir / "out"
        env = {"PATH": os.environ["PATH"]}
        with open(self.out, "wb") as out:
            self.unshare = Popen(
                ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--net",
                 "--cgroup", "sh", "-c", BOOT, "sh", str(self.where), str(ROOT)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True)

    def boot(self):
        """Returns why it cannot be done, or None once systemd has started everything."""
        def begun():
            return self.unshare.poll() is not None or b"booting" in self.out.read_bytes()

        wait_for(begun, self.dir, self.out, what="the namespaces")
        if self.unshare.poll() is not None:
            return f"cannot boot a systemd here: {self.out.read_text().strip()}"
        self.pid = children(self.unshare.pid)[0]
        root = f"/proc/{self.pid}/root/run"
        wait_for(lambda: os.path.exists(f"{root}/systemd/private") or self.unshare.poll() is not None,
                 root, f"{root}/systemd", what="systemd's socket")
        if self.unshare.poll() is not None:
            return f"systemd ended at once: {self.out.read_text().strip()}"
        self.sh("systemctl", "is-system-running", "--wait", check=False)
        return None

    def sh(self, *argv, check=True, timeout=4 * PATIENCE, env=None):
        argv = ["nsenter", "-t", str(self.pid), "-a", *[str(a) for a in argv]]
        clean = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        with Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                   env=dict(clean, **(env or {})), text=True, cwd="/") as p:
            out, err = p.communicate(timeout=timeout)
        assert not check or p.returncode == 0, f"{argv[4:]}: {p.returncode}\n{out}\n{err}\n{self.journal()}"
        return subprocess.CompletedProcess(argv, p.returncode, out, err)

    def journal(self):
        return self.sh("journalctl", "-u", "elasticd", "-n", "40", "--no-pager", check=False).stdout

    def show(self, unit, *names):
        out = self.sh("systemctl", "show", unit, *[f"-p{n}" for n in names]).stdout
        return dict(line.partition("=")[::2] for line in out.splitlines())

    def ctl(self, *args, **kwargs):
        return self.sh("elasticctl", *args, **kwargs)

    def job(self, name):
        parsed = json.loads(self.ctl("status", "--json", name, check=False).stdout)
        if isinstance(parsed, list):
            parsed = parsed[0]
        if "jobs" in parsed:
            parsed = parsed["jobs"][0]
        return parsed.get("job", parsed) if isinstance(parsed.get("job"), dict) else parsed

    def start_job(self, name, *steps, replicas=1):
        self.ctl("start", f"--name={name}", f"--nproc-per-node={replicas}", PUPPET, *steps)
        self.ctl("wait", "--until=running", name)
        return self.job(name)

    def until(self, condition, what):
        """For what only systemd knows: asked again four times a second."""
        for _ in range(PATIENCE * 4):
            value = condition()
            if value:
                return value
            select.select([], [], [], 0.25)
        raise Unmet(what + "\n" + self.journal())

    def close(self):
        below = descendants(self.unshare.pid)
        self.unshare.kill()
        self.unshare.wait()
        for pid in below:
            wait_gone(pid)
        subprocess.run(["rm", "-rf", str(self.dir)], check=False)


@pytest.fixture(scope="module")
def machine():
    if not is_root():
        pytest.skip("booting a systemd in namespaces needs root")
    if not have("systemctl") or not os.path.exists("/lib/systemd/systemd"):
        pytest.skip("no systemd on this machine")
    if SANITIZED:
        pytest.skip("the unit's hardening and sanitizers do not go together")
    m = Machine()
    try:
        reason = m.boot()
        if reason:
            pytest.skip(reason)
        relative = os.path.relpath(BUILD, ROOT)
        # What is there is installed; nothing is built by a test.
        m.sh("make", "-C", ROOT, f"B={relative}", "-o", "programs", "install")
        m.sh("systemd-sysusers")
        m.sh("systemd-tmpfiles", "--create", check=False)
        m.sh("systemctl", "daemon-reload")
        yield m
    finally:
        m.close()


@pytest.fixture
def service(machine):
    """elasticd runs, and no job of an earlier test does."""
    machine.sh("systemctl", "reset-failed", check=False)
    machine.sh("systemctl", "start", "elasticd.service")
    yield machine
    for job in json_list(machine.ctl("list", "--json", check=False).stdout):
        machine.ctl("stop", "--grace=0s", job["name"], check=False)


def json_list(text):
    parsed = json.loads(text or "[]")
    return parsed["jobs"] if isinstance(parsed, dict) else parsed


def test_the_units_are_valid(machine):
    for unit in ("elasticd.service", "elasticd.socket"):
        path = machine.show(unit, "FragmentPath")["FragmentPath"]
        assert path, f"{unit} was not installed"
        check = machine.sh("systemd-analyze", "verify", path, check=False)
        about_us = [line for line in check.stderr.splitlines() if "elasticd" in line]
        assert not about_us, about_us


def test_ready_when_started_with_a_status_line(service):
    shown = service.show("elasticd", "Type", "ActiveState", "SubState", "StatusText", "NotifyAccess")
    assert shown["Type"] == "notify" and shown["SubState"] == "running", shown
    assert service.ctl("ping").returncode == 0, "it was ready before it answered"
    assert shown["StatusText"], "no STATUS="
    service.start_job("counted", "hang")
    service.until(lambda: "1" in service.show("elasticd", "StatusText")["StatusText"],
                  "the status line to count the job")


def test_the_control_socket_is_for_its_group(service):
    st = service.sh("stat", "-c", "%a %U %G", "/run/elasticd/control.sock").stdout.split()
    assert st == ["660", "root", "elasticd"], st
    refused = service.sh("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                         "elasticctl", "list", check=False)
    assert refused.returncode == 5 and "ermission" in refused.stderr, refused
    gid = service.sh("getent", "group", "elasticd").stdout.split(":")[2]
    allowed = service.sh("setpriv", "--reuid=65534", "--regid=65534", f"--groups={gid}",
                         "elasticctl", "list", check=False)
    assert allowed.returncode == 0, allowed


def test_each_job_has_a_scope_of_its_own(service):
    job = service.start_job("scoped", "setsid-fork:hang", "hang", replicas=2)
    unit = f"elasticd-{job['run']}.scope"
    shown = service.show(unit, "ActiveState", "ControlGroup", "Delegate", "Slice")
    assert shown["ActiveState"] == "active" and shown["Delegate"] == "yes", shown
    for task in job["tasks"]:
        where = service.sh("cat", f"/proc/{task['pid']}/cgroup").stdout
        assert shown["ControlGroup"] in where, where
    daemon = service.show("elasticd", "ControlGroup")["ControlGroup"]
    assert not shown["ControlGroup"].startswith(daemon + "/")
    service.ctl("stop", "scoped")
    try:
        service.until(lambda: service.show(unit, "ActiveState")["ActiveState"] == "inactive", "")
    except Unmet:
        pytest.fail("the scope is still there: " + service.sh("systemctl", "status", unit, "--no-pager",
                                                               "--full", check=False).stdout)


def test_jobs_survive_a_restart_of_the_service(service):
    job = service.start_job("survivor", "hang", replicas=2)
    first = service.show("elasticd", "MainPID")["MainPID"]
    service.sh("systemctl", "restart", "elasticd")
    assert service.show("elasticd", "MainPID")["MainPID"] != first
    after = service.job("survivor")
    assert [t["pid"] for t in after["tasks"]] == [t["pid"] for t in job["tasks"]]
    assert (after["state"], after["attempt"]) == ("running", 0)


def test_jobs_survive_a_stop_of_the_service(service):
    job = service.start_job("stays", "hang")
    service.sh("systemctl", "stop", "elasticd.socket", "elasticd.service")
    assert service.sh("kill", "-0", job["tasks"][0]["pid"], check=False).returncode == 0
    service.sh("systemctl", "start", "elasticd")
    assert service.job("stays")["tasks"][0]["pid"] == job["tasks"][0]["pid"]


def test_a_crash_of_the_service_is_mended_by_systemd(service):
    job = service.start_job("crashed", "hang")
    first = service.show("elasticd", "MainPID")["MainPID"]
    service.sh("kill", "-9", first)
    service.until(lambda: service.show("elasticd", "MainPID", "SubState") not in (
        {"MainPID": first, "SubState": "running"},) and
        service.show("elasticd", "SubState")["SubState"] == "running", "a new elasticd")
    service.until(lambda: service.ctl("ping", check=False).returncode == 0, "an answer")
    assert service.job("crashed")["tasks"][0]["pid"] == job["tasks"][0]["pid"]


def test_a_hang_of_the_service_is_found_by_the_watchdog(service):
    usec = service.show("elasticd", "WatchdogUSec")["WatchdogUSec"]
    assert usec not in ("0", "infinity"), "the unit has no watchdog"
    job = service.start_job("watched", "hang")
    dropin = "/etc/systemd/system/elasticd.service.d"
    service.sh("mkdir", "-p", dropin)
    service.sh("sh", "-c", f"printf '[Service]\\nWatchdogSec=2s\\n' > {dropin}/fast.conf")
    try:
        service.sh("systemctl", "daemon-reload")
        service.sh("systemctl", "restart", "elasticd")
        first = service.show("elasticd", "MainPID")["MainPID"]
        select.select([], [], [], 4)
        assert service.show("elasticd", "MainPID")["MainPID"] == first, \
            "the watchdog barked at a service that was well"
        service.sh("kill", "-STOP", first)
        service.until(lambda: service.show("elasticd", "MainPID")["MainPID"] not in (first, "0") and
                      service.show("elasticd", "SubState")["SubState"] == "running", "the watchdog")
        assert service.job("watched")["tasks"][0]["pid"] == job["tasks"][0]["pid"]
    finally:
        service.sh("rm", "-rf", dropin)
        service.sh("systemctl", "daemon-reload")
        service.sh("systemctl", "restart", "elasticd")


def test_the_first_call_starts_the_service(service):
    job = service.start_job("before", "hang")
    service.sh("systemctl", "stop", "elasticd.service")
    service.sh("systemctl", "start", "elasticd.socket")
    assert service.show("elasticd", "ActiveState")["ActiveState"] == "inactive"
    assert "before" in service.ctl("list").stdout
    assert service.show("elasticd", "ActiveState")["ActiveState"] == "active"
    assert service.job("before")["tasks"][0]["pid"] == job["tasks"][0]["pid"]
    assert service.ctl("start", "--name=after", PUPPET).returncode == 0
    assert service.ctl("wait", "after").returncode == 0


def test_the_journal_has_structured_fields(service):
    service.ctl("start", "--name=logged", "--nproc-per-node=2", PUPPET, "if-rank:1:exit:7", "hang")
    assert service.ctl("wait", "logged", check=False).returncode == 7

    def entries():
        out = service.sh("journalctl", "-o", "json", "ELASTICD_JOB=logged", "--no-pager").stdout
        return [json.loads(line) for line in out.splitlines()]

    found = service.until(lambda: [e for e in entries() if e.get("ELASTICD_RANK") == "1"],
                          "a message with ELASTICD_RANK=1")
    assert re.match(r"logged_[a-z0-9]{8}$", found[0]["ELASTICD_RUN"])
    assert any(int(e["PRIORITY"]) <= 6 and "exit code 7" in e["MESSAGE"] for e in found), found
    assert found[0].get("SYSLOG_IDENTIFIER", "").startswith("elastic")


def test_a_job_that_kills_its_agent_is_swept_by_its_scope(service):
    job = service.start_job("lost", "daemon:hang", "setsid-fork:hang", "hang")
    group = service.show(f"elasticd-{job['run']}.scope", "ControlGroup")["ControlGroup"]
    assert group
    service.sh("kill", "-9", job["agent_pid"])
    assert service.ctl("wait", "lost", check=False).returncode == 125
    procs = service.sh("sh", "-c", f"cat /sys/fs/cgroup{group}/cgroup.procs "
                                   f"/sys/fs/cgroup{group}/*/cgroup.procs 2>/dev/null", check=False)
    assert procs.stdout.split() == []
