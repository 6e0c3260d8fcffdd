# SPDX-License-Identifier: Apache-2.0
"""validate: what is wrong with a specification, by path, without running anything."""

import json

import pytest

from harness import PUPPET, VarlinkError, spec

WRONG = [
    ({}, "roles"),
    ({"roles": []}, "roles"),
    ({"roles": [{}]}, "roles[0].command"),
    ({"roles": [{"command": []}]}, "roles[0].command"),
    ({"roles": [{"command": ["x", 3]}]}, "roles[0].command[1]"),
    ({"roles": [{"command": ["x"], "replicas": 0}]}, "roles[0].replicas"),
    ({"roles": [{"command": ["x"], "replicas": "many"}]}, "roles[0].replicas"),
    ({"roles": [{"command": ["x"], "colour": 1}]}, "roles[0].colour"),
    ({"roles": [{"command": ["x"]}], "restart": {"max": -1}}, "restart.max"),
    ({"roles": [{"command": ["x"]}], "restart": {"max": 1.5}}, "restart.max"),
    ({"roles": [{"command": ["x"]}], "restart": {"policy": "sometimes"}}, "restart.policy"),
    ({"roles": [{"command": ["x"]}], "restart": {"backoff": "5 parsecs"}}, "restart.backoff"),
    ({"roles": [{"command": ["x"]}], "restart": {"codes": {"3": "maybe"}}}, "restart.codes"),
    ({"roles": [{"command": ["x"]}], "restart": {"codes": {"SIGNOPE": "free"}}}, "restart.codes"),
    ({"roles": [{"command": ["x"]}], "logs": {"tee": 4}}, "logs.tee"),
    ({"roles": [{"command": ["x"]}], "logs": {"redirects": "0:1,"}}, "logs.redirects"),
    ({"roles": [{"command": ["x"]}], "stop": {"signal": "NOPE"}}, "stop.signal"),
    ({"roles": [{"command": ["x"]}], "stop": {"timeout": -1}}, "stop.timeout"),
    ({"roles": [{"command": ["x"]}], "rendezvous": {"nodes": 2}}, "rendezvous.nodes"),
    ({"roles": [{"command": ["x"]}], "rendezvous": {"nodes": 2, "master_addr": "h"}},
     "rendezvous.node_rank"),
    ({"roles": [{"command": ["x"]}], "name": "a/b"}, "name"),
    ({"roles": [{"command": ["x"]}], "nonsense": {}}, "nonsense"),
    ({"roles": [{"command": ["x"], "env": {"A=B": "c"}}]}, "roles[0].env"),
    ({"roles": [{"command": ["x"], "env": {"A": [3]}}]}, "roles[0].env.A"),
    ({"roles": [{"command": ["x"], "leader": 1}]}, "roles[0].leader"),
    ({"roles": [{"command": ["x"], "leader": True, "replicas": 2}]}, "roles[0].leader"),
    ({"roles": [{"command": ["x"], "leader": True},
                {"command": ["x"], "name": "b", "leader": True}]}, "roles[1].leader"),
    ({"roles": [{"command": ["x"], "leader": True, "recoverable": True}]}, "roles[0].leader"),
    ({"roles": [{"command": ["x"]}, {"command": ["x"]}]}, "roles[1].name"),
    ({"roles": [{"command": ["x"], "restart": {"maximum": 1}}]}, "roles[0].restart.maximum"),
    ({"roles": [{"command": ["x"], "restart": {"scope": "worker", "policy": "never"}}]},
     "roles[0].restart.scope"),
    ({"roles": [{"command": ["x"], "start_delay_max": "1s"}]}, "roles[0].start_delay_max"),
    ({"roles": [{"command": ["x"]}], "restart": {"scope": "all"}}, "restart.scope"),
    ({"roles": [{"command": ["x"]}], "leader": {"on_exit": "wait"}}, "leader.on_exit"),
    ({"roles": [{"command": ["x"]}], "heartbeat": {"timeout": "1s"}}, "heartbeat.timeout"),
    ({"roles": [{"command": ["x"]}], "heartbeat": {"period": "1s", "failures": 0}}, "heartbeat.failures"),
    ({"roles": [{"command": ["x"]}], "heartbeat": {"log_pattern": "(", "log_pattern_timeout": "1s"}},
     "heartbeat.log_pattern"),
    ({"roles": [{"command": ["x"]}],
      "heartbeat": {"log_pattern": "((((a{9,99}){9,99}){9,99}){9,99})", "log_pattern_timeout": "1s"}},
     "heartbeat.log_pattern"),
    ({"roles": [{"command": ["x"]}], "heartbeat": {"progress_file": "x"}}, "heartbeat.progress_file"),
    ({"roles": [{"command": ["x"]}], "resources": {"devices": {"assign": "one"}}}, "resources.devices.ids"),
    ({"roles": [{"command": ["x"], "replicas": 2}], "resources": {"devices": {"ids": [0]}}},
     "resources.devices.ids"),
    ({"roles": [{"command": ["x"]}], "compat": {"rpc_layer": "grpc"}}, "compat.rpc_layer"),
    ({"roles": [{"command": ["x"]}], "compat": {"tf_config": "yes"}}, "compat.tf_config"),
]


