"""What the interpreter refuses by value: compiled code notes it, and the step is run again.

A kernel for the interpreter raises at an index out of range, or an integer division by zero. Code
that XLA compiled cannot. For each such op there is a check of its inputs here; the outcome of all
checks is one more output of a cluster. A check may be stricter than the kernel, which decides then:
where a matrix is singular shows in results that are not finite, for instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.node import Node

    Check = Callable[[Any, Node, list[Any], Any], Any]
    ResultCheck = Callable[[Any, Node, tuple[Any, ...], Any], Any]


_FAR: Final = 1e6  # beyond it positions of boxes are rounded to anything


def _gather(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    params, indices = inputs[0], inputs[1]
    axis = 0
    if node.op == "GatherV2":
        if not isinstance(inputs[2], (np.ndarray, np.generic)):
            return ok
        axis = int(inputs[2])
    size = params.shape[axis]
    return ok & jnp.all((indices >= 0) & (indices < size))


def _gather_nd(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    params, indices = inputs
    sizes = np.asarray(params.shape[: indices.shape[-1]], np.int64)
    return ok & jnp.all((indices >= 0) & (indices < sizes))


def _scatter_nd(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    indices, shape = inputs[0], inputs[2]
    if not isinstance(shape, (np.ndarray, np.generic)):
        return ok
    sizes = np.asarray(shape)[: indices.shape[-1]]
    return ok & jnp.all((indices >= 0) & (indices < sizes))


def _tensor_scatter(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    return _gather_nd(jnp, node, inputs[:2], ok)


def _divide(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    if inputs[1].dtype.kind not in "iu":
        return ok
    return ok & jnp.all(inputs[1] != 0)


def _power(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    return ok & jnp.all(inputs[1] >= 0) if inputs[1].dtype.kind == "i" else ok


def _inside(jnp: Any, values: Any, low: Any, high: Any, ok: Any) -> Any:
    """Check that all values lie in [low, high)."""
    return ok & jnp.all((values >= low) & (values < high))


def _segment(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    """Check that sorted ids never fall, and none is negative."""
    del node
    ids = inputs[1]
    if not ids.size:
        return ok
    return ok & jnp.all(ids[1:] >= ids[:-1]) & (ids[0] >= 0)


def _sparse_segment(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    """Check that the rows are there, and that sorted ids are below the number of segments."""
    data, indices, ids, count = inputs
    ok = _inside(jnp, indices, 0, data.shape[0], ok)
    return _segment(jnp, node, [data, ids], ok) & jnp.all(ids < count)


def _sparse_segment_gradient(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    grad, indices, ids, size = inputs
    return _inside(jnp, ids, 0, grad.shape[0], _inside(jnp, indices, 0, size, ok))


def _segment_rows(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    grad, ids = inputs
    return _inside(jnp, ids, 0, grad.shape[0], ok)


def _unsorted_segment(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    return ok & jnp.all(inputs[1] < inputs[2])


def _labels(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    logits, labels = inputs
    return ok & jnp.all((labels >= 0) & (labels < logits.shape[-1]))


def _numerics(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    return ok & jnp.all(jnp.isfinite(inputs[0]))


def _stitch(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    """Check that no index is negative."""
    count = int(node.attrs["N"])
    for indices in inputs[:count]:
        ok = ok & jnp.all(indices >= 0)
    return ok


def _band(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    matrices, below, above = inputs
    rows, columns = matrices.shape[-2:]
    return ok & jnp.all(below <= rows) & jnp.all(above <= columns)


def _bins(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    return ok & jnp.all(inputs[0] >= 0)


def _histogram(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    values, limits = inputs[:2]
    ok = ok & ~jnp.any(jnp.isnan(values))
    return ok & jnp.all(limits[0] < limits[1]) & jnp.all(jnp.isfinite(limits))


def _crops(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    """Check that pictures are there and boxes are numbers; images come at various places."""
    boxes = 1 if node.op != "CropAndResizeGradBoxes" else 2
    if node.op == "CropAndResizeGradImage":
        count = inputs[3][0]
    else:
        count = inputs[boxes - 1].shape[0]
    ok = ok & jnp.all(jnp.abs(inputs[boxes]) <= _FAR)
    return _inside(jnp, inputs[boxes + 1], 0, count, ok)


def _permutation(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    values = inputs[0]
    return ok & jnp.all(jnp.sort(values) == jnp.arange(values.shape[0]))


def _sequence_lengths(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    values, lengths = inputs
    size = values.shape[node.attrs["seq_dim"]]
    return ok & jnp.all((lengths >= 0) & (lengths <= size))


def _unravel(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    indices, sizes = inputs
    return _inside(jnp, indices, 0, jnp.prod(sizes), ok) & jnp.all(sizes > 0)


def _sparse_matmul(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    return _inside(jnp, inputs[0], 0, inputs[2], ok)


def _random_range(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    low, high = inputs[-2:]
    return ok & jnp.all(low < high)


def _regularizer(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    return ok & jnp.all(inputs[2] >= 0)


def _steps(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    del node
    count, x = inputs[:2]
    return ok & jnp.all((count >= 0) & (count <= x.shape[0]))


def _axes(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    rank = len(node.attrs["src_format"])
    return _inside(jnp, inputs[0], -rank, rank, ok)


def _places(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    """Check that each maximum is in its image."""
    x, _, numbers = inputs
    image = x.size // max(len(x), 1)
    first = 0
    if node.attrs["include_batch_in_index"]:
        first = (jnp.arange(len(x)) * image)[:, None, None, None]
    return _inside(jnp, numbers, first, first + image, ok)


def _range_given(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    if not node.attrs["range_given"]:
        return ok
    return ok & jnp.all(inputs[1] <= inputs[2])


def _finite(jnp: Any, node: Node, outputs: tuple[Any, ...], ok: Any) -> Any:
    del node
    for value in outputs:
        ok = ok & jnp.all(jnp.isfinite(value))
    return ok


def _regular_factors(jnp: Any, node: Node, outputs: tuple[Any, ...], ok: Any) -> Any:
    """Check that no pivot is zero."""
    factors = outputs[0]
    diagonal = jnp.diagonal(factors, axis1=-2, axis2=-1)
    return _finite(jnp, node, (factors,), ok & jnp.all(diagonal != 0))


_SPARSE: Final = ("Sum", "Mean", "SqrtN")


def _signs(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    """Check the scalars of an optimizer whose signs count, more strictly than the kernel does."""
    for arg, value in zip(node.op_def.input_args, inputs, strict=True):
        if arg.name == "lr":
            ok = ok & jnp.all(value > 0)
        elif arg.name in ("l1", "l2", "l2_shrinkage"):
            ok = ok & jnp.all(value >= 0)
        elif arg.name == "lr_power":
            ok = ok & jnp.all(value <= 0)
    return ok


_SIGNED: Final = (
    "ApplyProximalAdagrad",
    "SparseApplyProximalAdagrad",
    "SparseApplyFtrl",
    "SparseApplyFtrlV2",
)

CHECKS: Final[dict[str, Check]] = {
    "Gather": _gather,
    "GatherV2": _gather,
    "GatherNd": _gather_nd,
    "ScatterNd": _scatter_nd,
    **{f"TensorScatter{what}": _tensor_scatter for what in ("Update", "Add", "Sub", "Max", "Min")},
    **dict.fromkeys(("Div", "FloorDiv", "TruncateDiv", "Mod", "FloorMod", "TruncateMod"), _divide),
    "Pow": _power,
    "ScatterNdNonAliasingAdd": _tensor_scatter,
    **{f"Segment{what}": _segment for what in ("Sum", "Mean", "Max", "Min", "Prod")},
    **{f"Segment{what}V2": _segment for what in ("Sum", "Max", "Min", "Prod")},
    **{f"SparseSegment{what}WithNumSegments": _sparse_segment for what in _SPARSE},
    **{f"SparseSegment{what}Grad": _sparse_segment_gradient for what in _SPARSE},
    "_SegmentRows": _segment_rows,
    **{f"UnsortedSegment{what}": _unsorted_segment for what in ("Sum", "Max", "Min", "Prod")},
    "SparseSoftmaxCrossEntropyWithLogits": _labels,
    "CheckNumerics": _numerics,
    "CheckNumericsV2": _numerics,
    "DynamicStitch": _stitch,
    "ParallelDynamicStitch": _stitch,
    **dict.fromkeys(("MatrixBandPart", "BatchMatrixBandPart"), _band),
    **dict.fromkeys(("Bincount", "DenseBincount"), _bins),
    "HistogramFixedWidth": _histogram,
    **{f"CropAndResize{what}": _crops for what in ("", "GradImage", "GradBoxes")},
    "InvertPermutation": _permutation,
    "ReverseSequence": _sequence_lengths,
    "UnravelIndex": _unravel,
    "SparseTensorDenseMatMul": _sparse_matmul,
    **dict.fromkeys(("MatrixSolveLs", "BatchMatrixSolveLs"), _regularizer),
    **{f"BlockLSTM{what}": _steps for what in ("", "V2", "Grad", "GradV2")},
    "DataFormatDimMap": _axes,
    "MaxPoolGradWithArgmax": _places,
    **{f"QuantizeAndDequantizeV{version}": _range_given for version in (2, 3, 4)},
    **dict.fromkeys(("StatelessRandomUniformInt", "StatelessRandomUniformIntV2"), _random_range),
    **{f"{prefix}{op}": _signs for prefix in ("", "Resource") for op in _SIGNED},
}
"""By op: from namespace, node, inputs and what held so far to what holds."""

_MAY_BE_SINGULAR: Final = (
    *("MatrixInverse", "MatrixSolve", "MatrixSolveLs", "CholeskyGrad", "Svd"),
    *("SelfAdjointEig", "SelfAdjointEigV2"),
)

RESULT_CHECKS: Final[dict[str, ResultCheck]] = {
    **dict.fromkeys(_MAY_BE_SINGULAR, _finite),
    **{f"Batch{op}": _finite for op in _MAY_BE_SINGULAR},
    **dict.fromkeys(("BandedTriangularSolve", "TridiagonalSolve"), _finite),
    "Lu": _regular_factors,
}
"""By op: from namespace, node, outputs and what held so far to what holds."""
