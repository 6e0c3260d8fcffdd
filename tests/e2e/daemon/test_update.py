# SPDX-License-Identifier: Apache-2.0
"""Jobs that are simply there: the files of jobs.d, started after a boot, and kept as they say."""

import json
import os

import pytest

from harness import PUPPET, wait_file, wait_text
from overhearing import overhear


class Files:
    def __init__(self, box, daemon):
        self.box, self.daemon = box, daemon
        self.dir = daemon.base / "jobs.d"
        self.dir.mkdir(exist_ok=True)

    def write(self, name, *steps, **top):
        path = self.dir / f"{name}.json"
        path.write_text(json.dumps({"roles": [{"command": [PUPPET, *steps]}], **top}))
        return path

    def update(self, *args):
        return self.box.ctl("update", f"--dir={self.dir}", *args)

    def states(self):
        return {j["name"]: j["state"] for j in self.daemon.call("List", ended=True)["jobs"]}


@pytest.fixture
def files(box, daemon):
    return Files(box, daemon)


def test_update_starts_restarts_and_stops_what_differs(files, box, daemon):
    files.write("a", "hang")
    path = files.write("b", "hang", needs=["a"], restart={"max": 1})
    dry = files.update("--dry-run")
    assert dry.rc == 0 and dry.out == "would start a\nwould start b\n" and not files.states()
    assert files.update().out == "started a\nstarted b\n"
    job = daemon.wait("b", until="running")
    assert job["origin"] == str(path) and job["cwd"] == "/"
    assert files.update().out == "2 jobs are as their files say\n"
    files.write("b", "hang", needs=["a"], restart={"max": 2})
    (files.dir / "a.json").unlink()
    pid = job["agent_pid"]
    answer = files.update()
    assert answer.rc == 1 and "b is not started: it needs a, which has stopped" in answer.err
    assert daemon.status("b")["agent_pid"] == pid, "it goes on as it was"
    files.write("b", "hang", restart={"max": 2})
    answer = files.update("--json")
    assert answer.json[0]["action"] == "restart" and answer.json[0]["done"]
    assert {row["path"]: row["new"] for row in answer.json[0]["diff"] if "new" in row} == {"restart.max": 2}
    assert daemon.wait("b", until="running")["agent_pid"] != pid


def test_jobs_wait_until_others_are_ready(files, box, daemon):
    gate, up = box.path("gate"), box.path("up")
    a = {"ready": {"file": str(up), "timeout": "50ms"}}
    files.write("a", f"wait-file:{gate}", f"touch:{up}", "hang", **a)
    files.write("b", "hang", needs=["a"])
    files.write("c", "hang", after=["a"])
    answer = files.update()
    assert answer.rc == 1 and answer.out == "started a\nstarted c\n"
    assert "b is not started: it needs a, which is not ready after 50ms" in answer.err
    daemon.wait("a", until="running")
    assert "State: running, not ready, since" in box.ctl("status", "a").out
    lines = box.ctl("list").out.splitlines()
    assert {x.split()[0] for x in lines if "running, not ready" in x} == {"a"}, lines
    gate.touch()
    assert box.ctl("wait", "--until=ready", "a").out == "a is running, and ready\n"
    assert files.update().out.startswith("started b\n")
    assert "State: running since" in box.ctl("status", "a").out


def test_a_wrong_file_changes_nothing(files, daemon):
    files.write("a", "hang")
    (files.dir / "b.yaml").write_text("rols: []\n")
    (files.dir / "c.yaml.disabled").write_text("rubbish")
    answer = files.update()
    assert answer.rc == 2 and "b.yaml:1:1: rols: unknown key" in answer.err, answer
    assert "nothing was changed" in answer.err
    assert not files.states()
    (files.dir / "b.yaml").unlink()
    files.write("no name", "hang")
    answer = files.update()
    assert answer.rc == 2 and "no name.json: name: a job's name is" in answer.err, answer
    (files.dir / "no name.json").unlink()
    (files.dir / "a.json").chmod(0o666)
    answer = files.update()
    assert answer.rc == 2 and "a.json: others may write it: not read" in answer.err
    (files.dir / "a.json").unlink()
    os.mkfifo(files.dir / "a.json")
    (files.dir / "d.yaml").mkdir()
    answer = files.update()
    assert answer.rc == 2 and "a.json: not a regular file: not read" in answer.err, answer
    assert "d.yaml: not a regular file: not read" in answer.err


