"""The built-in gradients of ops match finite differences of their cases.

For each op one case of float64: the derivative along a random direction of all inputs, of the
outputs weighed by random numbers.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import proto
from graphmill.dtypes import as_dtype
from graphmill.ops.attrs.attr_types import TensorAttr
from graphmill.ops.attrs.attr_value import attr_to_proto
from graphmill.testing.case import load_cases
from graphmill.testing.case_graph import NODE, case_graph

if TYPE_CHECKING:
    from graphmill.testing.case import Case

pytestmark = pytest.mark.divided

STEP = 1e-6
MAX_ELEMENTS = 2000  # elements of an input
NO_DERIVATIVE = {
    "BatchCholesky": "reads one triangle",
    "BesselK0": "cases leave the domain",
    "BesselK1": "cases leave the domain",
    "BesselY0": "cases leave the domain",
    "Bitcast": "bits have no derivative",
    "Cast": "cases round",
    "CheckNumericsV2": "cases write to files",
    "CTCLoss": "its second output is a gradient already and has none, in TensorFlow neither",
    "Cholesky": "reads one triangle",
    "Cumprod": "the gradient is not that of a product with zeros, in TensorFlow neither",
    "DivNoNan": "cases divide by zero",
    "EluGrad": "cases are at the kink",
    "Expint": "cases leave the domain",
    "FloorMod": "has steps",
    "ImageProjectiveTransformV2": "is transformed back, which is not the adjoint",
    "ImageProjectiveTransformV3": "is transformed back, which is not the adjoint",
    "LeakyReluGrad": "is linear in pieces of the second input",
    "MaxPoolGrad": "is linear in pieces of the first input, and windows of the cases tie",
    "MaxPoolGradV2": "is linear in pieces of the first input, and windows of the cases tie",
    "MatrixDiagPartV2": "cases pad",
    "MatrixDiagPartV3": "cases pad",
    "MatrixDiagV2": "the padding gets no gradient, in TensorFlow neither",
    "MatrixDiagV3": "the padding gets no gradient, in TensorFlow neither",
    "NextAfter": "has steps",
    "PadV2": "the padding gets no gradient, in TensorFlow neither",
    "Polygamma": "by the order it has no derivative",
    "PreventGradient": "is there to have none",
    "Relu6Grad": "is linear in pieces of the second input",
    "QuantizeAndDequantize": "has steps, through which the gradient goes straight",
    "QuantizeAndDequantizeV2": "has steps, through which the gradient goes straight",
    "QuantizeAndDequantizeV3": "has steps, through which the gradient goes straight",
    "QuantizeAndDequantizeV4": "has steps, through which the gradient goes straight",
    "ReluGrad": "is linear in pieces of the second input",
    "SeluGrad": "cases are at the kink",
    "SoftmaxCrossEntropyWithLogits": "labels of the cases do not add up to one",
    "StatelessParameterizedTruncatedNormal": "moves as the distribution does",
    "StatelessRandomGammaV2": "moves as the distribution does, not as the method of drawing",
    "StatelessRandomGammaV3": "moves as the distribution does, not as the method of drawing",
    "UnsortedSegmentMax": "cases have empty segments, of the lowest number",
    "UnsortedSegmentMin": "cases have empty segments, of the highest number",
    "Xdivy": "cases divide by zero",
    "Xlog1py": "cases are at zero",
    "Xlogy": "cases are at zero",
    "Zeta": "by the first input it has no derivative",
}


@cache
def chosen_cases() -> dict[str, Case]:
    """Return a case of float64 for each op with a gradient."""
    host = graphmill.default_host()
    found: dict[str, Case] = {}
    for case in load_cases():
        if case.op in found or case.op in NO_DERIVATIVE or case.program or case.error:
            continue
        op_def = host.ops.get(case.op)
        if op_def.is_stateful or case.stem.endswith(".sweep"):  # these are odd on purpose
            continue
        if "special" in case.id or "edges" in case.id:
            continue
        definition = host.gradients.find(op_def)
        if definition is None or definition.function is None:
            continue
        values = _values(case)
        smooth = [value for value in values if value.dtype == np.float64]
        is_small = all(value.size <= MAX_ELEMENTS for value in values)
        if smooth and is_small and all(v.size and np.isfinite(v).all() for v in smooth):
            found[case.op] = case
    return found


def _values(case: Case) -> list[Any]:
    """Return all input tensors, with lists flattened."""
    trees = [tree if isinstance(tree, tuple) else (tree,) for tree in case.inputs]
    return [np.asarray(one.values()) for tree in trees for one in tree]


def prepared(case: Case) -> tuple[Any, dict[str, Any]]:
    """Return a case's graph and its float64 inputs; other inputs become constants."""
    made = case_graph(case, graphmill.default_host().ops)
    graph_def = proto.GraphDef()
    graph_def.CopyFrom(made.graph_def)
    feeds = {}
    for node in graph_def.node:
        if node.op != "Placeholder":
            continue
        value = made.feeds[f"{node.name}:0"]
        if as_dtype(node.attr["dtype"].type).name == "float64":
            feeds[f"{node.name}:0"] = np.asarray(value)
        else:
            dtype = as_dtype(node.attr["dtype"].type)
            node.op = "Const"
            del node.attr["shape"]
            attr_to_proto(TensorAttr(np.asarray(value), dtype), node.attr["value"])
    return graph_def, feeds


@pytest.mark.parametrize("op", sorted(chosen_cases()))
def test_gradient_matches_finite_differences(op: str) -> None:
    graph_def, feeds = prepared(chosen_cases()[op])
    rng = np.random.default_rng(3)
    graph = graphmill.Graph.from_graph_def(graph_def)
    xs = [graph.get_tensor_by_name(name) for name in feeds]
    ys = [y for y in graph.outputs_of(graph.node(NODE)) if y.dtype.name == "float64"]
    with graphmill.Session(graph=graph) as session:
        weights = [rng.standard_normal(np.shape(value)) for value in session.run(ys, feeds)]
    with graph.as_default():
        found = graphmill.gradients(ys, xs, weights)
        found = [g.to_tensor() if isinstance(g, graphmill.IndexedSlices) else g for g in found]
    with graphmill.Session(graph=graph) as session:
        for x, gradient in zip(xs, found, strict=True):
            if gradient is None:
                continue
            direction = rng.standard_normal(feeds[x.name].shape)
            ends = []
            for sign in (1, -1):
                moved = {**feeds, x.name: feeds[x.name] + sign * STEP * direction}
                values = session.run(ys, moved)
                ends.append(sum((w * v).sum() for w, v in zip(weights, values, strict=True)))
            slope = (ends[0] - ends[1]) / (2 * STEP)
            expected = (session.run(gradient, feeds) * direction).sum()
            np.testing.assert_allclose(slope, expected, 1e-4, 1e-6, err_msg=f"{op} by {x.name}")


def test_enough_ops_are_differentiated() -> None:
    assert len(chosen_cases()) >= 120
