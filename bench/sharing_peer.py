# SPDX-License-Identifier: Apache-2.0
"""What the peers need for the same as bench/sharing.c: sharing_peer.py KIND WHAT CLIENTS N [AT_ONCE] prints
nanoseconds, the median of a barrier, the time of all pairs, or the CPU time of all beats. KIND is
tcpstore (torch, whose set() does not wait for an answer), manager (multiprocessing), elasticd (our
package, as a worker of a job) or socket (bare round trips on a UNIX socket with a server in C that does
nothing, SHARING echo: the floor of anything that has a server and waits for its answers).

AT_ONCE pairs go together: one by a pipeline, several by put_many() and get_many(), or by multi_set() and
multi_get(). Of a socket it is how many round trips a pair has. nowait instead: elasticd's put does not wait
either, as a TCPStore's set() does not. What a process has written last it then reads from its own buffer,
where a TCPStore's get() asks its server each time.

Each client is a process of its own from the start, never a fork of one that has loaded torch: torch has
threads by then, and a child of fork may wait for ever for a lock that one of them held."""

import functools
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

KIND, WHAT, CLIENTS, N = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
WAITS = sys.argv[5:] != ["nowait"]
AT_ONCE = int(sys.argv[5]) if len(sys.argv) > 5 and WAITS else 0
now = time.monotonic_ns
spawn = multiprocessing.get_context("spawn")


def timed_barriers(wait):
    took = []
    for i in range(N):
        begun = now()
        wait(i)
        took.append(now() - begun)
    return statistics.median(took)


def all_pairs(rank, put, get, meet):
    meet("begin")
    begun = now()
    for i in range(N):
        key = f"k/{rank}/{i % 64}"
        put(key, b"value")
        get(key)
    meet("end")
    return now() - begun


def all_at_once(rank, pairs, meet):
    meet("begin")
    begun = now()
    for i in range(0, N, AT_ONCE):
        pairs([f"k/{rank}/{(i + j) % 64}" for j in range(AT_ONCE)])
    meet("end")
    return now() - begun


def run_client(to, client, rank, *shared):
    """The body of each client's process; rank 0 has a pipe to send what it measured."""
    value = client(rank, *shared)
    if to:
        to.send(value)


def with_clients(client, *shared):
    """Runs client(rank, *shared) in a process each; returns what rank 0's gave."""
    ours, theirs = spawn.Pipe(duplex=False)
    processes = [spawn.Process(target=run_client,
                               args=(None if rank else theirs, client, rank, *shared))
                 for rank in range(CLIENTS)]
    for p in processes:
        p.start()
    theirs.close()
    try:
        return ours.recv()  # EOFError: rank 0 has failed, and said why
    finally:
        for p in processes:
            p.join(60)
            p.kill()


def tcpstore_client(rank, port):
    from torch.distributed import TCPStore
    from torch.distributed.elastic.utils import store as torch_store

    store = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)

    def meet(name):
        torch_store.barrier(store, CLIENTS, str(name), barrier_timeout=300)

    meet("warm")
    if WHAT == "barrier":
        return timed_barriers(lambda i: meet(f"b{i}"))
    if AT_ONCE:
        def pairs(keys):
            store.multi_set(keys, [b"value"] * AT_ONCE)
            store.multi_get(keys)

        return all_at_once(rank, pairs, meet)
    return all_pairs(rank, store.set, store.get, meet)


def tcpstore():
    from torch.distributed import TCPStore

    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return with_clients(tcpstore_client, server.port)


def manager_client(rank, barrier, shared):
    barrier.wait()
    if WHAT == "barrier":
        return timed_barriers(lambda i: barrier.wait())
    return all_pairs(rank, shared.__setitem__, shared.__getitem__, lambda name: barrier.wait())


def manager():
    with spawn.Manager() as m:
        return with_clients(manager_client, m.Barrier(CLIENTS), m.dict())


def all_beats(job):
    begun = time.process_time_ns()
    for i in range(N):
        job.step(i)
        job.beat()
        job.notice
    return time.process_time_ns() - begun


def elasticd():
    import elasticd as package

    with package.init() as job:
        if WHAT == "beats":
            return all_beats(job)

        def pairs(keys):
            if AT_ONCE == 1:
                with job.kv.pipeline() as p:
                    p.put(keys[0], b"value", overwrite=True)
                    value = p.get(keys[0])
                value.result()
            else:
                job.kv.put_many(dict.fromkeys(keys, b"value"), overwrite=True)
                job.kv.get_many(keys)

        if AT_ONCE:
            value = all_at_once(job.rank, pairs, lambda name: job.barrier(name))
        else:
            put = functools.partial(job.kv.put, overwrite=True, **({} if WAITS else {"wait": False}))
            value = all_pairs(job.rank, put, job.kv.get, lambda name: job.barrier(name))
        return value if job.rank == 0 else None


def socket_client(rank, path, meeting):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        meeting.wait()
        begun = now()
        for _ in range(AT_ONCE * N):
            s.send(b"x" * 80)
            s.recv(4096)
        meeting.wait()
        return now() - begun


def bare_socket():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "echo")
        with subprocess.Popen([os.environ["SHARING"], "echo", path], stdout=subprocess.PIPE) as server:
            server.stdout.readline()
            try:
                return with_clients(socket_client, path, spawn.Barrier(CLIENTS))
            finally:
                server.kill()


if __name__ == "__main__":
    measure = {"tcpstore": tcpstore, "manager": manager, "elasticd": elasticd, "socket": bare_socket}
    result = measure[KIND]()
    if result is not None:
        print(int(result))
