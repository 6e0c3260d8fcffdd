# SPDX-License-Identifier: Apache-2.0
"""The work queue from C: coordinators submit and fetch, workers do one item after the other, also when some
die; and the same programs run by hand."""

import re
import shutil

import pytest

from harness import BUILD, ROOT

PROGRAM = str(BUILD / "tests/tools/queueworker")


def job(*steps, workers=2, work="work", **top):
    """A chief that coordinates, and workers."""
    restart = {"scope": "worker", "max": 20}
    return {"roles": [{"name": "chief", "replicas": 1, "command": [PROGRAM, *steps]},
                      {"name": "worker", "replicas": workers, "command": [PROGRAM, work],
                       "restart": restart}], **top}


def output(daemon, job, rank=0, attempt=0):
    return daemon.log(job, attempt, rank).read_text().splitlines()


def lead(daemon, *steps, **more):
    """The output of the chief of a job that succeeds."""
    done = daemon.run(job(*steps, "close", **more))
    said = output(daemon, done)
    assert done["state"] == "succeeded", said
    assert said[-1] == "close ok"
    return said[:-1]


def test_tasks_are_done_by_workers_and_fetched_by_their_coordinator(daemon):
    assert lead(daemon, "many:1000", "fetch-all", "many:300", "any", "join", "done") == [
        "many 1000", "fetch-all 1000 of 1000 sum 499500", "many 300", "any 300", "join ok", "done yes"]


def test_each_thread_of_a_worker_has_a_slot(daemon):
    said = lead(daemon, "submit:wait", "submit:wait", "submit:wait", "await:3", "cancel-all", "many:100",
                "fetch-all", workers=1, work="threads:3", queue={"slots": 3})
    assert said[3:5] == ["await 3", "cancel-all 3"]
    assert said[6].startswith("fetch-all 100 of 103")


def test_a_task_is_done_although_its_worker_died(daemon):
    said = lead(daemon, "submit:die", "many:50", "fetch:0", "join")
    assert said[2:] == ["fetch succeeded die tries 2", "join ok"]


def test_the_first_error_is_returned_once_with_its_worker(daemon):
    said = lead(daemon, "submit:fail:too far", "join", "fetch:0", "submit:7", "join", "fetch:1")
    m = re.fullmatch(r"error (\d+) -1 worker:[01] at line 1", said[1])
    assert m, said
    assert said[2].startswith("join OutOfRange: ") and "too far" in said[2]
    assert said[3].startswith("fetch failed ") and "too far" in said[3]
    assert said[4:] == ["submit 1", "join ok", "fetch succeeded 7 tries 1"]


def test_retryable_failures_are_tried_again(daemon):
    said = lead(daemon, "submit:retry:2", "fetch:0", "join")
    assert said[1:] == ["fetch succeeded retry:2 tries 3", "join ok"]


def test_the_worker_of_a_cancelled_task_learns_of_it(daemon):
    done = daemon.run(job("submit:wait", "await:1", "cancel:0", "fetch:0", "join", "close", workers=1))
    assert done["state"] == "succeeded"
    said = output(daemon, done)
    assert said[2] == "cancel 1"
    assert said[3].startswith("fetch cancelled ") and "enough" in said[3]
    assert any(line.startswith("told ") and "enough" in line for line in output(daemon, done, 1))


def test_a_try_that_takes_too_long_fails(daemon):
    said = lead(daemon, "limit:50:wait", "join", "fetch:0")
    assert said[2].startswith("join DeadlineExceeded: "), said


def test_resources_are_built_before_the_tasks_that_need_them(daemon):
    said = lead(daemon, "create:data:good", "need:data:1", "need:data:2", "fetch:0", "fetch:1",
                "create:data:good", "drop:data", "need:data:3")
    assert said[3:5] == ["fetch succeeded 1 tries 1", "fetch succeeded 2 tries 1"]
    assert said[5].startswith("create AlreadyExists: ")
    assert said[7].startswith("need NotFound: ")


def test_a_resource_that_cannot_be_built_fails_only_its_tasks(daemon):
    said = lead(daemon, "create:data:bad", "submit:5", "fetch:0", "need:data:1", "join")
    assert said[2] == "fetch succeeded 5 tries 1"
    assert said[-1].startswith("join FailedPrecondition: ") and "no such data" in said[-1]


def test_a_worker_may_submit_and_wait_itself(daemon):
    assert lead(daemon, "submit:nest:42", "fetch:0")[1] == "fetch succeeded 42 tries 1"


@pytest.fixture
def running(daemon):
    """A job whose workers wait for work."""
    _, run = daemon.submit({"name": "pool", "roles": [
        {"name": "worker", "replicas": 2, "command": [PROGRAM, "work"]}]})
    daemon.wait(run, until="running")
    return run


