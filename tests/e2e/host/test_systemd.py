# SPDX-License-Identifier: Apache-2.0
"""Under a real systemd, booted in namespaces of its own over this machine's files: the installed units,
users, readiness, watchdog, socket activation, a scope for each job, the journal."""

import contextlib
import itertools
import json
import re

import pytest

from harness import PUPPET, Unmet
from machine import machine_or_skip

pytestmark = [pytest.mark.slow, pytest.mark.seconds(600)]


@pytest.fixture(scope="module")
def machine():
    m = machine_or_skip()
    yield m
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


def test_the_presets_enable_the_system_s_service_and_not_the_user_s(machine):
    machine.sh("systemctl", "preset", "elasticd.service", "elasticd.socket")
    enabled = machine.sh("systemctl", "is-enabled", "elasticd.service", "elasticd.socket").stdout.split()
    assert enabled == ["enabled", "enabled"]
    machine.sh("systemctl", "--global", "preset", "elasticd.socket")
    enabled = machine.sh("systemctl", "--global", "is-enabled", "elasticd.socket", check=False).stdout
    assert enabled == "disabled\n"


def test_a_reload_with_errors_fails(service):
    dropin = f"{service.configuration()}.d"
    service.sh("mkdir", "-p", dropin)
    try:
        service.sh("sh", "-c", f"printf '[limits]\\njobs = 0\\n' > {dropin}/wrong.conf")
        assert service.sh("systemctl", "reload", "elasticd", check=False).returncode != 0
        service.until(lambda: f"{dropin}/wrong.conf:2: [limits] jobs: expected" in service.journal(),
                      "the error in the journal")
    finally:
        service.sh("rm", "-r", dropin)
    service.sh("systemctl", "reload", "elasticd")
    service.until(lambda: "configuration reloaded" in service.journal(), "the reload")


def test_ready_when_started_with_a_status_line(service):
    shown = service.show("elasticd", "Type", "ActiveState", "SubState", "StatusText", "NotifyAccess")
    assert shown["Type"] == "notify" and shown["SubState"] == "running", shown
    assert service.ctl("ping").returncode == 0, "it was ready before it answered"
    assert shown["StatusText"], "no STATUS="
    service.start_job("counted", "hang")
    service.until(lambda: "1" in service.show("elasticd", "StatusText")["StatusText"],
                  "the status line to count the job")


@pytest.mark.parametrize("group", ["elasticd", "elasticd-admin"])
def test_members_of_either_group_alone_are_served(service, group):
    st = service.sh("stat", "-c", "%a %U %G", "/run/elasticd/control.sock").stdout.split()
    assert st == ["666", "root", "root"], st
    user = "only-" + group
    try:
        for name, more in (("stranger", []), (user, ["-G", group])):
            service.sh("useradd", "--no-create-home", "--shell", "/bin/sh", *more, name)
        refused = service.sh("runuser", "-u", "stranger", "--", "elasticctl", "list", check=False)
        assert refused.returncode == 1 and "may not use this elasticd" in refused.stderr, refused
        allowed = service.sh("runuser", "-u", user, "--", "elasticctl", "list", check=False)
        assert allowed.returncode == 0, allowed
    finally:
        for name in ("stranger", user):
            service.sh("userdel", name, check=False)


