# SPDX-License-Identifier: Apache-2.0
"""A real systemd, booted in namespaces of its own over this machine's files. What it changes stays over a
reboot, and goes with it."""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile

import pytest

from harness import (BUILD, PATIENCE, PUPPET, ROOT, SANITIZED, Popen, Unmet, cgroup2, children,
                     descendants, have, is_root, pidfd_of, wait_for, wait_gone)

# The files of all lives are in a file system of the outermost shell, which begins a life for each line
# that it reads.
LIVES = r"""
set -e
mount -t tmpfs none "$1"
mkdir "$1/up" "$1/wk" "$1/root"
while read -r go; do
	unshare --pid --fork --kill-child --mount --uts --ipc --net sh -c "$4" sh "$@" || echo "ended with $?"
done
"""

# A systemd that goes down removes all groups that it finds empty, also such as are just made by others:
# it sees none but those below its own.
JOIN = r"""
[ -z "$6" ] || echo 0 > "$6/cgroup.procs"
exec unshare --cgroup sh -c "$5" sh "$1" "$2" "$3"
"""

BOOT = r"""
set -e
mount -t overlay none -o "lowerdir=/,upperdir=$1/up,workdir=$1/wk" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs none run
mount -t tmpfs none tmp
# Last: a checkout below /tmp is there all the same.
mkdir -p "./$2"
mount --rbind "$2" "./$2"
ln -sf /lib/systemd/system/basic.target etc/systemd/system/default.target
rm -rf etc/systemd/system/systemd-logind.service
# No mounts: where many come at once, systemd 252 may wait for them for ever.
for unit in $3 systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
	systemd-udev-trigger.service systemd-networkd.service systemd-resolved.service \
	systemd-modules-load.service systemd-remount-fs.service \
	systemd-random-seed.service systemd-firstboot.service kmod-static-nodes.service \
	systemd-binfmt.service proc-sys-fs-binfmt_misc.automount dev-hugepages.mount \
	dev-mqueue.mount sys-kernel-config.mount sys-kernel-debug.mount \
	sys-kernel-tracing.mount sys-fs-fuse-connections.mount; do
	ln -sf /dev/null "etc/systemd/system/$unit"
done
: > etc/fstab
# Each life is a boot of its own, as in systemd-nspawn.
cat proc/sys/kernel/random/uuid > run/boot_id
mount --bind run/boot_id proc/sys/kernel/random/boot_id
mkdir -p old
pivot_root . old
umount -l /old
export container=e2e
echo booting
exec chroot . /lib/systemd/systemd --system </dev/null
"""


BOOTS = 8 * PATIENCE  # seconds that a systemd may take to come up, and to go down

# A directory of Debian packages, which machines have in place of what "make install" installs.
DEBS = os.environ.get("ELASTIC_DEBS")


def packages(*names):
    """The files of these packages in DEBS."""
    found = [next(pathlib.Path(DEBS).glob(f"{name}_*.deb"), None) for name in names]
    assert all(found), f"not all of {names} are in {DEBS}"
    return found


