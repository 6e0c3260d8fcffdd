# SPDX-License-Identifier: Apache-2.0
"""stop, restart, wait and rm: several jobs, all of them, and names with a star."""

import json

import pytest

from harness import VarlinkError, spec, wait_file, wait_for, wait_text
from overhearing import overhear


def start(daemon, *names):
    for name in names:
        daemon.submit(spec("hang", name=name))
    for name in names:
        daemon.wait(name, until="running")


def states(daemon, **kwargs):
    return {j["name"]: j["state"] for j in daemon.call("List", **kwargs)["jobs"]}


def test_stop_takes_several_jobs_and_a_pattern(box, daemon):
    start(daemon, "trial-1", "trial-2", "other", "more")
    result = box.ctl("stop", "trial-*", "more")
    assert result.rc == 0, result
    assert all(f"{name} stopped after" in result.out for name in ("trial-1", "trial-2", "more")), result
    assert states(daemon) == {"other": "running"}


def test_stop_all_stops_what_is_active(box, daemon):
    start(daemon, "a", "b")
    daemon.run(spec(name="over"))
    result = box.ctl("stop", "--all", "--json")
    assert result.rc == 0, result
    assert sorted(j["name"] for j in json.loads(result.out)) == ["a", "b"]
    assert states(daemon) == {}
    again = box.ctl("stop", "-a")
    assert again.rc == 0 and again.out == "No jobs are active.\n", again


def test_stop_by_pattern_takes_workers_behind_a_slash(box, daemon):
    for name in ("a-1", "a-2"):
        daemon.submit(spec("hang", name=name, replicas=2))
        daemon.wait(name, until="running")
    assert box.ctl("stop", "a-*/1").rc == 0
    for name in ("a-1", "a-2"):
        assert [t["state"] for t in daemon.status(name, live=True)["workers"]] == ["running", "stopped"]


@pytest.mark.parametrize("verb,status", [("stop", 1), ("restart", 1), ("rm", 1), ("wait", 125)])
def test_a_pattern_that_no_job_matches_is_an_error(box, daemon, verb, status):
    result = box.ctl(verb, "nothing-*")
    assert result.rc == status and 'matches "nothing-*"' in result.err, result


@pytest.mark.parametrize("verb,status", [("stop", 2), ("restart", 2), ("rm", 2), ("wait", 125)])
def test_jobs_or_all_of_them_and_not_both(box, daemon, verb, status):
    for args, got in (((), "neither"), (("--all", "a"), "both")):
        result = box.ctl(verb, *args)
        assert result.rc == status and f"expected jobs or --all, got {got}" in result.err, result


def test_restart_by_pattern_leaves_ended_jobs_alone(box, daemon):
    start(daemon, "a-1", "a-2")
    daemon.run(spec(name="a-3"))
    result = box.ctl("restart", "a-*")
    assert result.rc == 0, result
    assert states(daemon) == {"a-1": "running", "a-2": "running"}
    assert daemon.status("a-1")["attempt"] == daemon.status("a-2")["attempt"] == 1
    assert len(daemon.call("List", ended=True)["jobs"]) == 3


def test_restart_asks_all_jobs_before_it_waits_for_one(box, daemon):
    """The first cannot be stopped for a while, which does not keep the second waiting."""
    daemon.submit(spec("ignore:TERM", f"touch:{box.path('up')}", "hang", name="stays",
                       stop={"timeout": "1h"}))
    wait_file(box.path("up"))
    daemon.wait("stays", until="running")
    start(daemon, "goes")
    restart = box.ctl_start("restart", "stays", "goes")
    daemon.until_attempt("goes", 1)
    assert restart.popen.poll() is None
    daemon.call("Kill", job="stays", signal="KILL")
    assert restart.wait().rc == 0


