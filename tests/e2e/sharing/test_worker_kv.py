# SPDX-License-Identifier: Apache-2.0
"""The key-value store as workers see it, by raw varlink."""

import base64

import pytest

from harness import spec
from workers import Group, Worker, WorkerError, entry_bytes, script


@pytest.fixture
def two(daemon):
    group = Group(daemon, spec("hang", replicas=2))
    yield (group, *group.all("worker:0", "worker:1"))
    group.close()


def test_a_key_is_written_once_unless_it_may_be_overwritten(two):
    _, a, b = two
    first = a.put("k", "one")
    e = b.refused("Put", key="k", value="two")
    assert e.name == "AlreadyExists" and "k" in e.message
    assert a.get("k") == b"one"
    second = b.put("k", "two", overwrite=True)
    assert second > first and a.get("k") == b"two"
    assert a.call("Get", key="k")["entry"]["revision"] == second


def test_keys_are_normalised(two):
    _, a, b = two
    a.put("//path//to///k", "v")
    assert b.get("path/to/k") == b"v" and b.get("/path/to/k/") == b"v"
    assert b.call("Get", key="path/to//k")["entry"]["key"] == "path/to/k"
    assert b.refused("Put", key="path/to/k", value="w").name == "AlreadyExists"


def test_a_read_may_wait_for_a_later_write(two):
    _, a, b = two
    assert a.refused("Get", key="later").name == "NotFound"
    a.send("Get", key="later", wait=True)
    b.put("later", "now")
    assert entry_bytes(a.reply()["entry"]) == b"now"


def test_a_wait_has_a_limit_and_says_what_it_waited_for(two):
    _, a, _ = two
    e = a.refused("Get", key="never", wait=True, timeout_ms=20)
    assert e.name == "DeadlineExceeded" and "never" in e.message


def test_all_who_wait_are_served_by_one_write_even_if_it_is_deleted_at_once(two):
    group, a, b = two
    waiting = [group.connect("worker:0") for _ in range(8)]
    for w in waiting:
        w.send("Get", key="k", wait=True)
    # Behind the waits: what a connection has sent is handled in its order.
    for i, w in enumerate(waiting):
        w.send("Put", key=f"sync/{i}", value="")
    for i in range(len(waiting)):
        b.call("Get", key=f"sync/{i}", wait=True)
    b.send("Put", key="k", value="v").send("Delete", key="k")
    b.reply()
    assert b.reply()["deleted"] == 1
    for w in waiting:
        assert entry_bytes(w.reply()["entry"]) == b"v"


def test_delete_takes_all_below_a_key(two):
    _, a, b = two
    for key in ("dir", "dir/a", "dir/b/c", "dir_x", "other"):
        a.put(key, key)
    assert b.call("Delete", key="dir")["deleted"] == 3
    assert b.keys() == ["dir_x", "other"]
    assert b.call("Delete", key="dir")["deleted"] == 0


def test_a_list_is_what_lies_below_sorted(two):
    _, a, b = two
    for key in ("dir/b", "dir", "dir/a/x", "dir_key", "wrong/dir/x", "dir/a"):
        a.put(key, key.upper())
    answer = b.call("List", key="//dir/")
    assert [e["key"] for e in answer["entries"]] == ["dir/a", "dir/a/x", "dir/b"]
    assert [e["value"] for e in answer["entries"]] == ["DIR/A", "DIR/A/X", "DIR/B"]
    assert answer["revision"] >= max(e["revision"] for e in answer["entries"])
    assert b.keys("nothing") == []
    assert len(b.keys()) == 6


def test_any_bytes_are_a_value(two):
    _, a, b = two
    everything = bytes(range(256)) * 3
    a.put("bytes", everything)
    entry = b.call("Get", key="bytes")["entry"]
    assert "value" not in entry and entry_bytes(entry) == everything
    text = "\x01\x7f\"\\/\n\t \u00e4\u20ac\U0001f600"
    a.put("text", text)
    entry = b.call("Get", key="text")["entry"]
    assert "base64" not in entry and entry["value"] == text
    a.put("as-base64", text.encode())
    assert b.call("Get", key="as-base64")["entry"]["value"] == text
    a.put("empty", "")
    assert b.call("Get", key="empty")["entry"]["value"] == ""
    a.put("nul", b"a\0b")
    assert b.get("nul") == b"a\0b"


def test_ten_values_of_a_mebibyte_can_be_listed_and_read_back(two):
    _, a, b = two
    values = [bytes([i, 0, 255 - i, 7]) * (1 << 18) for i in range(9)] + [b"\x01" * (1 << 20)]
    for i, v in enumerate(values):
        a.put(f"big/{i}", v.decode() if i == 9 else v)
    entries = b.call("List", key="big")["entries"]
    assert [entry_bytes(e) for e in entries] == values


def test_bad_keys_and_values_are_refused_and_named(two):
    _, a, _ = two
    for parameters, names in (
        ({"key": "", "value": "v"}, "key"),
        ({"key": "///", "value": "v"}, "key"),
        ({"key": "k" * 1025, "value": "v"}, "1024"),
        ({"key": "k"}, "value"),
        ({"key": "k", "value": "v", "base64": ""}, "both"),
        ({"key": "k", "base64": "!"}, "base64"),
        ({"key": "k", "base64": "QQ"}, "base64"),
        ({"key": "k", "value": "v" * ((1 << 20) + 1)}, "1048576"),
    ):
        e = a.refused("Put", **parameters)
        assert e.name == "InvalidArgument" and names in e.message, (parameters, e)
    e = a.refused("Put", key="k", value=3)
    assert e.error == "org.varlink.service.InvalidParameter" and e.parameters["parameter"] == "value"
    e = a.refused("Get", key="k", timeout_ms=-1)
    assert e.name == "InvalidParameter" and e.parameters["parameter"] == "timeout_ms"
    assert a.put("k" * 1024, "v" * (1 << 20))