class Machine:
    """masked: units that this machine does not have."""

    def __init__(self, masked=("systemd-logind.service",)):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="e2e-systemd-", dir="/tmp"))
        self.where = self.dir / "root"
        self.where.mkdir()
        self.out = self.dir / "out"
        self.lives = 0
        self.group = self.make_group()
        env = {"PATH": os.environ["PATH"]}
        with open(self.out, "wb") as out:
            self.outer = Popen(
                ["unshare", "--mount", "sh", "-c", LIVES, "sh", str(self.where), str(ROOT),
                 " ".join(masked), JOIN, BOOT, str(self.group or "")],
                stdin=subprocess.PIPE, stdout=out, stderr=out, env=env, start_new_session=True)

    def make_group(self):
        """The group that is the root for all lives; None where there are none."""
        if not cgroup2() or not os.access(cgroup2(), os.W_OK):
            return None
        group = cgroup2() / self.dir.name
        group.mkdir()
        return group

    def over(self):
        """Whether the present life has ended."""
        ended = self.out.read_bytes().count(b"ended with")
        return self.outer.poll() is not None or ended >= self.lives

    def boot(self):
        """Returns why it cannot be done, or None once systemd has started everything."""
        self.lives += 1
        try:
            os.write(self.outer.stdin.fileno(), b"go\n")
        except BrokenPipeError:
            self.outer.wait()  # and has said why

        def begun():
            return self.over() or self.out.read_bytes().count(b"booting") >= self.lives

        wait_for(begun, self.dir, self.out, timeout=BOOTS, what="the namespaces")
        # Whose child it is goes with it, where it ends at once.
        inner = children(self.outer.pid)
        first = children(inner[0]) if inner else []
        if self.over() or not first:
            wait_for(self.over, self.dir, self.out, timeout=BOOTS, what="the end of its life")
            return f"cannot boot a systemd here: {self.out.read_text().strip()}"
        self.pid = first[0]
        root = f"/proc/{self.pid}/root/run"
        wait_for(lambda: os.path.exists(f"{root}/systemd/private") or self.over(),
                 root, f"{root}/systemd", timeout=BOOTS, what="systemd's socket")
        if self.over():
            return f"systemd ended at once: {self.out.read_text().strip()}"
        self.sh("systemctl", "is-system-running", "--wait", check=False, timeout=BOOTS)
        return None

    def install(self):
        """What is there; nothing is built by a test."""
        if DEBS:
            self.carry("debs", packages("elasticd", "elasticd-client"))
            self.sh("sh", "-c", "dpkg --install /root/debs/*.deb", env={"DEBIAN_FRONTEND": "noninteractive"})
            return
        relative = os.path.relpath(BUILD, ROOT)
        self.sh("make", "-C", ROOT, f"B={relative}", "-o", "programs", "install")
        self.sh("systemd-sysusers")
        self.sh("systemd-tmpfiles", "--create", check=False)
        self.sh("systemctl", "daemon-reload")

    def carry(self, name, debs):
        """Puts packages into /root/name. A container's policy would forbid them to start services, and the
        index of all manual pages takes longer than all the rest."""
        self.sh("rm", "-f", "/usr/sbin/policy-rc.d", "/var/lib/man-db/auto-update")
        where = pathlib.Path(f"/proc/{self.pid}/root/root", name)
        where.mkdir()
        for deb in debs:
            shutil.copy(deb, where)

    def configuration(self):
        """The name of elasticd's configuration file."""
        return pathlib.Path(self.sh("elasticd", "--check").stdout.partition(":")[0])

    def reboot(self, *how):
        """Goes down and comes back; with its files, and nothing else."""
        self.sh("systemctl", "reboot", *how, check=False)
        wait_for(self.over, self.dir, self.out, timeout=BOOTS, what="the end of its life")
        reason = self.boot()
        assert not reason, reason

    def sh(self, *argv, check=True, timeout=4 * PATIENCE, env=None):
        argv = ["nsenter", "-t", str(self.pid), "-a", *[str(a) for a in argv]]
        clean = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        with Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                   env=dict(clean, **(env or {})), text=True, cwd="/") as p:
            out, err = p.communicate(timeout=timeout)
        assert not check or p.returncode == 0, f"{argv[4:]}: {p.returncode}\n{out}\n{err}\n{self.journal()}"
        return subprocess.CompletedProcess(argv, p.returncode, out, err)

    def journal(self):
        return self.sh("journalctl", "-u", "elasticd", "-n", "40", "--no-pager", check=False).stdout

    def show(self, unit, *names):
        out = self.sh("systemctl", "show", unit, *[f"-p{n}" for n in names]).stdout
        return dict(line.partition("=")[::2] for line in out.splitlines())

    def ctl(self, *args, **kwargs):
        return self.sh("elasticctl", *args, **kwargs)

    def job(self, name):
        parsed = json.loads(self.ctl("status", "--json", name, check=False).stdout)
        if isinstance(parsed, list):
            parsed = parsed[0]
        if "jobs" in parsed:
            parsed = parsed["jobs"][0]
        return parsed.get("job", parsed) if isinstance(parsed.get("job"), dict) else parsed

    def start_job(self, name, *steps, replicas=1):
        self.ctl("start", f"--name={name}", f"--nproc-per-node={replicas}", PUPPET, *steps)
        return self.running(name)

    def running(self, name):
        """A job as elasticd knows it once it has heard that it runs."""
        self.ctl("wait", "--until=running", name)
        return self.job(name)

    def until(self, condition, what):
        """For what only systemd knows: asked again four times a second."""
        for _ in range(PATIENCE * 12):
            value = condition()
            if value:
                return value
            select.select([], [], [], 0.25)
        raise Unmet(what + "\n" + self.journal())

    def close(self):
        below = descendants(self.outer.pid)
        mine = [pid for pid in map(pidfd_of, children(self.outer.pid)) if pid is not None]
        # The shell first, which would wait for another life.
        self.outer.kill()
        for fd in mine:
            with contextlib.suppress(ProcessLookupError):  # a life that was just over
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            os.close(fd)
        self.outer.wait()
        self.outer.stdin.close()
        for pid in below:
            wait_gone(pid)
        if self.group:
            for d in [*sorted(self.group.rglob("*/"), reverse=True), self.group]:
                with contextlib.suppress(OSError):
                    d.rmdir()
        subprocess.run(["rm", "-rf", str(self.dir)], check=False)


def machine_or_skip(install=Machine.install, **kwargs):
    """A machine with elasticd installed by that function; to be closed."""
    if not is_root():
        pytest.skip("booting a systemd in namespaces needs root")
    if not have("systemctl") or not os.path.exists("/lib/systemd/systemd"):
        pytest.skip("no systemd on this machine")
    if SANITIZED:
        pytest.skip("the unit's hardening and sanitizers do not go together")
    m = Machine(**kwargs)
    try:
        reason = m.boot()
        if reason:
            pytest.skip(reason)
        install(m)
    except BaseException:
        m.close()
        raise
    return m