def test_two_users_do_not_meet(service):
    users = {"alice": 3001, "bob": 3002}  # elasticd remembers for seconds what those of other tests may do

    def ctl(user, *args, check=True):
        return service.sh("runuser", "-u", user, "--", "elasticctl", *args, check=check)

    try:
        for user, uid in users.items():
            service.sh("useradd", "--create-home", "--shell", "/bin/sh", "-u", uid, "-G", "elasticd", user)
            ctl(user, "start", f"--name=of-{user}", "--redirects=3", "--no-python", "sh", "-c",
                "echo mine; exec sleep 1000")
            ctl(user, "wait", "--until=running", f"of-{user}")
        jobs = {user: service.job(f"of-{user}") for user in users}
        for user, other in itertools.permutations(users):
            listed = json_list(ctl(user, "list", "--all", "--json").stdout)
            assert [j["name"] for j in listed] == [f"of-{user}"]
            for verb in (["status"], ["logs"], ["errors"], ["stop"], ["restart"], ["rm"]):
                refused = ctl(user, *verb, f"of-{other}", check=False)
                assert refused.returncode not in (0, 3) and "mine" not in refused.stdout, (verb, refused)
            pid, log_dir = jobs[other]["workers"][0]["pid"], jobs[other]["log_dir"]
            for try_to in (["kill", pid], ["ls", log_dir], ["cat", f"{log_dir}/attempt_0/0/stdout.log"]):
                assert service.sh("runuser", "-u", user, "--", *try_to, check=False).returncode, try_to
            assert service.sh("stat", "-c", "%U", f"/proc/{pid}").stdout.strip() == other
        for user in users:
            assert service.running(f"of-{user}")["workers"] == jobs[user]["workers"]
            ctl(user, "stop", f"of-{user}")
    finally:
        for user in users:
            service.ctl("stop", f"of-{user}", check=False)
            service.sh("userdel", "--remove", user, check=False)


@contextlib.contextmanager
def little_memory(machine):
    """What a job's document needs, so that its workers and their agent have 64 MiB."""
    if len(machine.sh("cat", "/proc/swaps").stdout.splitlines()) > 1:
        pytest.skip("this host writes memory to its swap before it is out of any")
    if "memory" in machine.sh("cat", "/sys/fs/cgroup/cgroup.controllers").stdout.split():
        yield {"resources": {"memory_max": "64M"}}
        return
    # The kernel's controller is one of version 1, which systemd leaves alone: all that elasticd starts.
    where = "/run/memory"
    machine.sh("mkdir", where)
    if machine.sh("mount", "-t", "cgroup", "-o", "memory", "none", where, check=False).returncode:
        pytest.skip("this kernel has no memory controller")
    try:
        machine.sh("mkdir", f"{where}/little")
        pid = machine.show("elasticd", "MainPID")["MainPID"]
        for value, file in (("64M", "memory.limit_in_bytes"), (pid, "cgroup.procs")):
            machine.sh("sh", "-c", f"echo {value} > {where}/little/{file}")
        yield {}
    finally:
        machine.sh("systemctl", "restart", "elasticd.service")
        machine.until(lambda: not machine.sh("rmdir", f"{where}/little", check=False).returncode, "its end")
        machine.sh("umount", where)


def test_a_worker_that_the_kernel_kills_for_memory_is_named(service):
    with little_memory(service) as more:
        first = service.show("elasticd", "MainPID")
        document = {"name": "greedy", "roles": [{"command": [PUPPET, "alloc:256", "hang"]}], **more}
        service.sh("sh", "-c", 'printf %s "$0" > /tmp/greedy.json', json.dumps(document))
        service.ctl("start", "--spec=/tmp/greedy.json", check=False)
        assert service.ctl("wait", "greedy", check=False).returncode == 137
        errors = service.ctl("errors", "greedy", check=False).stdout
        limit = "limit memory_max 64M" if more else "limit 64M of control group little"
        assert f"killed by the kernel: out of memory ({limit})" in errors, errors
        assert service.show("elasticd", "MainPID") == first


