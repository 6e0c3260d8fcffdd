# SPDX-License-Identifier: Apache-2.0
"""elasticctl run is a drop-in for torchrun on one host: flags, PET_*, environment, logs."""

import getpass
import json
import os
import pathlib
import re
import resource
import signal
import socket
import sys

import pytest

from harness import (
    CTL, PUPPET, as_user, have, is_root, other_user, parse_environ, processes_of_run, wait_lines,
)


def script(box, name, text):
    path = box.path("work", name)
    path.write_text(text)
    return path


# --- launching -------------------------------------------------------------------------------------


def test_four_workers_touch_a_file_named_by_rank(box):
    result = box.run("--nproc-per-node=4", "--no-python", PUPPET, f"touch:{box.path('work')}/%r")
    assert result.rc == 0, result
    assert sorted(os.listdir(box.path("work"))) == ["0", "1", "2", "3"]


def test_without_a_count_there_is_exactly_one_worker(box):
    result = box.run(PUPPET, f"mark:{box.path('marks')}")
    assert result.rc == 0, result
    assert [line.split()[1:] for line in wait_lines(box.path("marks"), 1)] == [["0", "0"]]


@pytest.mark.parametrize("flag", ["--nproc-per-node", "--nproc_per_node"])
def test_both_spellings_and_both_forms_of_a_flag(box, flag):
    for args in ([flag, "3"], [f"{flag}=3"]):
        box.path("marks").unlink(missing_ok=True)
        assert box.run(*args, PUPPET, f"mark:{box.path('marks')}").rc == 0
        assert len(wait_lines(box.path("marks"), 3)) == 3


@pytest.mark.parametrize("count", ["auto", "cpu"])
def test_a_count_by_the_machine(box, count):
    result = box.run(f"--nproc-per-node={count}", PUPPET, f"mark:{box.path('marks')}")
    assert result.rc == 0, result
    cpus = len(os.sched_getaffinity(0))
    assert len(wait_lines(box.path("marks"), cpus)) == cpus


def test_everything_by_environment(box):
    env = {"PET_NPROC_PER_NODE": "2", "PET_REDIRECTS": "3", "PET_LOG_DIR": str(box.path("pet")),
           "PET_ROLE": "trainer", "PET_MAX_RESTARTS": "1", "PET_RDZV_ID": "by-env"}
    result = box.ctl("run", PUPPET, "if-attempt:0:exit:1", f"env:{box.path('env')}.%r", env=env)
    assert result.rc == 0, result
    got = parse_environ(box.path("env.1").read_bytes())
    assert got["ROLE_NAME"] == "trainer"
    assert got["WORLD_SIZE"] == "2"
    assert got["TORCHELASTIC_RUN_ID"] == "by-env"
    assert got["TORCHELASTIC_RESTART_COUNT"] == "1"
    assert (box.run_dir("pet") / "attempt_1/1/stdout.log").exists()


def test_a_flag_beats_the_environment(box):
    result = box.run("--nproc-per-node=1", PUPPET, f"mark:{box.path('marks')}",
                     env={"PET_NPROC_PER_NODE": "3"})
    assert result.rc == 0, result
    assert len(wait_lines(box.path("marks"), 1)) == 1


@pytest.mark.parametrize("value,is_python", [("0", True), ("1", False)])
def test_a_boolean_of_the_environment_is_off_at_zero(box, value, is_python):
    path = script(box, "prog.py", "#!/bin/sh\necho shell\n")
    path.chmod(0o755)
    path.write_text("#!/bin/sh\necho shell\n" if not is_python else "print('py' + 'thon')\n")
    result = box.run(path, env={"PET_NO_PYTHON": value})
    assert result.rc == 0, result
    assert result.out.strip() == ("python" if is_python else "shell")


@pytest.mark.parametrize("args,named", [
    (["--nnodes=2:20:30"], "2:20:30"),
    (["--nnodes=2:1"], "2:1"),
    (["--nnodes=0"], "0"),
    (["--nnodes=2"], "--rdzv-endpoint"),
    (["--nnodes=2", "--rdzv-backend=etcd", "--rdzv-endpoint=h"], "etcd"),
    (["--nnodes=1:2", "--node-rank=0", "--master-addr=h"], "--nnodes"),
    (["--nnodes=auto"], "Slurm"),
    (["--nproc-per-node=0"], "0"),
    (["--nproc-per-node=unknown"], "unknown"),
    (["--max-restarts=-1"], "-1"),
    (["--shutdown-timeout=-1"], "-1"),
    (["--rdzv-conf=a=1,b"], "b"),
    (["-m", "--no-python"], "no-python"),
    (["--surely-not-a-flag"], "surely-not-a-flag"),
])
def test_an_impossible_job_is_refused_before_any_worker_starts(box, args, named):
    result = box.run(*args, PUPPET, f"touch:{box.path('started')}")
    assert result.rc in (2, 125), result
    assert not box.path("started").exists()
    assert named in result.err
    assert "Traceback" not in result.err and len(result.err.strip().splitlines()) <= 4, result


