# SPDX-License-Identifier: Apache-2.0
"""TF_CONFIG: every task finds itself in one cluster, at a port that is kept for it until it listens."""

import errno
import json
import os
import resource
import socket
import sys

import pytest

from harness import VarlinkError, parse_environ, puppet, wait_file, wait_for, wait_gone

ROLES = (("chief", 1), ("worker", 2), ("ps", 1), ("evaluator", 1))

# A task as TensorFlow's: it listens at its own port at all addresses, and says which task it is to
# everyone who asks; then asks all others. Ends when it has heard from all and all have heard from it.
TASK = """
import json, os, socket, sys, threading
config = json.loads(os.environ["TF_CONFIG"])
me = config["task"]
everyone = [(t, i, a) for t, l in config["cluster"].items() for i, a in enumerate(l)]
mine = [a for t, i, a in everyone if (t, i) == (me["type"], me["index"])][0]
server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if sys.argv[1] == "share":
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("", int(mine.rsplit(":", 1)[1])))
server.listen(64)

def serve():
    for _ in range(len(everyone)):
        peer, _ = server.accept()
        peer.sendall(f"{me['type']}:{me['index']}".encode())
        peer.close()

thread = threading.Thread(target=serve)
thread.start()
# They listen before anybody asks: the test closes the gate's other end when all do.
with open(sys.argv[3]) as gate:
    open(sys.argv[2] + "." + os.environ["RANK"], "w").close()
    gate.read()
for kind, index, address in everyone:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as s:
        said = b""
        while True:
            more = s.recv(64)
            if not more:
                break
            said += more
    assert said.decode() == f"{kind}:{index}", (said, kind, index)
thread.join()
"""


def roles(*steps, which=ROLES, **more):
    return [dict(name=name, replicas=n, command=puppet(*steps), **more) for name, n in which]


def shown(box, attempt, rank):
    """What a task that was told to write env: has in TF_CONFIG."""
    env = parse_environ(wait_file(box.path(f"env.{attempt}.{rank}")).read_bytes())
    assert "\n" not in env["TF_CONFIG"]
    return env, json.loads(env["TF_CONFIG"])


def ports(config):
    return [int(a.rsplit(":", 1)[1]) for addresses in config["cluster"].values() for a in addresses]


def tell(box):
    # By another name at first: who finds the file finds all of it.
    return (f"env:{box.path('env')}.%a.%r", f"touch:{box.path('up')}.%a.%r")


def up(box, attempt, n=5):
    for rank in range(n):
        wait_file(box.path(f"up.{attempt}.{rank}"))


def can_bind(port, *options):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        for option in options:
            s.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            s.bind(("127.0.0.1", port))
            s.listen()
        except OSError as e:
            assert e.errno == errno.EADDRINUSE, e
            return False
    return True


def test_every_task_finds_itself_in_one_cluster(box, daemon):
    daemon.run({"roles": roles(*tell(box)), "compat": {"rpc_layer": "grpc"}})
    up(box, 0)
    tasks = [(name, i) for name, n in ROLES for i in range(n)]
    clusters = []
    for rank, (name, index) in enumerate(tasks):
        env, config = shown(box, 0, rank)
        assert sorted(config) == ["cluster", "rpc_layer", "task"] and config["rpc_layer"] == "grpc"
        assert config["task"] == {"type": name, "index": index}
        assert (env["RANK"], env["WORLD_SIZE"], env["ROLE_NAME"]) == (str(rank), "5", name)
        assert env["ROLE_RANK"] == str(index) == env["ELASTICD_INDEX"]
        assert env["ROLE_WORLD_SIZE"] == str(dict(ROLES)[name])
        assert env["ELASTICD_ROLE"] == name
        clusters.append(config["cluster"])
    assert all(c == clusters[0] for c in clusters)
    # The evaluator looks on: it is a task, but nobody waits for it.
    assert {k: len(v) for k, v in clusters[0].items()} == {"chief": 1, "worker": 2, "ps": 1}
    assert len(set(ports({"cluster": clusters[0]}))) == 4
    assert all(a.startswith("127.0.0.1:") for v in clusters[0].values() for a in v)