def test_wait_for_several_exits_as_the_first_that_failed(box, daemon):
    for name, code in (("a", 0), ("b", 7), ("c", 9)):
        daemon.submit(spec(f"wait-file:{box.path('go')}", f"exit:{code}", name=name))
    wait = box.ctl_start("wait", "a", "b", "c")
    for name in ("a", "b", "c"):
        daemon.wait(name, until="running")
    assert wait.popen.poll() is None
    box.path("go").touch()
    done = wait.wait()
    assert done.rc == 7, done
    assert [line.split()[0] for line in done.out.splitlines()] == ["a", "b", "c"], done


def test_wait_by_pattern_counts_what_has_ended_already(box, daemon):
    daemon.run(spec("exit:5", name="t-1"))
    daemon.run(spec("exit:6", name="t-2"))
    daemon.run(spec("exit:0", name="t-2"))  # the newest of its name is what counts
    result = box.ctl("wait", "--json", "t-*")
    assert result.rc == 5, result
    assert [j["name"] for j in json.loads(result.out)] == ["t-1", "t-2"]
    assert box.ctl("wait", "t-2*").rc == 0


def test_wait_all_waits_for_what_is_active(box, daemon):
    daemon.run(spec("exit:5", name="over"))
    assert box.ctl("wait", "--all").rc == 0
    daemon.submit(spec(f"wait-file:{box.path('go')}", name="a"))
    daemon.submit(spec(f"wait-file:{box.path('go')}", "exit:3", name="b"))
    heard, way = box.path("heard"), box.path("heard.sock")
    overhear(box, daemon, way, heard)
    wait = box.ctl_start("wait", "--all", f"--socket={way}")
    wait_text(heard, "Manager.Wait")  # it has seen what is active
    box.path("go").touch()
    result = wait.wait()
    assert result.rc == 3, result


def test_wait_that_kills_ends_all_at_the_same_time(box, daemon):
    """More than one connection's calls; none waits for the one before it."""
    names = [f"j{i}" for i in range(6)]
    for name in names:
        daemon.submit(spec("ignore:TERM", f"touch:{box.path(name)}", "hang", name=name,
                           stop={"timeout": "1h"}))
    for name in names:
        wait_file(box.path(name))
        daemon.wait(name, until="running")
    wait = box.ctl_start("wait", "--timeout=100ms", "--kill", *names)
    wait_for(lambda: states(daemon) == dict.fromkeys(names, "stopping"), what="all to be stopped")
    for name in names:
        daemon.call("Kill", job=name, signal="KILL")
    result = wait.wait()
    assert result.rc == 124, result
    assert len(result.out.splitlines()) == len(names), result


def test_wait_that_gives_up_says_so_though_a_job_has_failed(box, daemon):
    daemon.run(spec("exit:5", name="a"))
    start(daemon, "b")
    result = box.ctl("wait", "--timeout=100ms", "a", "b")
    assert result.rc == 124 and "a failed with exit status 5" in result.out, result
    assert "timed out after 0.1 s" in result.err, result


def test_wait_names_what_is_not_there_and_waits_for_the_others(box, daemon):
    daemon.run(spec("exit:0", name="a"))
    result = box.ctl("wait", "a", "nobody", "a")
    assert result.rc == 125 and "no job named nobody" in result.err and "a succeeded" in result.out, result


def test_rm_all_forgets_what_has_ended(box, daemon):
    for _ in range(2):
        daemon.run(spec(name="a"))
    daemon.run(spec(name="b"))
    start(daemon, "a", "c")
    result = box.ctl("rm", "--all")
    assert result.rc == 0 and result.out == "removed 3 runs\n", result
    assert states(daemon, ended=True) == {"a": "running", "c": "running"}
    again = box.ctl("rm", "--all")
    assert again.rc == 0 and again.out == "No job has ended.\n", again


def test_rm_by_pattern(box, daemon):
    daemon.run(spec(name="trial-1", logs={"redirects": 3}))
    daemon.run(spec(name="trial-2"))
    daemon.run(spec(name="other"))
    result = box.ctl("rm", "--logs", "trial-*")
    assert result.rc == 0 and result.out == "removed 2 runs and their logs\n", result
    assert states(daemon, ended=True) == {"other": "succeeded"}
    with pytest.raises(VarlinkError):
        daemon.status("trial-1")