def test_a_dry_run_shows_what_a_step_of_slurm_becomes(box):
    step = {"SLURM_STEP_NODELIST": "node[07-09]", "SLURM_STEP_NUM_NODES": "3", "SLURM_NODEID": "2",
            "SLURM_JOB_ID": "70123", "SLURM_STEP_ID": "0", "SLURM_STEP_TASKS_PER_NODE": "1(x3)"}
    result = box.run("--nnodes=auto", "--dry-run", PUPPET, env=step)
    assert result.rc == 0, result
    assert json.loads(result.out)["rendezvous"] == {
        "nodes": "3:3", "backend": "direct", "endpoints": "node07:29523", "node_rank": 2,
        "id": "slurm-70123.0.0"}
    result = box.run("--nnodes=auto", "--dry-run", PUPPET,
                     env=step | {"SLURM_STEP_TASKS_PER_NODE": "8(x3)"})
    assert result.rc == 125 and "srun --ntasks-per-node=1" in result.err, result


def test_no_program_is_a_usage_error(box):
    result = box.run("--nproc-per-node=2")
    assert result.rc in (2, 125) and result.err.strip(), result


def test_options_after_the_program_are_its_own(box):
    result = box.run(PUPPET, f"args:{box.path('args')}", "print:--nproc-per-node=7", "print:-t")
    assert result.rc == 0, result
    got = box.path("args").read_bytes().decode().split("\0")
    assert got[2:4] == ["print:--nproc-per-node=7", "print:-t"]


def test_a_python_script_runs_unbuffered(box):
    path = script(box, "hello.py", "import sys\nprint(sys.argv[1:], sys.stdout.write_through)\n")
    result = box.run(path, "--x", "1")
    assert result.rc == 0, result
    assert result.out.strip() == "['--x', '1'] True"


def test_a_python_module(box):
    script(box, "themodule.py", "import sys\nprint('module', sys.argv[1:])\n")
    result = box.run("-m", "themodule", "a", "b", env={"PYTHONPATH": str(box.path("work"))})
    assert result.rc == 0, result
    assert result.out.strip() == "module ['a', 'b']"


def test_run_needs_no_daemon_and_makes_none(box):
    assert box.run(PUPPET, "print:x").rc == 0
    assert not list(box.path("xr").iterdir()), "a run without daemon left files in the runtime dir"


def test_two_standalone_runs_at_once_do_not_clash(box):
    runs = [box.run_start("--standalone", "--nproc-per-node=2", f"--log-dir={box.path(f'l{i}')}",
                          PUPPET, "if-rank:0:bind-master", f"env:{box.path(f'env{i}')}.%r",
                          f"touch:{box.path(f'up{i}')}.%r",
                          *(f"wait-file:{box.path(f'up{j}')}.0" for j in (0, 1)))
            for i in (0, 1)]
    for run in runs:
        result = run.wait()
        assert result.rc == 0, result
    ports = [parse_environ(box.path(f"env{i}.0").read_bytes())["MASTER_PORT"] for i in (0, 1)]
    assert ports[0] != ports[1]


def test_the_port_is_chosen_afresh_for_each_attempt_and_shared_by_its_ranks(box):
    result = box.run("--nproc-per-node=2", "--max-restarts=3", PUPPET, "if-rank:0:bind-master",
                     f"env:{box.path('env')}.%a.%r", f"barrier:{box.path('bar')}",
                     "if-attempt:0:exit:1", "if-attempt:1:exit:1")
    assert result.rc == 0, result
    ports = {a: {parse_environ(box.path(f"env.{a}.{r}").read_bytes())["MASTER_PORT"]
                 for r in (0, 1)} for a in (0, 1, 2)}
    assert all(len(p) == 1 for p in ports.values()), ports
    assert len(set.union(*ports.values())) > 1, "the same port in all three attempts"


