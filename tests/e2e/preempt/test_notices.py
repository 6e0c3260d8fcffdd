# SPDX-License-Identifier: Apache-2.0
"""Where notices of preemption come from: clouds' metadata servers, right and wrong, and a command."""

import json
import os
import pathlib
import signal
import stat

import pytest

from harness import AGENT, PATIENCE, PUPPET, SANITIZED, descendants, spec, wait_file, wait_gone, wait_lines
from metadata import Aws, Azure, Cloud, Gce, Nobody
from silence import call_before_silence

HAVE_CURL = os.path.exists(AGENT) and b"libcurl.so.4" in pathlib.Path(AGENT).read_bytes()
GPU = os.path.exists("/dev/nvidia0")
CODES = {"gce": 143 if GPU else 42}


class Host:
    """A host whose firmware says nothing, and around which no cloud answers."""

    def __init__(self, box):
        self.box, self.open = box, []
        self.dmi = box.path("dmi")
        self.dmi.mkdir()
        nobody = self.keep(Nobody())
        self.env = {"ELASTICD_DMI_DIR": str(self.dmi), "GCE_METADATA_HOST": nobody.address,
                    "AWS_EC2_METADATA_SERVICE_ENDPOINT": nobody.address,
                    "ELASTICD_AZURE_ENDPOINT": nobody.address,
                    "ELASTICD_METADATA_TIMEOUT": f"{PATIENCE}s"}

    def keep(self, what):
        self.open.append(what)
        return what

    def cloud(self, what):
        self.keep(what)
        if not HAVE_CURL:
            pytest.skip("built without libcurl")
        return what

    def gce(self, cloud=None):
        cloud = self.cloud(cloud or Gce())
        self.env["GCE_METADATA_HOST"] = cloud.address
        return cloud

    def aws(self, cloud=None):
        cloud = self.cloud(cloud or Aws())
        self.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = cloud.url
        return cloud

    def azure(self, cloud=None):
        cloud = self.cloud(cloud or Azure())
        self.env["ELASTICD_AZURE_ENDPOINT"] = cloud.url + "/"
        return cloud

    def firmware(self, **fields):
        for name, text in fields.items():
            (self.dmi / name).write_text(text + "\n")

    def run(self, *steps, notices, **preemption):
        """A run in the foreground of one worker: it waits for the file "end" after those steps."""
        path = self.box.path("job.json")
        steps = [*steps, f"touch:{self.box.path('up')}.%a", f"wait-file:{self.box.path('end')}"]
        path.write_text(json.dumps({
            "name": "noticed",
            "roles": [{"replicas": 1, "command": [PUPPET, *steps]}],
            "restart": {"max": 3},
            "preemption": {"notices": notices, "poll": "200ms", **preemption},
        }))
        return self.box.run_start("--spec", path, env=self.env)

    def end(self):
        self.box.path("end").touch()

    def close(self):
        for what in reversed(self.open):
            what.close()


@pytest.fixture
def host(box):
    host = Host(box)
    yield host
    host.close()


def said(result, text):
    return [line for line in result.err.splitlines() if text in line]


# --- clouds that tell the truth ----------------------------------------------------------------------


def test_maintenance_of_a_gce_host_is_a_notice(box, host):
    gce = host.gce()
    run = host.run(notices=["gce"])
    gce.wait_asked("maintenance-event?wait_for_change=true")
    wait_file(box.path("up.0"))
    gce.set(maintenance="TERMINATE_ON_HOST_MAINTENANCE")
    result = run.wait()
    assert result.rc == CODES["gce"], result
    assert said(result, "notice of preemption from gce"), result


def test_a_preempted_gce_machine_is_a_notice(box, host):
    gce = host.gce()
    run = host.run(notices=["gce"])
    gce.wait_asked("preempted?wait_for_change=true")
    wait_file(box.path("up.0"))
    gce.set(preempted="TRUE")
    result = run.wait()
    assert result.rc == CODES["gce"], result
    assert said(result, "GCE preempts this machine"), result


def test_a_live_migration_of_gce_is_said_and_is_no_notice(box, host):
    gce = host.gce()
    run = host.run(notices=["gce"])
    gce.wait_asked("maintenance-event?wait_for_change=true")
    gce.set(maintenance="MIGRATE_ON_HOST_MAINTENANCE")
    gce.wait_asked("maintenance-event?wait_for_change=true", count=2)
    host.end()
    result = run.wait()
    assert result.rc == 0, result
    events = (box.run_dir() / "events.jsonl").read_text()
    assert "moved to another host" in events, events


