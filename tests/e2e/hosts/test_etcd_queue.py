# SPDX-License-Identifier: Apache-2.0
"""The work queue of a group whose head etcd elects: what was accepted while a host led, under the next."""

import collections

from etcd_group import EtcdGroup
from harness import wait_for
from queue_workers import script

# Each worker does tasks. That of rank 0 also makes them and fetches their results, and writes down what the
# queue has answered; it takes up what the one before it, on a host that was lost, had left.
LEDGER = """
import json, os, random, sys, threading, time
from queue_workers import Hand, QueueError

at, token, rank = os.environ["ELASTICD_WORKER_SOCKET"], os.environ["ELASTICD_TOKEN"], int(os.environ["RANK"])
base = sys.argv[1]

def write(*words):
    with open(f"{base}.ledger", "ab", buffering=0) as f:
        f.write((" ".join(str(w) for w in words) + "\\n").encode())

def read():
    made, fetched = [], {}
    for line in open(f"{base}.ledger"):
        what, task, *rest = line.split()
        if what == "made":
            made.append(int(task))
        elif what == "fetched":
            fetched[int(task)] = rest[0]
    return made, fetched

def serve():
    hand = Hand(at, token)
    try:
        item = hand.work()
        while item:
            item = hand.finish(item, f"{item['payload']}:{random.getrandbits(64)}", next=True)
    except (QueueError, OSError):
        pass

def fetch(hand, tasks):
    for o in hand.fetch_all(tasks):
        write("fetched", o["task"], o.get("value", o["state"]))

def coordinate():
    hand = Hand(at, token)
    made, fetched = read()
    write("begins", 0, len(made))
    fetch(hand, [t for t in made if t not in fetched])
    fetch(hand, [t for t in made if t in fetched][-50:])  # the same again
    n = len(made)
    while not os.path.exists(f"{base}.done"):
        tasks = hand.submit_many([f"{n + i}" for i in range(4)])
        for task in tasks:
            write("made", task, n)
            n += 1
        fetch(hand, tasks[:2])  # the others are for whoever comes next
        time.sleep(0.002)
    made, fetched = read()
    fetch(hand, [t for t in made if t not in fetched])
    open(f"{base}.over", "w").close()

threading.Thread(target=serve, daemon=True).start()
try:
    if rank == 0:
        coordinate()
    while not os.path.exists(f"{base}.over"):
        time.sleep(0.02)
except QueueError as e:
    write("refused", 0, e.name, json.dumps(e.message).replace(" ", "_"))
    time.sleep(600)  # until the group is stopped
"""


class Ledgers(EtcdGroup):
    def __init__(self, box, count, nodes, durable=True):
        super().__init__(box, count, nodes)
        self.base, self.ledger = self.dir / "tasks", self.dir / "tasks.ledger"
        self.ledger.touch()
        self.document["roles"] = [{"replicas": 1, "command": [*script(LEDGER), str(self.base)]}]
        self.document["queue"] = {"durable": durable}

    def rows(self, what):
        rows = [line.split() for line in self.ledger.read_text().splitlines()]
        return [row[1:] for row in rows if row[0] == what]

    def wait_rows(self, what, count):
        wait_for(lambda: len(self.rows(what)) >= count, self.dir, what=f"{count} rows of {what}")

    def wait_begun(self, times):
        """Until rank 0 has begun so often, and has made tasks then."""
        self.wait_rows("begins", times)
        self.wait_rows("made", int(self.rows("begins")[-1][1]) + 100)

    def end(self, *hosts):
        self.base.with_suffix(".done").touch()
        assert [self.runs[i].wait().rc for i in hosts] == [0] * len(hosts)

    def check_ledger(self):
        """Each task that was accepted has one result, in whatever host's queue it was looked up."""
        made, found = dict(self.rows("made")), collections.defaultdict(set)
        assert len(made) == len(self.rows("made")), "a number was given twice"
        for task, value in self.rows("fetched"):
            found[task].add(value)
        assert set(found) == set(made)
        for task, values in found.items():
            assert len(values) == 1 and values.pop().split(":")[0] == made[task], (task, values)


def test_tasks_and_results_outlive_the_hosts_that_lead(box):
    group = Ledgers(box, 3, "1:3")
    group.start_led(0)
    group.wait_rows("made", 200)
    first = group.etcd.keys()["edition"]
    assert first["host"] == "node0" and first["deputy"] in ("node1", "node2")
    group.kill_agent(0)
    second = group.wait_leader(1, 2)
    group.wait_begun(2)
    assert group.etcd.keys()["edition"]["host"] == f"node{second}"
    group.net.unplug(second)
    third = group.wait_leader(3 - second)
    group.wait_begun(3)
    group.kill_hosts(second)
    group.end(third)
    group.check_ledger()
    assert set(group.etcd.keys()) == {"end"}
    left = [p.name for p in box.path("logs").glob("g.node*/queue.*") if f"g.node{third}_" in str(p)]
    assert not left
