# SPDX-License-Identifier: Apache-2.0
"""Shell completion, from the same table as the verbs."""

import contextlib
import os
import signal
import subprocess

import pytest

from fake_agent import FakeAgent
from harness import CTL, ROOT, have, spec, stat_of, wait_for

VERBS = ("run start stop restart kill add attach status list logs results dump errors wait events "
         "scale validate ping rm version why shutdown completion preempt platform doctor task call plot "
         "history diff update enable disable import").split()
TASK_VERBS = "submit fetch join done cancel list stats release close resource resources work".split()


def test_every_verb_is_in_help_and_has_its_own(box):
    text = box.ctl("help").out + box.ctl("--help").out
    for verb in VERBS:
        assert verb in text
        for args in ((verb, "--help"), ("help", verb)):
            result = box.ctl(*args)
            assert result.rc == 0 and verb in result.out, result


def test_verbs_behind_a_verb_have_their_own_help(box):
    text = box.ctl("task", "--help").out
    assert box.ctl("help", "task").out == text
    for verb in TASK_VERBS:
        assert f"\n  {verb} " in text
        shown = box.ctl("task", verb, "--help")
        assert shown.rc == 0 and f"usage: elasticctl task {verb}" in shown.out, shown
        assert box.ctl("help", "task", verb).out == shown.out
    for args in (("help", "task", "nope"), ("help", "list", "more"), ("help", "task", "list", "more")):
        assert box.ctl(*args).rc == 2, args


def complete(box, *words, env=None):
    """What bash offers after these words; the last one is being typed."""
    script = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
name=$(complete -p elasticctl | sed -e 's/.*-F \\([^ ]*\\).*/\\1/')
$name elasticctl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
    path = box.path("work/completion")
    path.write_text(box.ctl("completion", "bash").out)
    env = {"PATH": f"{os.path.dirname(CTL)}:{os.environ['PATH']}"}
    result = box.sh("bash", "-c", script, "bash", path, "elasticctl", *words, env=env)
    return [word.strip() for word in result.out.splitlines()]


def test_verbs_options_and_jobs_are_offered(box, daemon):
    if not have("bash"):
        pytest.skip("no bash")
    daemon.submit(spec("hang", name="training-job"))
    assert "status" in complete(box, "st") and "start" in complete(box, "st")
    assert "run" not in complete(box, "st")
    assert "--follow" in complete(box, "logs", "--fo")
    assert "training-job" in complete(box, "status", "train")
    assert any("nproc" in word for word in complete(box, "run", "--nproc"))


def test_verbs_behind_a_verb_are_completed(box, daemon):
    if not have("bash"):
        pytest.skip("no bash")
    daemon.submit(spec("hang", name="training-job"))
    assert set(complete(box, "task", "re")) == {"release", "resource", "resources"}
    assert "task" in complete(box, "ta") and "submit" not in complete(box, "su")
    assert "--ordered" in complete(box, "task", "submit", "--or")
    assert "--ordered" not in complete(box, "task", "list", "--or")
    assert "--all" in complete(box, "list", "--a") and "--all" not in complete(box, "task", "list", "--a")
    assert complete(box, "task", "join", "train") == ["training-job"]
    assert set(complete(box, "task", "list", "--state", "c")) == {"cancelled"}
    assert complete(box, "task", "resource", "cr") == ["create"]
    assert "sh" in complete(box, "task", "work", "sh")


def test_workers_are_offered_behind_a_slash(box, daemon):
    daemon.submit(spec("hang", name="training-job", replicas=2))
    daemon.wait("training-job", until="running")
    assert box.ctl("__complete", "workers", "training-job/").out.split() \
        == [f"training-job/{w}" for w in ("0", "worker:0", "1", "worker:1")]
    assert box.ctl("__complete", "workers", "train").out.split() == ["training-job"]
    unknown = box.ctl("__complete", "workers", "no-such-job/")
    assert (unknown.rc, unknown.out, unknown.err) == (0, "", "")
    if not have("bash"):
        pytest.skip("no bash")
    for verb in ("stop", "attach", "status"):
        assert "training-job" in complete(box, verb, "train")
        assert set(complete(box, verb, "training-job/w")) \
            == {"training-job/worker:0", "training-job/worker:1"}
        # A colon ends a word there.
        assert complete(box, verb, "training-job/worker", ":", "1") == ["1"]
        assert complete(box, verb, "training-job/worker", ":") == ["0", "1"]
    assert "--replace" in complete(box, "attach", "--re")


def test_words_of_another_users_agent_are_not_executed(box, daemon):
    """Bash would expand them in compgen -W."""
    if not have("bash"):
        pytest.skip("no bash")
    name, run = daemon.submit(spec("hang", name="training-job"))
    job = daemon.wait(run, until="running")
    touched = box.path("work/touched")
    job["workers"][0]["role"] = f"$(touch${{IFS}}{touched})"
    answer = {"job": job, "events": []}
    guard = stat_of(job["agent_pid"])[1]
    fake = FakeAgent(daemon.agent_sock(name), {"Watch": answer, "Status": answer})
    os.kill(guard, signal.SIGSTOP)
    os.kill(job["agent_pid"], signal.SIGKILL)
    try:
        wait_for(lambda: "$" in daemon.status(name)["workers"][0]["role"], what="the forged role")
        complete(box, "status", "training-job/")
        assert not touched.exists()
    finally:
        with contextlib.suppress(ProcessLookupError):  # elasticd kills the guard 5 s after its agent ended
            os.kill(guard, signal.SIGCONT)
        fake.close()


def test_no_daemon_is_no_trouble(box):
    if not have("bash"):
        pytest.skip("no bash")
    assert complete(box, "status", "x") in ([], [""])
