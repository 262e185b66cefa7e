"""Outputs whose size follows from the shapes of inputs are checked against the memory budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.lowering import output_budget
from graphmill.runtime.kernels.kernel import KernelDef

if TYPE_CHECKING:
    from graphmill.graph.node import Node

LIMIT = 2 << 20


def returned(*args: Any) -> int:
    return len(args)


def node_of(tensor: Any) -> Node:
    return tensor.op


def asking(node: Node, **declared: Any) -> Any:
    return output_budget.with_budget(
        node, KernelDef((node.op,), returned, **declared), returned, LIMIT
    )


@pytest.fixture
def x() -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        yield graph.placeholder("float32", name="x")


def test_op_that_keeps_the_shape_is_never_asked(x: Any) -> None:
    assert asking(node_of(ops.math.exp(x))) is returned
    assert asking(node_of(ops.math.add_n([x, x]))) is returned


def test_op_that_takes_parts_of_its_input_is_never_asked(x: Any) -> None:
    for y in (x[1:], ops.array.reshape(x, [-1]), ops.math.sum(x, [0]), ops.math.cumsum(x, 0)):
        assert asking(node_of(y)) is returned


def test_op_without_inputs_or_shape_function_is_limited_and_not_asked(x: Any) -> None:
    for y in (x, ops.audio.audio_spectrogram(x, window_size=4, stride=2)):
        assert asking(node_of(y)).__wrapped__ is returned


def test_kernel_whose_outputs_have_elements_of_any_size_is_limited() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.placeholder("string", [], name="text")
        lower = ops.string.string_lower(text)
    assert asking(node_of(lower)).__wrapped__ is returned


def test_kernel_that_passes_values_on_is_not_limited(x: Any) -> None:
    assert asking(node_of(ops.array.identity(x)), forwards=True) is returned


def test_wider_elements_are_asked(x: Any) -> None:
    cast = asking(node_of(ops.math.cast(x, DstT="complex128")))
    assert cast(np.ones(1000, np.float32)) == 1
    with pytest.raises(errors.ResourceExhaustedError, match="3200000 bytes are requested"):
        cast(np.ones(200_000, np.float32))


def test_shapes_are_inferred_once(x: Any, monkeypatch: Any) -> None:
    add, inferred = asking(node_of(x + x)), []
    infer = output_budget.infer_shapes
    monkeypatch.setattr(
        output_budget, "infer_shapes", lambda *args: inferred.append(args) or infer(*args)
    )
    for size in (3, 3, 4):  # the product of their sizes is within the budget
        assert add(np.ones((size, 1), np.float32), np.ones((1, size), np.float32)) == 2
    assert not inferred
    for size in (1000, 1000, 2000, 1000):
        assert add(np.ones((size, 5), np.float32), np.ones((size, 5), np.float32)) == 2
    assert len(inferred) == 2
    with pytest.raises(errors.ResourceExhaustedError, match=f"the limit is {LIMIT}"):
        add(np.ones((1000, 1), np.float32), np.ones((1, 1000), np.float32))


def test_remembered_shapes_are_bounded(x: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(output_budget, "_MAX_ACCEPTED", 2)
    add = asking(node_of(x + x))
    assert [add(np.ones(n, np.float32), np.float32(1)) for n in range(5)] == [2] * 5


def test_shapes_that_do_not_fit_are_left_to_the_kernel(x: Any) -> None:
    assert asking(node_of(x + x))(np.ones(3, np.float32), np.ones(4, np.float32)) == 2


def test_leading_arguments_are_no_inputs(x: Any) -> None:
    add = asking(node_of(x + x), stateful=True)
    assert add(object(), np.ones(3, np.float32), np.ones(1, np.float32)) == 3


def test_value_with_another_kind_of_shape_is_left_to_the_kernel(x: Any) -> None:
    class Odd:
        size = 0

        def __init__(self) -> None:
            self.shape: dict[str, int] = {}

    assert asking(node_of(x + x))(Odd(), np.ones(1, np.float32)) == 2


def test_product_without_inner_elements_is_asked(x: Any) -> None:
    product = asking(node_of(ops.math.mat_mul(x, x)))
    with pytest.raises(errors.ResourceExhaustedError, match=r"\[1000, 1000\]"):
        product(np.ones((1000, 0), np.float32), np.ones((0, 1000), np.float32))


def test_op_on_a_number_is_never_asked(x: Any) -> None:
    for y in (x + 1.0, 2.0 * x, x - np.ones((1, 1), np.float32)):
        assert asking(node_of(y)) is returned
    for y in (x + np.ones(2, np.float32), x + x):
        assert asking(node_of(y)) is not returned


def test_wider_result_of_a_number_is_asked(x: Any) -> None:
    wide = asking(node_of(ops.math.complex(x, 1.0)))
    with pytest.raises(errors.ResourceExhaustedError, match="3200000 bytes are requested"):
        wide(np.ones(400_000, np.float32), np.float32(1))
