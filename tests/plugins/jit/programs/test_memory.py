"""Results of programs are arguments of others without a conversion."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
from graphmill_plugins.jit.programs.memory import HostMemory  # noqa: E402


@pytest.fixture
def memory():
    return HostMemory(jax.devices("cpu")[0])


@pytest.fixture
def array():
    return jax.jit(lambda x: x + 1)(np.arange(12, dtype=np.float32).reshape(3, 4))


def test_the_array_behind_a_result_is_the_argument(memory, array):
    assert memory.as_argument(memory.as_value(array)) is array


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:2],
        lambda x: x.reshape(4, 3),
        lambda x: x.view(np.int32),
        lambda x: np.asarray(memoryview(x.base)[::-1]),
        lambda x: np.frombuffer(x.base, np.float32),
    ],
    ids=["part", "reshaped", "other dtype", "reversed", "flat"],
)
def test_another_view_of_a_result_is_the_argument_itself(memory, array, view):
    value = view(memory.as_value(array))
    assert memory.as_argument(value) is value


def test_memory_of_others_is_the_argument_itself(memory):
    value = np.asarray(memoryview(bytearray(b"abcd")))
    assert memory.as_argument(value) is value


def test_beside_donated_arrays_a_result_stays_a_view(memory, array):
    value = memory.as_value(array)
    assert memory.as_separate_argument(value) is value
