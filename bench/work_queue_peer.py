# SPDX-License-Identifier: Apache-2.0
"""The work queue's peers, and the same from Python: work_queue_peer.py KIND WORKERS N BYTES prints the
nanoseconds for N tasks with a payload of so many bytes, from the first one submitted to the last value.
KIND is executor (concurrent.futures' process pool, submit() and result() one by one), chunks (its map(), 64
tasks in a message), tensorflow (ClusterCoordinator in one process, with as many workers), coordinator (our
package, map() and fetch() of all), one_by_one (submit() and fetch() of each), worker (of both), or hops (the
median of one byte's way through four bare sockets between three processes: the floor of a task's way to a
worker and back)."""

import os
import socket
import statistics
import sys
import time

KIND, WORKERS, N, BYTES = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
PAYLOAD = b"x" * BYTES
now = time.monotonic_ns


def nothing(payload):
    return None


def pooled(work):
    import concurrent.futures

    with concurrent.futures.ProcessPoolExecutor(WORKERS) as pool:
        list(pool.map(nothing, [PAYLOAD] * (4 * WORKERS)))  # all processes are there
        begun = now()
        work(pool)
        return now() - begun


def executor():
    def work(pool):
        for future in [pool.submit(nothing, PAYLOAD) for _ in range(N)]:
            future.result()

    return pooled(work)


def chunks():
    return pooled(lambda pool: list(pool.map(nothing, [PAYLOAD] * N, chunksize=64)))


def tensorflow():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    ports = []
    for _ in range(WORKERS + 1):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            ports.append(s.getsockname()[1])
    addresses = [f"127.0.0.1:{port}" for port in ports]
    spec = tf.train.ClusterSpec({"worker": addresses[1:], "ps": addresses[:1]})
    servers = [tf.distribute.Server(spec, job_name=job, task_index=i, protocol="grpc")
               for job, n in (("worker", WORKERS), ("ps", 1)) for i in range(n)]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    coordinator = tf.distribute.coordinator.ClusterCoordinator(
        tf.distribute.ParameterServerStrategy(resolver))

    @tf.function
    def empty(payload):
        return payload

    payload = tf.constant(PAYLOAD)
    coordinator.fetch([coordinator.schedule(empty, args=(payload,)) for _ in range(4 * WORKERS)])
    begun = now()
    coordinator.fetch([coordinator.schedule(empty, args=(payload,)) for _ in range(N)])
    print(now() - begun, flush=True)
    os._exit(0 if servers else 1)  # its threads take a minute to leave


def coordinated(work):
    import elasticd

    with elasticd.init() as job, job.queue() as queue:
        while queue.stats().free < WORKERS:
            time.sleep(0.01)
        begun = now()
        work(queue)
        took = now() - begun
        job.close_queues()
        return took


def coordinator():
    return coordinated(lambda queue: queue.fetch(queue.map([PAYLOAD] * N)))


def one_by_one():
    def work(queue):
        for handle in [queue.submit(PAYLOAD) for _ in range(N)]:
            handle.fetch()

    return coordinated(work)


def worker():
    import elasticd

    with elasticd.init() as job:
        job.work(lambda task: None)


def hops():
    """Coordinator, supervisor, worker: each blocks in recv() until the byte comes."""
    us, agent_us = socket.socketpair()
    agent, them = socket.socketpair()
    if os.fork() == 0:
        while data := them.recv(4096):
            them.send(data)
            if data == b"end":
                os._exit(0)
    if os.fork() == 0:
        while data := agent_us.recv(4096):
            agent.send(data)
            agent_us.send(agent.recv(4096))
            if data == b"end":
                os._exit(0)
    took = []
    for _ in range(N):
        begun = now()
        us.send(b"x" * 80)
        us.recv(4096)
        took.append(now() - begun)
    us.send(b"end")
    us.recv(4096)
    os.wait(), os.wait()
    return statistics.median(took)


result = {"executor": executor, "chunks": chunks, "tensorflow": tensorflow, "coordinator": coordinator,
          "one_by_one": one_by_one, "worker": worker, "hops": hops}[KIND]()
if result is not None:
    print(int(result), flush=True)
