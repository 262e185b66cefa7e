"""Variables without other references are updated in place (decision 0008)."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.runtime.resources.exclusive_update import writable
from graphmill.runtime.resources.variables import Ref, Variable

needs_counts = pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="counts prove nothing there"
)


@pytest.fixture(params=[Variable, Ref])
def variable(request):
    made = request.param(dtypes.float32, (4,), "v")
    made.value = np.zeros(4, np.float32)
    return made


def add_one(variable):
    with variable.lock, writable(variable) as array:
        array += 1


def address(variable):
    return variable.value.__array_interface__["data"][0]


@needs_counts
def test_sole_value_is_updated_in_place(variable):
    before = address(variable)
    add_one(variable)
    assert address(variable) == before
    assert variable.value.tolist() == [1] * 4


@pytest.mark.parametrize("hold", [lambda v: v, lambda v: v[1:], lambda v: memoryview(v), list])
def test_value_that_was_read_is_not_changed(variable, hold):
    held = hold(variable.value)
    kept = np.array(held)
    add_one(variable)
    assert np.array(held).tolist() == kept.tolist()
    assert variable.value.tolist() == [1] * 4


@pytest.mark.parametrize("kind", ["view", "read-only"])
def test_shared_memory_is_not_written(variable, kind):
    memory = np.zeros(8, np.float32)
    variable.value = memory[:4]
    if kind == "read-only":
        variable.value = np.zeros(4, np.float32)
        variable.value.flags.writeable = False
    add_one(variable)
    assert memory.tolist() == [0] * 8
    assert variable.value.tolist() == [1] * 4


def test_error_leaves_shared_value_and_lock(variable):
    held = variable.value
    with pytest.raises(ZeroDivisionError), variable.lock, writable(variable) as array:
        array[0] = 1 / int(array[0])
    assert variable.value is held
    assert not variable.lock.locked()
    assert type(variable) in (Variable, Ref)


def test_reader_waits_for_the_update(variable):
    seen = []
    reader = threading.Thread(target=lambda: seen.append(variable.value.tolist()))
    with variable.lock, writable(variable) as array:
        array[:2] += 1
        reader.start()
        reader.join(0.05)
        array[2:] += 1
    reader.join()
    assert seen in ([[1] * 4], [[0] * 4])  # the old one, if it was copied for somebody


def test_readers_never_see_half_an_update(variable):
    variable.value = np.zeros(5000, np.float32)
    torn, done = [], threading.Event()

    def read():
        while not done.is_set():
            value = variable.value
            torn.extend([1] if value.min() != value.max() else [])

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(500):
        add_one(variable)
    done.set()
    for reader in readers:
        reader.join()
    assert not torn
    assert variable.value.tolist() == [500] * 5000
