# SPDX-License-Identifier: Apache-2.0
"""The varlink side of elasticd: introspection, order, streams, cancellation, limits, rubbish, rights."""

import grp
import json
import os
import random
import resource
import socket
import struct
import sys
import time

import pytest

from harness import (CTL, IFACE, PUPPET, ROOT, SANITIZED, SLOWER, Varlink, VarlinkError, as_user,
                     descriptors, is_root, other_user, spec, stat_of, wait_file, wait_for)

SERVICE = "org.varlink.service."


# --- introspection ---------------------------------------------------------------------------------------


def test_the_service_describes_itself(daemon):
    info = daemon.call(SERVICE + "GetInfo")
    assert set(info["interfaces"]) == {"org.varlink.service", "io.elasticd.Manager", "io.elasticd.Queue"}
    assert all(info[k] for k in ("vendor", "product", "version", "url"))
    for name in ("io.elasticd.Manager", "io.elasticd.Queue"):
        text = daemon.call(SERVICE + "GetInterfaceDescription", interface=name)
        assert text["description"] == (ROOT / f"common/varlink/{name}.varlink").read_text()
    text = daemon.call(SERVICE + "GetInterfaceDescription", interface="org.varlink.service")
    assert "method GetInfo" in text["description"]
    with pytest.raises(VarlinkError) as e:
        daemon.call(SERVICE + "GetInterfaceDescription", interface="no.such.thing")
    assert e.value.error == SERVICE + "InterfaceNotFound"


def test_every_method_of_the_interface_is_there(daemon):
    """A method without a handler would answer MethodNotImplemented or MethodNotFound."""
    text = (ROOT / "common/varlink/io.elasticd.Manager.varlink").read_text()
    methods = [line.split()[1].split("(")[0] for line in text.splitlines() if line.startswith("method ")]
    assert len(methods) >= 18
    for method in methods:
        if method in ("Ping", "Version", "Shutdown", "List"):
            continue
        with pytest.raises(VarlinkError) as e:
            with daemon.connect() as v:
                v.call(method, job="nobody", signal="TERM", replicas=1, spec={})
        assert not e.value.error.startswith(SERVICE + "Method"), e.value


def test_ping_and_version(box, daemon):
    assert daemon.call("Ping") == {}
    version = daemon.call("Version")
    assert version["pid"] == daemon.pid and version["jobs"] == 0 and version["version"]
    assert version["socket"] == str(daemon.socket)
    assert box.ctl("ping").rc == 0
    assert box.ctl("ping", "--timeout=1h").rc == 0
    result = box.ctl("version")
    assert result.rc == 0 and version["version"] in result.out


def test_a_ping_with_time_waits_for_an_elasticd_that_is_being_started(box):
    daemon = box.new_daemon()
    ping = box.ctl_start("ping", "--timeout=1h")
    wait_for(lambda: ping.popen.poll() is not None or stat_of(ping.pid)[0] == "S", what="a ping that waits")
    daemon.start()
    assert ping.wait().rc == 0


# --- calls -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message,error", [
    ({"method": "io.elasticd.Manager.NoSuch"}, SERVICE + "MethodNotFound"),
    ({"method": "no.such.interface.Method"}, SERVICE + "InterfaceNotFound"),
    ({"method": "io.elasticd.Manager.Status"}, SERVICE + "InvalidParameter"),
    ({"method": "io.elasticd.Manager.Status", "parameters": {"job": 3}}, SERVICE + "InvalidParameter"),
    ({"method": "io.elasticd.Manager.Status", "parameters": {"job": None}}, SERVICE + "InvalidParameter"),
    ({"method": "io.elasticd.Manager.Status", "parameters": {"job": "x", "more_": 1}},
     SERVICE + "InvalidParameter"),
    ({"method": "io.elasticd.Manager.Wait", "parameters": {"job": "x", "until": "later"}},
     SERVICE + "InvalidParameter"),
    ({"method": "io.elasticd.Manager.Status", "parameters": {"job": "x", "live": "yes"}},
     SERVICE + "InvalidParameter"),
])
def test_a_call_is_checked_against_the_interface(daemon, message, error):
    with daemon.connect() as v:
        v.send_raw(json.dumps(message).encode() + b"\0")
        answer = v.receive()
        assert answer["error"] == error, answer
        assert v.call("Ping") == {}, "the connection goes on after a wrong call"


