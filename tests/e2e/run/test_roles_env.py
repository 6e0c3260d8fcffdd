# SPDX-License-Identifier: Apache-2.0
"""What each worker of each role finds in its environment: ranks, its part of the devices, its limits."""

import json

import pytest

from harness import VarlinkError, parse_environ, puppet, wait_file

GIVEN = {
    "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_USE_AGENT_STORE", "ELASTICD_JOB", "ELASTICD_RUN",
    "ELASTICD_ROLE", "ELASTICD_INDEX", "ELASTICD_ATTEMPT", "ELASTICD_PREEMPTION_EXIT_CODE",
}


def role(box, name, n, **more):
    command = puppet(f"env:{box.path('env')}.%r", f"touch:{box.path('up')}.%r")
    return dict(name=name, replicas=n, command=command, **more)


def environments(box, n):
    found = []
    for rank in range(n):
        wait_file(box.path(f"up.{rank}"))
        found.append(parse_environ(box.path(f"env.{rank}").read_bytes()))
    return found


def test_ranks_are_numbered_through_the_roles(box, daemon):
    daemon.run({"roles": [role(box, "a", 2), role(box, "b", 1, env={"X": "1"}),
                          role(box, "c", 3, env_per_replica=[{}, {"X": "2"}, {}])]})
    found = environments(box, 6)
    numbers = ("RANK", "LOCAL_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE", "ELASTICD_INDEX", "ROLE_NAME")
    assert [tuple(e[k] for k in numbers) for e in found] == [
        ("0", "0", "0", "2", "0", "a"), ("1", "1", "1", "2", "1", "a"), ("2", "2", "0", "1", "0", "b"),
        ("3", "3", "0", "3", "0", "c"), ("4", "4", "1", "3", "1", "c"), ("5", "5", "2", "3", "2", "c")]
    for env in found:
        assert not GIVEN - set(env), GIVEN - set(env)
        assert (env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) == ("6", "6")
        assert (env["GROUP_RANK"], env["GROUP_WORLD_SIZE"]) == ("0", "1")
    assert [e.get("X") for e in found] == [None, None, "1", None, "2", None]
    assert len({e["MASTER_PORT"] for e in found}) == 1


def test_a_role_has_a_restart_budget_of_its_own(box, daemon):
    daemon.run({"roles": [role(box, "a", 1), role(box, "b", 1, restart={"max": 7})], "restart": {"max": 2}})
    assert [e["TORCHELASTIC_MAX_RESTARTS"] for e in environments(box, 2)] == ["2", "7"]


@pytest.mark.parametrize("assign,shares", [
    ("stride", ["0,2", "1,3"]), ("block", ["0,1", "2,3"]), ("one", ["0", "1"]), ("all", ["0,1,2,3"] * 2)])
def test_devices_are_shared_out(box, daemon, assign, shares):
    daemon.run({"roles": [role(box, "ps", 1, env={"CUDA_VISIBLE_DEVICES": ""}), role(box, "chief", 1),
                          role(box, "worker", 1)],
                "resources": {"devices": {"ids": [0, 1, "2", 3], "assign": assign}}})
    found = environments(box, 3)
    assert [e["CUDA_VISIBLE_DEVICES"] for e in found] == ["", *shares]


def test_another_variable_and_one_device_each(box, daemon):
    daemon.run({"roles": [role(box, "worker", 2)], "compat": {"virtual_local_rank": True},
                "resources": {"devices": {"ids": [6, 7], "assign": "one", "env": "ROCR_VISIBLE_DEVICES"}}})
    found = environments(box, 2)
    assert [(e["LOCAL_RANK"], e["ROCR_VISIBLE_DEVICES"]) for e in found] == [("0", "6"), ("0", "7")]
    assert all("CUDA_VISIBLE_DEVICES" not in e for e in found)


def test_devices_that_the_caller_sees(box):
    path = box.path("work/job.json")
    path.write_text(json.dumps({"roles": [role(box, "worker", 2)],
                                "resources": {"devices": {"ids": "auto"}}}))
    result = box.run("--spec", path, env={"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c"})
    assert result.rc == 0, result
    assert [e["CUDA_VISIBLE_DEVICES"] for e in environments(box, 2)] == ["GPU-a,GPU-c", "GPU-b"]
    result = box.run("--spec", path, env={"CUDA_VISIBLE_DEVICES": "GPU-a"})
    assert result.rc == 125, result
    assert "resources.devices.ids: expected a device for each of 2 workers" in result.err, result


def test_fewer_devices_than_workers(box, daemon):
    with pytest.raises(VarlinkError) as e:
        daemon.submit({"roles": [role(box, "worker", 3)], "resources": {"devices": {"ids": [0, 1]}}})
    assert (e.value.name, e.value.parameters["field"]) == ("InvalidArgument", "resources.devices.ids")


def test_more_workers_by_scale_than_devices_is_a_failure_that_says_so(box, daemon):
    worker = role(box, "worker", 2)
    worker["command"].append("hang")
    name, _ = daemon.submit({"roles": [worker], "resources": {"devices": {"ids": [0, 1]}}})
    daemon.wait(name, until="running")
    daemon.call("Scale", job=name, replicas=3)
    job = daemon.wait(name)
    assert job["state"] == "failed" and "resources.devices" in json.dumps(job), job
