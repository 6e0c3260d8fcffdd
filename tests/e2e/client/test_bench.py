# SPDX-License-Identifier: Apache-2.0
"""The benchmarks' peers, without the packages that they measure."""

import os
import subprocess
import sys

from harness import ROOT

# A torch as far as the peer needs it. Like the real one it has a thread once a server is there, and
# that thread holds a lock: a child of fork() finds the lock held by a thread that it does not have.
TORCH = """
import threading

lock, held, store = threading.Lock(), threading.Event(), {}


def hold():
    with lock:
        held.set()
        threading.Event().wait()


class TCPStore:
    port = 1

    def __init__(self, host, port, is_master, wait_for_workers):
        if is_master:
            threading.Thread(target=hold, daemon=True).start()
            held.wait()
        else:
            with lock:
                self.set, self.get = store.__setitem__, store.__getitem__
"""
BARRIER = "def barrier(store, world_size, key, barrier_timeout):\n    assert world_size == 1\n"


def test_clients_of_a_tcpstore_are_no_forks_of_a_process_with_threads(tmp_path):
    utils = tmp_path / "torch/distributed/elastic/utils"
    utils.mkdir(parents=True)
    (utils / "store.py").write_text(BARRIER)
    (tmp_path / "torch/distributed/__init__.py").write_text(TORCH)
    done = subprocess.run([sys.executable, ROOT / "bench/sharing_peer.py", "tcpstore", "pairs", "1", "10"],
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_a_client_that_fails_ends_the_measurement(tmp_path):
    """The peer says why at once, rather than waiting for an answer."""
    done = subprocess.run([sys.executable, ROOT / "bench/sharing_peer.py", *"socket pairs 1 10 1".split()],
                          env={**os.environ, "SHARING": "/bin/echo"}, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode != 0
    assert "Error" in done.stderr
