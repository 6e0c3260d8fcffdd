# SPDX-License-Identifier: Apache-2.0
"""list: the jobs that the caller may see."""

from harness import spec, wait_file


def test_active_jobs_newest_last_and_ended_ones_on_request(daemon):
    runs = [daemon.submit(spec("hang", name=f"j{i}"))[1] for i in range(3)]
    ended = daemon.run(spec("exit:1"))["run"]
    assert [j["run"] for j in daemon.call("List")["jobs"]] == runs
    everything = daemon.call("List", ended=True)["jobs"]
    assert [j["run"] for j in everything] == [*runs, ended]
    assert all(j["workers"] == [] for j in everything)


def test_an_empty_list(box, daemon):
    assert daemon.call("List")["jobs"] == []
    result = box.ctl("list")
    assert result.rc == 0, result


def test_the_table_and_its_json(box, daemon):
    daemon.submit(spec("hang", name="alpha", replicas=2))
    daemon.wait("alpha", until="running")
    done = daemon.run(spec("exit:3", name="beta"))
    result = box.ctl("list")
    assert result.rc == 0 and "alpha" in result.out and "running" in result.out, result
    assert "beta" not in result.out
    everything = box.ctl("list", "--all")
    assert "beta" in everything.out and "failed" in everything.out, everything
    parsed = box.ctl("list", "--all", "--json").json
    jobs = parsed["jobs"] if isinstance(parsed, dict) else parsed
    assert {j["name"]: j["state"] for j in jobs} == {"alpha": "running", "beta": "failed"}
    assert done["state"] == "failed"
