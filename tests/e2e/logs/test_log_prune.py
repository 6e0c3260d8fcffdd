# SPDX-License-Identifier: Apache-2.0
"""Logs of runs that have ended are pruned: the oldest first, never one that runs or another's."""

import json
import os

from harness import PUPPET, Daemon, spec, wait_for


def runs(daemon):
    return [job["run"] for job in daemon.call("List", ended=True)["jobs"]]


def end_one(daemon, *steps, **top):
    return daemon.run(spec(*(steps or ("print:x",)), name="job", **top))["run"]


def gone(daemon, run):
    wait_for(lambda: run not in runs(daemon))
    assert not (daemon.logs / run).exists() and not daemon.record(run).exists()


def configured(box, text, name="d"):
    daemon = box.new_daemon(name=name, config=f"[logs]\n{text}\n")
    return daemon.start()


def test_the_oldest_runs_go_with_their_logs_and_each_is_in_the_log(box):
    daemon = configured(box, "keep_runs = 2")
    first, second, third = (end_one(daemon) for _ in range(3))
    gone(daemon, first)
    assert runs(daemon) == [second, third]
    assert (daemon.logs / second).exists() and (daemon.logs / third).exists()
    assert os.readlink(daemon.logs / "job.latest") == third
    assert f"job job ({first}): removing the run and its logs: more than 2 ended runs" in daemon.program.err


def test_runs_go_until_the_logs_of_the_others_fit(box):
    daemon = configured(box, "keep_bytes = 1500000")
    big = "lines:10000:100"  # a megabyte
    first = end_one(daemon, big, logs={"redirects": 3})
    assert daemon.status(first)["log_bytes"] >= 1000000
    second = end_one(daemon, "print:small")
    assert runs(daemon) == [first, second]
    third = end_one(daemon, big, logs={"redirects": 3})
    gone(daemon, first)
    assert runs(daemon) == [second, third], "the newest always stays"


def ended_earlier(daemon, run, hours):
    """As the next elasticd will find it."""
    path = daemon.record(run) / "record.json"
    record = json.loads(path.read_text())
    record["brief"]["ended_us"] -= hours * 3600 * 1000000
    path.write_text(json.dumps(record))


def test_running_jobs_are_never_pruned_and_old_runs_at_the_start(box):
    daemon = configured(box, "keep_days = 1\nkeep_runs = 1")
    living, run = daemon.submit(spec("hang", name="living"))
    daemon.wait(living, until="running")
    old = end_one(daemon)
    daemon.kill()
    ended_earlier(daemon, old, 25)
    daemon.start()
    gone(daemon, old)
    assert runs(daemon) == [run] and (daemon.logs / run).exists()
    assert "older than 1 day" in daemon.program.err


def test_no_link_is_followed_and_a_directory_that_a_job_named_stays(box):
    daemon = configured(box, "keep_runs = 1")
    mine = box.path("mine")
    kept = daemon.run(spec("print:x", name="own", logs={"dir": str(mine)}))["run"]
    outside = box.path("outside")
    outside.mkdir()
    (outside / "precious").write_text("x")
    linked = end_one(daemon)
    os.symlink(outside, daemon.logs / linked / "attempt_0" / "way")
    end_one(daemon)
    gone(daemon, linked)
    wait_for(lambda: kept not in runs(daemon))
    assert (mine / kept / "attempt_0").exists(), "it is only forgotten"
    assert (outside / "precious").exists()


def test_runs_of_another_daemon_in_the_same_directory_stay(box):
    other = box.new_daemon(name="other").start()
    theirs = end_one(other)
    daemon = Daemon(box, config="[logs]\nkeep_runs = 1\n")
    daemon.logs = other.logs
    box.daemons.append(daemon)
    daemon.start()
    ours = end_one(daemon)
    end_one(daemon)
    gone(daemon, ours)
    assert (other.logs / theirs).exists() and runs(other) == [theirs]


def test_a_removal_that_was_cut_short_is_done_again(box):
    daemon = configured(box, "keep_runs = 0")
    old = end_one(daemon)
    end_one(daemon)
    (daemon.base / "elasticd.conf").write_text("[logs]\nkeep_runs = 1\n")
    daemon.kill()
    for path in (daemon.logs / old).glob("*.json"):
        path.unlink()  # as far as it had come
    daemon.start()
    gone(daemon, old)


def test_run_removes_the_oldest_ended_runs_in_its_directory(box, daemon):
    """Never one that runs, or elasticd's; what runs is known by its lock."""
    logs = daemon.logs
    theirs = end_one(daemon)
    where = f"--log-dir={logs}"

    def newest():
        return os.readlink(logs / "mine.latest")

    assert box.run(where, "--name=mine", PUPPET, "print:x").rc == 0
    first = newest()
    living = box.run_start(where, "--name=living", PUPPET, f"wait-file:{box.path('go')}")
    wait_for(lambda: (logs / "living.latest").exists())
    assert box.run(where, "--name=mine", PUPPET, "print:x").rc == 0
    second = newest()
    assert (logs / first).exists(), "nothing goes without being asked for"
    third = box.run_start(where, "--keep-runs=1", "--name=mine", PUPPET, f"wait-file:{box.path('go')}")
    wait_for(lambda: not (logs / first).exists())
    assert f"removing the logs of {first}: more than 1 ended run" in third.err
    box.path("go").touch()
    assert third.wait().rc == 0 and living.wait().rc == 0
    assert (logs / second).exists() and (logs / theirs).exists()
    assert (logs / os.readlink(logs / "living.latest") / "verdict.json").exists()


def test_rm_removes_what_ended_long_ago(box):
    daemon = configured(box, "keep_days = 0")
    old, new = end_one(daemon), end_one(daemon)
    daemon.kill()
    ended_earlier(daemon, old, 8 * 24)
    daemon.start()
    assert box.ctl("rm", "--older-than=7d", "job").rc == 2
    assert box.ctl("rm", "--older-than=7 moons").rc == 2
    removed = box.ctl("rm", "--logs", "--older-than=7d")
    assert removed.rc == 0 and "removed 1 run" in removed.out + removed.err, removed
    assert runs(daemon) == [new] and not (daemon.logs / old).exists()
    assert box.ctl("rm", "--older-than=7d").rc == 0