@pytest.mark.parametrize("method,parameter,values", [
    ("Wait", "timeout_ms", (-1, 10**18)), ("Stop", "timeout_ms", (-1, 2**63 - 1)),
    ("Scale", "replicas", (-1, 0, 4097, 10**9, 2**62)), ("Errors", "attempt", (-1, 2**32)),
    ("Logs", "attempt", (-1, 2**32)), ("Logs", "lines", (-1,)), ("Logs", "since_us", (-1,)),
    ("Logs", "until_us", (-1,)), ("Events", "since", (-1,)), ("Watch", "since", (-(2**63),))])
def test_an_integer_out_of_its_range_is_refused_by_daemon_and_agent(daemon, method, parameter, values):
    name, _ = daemon.submit(spec("hang"))
    for value in values:
        for sock in (daemon.socket, daemon.runtime / "jobs" / name / "agent.sock"):
            with Varlink(sock) as v:
                v.send(method, more=method in ("Logs", "Watch"), job=name, **{parameter: value})
                assert v.receive() == {"error": SERVICE + "InvalidParameter",
                                       "parameters": {"parameter": parameter}}, (sock, value)
    assert daemon.wait(name, until="running")["state"] == "running"


RUBBISH = [b"hello\0", b"{\0", b"\0", b"[]\0", b"{}\0", b"3\0", b'{"method": 3}\0', b'{"method": ""}\0',
           b'{"method": "io.elasticd.Manager.Ping", "more": "yes"}\0', b"\xff\xfe\x00",
           b'{"method":"io.elasticd.Manager.Ping","parameters":[]}\0', b"GET / HTTP/1.1\r\n\r\n\0",
           b"[" * 10000 + b"\0", b'{"a":' * 10000 + b"\0"]


@pytest.mark.parametrize("data", RUBBISH, ids=range(len(RUBBISH)))
def test_rubbish_gets_an_error_or_the_end_and_hurts_nobody(daemon, data):
    with daemon.connect() as other, daemon.connect() as v:
        v.send_raw(data)
        answer = v.receive_raw()
        assert answer is None or "error" in json.loads(answer), answer
        assert other.call("Ping") == {}


def test_random_bytes(daemon):
    rng = random.Random(20)
    for _ in range(60):
        with daemon.connect() as v:
            try:
                v.send_raw(rng.randbytes(rng.randrange(1, 3000)) + b"\0")
                v.receive_raw()
            except OSError:
                pass
    assert daemon.call("Ping") == {}


def test_messages_come_in_any_pieces(daemon):
    data = json.dumps({"method": IFACE + "Ping"}).encode() + b"\0"
    with daemon.connect() as v:
        for byte in data:
            v.send_raw(bytes([byte]))
        assert v.reply() == {}
        v.send_raw(data + data + data[:5])
        assert v.reply() == {} and v.reply() == {}
        v.send_raw(data[5:])
        assert v.reply() == {}


def test_pipelined_calls_are_answered_in_order(daemon):
    names = [daemon.submit(spec("hang", name=f"j{i}"))[0] for i in range(5)]
    with daemon.connect() as v:
        order = [random.Random(1).choice(names) for _ in range(500)]
        for name in order:
            v.send("Status", job=name)
        assert [v.reply()["job"]["name"] for _ in order] == order


def test_an_answer_that_takes_long_keeps_its_place(box, daemon):
    name, _ = daemon.submit(spec(f"wait-file:{box.path('go')}"))
    with daemon.connect() as v:
        v.send("Wait", job=name)
        v.send("Ping")
        v.send("Status", job=name)
        daemon.call("Ping")
        box.path("go").touch()
        assert v.reply()["job"]["state"] == "succeeded"
        assert v.reply() == {}
        assert v.reply()["job"]["name"] == name