@pytest.mark.parametrize("what", ["action", "rebalance"])
def test_an_aws_spot_action_is_a_notice(box, host, what):
    aws = host.aws()
    run = host.run(notices=["aws"])
    aws.wait_asked("rebalance")
    wait_file(box.path("up.0"))
    if what == "action":
        aws.set(action={"action": "terminate", "time": "2035-01-01T00:00:00Z"})
    else:
        aws.set(rebalance={"noticeTime": "2025-01-01T00:00:00Z"})
    result = run.wait()
    assert result.rc == 42, result
    assert said(result, "notice of preemption from aws"), result
    method, _, headers = aws.asked("/latest/api/token")[0]
    assert method == "PUT" and headers["X-aws-ec2-metadata-token-ttl-seconds"] == "21600"
    assert len(aws.asked("/latest/api/token")) == 1, "one token does for hours"


def test_an_aws_token_that_is_refused_is_asked_for_anew(box, host):
    aws = host.aws()
    run = host.run(notices=["aws"])
    aws.wait_asked("rebalance")
    wait_file(box.path("up.0"))
    aws.set(token="bmV1")
    aws.wait_asked("/latest/api/token", count=2)
    aws.set(action={"action": "terminate", "time": "2035-01-01T00:00:00Z"})
    result = run.wait()
    assert result.rc == 42, result
    assert not said(result, "warning: aws: "), result


@pytest.mark.parametrize("what", ["Preempt", "Terminate", "Reboot", "Redeploy"])
def test_an_event_that_azure_schedules_for_this_machine_is_a_notice(box, host, what):
    azure = host.azure()
    run = host.run(notices=["azure"])
    azure.wait_asked("scheduledevents")
    wait_file(box.path("up.0"))
    event = {"EventId": "A-1", "EventStatus": "Scheduled", "EventType": what,
             "ResourceType": "VirtualMachine", "NotBefore": "Mon, 01 Jan 2035 00:00:00 GMT"}
    azure.set(events=[{**event, "EventId": "B-1", "Resources": ["trainer_4"]},
                      {**event, "EventId": "C-1", "EventType": "Freeze", "Resources": ["trainer_3"]}])
    azure.wait_asked("scheduledevents", count=len(azure.asked("scheduledevents")) + 2)
    assert run.popen.poll() is None, "neither another machine's event nor a freeze is a notice"
    azure.set(events=[{**event, "Resources": ["trainer_4", "trainer_3"]}])
    result = run.wait()
    assert result.rc == 42, result
    assert said(result, "notice of preemption from azure"), result


# --- which cloud this is -----------------------------------------------------------------------------


FIRMWARE = {
    "gce": {"sys_vendor": "Google", "product_name": "Google Compute Engine"},
    "aws": {"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"},
    "azure": {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine",
              "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"},
}


@pytest.mark.parametrize("known", [True, False], ids=["by firmware", "by asking"])
@pytest.mark.parametrize("where", ["gce", "aws", "azure"])
def test_the_cloud_that_this_host_is_in_is_found(box, host, where, known):
    cloud = getattr(host, where)()
    if known:
        host.firmware(**FIRMWARE[where])
        others = [getattr(host, o)() for o in FIRMWARE if o != where]
    else:
        others = []
    run = host.run(notices=["cloud"])
    watched = {"gce": "wait_for_change", "aws": "rebalance", "azure": "scheduledevents"}[where]
    cloud.wait_asked(watched)
    wait_file(box.path("up.0"))
    cloud.set(preempted="TRUE", action={"action": "stop", "time": "2035-01-01T00:00:00Z"},
              events=[{"EventId": "A-1", "EventType": "Preempt", "Resources": ["trainer_3"],
                       "NotBefore": ""}])
    result = run.wait()
    assert result.rc == CODES.get(where, 42), result
    assert said(result, f"notice of preemption from {where}"), result
    for other in others:
        assert other.requests == [], "the firmware has said it"