def test_each_job_has_a_scope_of_its_own(service):
    document = {"name": "scoped", "resources": {"memory_max": "4G", "cpu_weight": 50},
                "roles": [{"command": [PUPPET, "setsid-fork:hang", "hang"], "replicas": 2}]}
    service.sh("sh", "-c", 'printf %s "$0" > /tmp/scoped.json', json.dumps(document))
    service.ctl("start", "--spec=/tmp/scoped.json")
    job = service.running("scoped")
    unit = f"elasticd-{job['run']}.scope"
    shown = service.show(unit, "ActiveState", "ControlGroup", "Delegate", "Slice", "OOMPolicy", "Description",
                         "MemoryMax", "CPUWeight", "TasksMax")
    assert shown.pop("OOMPolicy", "continue") == "continue"  # scopes have none before systemd 253
    assert shown == {"ActiveState": "active", "ControlGroup": f"/elasticd.slice/{unit}", "Delegate": "yes",
                     "Slice": "elasticd.slice", "MemoryMax": str(4 << 30), "CPUWeight": "50",
                     "TasksMax": "infinity",
                     "Description": f"Training job scoped of root (run {job['run']})"}
    tree = service.sh("systemctl", "status", "--no-pager", "--lines=0", "elasticd.slice").stdout
    assert "Training jobs of elasticd" in tree and f"{PUPPET} setsid-fork:hang hang" in tree, tree
    for task in job["workers"]:
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
    after = service.running("survivor")
    assert [t["pid"] for t in after["workers"]] == [t["pid"] for t in job["workers"]]
    assert (after["state"], after["attempt"]) == ("running", 0)


def test_jobs_survive_a_stop_of_the_service(service):
    job = service.start_job("stays", "hang")
    service.sh("systemctl", "stop", "elasticd.socket", "elasticd.service")
    assert service.sh("kill", "-0", job["workers"][0]["pid"], check=False).returncode == 0
    service.sh("systemctl", "start", "elasticd")
    assert service.running("stays")["workers"][0]["pid"] == job["workers"][0]["pid"]


def test_a_crash_of_the_service_is_mended_by_systemd(service):
    job = service.start_job("crashed", "hang")
    first = service.show("elasticd", "MainPID")["MainPID"]
    service.sh("kill", "-9", first)
    service.until(lambda: service.show("elasticd", "MainPID", "SubState") not in (
        {"MainPID": first, "SubState": "running"},) and
        service.show("elasticd", "SubState")["SubState"] == "running", "a new elasticd")
    service.until(lambda: service.ctl("ping", check=False).returncode == 0, "an answer")
    assert service.running("crashed")["workers"][0]["pid"] == job["workers"][0]["pid"]


def test_a_hang_of_the_service_is_found_by_the_watchdog(service):
    usec = service.show("elasticd", "WatchdogUSec")["WatchdogUSec"]
    assert usec not in ("0", "infinity"), "the unit has no watchdog"
    job = service.start_job("watched", "hang")
    dropin = "/etc/systemd/system/elasticd.service.d"
    service.sh("mkdir", "-p", dropin)
    service.sh("sh", "-c", f"printf '[Service]\\nWatchdogSec=10s\\n' > {dropin}/fast.conf")
    try:
        service.sh("systemctl", "daemon-reload")
        service.sh("systemctl", "restart", "elasticd")
        first = service.show("elasticd", "MainPID")["MainPID"]
        stroked = set()
        service.until(lambda: stroked.add(service.show("elasticd", "WatchdogTimestampMonotonic")
                                          ["WatchdogTimestampMonotonic"]) or len(stroked) == 4,
                      "the watchdog to be stroked again and again")
        assert service.show("elasticd", "MainPID")["MainPID"] == first, \
            "the watchdog barked at a service that was well"
        service.sh("kill", "-STOP", first)
        service.until(lambda: service.show("elasticd", "MainPID")["MainPID"] not in (first, "0") and
                      service.show("elasticd", "SubState")["SubState"] == "running", "the watchdog")
        assert service.running("watched")["workers"][0]["pid"] == job["workers"][0]["pid"]
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
    service.until(lambda: service.show("elasticd", "ActiveState")["ActiveState"] == "active",
                  "systemd to hear that it is ready")
    assert service.running("before")["workers"][0]["pid"] == job["workers"][0]["pid"]
    assert service.ctl("start", "--name=after", PUPPET).returncode == 0
    assert service.ctl("wait", "after").returncode == 0


