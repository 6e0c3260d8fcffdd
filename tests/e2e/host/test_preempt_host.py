# SPDX-License-Identifier: Apache-2.0
"""elasticd listens once for all jobs to what announces the end of their host."""

import signal

import pytest

from harness import CTL, have, spec, wait_for, wait_text
from metadata import Azure, Gce, Nobody

def wants(name, *notices, steps=("on:TERM:exit:42",), **preemption):
    preemption.setdefault("exit_code", 42)
    return spec(*steps, "print:up", "hang", name=name, logs={"redirects": "3"},
                preemption={"notices": list(notices), **preemption})


def started(daemon, document):
    name, run = daemon.submit(document)
    job = daemon.wait(run, until="running")
    wait_text(daemon.log(job, 0, 0), "up")
    return run


def notices(daemon, run):
    return [e for e in daemon.events(run) if e["event"] == "notice"]


class Host:
    """Around which clouds answer as a test likes; daemon(): an elasticd there."""

    def __init__(self, box):
        self.box, self.open = box, [Nobody()]
        nobody = self.open[0].address
        self.dmi = box.path("dmi")
        self.dmi.mkdir()
        self.endpoints = {cloud: f"http://{nobody}" for cloud in ("gce", "aws", "azure")}

    def cloud(self, name, kind):
        cloud = kind()
        self.open.append(cloud)
        self.endpoints[name] = cloud.url
        return cloud

    def daemon(self, more="", env=None):
        config = "[preemption]\n" + "".join(
            f"{cloud}_endpoint = {url}\n" for cloud, url in self.endpoints.items())
        config += f"dmi_dir = {self.dmi}\n{more}"
        return self.box.new_daemon(config=config, env=env).start()

    def close(self):
        for what in reversed(self.open):
            what.close()


@pytest.fixture
def host(box):
    host = Host(box)
    yield host
    host.close()


def asked(cloud, daemon, text="wait_for_change=true"):
    """Waits until the cloud was asked, where this build can."""
    wait_for(lambda: cloud.asked(text) or "without libcurl" in daemon.program.err, daemon.box.path("out"),
             daemon.program.err_path, what=f"the cloud to be asked {text}")
    if not cloud.asked(text):
        pytest.skip("built without libcurl")


def watch_of(daemon, source):
    answer = daemon.call("Platform")
    return next(w for w in answer["watches"] if w["source"] == source)


# --- clouds -----------------------------------------------------------------------------------------


def test_a_notice_of_the_cloud_reaches_every_job_that_asked_and_no_other(box, host):
    gce = host.cloud("gce", Gce)
    (host.dmi / "product_name").write_text("Google Compute Engine\n")
    daemon = host.daemon()
    direct = started(daemon, wants("direct", "gce"))
    cloud = started(daemon, wants("cloud", "cloud"))
    other = started(daemon, wants("other", "azure"))
    silent = started(daemon, wants("silent"))
    asked(gce, daemon, "maintenance-event?wait_for_change=true")
    gce.set(maintenance="TERMINATE_ON_HOST_MAINTENANCE")
    for run in (direct, cloud):
        # Of the agent's own word: elasticd's may come later.
        up = daemon.watch(run, lambda j, _: j.get("preemption"))["preemption"]
        assert up["source"] == "gce" and up.get("deadline_us"), up
    for run in (other, silent):
        assert not notices(daemon, run) and daemon.status(run)["state"] == "running"
    told = "notice of preemption from gce"
    wait_for(lambda: daemon.program.err.count(told) >= 3, daemon.program.err_path, what="elasticd to say so")
    assert daemon.program.err.count(told) == 3, daemon.program.err


def test_a_job_that_starts_while_a_notice_is_up_is_told_too_and_each_once(box, host):
    gce = host.cloud("gce", Gce)
    daemon = host.daemon()
    steps = ("on:TERM:print:saves",)
    first = started(daemon, wants("first", "gce", steps=steps))
    asked(gce, daemon, "maintenance-event?wait_for_change=true")
    gce.set(maintenance="TERMINATE_ON_HOST_MAINTENANCE")
    daemon.wait_event(first, "notice")
    # No signal for who may not know yet what to do with it.
    second = started(daemon, wants("second", "gce", how="agree"))
    daemon.wait_event(second, "notice")
    # The next elasticd hears of it as of something new, and the agents know it.
    daemon.restart(signal.SIGKILL)
    daemon.program.wait_err("notice of preemption from gce")
    third = started(daemon, wants("third", "gce", how="agree"))
    daemon.wait_event(third, "notice")
    for run in (first, second, third):
        assert len(notices(daemon, run)) == 1, daemon.events(run)


