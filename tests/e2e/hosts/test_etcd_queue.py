# SPDX-License-Identifier: Apache-2.0
"""The work queue of a group whose head etcd elects: what was accepted while a host led, under the next."""

import collections
import json
import os
import resource
import select
import shutil
import signal
import socket

import pytest

from etcd_group import LEASE_MS, EtcdGroup
from harness import spec, wait_for
from local_etcd import LocalEtcd
from queue_workers import Coordinator, QueueError, script
from shared_hosts import HostsHands

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
            item = hand.finish(item, f"{item['payload'][:20]}:{random.getrandbits(64)}", next=True)
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
        fetch(hand, tasks[:2])  # the next hand fetches the others
        if n % 3 == 0:  # the journal is rewritten for these
            hand.fetch(hand.submit("x" * int(sys.argv[2])), release=True)
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


JUNK = 300000  # bytes of a task that is released at once


class Ledgers(EtcdGroup):
    def __init__(self, box, count, nodes, durable=True):
        super().__init__(box, count, nodes, last_call="60s")
        self.base, self.ledger = self.dir / "tasks", self.dir / "tasks.ledger"
        self.ledger.touch()
        self.document["roles"] = [{"replicas": 1, "command": [*script(LEDGER), str(self.base), str(JUNK)]}]
        self.document["queue"] = {"durable": durable}

    def journal(self, i):
        return next(self.box.path("logs").glob(f"g.node{i}_*")) / "queue.journal"

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
    group = Ledgers(box, 4, "1:4")
    group.start_led(0)
    group.wait_rows("made", 200)
    first = group.etcd.keys()["edition"]
    assert first["host"] == "node0" and first["deputy"] in ("node1", "node2", "node3")
    group.kill_agent(0)
    second = group.wait_leader(1, 2, 3)
    group.wait_begun(2)
    assert group.etcd.keys()["edition"]["host"] == f"node{second}"
    group.runs[second].signal(signal.SIGTERM)  # it leaves
    assert group.runs[second].wait().rc == 143
    third = group.wait_leader(*{1, 2, 3} - {second})
    group.wait_begun(3)
    group.net.unplug(third)
    last = 6 - second - third
    group.wait_leader(last)
    group.wait_begun(4)
    # The head rewrote its journal without the released tasks, and this host has that copy.
    assert group.journal(last).stat().st_size < len(group.rows("made")) / 12 * JUNK / 2
    group.kill_hosts(third)
    group.end(last)
    group.check_ledger()
    assert set(group.etcd.keys()) == {"end"}
    assert not group.journal(last).exists()


def test_a_head_without_the_records_begins_with_none_and_names_the_hosts_that_had_them(box):
    group = Ledgers(box, 4, "2:4")
    group.start(0)
    group.wait_leads(0)
    group.start(1, lead="never")  # the next one in rank, which cannot be the deputy
    group.start(2, 3)
    group.wait_rows("made", 100)
    deputy = int(group.etcd.keys()["edition"]["deputy"].removeprefix("node"))
    assert deputy in (2, 3)
    group.kill_hosts(0, deputy)
    group.wait_leader(5 - deputy)
    group.wait_rows("refused", 1)
    _, name, why = group.rows("refused")[0]
    assert name == "Unavailable"
    assert why.endswith(f':_host_node0,_which_led_the_group,_with_host_node{deputy},_was_lost"'), why


def two_hosts(box, etcd, durable):
    """A group of two hosts with a queue, and their daemons; the first leads."""
    group = HostsHands(box, {
        "name": "job", "roles": [{**spec("hang")["roles"][0], "replicas": 2}], "queue": {"durable": durable},
        "restart": {"max": 5}, "stop": {"timeout": "200ms"}, "rendezvous": {
            "backend": "etcd", "endpoints": etcd.url, "nodes": "1:2", "lease": f"{LEASE_MS}ms"}}, hosts=2)
    return group, *group.daemon.daemons


def test_etcd_gets_no_note_of_records_that_are_not_on_the_disk(box):
    etcd = LocalEtcd(box)
    group, head, other = two_hosts(box, etcd, True)
    noted = wait_for(lambda: "deputy" in (etcd.value("/edition") or {}) and etcd.value("/edition"),
                     box.dir, what="an edition with the deputy")
    c, w = Coordinator(head.socket, "job"), group.hand("worker:0")
    tasks, lease = c.submit_many(["a", "b" * JUNK]), w.work()
    folder = head.state / "jobs" / head.status("job")["run"]
    agent, size = head.agent_pid("job"), (folder / "queue.journal").stat().st_size
    resource.prlimit(agent, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    w.finish(lease, "A" * 1000)
    assert c.fetch(tasks[0])["value"] == "A" * 1000  # the deputy has it
    os.kill(other.agent_pid("job"), signal.SIGKILL)
    head.until_attempt("job", 1)
    assert etcd.value("/edition") == noted
    (folder / "queue.edition").unlink()
    (folder / "queue.edition" / "x").mkdir(parents=True)
    resource.prlimit(agent, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    head.wait_event("job", "journal-failed", count=2)
    c.send("Submit", payload="c")
    assert head.call("Status", job="job") and etcd.value("/edition") == noted
    assert not select.select([c.sock], [], [], 0)[0]
    shutil.rmtree(folder / "queue.edition")
    assert c.reply()["task"] == tasks[1] + 1
    saved = json.loads((folder / "queue.edition").read_text())
    assert etcd.value("/edition")["name"] == saved["name"] != noted["name"]
    group.close()


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "not-durable"])
def test_callers_on_other_hosts_learn_that_the_host_that_leads_is_lost(box, durable):
    etcd = LocalEtcd(box)
    group, head, other = two_hosts(box, etcd, durable)
    c, w = Coordinator(other.socket, "job"), group.hand("worker:0")
    tasks = c.submit_many(["a", "b"])
    w.finish(w.work(), "A")
    assert c.fetch(tasks[0])["value"] == "A"
    c.send("Fetch", task=tasks[1])
    os.kill(head.agent_pid("job"), signal.SIGKILL)
    lost = c.error()
    name = socket.gethostname()
    assert (lost.name, lost.message) == \
        ("Unavailable", f"the link to host {name}, which leads the group, is lost")

    def there():
        try:
            return c.fetch(tasks[0])["value"]
        except QueueError as e:
            assert e.name == "Unavailable"
            return e.message if "was lost" in e.message else None

    found = wait_for(there, box.dir, what="the next host to lead")
    if durable:
        assert found == "A"
        assert [t["state"] for t in c.call("List")["tasks"]] == ["succeeded", "queued"]
    else:
        assert found == f"task {tasks[0]}: host {name}, which led the group, was lost"
        assert c.call("List")["tasks"] == []
    assert c.submit("c") > tasks[1]
    group.close()