def test_one_way_calls_get_no_answer(daemon):
    name, _ = daemon.submit(spec("hang"))
    with daemon.connect() as v:
        v.send("Stop", oneway=True, job=name)
        v.send("NoSuchMethod", oneway=True)
        v.send("Version")
        assert "version" in v.reply()
    assert daemon.wait(name)["state"] == "stopped"


def test_a_stream_without_more_is_refused_or_answered_once(daemon):
    name, _ = daemon.submit(spec("hang"))
    with daemon.connect() as v:
        for method, kwargs in (("Watch", {}), ("Events", {"follow": True}), ("Logs", {"follow": True})):
            v.send(method, job=name, **kwargs)
            answer = v.receive()
            assert "continues" not in answer or not answer["continues"]
            if answer.get("error"):
                assert answer["error"] == SERVICE + "ExpectedMore", answer
        assert v.call("Ping") == {}


def test_a_half_closed_connection_still_gets_its_answers(box, daemon):
    name, _ = daemon.submit(spec(f"wait-file:{box.path('go')}"))
    with daemon.connect() as v:
        v.send("Ping")
        v.send("Wait", job=name)
        v.sock.shutdown(socket.SHUT_WR)
        assert v.reply() == {}
        box.path("go").touch()
        assert v.reply()["job"]["state"] == "succeeded"
        assert v.receive_raw() is None


def test_a_vanished_peer_cancels_its_calls(daemon):
    name, _ = daemon.submit(spec("hang"))
    agent = daemon.wait(name, until="running")["agent_pid"]

    def come_and_go():
        with daemon.connect() as v:
            v.send("Wait", job=name)
            v.send("Events", more=True, job=name, follow=True)
            v.send("Logs", more=True, job=name, follow=True)
            v.send("Watch", more=True, job=name)
        with daemon.connect() as v:
            v.send("Logs", more=True, job=name, follow=True)
            daemon.call("Ping")

    come_and_go()  # whatever is opened once is open
    before = len(descriptors(daemon.pid)), len(descriptors(agent))
    for _ in range(30):
        come_and_go()
    wait_for(lambda: (len(descriptors(daemon.pid)) <= before[0] + 1
                      and len(descriptors(agent)) <= before[1] + 1),
             what=f"descriptors back to {before}, "
                  f"now {len(descriptors(daemon.pid))}, {len(descriptors(agent))}")


def test_a_peer_that_closes_with_unread_answers(daemon):
    for i in range(5):
        daemon.submit(spec("hang", name=f"j{i}"))
    for _ in range(20):
        v = daemon.connect()
        for _ in range(200):
            v.send("List")
        v.close()
    assert daemon.call("Ping") == {}


# --- limits ----------------------------------------------------------------------------------------------


def test_a_message_over_the_limit_gets_a_clear_error_or_the_end(daemon):
    with daemon.connect() as v:
        big = json.dumps({"method": IFACE + "Status", "parameters": {"job": "x" * (9 << 20)}})
        try:
            v.send_raw(big.encode() + b"\0")
            answer = v.receive_raw()
        except OSError:
            answer = None
        if answer is not None:
            message = json.loads(answer)
            assert message["error"].endswith("ResourceExhausted"), message
    assert daemon.call("Ping") == {}


def test_a_message_without_an_end_is_not_kept_for_ever(daemon):
    from harness import pss_kb
    with daemon.connect() as v:
        v.sock.settimeout(5)  # or nobody reads any more
        sent = 0
        try:
            while sent < 64 << 20:
                v.send_raw(b"x" * 65536)
                sent += 65536
        except OSError:
            pass
        assert sent < 16 << 20, "64 MiB without a NUL were taken"
    assert SANITIZED or pss_kb(daemon.pid) < 32 * 1024
    assert daemon.call("Ping") == {}


