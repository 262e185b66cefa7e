"""The built-in gradients of ops match finite differences of their cases.

For each op one case of float64: the derivative along a random direction of all inputs, of the
outputs weighted by random numbers.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

import graphmill
from graphmill.testing.case import load_cases
from graphmill.testing.case_graph import case_graph
from graphmill.testing.finite_differences import gradient_problems, why_not_checked

if TYPE_CHECKING:
    from graphmill.testing.case import Case

pytestmark = pytest.mark.divided

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
        if case.op in found or case.op in NO_DERIVATIVE:
            continue
        if case.stem.endswith(".sweep") or "special" in case.id or "edges" in case.id:
            continue  # their values are deliberately extreme
        if "float64" not in _types(case) or why_not_checked(case, host):
            continue
        if "float64" in case_graph(case, host.ops).dtypes:
            found[case.op] = case
    return found


def _types(case: Case) -> set[str]:
    """Return the types of all inputs, with lists flattened."""
    trees = [tree if isinstance(tree, tuple) else (tree,) for tree in case.inputs]
    return {one.dtype for tree in trees for one in tree}


@pytest.mark.parametrize("op", sorted(chosen_cases()))
def test_gradient_matches_finite_differences(op: str) -> None:
    assert not gradient_problems(chosen_cases()[op], graphmill.default_host())


def test_enough_ops_are_differentiated() -> None:
    assert len(chosen_cases()) >= 120
