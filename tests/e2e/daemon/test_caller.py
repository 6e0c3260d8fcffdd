# SPDX-License-Identifier: Apache-2.0
"""Who asked is named: the caller of elasticd, not elasticd, and nobody that a caller makes up."""

import json

import pytest

from harness import CTL, IFACE, Varlink, as_user, is_root, other_user, spec

pytestmark = pytest.mark.skipif(not is_root(), reason="needs root")


def start_as_guest(box, guest):
    r = box.sh(*as_user(guest.user, CTL, "start", "--name=j", "--", "sleep", "1000"), cwd="/")
    assert r.rc == 0, r
    guest.wait("j", until="running")


def name_of(user):
    return f"{user.pw_name} ({user.pw_uid})"


def test_a_stopped_job_says_whose_request_it_was(box, guest):
    start_as_guest(box, guest)
    r = box.sh(*as_user(guest.user, CTL, "stop", "j"), cwd="/")
    assert r.rc == 0, r
    job = guest.wait("j")
    assert f"stopped on request of user {name_of(guest.user)}" in job["verdict"]["message"]


def test_an_administrator_is_named_as_well(box, guest):
    start_as_guest(box, guest)
    assert box.ctl("stop", "j").rc == 0
    assert "stopped on request of user root (0)" in guest.wait("j")["verdict"]["message"]


def test_a_caller_cannot_make_another_one_up(box, guest):
    start_as_guest(box, guest)
    call = {"method": IFACE + "Stop", "parameters": {"job": "j", "caller": "root (0)"}}
    code = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
            "s.sendall(sys.argv[2].encode() + bytes(1)); print(s.recv(65536))")
    r = box.sh(*as_user(guest.user, "/usr/bin/python3", "-c", code, str(guest.socket), json.dumps(call)),
               cwd="/")
    assert r.out.startswith("b'{\"parameters\":{}"), r
    message = guest.wait("j")["verdict"]["message"]
    assert name_of(guest.user) in message and "root" not in message


def test_a_shutdown_that_stops_all_jobs_names_who_asked(box):
    box.open_to_all()
    daemon = box.new_daemon(config="[elasticd]\nadmin_group = nogroup\n")
    daemon.base.chmod(0o755)
    daemon.start()
    daemon.submit(spec("hang", name="j"))
    daemon.wait("j", until="running")
    admin = other_user()
    r = box.sh(*as_user(admin, CTL, "shutdown", "--stop-jobs"), cwd="/")
    assert r.rc == 0, r
    daemon.program.wait()
    daemon.drop()
    daemon.start()
    message = daemon.wait("j")["verdict"]["message"]
    assert f"stopped on request of user {name_of(admin)}" in message


def test_the_agent_itself_names_its_peer(box, daemon):
    daemon.submit(spec("hang", name="j"))
    daemon.wait("j", until="running")
    with Varlink(daemon.agent_sock("j")) as v:
        v.call("Stop", job="j")
    assert "stopped on request of user root (0)" in daemon.wait("j")["verdict"]["message"]


def test_a_restart_that_was_asked_for_names_who_asked(box, guest):
    start_as_guest(box, guest)
    r = box.sh(*as_user(guest.user, CTL, "restart", "j"), cwd="/")
    assert r.rc == 0, r
    guest.until_attempt("j", 1)
    assert f"restarted on request of user {name_of(guest.user)}" in json.dumps(guest.events("j"))


def test_another_size_that_was_asked_for_names_who_asked(box, guest):
    start_as_guest(box, guest)
    r = box.sh(*as_user(guest.user, CTL, "scale", "j", "2"), cwd="/")
    assert r.rc == 0, r
    guest.until_attempt("j", 1)
    said = [e["text"] for e in guest.events("j") if e["event"] == "restart"]
    asked = f"default is scaled from 1 to 2 on request of user {name_of(guest.user)}"
    assert len(said) == 1 and said[0].startswith(asked), said


def test_a_signal_that_was_asked_for_names_who_asked(box, guest):
    start_as_guest(box, guest)
    r = box.sh(*as_user(guest.user, CTL, "kill", "--signal=CONT", "j"), cwd="/")
    assert r.rc == 0, r
    said = [e["text"] for e in guest.events("j") if e["event"] == "signalled"]
    assert said == [f"SIGCONT sent to 1 worker (all) on request of user {name_of(guest.user)}"]