@pytest.mark.parametrize("document,field", WRONG, ids=[f"{i}-{f}" for i, (_, f) in enumerate(WRONG)])
def test_errors_name_the_path(daemon, document, field):
    for method in ("Validate", "Start"):
        with pytest.raises(VarlinkError) as e:
            daemon.call(method, spec=document)
        assert e.value.name == "InvalidArgument", e.value
        assert e.value.parameters["field"].startswith(field), e.value
        assert e.value.parameters["message"]
    assert daemon.call("List", ended=True)["jobs"] == []


def test_defaults_are_filled_in_and_stay(daemon):
    full = daemon.call("Validate", spec=spec("x"))["spec"]
    assert full["restart"]["policy"] == "on-failure" and full["restart"]["max"] == 0
    assert full["stop"]["timeout"] in ("30s", 30, 30000)
    assert daemon.call("Validate", spec=full)["spec"] == full
    assert daemon.call("List", ended=True)["jobs"] == []


def test_files_by_command_line_without_a_daemon(box):
    good = box.path("work/good.yaml")
    good.write_text(f"roles:\n- command: [{PUPPET}]\n  replicas: 2\n")
    bad = box.path("work/bad.yaml")
    bad.write_text(f"roles:\n- command: [{PUPPET}]\n  replicas: 2\n  repilcas: 3\n")
    broken = box.path("work/broken.yaml")
    broken.write_text("roles: [\n")
    assert box.ctl("validate", good).rc == 0
    result = box.ctl("validate", bad)
    assert result.rc == 2 and "roles[0].repilcas" in result.err and "bad.yaml" in result.err, result
    result = box.ctl("validate", broken)
    assert result.rc == 2 and "broken.yaml" in result.err, result
    assert box.ctl("validate", box.path("work/missing.yaml")).rc == 2


def test_json_files_are_checked(box):
    path = box.path("work/job.json")
    path.write_text(json.dumps(spec("x", restart={"max": 3})))
    assert box.ctl("validate", path).rc == 0
    path.write_text('{"roles": [{"command": ["x"]}], "roles": []}')
    assert box.ctl("validate", path).rc == 2, "a duplicate key"


@pytest.mark.parametrize("text", [
    "a: &a [*a]\n", "&x {roles: *x}\n", "x" * 100000, "a: !!python/object:os.system {}\n", "\x00\x01",
    "- 1\n- 2\n", "", "a: b: c\n", "a: |\n" + "  y\n" * 10000,
    "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: &d [*c,*c]\n",
])
def test_malicious_or_empty_files_are_refused(box, text):
    path = box.path("work/evil.yaml")
    path.write_text(text)
    result = box.ctl("validate", path)
    assert result.rc == 2 and "evil.yaml" in result.err, result


WRONG_FILE = """\
name: digits
roles:
- command: [train, 4]
  replicas: many
max_size: 10M
stop: {timeout: 30}
"""


@pytest.mark.parametrize("verb", ["validate", "run", "start"])
def test_every_error_of_a_file_has_its_place_and_no_usage(box, daemon, verb):
    path = box.path("work/wrong.yaml")
    path.write_text(WRONG_FILE)
    result = box.ctl(verb, *([path] if verb == "validate" else [f"--spec={path}"]))
    assert result.rc == 2 and result.out == "", result
    assert [line.split(": expected")[0] for line in result.err.splitlines()] == [
        f"elasticctl: {path}:3:20: roles[0].command[1]",
        f"elasticctl: {path}:4:3: roles[0].replicas",
        f"elasticctl: {path}:5:1: max_size: unknown key here; it belongs in `logs`",
        f"elasticctl: {path}:6:8: stop.timeout",
    ], result
    assert daemon.call("List", ended=True)["jobs"] == []


@pytest.mark.parametrize("verb", ["validate", "run", "start"])
def test_every_wrong_file_has_one_exit_status(box, verb):
    broken = box.path("work/broken.yaml")
    broken.write_text("roles: [")
    for path in (broken, box.path("work/missing.yaml"), box.path("work")):
        result = box.ctl(verb, *([path] if verb == "validate" else [f"--spec={path}"]))
        assert result.rc == 2 and str(path) in result.err and "usage" not in result.err, result


def test_files_beside_a_wrong_one_are_checked(box):
    for name, text in (("a", WRONG_FILE), ("b", "roles: [{command: [x]}]"), ("c", "{}")):
        box.path(f"work/{name}.yaml").write_text(text)
    result = box.ctl("validate", "a.yaml", "b.yaml", "c.yaml")
    assert result.rc == 2 and result.out == "b.yaml is valid\n", result
    assert "a.yaml:3:20: " in result.err and "c.yaml:1:1: roles: is required" in result.err, result