def test_a_watch_tells_every_change_in_order_and_can_be_resumed(two):
    _, a, b = two
    start = b.put("w/old", "0")
    a.send("Watch", more=True, key="w")
    first = a.reply()
    assert first["changes"] == [] and first["revision"] >= start
    b.put("w/a", "1")
    b.put("x", "not below")
    b.put("w/a", "2", overwrite=True)
    b.call("Delete", key="w")
    b.put("w", "3")
    seen = []
    while len(seen) < 5:
        seen += a.reply()["changes"]
    told = [(c["key"], c.get("value"), c["deleted"]) for c in seen]
    assert told[:2] == [("w/a", "1", False), ("w/a", "2", False)]
    assert sorted(told[2:4]) == [("w/a", None, True), ("w/old", None, True)]
    assert told[4] == ("w", "3", False)
    with Worker(*who(b)) as c:
        c.send("Watch", more=True, key="w", since=seen[0]["revision"])
        again = []
        while len(again) < 4:
            again += c.reply()["changes"]
        assert again == seen[1:]


def who(worker):
    return worker.path, worker.token


def test_a_watch_of_what_is_forgotten_is_out_of_range(two):
    _, a, b = two
    first = a.put("n", "0")
    for i in range(6000):
        a.send("Put", key="n", value=str(i), overwrite=True, oneway=True)
    a.put("sync", "")
    b.send("Watch", more=True, key="n", since=first)
    while True:
        try:
            b.reply()
        except Exception as e:
            assert e.name == "OutOfRange", e
            break


def test_a_reader_that_stops_reading_slows_nobody_and_misses_no_last_value(two):
    """Its watch lets go, and goes on where it was when it reads again."""
    _, a, b = two
    a.send("Watch", more=True, key="v")
    assert a.reply()["changes"] == []
    value = "x" * 65536
    for i in range(400):
        b.put("v", f"{i} {value}", overwrite=True)
    b.put("v", "last", overwrite=True)
    seen = []
    while not seen or seen[-1]["value"] != "last":
        seen += a.reply()["changes"]
    assert [c["value"].split()[0] for c in seen] == [str(i) for i in range(400)] + ["last"]


def test_a_watch_of_everything_may_be_written_as_slashes(two):
    _, a, b = two
    for key in ("", "/", "//"):
        with Worker(*who(a)) as w:
            w.send("Watch", more=True, key=key)
            assert w.reply()["changes"] == []
            b.put("deep/down", key, overwrite=True)
            assert [c["key"] for c in w.reply()["changes"]] == ["deep/down"]


def test_the_first_answer_of_a_watch_has_the_revision_that_it_goes_on_from(two):
    _, a, b = two
    start = b.put("k", "0")
    last = b.put("k", "1", overwrite=True)
    for since, told in ((start, start), (None, last)):
        with Worker(*who(a)) as w:
            w.send("Watch", more=True, key="k", **({} if since is None else {"since": since}))
            assert w.reply() == {"changes": [], "revision": told}


def test_a_watch_that_waits_for_its_reader_ends_with_the_attempt(daemon, two):
    """It is told what had come, and then no change of the next attempt."""
    group, a, b = two
    a.send("Watch", more=True, key="v")
    assert a.reply()["changes"] == []
    value = "x" * 65536
    for i in range(400):
        b.put("v", f"{i} {value}", overwrite=True)
    attempt = group.daemon.status(group.name)["attempt"]
    group.daemon.call("Restart", job=group.name)
    group.daemon.until_attempt(group.name, attempt + 1)
    b = group.connect("worker:1")
    b.put("v", "of the next", overwrite=True)
    seen = []
    with pytest.raises(WorkerError) as e:
        while True:
            seen += a.reply()["changes"]
    assert e.value.name == "Cancelled"
    assert seen and not any((c["value"] or "").startswith("of") for c in seen if not c["deleted"])


def test_a_watch_without_more_is_refused(two):
    _, a, _ = two
    assert a.refused("Watch", key="w").name == "ExpectedMore"
    assert a.refused("Events").name == "ExpectedMore"


@pytest.mark.ci
def test_a_full_store_refuses_and_goes_on(two):
    _, a, b = two
    value = "x" * (1 << 20)
    refused = None
    for i in range(300):
        a.send("Put", key=f"fill/{i}", value=value)
        try:
            a.reply()
        except Exception as e:
            refused = e
            break
    assert refused and refused.name == "ResourceExhausted", refused
    assert b.refused("Put", key="one/more", value=value).name == "ResourceExhausted"
    assert b.call("Delete", key="fill")["deleted"] == i
    b.put("one/more", "v")


def test_a_restart_clears_what_is_not_persistent(box, daemon):
    body = f"""
w = me()
n = int(os.environ["ELASTICD_ATTEMPT"])
if n == 0:
    w.put("gone", "1"); w.put("stays", "2", persistent=True)
    os._exit(7)
seen = [w.keys(), w.get("stays").decode(), w.hello["attempt"]]
open({str(box.path('seen'))!r}, "w").write(json.dumps(seen))
"""
    job = daemon.run({"roles": [{"command": script(body)}], "restart": {"max": 1}})
    assert job["state"] == "succeeded"
    assert box.path("seen").read_text() == '[["stays"], "2", 1]'
