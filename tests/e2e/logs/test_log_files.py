# SPDX-License-Identifier: Apache-2.0
"""Files where workers may write: nothing that a worker or a file system does there holds up an agent."""

import json
import os
import signal

import pytest

from harness import BUILD, CTL, PUPPET, SANITIZED, spec, wait_file, wait_for

TASK = {"scope": "worker", "max": 1}


def stalled(box):
    """The environment of an agent for which the log directory hangs while the flag is there."""
    if SANITIZED:
        pytest.skip("a sanitizer's runtime has to be the first library")
    return {"LD_PRELOAD": os.path.join(BUILD, "tests/tools/stall.so"),
            "STALL_DIR": str(box.path("logs")), "STALL_FLAG": str(box.path("hangs"))}


def start_run(box, doc, **kwargs):
    path = box.path("job.json")
    path.write_text(json.dumps(doc))
    return box.run_start("--spec", path, **kwargs)


@pytest.mark.parametrize("logs", [{}, {"tee": 3}, {"max_size": 4096}])
def test_a_fifo_in_place_of_a_log_does_not_block_the_agent(box, daemon, logs):
    log = daemon.logs.joinpath
    swap = ("import os, sys, glob; d, = glob.glob(sys.argv[1]);"
            "[(os.unlink(f), os.mkfifo(f)) for f in glob.glob(d + '/*') if 'lock' not in f]")
    doc = spec("print:x", "wait-file:" + str(box.path("go")), "exit:1", restart=TASK,
               logs={"redirects": 3, **logs})
    name, run = daemon.submit(doc)
    daemon.wait(name, until="running")
    where = log(run, "attempt_0", "0")
    wait_for(lambda: (where / "stdout.log").exists() and (where / "worker.json").exists())
    assert box.sh("python3", "-c", swap, str(where)).rc == 0
    box.path("go").touch()
    job = daemon.wait(name)
    assert job["state"] == "failed" and job["verdict"]["exit_status"] == 1, job
    assert "worker-restarted" in [e["event"] for e in daemon.events(run)]


def test_a_fifo_that_readers_meet_ends_no_reader(box, daemon):
    job = daemon.run(spec("print:x", logs={"redirects": 3}))
    where = daemon.logs / job["run"] / "attempt_0" / "0"
    for path in list(where.iterdir()):
        path.unlink()
        os.mkfifo(path)
    got = box.ctl("logs", job["run"])
    assert "x" not in got.out


def test_a_log_directory_that_hangs_stops_neither_stop_nor_a_restart(box):
    hangs, again, done, ready = (box.path(n) for n in ("hangs", "again", "done", "ready"))
    doc = spec(f"if-rank:0:wait-file:{ready}+touch:{hangs}+hang",
               f"if-file:{again}:touch:{done}+hang",
               f"touch:{again}", f"touch:{ready}", f"wait-file:{hangs}", "exit:1",
               replicas=2, restart=TASK, logs={"redirects": 3})
    run = start_run(box, doc, env=stalled(box))
    wait_file(done)
    run.signal(signal.SIGTERM)
    assert run.wait().rc == 143
    assert "does not answer" in run.err
    hangs.unlink()


def test_an_agent_begins_without_a_log_directory_that_hangs(box):
    box.path("hangs").touch()
    run = start_run(box, spec("hang"), env=stalled(box))
    assert run.wait().rc == 125
    assert f"logs.dir: {box.path('logs')}: the file system does not answer" in run.err


def test_the_log_directory_has_the_names_of_exported_variables_and_no_values(box, daemon):
    started = box.ctl("start", "--name=job", "--export=API_TOKEN", "--env=OTHER=open-sesame", PUPPET,
                      "exit:0", env={"API_TOKEN": "open-sesame"})
    assert started.rc == 0, started
    run = daemon.wait("job")["run"]
    assert box.run(f"--log-dir={daemon.logs}", "--env=API_TOKEN=open-sesame", PUPPET, "exit:0").rc == 0
    files = [p for p in daemon.logs.rglob("*") if p.is_file()]
    assert not [p for p in files if b"open-sesame" in p.read_bytes()]
    doc = json.loads((daemon.logs / run / "job.json").read_text())
    assert {"API_TOKEN", "OTHER"} <= set(doc["spec"]["roles"][0]["env"])


@pytest.mark.root
def test_a_user_without_a_name_is_a_number(box):
    box.open_to_all()
    argv = ["setpriv", "--reuid=61234", "--regid=61234", "--clear-groups", CTL, "run", "--name=j",
            f"--log-dir={box.path('theirs')}", "--no-python", "true"]
    box.path("theirs").mkdir()
    os.chown(box.path("theirs"), 61234, 61234)
    result = box.sh(*argv)
    assert result.rc == 0, result
    top = (box.path("theirs") / "j.latest").resolve()
    assert json.loads((top / "job.json").read_text())["user"] == "61234"
