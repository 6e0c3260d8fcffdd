# SPDX-License-Identifier: Apache-2.0
"""elasticctl: what it says to a command line that is not quite right."""

import json
import os
import pathlib
import re
import signal

import pytest

from harness import Varlink, puppet, spec


@pytest.mark.parametrize("args,guess", [
    (["statsu"], '"status"'), (["help", "statsu"], '"status"'), (["task", "lst"], '"task list"'),
    (["list", "--jsn"], "--json"), (["--jsn", "list"], "--json"), (["logs", "--folow", "a"], "--follow"),
    (["run", "--nproc-per-nod3=2", "true"], "--nproc-per-node"), (["start", "--flow", "true"], "--follow"),
])
def test_misspelt_words_get_a_suggestion(box, args, guess):
    result = box.ctl(*args)
    assert result.rc in (2, 125), result
    assert f"did you mean {guess}?" in result.err, result


@pytest.mark.parametrize("args", [
    ["sto"], ["stopp"], ["kil"], ["resart"], ["shutdwn"], ["help", "kil"], ["r"], ["preemt"], ["scal"],
    ["task", "cancl"], ["task", "clos"],
])
def test_no_suggestion_is_a_verb_that_ends_something(box, args):
    result = box.ctl(*args)
    assert result.rc == 2 and "there is no verb" in result.err, result
    assert "did you mean" not in result.err, result


def test_the_name_of_an_unknown_verb_is_what_was_written(box):
    assert 'there is no verb "statsu"' in box.ctl("help", "statsu").err
    assert 'there is no verb "task statsu"' in box.ctl("task", "statsu").err


def test_an_option_that_could_be_several_names_them(box):
    result = box.ctl("stop", "--no", "x")
    assert result.rc == 2 and 'could be any of --no-wait, --no-legend' in result.err, result


@pytest.mark.parametrize("args,status,said", [
    (["logs", "--rank=x", "a"], 2, '--rank: expected a set of ranks such as "0,3-7", got "x"'),
    (["kill", "--rank=1-0", "a"], 2, '--rank: expected ranges from low to high such as "3-7", got "1-0"'),
    (["start", "--export=A=1,2", "true"], 2,
     '--export: expected ALL, NONE, or NAME and NAME=VALUE with commas between, got "2"'),
    (["run", "--spec="], 125, '--spec: expected a file, got ""'),
    (["stop", ""], 1, 'no job named ""'),
    (["errors", "--attempt=3000000000", "a"], 2,
     '--attempt: expected an integer <= 2147483647, got "3000000000"'),
])
def test_a_value_that_is_refused_is_named_with_what_was_expected(box, daemon, args, status, said):
    result = box.ctl(*args)
    assert result.rc == status and result.err.startswith(f"elasticctl: {said}\n"), result


@pytest.mark.parametrize("name", ["1BAD", "", "A-B", "A B", "ä"])
def test_a_variable_on_the_command_line_has_a_name_that_a_shell_takes(box, daemon, name):
    for verb, status in (("run", 125), ("start", 2)):
        result = box.ctl(verb, f"--env={name}=3", "true")
        assert result.rc == status and "--env: expected NAME or NAME=VALUE" in result.err, result
    if name:
        result = box.ctl("start", f"--export={name}=3", "true")
        assert result.rc == 2 and "--export: expected" in result.err, result
    assert daemon.call("List", ended=True)["jobs"] == []


@pytest.mark.parametrize("how", [[], ["--wait"], ["--follow"], ["--no-wait"]])
def test_start_says_started_of_what_was_executed_only(box, daemon, how):
    result = box.ctl("start", *how, "--name=absent", "--no-python", "/no/such/program")
    assert not re.search(r"\bstarted\b", result.out), result
    daemon.wait("absent")
    box.path("go").touch()
    result = box.ctl("start", *how, "--name=there", "--", *puppet(f"wait-file:{box.path('go')}"))
    assert result.rc == 0, result
    said = "there is starting (run there_" if how == ["--no-wait"] else "started there (run there_"
    assert said in result.out, result


@pytest.mark.parametrize("how", [[], ["--wait"], ["--follow"]])
def test_start_says_why_no_worker_could_begin_and_not_started(box, daemon, how):
    wrong = box.path("work/file")
    wrong.touch()
    result = box.ctl("start", *how, "--name=j", f"--log-dir={wrong}", "--", *puppet("exit:0"))
    assert result.rc == (1 if not how else 125) and result.out.count("started") == 0, result
    said = result.out + result.err
    assert f"logs.dir: {wrong}" in said and "tells more" not in said, result
    assert "no failures of workers" in box.ctl("errors", "j").out
    assert "the run has no logs" in box.ctl("logs", "j").err


def test_a_run_that_no_worker_ended_is_described_in_words(box, daemon):
    name, _ = daemon.submit(spec("hang", name="slow", max_run_time="1s"))
    said = "ended with exit status 124: timed out after 1 s"
    assert f"slow {said}" in box.ctl("wait", name).out
    assert f"Verdict: {said}" in box.ctl("status", name).out
    assert f"no failures of workers; the run {said}" in box.ctl("errors", name).out
    name, _ = daemon.submit(spec("hang", name="lost"))
    os.kill(daemon.wait(name, until="running")["agent_pid"], signal.SIGKILL)
    assert "lost ended with exit status 125: the agent" in box.ctl("wait", name).out


def test_a_run_without_logs_is_followed_to_its_end(box, daemon):
    result = box.ctl("start", "--follow", "--name=j", "--log-dir=/dev/null", "--", *puppet("exit:3"))
    assert result.rc == 3 and "keeps no log files" in result.err, result
    assert "j failed with exit status 3" in result.err and "goes on" not in result.err, result


def test_root_without_a_daemon_is_pointed_to_systemctl(box):
    socket = "/run/elasticd/control.sock"
    if os.geteuid() != 0 or pathlib.Path(socket).exists():
        pytest.skip("this is for root, on a host without an elasticd of its own")
    result = box.ctl("list", env={"ELASTICD_SOCKET": None})
    assert result.rc == 5 and f"{socket}; start one with \"systemctl start elasticd\"" in result.err, result
    result = box.ctl("list")
    assert result.rc == 5 and "systemctl" not in result.err, result


def test_the_services_name_the_projects_own_page(box, daemon):
    name, _ = daemon.submit(spec("hang"))
    daemon.wait(name, until="running")
    sockets = [daemon.socket, daemon.agent_sock(name), daemon.agent_sock(name).parent / "worker.sock"]
    for path in sockets:
        with Varlink(path) as v:
            assert v.call("org.varlink.service.GetInfo")["url"] == "man:elasticd-protocol(7)"


def test_events_since_a_time(box, daemon):
    job = daemon.run({"roles": [{"command": puppet("if-attempt:0:exit:3")}], "restart": {"max": 1}})
    events = daemon.events(job["run"])
    middle = events[len(events) // 2]["time_us"]
    result = box.ctl("events", "--json", f"--since=@{middle // 1000000}.{middle % 1000000:06d}", job["run"])
    assert result.rc == 0, result
    got = [json.loads(line) for line in result.out.splitlines()]
    assert got == [e for e in events if e["time_us"] >= middle]
    assert len(box.ctl("events", "--since=1h", job["run"]).out.splitlines()) == len(events)
    assert box.ctl("events", "--since=now", job["run"]).out == ""
    assert len(box.ctl("events", "--since=2", job["run"]).out.splitlines()) == len(events) - 2
    wrong = box.ctl("events", "--since=soon", job["run"])
    assert wrong.rc == 2 and "--since: expected" in wrong.err, wrong
