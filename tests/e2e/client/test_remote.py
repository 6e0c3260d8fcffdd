# SPDX-License-Identifier: Apache-2.0
"""The elasticd of another host through ssh alone. ssh is mostly a script that runs the command on this host,
in an environment of its own, and says who called; where sshd is installed, a real one is asked too."""

import asyncio
import getpass
import os
import shutil
import signal
import subprocess

import pytest

from harness import BUILD, descendants, puppet, spec, wait_for, wait_gone, wait_text
from managers import LIMIT, import_package, in_thread

SSH = """#!/bin/sh
# As ssh -xT -- HOST COMMAND
echo "$@" >> {log}
[ "$#:$1:$2" = 4:-xT:-- ] || exit 254
case $3 in
far) ;;
gone) echo "a banner" >&2; echo "ssh: connect to host gone port 22: Connection refused" >&2; exit 255 ;;
*) exit 254 ;;
esac
exec env -i PATH={path} ELASTICD_SOCKET={socket} ELASTICD_HOST=gone /bin/sh -c "$4"
"""
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


@pytest.fixture
def elasticd(monkeypatch):
    return import_package(monkeypatch)


@pytest.fixture
def far(box, daemon, monkeypatch):
    """The box's elasticd is on the host "far"; none is on this one."""
    ssh = box.path("work/ssh")
    ssh.write_text(SSH.format(log=box.path("ssh.log"), path=f"{BUILD}:{os.environ['PATH']}",
                              socket=daemon.socket))
    ssh.chmod(0o755)
    box.env.update(ELASTICD_SSH=str(ssh), ELASTICD_SOCKET=str(box.path("none")))
    for name in ("ELASTICD_SSH", "ELASTICD_SOCKET"):
        monkeypatch.setenv(name, box.env[name])
    return daemon


