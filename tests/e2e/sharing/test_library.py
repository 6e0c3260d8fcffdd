# SPDX-License-Identifier: Apache-2.0
"""libelasticd's promise: a worker in C shares keys, barriers, results and errors with the others of its
group, and the same program runs by hand."""

import json
import re
import shutil
import subprocess

import pytest

import harness
from harness import BUILD, ROOT, wait_lines

LIBWORKER = str(BUILD / "tests/tools/libworker")


def job(*steps, replicas=2, **top):
    role = {"replicas": replicas, "command": [LIBWORKER, *steps]}
    role.update(top.pop("role", {}))
    return {"roles": [role], **top}


def output(daemon, job, rank=0, attempt=0):
    return daemon.log(job, attempt, rank).read_text().splitlines()


def test_a_worker_knows_its_identity(daemon):
    done = daemon.run(job("who", replicas=2, name="whose"))
    assert done["state"] == "succeeded"
    assert output(daemon, done, 1) == ["who 1 whose worker:1 rank 1 of 2 attempt 0 start 0"]


def test_without_torch_variables_the_rank_is_known(daemon):
    done = daemon.run(job("who", replicas=2, name="bare", compat={"torch": False}))
    assert output(daemon, done, 1) == ["who 1 bare worker:1 rank 1 of 2 attempt 0 start 0"]


def test_the_same_program_runs_by_hand(box):
    done = box.sh(LIBWORKER, "who", "put:k=v", "get:k", "barrier:b", "alive", "states", "result:42",
                  "threads:4:t", "child:c=1", "try:c", "step:3", "ready", "leave")
    assert done.rc == 0
    assert done.out.splitlines() == [
        "who 0  worker:0 rank 0 of 1 attempt 0 start 0", "put k", "get v", "barrier b",
        "alive worker:0", "states worker:0 running", "result 42", "threads t", "child 0",
        "try 1", "ready said", "leave done"]


def test_keys_are_shared(daemon):
    done = daemon.run(job(
        "put:who/%r=%i", "get:who/0", "get:who/1", "barrier:all", "list:who", "put:who/0=x", "try:none",
        "barrier:listed", "if-rank:0:delete:who", "barrier:gone", "try:who/1"))
    assert done["state"] == "succeeded"
    out = output(daemon, done, 0)
    assert out[1:5] == ["get 0", "get 1", "barrier all", "list who/0=0 who/1=1"]
    assert out[5].startswith("put AlreadyExists: ")
    assert out[6].startswith("try NotFound: ")
    assert "delete 2" in out
    assert out[-1].startswith("try NotFound: ")


def test_a_watch_returns_writes_of_others(daemon):
    done = daemon.run(job("if-rank:0:watch:w:3", "if-rank:1:put:w/a=1", "if-rank:1:over:w/a=2",
                          "if-rank:1:delete:w"))
    assert output(daemon, done, 0) == ["watch w/a=1", "watch w/a=2", "watch w/a=(gone)"]


def test_threads_and_children_use_one_handle(daemon):
    done = daemon.run(job("threads:16:t/%r", "child:c/%r=1", "get:c/0", "get:c/1", "barrier:b",
                          role={"replicas": 4}))
    assert done["state"] == "succeeded"
    assert output(daemon, done, 3)[:4] == ["threads t/3", "child 0", "get 1", "get 1"]


def test_a_barrier_names_missing_workers(daemon):
    done = daemon.run(job("if-rank:0:meet:50:b", "if-rank:0:put:on=1", "get:on"))
    line = output(daemon, done, 0)[0]
    assert line.startswith("meet DeadlineExceeded: ")
    assert line.endswith("|worker:1")


def test_a_death_ends_the_barrier_of_others(daemon):
    done = daemon.run(job("if-rank:0:put:on=1", "get:on", "if-rank:0:barrier:b", "if-rank:1:kill",
                          stop={"timeout": "60s", "signal": "CONT"}))
    assert done["state"] == "failed"
    # Which of the two comes first: that the member failed, or that the group is being stopped.
    said = output(daemon, done, 0)[-1]
    assert re.match(r"barrier \w+: .*\|.*worker:1", said) or said.startswith("barrier Cancelled: "), said


def test_an_error_reaches_all(daemon):
    heard = [f"get:heard/{r}" for r in range(3)]
    done = daemon.run(job("if-rank:1:error:10:the sky falls", "wait-error", "put:heard/%r=1", *heard,
                          "exit:0", replicas=3))
    for rank in (0, 1, 2):
        assert "wait-error Aborted worker:1 the sky falls" in output(daemon, done, rank)
    doc = json.loads((daemon.log(done, 0, 1).parent / "error.json").read_text())
    assert doc["message"]["message"] == "the sky falls"


def test_a_wait_ends_when_the_group_is_stopped(box, daemon):
    _, run = daemon.submit(job(f"touch:{box.path('work')}/up%r", "get:never", "wait-error", replicas=1,
                               stop={"timeout": "60s", "signal": "CONT"}))
    harness.wait_file(box.path("work/up0"))
    with daemon.connect() as v:
        v.call("Stop", job=run)
    done = daemon.wait(run)
    assert re.match(r"get Cancelled: ", output(daemon, done, 0)[0])


