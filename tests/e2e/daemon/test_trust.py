# SPDX-License-Identifier: Apache-2.0
"""Who is asked: nothing is said to a daemon or an agent of another user, and nothing is looked for
where another user could have put it."""

import os

import pytest

from harness import BUILD, CTL, DAEMON, as_user, is_root, other_user
from impostor import heard, impostor

pytestmark = pytest.mark.skipif(not is_root(), reason="needs root")

LIBWORKER = str(BUILD / "tests/tools/libworker")

class Victim:
    """A user of this host without a session, who is not the one of other_user()."""

    pw_uid = pw_gid = 54321


def as_victim(box, *argv, **env):
    """Runs as the victim, whose home is work/victim, with what the environment has by itself."""
    home = box.path("work/victim")
    if not home.exists():
        box.open_to_all()
        home.mkdir(mode=0o755)
        os.chown(home, Victim.pw_uid, Victim.pw_gid)
    own = {k: None for k in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "ELASTICD_SOCKET")}
    return box.start(*as_user(Victim, *argv), cwd="/", env=dict(own, HOME=str(home), **env))


def test_a_daemon_of_another_user_is_told_nothing(box):
    path = str(box.path("tmp/control.sock"))
    liar = impostor(box, path)
    for verb in (["list"], ["start", "--", "true"], ["ping"], ["status", "j"], ["stop", "j"],
                 ["attach", "j/worker:0", "--", "true"], ["task", "submit", "j", "x"], ["version"],
                 ["platform"]):
        r = box.ctl("--socket", path, *verb)
        assert r.rc in (5, 125), r
        assert f"user {other_user().pw_name} ({other_user().pw_uid}) listens there" in r.err
        assert "expected root (0)" in r.err and "--trust-uid" in r.err
    assert not heard(liar)


def test_the_user_that_is_named_beside_a_socket_is_trusted(box):
    path = str(box.path("tmp/control.sock"))
    liar = impostor(box, path)
    assert box.ctl("--socket", path, "--trust-uid=54321", "ping").rc == 5
    assert not heard(liar)
    assert box.ctl("--socket", path, f"--trust-uid={other_user().pw_uid}", "ping").rc == 0
    assert heard(liar)


@pytest.mark.parametrize("uid", ["", "x", "-1", "4294967295", "1.5"])
def test_a_user_to_be_trusted_is_a_number(box, uid):
    r = box.ctl("ping", "--socket=/x", f"--trust-uid={uid}")
    assert r.rc == 2 and "--trust-uid: expected the number of a user" in r.err


def test_a_user_is_trusted_for_a_named_socket_only(box):
    r = box.ctl("--trust-uid=0", "ping")
    assert r.rc == 2 and "--trust-uid is for the elasticd that --socket names" in r.err


def test_no_daemon_is_looked_for_in_tmp(box):
    path = f"/tmp/elasticd-{Victim.pw_uid}"
    box.sh(*as_user(other_user(), "mkdir", "-m", "755", path))
    box.cleanups.append(lambda: box.sh("rm", "-rf", path))
    liar = impostor(box, f"{path}/control.sock")
    r = as_victim(box, CTL, "list").wait()
    assert r.rc == 5 and "no elasticd listens on" in r.err
    assert not heard(liar)


def test_a_runtime_directory_that_others_may_write_is_not_used(box):
    box.open_to_all()
    path = box.path("work/run")
    (path / "elasticd").mkdir(parents=True)
    path.chmod(0o1777)
    (path / "elasticd").chmod(0o777)
    liar = impostor(box, str(path / "elasticd/control.sock"))
    r = as_victim(box, CTL, "list", XDG_RUNTIME_DIR=str(path)).wait()
    assert r.rc == 5 and f"XDG_RUNTIME_DIR is not used: {path}: " in r.err, r
    assert not heard(liar)


def test_without_a_runtime_directory_daemon_and_client_meet_in_the_state_directory(box):
    run = box.path("work/victim/.local/state/elasticd/run")
    daemon = as_victim(box, DAEMON)
    daemon.wait_err("serves")
    assert run.stat().st_mode & 0o777 == 0o700 and run.stat().st_uid == Victim.pw_uid
    assert as_victim(box, CTL, "ping").wait().rc == 0
    assert as_victim(box, CTL, "shutdown").wait().rc == 0
    assert daemon.wait().rc == 0


def test_a_runtime_directory_of_another_user_is_refused_by_the_client(box):
    """Its state directory was given away, or is one that a group may write."""
    run = box.path("work/victim/.local/state/elasticd/run")
    assert as_victim(box, "mkdir", "-p", str(run)).wait().rc == 0
    run.chmod(0o777)
    liar = impostor(box, str(run / "control.sock"))
    r = as_victim(box, CTL, "list").wait()
    assert r.rc == 5 and "other users may write there (mode 777)" in r.err and "--socket" in r.err
    assert not heard(liar)


@pytest.mark.parametrize("option", ["--runtime-dir", "--socket"])
def test_a_daemon_puts_no_socket_where_others_may_write(box, option):
    place = box.path("work/place")
    place.mkdir()
    place.chmod(0o1777)
    named = place / "control.sock" if option == "--socket" else place
    other = [] if option == "--runtime-dir" else ["--runtime-dir", box.path("r")]
    r = box.sh(DAEMON, "--state-dir", box.path("s"), "--log-dir", box.path("l"), option, named, *other,
               env={"ELASTICD_SOCKET": None})
    assert r.rc != 0 and f"{place}: other users may write there" in r.err
    assert not any(place.iterdir())


def test_a_name_too_long_for_a_socket_is_refused_clearly(box):
    r = box.sh(DAEMON, f"--state-dir={box.path('s')}", f"--runtime-dir={box.path('r' * 100)}",
               env={"ELASTICD_SOCKET": None})
    assert r.rc != 0 and "the name of a socket has at most 107 bytes" in r.err and "--socket" in r.err


def test_a_worker_tells_an_agent_of_another_user_nothing(box):
    path = str(box.path("tmp/worker.sock"))
    liar = impostor(box, path)
    env = {"ELASTICD_WORKER_SOCKET": path, "ELASTICD_TOKEN": "1" * 16, "ELASTICD_SOCKET": None}
    r = box.ctl("task", "list", env=env)
    assert r.rc == 5 and "listens there, expected root (0)" in r.err, r
    r = box.sh(LIBWORKER, "put:k=v", env=env | {"ELASTICD_TOKEN": "1", "ELASTICD_BOARD": None})
    assert r.out.startswith("open PermissionDenied: ") and "listens there, expected root" in r.out, r
    assert not heard(liar)


def test_workers_share_in_a_private_directory(box):
    r = as_victim(box, CTL, "run", "--log-dir=/dev/null", "--", "sh", "-c",
                  "echo at $ELASTICD_WORKER_SOCKET", TMPDIR="/tmp").wait()
    assert r.rc == 0, r
    assert f"at {box.path('work/victim')}/.local/state/elasticd/run/elasticd-" in r.out, r
