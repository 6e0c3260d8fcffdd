# SPDX-License-Identifier: Apache-2.0
"""The tutorial's files are written and its commands run, one after the other; what it shows is what
appears."""

import collections
import os
import re
import signal

import pytest

from harness import BUILD, ROOT, SLOWER, have, wait_for, wait_text
from python_package import ENV, needs_library, python_with

pytestmark = [needs_library, pytest.mark.slow, pytest.mark.seconds(300)]
LONG = 240 * SLOWER
TUTORIAL = ROOT / "doc/tutorial.md"
TENSORFLOW = re.compile(r"^## TensorFlow\n.*?(?=^## )", re.M | re.S)
FILE = re.compile(r"^(?:#|/\*) ([\w.]+\.(?:py|c|yaml))(?: \*/)?$")


def blocks(text=None):
    """(language, lines) of each fenced block: of all but the section about TensorFlow, or of text."""
    if text is None:
        text = re.sub(TENSORFLOW, "", TUTORIAL.read_text())
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
    return [(language, text.splitlines()) for language, text in found]


def files(text=None):
    named = [(FILE.match(lines[0]), lines) for language, lines in blocks(text) if language != "sh"]
    assert all(match for match, _ in named), "a block does not begin with its file's name"
    return {match[1]: "\n".join(lines) + "\n" for match, lines in named}


def commands(text=None):
    """(command, the lines it shows)."""
    found = []
    for language, lines in blocks(text):
        for line in lines if language == "sh" else []:
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


@pytest.fixture
def desk(box):
    """A directory with the tutorial's files, where the installed things are found."""
    for name, text in files().items():
        box.path("work", name).write_text(text)
    box.env.update(ENV, PATH=f"{BUILD}:{os.environ['PATH']}", PKG_CONFIG_PATH=str(BUILD))
    return box


# These differ from one run to the next: names of runs, processes, times, and the order of ends.
VARIES = [(re.compile(pattern), repl) for pattern, repl in [
    (r"\b(\w+)_[0-9a-z]{8}\b", r"\1_xxxxxxxx"),
    (r"\bpid(:?) \d+", r"pid\1 N"),
    (r"\bafter [\d.]+ ?m?s\b", "after T"),
    (r"\bdefault:\d( \(pid N\)): exit code 1 ", r"default:I\1: exit code 1 "),
    (r"run: the root cause is another one: ", "run: "),  # another worker fails with it, and ends first
    (r"(RuntimeError: a bad batch) \(exit code 1\);", r"\1;"),  # it may still be ending then
    (r"\btask \d+ of worker:\d", "task N of worker:I"),
    (r"\bworker:\d( \(pid N\))?: signal", r"worker:I\1: signal")]]


def alike(lines):
    """The lines as a bag, with what varies in one form: workers print in any order."""
    for pattern, repl in VARIES:
        lines = [pattern.sub(repl, line) for line in lines]
    return collections.Counter(lines)


def compare(command, shown, result):
    there, wanted = alike((result.out + result.err).splitlines()), alike(shown)
    more_is_there = wanted.pop("...", 0)
    assert not wanted - there, ("shown, but not printed", command, wanted - there, result)
    assert more_is_there or not there - wanted, ("printed, but not shown", command, there - wanted, result)


def test_every_command_shows_what_the_tutorial_says(desk):
    daemon = None
    for command, shown in commands():
        if command.startswith("cc ") and not (have("cc") and have("pkg-config")):
            break  # nothing after it works without
        if command.startswith("elasticctl start"):
            daemon = desk.daemon
            command += " --env ELASTICD_LIBRARY"
        result = desk.sh("sh", "-c", command, timeout=LONG)
        assert result.rc == 0, result
        compare(command, shown, result)
    assert daemon, "no command starts a job"


def test_the_example_is_the_tutorials():
    example = (ROOT / "examples/elastic.py").read_text()
    program = files()["elastic.py"].partition("\n")[2]
    assert example.endswith(program) and len(program) > 1000