def test_results_and_log_lines_are_kept(daemon):
    done = daemon.run(job("result:r%r", "log:line %r", "leave"))
    assert done["state"] == "succeeded"
    logs = [p for p in daemon.log(done, 0, 1).parent.iterdir() if p.suffix == ".jsonl"]
    line = json.loads(wait_lines(logs[0], 1)[0])
    assert (line["message"], line["rank"], line["by"]) == ("line 1", 1, "libworker")


def test_a_restart_begins_with_an_empty_store(daemon):
    done = daemon.run(job("try:old", "try:kept", "barrier:tried", "put:old=1",
                          "if-attempt:0:keep:kept=1", "barrier:b", "if-attempt:0:exit:3", restart={"max": 1}))
    assert done["state"] == "succeeded"
    out = output(daemon, done, 0, attempt=1)
    assert out[0].startswith("try NotFound: ")
    assert out[1] == "try 1"


# --- the library as it is installed


def test_the_exported_symbols_are_those_of_the_list():
    if not shutil.which("nm"):
        pytest.skip("no nm here")
    text = subprocess.run(["nm", "-D", "--defined-only", BUILD / "libelasticd.so.0"], check=True,
                          capture_output=True, text=True).stdout
    names = {line.split()[2] for line in text.splitlines() if line.split()[1] == "T"}
    assert names == {n + "@@ELASTICD_0" for n in (ROOT / "worker/elasticd.abi").read_text().split()}


def test_the_archive_exports_only_the_list():
    if not shutil.which("nm"):
        pytest.skip("no nm here")
    text = subprocess.run(["nm", "-g", "--defined-only", BUILD / "libelasticd.a"], check=True,
                          capture_output=True, text=True).stdout
    names = {line.split()[2] for line in text.splitlines() if len(line.split()) == 3}
    names = {n for n in names if not n.startswith("__")}
    assert names == set((ROOT / "worker/elasticd.abi").read_text().split())


def man_example():
    """The program in the manual's EXAMPLES."""
    page = (ROOT / "man/elasticd.3").read_text()
    literal = re.search(r"^\.Sh EXAMPLES.*?^\.Bd -literal.*?\n(.*?)^\.Ed", page, re.M | re.S).group(1)
    return literal.replace("\\e", "\\").replace("\\&", "").replace("\\-", "-")


@pytest.fixture
def example(box):
    """The manual's example, compiled as a user would."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler here")
    source = box.path("work/example.c")
    source.write_text(man_example())
    binary = box.path("work/example")
    built = box.sh("cc", "-Wall", "-Werror", f"-I{ROOT}/worker", "-o", binary, source, f"-L{BUILD}",
                   f"-Wl,-rpath,{BUILD}", "-lelasticd")
    assert built.rc == 0, built.err
    return str(binary)


def test_the_manuals_handler_of_a_signal_works_by_hand(box):
    if not shutil.which("cc"):
        pytest.skip("no C compiler here")
    page = (ROOT / "man/elasticd.3").read_text()
    shown = re.search(r"^\.Bd -literal -offset indent\n(static volatile.*?)^\.Ed", page, re.M | re.S).group(1)
    source, binary = box.path("work/handler.c"), box.path("work/handler")
    source.write_text("#include <elasticd.h>\n#include <signal.h>\n#include <stdlib.h>\n" + shown + """
int main(void)
{
	struct elasticd *h;

	if (elasticd_open(&h) || signal(SIGTERM, on_term) == SIG_ERR)
		return 1;
	if (begin(h, 1) != ELASTICD_ACTION_CONTINUE)
		return 1;
	raise(SIGTERM);
	return begin(h, 2) != ELASTICD_ACTION_SAVE_AND_EXIT || begin(h, 3) != ELASTICD_ACTION_EXIT;
}
""")
    built = box.sh("cc", "-Wall", "-Werror", f"-I{ROOT}/worker", "-o", binary, source, f"-L{BUILD}",
                   f"-Wl,-rpath,{BUILD}", "-lelasticd")
    assert built.rc == 0, built.err
    assert box.sh(binary).rc == 0


def test_the_manuals_example_works_by_hand_and_in_a_group(box, daemon, example):
    done = box.sh(example)
    assert (done.rc, done.out) == (0, "rank 0 of 1: the seed is 42\n")
    done = daemon.run({"roles": [{"replicas": 3, "command": [example]}]})
    assert done["state"] == "succeeded"
    assert output(daemon, done, 2) == ["rank 2 of 3: the seed is 42"]


def test_the_header_is_c99_and_cxx(box):
    for compiler, name, options in (("cc", "h.c", ["-std=c99", "-pedantic"]), ("c++", "h.cc", [])):
        if not shutil.which(compiler):
            continue
        source = box.path("work", name)
        source.write_text('#include "elasticd.h"\nint main(void) { return elasticd_open == 0; }\n')
        built = box.sh(compiler, *options, "-Wall", "-Wextra", "-Wno-address", "-Werror",
                       f"-I{ROOT}/worker", "-c", "-o", box.path("work/h.o"), source)
        assert built.rc == 0, built.err
