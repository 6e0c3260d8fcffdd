# SPDX-License-Identifier: Apache-2.0
"""Parts of the work queue in Python: records, errors, structures."""

import ctypes
import dataclasses
import pickle

import pytest

from python_package import LIBRARY, PACKAGE, needs_library

pytestmark = needs_library


@pytest.fixture
def package(monkeypatch):
    monkeypatch.setenv("ELASTICD_LIBRARY", str(LIBRARY))
    monkeypatch.syspath_prepend(str(PACKAGE))
    import elasticd
    return elasticd


def test_records_are_as_long_as_the_structures_that_they_stand_for(package):
    import elasticd._library as library
    import elasticd._queue_types as types
    for record, structure in ((types.NEW_TASK, types.CNewTask), (types.OUTCOME, types.COutcome),
                              (types.ITEM, types.CItem), (library.OP, library.COp)):
        assert record.size == ctypes.sizeof(structure), structure


def test_errors_of_queues_and_calls_can_be_pickled(package):
    from elasticd._errors import of_kind
    error = of_kind(package.QueueFailed, 14, "no answer", ("ps:0",))
    error.task, error.worker, error.details, error.exit_code = 7, "worker:3", "line", 42
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and vars(copy) == vars(error) and str(copy) == "no answer"
    assert isinstance(copy, package.QueueFailed) and isinstance(copy, package.Unavailable)
    assert copy.code == package.Status.UNAVAILABLE and isinstance(copy, ConnectionError)
    failed = pickle.loads(pickle.dumps(of_kind(package.CallFailed, 4, "late")))
    assert isinstance(failed, package.CallFailed) and isinstance(failed, package.DeadlineExceeded)
    assert not isinstance(failed, package.QueueFailed) and failed.task is None


def test_structures_without_handles_are_left_alone(package):
    from elasticd._values import filled, held_in

    @dataclasses.dataclass
    class Part:
        items: list

    found = []
    value = {"a": [Part([1, 2])], "b": (1, {"c": Part})}
    held_in(value, found)
    assert found == [] and filled(value, None) is value
