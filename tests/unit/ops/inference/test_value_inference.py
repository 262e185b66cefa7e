"""Value functions: static output values of ops."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.graph.builder import Graph
from graphmill.ops import array, math
from graphmill.ops.definition.define import op
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.ops.definition.op_traits import DEFAULT_TRAITS, OpTraits
from graphmill.ops.inference.tensor_shape import TensorShape
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl

if TYPE_CHECKING:
    from graphmill.ops.inference.value_inference import Partial, ValueContext

HALVE = OpDef("Mine>Halve", (ArgDef("x", dtypes.int32),), (ArgDef("y", dtypes.int32),))


def halved(context: ValueContext) -> Partial:
    sizes = context.integers(0)
    if sizes is None:
        return None
    return np.array([None if size is None else size // 2 for size in sizes], object)


def shape_after(ops: OpRegistry) -> Any:
    """Return the shape of a tensor reshaped to half of the sizes of (8, ?)."""
    graph = Graph(ops)
    with graph.as_default():
        x = graph.placeholder("float32", (8, None), "x")
        sizes = graph.outputs_of(graph.create_op("Mine>Halve", [array.shape(x)]))[0]
        return array.reshape(x, sizes).shape


def test_value_function_returns_partial_values() -> None:
    ops = OpRegistry()
    ops.add(HALVE, value=halved)
    assert shape_after(ops) == (4, None)


def test_decorated_function_takes_a_value_function() -> None:
    @op("Mine>Halve", value=halved)
    def halve(xp, x: dtypes.int32) -> dtypes.int32:  # type: ignore[valid-type]
        return x // 2

    ops = OpRegistry()
    ops.add(halve)
    assert shape_after(ops) == (4, None)


def test_plugin_registers_a_value_function() -> None:
    class Plugin:
        @hookimpl
        def graphmill_register_ops(self, ops: Any) -> None:
            ops.add(HALVE, value=halved)

    assert shape_after(Host(plugins=[Plugin()]).ops) == (4, None)


@pytest.mark.parametrize(("forwards", "shape"), [(True, (8, None)), (False, None)])
def test_op_that_forwards_has_the_value_of_its_input(forwards: bool, shape: Any) -> None:
    ops = OpRegistry()
    ops.add(HALVE, traits=OpTraits(forwards=forwards))
    assert shape_after(ops) == TensorShape(shape)


def test_op_without_value_function_has_no_static_value() -> None:
    ops = OpRegistry()
    ops.add(HALVE)
    assert shape_after(ops).rank is None


def test_tensorflow_op_with_a_value_function_keeps_traits_and_shapes() -> None:
    ops = OpRegistry()
    original = ops.get("Identity")
    ops.add(dataclasses.replace(original, traits=DEFAULT_TRAITS), value=halved)
    added = ops.get("Identity")
    assert added is not original
    assert added.traits == original.traits
    graph = Graph(ops)
    with graph.as_default():
        x = graph.placeholder("int32", (3,), "x")
        assert graph.outputs_of(graph.create_op("Identity", [x]))[0].shape == (3,)


def test_product_over_no_axes_is_not_a_scalar() -> None:
    with Graph().as_default() as graph:
        x = graph.placeholder("float32", (2, 3), "x")
        sizes = math.prod(array.shape(x), np.zeros(0, np.int32))
        assert array.reshape(x, sizes).shape.rank in (None, 2)
