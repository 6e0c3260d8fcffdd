# SPDX-License-Identifier: Apache-2.0
"""Whom the system's elasticd serves: members of two groups, either of which will do."""

import pytest

from harness import CTL, as_user, is_root, other_user, spec

pytestmark = pytest.mark.skipif(not is_root(), reason="needs root")


class Stranger:
    """A user in no group that anybody knows."""

    pw_uid = pw_gid = 54321


@pytest.fixture
def system(box):
    """Starts an elasticd with these lines of configuration, in a directory that all may enter."""
    box.open_to_all()

    def start(*lines):
        daemon = box.new_daemon(config="\n".join(["[elasticd]", *lines, ""]))
        daemon.base.chmod(0o755)
        return daemon.start()

    return start


def ctl(box, user, *args):
    return box.sh(*as_user(user, CTL, *args), cwd="/")


def test_a_member_of_the_admin_group_needs_no_other_group(box, system):
    daemon = system("admin_group = nogroup")
    daemon.submit(spec("hang", name="roots"))
    assert "roots" in ctl(box, other_user(), "list").out
    assert ctl(box, other_user(), "stop", "roots").rc == 0
    assert daemon.wait("roots")["state"] == "stopped"


def test_a_user_in_neither_group_is_told_whom_elasticd_serves(box, system):
    daemon = system("admin_group = nogroup")
    daemon.submit(spec("hang", name="roots"))
    for verb in (["list"], ["status", "roots"], ["stop", "roots"], ["start", "--", "true"]):
        r = ctl(box, Stranger, *verb)
        assert r.rc != 0 and "user 54321 may not use this elasticd" in r.err, r
        assert "members of group nogroup, members of group elasticd" in r.err and "roots" not in r.out
    assert daemon.wait("roots", until="running")["state"] == "running"


def test_a_user_in_neither_group_is_told_so_before_it_has_said_anything(box, system):
    """Nothing that such a user sends is kept, however little or much it is."""
    daemon = system("admin_group = nogroup")
    script = ("import socket, sys\n"
              "s = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\ns.settimeout(60)\n"
              "while data := s.recv(65536):\n    sys.stdout.buffer.write(data)\n")
    r = box.sh(*as_user(Stranger, "/usr/bin/python3", "-c", script, daemon.socket), cwd="/")
    assert r.rc == 0 and "io.elasticd.Manager.PermissionDenied" in r.out, r
    assert "user 54321 may not use this elasticd" in r.out


def test_a_member_of_an_allowed_group_sees_its_own_jobs_only(box, system):
    daemon = system("allow_groups = nogroup")
    daemon.submit(spec("hang", name="roots"))
    r = ctl(box, other_user(), "list")
    assert r.rc == 0 and "roots" not in r.out
    assert "user 54321 may not use this elasticd" in ctl(box, Stranger, "list").err


def test_every_user_may_be_served(box, system):
    system("allow_users = *")
    assert ctl(box, Stranger, "list").rc == 0


def test_a_mode_of_the_socket_still_keeps_others_out(box, system):
    system("allow_users = *", "socket_mode = 0600")
    r = ctl(box, Stranger, "list")
    assert r.rc == 5 and "permission denied" in r.err
