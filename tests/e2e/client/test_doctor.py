# SPDX-License-Identifier: Apache-2.0
"""elasticctl doctor on one host: it finds what is wrong with it, with names and with etcd, and says what to
change. It changes nothing."""

import json
import os
import re
import signal

import pytest

from doctors import Found, doctor
from harness import CTL
from local_etcd import LocalEtcd
from several_hosts import free_port

LINE = re.compile(r"(ok |warning |problem ) *([a-z-]+)( \S+)?: .+")
TWO = ["--nnodes=2", "--timeout=0"]


def test_one_host_gets_all_its_checks(box):
    found = doctor(box)
    names = [c["check"] for c in found.checks]
    assert {"elasticd", "agent", "open-files", "processes", "cgroup", "state-directory", "log-directory",
            "shared-memory", "clock", "host-name"} <= set(names)
    assert not {"endpoint", "address", "meeting", "etcd"} & set(names)
    found.expect("elasticd", "ok", "does not run on")


def test_each_check_is_one_line_and_quiet_leaves_out_what_is_well(box):
    lines = box.ctl("doctor").out.splitlines()
    assert lines and all(LINE.fullmatch(line) for line in lines), lines
    quiet = box.ctl("doctor", "-q").out.splitlines()
    assert quiet == [line for line in lines if not line.startswith("ok")]


def test_doctor_makes_no_directories(box):
    before = sorted(box.dir.rglob("*"))
    doctor(box, f"--log-dir={box.path('made/logs')}")
    after = [p for p in sorted(box.dir.rglob("*")) if p.parent.name != "out"]
    assert after == [p for p in before if p.parent.name != "out"]


def test_the_elasticd_that_runs_is_named(box, daemon):
    found = doctor(box)
    found.expect("elasticd", "ok", "version", str(daemon.socket))


def test_an_elasticd_that_hangs_is_reported_after_seconds(box, daemon):
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        doctor(box).expect("elasticd", "problem", "does not answer")
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


def test_few_open_files_are_a_problem(box):
    found = Found(box.sh("sh", "-c", "ulimit -n 100; exec \"$@\"", "sh", CTL, "doctor", "--json"))
    found.expect("open-files", "problem", "at most 100", "LimitNOFILE")


def test_a_missing_agent_is_a_problem(box):
    found = doctor(box, env={"ELASTIC_AGENT": str(box.path("nowhere/elastic-agent"))})
    found.expect("agent", "problem", "nowhere/elastic-agent", "ELASTIC_AGENT")


def test_a_log_directory_below_a_file_is_a_problem(box):
    box.path("file").write_text("")
    logs = str(box.path("file/logs"))
    found = doctor(box, f"--log-dir={logs}")
    found.expect("log-directory", "problem", "Not a directory", "--log-dir", about=logs)


def test_a_full_disk_is_a_problem(box):
    box.mount_small(box.path("small"), "1M", "0777")
    logs = str(box.path("small/logs"))
    doctor(box, f"--log-dir={logs}").expect("log-directory", "problem", "free", "make room", about=logs)


def test_secrets_that_cannot_be_read_are_a_problem(box):
    job = box.path("job.json")
    token = str(box.path("token"))
    job.write_text(json.dumps({"roles": [{"command": ["x"]}], "rendezvous": {
        "nodes": 2, "endpoints": "127.0.0.1", "token_file": token}}))
    found = doctor(box, f"--spec={job}", "--timeout=0")
    found.expect("secret", "problem", "No such file", about=token)


# --- names -----------------------------------------------------------------------------------------


def test_an_endpoint_needs_a_number_of_hosts(box):
    result = box.ctl("doctor", "--rdzv-endpoint=127.0.0.1")
    assert result.rc == 2 and "--nnodes: expected how many hosts" in result.err, result


def test_a_name_without_an_address_is_a_problem(box):
    found = doctor(box, *TWO, "--rdzv-endpoint=node0.invalid")
    found.expect("endpoint", "problem", "/etc/hosts", about="node0.invalid:29400")


def test_an_endpoint_on_loopback_is_a_warning(box):
    found = doctor(box, *TWO, "--rdzv-endpoint=127.0.0.1:29411")
    found.expect("endpoint", "warning", "no other host", about="127.0.0.1:29411")
    found.expect("address", "ok", "127.0.0.1")


def test_the_host_of_node_rank_0_has_the_masters_address(box):
    found = doctor(box, *TWO, "--node-rank=0", "--master-addr=192.0.2.7")
    assert [c for c in found.checks if c["check"] == "endpoint" and c["state"] == "problem"
            and "node rank 0" in c["found"]], found.checks