def test_a_job_of_one_role_has_it_where_it_is_asked_for(box, daemon):
    daemon.run({"roles": roles(*tell(box), which=[("worker", 2)])})
    up(box, 0, 2)
    assert "TF_CONFIG" not in parse_environ(box.path("env.0.0").read_bytes())
    daemon.run({"roles": roles(f"env:{box.path('one')}.%r", f"touch:{box.path('two')}.%r",
                               which=[("worker", 1)]), "compat": {"tf_config": True}})
    config = json.loads(parse_environ(box.path("one.0").read_bytes())["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 0} and "rpc_layer" not in config


def test_each_attempt_has_ports_of_its_own(box, daemon):
    daemon.run({"roles": roles(*tell(box), f"barrier:{box.path('all')}", "if-attempt:0:if-rank:1:exit:3",
                               "if-attempt:1:if-rank:3:exit:3", "if-attempt:0:hang",
                               "if-attempt:1:hang"),
                "restart": {"max": 2}})
    seen = [set(ports(shown(box, attempt, 0)[1])) for attempt in range(3)]
    # A port may come back after one attempt in between, as any other.
    assert not seen[0] & seen[1] and not seen[1] & seen[2]


@pytest.mark.parametrize("how", ["plain", "share"])
def test_tasks_listen_at_their_ports_and_reach_each_other(box, daemon, how):
    gate = box.path("gate")
    os.mkfifo(gate)
    other_end = os.open(gate, os.O_RDWR)
    command = [sys.executable, "-c", TASK, how, str(box.path("listens")), str(gate)]
    name, _ = daemon.submit({"roles": [dict(name=n, replicas=k, command=command)
                                       for n, k in (("chief", 1), ("worker", 3), ("ps", 2))]})
    for rank in range(6):
        wait_file(box.path(f"listens.{rank}"))
    os.close(other_end)
    job = daemon.wait(name)
    assert job["state"] == "succeeded", job


def test_no_other_process_gets_a_port_before_its_worker_listens(box, daemon):
    name, _ = daemon.submit({"roles": roles(*tell(box), "hang")})
    up(box, 0)
    kept = ports(shown(box, 0, 0)[1])
    for port in kept:
        assert not can_bind(port), "a program that shares nothing took the port"
        with socket.socket() as s, pytest.raises(ConnectionRefusedError):
            s.connect(("127.0.0.1", port))  # held, but nobody listens
    # The task itself: as gRPC does, as most servers do.
    assert all(can_bind(p, socket.SO_REUSEADDR) for p in kept)
    assert all(can_bind(p, socket.SO_REUSEADDR, socket.SO_REUSEPORT) for p in kept)
    daemon.wait(name, until="running")
    agent = daemon.status(name)["agent_pid"]
    daemon.call("Stop", job=name)
    daemon.wait(name)
    wait_gone(agent)
    # Somebody else may get one for a while.
    wait_for(lambda: all(can_bind(p) for p in kept), what="no port to be held after the job")


def test_jobs_of_one_host_have_different_ports(box, daemon):
    jobs = []
    for i in range(4):
        jobs.append(daemon.submit({"roles": roles(
            f"env:{box.path(f'job{i}')}.%r", f"touch:{box.path(f'up{i}')}.%r", "hang")})[0])
    taken = []
    for i in range(4):
        wait_file(box.path(f"up{i}.0"))
        env = parse_environ(box.path(f"job{i}.0").read_bytes())
        taken += [*ports(json.loads(env["TF_CONFIG"])), int(env["MASTER_PORT"])]
    assert len(set(taken)) == len(taken) == 20
    for job in jobs:
        daemon.call("Stop", job=job)
        daemon.wait(job)


def test_the_roles_rule_wins(box, daemon):
    daemon.run({"roles": [dict(name="a", command=puppet(*tell(box)), env={"TF_CONFIG": "{}"}),
                          dict(name="b", command=puppet(*tell(box)))]})
    assert shown(box, 0, 0)[1] == {}
    assert shown(box, 0, 1)[1]["task"] == {"type": "b", "index": 0}


def test_in_the_foreground_too(box):
    path = box.path("work/job.json")
    path.write_text(json.dumps({"roles": roles(*tell(box))}))
    result = box.run("--spec", path)
    assert result.rc == 0, result
    assert shown(box, 0, 4)[1]["task"] == {"type": "evaluator", "index": 0}


def test_a_task_that_is_started_again_by_itself_keeps_its_address(box, daemon):
    name, _ = daemon.submit({
        "roles": [dict(name="chief", command=puppet(*tell(box), "hang")),
                  dict(name="worker", replicas=2, restart={"scope": "worker", "max": 1}, command=puppet(
                      f"unless-file:{box.path('again')}:{{env:{box.path('first')}.%r"
                      f"+touch:{box.path('first-up')}.%r+wait-file:{box.path('again')}+exit:3}}",
                      f"env:{box.path('second')}.%r", f"touch:{box.path('second-up')}.%r", "hang"))]})
    before = []
    for rank in (1, 2):
        wait_file(box.path(f"first-up.{rank}"))
        before.append(parse_environ(box.path(f"first.{rank}").read_bytes())["TF_CONFIG"])
    box.path("again").touch()
    for rank in (1, 2):
        wait_file(box.path(f"second-up.{rank}"))
        env = parse_environ(box.path(f"second.{rank}").read_bytes())
        assert env["TF_CONFIG"] == before[rank - 1] and env["TORCHELASTIC_RESTART_COUNT"] == "1"
    assert not any(can_bind(p) for p in ports(json.loads(before[0])))
    daemon.call("Stop", job=name)
    daemon.wait(name)


def test_a_task_with_an_index_of_its_own_takes_no_ports_but_its_own(box, daemon):
    """Addresses are a list: a gap in it would be as many ports, which nobody listens at."""
    name, _ = daemon.submit({"roles": roles(*tell(box), "hang")})
    up(box, 0)
    fds = f"/proc/{daemon.agent_pid(name)}/fd"
    before = len(os.listdir(fds))
    for index in (3, 3000, 4096):
        with pytest.raises(VarlinkError) as e:
            daemon.call("StartWorker", job=name, role="worker", index=index)
        assert "expected worker:2" in str(e.value), e.value
    assert len(os.listdir(fds)) < before + 100, "some come and go, but not thousands"
    assert len(daemon.status(name)["workers"]) == 5
    assert daemon.call("StartWorker", job=name, role="worker", index=2)["rank"] == 5
    wait_file(box.path("up.0.5"))
    assert len(shown(box, 0, 5)[1]["cluster"]["worker"]) == 3
    # Who is in no list has no gap to fill.
    assert daemon.call("StartWorker", job=name, role="evaluator", index=7)["rank"] == 6


def test_without_descriptors_a_task_is_refused_and_the_next_is_not(box, daemon):
    name, _ = daemon.submit({"roles": roles(*tell(box), "hang")})
    agent = daemon.agent_pid(name)
    up(box, 0)
    _, hard = resource.prlimit(agent, resource.RLIMIT_NOFILE)
    soft = len(os.listdir(f"/proc/{agent}/fd"))
    # Its logs need some, and then its port.
    for room in range(64):
        resource.prlimit(agent, resource.RLIMIT_NOFILE, (soft + room, hard))
        try:
            daemon.call("StartWorker", job=name, role="worker", index=2)
            break
        except VarlinkError as e:
            assert "Too many open files" in str(e), e
            assert str(e).count("Too many") == 1, e
    else:
        raise AssertionError("it was never started")
    assert daemon.status(name)["state"] == "running"
    wait_file(box.path("up.0.5"))
    assert len(shown(box, 0, 5)[1]["cluster"]["worker"]) == 3