def bridges():
    def argv(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                return f.read().split(b"\0")
        except OSError:
            return []
    return [p for p in descendants(os.getpid()) if b"__bridge" in argv(p)]


def test_verbs_calls_and_streams_go_through_ssh(box, far):
    r = box.ctl("--host=far", "start", "--name=j", "--wait", "--no-python", "sh", "-c", "echo hi; exit 7")
    assert r.rc == 7, r
    assert box.ctl("--host", "far", "logs", "-f", "--raw", "j").out == "hi\n"
    env = {"ELASTICD_HOST": "far"}
    assert box.ctl("wait", "j", env=env).rc == 7
    assert box.ctl("ping", env=env).rc == 0
    assert ", far)" in box.ctl("version", env=env).out
    assert box.ctl("run", "--no-python", "true", env=env).rc == 0  # which asks no elasticd
    assert box.ctl("--host=", "ping", env=env).rc == 5 == box.ctl("ping", "--socket=/none", env=env).rc
    for said in box.path("ssh.log").read_text().splitlines():
        assert said == "-xT -- far elasticctl __bridge"


def test_tasks_go_through_ssh_on_several_connections(box, far):
    far.submit(spec("hang", name="q"))
    tasks = box.path("work/tasks")
    tasks.write_text("".join(f'"{"x" * 1000}{i}"\n' for i in range(500)))
    r = box.ctl("--host=far", "task", "submit", "q", "--file", str(tasks), "-q")
    assert r.rc == 0 and len(r.out.splitlines()) == 500, r
    assert len(box.ctl("--host=far", "task", "list", "q", "--json").out.splitlines()) == 500
    assert box.ctl("--host=gone", "task", "submit", "q", "1").err.splitlines()[-1].endswith("refused")


@pytest.mark.parametrize(("argv", "rc", "said"), [
    (["--host=gone", "list"], 5, "gone: ssh: connect to host gone port 22: Connection refused"),
    (["--host=gone", "wait", "j"], 125, "gone: ssh: connect to host gone port 22: Connection refused"),
    (["list", "--host=far", "--socket=/no/'such one"], 5,
     "far: no elasticd listens on /no/'such one; start one with"),
    (["--host=-oProxyCommand=x", "list"], 2, "--host: expected HOST or USER@HOST, got"),
    (["--host=a b", "list"], 2, "--host: expected HOST or USER@HOST, got"),
    (["--host=far", "run", "true"], 125, "run is for this host alone: it does not go with --host"),
    (["--host=far", "attach", "j/0"], 125, "attach is for this host alone: it does not go with --host"),
    (["--host=far", "update"], 2, "update is for this host alone: it does not go with --host"),
    (["--host=far", "status", "nobody"], 4, "no job named nobody"),
])
def test_each_error_is_one_line(box, far, argv, rc, said):
    r = box.ctl(*argv)
    lines = [line for line in r.err.splitlines() if line.startswith("elasticctl: ")]
    assert r.rc == rc and len(lines) == 1 and lines[0].startswith("elasticctl: " + said), r
    assert rc in (2, 125) and "gone" not in said or len(r.err.splitlines()) == 1


def test_without_ssh_the_program_is_named(box, far):
    r = box.ctl("--host=far", "list", env={"ELASTICD_SSH": "/no/ssh"})
    assert r.rc == 5 and r.err == "elasticctl: far: cannot execute /no/ssh: No such file or directory\n"


def test_ctrl_c_and_death_end_ssh_and_leave_the_job(box, far):
    far.submit(spec("print:begun", "hang", name="j"))
    for signo, argv in ((signal.SIGINT, ["logs", "-f", "j"]), (signal.SIGKILL, ["logs", "-f", "j"])):
        follows = box.ctl_start("--host=far", *argv)
        follows.wait_out("begun")
        assert len(bridges()) >= 1
        os.killpg(follows.pid, signo) if signo == signal.SIGINT else follows.signal(signo)
        assert follows.wait().rc == -signo
        wait_for(lambda: not bridges(), "/proc", what="ssh to end")
    follows = box.ctl_start("--host=far", "start", "--follow", "--name=k", *puppet("print:begun", "hang"))
    follows.wait_out("begun")
    os.killpg(follows.pid, signal.SIGINT)  # as the terminal sends it, to all of them
    r = follows.wait()
    assert r.rc == 130 and "left k, which goes on" in r.err and "broke" not in r.err, r
    assert box.ctl("--host=far", "status", "k").rc == 0
    lines, more = os.pipe()
    os.write(more, b"1\n")
    submits = box.ctl_start("--host=far", "task", "submit", "k", "-f", "-", stdin=lines)
    submits.wait_out("\n")  # the number of the first one
    os.killpg(submits.pid, signal.SIGINT)
    r = submits.wait()
    os.close(lines)
    os.close(more)
    assert r.rc == 130 and "1 task" in r.err and "broke" not in r.err, r
    follows = box.ctl_start("--host=far", "logs", "-f", "j")
    follows.wait_out("begun")
    far.kill()
    r = follows.wait()
    assert r.rc == 5 and "the connection to elasticd broke" in r.err
    far.start()


def test_python_goes_through_ssh(box, far, elasticd):
    with elasticd.Manager(host="far") as m:
        assert "far" in repr(m)
        job = m.start(spec("print:hello", "hang"), name="p")
        with job.logs(follow=True) as lines:
            assert next(lines).data == b"hello"
            waits = in_thread(lambda: job.wait(LIMIT))
            job.stop(0)
            assert waits().state == "stopped"
        old = bridges()
        far.restart()
        for pid in old:
            wait_gone(pid)
        assert [j.name for j in m.jobs(ended=True)] == ["p"]  # by a new ssh

    async def main():
        async with elasticd.aio.Manager(host="far", socket=far.socket) as m:
            return [event.event async for event in m.job("p").events(follow=True)]

    assert asyncio.run(main())[-1] == "ended"
    with pytest.raises(elasticd.Unavailable) as e:
        elasticd.Manager(host="gone").ping()
    assert str(e.value) == "gone: ssh: connect to host gone port 22: Connection refused"
    wait_for(lambda: not bridges(), "/proc", what="ssh to end")


@pytest.mark.skipif(not SSHD or not shutil.which("ssh"), reason="no sshd and ssh here")
def test_through_a_real_sshd(box, daemon, elasticd, monkeypatch):
    home = box.path("sshd")
    home.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", home / name], check=True)
    shutil.copy(home / "user.pub", home / "keys")
    os.makedirs("/run/sshd", exist_ok=True)
    (home / "server").write_text(
        f"HostKey {home}/host\nAuthorizedKeysFile {home}/keys\nStrictModes no\nPidFile none\nUsePAM no\n"
        f"SetEnv PATH={BUILD}:/usr/bin:/bin ELASTICD_SOCKET={daemon.socket}\n")
    # Without a port: sshd serves one connection on its standard input, as by inetd.
    (home / "client").write_text(
        f"Host far\nProxyCommand {SSHD} -i -f {home}/server -E {home}/log\nIdentityFile {home}/user\n"
        f"UserKnownHostsFile {home}/known\nStrictHostKeyChecking accept-new\nUser {getpass.getuser()}\n"
        "BatchMode yes\n")
    ssh = home / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec ssh -F {home}/client "$@"\n')
    ssh.chmod(0o755)
    box.env.update(ELASTICD_SSH=str(ssh), ELASTICD_SOCKET="/none", ELASTICD_HOST="far")
    monkeypatch.setenv("ELASTICD_SSH", str(ssh))
    r = box.ctl("start", "--follow", "--name=j", "--no-python", "--", "sh", "-c", "echo hi; exit 7")
    assert r.rc == 7 and r.out.endswith("\n[default:0] hi\n"), r
    with elasticd.Manager(host="far") as m:
        assert [line.data for line in m.job("j").logs()] == [b"hi"]
    (home / "keys").write_text("")
    assert "Permission denied" in (r := box.ctl("list")).err and r.rc == 5 and len(r.err.splitlines()) == 1
    wait_text(home / "log", "Accepted publickey")
