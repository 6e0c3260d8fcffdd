# SPDX-License-Identifier: Apache-2.0
"""The examples of the manual pages and of the README do what they say."""

import re
import shlex
import subprocess

import pytest

from harness import BUILD, PUPPET, ROOT, have

PAGES = ["elasticd.8", "elasticctl.1", "elasticctl-run.1", "elasticd.conf.5", "elasticd-job.5",
         "elasticd-protocol.7", "elasticd-metrics.7"]


def page(name):
    path = ROOT / "man" / name
    assert path.exists(), f"no manual page {name}"
    return path.read_text()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_there_and_is_valid_mdoc(name):
    text = page(name)
    assert ".Sh NAME" in text and ".Sh EXAMPLES" in text
    if not have("mandoc"):
        pytest.skip("no mandoc to check the syntax")
    check = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(ROOT / "man" / name)],
                           capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout


def literal_blocks(text, section="EXAMPLES"):
    """The displayed blocks (.Bd -literal) of a section, with roff's escapes undone."""
    part = re.search(rf"^\.Sh {section}$(.*?)(?=^\.Sh |\Z)", text, re.M | re.S)
    blocks = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", part[1] if part else "", re.M | re.S)
    undo = [("\\e", "\\"), ("\\-", "-"), ("\\&", ""), ("\\(dq", '"'), ("\\(aq", "'")]
    for old, new in undo:
        blocks = [b.replace(old, new) for b in blocks]
    return blocks


def job_documents():
    found = []
    for name in PAGES[1:]:
        path = ROOT / "man" / name
        if path.exists():
            for block in literal_blocks(path.read_text()):
                if re.search(r"^roles:", block, re.M):
                    found.append((name, block))
    return found


def test_the_job_files_of_the_manual_are_valid(box):
    documents = job_documents()
    assert documents, "no job file is shown in the manual"
    for i, (name, text) in enumerate(documents):
        path = box.path(f"work/{i}.yaml")
        path.write_text(text)
        result = box.ctl("validate", path)
        assert result.rc == 0, (name, text, result)


def commands(name):
    """Shell commands of a page's examples: lines that begin with "$ " and what continues them."""
    found = []
    for block in literal_blocks(page(name)):
        joined = block.replace("\\\n", " ")
        found += [line[2:].strip() for line in joined.splitlines() if line.startswith(("$ ", "# "))]
    return [c for c in found if c.startswith("elasticctl")]


def test_the_commands_of_the_manual_are_understood(box):
    """Each is parsed by the program itself: with --help put in, wrong options would still be refused
    by a dry run, so run and start are dry-run and the others asked for their help."""
    shown = commands("elasticctl.1") + commands("elasticctl-run.1")
    assert len(shown) >= 9, "elasticctl(1) and elasticctl-run(1) show too few examples"
    for text in shown:
        text = re.split(r"\s[|>&;]", text)[0]
        words = shlex.split(text)[1:]
        verb = words[0]
        script = next((w.removeprefix("--spec=") for w in words if w.endswith((".py", ".yaml"))), None)
        if script and "/" not in script and not box.path("work", script).exists():
            box.path("work", script).write_text(
                "pass\n" if script.endswith("py") else f"roles: [{{command: [{PUPPET}]}}]\n")
        if verb == "run":
            result = box.ctl("run", "--dry-run", *words[1:])
            assert result.rc == 0, (text, result)
        else:
            result = box.ctl(*words)
            # No daemon runs: a well-formed command finds that out, a wrong one is a usage error.
            assert result.rc != 2, (text, result)


def test_every_verb_and_option_is_in_the_manual(box):
    text = (page("elasticctl.1") + page("elasticctl-run.1")).replace("\\-", "-")

    def verbs(help_text):
        listed = re.search(r"^Verbs:\n((?:  .*\n)+)", help_text, re.M)
        return re.findall(r"^  ([a-z]+) {2,}", listed[1], re.M) if listed else []

    def check(*path):
        shown = box.ctl(*path, "--help").out
        verb = " ".join(path)
        assert re.search(rf"^\.(It|Ss|Ic|Cm|Nm|Sx).*\b{verb}\b", text, re.M), f"{verb} is not described"
        for option in re.findall(r"--([a-z][a-z-]+)", shown):
            # mdoc writes --name as "Fl -name" or as it is.
            assert re.search(rf"(Fl -?-?|--|, -){option}\b", text), f"{verb} --{option} is not described"
        for sub in verbs(shown):
            check(*path, sub)

    top = verbs(box.ctl("help").out)
    assert len(top) > 10 and "task" in top
    for verb in top:
        check(verb)


def test_every_key_of_the_specification_is_in_the_manual(box):
    import json
    text = page("elasticd-job.5").replace("\\-", "-")
    full = box.ctl("run", "--dry-run", PUPPET)
    assert full.rc == 0, full
    document = full.json if full.out.lstrip().startswith("{") else {}
    keys = set()

    def walk(node):
        if isinstance(node, dict):
            for key, value in node.items():
                keys.add(key)
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    document.pop("env", None)
    walk({k: v for k, v in document.items() if k != "roles"})
    for key in keys:
        assert re.search(rf"\b{re.escape(key)}\b", text), f"{key} is not described"