def test_a_message_just_below_the_limit_is_taken(daemon):
    with pytest.raises(VarlinkError) as e:
        with daemon.connect() as v:
            v.call("Status", job="x" * 1_000_000)
    assert e.value.name == "NotFound" or e.value.error.startswith(SERVICE)


def test_the_limit_of_connections(box):
    daemon = box.new_daemon(config="[limits]\nconnections = 10\n").start()
    held = [daemon.connect() for _ in range(9)]
    for v in held[:5]:
        assert v.call("Ping") == {}
    extra = []
    refused = None
    for _ in range(5):
        v = daemon.connect()
        extra.append(v)
        try:
            v.send("Ping")
            answer = v.receive_raw()
            if answer is None or b"ResourceExhausted" in answer:
                refused = v
        except OSError:
            refused = v
    assert refused, "more connections than the limit were served"
    for v in held + extra:
        v.close()
    wait_for(lambda: _pings(daemon), what="room for new connections")


def _pings(daemon):
    try:
        with daemon.connect() as v:
            return v.call("Ping") == {}
    except (OSError, VarlinkError, ConnectionError):
        return False


def test_the_limit_of_calls_in_flight_pauses_reading_and_loses_nothing(box):
    daemon = box.new_daemon(config="[limits]\ncalls_in_flight = 4\n").start()
    name, _ = daemon.submit(spec(f"wait-file:{box.path('go')}"))
    with daemon.connect() as v:
        for _ in range(50):
            v.send("Wait", job=name)
        box.path("go").touch()
        assert {v.reply()["job"]["state"] for _ in range(50)} == {"succeeded"}


def test_the_limit_of_jobs(box):
    daemon = box.new_daemon(config="[limits]\njobs = 2\n").start()
    for _ in range(2):
        daemon.submit(spec("hang"))
    with pytest.raises(VarlinkError) as e:
        daemon.submit(spec("hang"))
    assert e.value.name == "ResourceExhausted" and e.value.parameters["limit"] == 2


def test_a_thousand_connections(daemon):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    held = []
    try:
        for _ in range(1000):
            held.append(daemon.connect())
        for v in held:
            v.send("Ping")
        assert all(v.reply() == {} for v in held)
    finally:
        for v in held:
            v.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_for(lambda: len(descriptors(daemon.pid)) < 60, what="the descriptors to be closed")


@pytest.mark.ci
def test_a_slow_reader_of_events_slows_nobody(box, daemon):
    with daemon.connect() as slow:
        slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.send("Events", more=True, follow=True)
        for _ in range(30):
            job = daemon.run(spec("if-attempt:3:exit:0", "exit:1", replicas=2, restart={"max": 3}))
            assert job["state"] == "succeeded"


# --- rights ----------------------------------------------------------------------------------------------


CLIENT = """
import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(3600); s.connect(sys.argv[1])
for text in sys.argv[2:]:
    s.sendall(text.encode() + b"\\0")
    data = b""
    while not data.endswith(b"\\0"):
        part = s.recv(65536)
        if not part: raise SystemExit(3)
        data += part
    print(data[:-1].decode())
"""


def calls_as(box, user, path, *messages):
    # The python3 that comes first may be one in root's home.
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"
    argv = [python, "-c", CLIENT, str(path), *(json.dumps(m) for m in messages)]
    return box.sh(*as_user(user, *argv), cwd="/")


def message(method, **parameters):
    return {"method": IFACE + method, "parameters": parameters}


def test_another_user_runs_jobs_as_itself(box, guest):
    job = {"name": "theirs", "logs": {"dir": "/dev/null"},
           "roles": [{"command": [PUPPET, f"status:{box.path('work/status')}"]}]}
    result = calls_as(box, guest.user, guest.socket, message("Start", spec=job),
                      message("Wait", job="theirs"))
    assert result.rc == 0, result
    ended = json.loads(result.out.splitlines()[1])["parameters"]["job"]
    assert ended["state"] == "succeeded" and ended["uid"] == guest.user.pw_uid, ended
    uid = guest.user.pw_uid
    assert f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}" in box.path("work/status").read_text()


