# SPDX-License-Identifier: Apache-2.0
"""Metrics: what monitoring systems read of elasticd, on a socket and on a port."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import urllib.parse

import pytest

from harness import ROOT, as_user, have, is_root, other_user, spec, wait_file, wait_for
from several_hosts import free_port
from unix_http import UnixHttp

EXAMPLES = ROOT / "examples" / "monitoring"
SAMPLE = re.compile(r'^([a-z_]+)(?:\{(.*)\})? (\S+)$')


def get(connection, path):
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def samples(text):
    """{(name, labels): value}, labels as a sorted tuple of pairs."""
    assert text.endswith("# EOF\n"), text[-200:]
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        key = name, tuple(sorted(re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', labels or "")))
        assert key not in found, line
        found[key] = float(value)
    return found


def of(found, metric, /, **labels):
    """The values of a metric's samples that have these labels."""
    return [v for (n, have_labels), v in found.items()
            if n == metric and set(labels.items()) <= set(have_labels)]


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def watched(box, port):
    box.open_to_all()
    return box.new_daemon(config=f"[metrics]\nlisten = 127.0.0.1:{port}\n").start()


def test_metrics_follow_the_jobs(box, watched, port):
    on_socket = UnixHttp(watched.runtime / "metrics.sock")
    on_port = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    assert get(on_port, "/healthz") == (200, "ok\n") == get(on_socket, "/readyz")
    assert get(on_port, "/")[0] == 404
    watched.submit(spec(f"touch:{box.path('up')}.%a.%r", "hang", name="again", replicas=2,
                        restart={"max": 5}, heartbeat={"period": "1h"}))
    for rank in range(2):
        wait_file(box.path(f"up.0.{rank}"))
    watched.submit(spec("exit:4", name="bad"))
    watched.wait("bad")
    wait_for(lambda: of(samples(get(on_port, "/metrics")[1]), "elasticd_jobs_ended_total",
                        state="failed") == [1], watched.state)
    for connection in (on_socket, on_port):
        found = samples(get(connection, "/metrics")[1])
        assert of(found, "elasticd_job_workers", name="again") == [2]
        assert of(found, "elasticd_job_restarts_max", name="again") == [5]
        assert of(found, "elasticd_job_workers_silent", name="again") == [0]
        assert of(found, "elasticd_job_state", name="again", state="running") == [1]
        assert of(found, "elasticd_jobs", state="running") == [1]
        assert of(found, "elasticd_job_end_timestamp_seconds", name="bad", state="failed")
        assert not of(found, "elasticd_job_state", name="bad")
    # A change is seen at once, however fresh the last numbers are.
    watched.call("Kill", job="again", signal="KILL", ranks="1")
    watched.until_attempt("again", 1)
    found = samples(get(on_port, "/metrics")[1])
    assert of(found, "elasticd_job_restarts_total", name="again", cause="signal") == [1]
    assert of(found, "elasticd_job_restarts_total", name="again", cause="exit") == [0]
    assert of(found, "elasticd_job_attempt", name="again") == [1]
    # Processes that sync records are heard of by descriptors, too, for a moment.
    wait_for(lambda: abs(of(samples(get(on_port, "/metrics")[1]), "process_open_fds")[0]
                         - len(os.listdir(f"/proc/{watched.pid}/fd"))) < 3, what="the open descriptors")
    page = (ROOT / "man" / "elasticd-metrics.7").read_text()
    for name, _ in found:
        assert name in page, f"{name} is not in elasticd-metrics(7)"