def test_a_given_master_address_and_port_are_handed_on(box):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    result = box.run("--master-addr=127.0.0.1", f"--master-port={port}", PUPPET,
                     f"env:{box.path('env')}")
    assert result.rc == 0, result
    got = parse_environ(box.path("env").read_bytes())
    assert (got["MASTER_ADDR"], got["MASTER_PORT"]) == ("127.0.0.1", port)


# --- what a worker gets ----------------------------------------------------------------------------


def test_another_user_is_refused_and_not_ignored(box):
    path = box.path("job.json")
    for user, status in (("surely-nobody", 125), (getpass.getuser(), 0)):
        path.write_text(json.dumps({"user": user, "roles": [{"command": [PUPPET]}]}))
        result = box.run(f"--spec={path}")
        assert result.rc == status, result
        assert (status == 0) == ("user: run starts workers as its caller" not in result.err), result


def test_the_environment_has_every_name_of_torchelastic(box):
    result = box.run("--nproc-per-node=2", "--max-restarts=4", "--role=trainer", "--rdzv-id=abc",
                     PUPPET, f"env:{box.path('env')}.%r",
                     env={"SENTINEL": "parent's", "OMP_NUM_THREADS": None})
    assert result.rc == 0, result
    assert "OMP_NUM_THREADS" in result.err, "no warning about what was set unasked"
    for rank in (0, 1):
        got = parse_environ(box.path(f"env.{rank}").read_bytes())
        expected = {
            "LOCAL_RANK": str(rank), "RANK": str(rank), "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
            "ROLE_NAME": "trainer", "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "4", "TORCHELASTIC_RUN_ID": "abc", "OMP_NUM_THREADS": "1",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "ELASTICD_ROLE": "trainer",
            "ELASTICD_INDEX": str(rank), "ELASTICD_ATTEMPT": "0", "SENTINEL": "parent's",
        }
        assert {k: got.get(k) for k in expected} == expected
        assert got["TORCHELASTIC_USE_AGENT_STORE"] in ("True", "False")
        assert got["MASTER_ADDR"] and 0 < int(got["MASTER_PORT"]) < 65536
        assert got["TORCHELASTIC_ERROR_FILE"].endswith(f"attempt_0/{rank}/error.json")
        assert got["ELASTICD_RUN"].startswith(got["ELASTICD_JOB"] + "_")
        assert re.fullmatch(r".*_[a-z0-9]{8}", got["ELASTICD_RUN"])


