# SPDX-License-Identifier: Apache-2.0
"""scale: another number of local replicas, not counted against the budget."""

import pytest

from harness import VarlinkError, alive, parse_environ, puppet, spec, wait_file, wait_lines


@pytest.mark.parametrize("to", [1, 2, 5])
def test_the_group_starts_anew_with_the_new_world(box, daemon, to):
    name, run = daemon.submit(spec(f"env:{box.path('env')}.%a.%r", f"touch:{box.path('up')}.%a.%r",
                                   "hang", replicas=3))
    for rank in range(3):
        wait_file(box.path(f"up.0.{rank}"))
    old = [t["pid"] for t in daemon.wait(name, until="running")["workers"]]
    daemon.call("Scale", job=name, replicas=to)
    for rank in range(to):
        wait_file(box.path(f"up.1.{rank}"))
        env = parse_environ(box.path(f"env.1.{rank}").read_bytes())
        assert (env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) == (str(to), str(to))
        assert env["ROLE_WORLD_SIZE"] == str(to) and env["RANK"] == str(rank)
    job = daemon.until_attempt(name, 1)
    assert (len(job["workers"]), job["restarts"]) == (to, 0)
    assert not any(alive(p) for p in old)
    assert not box.path(f"up.1.{to}").exists()


def test_by_command_line_and_back(box, daemon):
    name, _ = daemon.submit(spec(f"mark:{box.path('marks')}", "hang", replicas=1))
    wait_lines(box.path("marks"), 1)
    assert box.ctl("scale", name, "4").rc == 0
    wait_lines(box.path("marks"), 5)
    assert box.ctl("scale", name, "2").rc == 0
    wait_lines(box.path("marks"), 7)
    assert len(daemon.until_attempt(name, 2)["workers"]) == 2


def test_a_restart_keeps_the_new_size(box, daemon):
    name, _ = daemon.submit(spec(f"touch:{box.path('up')}.%a.%r", "if-attempt:1:if-rank:3:exit:1",
                                 "hang", replicas=2, restart={"max": 1}))
    wait_file(box.path("up.0.1"))
    daemon.call("Scale", job=name, replicas=4)
    for rank in range(4):
        wait_file(box.path(f"up.2.{rank}"))
    assert daemon.until_attempt(name, 2)["restarts"] == 1


def test_the_size_survives_elasticd_and_the_agent(box, daemon):
    import os
    import signal
    name, _ = daemon.submit(spec(f"touch:{box.path('up')}.%a.%r", "hang", restart={"max": 1}))
    wait_file(box.path("up.0.0"))
    daemon.call("Scale", job=name, replicas=3)
    wait_file(box.path("up.1.2"))
    daemon.restart()
    assert len(daemon.until_attempt(name, 1)["workers"]) == 3
    os.kill(daemon.agent_pid(name), signal.SIGKILL)
    for rank in range(3):
        wait_file(box.path(f"up.2.{rank}"))


def test_impossible_requests_are_refused(box, daemon):
    name, _ = daemon.submit(spec("hang"))
    daemon.wait(name, until="running")
    for kwargs in (dict(replicas=0), dict(replicas=-1), dict(replicas=10**9),
                   dict(replicas=2, role="nobody")):
        with pytest.raises(VarlinkError):
            daemon.call("Scale", job=name, **kwargs)
    job = daemon.status(name)
    assert (job["state"], job["attempt"], len(job["workers"])) == ("running", 0, 1)
    ended = daemon.run(spec())["run"]
    with pytest.raises(VarlinkError) as e:
        daemon.call("Scale", job=ended, replicas=2)
    assert e.value.name == "FailedPrecondition"


def test_during_backoff(box, daemon):
    """It ends the backoff."""
    name, _ = daemon.submit(spec("if-attempt:0:exit:1", f"mark:{box.path('marks')}",
                                 restart={"max": 1, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: job["state"] == "backoff")
    daemon.call("Scale", job=name, replicas=3)
    assert daemon.wait(name)["state"] == "succeeded"
    assert len(wait_lines(box.path("marks"), 3)) == 3


def test_a_leader_stays_alone(box, daemon):
    name, _ = daemon.submit({"name": "led", "roles": [
        {"name": "chief", "leader": True, "command": puppet("hang")},
        {"name": "worker", "command": puppet("hang")}]})
    daemon.wait(name, until="running")
    for wrong in ("0", "4097"):
        result = box.ctl("scale", "led/chief", wrong)
        assert f'expected an integer from 1 to 4096, got "{wrong}"' in result.err
    result = box.ctl("scale", "led/chief", "3")
    assert result.rc == 1 and "a role that leads the group has one worker" in result.err, result
    with pytest.raises(VarlinkError) as e:
        daemon.call("StartWorker", job=name, role="chief", index=1)
    assert "one leader only" in e.value.parameters["message"]
    job = daemon.status(name)
    assert (job["attempt"], len(job["workers"])) == (0, 2)


def test_the_table_counts_a_start_once(box, daemon):
    name, _ = daemon.submit(spec("hang", name="j"))
    daemon.wait(name, until="running")
    assert box.ctl("scale", "j", "2").rc == 0
    lines = box.ctl("status", "j").out.splitlines()
    title = next(line for line in lines if line.startswith("RANK"))
    end = title.index("RESTARTS") + len("RESTARTS")
    rows = lines[lines.index(title) + 1:]
    assert [row[:end].split()[-1] for row in rows] == ["1", "1"], lines