def test_an_agent_that_stands_still_holds_up_no_reader(box, watched, port):
    watched.submit(spec("hang", name="still"))
    watched.submit(spec("hang", name="well"))
    for name in ("still", "well"):
        watched.wait(name, until="running")
    agent = watched.agent_pid("still")
    os.kill(agent, signal.SIGSTOP)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        found = samples(get(connection, "/metrics")[1])
    finally:
        os.kill(agent, signal.SIGCONT)
    assert of(found, "elasticd_job_up", name="still") == [0]
    assert of(found, "elasticd_job_up", name="well") == [1]
    assert not of(found, "elasticd_job_attempt", name="still")
    # It answers late, and its numbers are there soon.
    wait_for(lambda: of(samples(get(connection, "/metrics")[1]), "elasticd_job_up", name="still") == [1],
             watched.state)


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_users_see_their_own_jobs_on_the_socket(box):
    box.open_to_all()
    daemon = box.new_daemon(config=f"[elasticd]\nallow_users = {other_user().pw_name}\n")
    daemon.start()
    daemon.base.chmod(0o755)
    daemon.submit(spec("hang", name="roots"))
    daemon.wait("roots", until="running")
    script = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
              "s.sendall(b'GET /metrics HTTP/1.0\\r\\n\\r\\n')\n"
              "while data := s.recv(65536):\n    sys.stdout.buffer.write(data)\n")

    def read_as(user):
        r = box.sh(*as_user(user, "/usr/bin/python3", "-c", script, daemon.runtime / "metrics.sock"), cwd="/")
        assert r.rc == 0, r
        return r.out

    class Stranger:
        pw_uid = pw_gid = 54321

    assert "elasticd_jobs{" in read_as(other_user()) and "roots" not in read_as(other_user())
    refused = read_as(Stranger)
    assert " 403 " in refused and "user 54321 may not use this elasticd" in refused


def test_a_port_that_is_taken_keeps_no_job_from_running(box):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        daemon = box.new_daemon(config=f"[metrics]\nlisten = {address}\n").start()
        assert f"metrics are not served at {address} ([metrics] listen): Address already in use" \
            in daemon.program.err
        assert daemon.run(spec("exit:0"))["state"] == "succeeded"


def test_the_dashboard_asks_for_metrics_that_there_are():
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
    page = (ROOT / "man" / "elasticd-metrics.7").read_text()
    asked = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
    rules = (EXAMPLES / "alerts.yml").read_text()
    for name in re.findall(r"\b(?:elasticd|process)_[a-z_]+\b", "\n".join([*asked, rules])):
        assert name in page, name
    ids = [p["id"] for p in dashboard["panels"]]
    assert len(set(ids)) == len(ids) and dashboard["schemaVersion"] >= 36
    assert all(p["datasource"]["uid"] == "${datasource}" for p in dashboard["panels"])


@pytest.mark.skipif(not have("prometheus") or not have("promtool"),
                    reason="no prometheus to read the metrics")
def test_prometheus_reads_the_metrics_and_fires_the_alert(box, watched, port):
    subprocess.run(["promtool", "check", "rules", EXAMPLES / "alerts.yml"], check=True, capture_output=True)
    work = box.path("prometheus")
    work.mkdir()
    config = (EXAMPLES / "prometheus.yml").read_text().replace("127.0.0.1:9465", f"127.0.0.1:{port}")
    (work / "prometheus.yml").write_text(config.replace("15s", "1s"))
    (work / "alerts.yml").write_text((EXAMPLES / "alerts.yml").read_text())
    watched.submit(spec("exit:4", name="bad"))
    watched.submit(spec("hang", name="well"))
    watched.wait("well", until="running")
    at = free_port()
    box.start("prometheus", f"--config.file={work}/prometheus.yml", f"--storage.tsdb.path={work}/data",
              f"--web.listen-address=127.0.0.1:{at}", name="prometheus")

    def ask(path, **query):
        try:
            status, text = get(http.client.HTTPConnection("127.0.0.1", at, timeout=10),
                               f"/api/v1/{path}?{urllib.parse.urlencode(query)}")
        except OSError:
            return None
        return json.loads(text)["data"] if status == 200 else None

    wait_for(lambda: any(a["state"] == "firing" and a["labels"] == {
        **a["labels"], "alertname": "JobFailed", "name": "bad", "severity": "critical"}
        for a in (ask("alerts") or {}).get("alerts", [])), work, what="the alert JobFailed")
    found = ask("query", query='elasticd_job_workers{name="well",state="running"}')["result"]
    assert [r["value"][1] for r in found] == ["1"]
    targets = ask("targets")["activeTargets"]
    assert [t["health"] for t in targets] == ["up"], targets
