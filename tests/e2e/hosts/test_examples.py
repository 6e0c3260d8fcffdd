# SPDX-License-Identifier: Apache-2.0
"""examples/hosts/: each way to start a group on several hosts, as far as one machine can show it."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from harness import BUILD, ROOT, have, wait_for
from several_hosts import free_port

EXAMPLES = ROOT / "examples/hosts"
HOSTS = ("127.0.0.1", "127.0.0.2")

# Says where it is, and continues where it has saved.
TRAIN = """
import os, signal, sys, time
def save(*_):
    open(os.environ["SAVED"] + "." + os.environ["RANK"], "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
names = ("GROUP_RANK", "RANK", "WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RUN_ID")
line = " ".join(os.environ[n] for n in names) + " end\\n"
with open(os.environ["PLACES"], "a") as f:
    f.write(line)
while os.environ.get("WAITS") and not os.path.exists(os.environ["SAVED"] + ".0"):
    time.sleep(0.01)
"""


@pytest.fixture
def desk(box):
    """A directory with the examples, a script to train, and our programs first in the path."""
    work = box.path("work")
    for example in EXAMPLES.iterdir():
        shutil.copy(example, work)
    (work / "train.py").write_text(TRAIN)
    bin_dir = box.path("bin")
    bin_dir.mkdir()
    (bin_dir / "python3").symlink_to(sys.executable)
    box.env.update(PATH=f"{bin_dir}:{BUILD}:{os.environ['PATH']}", PLACES=str(box.path("places")),
                   SAVED=str(box.path("saved")))
    box.path("places").touch()
    return box


def places(desk):
    return sorted(line.split()[:-1] for line in desk.path("places").read_text().splitlines())


def program(desk, name, text):
    path = desk.path("bin", name)
    path.write_text(text)
    path.chmod(0o755)


def free_job():
    """The number of a job whose step has a port that is free."""
    for job in range(1000 + os.getpid() % 1000, 3000):
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("", 29400 + job % 1000))
            return job
    pytest.skip("no free port from 29400 to 30399")


def slurm(desk):
    """srun, which runs its step on the two hosts and exits with the greatest status; and scontrol.
    Returns the number of the job."""
    job = free_job()
    desk.env.update(SLURM_JOB_ID=str(job))
    program(desk, "scontrol", f'#!/bin/sh\necho "$@" >> {desk.path("requeued")}\n')
    program(desk, "srun", f"""#!{sys.executable}
import os, signal, subprocess, sys
assert sys.argv[1] == "--ntasks-per-node=1", sys.argv
step = dict(SLURM_STEP_ID="0", SLURM_STEP_NODELIST="{','.join(HOSTS)}", SLURM_STEP_NUM_NODES="2",
            SLURM_STEP_NUM_TASKS="2", SLURM_STEP_TASKS_PER_NODE="1(x2)",
            SLURM_RESTART_COUNT=os.environ["COUNT"])
def task(i):
    env = dict(os.environ, SLURM_NODEID=str(i), SLURM_PROCID=str(i), **step)
    return subprocess.Popen(sys.argv[2:], env=env)
tasks = [task(i) for i in range(2)]
signal.signal(signal.SIGTERM, lambda *_: [t.send_signal(signal.SIGTERM) for t in tasks])
sys.exit(max(t.wait() for t in tasks))
""")
    return job


def sbatch(desk, count, **env):
    return desk.start("bash", "slurm.sh", env={"COUNT": str(count), **env})


def test_the_batch_job_of_slurm_is_queued_again_when_it_was_preempted(desk):
    job = slurm(desk)
    first = sbatch(desk, 0, WAITS="1")
    wait_for(lambda: len(places(desk)) == 2, desk.dir, what="both hosts' workers")
    for pid in children_named(first.pid, "srun"):
        os.kill(pid, signal.SIGTERM)
    assert first.wait().rc == 42, first.err
    assert desk.path("requeued").read_text() == f"requeue {job}\n"
    assert desk.path("saved.0").exists() and desk.path("saved.1").exists()
    again = sbatch(desk, 1).wait()
    assert again.rc == 0, again
    assert desk.path("requeued").read_text() == f"requeue {job}\n"
    assert places(desk) == [[str(r), str(r), "2", "127.0.0.1", f"slurm-{job}.0.{n}"]
                            for r in range(2) for n in range(2)]


def children_named(pid, name):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        found = [int(p) for p in f.read().split()]
    with_name = []
    for p in found:
        with open(f"/proc/{p}/cmdline", "rb") as f:
            if name in f.read().decode():
                with_name.append(p)
    assert with_name, f"no {name} below {pid}"
    return with_name


def test_the_batch_job_of_slurm_ends_for_good_when_it_failed(desk):
    slurm(desk)
    desk.path("work/train.py").write_text("raise SystemExit(7)\n")
    assert sbatch(desk, 0).wait().rc == 7
    assert not desk.path("requeued").exists()


def unit_keys(text):
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.M))


def test_the_unit_of_systemd_starts_a_group_of_bare_hosts(desk):
    keys = unit_keys(desk.path("work/train.service").read_text())
    command = shlex.split(keys["ExecStart"].replace("${ENDPOINT}", f"127.0.0.1:{free_port()}"))
    hosts = [desk.start(*command) for _ in range(2)]
    results = [host.wait() for host in hosts]
    assert [r.rc for r in results] == [0, 0], results
    assert [p[:3] for p in places(desk)] == [["0", "0", "2"], ["1", "1", "2"]]


def test_a_stop_of_the_unit_is_a_notice(desk):
    keys = unit_keys(desk.path("work/train.service").read_text())
    assert keys["SuccessExitStatus"] == "42" and keys["KillMode"] == "mixed"
    command = shlex.split(keys["ExecStart"].replace("${ENDPOINT}", f"127.0.0.1:{free_port()}"))
    hosts = [desk.start(*command, env={"WAITS": "1"}) for _ in range(2)]
    wait_for(lambda: len(places(desk)) == 2, desk.dir, what="both hosts' workers")
    for host in hosts:
        host.signal(signal.SIGTERM)
    assert [host.wait().rc for host in hosts] == [42, 42]


@pytest.mark.skipif(not have("systemd-analyze"), reason="no systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(desk):
    unit = desk.path("work/train.service")
    unit.write_text(unit.read_text().replace("ExecStart=elasticctl", f"ExecStart={BUILD}/elasticctl"))
    found = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True,
                           text=True, check=False, env=dict(os.environ, SYSTEMD_LOG_LEVEL="warning"))
    assert "train.service" not in found.stderr, found.stderr


def documents(desk, name):
    yaml = pytest.importorskip("yaml", reason="python3-yaml reads the files of Kubernetes")
    return {d["kind"]: d for d in yaml.safe_load_all(desk.path("work", name).read_text())}


def test_the_pods_of_a_stateful_set_are_a_group_by_their_numbers(desk):
    found = documents(desk, "statefulset.yaml")
    service, pods = found["Service"], found["StatefulSet"]["spec"]
    assert service["metadata"]["name"] == pods["serviceName"] == "train"
    assert service["spec"]["selector"] == pods["template"]["metadata"]["labels"]
    container = pods["template"]["spec"]["containers"][0]
    sleeps = desk.path("sleeps")
    sleeps.touch()
    program(desk, "sleep", f'#!/bin/sh\n[ "$1" = infinity ] && echo "$HOSTNAME" >> {sleeps}\n')
    assert "train-0.train" in container["args"][0]
    port = str(free_port())
    # The last number comes first, and each waits for the other.
    hosts = [desk.start(*container["command"], *container["args"],
                        env=dict(HOSTNAME=f"train-{n}", MASTER="127.0.0.1", PET_MASTER_PORT=port))
             for n in reversed(range(pods["replicas"]))]
    results = [host.wait() for host in hosts]
    assert [r.rc for r in results] == [0, 0], results
    assert [p[:4] for p in places(desk)] == [["0", "0", "2", "127.0.0.1"], ["1", "1", "2", "127.0.0.1"]]
    assert sorted(sleeps.read_text().split()) == ["train-0", "train-1"]


def test_a_job_of_kubeflow_gives_all_by_variables(desk):
    spec = documents(desk, "pytorchjob.yaml")["PyTorchJob"]["spec"]
    policy, worker = spec["elasticPolicy"], spec["pytorchReplicaSpecs"]["Worker"]
    container = worker["template"]["spec"]["containers"][0]
    # What the operator makes of elasticPolicy.
    pet = {"PET_NNODES": f"{policy['minReplicas']}:{policy['maxReplicas']}",
           "PET_RDZV_BACKEND": policy["rdzvBackend"],
           "PET_RDZV_ENDPOINT": f"127.0.0.1:{free_port()}", "PET_RDZV_ID": "train",
           "PET_MAX_RESTARTS": str(policy["maxRestarts"]), "PET_NPROC_PER_NODE": "2"}
    hosts = [desk.start(*container["command"], env=pet)
             for _ in range(worker["replicas"])]
    results = [host.wait() for host in hosts]
    assert [r.rc for r in results] == [0, 0], results
    assert [[*p[:3], p[4]] for p in places(desk)] == [[str(r // 2), str(r), "4", "train"] for r in range(4)]
