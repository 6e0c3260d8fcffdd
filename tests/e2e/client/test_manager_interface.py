# SPDX-License-Identifier: Apache-2.0
"""elasticd.Manager and its twin for asyncio against the interface file: a server that knows nothing else
checks each call, and answers with a sample of each member."""

import asyncio
import contextlib
import importlib.machinery
import importlib.util
import inspect
import json
import re
import socket
import sys
import threading
import typing

import pytest

from harness import IFACE, ROOT
from managers import LIMIT, import_package
from python_package import PACKAGE

TOOL = ROOT / "tests/tools/manager-types"
KINDS = {"string": str, "int": int, "bool": bool, "float": float, "object": dict}


def load(path):
    loader = importlib.machinery.SourceFileLoader("manager_types_tool", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


FACE = load(TOOL).interface()


@pytest.fixture
def elasticd(monkeypatch):
    return import_package(monkeypatch)


def problems(value, of, where):
    """What keeps a value from being of that type."""
    if isinstance(of, list) and of[0] == "?":
        return [] if value is None else problems(value, of[1], where)
    if isinstance(of, list):
        inner = value.values() if of[0] == "[string]" else value
        return [p for v in inner for p in problems(v, of[1], where + "[]")]
    if isinstance(of, tuple):
        return [] if value in of else [f"{where}: {value!r} is none of {of}"]
    if of in FACE.types:
        return struct_problems(value, FACE.types[of], where)
    ok = type(value) is KINDS[of] if of != "object" else isinstance(value, dict)
    return [] if ok else [f"{where}: {value!r} is no {of}"]


def struct_problems(value, members, where):
    found = [f"{where}: {m} is missing" for m, of in members.items() if of[0] != "?" and m not in value]
    found += [f"{where}: there is no member {m}" for m in value if m not in members]
    return found + [p for m, v in value.items() if m in members
                    for p in problems(v, members[m], f"{where}.{m}")]


def sample(of, depth=0):
    if isinstance(of, list):
        inner = sample(of[1], depth + (of[0] == "?"))
        return {"?": inner, "[]": [inner], "[string]": {"k": inner}}[of[0]]
    if isinstance(of, tuple):
        return of[-1]
    if of in FACE.types:
        return {m: sample(t, depth + 1) for m, t in FACE.types[of].items()}
    return {"string": "text", "int": 7, "bool": True, "float": 0.5, "object": {"a": 1}}[of]


class Server:
    """Answers on one end of as many connections as come."""

    def __init__(self, path):
        self.calls, self.wrong, self.threads = [], [], []
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(path)
        self.listening.listen()
        self.begin(self.accept)

    def begin(self, *call):
        self.threads.append(threading.Thread(target=call[0], args=call[1:], daemon=True))
        self.threads[-1].start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.begin(self.serve, self.listening.accept()[0])

    def close(self):
        """Leaves no thread: other tests are about processes that have only one."""
        self.listening.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(LIMIT)
        self.listening.close()

    def serve(self, peer):
        data = b""
        with peer:
            while chunk := peer.recv(65536):
                data += chunk
                while b"\0" in data:
                    message, data = data.split(b"\0", 1)
                    peer.sendall(json.dumps(self.answer(json.loads(message))).encode() + b"\0")

    def answer(self, call):
        name = call["method"][len(IFACE):]
        self.calls.append(name)
        takes, gives = FACE.methods.get(name, ({}, {}))
        if not call["method"].startswith(IFACE) or name not in FACE.methods:
            self.wrong.append(f"there is no {call['method']}")
        self.wrong += struct_problems(call["parameters"], takes, name)
        if set(call) - {"method", "parameters", "more"}:
            self.wrong.append(f"{name}: {sorted(call)}")
        return {"parameters": {m: sample(t) for m, t in gives.items()}}


@pytest.fixture
def server(box):
    server = Server(str(box.path("s")))
    yield server
    server.close()


def same(record, data):
    """A record has each member of the interface's object, with its value."""
    assert set(data) == set(type(record).__dataclass_fields__)
    for name, value in data.items():
        got = getattr(record, name)
        for one, raw in zip(got, value) if isinstance(value, list) else [(got, value)]:
            if hasattr(one, "__dataclass_fields__"):
                same(one, raw)
            else:
                assert one == raw, name


# Each verb, with every argument that it takes: (how it is called, what it returns, for records their type).
VERBS = [
    (lambda m: m.start({"roles": [{"command": ["x"]}]}, name="n", cwd="/", env={"A": "b"}), None),
    (lambda m: m.validate({}), None),
    (lambda m: m.jobs(ended=True), "Job"),
    (lambda m: m.ping(), None),
    (lambda m: m.version(), None),
    (lambda m: m.job("j").status(live=True), "Job"),
    (lambda m: m.job("j").wait(3, until="running"), "Job"),
    (lambda m: m.job("j").wait(None), "Job"),
    (lambda m: m.job("j").stop(1.5), None),
    (lambda m: m.job("j").restart(), None),
    (lambda m: m.job("j").kill(9, ranks=[0, 3], whom="all"), None),
    (lambda m: m.job("j").scale(3, role="r"), None),
    (lambda m: m.job("j").preempt(5, reason="why"), None),
    (lambda m: m.job("j").remove(logs=True), None),
    (lambda m: m.job("j").errors(2), "Failure"),
    (lambda m: m.job("j").results(), "WorkerResult"),
    (lambda m: m.job("j").spec(), None),
    (lambda m: m.job("j").why(), "WhyAnswer"),
]
STREAMS = [
    (lambda m: m.events(), "Event"),
    (lambda m: m.job("j").events(follow=True, since=4), "Event"),
    (lambda m: m.job("j").logs(follow=True, ranks="0,3-7", stream="stderr", attempt=1, lines=9, since=5.5,
                               until=7, contains="x"), "Line"),
]


def expected(kind):
    if kind == "WhyAnswer":
        return {m: sample(t) for m, t in FACE.methods["Why"][1].items()}
    return sample(kind)


def checked(server, results):
    for result, (_, kind) in zip(results, VERBS + STREAMS):
        if kind is not None:
            for record in result if isinstance(result, list) else [result]:
                assert type(record).__name__ == kind
                same(record, expected(kind))
    assert not server.wrong, server.wrong
    assert set(server.calls) == {"Start", "Validate", "List", "Ping", "Version", "Status", "Wait", "Stop",
                                 "Restart", "Kill", "Scale", "Preempt", "Remove", "Errors", "Results", "Spec",
                                 "Why", "Events", "Logs"}


def test_each_call_and_each_answer_is_of_the_interface(box, elasticd, server):
    with elasticd.Manager(box.path("s")) as m:
        results = [call(m) for call, _ in VERBS] + [list(call(m)) for call, _ in STREAMS]
        assert (results[0].name, results[0].run) == ("text", "text") and results[10] == 7
    checked(server, results)


def test_calls_of_the_asyncio_twin_are_of_the_interface(box, elasticd, server):
    async def main():
        async with elasticd.aio.Manager(box.path("s")) as m:
            results = [await call(m) for call, _ in VERBS]
            return results + [[item async for item in call(m)] for call, _ in STREAMS]

    checked(server, asyncio.run(main()))


def test_the_checks_of_this_file_find_what_is_wrong():
    job = sample("Job")
    assert not problems(job, "Job", "j")
    assert problems({**job, "uid": "0"}, "Job", "j") and problems({**job, "state": "odd"}, "Job", "j")
    assert problems({k: v for k, v in job.items() if k != "run"}, "Job", "j")
    assert problems({**job, "news": 1}, "Job", "j")


def test_the_twin_has_the_same_names_and_arguments(elasticd):
    for name in ("Manager", "ManagedJob", "Stream", "Lines"):
        plain, twin = getattr(elasticd.manager, name), getattr(elasticd.aio, name)
        public = [n for n in vars(plain) if not n.startswith("_")]
        assert public == [n for n in vars(twin) if not n.startswith("_")], name
        for n in ["__init__", *public]:
            if inspect.isfunction(vars(plain)[n]):
                one, two = inspect.signature(vars(plain)[n]), inspect.signature(vars(twin)[n])
                assert one.parameters == two.parameters, (name, n)
                # Streams differ by themselves, Iterator and AsyncIterator alike.
                assert one.return_annotation == two.return_annotation, (name, n)


def test_the_types_are_those_of_the_interface_file(elasticd):
    """The hints can be evaluated, and name each member as optional that the interface does."""
    types = sys.modules["elasticd.manager"] and importlib.import_module("elasticd._manager_types")
    for name, members in FACE.types.items():
        hints = typing.get_type_hints(getattr(types, name))
        for member, of in members.items():
            optional = type(None) in typing.get_args(hints[member])
            assert optional == (of[0] == "?"), (name, member)


def test_every_error_of_the_interface_has_its_exception(elasticd):
    from elasticd._endpoint import answered
    for name, members in FACE.errors.items():
        parameters = {m: sample(t) for m, t in members.items()}
        error = answered(IFACE + name, parameters)
        assert type(error) is getattr(elasticd, name) and str(error) == "text"
        assert error.about == {k: v for k, v in parameters.items() if k != "message"}
    assert type(answered("org.varlink.service.MethodNotFound", {"method": "x"})) is elasticd.Unimplemented
    assert type(answered("io.example.Odd", {})) is elasticd.Unknown


def test_answers_that_make_no_sense_are_errors(elasticd):
    from elasticd._endpoint import Frames, decode
    from elasticd.manager import Job
    for message in (b"", b"[]", b'{"parameters": 3}', b'{"error": 3}', b"{" * 100000):
        with pytest.raises(elasticd.DataLoss):
            decode(message)
    for data in ({}, {**sample("Job"), "workers": 3}, {**sample("Job"), "verdict": "x"}):
        with pytest.raises(elasticd.DataLoss, match="Job"):
            Job.of(data)
    assert Job.of({**sample("Job"), "of_a_newer_elasticd": 1}).ended
    frames = Frames()
    frames.feed(b"a\0b")
    assert (frames.next(), frames.next()) == (b"a", None)
    frames.feed(b"\0" + b"x" * (17 << 20))
    assert frames.next() == b"b"
    with pytest.raises(elasticd.Unavailable, match="too long"):
        frames.next()


@pytest.mark.parametrize(("arguments", "said"), [
    ({"host": "-oProxyCommand=x"}, "expected HOST or USER@HOST"), ({"host": "a b"}, "expected HOST"),
    ({"host": "a\nb"}, "expected HOST"), ({"trust_uid": 1}, "is for the elasticd that socket names"),
    ({"timeout": -1}, "timeout: expected seconds"), ({"socket": "a\0b"}, "NUL"),
])
def test_arguments_that_make_no_sense_are_refused(elasticd, arguments, said):
    with pytest.raises(elasticd.InvalidArgument, match=re.escape(said)):
        elasticd.Manager(**arguments)


def test_workers_do_not_import_it(box):
    code = "import sys, elasticd; print([m for m in sys.modules if m.startswith('elasticd.')])"
    said = box.sh(sys.executable, "-c", code, env={"PYTHONPATH": str(PACKAGE)}).out
    assert "elasticd._job" in said
    assert not any(m in said for m in ("elasticd.manager", "elasticd.aio", "_plans", "_endpoint"))
