# SPDX-License-Identifier: Apache-2.0
"""Hosts of a network that is there for one test: each has a network namespace with an address on one bridge,
and a name of its own. They can be cut off from each other, silently and in one direction, and healed.

Nothing of it has a name on the machine. Open descriptors of the test hold the namespaces, so all is
gone when the network is closed, and also when the test itself is killed."""

import contextlib
import ctypes
import os
import pathlib
import socket
import subprocess
import threading

import pytest

from harness import alive, have, is_root, wait_for
from processes import _libc

CLONE_NEWUTS, CLONE_NEWNET = 0x04000000, 0x40000000
NOWHERE = "02:00:00:00:ff:ff"  # a hardware address that no host has


def _check(rc, what):
    if rc != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


class Namespace:
    """A network, and a host's name, of its own."""

    def __init__(self, name):
        self.name, self.fds, failure = name, [], []

        def make():  # a thread of its own: the test itself stays where it is
            try:
                _check(_libc.unshare(CLONE_NEWNET | CLONE_NEWUTS), "unshare")
                _check(_libc.sethostname(name.encode(), len(name)), "sethostname")
                self.fds = [os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY) for kind in ("net", "uts")]
            except OSError as e:
                failure.append(e)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if failure:
            raise failure[0]

    def command(self, *argv):
        """That command, inside."""
        net, uts = (f"/proc/{os.getpid()}/fd/{fd}" for fd in self.fds)
        return ["nsenter", f"--net={net}", f"--uts={uts}", *[str(a) for a in argv]]

    def ip(self, *args):
        r = subprocess.run(self.command("ip", *args), check=False, capture_output=True)
        if r.returncode != 0:
            raise OSError(f"ip {' '.join(args)}: {r.stderr.decode().strip()}")

    def socket(self, *args):
        """A socket inside."""
        made = []

        def make():
            _check(_libc.setns(self.fds[0], CLONE_NEWNET), "setns")
            made.append(socket.socket(*args))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    def listens(self):
        """Whether any process here waits for connections over IPv4."""
        r = subprocess.run(self.command("cat", "/proc/net/tcp"), check=True, capture_output=True)
        return any(line.split()[3] == b"0A" for line in r.stdout.splitlines()[1:])

    def processes(self):
        inode, found = os.fstat(self.fds[0]).st_ino, []
        for d in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.stat(d / "ns/net").st_ino == inode and alive(int(d.name)):
                    found.append(int(d.name))
        return found

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []


class Net:
    """The hosts node0, node1 ... with the addresses 10.77.0.1, 10.77.0.2 ..."""

    def __init__(self, count):
        self.switch, self.nodes = None, []
        try:
            self.switch = Namespace("switch")
            self.switch.ip("link", "add", "br0", "type", "bridge", "forward_delay", "0")
            self.switch.ip("link", "set", "br0", "up")
            for i in range(count):
                self._add(i)
        except OSError:
            self.close()
            raise

    def _add(self, i):
        node = Namespace(f"node{i}")
        self.nodes.append(node)
        node.ip("link", "set", "lo", "up")
        node.ip("link", "add", "eth0", "address", f"02:00:00:00:00:{i + 1:02x}", "type", "veth",
                "peer", "name", f"port{i}", "netns", f"/proc/{os.getpid()}/fd/{self.switch.fds[0]}")
        node.ip("address", "add", f"{self.address(i)}/24", "dev", "eth0")
        node.ip("link", "set", "eth0", "up")
        self.switch.ip("link", "set", f"port{i}", "master", "br0", "up")

    @staticmethod
    def address(i):
        return f"10.77.0.{i + 1}"

    def cut_way(self, i, j):
        """Packets of node i to node j are lost, and i does not hear of it."""
        self.nodes[i].ip("neigh", "replace", self.address(j), "lladdr", NOWHERE, "dev", "eth0",
                         "nud", "permanent")

    def heal_way(self, i, j):
        with contextlib.suppress(OSError):  # it was not cut
            self.nodes[i].ip("neigh", "del", self.address(j), "dev", "eth0")

    def others(self, i):
        return [j for j in range(len(self.nodes)) if j != i]

    def cut(self, i, sends=True, hears=True):
        """Cuts node i off; by one direction alone, it still hears, or is still heard."""
        for j in self.others(i):
            if sends:
                self.cut_way(i, j)
            if hears:
                self.cut_way(j, i)

    def break_connections(self, i, j):
        """Node i's connections to node j end, as after a fault of the kernel."""
        r = subprocess.run(self.nodes[i].command("ss", "-K", "-Hn", "dst", self.address(j)), check=False,
                           capture_output=True)
        if r.returncode != 0 or not r.stdout.strip():
            pytest.skip("needs ss, and a kernel that ends connections for it")

    def unplug(self, i):
        """The other end of node i's cable is out of the switch."""
        self.switch.ip("link", "set", f"port{i}", "down")

    def heal(self, i):
        self.switch.ip("link", "set", f"port{i}", "up")
        for j in self.others(i):
            self.heal_way(i, j)
            self.heal_way(j, i)

    def processes(self):
        return [pid for node in self.nodes for pid in node.processes()]

    def close(self):
        for namespace in [*self.nodes, *filter(None, [self.switch])]:
            namespace.close()
        self.nodes, self.switch = [], None


def make_net(box, count):
    """A network that ends with the box; the test is skipped where none can be had."""
    if not is_root():
        pytest.skip("needs root to make networks")
    for program in ("ip", "nsenter"):
        if not have(program):
            pytest.skip(f"needs {program} to make networks")
    try:
        net = Net(count)
    except OSError as e:
        pytest.skip(f"cannot make networks here: {e}")

    def close():
        wait_for(lambda: not net.processes(), what="the last process of the hosts to end")
        net.close()

    box.cleanups.append(close)
    return net
