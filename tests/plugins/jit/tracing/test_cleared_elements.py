"""Elements of a tensor array that can be read once are refused at a second read while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.lowerings import element_marks, tensor_array
from graphmill_plugins.jit.tracing.elements import Elements
from graphmill_plugins.jit.tracing.static_values import GUARD

FLOAT = np.dtype(np.float32)


def array(clears: bool = True) -> tuple[Any, dict[Any, Any]]:
    handle = tensor_array.TensorArrayHandle(0, FLOAT, clears=clears)
    state = {handle: Elements(FLOAT, np.arange(4, dtype=np.float32), None, 4), GUARD: np.True_}
    element_marks.start_marks(state, handle, 4)
    element_marks.note_write(state, handle, np.arange(4))
    return handle, state


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


Step = Callable[[graphmill.Tensor, graphmill.Tensor, graphmill.Tensor], graphmill.Tensor]
"""From the handle, the index and the flow of a tensor array to a flow in an iteration."""

data = ops.tensor_array
_SIZE = 4


def write(handle: graphmill.Tensor, index: Any, flow: graphmill.Tensor) -> graphmill.Tensor:
    value = ops.array.fill([2], ops.math.cast(index, DstT="float32"))
    return data.tensor_array_write_v3(handle, index, value, flow)


def read_value(handle: graphmill.Tensor, index: Any, flow: graphmill.Tensor) -> graphmill.Tensor:
    value = data.tensor_array_read_v3(handle, index, flow, dtype="float32")
    return flow + 0.0 * ops.math.sum(value, [0])


def half(index: graphmill.Tensor) -> graphmill.Tensor:
    return ops.math.floor_div(index, 2)


def loop(graph: Any, handle: graphmill.Tensor, flow: graphmill.Tensor, step: Step) -> Any:
    """Add a loop over as many indices as are fed; return the flow after it."""
    count = graph.get_tensor_by_name("count:0")
    _, flow = graphmill.while_loop(
        lambda index, _: index < count,
        lambda index, flow: (index + 1, step(handle, index, flow)),
        [graph.constant(0), flow],
    )
    return flow


def run_loops(mode: str, steps: list[Step], count: int, **attrs: Any) -> list[float]:
    """Run loops over one array after the other, twice; return the flow after them."""
    with graphmill.Graph().as_default() as graph:
        graph.placeholder("int32", [], name="count")
        handle, flow = data.tensor_array_v3(_SIZE, dtype="float32", **attrs)
        for step in steps:
            flow = loop(graph, handle, flow, step)
        with graphmill.Session("", graph, jit_config(mode)) as session:
            return [float(session.run(flow, {"count:0": count})) for _ in range(2)]


MISUSES: Final = {
    "an element is read twice": ([write, read_value, read_value], "twice", {}),
    "an element is read twice in a loop": (
        [write, lambda handle, index, flow: read_value(handle, half(index), flow)],
        "twice",
        {},
    ),
    "an element is written twice": ([write, write], "already been written", {}),
    "an element is written after it was read": (
        [write, read_value, write],
        "already been",
        {"clear_after_read": False},
    ),
    "an element has no value": ([read_value], "not fully defined", {}),
    "an element has no value yet": (
        [lambda h, i, flow: write(h, i, read_value(h, i, flow))],
        "not fully defined",
        {},
    ),
}


@pytest.mark.parametrize("mode", ["off", "deterministic", "eager"])
@pytest.mark.parametrize("misuse", MISUSES)
def test_a_misuse_in_loops_fails_in_each_mode(mode: str, misuse: str) -> None:
    steps, message, attrs = MISUSES[misuse]
    assert run_loops(mode, steps[:1], 0) == [0, 0]
    with pytest.raises(errors.InvalidArgumentError, match=message):
        run_loops(mode, steps, _SIZE, **attrs)


@pytest.mark.parametrize("mode", ["off", "eager"])
@pytest.mark.parametrize(
    ("steps", "attrs"),
    [
        ([write, read_value], {}),
        ([write, read_value, read_value], {"clear_after_read": False}),
        ([read_value, read_value], {"clear_after_read": False, "element_shape": [2]}),
        ([write, read_value], {"dynamic_size": True}),
    ],
)
def test_a_permitted_use_in_loops_runs_compiled(
    mode: str, steps: list[Step], attrs: dict[str, Any]
) -> None:
    assert run_loops(mode, steps, _SIZE, **attrs) == [0, 0]
