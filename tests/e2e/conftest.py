# SPDX-License-Identifier: Apache-2.0
"""Fixtures: each test gets a box of its own; leftovers and overlong tests fail; failures carry all logs."""

import faulthandler
import os
import signal
import sys

import pytest

import harness
from clocks import Clocks
from queue_workers import Hands

TEST_SECONDS = int(os.environ.get("ELASTIC_TEST_SECONDS", 300 * harness.SLOWER))


class TestTimeout(BaseException):
    """Not an Exception: nothing in a test may swallow it."""


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes several seconds")
    config.addinivalue_line("markers", "seconds(n): this test may take n seconds")
    config.addinivalue_line("markers", "root: needs to be root")
    config.addinivalue_line("markers", "ci: costs seconds of CPU: CI runs it once, ./bootstrap check never")
    config.addinivalue_line("markers", "all: a part of ./bootstrap all alone")
    faulthandler.enable()


def pytest_sessionstart(session):
    missing = [p for p in (harness.CTL, harness.DAEMON, harness.AGENT, harness.PUPPET)
               if not os.path.exists(p)]
    if missing and not session.config.option.collectonly:
        pytest.exit(f"not built: {' '.join(missing)} (make programs tools, or set ELASTIC_BUILD)", 3)
    harness.become_subreaper()
    # What a caller such as nohup ignores would stay ignored in everything that the tests start.
    for signo in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(signo) == signal.SIG_IGN:
            signal.signal(signo, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    if "ELASTIC_CHECK" in os.environ or harness.SANITIZED and not harness.ALL:
        left = [item for item in items if item.get_closest_marker("ci")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    for item in items:
        if item.get_closest_marker("root") and not harness.is_root():
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if item.get_closest_marker("all") and not harness.ALL:
            item.add_marker(pytest.mark.skip(reason="a part of ./bootstrap all (set ELASTIC_ALL)"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    box = getattr(item, "box", None)
    if box and report.failed:
        report.sections += box.saved or box.attachments()


@pytest.fixture(autouse=True)
def _time_limit(request):
    marker = request.node.get_closest_marker("seconds")
    seconds = max(marker.args[0] * harness.SLOWER if marker else 0, TEST_SECONDS)

    def expired(*_):
        faulthandler.dump_traceback(sys.__stderr__)
        raise TestTimeout(f"the test took more than {seconds} s")

    signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture
def box(request):
    box = request.node.box = harness.Box(request.node.name)
    yield box
    signal.setitimer(signal.ITIMER_REAL, TEST_SECONDS)  # the end has a limit of its own
    try:
        left = box.leftovers()
    except TestTimeout:
        left = ["(the end of the test took too long)", *box.reap_all()]
    fatal = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS)
    left += [f"crashed: {p.argv} ({p.popen.returncode})" for p in box.programs
             if p.argv[0] in (harness.CTL, harness.DAEMON) and p.popen.returncode in fatal]
    said = [p.err for p in box.programs] + [f.read_text(errors="replace") for f in box.agent_logs()]
    left += [text for text in said if "Sanitizer" in text or "runtime error:" in text]
    if left:
        box.saved = box.attachments()
    box.close()
    if left:
        pytest.fail("\n".join(["left after the test:", *left]), pytrace=False)


@pytest.fixture
def daemon(box):
    return box.daemon


@pytest.fixture
def guest(box):
    """A daemon that lets another, unprivileged user in."""
    if not harness.is_root():
        pytest.skip("needs root to be another user")
    user = harness.other_user()
    box.open_to_all()
    daemon = box.new_daemon(config=f"[elasticd]\nsocket_mode = 0666\nallow_users = {user.pw_name}\n")
    daemon.base.chmod(0o755)
    daemon.start()
    daemon.user = user
    return daemon


@pytest.fixture
def set_clocks(box):
    """Sets the clocks of what the box starts forward: set_clocks(wall=seconds, monotonic=seconds)."""
    return Clocks(box)


@pytest.fixture
def hands(daemon):
    """Starts jobs all of whose tasks the test can be."""
    groups = []

    def make(document):
        groups.append(Hands(daemon, document))
        return groups[-1]

    yield make
    for g in groups:
        g.close()


@pytest.fixture
def small_disk(box):
    return box.mount_small(box.path("small"), "1m", "755")