def test_an_address_that_is_not_here_is_a_problem(box):
    found = doctor(box, *TWO, "--rdzv-endpoint=127.0.0.1", "--local-addr=240.1.2.0/24")
    found.expect("address", "problem", "240.1.2.0/24", "127.0.0.1 (lo)")


def test_doctor_takes_the_command_line_of_run(box):
    """A command line of run, with its program, is taken as it is."""
    found = doctor(box, *TWO, "--nproc-per-node=2", "--rdzv-endpoint=127.0.0.1", "train.py", "--lr=1")
    found.expect("endpoint", "warning")


# --- etcd ------------------------------------------------------------------------------------------


def through_etcd(*endpoints):
    return ["--nnodes=1:2", "--timeout=0", "--rdzv-backend=etcd", "--rdzv-id=exp",
            f"--rdzv-endpoint={','.join(endpoints)}"]


def with_user(box, etcd, password):
    secret, job = box.path("password"), box.path("job.json")
    secret.write_text(password)
    job.write_text(json.dumps({"roles": [{"command": ["x"]}], "rendezvous": {
        "nodes": "1:2", "backend": "etcd", "id": "exp", "endpoints": etcd.address, "user": "u",
        "password_file": str(secret)}}))
    return [f"--spec={job}", "--timeout=0"]


def test_a_healthy_etcd_is_ok(box):
    etcd = LocalEtcd(box)
    found = doctor(box, *through_etcd(etcd.address))
    found.expect("etcd", "ok", "version 3.", "led by member", about=etcd.address)
    found.expect("etcd-rights", "ok", about="/elasticd/exp/")
    assert re.search(r"writes take [\d.]+ ms", found.of("etcd-latency")["found"])
    found.expect("address", "ok", "127.0.0.1")
    assert etcd.keys() == []
    assert etcd.post("/v3/lease/leases").get("leases", []) == []


def test_keys_of_a_group_are_reported_and_kept(box):
    etcd = LocalEtcd(box)
    etcd.put("/elasticd/exp/lead", "somebody")
    doctor(box, *through_etcd(etcd.address)).expect("etcd-rights", "ok", "a group of this name")
    assert etcd.keys() == ["/elasticd/exp/lead"]


def test_one_endpoint_of_two_that_is_away_is_a_warning(box):
    etcd, away = LocalEtcd(box), f"127.0.0.1:{free_port()}"
    found = doctor(box, *through_etcd(away, etcd.address))
    found.expect("etcd", "warning", about=away)
    found.expect("etcd", "ok", about=etcd.address)
    found.expect("etcd-rights", "ok")


def test_no_etcd_at_all_is_a_problem(box):
    away = f"127.0.0.1:{free_port()}"
    found = doctor(box, *through_etcd(away))
    found.expect("etcd", "problem", about=away)
    assert "etcd-rights" not in [c["check"] for c in found.checks]


def test_members_of_two_clusters_are_a_problem(box):
    one = LocalEtcd(box)
    other = LocalEtcd(box, "--initial-cluster-token=other", name="other")
    found = doctor(box, *through_etcd(one.address, other.address))
    found.expect("etcd", "problem", "another cluster", about=other.address)


def test_an_etcd_that_is_full_is_a_problem(box):
    etcd = LocalEtcd(box)
    etcd.alarm()
    found = doctor(box, *through_etcd(etcd.address))
    found.expect("etcd", "problem", "NOSPACE", "etcdctl defrag", about=etcd.address)
    found.expect("etcd-rights", "problem")


def test_an_etcd_without_its_gateway_is_a_problem(box):
    etcd = LocalEtcd(box, "--enable-grpc-gateway=false")
    doctor(box, *through_etcd(etcd.address)).expect("etcd", "problem", "--enable-grpc-gateway")


def test_an_etcd_that_hangs_is_a_problem_and_holds_up_for_a_request_only(box):
    etcd = LocalEtcd(box)
    etcd.pause()
    doctor(box, *through_etcd(etcd.address)).expect("etcd", "problem", about=etcd.address)


@pytest.mark.parametrize("prefix, password, state", [
    ("/elasticd/", "pw", "ok"), ("/elsewhere/", "pw", "problem"), ("/elasticd/", "wrong", "problem")])
def test_the_users_rights_are_tried(box, prefix, password, state):
    etcd = LocalEtcd(box)
    etcd.demand_users("u", "pw", prefix)
    found = doctor(box, *with_user(box, etcd, password))
    found.expect("etcd-password", "warning", "unencrypted", about="u")
    if password == "pw":
        found.expect("etcd-rights", state, about="/elasticd/exp/")
    else:
        assert found.result.rc == 1, found.checks
    assert etcd.keys() == []