def test_where_the_firmware_names_another_vendor_nobody_is_asked(box, host):
    clouds = [host.gce(), host.aws(), host.azure()]
    host.firmware(sys_vendor="Dell Inc.", product_name="PowerEdge XE9680")
    run = host.run(notices=["cloud"])
    wait_file(box.path("up.0"))
    host.end()
    result = run.wait()
    assert result.rc == 0, result
    assert [c.requests for c in clouds] == [[], [], []]


def test_servers_that_hang_do_not_keep_a_job_from_starting_or_ending(box, host):
    hanging = [host.gce(Cloud(lambda c, *_: c.hold())), host.aws(Cloud(lambda c, *_: c.hold())),
               host.azure(Cloud(lambda c, *_: c.hold()))]
    run = host.run(notices=["cloud"])
    wait_file(box.path("up.0"))
    for cloud in hanging:
        cloud.wait_asked("/")
    host.end()
    result = run.wait()
    assert result.rc == 0, result


# --- servers that do not --------------------------------------------------------------------------------


def flavored(handler, status, body, **headers):
    handler.give(status, body, Metadata_Flavor="Google", **headers)


def drip(cloud, handler, path):
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while not cloud.closed:
        try:
            handler.wfile.write(b"N")
        except OSError:
            return
        with cloud.changed:
            cloud.changed.wait_for(lambda: cloud.closed, 0.2)


def reset(cloud, handler, path):
    handler.close_connection = True


def garbage(cloud, handler, path):
    handler.wfile.write(b"\x00\x01\x02 this is not HTTP\r\n\r\n" * 50)
    handler.close_connection = True


def endless_headers(cloud, handler, path):
    handler.send_response(200)
    handler.close_connection = True
    for _ in range(200):
        handler.wfile.write(b"X-Long: " + b"x" * 8000 + b"\r\n")


