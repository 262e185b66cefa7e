"""What the interpreter refuses by value: compiled code notes it, and the step is run again.

A kernel for the interpreter raises at an index out of range, or an integer division by zero. Code
that XLA compiled cannot. For each such op there is a check of its inputs here; the outcome of all
checks is one more output of a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.node import Node

    Check = Callable[[Any, Node, list[Any], Any], Any]


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


def _segment(jnp: Any, node: Node, inputs: list[Any], ok: Any) -> Any:
    """Check that sorted ids never fall, and none is negative."""
    del node
    ids = inputs[1]
    if not ids.size:
        return ok
    return ok & jnp.all(ids[1:] >= ids[:-1]) & (ids[0] >= 0)


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


CHECKS: Final[dict[str, Check]] = {
    "Gather": _gather,
    "GatherV2": _gather,
    "GatherNd": _gather_nd,
    "ScatterNd": _scatter_nd,
    **{f"TensorScatter{what}": _tensor_scatter for what in ("Update", "Add", "Sub", "Max", "Min")},
    **dict.fromkeys(("Div", "FloorDiv", "TruncateDiv", "Mod", "FloorMod", "TruncateMod"), _divide),
    "Pow": _power,
    **{f"Segment{what}": _segment for what in ("Sum", "Mean", "Max", "Min", "Prod")},
    **{f"UnsortedSegment{what}": _unsorted_segment for what in ("Sum", "Max", "Min", "Prod")},
    "SparseSoftmaxCrossEntropyWithLogits": _labels,
    "CheckNumerics": _numerics,
    "CheckNumericsV2": _numerics,
    "DynamicStitch": _stitch,
    "ParallelDynamicStitch": _stitch,
}
"""By op: from namespace, node, inputs and what held so far to what holds."""