def test_the_journal_has_structured_fields(service):
    # The job may fail before start has answered, which then says so.
    service.ctl("start", "--name=logged", "--nproc-per-node=2", PUPPET, "if-rank:1:exit:7", "hang",
                check=False)
    assert service.ctl("wait", "logged", check=False).returncode == 7

    def entries():
        out = service.sh("journalctl", "-o", "json", "ELASTICD_JOB=logged", "--no-pager").stdout
        return [json.loads(line) for line in out.splitlines()]

    found = service.until(lambda: [e for e in entries() if e.get("ELASTICD_RANK") == "1"
                                   and int(e["PRIORITY"]) <= 6 and "exit code 7" in e["MESSAGE"]],
                          "a message with ELASTICD_RANK=1 and the exit code")
    assert re.match(r"logged_[a-z0-9]{8}$", found[0]["ELASTICD_RUN"])
    assert found[0].get("SYSLOG_IDENTIFIER", "").startswith("elastic")
    ended = service.until(lambda: [e for e in entries() if e.get("ELASTICD_EVENT") == "ended"], "its end")
    assert ended[0]["ELASTICD_RESULT"] == "failed"
    service.sh("journalctl", "--update-catalog")
    explained = service.sh("journalctl", "-x", "--no-pager", f"MESSAGE_ID={ended[0]['MESSAGE_ID']}").stdout
    assert "Subject: Job logged has failed" in explained and '"elasticctl errors logged"' in explained


def test_a_job_that_kills_its_agent_is_swept_by_its_scope(service):
    job = service.start_job("lost", "daemon:hang", "setsid-fork:hang", "hang")
    group = service.show(f"elasticd-{job['run']}.scope", "ControlGroup")["ControlGroup"]
    assert group
    service.sh("kill", "-9", job["agent_pid"])
    assert service.ctl("wait", "lost", check=False).returncode == 125
    # The agent that has told the verdict, and its guard, are still about to end.
    lists = f"/sys/fs/cgroup{group}/cgroup.procs /sys/fs/cgroup{group}/*/cgroup.procs"
    service.until(lambda: not service.sh("sh", "-c", f"cat {lists} 2>/dev/null", check=False).stdout.split(),
                  "the scope to be empty")


def test_a_user_runs_elasticd_by_a_service_manager_of_their_own(machine):
    machine.sh("useradd", "--create-home", "--shell", "/bin/sh", "owner")
    uid = machine.sh("id", "-u", "owner").stdout.strip()
    # Without logind, which does it otherwise.
    dropin = "/run/systemd/system/user@.service.d"
    machine.sh("mkdir", "-p", dropin)
    environment = "[Service]\\nEnvironment=XDG_RUNTIME_DIR=/run/user/%%i\\n"
    machine.sh("sh", "-c", f"printf '{environment}' > {dropin}/dir.conf")
    machine.sh("systemctl", "daemon-reload")
    machine.sh("systemctl", "start", f"user@{uid}")

    def owner(*argv):
        return machine.sh("runuser", "-u", "owner", "--", "env", f"XDG_RUNTIME_DIR=/run/user/{uid}",
                          f"DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/{uid}/bus", *argv).stdout

    try:
        owner("systemctl", "--user", "start", "elasticd.socket")
        owner("elasticctl", "start", "--name=own", "--no-python", "sleep", "1000")
        shown = machine.until(lambda: [text for text in [owner(
            "systemctl", "--user", "show", "elasticd", "-pActiveState", "-pType", "-pStatusText")]
            if "1 running" in text], "the status line to count the job")[0]
        assert "ActiveState=active" in shown and "Type=notify" in shown, shown
        job = json_list(owner("elasticctl", "list", "--json"))[0]
        scope = owner("systemctl", "--user", "show", f"elasticd-{job['run']}.scope", "-pActiveState",
                      "-pDescription", "-pSlice")
        assert "ActiveState=active" in scope and "Slice=elasticd.slice" in scope, scope
        assert "Training job own of owner" in scope
        owner("systemctl", "--user", "restart", "elasticd")
        assert "running" in owner("elasticctl", "status", "own")
        owner("systemctl", "--user", "reload", "elasticd")
        owner("elasticctl", "stop", "own")
    finally:
        machine.sh("systemctl", "stop", f"user@{uid}", check=False)
        machine.sh("userdel", "--remove", "owner", check=False)
