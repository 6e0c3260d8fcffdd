# SPDX-License-Identifier: Apache-2.0
"""The tutorial's files are written and its commands run, one after the other; what it shows is what
they print."""

import os
import re

import pytest

from harness import BUILD, ROOT, SLOWER, have
from python_package import ENV, needs_library

pytestmark = [needs_library, pytest.mark.slow, pytest.mark.seconds(300)]
LONG = 240 * SLOWER
TUTORIAL = ROOT / "doc/tutorial.md"
FILE = re.compile(r"^(?:#|/\*) ([\w.]+\.(?:py|c|yaml))(?: \*/)?$")


def blocks():
    """(language, lines) of each fenced block."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", TUTORIAL.read_text(), re.M | re.S)
    return [(language, text.splitlines()) for language, text in found]


def files():
    named = [(FILE.match(lines[0]), lines) for language, lines in blocks() if language != "sh"]
    assert all(match for match, _ in named), "a block does not begin with its file's name"
    return {match[1]: "\n".join(lines) + "\n" for match, lines in named}


def commands():
    """(command, the lines it shows)."""
    found = []
    for language, lines in blocks():
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
    pc = box.path("pkgconfig/elasticd.pc")
    pc.parent.mkdir()
    text = (ROOT / "worker/elasticd.pc.in").read_text()
    for name, value in [("prefix", ROOT), ("libdir", BUILD), ("includedir", ROOT / "worker"),
                        ("version", "0")]:
        text = text.replace(f"@{name}@", str(value))
    pc.write_text(text)
    box.env.update(ENV, PATH=f"{BUILD}:{os.environ['PATH']}", PKG_CONFIG_PATH=str(pc.parent),
                   LD_LIBRARY_PATH=str(BUILD))
    return box


def test_every_command_shows_what_the_tutorial_says(desk):
    daemon = None
    for command, shown in commands():
        if command.startswith("cc ") and not (have("cc") and have("pkg-config")):
            break  # nothing after it works without
        if command.startswith("elasticctl start"):
            daemon = desk.daemon
            command += " --env PYTHONPATH --env ELASTICD_LIBRARY"
        result = desk.sh("sh", "-c", command, timeout=LONG)
        assert result.rc == 0, result
        missing = [line for line in shown if line not in result.out]
        assert not missing, (command, missing, result)
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
