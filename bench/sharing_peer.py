# SPDX-License-Identifier: Apache-2.0
"""What the peers need for the same as bench/sharing.c: sharing_peer.py KIND WHAT CLIENTS N [AT_ONCE] prints
nanoseconds, the median of a barrier, the time of all pairs, or the CPU time of all beats. KIND is
tcpstore (torch, whose set() does not wait for an answer), manager (multiprocessing), elasticd (our
package, as a worker of a job) or socket (bare round trips on a UNIX socket with a server in C that does
nothing, SHARING echo: the floor of anything that has a server and waits for its answers).

AT_ONCE pairs go together: one by a pipeline, several by put_many() and get_many(), or by multi_set() and
multi_get(). Of a socket it is how many round trips a pair has. nowait instead: elasticd's put does not wait
either, as a TCPStore's set() does not. What a process has written last it then reads from its own buffer,
and what others have from shared memory, where a TCPStore's get() asks its server each time."""

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
fork = multiprocessing.get_context("fork")


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


def with_clients(work):
    """Runs work(rank) in a process each; returns what rank 0's gave."""
    ours, theirs = fork.Pipe(duplex=False)

    def run(rank):
        value = work(rank)
        if rank == 0:
            theirs.send(value)

    processes = [fork.Process(target=run, args=(rank,)) for rank in range(CLIENTS)]
    for p in processes:
        p.start()
    value = ours.recv()
    for p in processes:
        p.join()
    return value


def tcpstore():
    from torch.distributed import TCPStore
    from torch.distributed.elastic.utils import store as torch_store

    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def work(rank):
        store = TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)

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

    return with_clients(work)


def manager():
    with fork.Manager() as m:
        barrier = m.Barrier(CLIENTS)
        shared = m.dict()

        def work(rank):
            barrier.wait()
            if WHAT == "barrier":
                return timed_barriers(lambda i: barrier.wait())
            return all_pairs(rank, shared.__setitem__, shared.__getitem__, lambda name: barrier.wait())

        return with_clients(work)


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


def bare_socket():
    meeting = fork.Barrier(CLIENTS)

    def work(rank):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            meeting.wait()
            begun = now()
            for _ in range(AT_ONCE * N):
                s.send(b"x" * 80)
                s.recv(4096)
            meeting.wait()
            return now() - begun

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "echo")
        with subprocess.Popen([os.environ["SHARING"], "echo", path], stdout=subprocess.PIPE) as server:
            server.stdout.readline()
            try:
                return with_clients(work)
            finally:
                server.kill()


result = {"tcpstore": tcpstore, "manager": manager, "elasticd": elasticd, "socket": bare_socket}[KIND]()
if result is not None:
    print(int(result))
