# SPDX-License-Identifier: Apache-2.0
"""rm: what has ended is forgotten, with its logs where asked."""

import pathlib

import pytest

from harness import VarlinkError, spec


def test_everything_of_a_run_is_gone(box, daemon):
    job = daemon.run(spec("print:x", name="gone", logs={"redirects": 3}))
    logs = pathlib.Path(job["log_dir"])
    assert daemon.call("Remove", job="gone", logs=True)["removed"] == 1
    assert not daemon.record(job["run"]).exists() and not logs.exists()
    assert not (daemon.runtime / "jobs" / "gone").exists()
    assert not (logs.parent / "gone.latest").is_symlink()
    with pytest.raises(VarlinkError) as e:
        daemon.status("gone")
    assert e.value.name == "NotFound"
    daemon.restart()
    assert daemon.call("List", ended=True)["jobs"] == []


def test_logs_stay_unless_asked(daemon):
    job = daemon.run(spec("print:x", logs={"redirects": 3}))
    daemon.call("Remove", job=job["run"])
    assert daemon.log(job, 0, 0).read_bytes() == b"x\n"


def test_an_active_job_is_refused(daemon):
    name, _ = daemon.submit(spec("hang"))
    with pytest.raises(VarlinkError) as e:
        daemon.call("Remove", job=name)
    assert e.value.name == "FailedPrecondition"
    assert daemon.wait(name, until="running")["state"] == "running"


def test_one_run_of_several(daemon):
    first = daemon.run(spec("print:1", name="j", logs={"redirects": 3}))
    second = daemon.run(spec("print:2", name="j", logs={"redirects": 3}))
    daemon.call("Remove", job=first["run"], logs=True)
    assert daemon.status("j")["run"] == second["run"]
    assert daemon.log(second, 0, 0).read_bytes() == b"2\n"
    assert not pathlib.Path(first["log_dir"]).exists()


def test_a_log_directory_with_foreign_files_and_links(box, daemon):
    """Only what is the run's own is removed, and no link is followed."""
    outside = box.path("outside")
    outside.mkdir()
    (outside / "precious").write_text("x")
    job = daemon.run(spec("print:x", logs={"redirects": 3}))
    (pathlib.Path(job["log_dir"]) / "link").symlink_to(outside)
    (pathlib.Path(job["log_dir"]) / "attempt_0" / "link").symlink_to(outside)
    daemon.call("Remove", job=job["run"], logs=True)
    assert (outside / "precious").exists()


def test_by_command_line(box, daemon):
    daemon.run(spec(name="a"))
    daemon.run(spec(name="b"))
    result = box.ctl("rm", "--logs", "a", "b")
    assert result.rc == 0, result
    assert daemon.call("List", ended=True)["jobs"] == []
    assert box.ctl("rm", "a").rc in (1, 4)