def test_another_user_neither_sees_nor_controls_foreign_jobs(box, guest):
    guest.submit(spec("hang", name="ours"))
    guest.wait("ours", until="running")
    result = calls_as(box, guest.user, guest.socket, message("List", ended=True),
                      *(message(m, job="ours") for m in
                        ("Status", "Stop", "Why", "Errors", "Restart", "Remove", "Logs", "Events")),
                      message("Kill", job="ours", signal="KILL"),
                      message("Scale", job="ours", replicas=9), message("Shutdown"))
    assert result.rc == 0, result
    answers = [json.loads(line) for line in result.out.splitlines()]
    assert answers[0]["parameters"]["jobs"] == []
    for answer in answers[1:]:
        assert answer.get("error") in (IFACE + "NotFound", IFACE + "PermissionDenied"), answer
    job = guest.status("ours")
    assert job["state"] == "running" and job["attempt"] == 0


def test_another_user_cannot_become_root_by_a_specification(box, guest):
    result = calls_as(box, guest.user, guest.socket, message("Start", spec={
        "user": "root", "roles": [{"command": [PUPPET, f"touch:{box.path('work/owned')}"]}]}))
    answer = json.loads(result.out)
    assert answer.get("error") in (IFACE + "PermissionDenied", IFACE + "InvalidArgument"), answer
    assert not box.path("work/owned").exists()


def test_the_agents_socket_asks_for_credentials_too(box, guest):
    guest.submit(spec("hang", name="ours"))
    guest.wait("ours", until="running")
    path = guest.agent_sock("ours")
    result = calls_as(box, guest.user, path, message("Stop", job="ours"))
    assert result.rc != 0 or "error" in json.loads(result.out or "{}"), result
    assert guest.status("ours")["state"] == "running"


def test_a_users_control_socket_is_closed_to_others_by_default(box, daemon):
    mode = os.stat(daemon.socket).st_mode & 0o777
    assert mode == (0o666 if is_root() else 0o600), oct(mode)
    assert os.stat(daemon.state).st_mode & 0o022 == 0


def test_the_agents_socket_speaks_the_same_interface(daemon):
    name, run = daemon.submit(spec("hang"))
    daemon.wait(name, until="running")
    with Varlink(daemon.agent_sock(name)) as v:
        assert "io.elasticd.Manager" in v.call(SERVICE + "GetInfo")["interfaces"]
        assert v.call("Status", job=run)["job"]["run"] == run
        with pytest.raises(VarlinkError):
            v.call("Start", spec=spec())


def test_user_daemons_of_two_users_do_not_meet(box):
    """Without options, everything is found below XDG directories for a user that is not root."""
    if not is_root():
        pytest.skip("needs root to be another user")
    from harness import DAEMON
    user = other_user()
    for d in ("", "xr", "xs", "xc", "home", "work"):
        box.path(d).chmod(0o755)
        if d:
            os.chown(box.path(d), user.pw_uid, user.pw_gid)
    box.path("xr").chmod(0o700)
    del box.env["ELASTICD_SOCKET"]
    daemon = box.start(*as_user(user, DAEMON), cwd="/")
    control = box.path("xr/elasticd/control.sock")
    wait_for(control.exists, box.path("xr"), box.path("xr/elasticd"), what="the user's socket")
    assert os.stat(control).st_mode & 0o777 == 0o600 and os.stat(control).st_uid == user.pw_uid
    result = box.sh(*as_user(user, CTL, "start", "--name=mine", PUPPET))
    assert result.rc == 0, result
    result = box.sh(*as_user(user, CTL, "wait", "mine"))
    assert result.rc == 0, result
    assert list(box.path("xs/elasticd/jobs").glob("mine_*"))
    box.sh(*as_user(user, CTL, "shutdown"))
    assert daemon.wait().rc == 0