def test_the_parents_thread_count_and_nccl_setting_stay(box):
    result = box.run("--nproc-per-node=2", PUPPET, f"env:{box.path('env')}.%r",
                     env={"OMP_NUM_THREADS": "6", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"})
    assert result.rc == 0, result
    got = parse_environ(box.path("env.1").read_bytes())
    assert (got["OMP_NUM_THREADS"], got["TORCH_NCCL_ASYNC_ERROR_HANDLING"]) == ("6", "3")


def test_the_thread_count_is_left_alone_for_one_worker(box):
    result = box.run(PUPPET, f"env:{box.path('env')}", env={"OMP_NUM_THREADS": None})
    assert result.rc == 0 and result.err == "", result
    assert "OMP_NUM_THREADS" not in parse_environ(box.path("env").read_bytes())


def test_the_callers_directory_limits_and_mask_are_the_workers(box):
    sub = box.path("work/sub")
    sub.mkdir()

    def prepare():
        resource.setrlimit(resource.RLIMIT_NOFILE, (321, 654))
        os.umask(0o027)

    result = box.run(PUPPET, f"cwd:{box.path('cwd')}", f"limits:{box.path('limits')}",
                     f"touch:{box.path('made')}", cwd=str(sub), preexec_fn=prepare)
    assert result.rc == 0, result
    assert box.path("cwd").read_text() == str(sub)
    assert re.search(r"Max open files\s+321\s+654", box.path("limits").read_text())
    assert box.path("made").stat().st_mode & 0o777 == 0o640


def test_a_worker_has_no_stray_descriptor_and_default_signals(box):
    result = box.run("--nproc-per-node=2", "-t", "3", PUPPET, f"fds:{box.path('fds')}.%r",
                     f"status:{box.path('status')}.%r")
    assert result.rc == 0, result
    for rank in (0, 1):
        fds = box.path(f"fds.{rank}").read_text().splitlines()
        assert [f.split()[0] for f in fds] == ["0", "1", "2"], fds
        status = dict(line.split(":", 1) for line in
                      box.path(f"status.{rank}").read_text().splitlines())
        assert int(status["SigBlk"], 16) == 0 and int(status["SigIgn"], 16) == 0


def test_local_rank_in_arguments_is_replaced_and_dollars_stay(box):
    result = box.run("--nproc-per-node=2", PUPPET, f"args:{box.path('args')}.%r",
                     "print:${local_rank} $$ $HOME ${unknown} $5",
                     f"barrier:{box.path('bar')}", "-r", "0")
    got = box.path("args.1").read_bytes().decode().split("\0")
    assert result.rc == 97, "the puppet does not know the step -r: it has to have come through"
    # torchrun turns $$ into $; the manual says that it stays.
    assert got[2] == "print:1 $$ $HOME ${unknown} $5"


def test_virtual_local_rank_gives_each_worker_one_device(box):
    result = box.run("--nproc-per-node=2", "--virtual-local-rank", PUPPET,
                     f"env:{box.path('env')}.%r", env={"CUDA_VISIBLE_DEVICES": "4,5"})
    assert result.rc == 0, result
    got = [parse_environ(box.path(f"env.{r}").read_bytes()) for r in (0, 1)]
    assert [g["LOCAL_RANK"] for g in got] == ["0", "0"]
    assert [g["CUDA_VISIBLE_DEVICES"] for g in got] == ["4", "5"]


def test_virtual_local_rank_with_too_few_devices_is_refused(box):
    result = box.run("--nproc-per-node=3", "--virtual-local-rank", PUPPET,
                     f"touch:{box.path('started')}", env={"CUDA_VISIBLE_DEVICES": "4,5"})
    assert result.rc not in (0, 1) and "CUDA_VISIBLE_DEVICES" in result.err, result
    assert not box.path("started").exists()


# --- redirects, tees, filters ------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["0", "1", "2", "3", "0:1", "0:1,1:1", "0:3,12:1"])
def test_redirect_specifications_that_are_accepted(box, value):
    assert box.run("-r", value, PUPPET, "print:x").rc == 0


@pytest.mark.parametrize("value", ["0:1,", "11", "0:1,1", "1,0:1", "4", "-1", "x", "0:4"])
def test_redirect_specifications_that_are_refused(box, value):
    result = box.run(f"--redirects={value}", PUPPET, f"touch:{box.path('started')}")
    assert result.rc in (2, 125) and value in result.err, result
    assert not box.path("started").exists()


def test_redirected_output_is_in_files_byte_for_byte_and_not_on_the_console(box):
    result = box.run("-r", "3", "--nproc-per-node=2", PUPPET, "print:out %r", "raw:00fffe0d41",
                     "eprint:err %r", "epartial:no newline")
    assert result.rc == 0 and result.out == "" and result.err == "", result
    for rank in (0, 1):
        d = box.run_dir() / "attempt_0" / str(rank)
        assert (d / "stdout.log").read_bytes() == b"out %d\n\x00\xff\xfe\rA" % rank
        assert (d / "stderr.log").read_bytes() == b"err %d\nno newline" % rank


def test_one_stream_redirected_the_other_on_the_console(box):
    result = box.run("-r", "1", PUPPET, "print:to file", "eprint:to console")
    assert result.rc == 0 and result.out == "" and result.err == "to console\n", result
    assert (box.run_dir() / "attempt_0/0/stdout.log").read_text() == "to file\n"
    assert not (box.run_dir() / "attempt_0/0/stderr.log").exists()


def test_output_that_is_not_redirected_reaches_the_console_as_it_is(box):
    result = box.run(PUPPET, "print:plain", "eprint:plain too", "raw:ff00")
    assert result.out_bytes == b"plain\n\xff\x00" and result.err_bytes == b"plain too\n", result


def test_tee_writes_to_both_with_the_ranks_prefix(box):
    result = box.run("-t", "3", "--nproc-per-node=2", PUPPET, "print:out %r", "eprint:err %r")
    assert result.rc == 0, result
    assert sorted(result.out.splitlines()) == ["[default:0] out 0", "[default:1] out 1"]
    assert sorted(result.err.splitlines()) == ["[default:0] err 0", "[default:1] err 1"]
    assert (box.run_dir() / "attempt_0/1/stdout.log").read_text() == "out 1\n"
    assert (box.run_dir() / "attempt_0/1/stderr.log").read_text() == "err 1\n"


def test_a_map_names_the_ranks_that_are_teed(box):
    result = box.run("-t", "1:1", "--nproc-per-node=2", "-r", "3", PUPPET, "print:rank %r")
    assert result.out == "[default:1] rank 1\n", result
    assert (box.run_dir() / "attempt_0/0/stdout.log").read_text() == "rank 0\n"


def test_a_tee_of_workers_that_write_nothing_does_not_hang(box):
    result = box.run("-t", "3", "--nproc-per-node=2", PUPPET)
    assert result.rc == 0 and result.out == "", result


def test_the_prefix_template_stands_before_every_line(box):
    env = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[${role_name}|${rank}|${local_rank}] "}
    result = box.run("-t", "3", "--role=tr", "--nproc-per-node=2", PUPPET, "lines:50:40", env=env)
    lines = result.out.splitlines()
    assert len(lines) == 100, result
    assert all(re.match(r"\[tr\|([01])\|\1\] \1 \d+ x+$", line) for line in lines)


def test_the_prefix_template_keeps_variables_that_it_does_not_know(box):
    env = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "$$ ${role_name}:${index} ${pid} $step ${x "}
    result = box.run("-t", "1", PUPPET, "print:hello", env=env)
    assert result.out == "$ default:0 ${pid} $step ${x hello\n", result


def test_line_filters_copy_matching_lines_with_prefix(box):
    path = script(box, "count.py", "for i in range(20): print(f'line {i}.')\n")
    result = box.run("-t", "1", "--nproc-per-node=3", "--duplicate-stdout-filters=2.", path)
    assert result.rc == 0, result
    copied = (box.run_dir() / "attempt_0/filtered_stdout.log").read_text().splitlines()
    assert sorted(copied) == sorted(
        f"[default:{r}] line {n}." for r in range(3) for n in (2, 12))
    assert len(result.out.splitlines()) == 60, "the console has all lines"


def test_an_escaped_comma_in_a_filter(box):
    result = box.run("-t", "2", "--duplicate-stderr-filters=a,,b,zz", PUPPET, "eprint:a,b",
                     "eprint:ab", "eprint:zz", "eprint:a")
    assert result.rc == 0, result
    copied = (box.run_dir() / "attempt_0/filtered_stderr.log").read_text().splitlines()
    assert copied == ["[default:0] a,b", "[default:0] zz"]


def test_the_rank_filter_is_for_the_console_only(box):
    result = box.run("-t", "3", "--local-ranks-filter=0", "--nproc-per-node=3", PUPPET,
                     "print:rank %r", "eprint:err %r")
    assert result.out == "[default:0] rank 0\n" and result.err == "[default:0] err 0\n", result
    for rank in range(3):
        d = box.run_dir() / "attempt_0" / str(rank)
        assert (d / "stdout.log").read_text() == f"rank {rank}\n"
        assert (d / "stderr.log").read_text() == f"err {rank}\n"


def test_the_rank_filter_hides_streams_that_are_not_teed(box):
    result = box.run("--local-ranks-filter=1", "--nproc-per-node=3", PUPPET, "print:rank %r",
                     "eprint:err %r")
    assert result.out == "rank 1\n" and result.err == "err 1\n", result


def test_a_log_dir_that_is_a_file_is_refused(box):
    box.path("file").write_text("")
    result = box.run(f"--log-dir={box.path('file')}", PUPPET, f"touch:{box.path('started')}")
    assert result.rc == 125 and str(box.path("file")) in result.err, result
    assert not box.path("started").exists()


def test_dev_null_as_log_dir_writes_no_files(box):
    result = box.run("--log-dir=/dev/null", "-t", "3", "--nproc-per-node=2", PUPPET,
                     f"env:{box.path('env')}.%r", "print:still shown")
    assert result.rc == 0, result
    assert parse_environ(box.path("env.0").read_bytes())["TORCHELASTIC_ERROR_FILE"] == ""
    assert result.out.count("still shown") == 2
    assert not list(box.path("tmp").iterdir())


def test_without_a_log_dir_the_logs_go_to_the_default_one(box):
    result = box.ctl("run", "-r", "3", PUPPET, "print:x")
    assert result.rc == 0, result
    assert len(list(box.dir.rglob("attempt_0/0/stdout.log"))) == 1, result
    assert (box.run_dir("xs/elasticd/logs") / "attempt_0/0/stdout.log").read_text() == "x\n"


def test_the_layout_of_a_run(box):
    result = box.run("--max-restarts=1", "-r", "3", PUPPET, "print:attempt %a", "if-attempt:0:exit:9")
    assert result.rc == 0, result
    d = box.run_dir()
    assert (d / "attempt_0/0/stdout.log").read_text() == "attempt 0\n"
    assert (d / "attempt_1/0/stdout.log").read_text() == "attempt 1\n"
    verdict = json.loads((d / "verdict.json").read_text())
    assert (verdict["result"], verdict["exit_status"]) == ("succeeded", 0)
    json.loads((d / "job.json").read_text())
    events = [json.loads(line) for line in (d / "events.jsonl").read_text().splitlines()]
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    name = d.name.rpartition("_")[0]
    assert os.readlink(d.parent / f"{name}.latest") == d.name
    assert d.stat().st_mode & 0o007 == 0, "others may read what workers print"


# --- failure and restart -----------------------------------------------------------------------------


def test_two_failures_then_success(box):
    result = box.run("--max-restarts=2", "--nproc-per-node=2", "-r", "3", PUPPET,
                     f"env:{box.path('env')}.%a.%r", f"barrier:{box.path('bar')}",
                     "if-attempt:0:if-rank:1:exit:3", "if-attempt:1:exit:4")
    assert result.rc == 0, result
    for attempt in range(3):
        assert (box.run_dir() / f"attempt_{attempt}").is_dir()
        for rank in range(2):
            got = parse_environ(box.path(f"env.{attempt}.{rank}").read_bytes())
            assert got["TORCHELASTIC_RESTART_COUNT"] == str(attempt)
            assert got["ELASTICD_ATTEMPT"] == str(attempt)


def test_always_failing_starts_exactly_once_more_per_restart(box):
    result = box.run("--max-restarts=2", "--nproc-per-node=2", PUPPET, f"mark:{box.path('marks')}",
                     f"barrier:{box.path('bar')}", "if-rank:0:exit:11", "hang")
    assert result.rc == 11, result
    starts = sorted(line.split()[1:] for line in wait_lines(box.path("marks"), 6))
    assert starts == sorted([str(r), str(a)] for r in (0, 1) for a in (0, 1, 2))
    assert "Root Cause" in result.err


def test_two_hundred_thousand_lines_before_a_failure_are_all_there(box):
    result = box.run("-t", "1", "--nproc-per-node=2", PUPPET, "if-rank:0:lines:200000:48+exit:1",
                     "hang")
    assert result.rc == 1
    on_console = [line for line in result.out_bytes.splitlines() if line.startswith(b"[default:0] ")]
    assert len(on_console) == 200000
    assert on_console[-1].startswith(b"[default:0] 0 199999 ")
    log = (box.run_dir() / "attempt_0/0/stdout.log").read_bytes()
    assert len(log) == 200000 * 48


def test_a_closed_standard_output_hurts_no_worker(box):
    read, write = os.pipe()
    os.close(read)
    run = box.run_start("-t", "1", PUPPET, "lines:20000:80", "sleep:50", "print:the end",
                        stdout=write)
    os.close(write)
    result = run.wait()
    assert result.rc == 0, result
    log = (box.run_dir() / "attempt_0/0/stdout.log").read_text()
    assert log.endswith("the end\n") and log.count("\n") == 20001


def test_a_port_held_by_a_dying_worker_is_free_for_the_next_attempt(box):
    result = box.run("--max-restarts=1", "--nproc-per-node=2", "--shutdown-timeout=1", PUPPET,
                     "ignore:TERM", f"if-rank:0:{{setsid-fork:{{ignore:TERM+hold:{box.path('lock')}"
                     f"+touch:{box.path('held')}.%a+hang}}}}", f"if-rank:0:wait-file:{box.path('held')}.%a",
                     f"barrier:{box.path('bar')}", "if-attempt:0:if-rank:1:exit:1",
                     "if-attempt:0:hang")
    assert result.rc == 0, result
    assert box.path("held.1").exists(), "the second attempt never got the lock"


# --- specification files and dry runs ------------------------------------------------------------------


def test_a_specification_file_in_yaml(box):
    path = script(box, "job.yaml", f"""
name: from-file
roles:
  - name: trainer
    replicas: 2
    command: [{PUPPET}, "env:{box.path('env')}.%r", "print:x"]
    env: {{ EXTRA: "yes" }}
logs: {{ redirects: 3, dir: {box.path('yl')} }}
""")
    result = box.ctl("run", "--spec", path)
    assert result.rc == 0, result
    got = parse_environ(box.path("env.1").read_bytes())
    assert (got["EXTRA"], got["ROLE_NAME"], got["ELASTICD_JOB"]) == ("yes", "trainer", "from-file")
    assert (box.run_dir("yl") / "attempt_0/1/stdout.log").read_text() == "x\n"


def test_a_dry_run_prints_a_specification_that_runs_the_same(box):
    result = box.run("--dry-run", "--nproc-per-node=2", "--max-restarts=1", "-r", "3", PUPPET,
                     f"touch:{box.path('ran')}.%r")
    assert result.rc == 0, result
    assert not box.path("ran.0").exists(), "a dry run must not run"
    path = script(box, "dry.json", result.out)
    again = box.ctl("run", "--spec", path)
    assert again.rc == 0, again
    assert box.path("ran.1").exists()


@pytest.mark.parametrize("verb", ["run", "start"])
@pytest.mark.parametrize("name", ["job.yaml", "job.yml", "job.json"])
@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_a_job_file_in_the_programs_place_is_recognised(box, verb, name, mode):
    path = script(box, name, '{"roles": [{"command": ["true"]}]}')
    path.chmod(mode)
    result = box.ctl(verb, path)
    assert f"--spec {path}" in result.err and result.rc == {"run": 125, "start": 2}[verb], result
    assert box.ctl(verb, "--dry-run", "--spec", path).rc == 0


def test_a_program_may_be_called_as_a_job_file_is(box):
    path = script(box, "odd.yaml", "#!/bin/sh\nexit 7\n")
    path.chmod(0o755)
    assert box.run(path).rc == 7
    # That it is not there is told by who runs it.
    assert box.run("--dry-run", box.path("nowhere.yaml")).rc == 0


def test_unknown_keys_of_a_file_are_refused_by_path(box):
    path = script(box, "bad.yaml", f"roles:\n  - command: [{PUPPET}]\n    restart: {{max: -2}}\n")
    result = box.ctl("run", "--spec", path)
    assert result.rc in (2, 125) and "roles[0].restart" in result.err, result


def test_a_run_that_ends_leaves_nothing_behind(box):
    result = box.run("--nproc-per-node=2", "-r", "3", PUPPET, f"env:{box.path('env')}.%r",
                     "fork:hang", "setsid-fork:hang", "double-fork:hang", "daemon:hang")
    assert result.rc == 0, result
    run = parse_environ(box.path("env.0").read_bytes())["ELASTICD_RUN"]
    assert processes_of_run(run) == []


# --- where nothing is said -------------------------------------------------------------------------


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_a_home_that_cannot_be_written_is_no_obstacle(box):
    tmp = box.path("tmp")
    tmp.mkdir(exist_ok=True)
    box.open_to_all()
    shared = 'test -S "$ELASTICD_WORKER_SOCKET" && exit 3'
    result = box.sh(*as_user(other_user(), CTL, "run", "sh", "-c", shared), env={
        "HOME": "/proc/none", "XDG_STATE_HOME": "", "XDG_RUNTIME_DIR": "", "TMPDIR": str(tmp)})
    assert result.rc == 3 and "share nothing" not in result.err, result
    assert not list(tmp.glob("elasticd-??????")), "the directory of the socket is gone with the run"
    (root,) = tmp.glob("elasticd-logs-*")
    assert f"logs are in {root}" in result.err
    assert list(root.glob("sh_*/verdict.json"))


@pytest.mark.parametrize("program,name", [("train.py", "train"), ("a b+c.sh", "a-b-c"), ("-x", "job")])
def test_a_run_is_named_for_what_runs(box, program, name):
    path = script(box, program, "#!/bin/sh\nexit 0\n" if not program.endswith(".py") else "")
    path.chmod(0o755)
    assert box.run(path).rc == 0
    assert os.readlink(box.path("logs") / f"{name}.latest").startswith(f"{name}_")


def test_workers_learn_which_signals_are_handed_on(box):
    result = box.run("--signals-to-handle=SIGTERM,SIGUSR1",
                     "sh", "-c", "echo $TORCHELASTIC_SIGNALS_TO_HANDLE")
    assert result.out.strip() == "SIGTERM,SIGUSR1"
