# SPDX-License-Identifier: Apache-2.0
"""history, diff and plot: looking at runs that have ended."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from harness import have, spec

SVG = "{http://www.w3.org/2000/svg}"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
def runs(daemon):
    """A run that succeeded at once, one that succeeded in attempt 1, and one that failed."""
    return [daemon.run(spec(name="good")),
            daemon.run(spec("if-attempt:0:exit:3", name="twice", replicas=2, restart={"max": 5})),
            daemon.run(spec("exit:4", name="bad"))]


def test_ended_runs_are_listed_the_newest_first(box, daemon, runs):
    daemon.submit(spec("hang", name="active"))
    table = box.ctl("history").out.splitlines()
    assert [line.split("_")[0] for line in table[1:]] == ["bad", "twice", "good"], table
    assert re.search(r" 2 +1 +succeeded +0", table[2]), table
    assert re.search(r" 1 +0 +failed +4 +.*exit code 4", table[1]), table
    listed = box.ctl("history", "--json").json
    assert [job["run"] for job in listed] == [job["run"] for job in reversed(runs)]

    def names(*args):
        return [job["name"] for job in box.ctl("history", "--json", *args).json]

    assert names("--failed") == ["bad"]
    assert names("-n", "2") == ["bad", "twice"]
    assert names("--since", f"@{runs[1]['ended_us'] // 1000000}.{runs[1]['ended_us'] % 1000000:06}") \
        == ["bad", "twice"]
    assert names("t*") == ["twice"] and names(runs[0]["run"]) == ["good"] and names("active") == []
    for verb in ("events", "history"):
        failed = box.ctl(verb, "nobody")
        assert failed.rc == 1 and "no job named nobody" in failed.err, failed
    assert box.ctl("history", "active").rc == box.ctl("history", "no*").rc == 0


def test_specifications_of_runs_and_files_are_compared(box, daemon, runs):
    shown = box.ctl("diff", "good", "twice")
    assert shown.rc == 1 and "restart.max: 0 (default) -> 5\n" in shown.out, shown
    assert "roles[worker].replicas: 1 (default) -> 2\n" in shown.out, shown
    path = box.path("work/job.json")
    path.write_text(json.dumps(spec("if-attempt:0:exit:3", name="twice", replicas=2, restart={"max": 6})))
    rows = {row["path"]: row for row in box.ctl("diff", "--json", runs[1]["log_dir"], path).json}
    assert rows["restart.max"] == {"path": "restart.max", "old": 5, "new": 6}
    same = box.ctl("diff", path, path)
    assert same.rc == 0 and same.out == ""
    for wrong in ("nobody", box.path("work/none.yaml")):
        failed = box.ctl("diff", "good", wrong)
        assert failed.rc == 2 and failed.err, failed


def titles(text):
    return [t.text for t in ET.fromstring(text).iter(f"{SVG}title")]


def test_a_run_is_drawn_by_elasticd_and_from_its_files(box, daemon, runs):
    live, files = box.ctl("plot", "twice"), box.ctl("plot", runs[1]["log_dir"])
    assert live.rc == 0 and live.out == files.out, (live, files)
    starts = [t for t in titles(live.out) if re.match(r"worker:\d \(pid \d+\): .*, attempt \d", t)]
    assert len(starts) == 4, titles(live.out)
    bad = titles(box.ctl("plot", "bad").out)
    assert sum("root cause: worker:0" in t for t in bad) == 1, bad
    name, _ = daemon.submit(spec("hang", name="active"))
    daemon.wait(name, until="running")
    assert any(t.startswith("worker:0 runs, since ") for t in titles(box.ctl("plot", name).out))
    for wrong in ("nobody", "./nothing", box.dir):
        failed = box.ctl("plot", wrong)
        assert failed.rc == 1 and failed.err and not failed.out, failed


@pytest.mark.ci
def test_the_page_zooms_in_a_browser(box, daemon, runs):
    browser = next((b for b in BROWSERS if have(b)), None)
    if not browser:
        pytest.skip("no browser to show the page")
    path = box.path("work/page.html")
    path.write_text(box.ctl("plot", "--html", "twice").out)

    def opened(part):
        shown = box.sh(browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=1000",
                       "--dump-dom", f"--user-data-dir={box.path('tmp/browser' + part)}",
                       f"file://{path}{part}")
        assert '<g id="axes">' in shown.out, shown
        ticks = re.search(r'<g id="axes">(.*?)</g>', shown.out, re.S)[1]
        return (float(re.search(r'data-zoom="([\d.]+)"', shown.out)[1]),
                re.search(r'id="bars"[^>]* viewBox="([^"]*)"', shown.out)[1].split(),
                re.findall(r">([^<>]+)</text>", ticks))

    whole, near = opened(""), opened("#at=0.5,part=0.1")
    assert whole[0] == 1 and near[0] == 10, (whole, near)
    assert float(near[1][0]) == pytest.approx(float(whole[1][2]) / 2, rel=0.01)
    assert len(near[2]) >= 8 and near[2] != whole[2], "the axes have ticks of their own"
