# SPDX-License-Identifier: Apache-2.0
"""elasticctl run and elasticd as process 1 of a container: they reap orphans, hand signals on, stop what they
started, and exit with the status that a caller expects."""

import signal
import subprocess

import pytest

from harness import CTL, PATIENCE, PUPPET, Daemon, children, inode_of, is_root, wait_for

CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.fixture(scope="module", autouse=True)
def containers():
    if not is_root():
        pytest.skip("a namespace of processes needs root")
    tried = subprocess.run([*CONTAINER, "true"], check=False, capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no namespace of processes here: {tried.stderr.strip()}")


def first_process(program):
    """The one that is process 1 in its container."""
    wait_for(lambda: children(program.pid), f"/proc/{program.pid}", what="process 1")
    return children(program.pid)[0]


def leave_an_orphan(first):
    """As a process that docker exec has started would."""
    subprocess.run(["nsenter", "-t", str(first), "-p", "sh", "-c", "(true &)"], check=True, timeout=PATIENCE)
    wait_for(lambda: len(children(first)) == 1, f"/proc/{first}", what="the orphan to be reaped")


def test_run_exits_as_the_job_does(box):
    failed = box.sh(*CONTAINER, CTL, "run", "--log-dir", box.path("logs"), PUPPET, "exit:7")
    assert failed.rc == 7, failed
    ended = box.sh(*CONTAINER, CTL, "run", "--log-dir", box.path("logs"), PUPPET, "double-fork:hang")
    assert ended.rc == 0, ended


def test_run_hands_signals_on_and_reaps_orphans(box):
    caught = box.path("caught")
    job = box.start(*CONTAINER, CTL, "run", "--log-dir", box.path("logs"), PUPPET,
                    f"on:TERM:touch:{caught}+exit:0", f"touch:{box.path('there')}", "hang")
    wait_for(box.path("there").exists, box.dir)
    first = first_process(job)
    leave_an_orphan(first)
    subprocess.run(["kill", "-TERM", str(first)], check=True)
    assert job.wait().rc == 143
    assert caught.exists()


class Contained(Daemon):
    def argv(self):
        return [*CONTAINER, *super().argv()]

    def _answers(self, old):
        return inode_of(self.socket) not in (None, old)

    def signal(self, signo):
        first = first_process(self.program)
        subprocess.run(["kill", f"-{signal.Signals(signo).name[3:]}", str(first)], check=True)


@pytest.fixture
def contained(box):
    d = Contained(box).start()
    yield d
    d.drop()
    if d.running():
        d.program.signal(signal.SIGKILL)
        d.program.wait()


def a_job(box, *steps):
    return {"name": "held", "roles": [{"command": [PUPPET, *steps, f"touch:{box.path('there')}", "hang"]}]}


def test_elasticd_reaps_orphans_and_stops_its_jobs_when_it_ends(box, contained):
    caught = box.path("caught")
    contained.submit(a_job(box, f"on:TERM:touch:{caught}+exit:0"))
    wait_for(box.path("there").exists, box.dir)
    leave_an_orphan(first_process(contained.program))
    contained.signal(signal.SIGHUP)
    contained.signal(signal.SIGTERM)
    assert contained.program.wait().rc == 0
    assert caught.exists(), "the worker was killed"
    assert "leaving; 0 jobs go on" in contained.program.err


def test_a_second_signal_ends_elasticd_at_once(box, contained):
    contained.submit(a_job(box, "ignore:TERM"))
    wait_for(box.path("there").exists, box.dir)
    contained.signal(signal.SIGTERM)
    contained.program.wait_err("stopping all jobs")
    contained.signal(signal.SIGTERM)
    assert contained.program.wait().rc == 0


def test_an_elasticd_that_was_killed_ends_the_container(contained):
    daemon = children(first_process(contained.program))[0]
    subprocess.run(["kill", "-KILL", str(daemon)], check=True)
    assert contained.program.wait().rc == 137
