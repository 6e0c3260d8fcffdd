# SPDX-License-Identifier: Apache-2.0
"""A file system that does not answer holds up no job's end, no other job and no elasticd."""

import json
import time

import pytest

from hanging import hanging
from harness import PUPPET, spec, stat_of, wait_file, wait_gone, wait_text

pytestmark = pytest.mark.root


def test_run_ends_where_its_log_directory_hangs_from_the_beginning(box):
    with hanging() as d:
        d.hang()
        run = box.run(f"--log-dir={d.path}", PUPPET, "hang")
        assert run.rc == 125
        assert f"logs.dir: {d.path}: the file system does not answer" in run.err


def test_run_begins_where_its_users_state_directory_hangs(box):
    with hanging() as d:
        d.hang()
        run = box.ctl("run", "--redirects=3", PUPPET, "exit:7", env={"XDG_STATE_HOME": str(d.path)})
        assert run.rc == 7, run
        assert "cannot be written: the file system does not answer" in run.err


def test_a_job_whose_log_directory_begins_to_hang_can_be_stopped(box, daemon):
    with hanging() as d:
        doc = spec("hang", name="held", restart={"max": 3}, logs={"dir": str(d.path), "redirects": 3})
        _, run = daemon.submit(doc)
        daemon.wait(run, until="running")
        d.hang()
        daemon.call("Stop", job=run)
        job = daemon.wait(run)
        assert job["state"] == "stopped" and job["verdict"]["result"] == "stopped", job
        assert json.loads((daemon.record(run) / "verdict.json").read_text())["result"] == "stopped"
        # The name is free as well.
        assert daemon.run(spec("exit:0", name="held"))["state"] == "succeeded"


def test_a_job_whose_log_directory_begins_to_hang_ends_by_itself(box, daemon):
    with hanging() as d:
        doc = spec(f"wait-file:{box.path('go')}", "exit:3", name="held",
                   logs={"dir": str(d.path), "redirects": 3})
        _, run = daemon.submit(doc)
        daemon.wait(run, until="running")
        guard = stat_of(daemon.agent_pid(run))[1]
        d.hang()
        box.path("go").touch()
        job = daemon.wait(run)
        assert job["state"] == "failed" and job["verdict"]["exit_status"] == 3, job
        wait_gone(guard)


@pytest.mark.ci
def test_a_job_in_a_directory_that_hangs_delays_no_other_job(box, daemon):
    with hanging() as d:
        d.hang()
        name, run = daemon.submit(spec("hang", logs={"dir": str(d.path)}))
        longest = 0.0
        while "lost its agent" not in daemon.program.err:
            begun = time.monotonic()
            assert [j["name"] for j in daemon.call("List")["jobs"]] == [name]
            longest = max(longest, time.monotonic() - begun)
        # An elasticd that waited for that file system would do so for 3 s (LOG_FS_LIMIT_MS), or for ever.
        assert longest < 2.5, f"a list took {longest} s"
        assert daemon.run(spec("exit:0", name="other"))["state"] == "succeeded"
        assert "the file system does not answer" in (daemon.record(run) / "last_error").read_text()


def test_elasticd_begins_where_its_log_directory_hangs(box):
    with hanging() as d:
        daemon = box.new_daemon()
        daemon.logs = d.path
        daemon.start()
        _, run = daemon.submit(spec("hang", logs={"dir": str(box.path("logs"))}))
        daemon.wait(run, until="running")
        d.hang()
        daemon.restart()
        assert daemon.wait(run, until="running")["state"] == "running"
        assert f"{d.path}: the file system does not answer" in daemon.program.err


def test_a_progress_file_that_hangs_delays_no_log(box):
    with hanging() as d:
        log = box.path("logs")
        doc = spec(f"touch:{box.path('up')}", f"wait-file:{box.path('go')}", "print:word",
                   "exit:0", logs={"redirects": 3, "max_size": 4096},
                   heartbeat={"progress_file": str(d.path), "progress_file_timeout": "100ms",
                              "on_failure": "report"})
        path = box.path("job.json")
        path.write_text(json.dumps(doc))
        d.hang()
        run = box.run_start("--spec", path)
        wait_file(box.path("up"))
        run.wait_err("the file system of heartbeat.progress_file does not answer")
        box.path("go").touch()
        assert run.wait().rc == 0
        assert "file system of the logs" not in run.err
        wait_text(next(log.glob("*_*/attempt_0/0/stdout.log")), "word")