LIES = {
    "status 500": lambda c, h, p: flavored(h, 500, "TRUE"),
    "a redirection": lambda c, h, p: flavored(h, 302, "", Location=f"http://{c.target}/x"),
    "no flavor": lambda c, h, p: h.give(200, "TRUE"),
    "nothing": lambda c, h, p: flavored(h, 200, ""),
    "html": lambda c, h, p: flavored(h, 200, "<html>TRUE</html>"),
    "another value": lambda c, h, p: flavored(h, 200, "MAYBE"),
    "too much": lambda c, h, p: flavored(h, 200, "TRUE" * 100000),
    "no end of headers": endless_headers,
    "a connection that is closed": reset,
    "no http": garbage,
    "json of another cloud": lambda c, h, p: flavored(h, 200, '{"action": "terminate"}'),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_is_warned_of_once_and_believed_when_it_is_sane(box, host, lie):
    target = host.keep(Cloud())
    gce = host.gce(Cloud())
    gce.target = target.address
    sane = Gce.answer.__get__(gce)
    gce.value = Gce.value.__get__(gce)
    gce.set(maintenance="NONE", preempted="FALSE", mode=LIES[lie])
    gce.answer = lambda h, p: gce.mode(gce, h, p) if gce.mode else sane(h, p)
    run = host.run(notices=["gce"])
    wait_file(box.path("up.0"))
    gce.wait_asked("/preempted", count=2)  # it is asked again, and the job goes on
    gce.wait_asked("/maintenance-event", count=2)
    assert run.popen.poll() is None, run.err
    gce.set(mode=None)
    run.wait_err("answers again")
    gce.set(preempted="TRUE")
    result = run.wait()
    assert result.rc == CODES["gce"], result
    assert len(said(result, "warning: gce: ")) == 2, result  # of two things that are asked
    assert target.requests == [], "a redirection is not followed"


@pytest.mark.parametrize("body", ["", "[]", "{}", "{", "not json", '{"action": "terminate"}',
                                  '{"action": "terminate", "time": "soon"}'])
def test_other_answers_of_aws_are_no_notice(box, host, body):
    aws = host.aws()
    sane = aws.answer
    aws.answer = lambda h, p: h.give(200, body) if "instance-action" in p else sane(h, p)
    run = host.run(notices=["aws"])
    wait_file(box.path("up.0"))
    aws.wait_asked("instance-action", count=3)
    host.end()
    result = run.wait()
    assert result.rc == 0, result
    assert len(said(result, "warning: aws: ")) == 1, result


def test_azure_says_nothing_where_its_document_is_not_one(box, host):
    azure = host.azure()
    sane = azure.answer
    azure.answer = lambda h, p: h.give(200, '{"Events": 1}') if "events" in p else sane(h, p)
    run = host.run(notices=["azure"])
    wait_file(box.path("up.0"))
    azure.wait_asked("scheduledevents", count=3)
    host.end()
    result = run.wait()
    assert result.rc == 0, result
    assert len(said(result, "warning: azure: ")) == 1, result


@pytest.mark.parametrize("way", ["hangs", "drips"])
def test_a_server_that_never_ends_its_answer_has_its_time(box, host, way):
    del host.env["ELASTICD_METADATA_TIMEOUT"]
    gce = host.gce(Cloud(drip if way == "drips" else lambda c, *_: c.hold()))
    run = host.run(notices=["gce"])
    wait_file(box.path("up.0"))
    gce.wait_asked("/preempted", count=2)  # the first one was given up
    host.end()
    result = run.wait()
    assert result.rc == 0, result
    assert said(result, "warning: gce: "), result


def test_a_server_that_refuses_is_warned_of_and_the_job_is_not_disturbed(box, host):
    run = host.run(notices=["gce", "aws", "azure"])
    for cloud in ("gce", "aws", "azure"):
        run.wait_err(f"warning: {cloud}: ")
    wait_file(box.path("up.0"))
    host.end()
    assert run.wait().rc == 0


def test_a_proxy_of_the_environment_is_not_asked(box, host):
    proxy, gce = host.keep(Cloud(lambda c, h, p: h.give(502))), host.gce()
    host.env.update({name: proxy.url for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")})
    run = host.run(notices=["gce"])
    gce.wait_asked("wait_for_change")
    wait_file(box.path("up.0"))
    host.end()
    assert run.wait().rc == 0
    assert proxy.requests == []


def test_an_endpoint_with_a_name_is_refused_and_said(box, host):
    host.env["GCE_METADATA_HOST"] = "metadata.example.org"
    run = host.run(notices=["gce"])
    run.wait_err("warning: gce: GCE_METADATA_HOST: expected http:// with an address")
    wait_file(box.path("up.0"))
    host.end()
    assert run.wait().rc == 0


def test_workers_inherit_nothing_of_what_is_watched(box, host):
    gce = host.gce()
    fds = box.path("fds")
    run = host.run(f"if-attempt:0:touch:{box.path('first')}+wait-file:{box.path('again')}+exit:1",
                   f"fds:{fds}.%a", notices=["gce"])
    wait_file(box.path("first"))
    gce.wait_asked("preempted?wait_for_change=true")  # its connections are open
    gce.wait_asked("maintenance-event?wait_for_change=true")
    box.path("again").touch()
    wait_file(box.path("up.1"))
    assert "socket" not in fds.with_suffix(".1").read_text(), fds.with_suffix(".1").read_text()
    host.end()
    assert run.wait().rc == 0


@pytest.mark.skipif(SANITIZED, reason="sanitizers' own threads make calls")
def test_a_run_that_waits_for_its_cloud_makes_no_system_call(box, host):
    gce = host.gce()
    run = host.run(notices=["gce"])
    gce.wait_asked("preempted?wait_for_change=true")
    gce.wait_asked("maintenance-event?wait_for_change=true")
    wait_file(box.path("up.0"))
    pids = [run.pid] + [p for p in descendants(run.pid)]
    made = call_before_silence(box, pids)
    assert not made, made
    host.end()
    assert run.wait().rc == 0


# --- a command ---------------------------------------------------------------------------------------


def script(box, text):
    path = box.path("command")
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [str(path)]


def test_a_command_that_exits_with_0_gives_notice_with_its_line_as_the_reason(box, host):
    command = script(box, f"""echo polled >> {box.path('polls')}
        [ -e {box.path('due')} ] || exit 1
        echo 'rack 7 loses its power grace=0s'; echo 'and more'""")
    run = host.run(notices=["command"], command=command)
    wait_file(box.path("up.0"))
    wait_lines(box.path("polls"), 3)
    assert run.popen.poll() is None, "1 is no notice"
    box.path("due").touch()
    result = run.wait()
    assert result.rc == 42, result
    assert said(result, "rack 7 loses its power"), result
    assert not said(result, "grace=0s") and not said(result, "and more"), result


@pytest.mark.parametrize("text, why", [
    ("echo oops >&2; exit 3", "it exited with 3, expected 0 (a notice) or 1 (none): oops"),
    ("kill -SEGV $$", "it was ended by SIGSEGV"),
    (None, "cannot exec: No such file or directory"),
])
def test_a_command_that_is_broken_is_warned_of_once_and_is_no_notice(box, host, text, why):
    counted = f"echo polled >> {box.path('polls')}\n{text}"
    command = script(box, counted) if text else ["elastic-no-such-command"]
    run = host.run(notices=["command"], command=command)
    wait_file(box.path("up.0"))
    if text:
        wait_lines(box.path("polls"), 3)
    run.wait_err("preemption.command is broken")
    host.end()
    result = run.wait()
    assert result.rc == 0, result
    assert len(said(result, "preemption.command is broken")) == 1, result
    assert why in result.err, result


def test_a_command_is_never_run_twice_at_once(box, host):
    log, gate = box.path("log"), box.path("gate")
    gate.mkdir()
    # A second one would find the directory taken.
    command = script(box, f"""if mkdir {gate}/taken; then sleep 0.5; rmdir {gate}/taken; echo one >> {log}
        else echo two >> {log}; fi; exit 1""")
    run = host.run(notices=["command"], command=command, poll="10ms")
    lines = wait_lines(log, 4)
    host.end()
    assert run.wait().rc == 0
    assert set(lines) == {"one"}, lines


def test_a_command_that_hangs_is_killed_with_what_it_started(box, host):
    pids = box.path("pids")
    command = script(box, f"sleep 1000 & echo $$ $! >> {pids}; wait")
    run = host.run(notices=["command"], command=command, poll="10ms")
    first = wait_lines(pids, 1)[0].split()
    wait_file(box.path("up.0"))
    run.wait_err("preemption.command is broken: it did not end in 10s, and was killed")
    for pid in first:
        wait_gone(int(pid))
    second = wait_lines(pids, 2)[1].split()  # it is tried again
    host.end()
    assert run.wait().rc == 0
    for pid in second:
        wait_gone(int(pid))


def test_a_command_ends_with_an_agent_that_is_killed(box, host):
    pids = box.path("pids")
    command = script(box, f"sleep 1000 & echo $$ $! >> {pids}; wait")
    run = host.run(notices=["command"], command=command)
    first = wait_lines(pids, 1)[0].split()
    wait_file(box.path("up.0"))
    agents = [p for p in descendants(run.pid) if "elastic-agent" in _name(p)]
    os.kill(agents[-1] if agents else run.pid, signal.SIGKILL)
    run.wait()
    for pid in first:
        wait_gone(int(pid))


def _name(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


# --- elasticd watches for all -------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["gce", "cloud"])
def test_elasticd_watches_once_and_tells_every_job_that_asked(box, host, asked):
    gce = host.gce()
    daemon = box.new_daemon(config=f"[preemption]\ngce_endpoint = {gce.url}\n", env=host.env)
    daemon.start()
    steps = ["touch:%s.{}" % box.path("up"), "hang"]
    runs = []
    for i, notices in enumerate(([asked], [asked], [])):
        job = spec(*[s.format(i) for s in steps], name=f"job{i}", preemption={"notices": notices})
        runs.append(daemon.submit(job)[1])
        wait_file(box.path(f"up.{i}"))
        daemon.wait(runs[i], until="running")
    gce.wait_asked("preempted?wait_for_change=true")
    # The first question of a watch does not wait, all others do.
    first = [path for _, path, _ in gce.asked("/preempted") if "wait_for_change" not in path]
    assert len(first) == 1, "one watch for both jobs, not one for each"
    gce.set(preempted="TRUE")
    for run in runs[:2]:
        assert daemon.wait(run)["verdict"]["result"] == "preempted"
    assert daemon.status(runs[2])["state"] == "running", "it has not asked"


@pytest.mark.skipif(SANITIZED, reason="sanitizers' own threads make calls")
def test_an_elasticd_whose_jobs_have_ended_watches_nothing(box, host):
    gce = host.gce()
    daemon = box.new_daemon(config=f"[preemption]\ngce_endpoint = {gce.url}\n", env=host.env)
    daemon.start()
    _, run = daemon.submit(spec(f"wait-file:{box.path('end')}", preemption={"notices": ["gce"]}))
    gce.wait_asked("preempted?wait_for_change=true")
    host.end()
    daemon.wait(run)
    made = call_before_silence(box, [daemon.pid])
    assert not made, made