def test_no_cloud_is_asked_where_no_job_wants_it(box, host):
    gce, azure = host.cloud("gce", Gce), host.cloud("azure", Azure)
    daemon = host.daemon()
    silent = started(daemon, wants("silent", "signal", "command", command=["/bin/false"]))
    wants_gce = started(daemon, wants("a", "gce"))
    asked(gce, daemon)
    assert not azure.asked()
    assert watch_of(daemon, "gce")["jobs"] == 1 and watch_of(daemon, "azure")["jobs"] == 0
    daemon.call("Stop", job=wants_gce)
    daemon.wait(wants_gce)
    wait_for(lambda: watch_of(daemon, "gce")["state"] == "off", daemon.state / "jobs")
    assert watch_of(daemon, "gce")["jobs"] == 0
    assert daemon.status(silent)["state"] == "running"


def test_platform_says_where_the_host_is_and_what_is_watched(box, host):
    host.cloud("gce", Gce)
    (host.dmi / "product_name").write_text("Google Compute Engine\n")
    daemon = host.daemon()
    shown = box.ctl("platform")
    assert shown.rc == 0 and shown.out.startswith("gce"), shown
    assert "SOURCE" in shown.out and "logind" in shown.out, shown
    answer = box.ctl("platform", "--json").json
    assert answer["platform"] == "gce"
    assert {w["source"] for w in answer["watches"]} >= {"gce", "aws", "azure", "logind"}
    assert all(w["state"] == "off" and w["jobs"] == 0 for w in answer["watches"]), answer
    assert {w["text"] for w in answer["watches"]} == {"no active job asks for it"}, answer
    daemon.stop()
    alone = box.ctl("platform")
    assert alone.rc == 5 and "elasticd is not running" in alone.out, alone
    assert box.ctl("platform", "--json").json["watches"] == []


def test_an_endpoint_that_is_none_is_refused_by_its_name(box):
    conf = box.path("bad.conf")
    for line, says in (("gce_endpoint = metadata", "[preemption] gce_endpoint: expected http://"),
                       ("inhibit_delay = soon", "[preemption] inhibit_delay:"),
                       ("dmi_dir = here", "[preemption] dmi_dir: expected an absolute path")):
        conf.write_text(f"[preemption]\n{line}\n")
        result = box.sh(CTL.replace("elasticctl", "elasticd"), "--config", conf)
        assert result.rc == 1 and says in result.err, result


# --- logind -----------------------------------------------------------------------------------------


def test_without_a_system_bus_there_is_one_warning_and_jobs_run(box, host):
    daemon = host.daemon(env={"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={box.path('bus/none')}"})
    run = started(daemon, wants("a", "logind"))
    daemon.program.wait_err("logind:")
    second = started(daemon, wants("b", "logind"))
    assert daemon.status(run)["state"] == daemon.status(second)["state"] == "running"
    watch = watch_of(daemon, "logind")
    if "built without systemd" in watch["text"]:
        pytest.skip("built without systemd")
    assert watch["state"] == "failing" and watch["jobs"] == 2, watch
    daemon.call("Stop", job=run)
    daemon.call("Stop", job=second)
    daemon.wait(second)
    daemon.wait(run)
    wait_for(lambda: watch_of(daemon, "logind")["state"] == "off", daemon.state / "jobs")
    assert daemon.program.err.count("logind:") == 1, daemon.program.err


BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={path}</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
    <allow user="*"/>
  </policy>
</busconfig>
"""


def test_the_bus_is_used_when_it_comes_and_its_loss_is_noted(box, host):
    """A bus without a logind: elasticd asks it, and says what it lacks."""
    if not have("dbus-daemon"):
        pytest.skip("no dbus-daemon on this machine")
    path = box.path("bus/system/socket")
    daemon = host.daemon(env={"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={path}"})
    started(daemon, wants("a", "logind"))
    daemon.program.wait_err("logind: the system bus")
    if "built without systemd" in daemon.program.err:
        pytest.skip("built without systemd")
    conf = box.path("bus.conf")
    conf.write_text(BUS.format(path=path))
    # Its directories come one after the other.
    path.parent.parent.mkdir()
    path.parent.mkdir()
    bus = box.start("dbus-daemon", f"--config-file={conf}", "--nofork", "--nosyslog")
    wait_for(lambda: "no lock" in watch_of(daemon, "logind")["text"], path.parent,
             what="elasticd to have asked the bus")
    bus.popen.terminate()
    bus.wait()
    wait_for(lambda: "the system bus" in watch_of(daemon, "logind")["text"], path.parent,
             what="elasticd to have seen the end of the bus")
    path.unlink(missing_ok=True)
    bus = box.start("dbus-daemon", f"--config-file={conf}", "--nofork", "--nosyslog")
    wait_for(lambda: "no lock" in watch_of(daemon, "logind")["text"], path.parent,
             what="elasticd to have asked the next bus")
    assert daemon.program.err.count("logind:") == 1, "one warning for all of it"
    bus.popen.terminate()
    bus.wait()
