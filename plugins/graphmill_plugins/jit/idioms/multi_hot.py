"""Replace sums of one-hot vectors by counts: `Sum(OneHot(indices))` becomes `_MultiHot`.

Models use the sum to encode lists of words or categories as vectors ("bags"). It materializes one
vector of the vocabulary's length per element; counting writes only the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi.graphs import is_constant
from graphmill.spi.passes import is_overridden
from graphmill_plugins.jit.idioms import ONE_HOT
from graphmill_plugins.jit.ir.unique_name import unique_name

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node
    from graphmill.spi.passes import PassOptions

# Sums of ones are exact in these types, so counts equal them.
_EXACT: Final = frozenset({"float32", "float64", "int32", "int64"})


def count_one_hots(graph: Graph, options: PassOptions) -> None:
    """Replace sums of one-hot vectors that have no other consumer."""
    for total in [node for node in graph.nodes if node.op == "Sum"]:
        attrs = _attrs_of(total)
        if attrs is None:
            continue
        one_hot = total.in_edges[0].src
        if is_overridden(total, options) or is_overridden(one_hot, options):
            continue
        indices = one_hot.in_edges[0]
        before = {edge.src: None for node in (one_hot, total) for edge in node.control_in_edges}
        before.pop(graph.source, None)
        new = graph.add_node(
            unique_name(graph, f"{total.name}/multi_hot", ()),
            options.host.ops.get("_MultiHot"),
            [(indices.src, indices.src_output)],
            list(before),
            attrs,
        )
        new.assigned_device = total.assigned_device
        graph.replace_node(total, new)
        graph.withdraw([one_hot])


def _attrs_of(total: Node) -> dict[str, Any] | None:
    """Return the attrs of the `_MultiHot` that replaces a `Sum`; None if none can."""
    one_hot = total.in_edges[0].src
    if one_hot.op != ONE_HOT or one_hot.attrs["axis"] != -1 or len(one_hot.out_edges) != 1:
        return None
    constants = [_constant(edge.src) for edge in (*one_hot.in_edges[1:], total.in_edges[1])]
    if total.attrs["T"].name not in _EXACT or any(value is None for value in constants):
        return None
    depth, on_value, off_value, axes = constants
    if not (depth.shape == on_value.shape == off_value.shape == () and axes.ndim < 2):
        return None
    if on_value != 1 or off_value != 0 or depth < 0:
        return None
    return {
        "depth": int(depth),
        "axes": tuple(np.atleast_1d(axes).tolist()),
        "keep_dims": total.attrs["keep_dims"],
        "dtype": total.attrs["T"],
        "TI": one_hot.attrs["TI"],
    }


def _constant(node: Node) -> Any:
    return np.asarray(node.attrs["value"].numpy()) if is_constant(node) else None