def test_the_readmes_script_works(desk):
    text = (ROOT / "README.md").read_text()
    script = re.search(r"`meet.py`:\n\n```python\n(.*?)^```$", text, re.M | re.S)[1]
    desk.path("work/meet.py").write_text(script)
    for command in re.findall(r"^    (.*meet\.py)$", text, re.M):
        result = desk.sh("sh", "-c", command, timeout=LONG)
        assert result.rc == 0 and "rank 0 of" in result.out, result


@pytest.fixture
def tensor_desk(desk):
    """The same with the section about TensorFlow, whose python3 is one that has it."""
    python = python_with(desk, "tensorflow", "ELASTIC_TF_PYTHON", "/opt/venv-tf/bin/python3")
    section = TENSORFLOW.search(TUTORIAL.read_text())[0]
    for name, text in files(section).items():
        desk.path("work", name).write_text(text)
    program = desk.path("bin/python3")
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    program.chmod(0o755)
    desk.env["PATH"] = f"{desk.path('bin')}:{desk.env['PATH']}"
    return desk, section


def test_tensorflows_programs_run_as_the_tutorial_shows(tensor_desk):
    desk, section = tensor_desk
    for command, shown in commands(section):
        result = desk.sh("sh", "-c", command, timeout=LONG)
        assert result.rc == 0, result
        assert result.out.splitlines() == shown, result


def test_tensorflows_handler_saves_on_a_notice_and_goes_on(tensor_desk):
    desk, _ = tensor_desk
    first = desk.run_start("--spec=mirrored.yaml", env={"PAUSE": "0.1"}, cwd=str(desk.path("work")))
    first.wait_out("begins at step 0", timeout=LONG)
    first.signal(signal.SIGTERM)
    assert first.wait(timeout=LONG).rc == 42, first
    again = desk.run("--spec=mirrored.yaml", cwd=str(desk.path("work")), timeout=LONG)
    assert again.rc == 0, again
    begun = int(re.search(r"begins at step (\d+)", again.out)[1])
    assert f"y = 3.00 x + 1.00, from step {begun} on" in again.out and begun < 60, again


def serve(desk, pause):
    daemon = desk.daemon
    started = desk.ctl("start", "--spec=servers.yaml", f"--env=PAUSE={pause}", "--export=PATH",
                       cwd=str(desk.path("work")))
    assert started.rc == 0, started
    return daemon.status("servers")


def lose_the_server(desk, job):
    daemon = desk.daemon
    assert desk.ctl("kill", "-s", "KILL", "servers/ps:0").rc == 0
    assert desk.ctl("wait", "servers", timeout=LONG).rc == 0
    said = daemon.log(job, 0, 0).read_text()
    assert said.count("epoch 0") == 1 and "y = 3.0 x + 1.0" in said, said
    why = desk.ctl("why", "servers").out
    assert re.search(r"chief:0: 0 of 5 restarts used.* [1-9]\d* not counted", why), why
    assert re.search(r"ps:0: 1 of 5 restarts used", why), why


def test_a_parameter_server_restarts_alone_and_its_coordinator_goes_on(tensor_desk):
    desk, section = tensor_desk
    assert "elasticctl start --spec=servers.yaml --env PAUSE=" in section
    job = serve(desk, 0.5)
    wait_text(desk.daemon.log(job, 0, 0), "epoch 2", timeout=LONG)
    lose_the_server(desk, job)


def test_a_coordinator_goes_on_also_where_the_server_is_back_before_it_looks(tensor_desk):
    desk, _ = tensor_desk
    program = desk.path("work/servers.py")
    program.write_text(program.read_text().replace("EPOCHS, PAUSE = 6", "EPOCHS, PAUSE = 2"))
    job = serve(desk, 12)
    wait_for(desk.path("work/servers-checkpoint/ckpt-1.index").exists, timeout=LONG)
    lose_the_server(desk, job)
