"""The signature of a cluster: shapes, static values, variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tests.plugins.jit.small_graphs import body, inputs_of

from graphmill import dtypes
from graphmill.runtime.resources.variables import ResourceHandle, Variable
from graphmill_plugins.jit.ir.scheduled_body import schedule_body

if TYPE_CHECKING:
    from collections.abc import Hashable

    from graphmill_plugins.jit.ir.signature import Inputs

TWO_ARRAYS = {"x": "float32[2]", "i": "int32[2]"}


def arrays() -> Inputs:
    made = body("a = Reshape(x, i)", **TWO_ARRAYS)
    return inputs_of(schedule_body(made))


def handles() -> Inputs:
    """Return the inputs of a cluster with handles of two variables."""
    named = [f"{n} = VarHandleOp(dtype=float32, shape=[], shared_name='{n}')" for n in "pq"]
    reads = [f"read_{n} = ReadVariableOp({n}, dtype=float32)" for n in "pq"]
    return inputs_of(schedule_body(body(*named, *reads, "c = AddV2(read_p, read_q)")))


def variable(*shape: int) -> ResourceHandle:
    made = Variable(dtypes.float32, shape, "v")
    made.value = np.zeros(shape, np.float32)
    return ResourceHandle("", "", "v", "Variable", made)


def key(inputs: Inputs, *values: Any) -> Hashable:
    return inputs.key(values)


def test_shapes_are_part_of_the_key_but_values_are_not() -> None:
    inputs, x = arrays(), np.zeros(2, np.float32)
    assert key(inputs, x, np.array([2, 1])) == key(inputs, x + 1, np.array([1, 2]))
    assert key(inputs, x, np.array([2, 1])) != key(inputs, x, np.array([2]))


def test_static_values_and_their_shapes_are_part_of_the_key() -> None:
    inputs, x = arrays(), np.zeros(2, np.float32)
    inputs.static = frozenset({1})
    assert key(inputs, x, np.array([2, 1])) != key(inputs, x, np.array([1, 2]))
    assert key(inputs, x, np.array([2])) != key(inputs, x, np.array([[2]]))
    assert key(inputs, x, np.array([2])) == key(inputs, x, np.array([2]))


def test_static_values_are_part_of_the_key() -> None:
    inputs, values = arrays(), (np.zeros(2, np.float32), np.array([2, 1]))
    before = inputs.key(values)
    inputs.static = frozenset({1})
    assert inputs.static_of(before) == frozenset()
    assert inputs.static_of(inputs.key(values)) == {1}
    assert inputs.static_of(None) == frozenset()


def test_a_variable_without_value_has_no_signature() -> None:
    empty = ResourceHandle("", "", "v", "Variable", Variable(dtypes.float32, (), "v"))
    assert key(handles(), variable(), empty) is None
    assert key(handles(), variable(), ResourceHandle("", "", "q", "Queue", object())) is None


def test_two_handles_of_one_variable_are_another_signature() -> None:
    inputs, one, other = handles(), variable(2), variable(2)
    assert key(inputs, one, other) == key(inputs, other, one)
    assert key(inputs, one, one) != key(inputs, one, other)
    found = inputs.variables([one, one])
    assert found is not None
    assert found[0] == [0, 0]
    assert len(found[1]) == 1


def test_variable_shapes_are_part_of_the_key() -> None:
    assert key(handles(), variable(2), variable(2)) != key(handles(), variable(2), variable(3))
