# SPDX-License-Identifier: Apache-2.0
"""What an agent under elasticd says is its user's, and goes to no descriptor of elasticd's."""

import os

from harness import descendants, descriptors, spec, wait_text


def test_no_process_of_a_job_can_write_to_the_log_of_elasticd(box, daemon):
    _, run = daemon.submit(spec("hang", name="j", replicas=2))
    job = daemon.wait("j", until="running")
    ours = {os.path.realpath(daemon.program.err_path), os.path.realpath(daemon.program.out_path)}
    pids = [p for p in descendants(os.getpid()) if p != daemon.pid]
    assert job["agent_pid"] in pids and len(pids) >= 4  # guard, agent and workers
    for pid in pids:
        assert not ours & set(descriptors(pid).values()), (pid, descriptors(pid))
    log = daemon.record(run) / "agent.log"
    assert descriptors(job["agent_pid"])[2] == str(log)


def test_the_agent_logs_to_its_own_file(box, daemon):
    _, run = daemon.submit(spec("hang", name="j"))
    daemon.wait("j", until="running")
    daemon.call("Kill", job="j", signal="USR1")
    log = daemon.record(run) / "agent.log"
    wait_text(log, "signal 10 (SIGUSR1)")
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_directory_in_place_of_the_file_stops_no_agent(box, daemon):
    _, run = daemon.submit(spec("hang", name="j"))
    log = daemon.record(run) / "agent.log"
    agent = daemon.agent_pid("j")
    log.unlink()
    os.mkfifo(log)
    os.kill(agent, 9)
    daemon.wait_event("j", "agent-lost")
    assert daemon.wait("j")["state"] == "failed"
    assert box.ctl("logs", "j").rc == 0
