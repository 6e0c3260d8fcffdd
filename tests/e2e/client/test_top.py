# SPDX-License-Identifier: Apache-2.0
"""top: jobs and workers on a terminal, as a person sees and uses it."""

import json
import os
import signal
import time

import pytest

from harness import BUILD, CTL, SANITIZED, children, spec, wait_for, wait_gone
from tmux import Screen


@pytest.fixture
def jobs(box, daemon):
    for name, replicas in (("digits", 3), ("llama", 2)):
        daemon.submit(spec("print:step %r of a long epoch – and more words than fit into fifty columns",
                           "hang", name=name, replicas=replicas, restart={"max": 3}, logs={"redirects": 3}))
        job = daemon.wait(name, until="running")
        wait_for(lambda n=name: all(w.get("last_line") for w in daemon.status(n, live=True)["workers"]),
                 *(daemon.log(job, 0, r).parent for r in range(replicas)), what="a line of each worker")


def fits(lines, columns):
    assert max(len(line) for line in lines) <= columns, "\n".join(lines)
    return lines


def test_jobs_their_workers_and_logs_are_a_key_away(box, daemon, jobs):
    t = Screen(box, f"{CTL} top")
    lines = fits(t.see("2 jobs, 5 workers", "step 0 of a"), 80)
    assert lines[2].split()[:4] == ["JOB", "STATE", "ATT", "RST"], lines
    assert lines[3].startswith("digits running"), lines
    assert lines[-1].startswith("Enter Workers  l Logs  k Kill"), lines
    t.press("Enter")
    lines = fits(t.see("digits - running", "worker:2"), 80)
    pids = [w["pid"] for w in daemon.status("digits")["workers"]]
    assert [line.split()[:4] for line in lines[3:6]] == \
        [[str(i), f"worker:{i}", "running", str(pid)] for i, pid in enumerate(pids)], lines
    t.press("Down", "l")
    t.see("Logs of digits/worker:1", "step 1 of a long epoch", "Esc Back", without=["step 0"])
    t.press("Escape")
    t.resize(50, 12)
    lines = fits(t.see("digits - running", "Esc Jobs  l Logs  k Kill  / Filter  h Help  q Quit"), 50)
    assert lines[2].split()[:3] == ["RANK", "WORKER", "STATE"] and "step 2" in lines[5], lines
    t.press("Escape", "/", "l", "l", "a", "Enter")
    fits(t.see('with "lla": 1 of 2', without=["digits"]), 50)
    t.press("q")
    t.see("ended with 0", " echo ", " icanon ")


def test_a_signal_goes_to_a_worker_after_a_question(box, daemon, jobs):
    t = Screen(box, f"{CTL} top llama")
    t.see("llama - running", "worker:1")
    t.press("Down", "k")
    t.see("Signal for llama/worker:1 (Up, Down: others): TERM")
    for _ in range(4):
        t.press("Down")
    t.press("Enter")
    t.see(f"Send SIGKILL to llama/worker:1, pid {daemon.status('llama')['workers'][1]['pid']}? (y/n)")
    t.press("y")
    t.see("Sent SIGKILL to llama/worker:1.")
    daemon.watch("llama", lambda job, _: job["restarts"] == 1)
    t.press("Home")
    t.see("attempt 1, restarts 1 of 3")


def test_a_lost_elasticd_is_shown_and_connected_to_again(box, daemon, jobs):
    t = Screen(box, f"{CTL} top")
    t.see("digits", "step 0 of a")
    daemon.kill()
    t.see("No elasticd for", "trying again", "digits")
    daemon.start()
    lines = t.see("Connected to elasticd again.", without=["No elasticd"])
    assert lines[3].startswith("digits running"), lines


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(box, daemon, jobs, signo):
    t = Screen(box, f"{CTL} top")
    t.see("digits")
    os.kill(t.pid("elasticctl"), signo)
    lines = t.see(f"ended with {128 + signo}", " echo ", " icanon ", without=["digits"])
    assert lines[:2] == ["", f"ended with {128 + signo}"], lines


@pytest.mark.parametrize("env,colours,dash", [
    ({"LC_ALL": "C"}, True, "?"), ({"NO_COLOR": "1"}, False, "–"), ({"TERM": "vt100"}, False, "–")])
def test_the_screen_fits_the_terminal_and_the_locale(box, daemon, jobs, env, colours, dash):
    t = Screen(box, f"{CTL} top", 100, **env)
    t.see(f"step 0 of a long epoch {dash} and")
    row = t.lines("-e")[4]
    assert ("\x1b[32m" in row or "\x1b[1;32m" in row) == colours, repr(row)


def test_without_a_screen_the_table_is_printed_once(box, daemon, jobs):
    out = box.ctl("top")
    assert out.rc == 0 and [line.split()[0] for line in out.out.splitlines()] == ["JOB", "digits", "llama"]
    t = Screen(box, f"{CTL} top", TERM="dumb")
    t.see('the terminal "dumb" cannot move its cursor', "digits", "ended with 0")
    one = box.ctl("top", "--once", "digits").out.splitlines()
    assert one[0].split()[:3] == ["RANK", "WORKER", "STATE"] and len(one) == 4, one
    told = json.loads(box.ctl("top", "--json", "dig*", "llama").out)
    assert [(j["name"], len(j["workers"])) for j in told] == [("digits", 3), ("llama", 2)]
    assert all(w["rss_bytes"] > 0 and w["last_line"].startswith("step ") for j in told for w in j["workers"])
    assert box.ctl("top", "nothing").rc == 1


@pytest.fixture
def driver(box):
    """That of two GPUs: 30 % and 80 % busy."""
    if SANITIZED:
        pytest.skip("the driver is not found before the sanitizer")
    box.env.update({"LD_LIBRARY_PATH": str(BUILD / "tests/tools/nvml"), "FAKE_NVML": str(box.path("gpu"))})
    return box.path("gpu.processes"), box.path("gpu.hangs")


def test_the_memory_that_workers_hold_of_gpus_is_shown(driver, box, daemon, jobs):
    pids = [w["pid"] for w in daemon.status("digits")["workers"]]
    driver[0].write_text(f"0 {pids[0]} 700\n1 {pids[1]} 2048\n1 1 9\n")
    lines = box.ctl("top", "--once", "digits").out.splitlines()
    at = lines[0].split().index("GPU%")
    assert [line.split()[at:at + 2] for line in lines] == [
        ["GPU%", "GPUMEM"], ["30", "700M"], ["80", "2.0G"], ["-", "-"]]
    t = Screen(box, f"{CTL} top")
    lines = t.see("GPU%", "2.7G")
    assert " 55 " in lines[3] and "2.7G" in lines[3], lines


def test_a_driver_that_hangs_is_left_out(driver, box, daemon, jobs):
    driver[0].write_text(f"0 {daemon.status('digits')['workers'][0]['pid']} 700\n")
    t = Screen(box, f"{CTL} top")
    t.see("digits", "step 0 of a", "GPU%", "700M")
    driver[1].touch()
    t.see("digits", "step 0 of a", without=["GPU"])
    [program] = children(t.pid("elasticctl"))
    began = time.monotonic()
    once = box.ctl("--timeout=1", "top", "--once")
    assert once.rc == 0 and "digits" in once.out and "GPU" not in once.out, once
    assert time.monotonic() - began < 3, "it waited for the driver beyond its own limit"
    t.press("q")
    t.see("ended with 0")
    wait_gone(program)
