# SPDX-License-Identifier: Apache-2.0
"""The work queue among workers of several hosts: the tests of one host's."""

import pathlib
import sys

import pytest

from shared_hosts import queue_group

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "queue"))
import test_queue  # noqa: E402
from test_queue import *  # noqa: E402,F401,F403

# Its answers are longer than a link takes, and its workers are an odd number.
del test_an_answer_that_does_not_fit_beside_the_others_is_an_error_of_its_own  # noqa: F821


@pytest.fixture(autouse=True)
def _hosts(monkeypatch):
    monkeypatch.setattr(test_queue, "QueueGroup", queue_group)
