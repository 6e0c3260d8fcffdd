# SPDX-License-Identifier: Apache-2.0
"""For tests of elasticd.Manager: the package in this process, and calls in threads."""

import threading

from harness import CTL
from python_package import PACKAGE

LIMIT = 60


def import_package(monkeypatch):
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.setenv("ELASTICCTL", CTL)
    monkeypatch.delenv("ELASTICD_HOST", raising=False)
    import elasticd
    return elasticd


def in_thread(function):
    """Begins a call; the function that is returned waits for its result, or the exception."""
    got = []

    def body():
        try:
            got.append(function())
        except Exception as e:
            got.append(e)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()

    def joined():
        thread.join(LIMIT)
        assert not thread.is_alive(), "the thread still waits"
        return got[0]
    return joined
