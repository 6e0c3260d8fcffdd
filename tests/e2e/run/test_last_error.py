# SPDX-License-Identifier: Apache-2.0
"""What an agent says before it ends reaches whoever asks for its run."""

import json

from harness import puppet, spec
from killing import kill_agent, up


def unwritable(box, daemon):
    """A log directory that no agent of this run can ever use."""
    path = box.path("in-the-way")
    path.write_text("")
    return path, spec("hang", name="refused", logs={"dir": str(path / "logs")}, restart={"max": 5})


def test_a_log_directory_that_cannot_be_used_is_named_and_not_tried_again(box, daemon):
    path, document = unwritable(box, daemon)
    _, run = daemon.submit(document)
    job = daemon.wait(run)
    verdict = job["verdict"]
    assert (verdict["result"], verdict["exit_status"]) == ("failed", 125), verdict
    assert str(path) in verdict["message"] and "Not a directory" in verdict["message"], verdict
    assert "lost" not in verdict["message"]
    record = json.loads((daemon.record(run) / "record.json").read_text())
    assert record["agent_losses"] == 0, "no second agent was tried"


def test_start_errors_why_and_status_say_why_an_agent_could_not_begin(box, daemon):
    path, document = unwritable(box, daemon)
    started = box.ctl("start", "--name=refused", f"--log-dir={path / 'logs'}", "--no-python", *puppet("hang"))
    assert started.rc == 1 and "Not a directory" in started.err, started
    assert "started" not in started.out, started
    for verb in ("errors", "why", "status"):
        shown = box.ctl(verb, "refused")
        assert str(path) in shown.out and "Not a directory" in shown.out, shown
    assert box.ctl("wait", "refused").rc == 125
    assert box.ctl("events", "refused").out == "refused: no events\n"
    assert box.ctl("events", "--json", "refused").out == ""


def test_the_logs_of_a_run_that_never_began_say_why_there_are_none(box, daemon):
    path, document = unwritable(box, daemon)
    _, run = daemon.submit(document)
    daemon.wait(run)
    shown = box.ctl("logs", run)
    assert shown.rc == 1 and str(path) in shown.err and "Not a directory" in shown.err, shown
    started = box.ctl("start", "--follow", "--name=refused", f"--log-dir={path / 'logs'}", "--no-python",
                      *puppet("hang"))
    assert started.rc == 125 and "Not a directory" in started.out + started.err, started
    assert "goes on" not in started.err and "/dev/null" not in started.err, started


def test_a_lost_run_says_how_its_agent_died(box, daemon):
    _, run, job = up(box, daemon)
    kill_agent(job, "agent")
    verdict = daemon.wait(run)["verdict"]
    assert verdict["result"] == "agent_lost"
    assert f"the agent (pid {job['agent_pid']}) was killed by SIGKILL" in verdict["message"], verdict
    for verb in ("errors", "why", "status"):
        shown = box.ctl(verb, run)
        assert "was killed by SIGKILL" in shown.out, shown


def test_an_agent_that_is_given_up_is_told_of_with_its_last_words(box, daemon):
    name, run = daemon.submit(spec("hang", restart={"max": 1000}))
    attempt = 0
    while True:  # three times within a minute: on a slow machine it takes more of them
        job = daemon.watch(name, lambda job, _, n=attempt: job.get("verdict")
                           or (job["state"], job["attempt"]) == ("running", n))
        if job.get("verdict"):
            break
        pid = job["agent_pid"]
        kill_agent(job, "agent")
        attempt += 1
    verdict = daemon.wait(run)["verdict"]
    assert verdict["result"] == "agent_lost", verdict
    text = f"lost 3 times within a minute: the agent (pid {pid}) was killed by SIGKILL"
    assert text in verdict["message"], verdict
    for verb in ("errors", "why", "status"):
        shown = box.ctl(verb, run)
        assert text in shown.out, shown