def test_two_updates_at_once_do_the_same_work_once(files, box, daemon):
    gate, up = box.path("gate"), box.path("up")
    files.write("a", f"wait-file:{gate}", f"touch:{up}", "hang", ready={"file": str(up)})
    files.write("b", "hang")
    assert files.update().rc == 0
    files.write("b", "hang", needs=["a"], restart={"max": 2})
    files.write("c", "hang", needs=["a"])
    heard = [box.path(name) for name in ("first", "second")]
    both = []
    for h in heard:
        overhear(box, daemon, h.with_suffix(".sock"), h)
        both.append(box.ctl_start("update", f"--dir={files.dir}", f"--socket={h}.sock"))
        wait_text(h, "Manager.Wait")  # it has seen what is to be done
    gate.touch()
    for update in both:
        answer = update.wait()
        assert answer.rc == 0 and not answer.err, answer
    runs = [j["name"] for j in daemon.call("List", ended=True)["jobs"]]
    assert (runs.count("b"), runs.count("c")) == (2, 1)


def test_a_directory_without_job_files_is_named(files):
    assert files.update().out == f"no job files in {files.dir}\n"
    files.dir.rmdir()
    answer = files.update()
    assert answer.rc == 1 and f"{files.dir}: No such file or directory" in answer.err


def test_jobs_are_disabled_and_enabled(files, box, daemon):
    files.write("a", "hang")
    files.write("b", "hang")
    assert files.update().rc == 0
    daemon.wait("b", until="running")
    r = box.ctl("disable", "--now", f"--dir={files.dir}", "a")
    assert r.rc == 0 and "a is disabled" in r.out
    assert files.states() == {"a": "stopped", "b": "running"}
    assert box.ctl("disable", f"--dir={files.dir}", "a").out == "a was disabled already\n"
    r = box.ctl("enable", "--now", f"--dir={files.dir}", "a")
    assert r.rc == 0 and "started a" in r.out
    assert daemon.wait("a", until="running")["state"] == "running"
    assert box.ctl("stop", "b").rc == 0
    (files.dir / "wrong.json").write_text("{")
    r = box.ctl("disable", "--now", f"--dir={files.dir}", "b")
    assert "b is disabled" in r.out and "no file" not in r.err, "there is nothing to stop"
    (files.dir / "b.json").write_text("{}")
    r = box.ctl("disable", f"--dir={files.dir}", "b")
    assert r.rc == 1 and "b.json.disabled: File exists" in r.err
    r = box.ctl("enable", f"--dir={files.dir}", "x")
    assert r.rc == 1 and "no file in" in r.err
    (files.dir / "wrong.json").unlink()
    (files.dir / "b.json").unlink()
    (files.dir / "file.json").write_text(json.dumps({"name": "c", "roles": [{"command": [PUPPET, "hang"]}]}))
    assert box.ctl("enable", "--now", f"--dir={files.dir}", "c").rc == 0
    r = box.ctl("disable", "--now", f"--dir={files.dir}", "c")
    assert r.rc == 0 and "stopped c" in r.out and not (files.dir / "file.json").exists()


def test_a_job_that_was_started_by_hand_is_left_alone(files, box, daemon):
    assert box.ctl("start", "--name=a", "--no-python", PUPPET, "hang").rc == 0
    files.write("a", "hang")
    answer = files.update()
    assert answer.rc == 1 and "a is active, but was not started from" in answer.err
    assert files.states() == {"a": "running"}


def test_after_a_boot_elasticd_starts_the_jobs_once(box):
    daemon = box.new_daemon(config="")
    files = Files(box, daemon)
    files.write("a", f"touch:{box.path('a')}", "hang")
    files.write("done", f"touch:{box.path('done')}", "exit:0")
    (files.dir / "wrong.json").write_text("{")
    files.write("round", "hang", needs=["round"])
    daemon.start()
    wait_file(box.path("a"))
    wait_file(box.path("done"))
    daemon.program.wait_err("wrong.json")
    daemon.program.wait_err("round.json: jobs wait for each other: round -> round")
    daemon.program.wait_err("not all jobs of jobs.d were started")
    daemon.wait("done")
    daemon.call("Stop", job="a")
    daemon.wait("a")
    # Another elasticd of this boot leaves what a person has stopped.
    wait_file(daemon.state / "boot")
    daemon.restart()
    assert files.states() == {"a": "stopped", "done": "succeeded"}
    box.path("a").unlink()
    box.path("done").unlink()
    (daemon.state / "boot").write_text("an earlier one")
    daemon.restart()
    wait_file(box.path("a"))
    assert not box.path("done").exists(), "it has succeeded: nothing is left to do"