def test_a_program_outside_the_job_coordinates_it(box, daemon, running):
    done = box.sh(PROGRAM, "job:pool", "queue:own", "many:100", "fetch-all", "submit:fail:no", "join",
                  "put:k=v", "work", "close")
    assert done.rc == 0, done.err
    said = done.out.splitlines()
    assert said[:4] == ["job pool", "queue own", "many 100", "fetch-all 100 of 100 sum 4950"]
    assert said[6].startswith("join OutOfRange: ")
    assert said[7].startswith("put FailedPrecondition: ")
    assert said[8].startswith("work FailedPrecondition: ")
    assert daemon.wait(running)["state"] == "succeeded"


def test_a_call_goes_to_all_workers(box, daemon):
    _, run = daemon.submit({"name": "pool", "mode": "pool", "roles": [
        {"name": "worker", "replicas": 3, "command": [PROGRAM, "work"]}]})
    daemon.wait(run, until="running")
    done = box.sh(PROGRAM, "job:pool", "call:hello", "close")
    assert done.out.splitlines()[1:] == [
        "call worker:0=hello 0, worker:1=hello 1, worker:2=hello 2", "close ok"]
    assert daemon.wait(run)["state"] == "succeeded"


def test_a_missing_job_has_no_queue(box, daemon):
    daemon.call("Version")
    done = box.sh(PROGRAM, "job:none", "submit:1")
    assert done.out.splitlines()[1].startswith("submit NotFound: "), done.out


def test_a_kept_queue_goes_with_its_coordinator(box, daemon, running):
    box.sh(PROGRAM, "job:pool", "queue:own", "submit:wait", "submit:wait", "await:2", "submit:1", "kill")
    # Workers were told, and are free again.
    done = box.sh(PROGRAM, "job:pool", "many:10", "fetch-all", "close")
    assert done.out.splitlines()[2] == "fetch-all 10 of 10 sum 45"
    assert daemon.wait(running)["state"] == "succeeded"


def test_the_same_programs_run_by_hand(box):
    done = box.sh(PROGRAM, "many:100", "create:data:good", "need:data:7", "close", "work", "fetch-all")
    assert done.out.splitlines() == [
        "many 100", "create data", "need 1", "close ok", "work closed",
        "fetch-all 101 of 101 sum 4957"]
    # No other thread could close the queue: its end is when it is empty.
    done = box.sh(PROGRAM, "submit:retry:1", "work", "join", "fetch:0", "submit:1", "join")
    said = done.out.splitlines()
    assert said[1:4] == ["work closed", "join ok", "fetch succeeded retry:1 tries 2"]
    assert said[5] == "error -1 -1  "
    assert said[6].startswith("join FailedPrecondition: ")


@pytest.fixture
def example(box):
    """The manual's worker, compiled as a user would."""
    page = (ROOT / "man/elasticd_queue.3").read_text()
    shown = re.search(r"^\.Sh EXAMPLES.*?^\.Bd -literal.*?\n(.*?)^\.Ed", page, re.M | re.S).group(1)
    if not shutil.which("cc"):
        pytest.skip("no C compiler here")
    source, binary = box.path("work/example.c"), box.path("work/example")
    source.write_text(shown.replace("\\e", "\\").replace("\\&", "").replace("\\-", "-"))
    built = box.sh("cc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/worker", "-o", binary, source,
                   f"-L{BUILD}", f"-Wl,-rpath,{BUILD}", "-lelasticd")
    assert built.rc == 0, built.err
    return str(binary)


def test_the_manuals_worker_works_by_hand_and_in_a_job(box, daemon, example):
    # No other thread could submit a task.
    assert box.sh(example).rc == 0
    done = daemon.run({"roles": [
        {"name": "chief", "replicas": 1, "command": [PROGRAM, "many:20", "fetch-all", "close"]},
        {"name": "worker", "replicas": 2, "command": [example]}]})
    assert output(daemon, done) == ["many 20", "fetch-all 20 of 20 sum 190", "close ok"]
    assert done["state"] == "succeeded"


def test_the_header_of_the_queue_is_c_and_cxx(box):
    text = """#include "elasticd_queue.h"
int main(void)
{
	struct elasticd_queue_new_task task = { { "x", 1, "text" }, 0, 0, 0, 1 };
	struct elasticd_queue_failure failure = { ELASTICD_STATUS_ABORTED, "no", 0, 1, 0 };
	struct elasticd_queue_outcome outcome;
	struct elasticd_queue_answer answer;
	struct elasticd_queue_stats stats;
	struct elasticd_queue_item item;

	outcome.state = ELASTICD_TASK_CANCELLED;
	item.kind = ELASTICD_ITEM_INIT;
	answer.code = ELASTICD_STATUS_OK;
	stats.free = 0;
	return task.alone + failure.retryable + outcome.state + item.kind + answer.code + (int)stats.free;
}
"""
    for compiler, name, options in (("cc", "q.c", ["-std=c99", "-pedantic"]), ("c++", "q.cc", [])):
        if not shutil.which(compiler):
            continue
        source = box.path("work", name)
        source.write_text(text)
        built = box.sh(compiler, *options, "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/worker", "-c", "-o",
                       box.path("work/q.o"), source)
        assert built.rc == 0, built.err
