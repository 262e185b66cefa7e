"""Elements of a tensor array that can be read once are refused at a second read while tracing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.lowerings import tensor_array
from graphmill_plugins.jit.tracing.elements import Elements

FLOAT = np.dtype(np.float32)


def array(clears: bool = True) -> tuple[Any, dict[Any, Any]]:
    handle = tensor_array.TensorArrayHandle(0, FLOAT, clears=clears)
    return handle, {handle: Elements(FLOAT, np.arange(4, dtype=np.float32), None, 4)}


def read(state: dict[Any, Any], handle: Any, *indices: int) -> Any:
    index = np.array(indices, np.int32)
    if len(indices) == 1:
        return tensor_array.TRACED["TensorArrayReadV3"](state, [handle, index[0], 0.0], {})
    attrs = {"element_shape": None}
    return tensor_array.TRACED["TensorArrayGatherV3"](state, [handle, index, 0.0], attrs)


def test_each_element_is_read_once() -> None:
    handle, state = array()
    assert read(state, handle, 2)[0] == 2
    assert read(state, handle, 0, 1)[0].tolist() == [0, 1]
    with pytest.raises(NotTraceable, match="after it was cleared"):
        read(state, handle, 1)
    with pytest.raises(NotTraceable, match="after it was cleared"):
        read(state, handle, 3, 3)


def test_other_arrays_can_be_read_again() -> None:
    handle, state = array(clears=False)
    assert read(state, handle, 1) == read(state, handle, 1)


@pytest.mark.parametrize("mode", ["off", "eager"])
def test_a_second_read_fails_in_each_mode(mode: str) -> None:
    data = ops.tensor_array
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [2])
        handle, flow = data.tensor_array_v3(2, dtype="float32", element_shape=[2])
        flow = data.tensor_array_write_v3(handle, 1, x, flow)
        first = data.tensor_array_read_v3(handle, 1, flow, dtype="float32")
        with graph.control_dependencies([first]):
            second = data.tensor_array_read_v3(handle, 1, flow, dtype="float32")
        with graphmill.Session("", graph, jit_config(mode)) as session:
            feed = {x: np.array([1, 2], np.float32)}
            assert session.run(first, feed).tolist() == [1, 2]
            with pytest.raises(errors.InvalidArgumentError, match="index 1 twice"):
                session.run(second, feed)
