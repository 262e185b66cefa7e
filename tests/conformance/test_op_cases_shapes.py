"""Inferred shapes agree with TensorFlow's golden results (clause G5).

Shapes of each case are inferred three times: with known values, known shapes, and unknown shapes.
An inferred shape may have unknown sizes, but no wrong ones, and no case that TensorFlow computes is
refused, except by TensorFlow's own shape functions.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.ops.inference.shape_inference import ShapeContext, infer_shapes, shape_function
from graphmill.ops.inference.tensor_shape import TensorShape
from graphmill.testing.case import load_cases
from graphmill.testing.case_graph import node_attrs
from graphmill.testing.generators.dataflow_graphs import random_graph
from graphmill.testing.golden import stored_results

pytestmark = pytest.mark.divided

REGISTRY = OpRegistry()
BY_OP = {
    op: [case for case in cases if case.program is None and not case.differs]
    for op, cases in itertools.groupby(
        sorted(load_cases(), key=lambda case: case.op), key=lambda case: case.op
    )
    if shape_function(REGISTRY.get(op)) is not None
}
REFUSED = {
    *(f"{op}/conv.larger window" for op in ("AvgPool", "Conv2D", "MaxPool")),
    *(
        f"BandedTriangularSolve/solve.edges/{lower}/{adjoint}/1"
        for lower, adjoint in itertools.product((False, True), repeat=2)
    ),
    *(
        f"MaxPoolWithArgmax/pool.more/{in_batch}/{dtype}/2"
        for in_batch, dtype in itertools.product((False, True), ("int32", "int64"))
    ),
    *("BiasAdd/2/1", "Conv2D/sweep.1/1", "ReverseV2/sweep.0"),
}
"""Cases that TensorFlow's kernels compute, and its shape functions refuse."""
KNOWN = {
    "values": (lambda value: value, lambda value: value.shape),
    "shapes": (lambda _: None, lambda value: value.shape),
    "nothing": (lambda _: None, lambda _: None),
}


class Inputs:
    """Inputs of a case with static or unknown values."""

    def __init__(self, values):
        self.values = values

    def value(self, index):
        return self.values[index]

    def variable_shape(self, _index):
        return TensorShape()


def flat(trees):
    return [one for tree in trees for one in (tree if isinstance(tree, tuple | list) else [tree])]


def inferred(op_def, attrs, values, known):
    value_of, shape_of = KNOWN[known]
    context = ShapeContext(
        "node",
        op_def,
        attrs,
        [TensorShape(shape_of(value)) for value in values],
        len(op_def.output_types(attrs)),
        Inputs([value_of(value) for value in values]),
    )
    return infer_shapes(context, shape_function(op_def))


def problems(case):
    op_def = REGISTRY.get(case.op)
    types = [
        tuple(dtypes.as_dtype(one.dtype) for one in tree)
        if isinstance(tree, tuple)
        else dtypes.as_dtype(tree.dtype)
        for tree in case.inputs
    ]
    attrs = node_attrs(op_def, types, case.attrs)
    result = stored_results(case.stem)[case.id].result
    for known in KNOWN:
        try:
            shapes = inferred(op_def, attrs, flat(case.values()), known)
        except errors.InvalidArgumentError as error:
            if not result.error and case.id not in REFUSED:
                yield f"{case.id} ({known} known): {error}"
            continue
        if case.id in REFUSED and known == "values":
            yield f"{case.id} ({known} known): it is not refused"
        for shape, output in zip(shapes, result.outputs, strict=False):
            if not shape.is_compatible_with(output.shape):
                yield f"{case.id} ({known} known): {shape} is {output.shape}"


@pytest.mark.parametrize("op", BY_OP)
def test_inferred_shapes_are_correct(op):
    wrong = [problem for case in BY_OP[op] for problem in problems(case)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", range(12))
def test_values_of_random_graphs_have_the_inferred_shapes(seed, graphmill_host):
    made = random_graph(seed, graphmill_host.ops)
    graph = graphmill.Graph.from_graph_def(made.graph_def, graphmill_host.ops)
    with graphmill.Session(graph=made.graph_def, host=graphmill_host) as session:
        for name in made.fetches:
            value = np.asarray(session.run(name, made.feeds))
            assert graph.get_tensor_by_name(name).shape.is_compatible_with(value.shape), name
