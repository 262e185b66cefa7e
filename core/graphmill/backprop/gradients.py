"""`gradients`: add the gradients of tensors with respect to others to their graph.

    dy_dx, dy_dw = graphmill.gradients(loss, [x, w])

Semantics: tf.compat.v1.gradients, tensorflow/python/ops/gradients_impl.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.backprop.backward_pass import BackwardPass
from graphmill.backprop.control_flow_analysis import is_trainable
from graphmill.backprop.gradient_options import gradient_options
from graphmill.backprop.indexed_slices import IndexedSlices, total
from graphmill.backprop.loops import restore_contexts
from graphmill.errors import InvalidArgumentError
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.node_roles import is_enter
from graphmill.graph.tensor import Tensor
from graphmill.ops import array
from graphmill.plugin.host import default_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.backprop.control_flow_analysis import Output
    from graphmill.backprop.indexed_slices import Gradient
    from graphmill.graph.builder import Graph
    from graphmill.plugin.host import Host


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = "none",
    *,
    host: Host | None = None,
) -> list[Gradient | None]:
    """Add nodes that compute the derivatives of the sum of `ys` with respect to each of `xs`.

        x = F.placeholder("float32", [])
        (dy_dx,) = graphmill.gradients(x * x, [x])
        print(session.run(dy_dx, {x: 3.0}))  # 6.0

    Gradients flow through loops, conditionals, function calls, tensor arrays and tensor lists. If
    an op has no gradient function, JAX differentiates its kernel when the graph runs.

    Args:
        ys: a tensor or a list of tensors.
        xs: the tensors to differentiate by: placeholders, constants, handles or references of
            variables, intermediate tensors, or objects with an attribute `handle`
            (`graphmill.Variable`).
        grad_ys: the gradients of `ys`, one for each; None for ones.
        name: name scope of the added nodes.
        colocate_gradients_with_ops: whether to colocate gradients with their forward ops.
        gate_gradients: whether the gradients of the inputs of an op become available only together.
        aggregation_method: how to add several gradients of one tensor, of `AggregationMethod`.
        stop_gradients: a tensor or a list of tensors to treat as constants.
        unconnected_gradients: "none", or "zero" to get zeros instead of None.
        host: the host that supplies gradient functions; the default host if None.

    Returns:
        The gradient for each of `xs`: a tensor, `IndexedSlices` if only some of its rows are read,
        or None if no y depends on it.

    Raises:
        NoGradientError: an op between xs and ys has no gradient (this is also a LookupError).
        InvalidArgumentError: the type of `ys` has no gradients, `grad_ys` do not match `ys`, the
            tensors belong to several graphs, or an option has another value.
        UnimplementedError: a loop, conditional or function between xs and ys has a structure
            without gradient.
    """
    if unconnected_gradients not in ("none", "zero"):
        raise InvalidArgumentError(
            f"unconnected_gradients is {unconnected_gradients!r}, expected 'none' or 'zero'"
        )
    options = gradient_options(colocate_gradients_with_ops, gate_gradients, aggregation_method)
    ends, sources = _tensors(ys), _tensors(xs)
    graph = infer_graph(*ends, *sources)
    end_grads = [None] * len(ends) if grad_ys is None else _as_list(grad_ys)
    if len(end_grads) != len(ends):
        raise InvalidArgumentError(
            f"{len(end_grads)} grad_ys were given for {len(ends)} ys, expected one for each"
        )
    stopped = [] if stop_gradients is None else _tensors(stop_gradients)
    stops = {_key(tensor) for tensor in stopped}
    with graph.as_default(), graph.name_scope(name) as scope, graph.control_flow.unchecked():
        backward = BackwardPass(graph, host or default_host(), scope.rstrip("/"), stops, options)
        restore_contexts(backward)
        first: dict[Output, list[Gradient]] = {}
        for index, (end, grad) in enumerate(zip(ends, end_grads, strict=True)):
            first.setdefault(_key(end), []).append(_first(graph, end, grad, f"grad_ys_{index}"))
        results = _by_sources(backward, first, sources)
        if unconnected_gradients == "zero":
            pairs = zip(sources, results, strict=True)
            results[:] = [
                backward.zeros(tensor) if value is None else value for tensor, value in pairs
            ]
    return results


def _by_sources(
    backward: BackwardPass, first: dict[Output, list[Gradient]], sources: Sequence[Tensor]
) -> list[Gradient | None]:
    """Run the backward pass; constant `Enter`s stand for sources outside the loop of `ys`."""
    aliases = [_aliases(backward, next(iter(first), None), source) for source in sources]
    flat = [alias for group in aliases for alias in group]
    gradients_of = dict(zip(flat, backward.propagate(first, flat), strict=True))
    results: list[Gradient | None] = []
    for group in aliases:
        parts = [part for alias in group if (part := gradients_of[alias]) is not None]
        results.append(total(parts) if parts else None)
    return results


def _aliases(backward: BackwardPass, end: Output | None, source: Tensor) -> list[Output]:
    """Return the outputs in the frame of `end` that have the value of a source."""
    key = _key(source)
    path = backward.structure.frame_of(end) if end is not None else ()
    if backward.structure.frame_of(key) == path:
        return [key]
    outputs: list[Output] = []
    for enter in backward.structure.loop(path).invariants if path else ():
        origin = Tensor(enter)
        while is_enter(origin.op) and origin != source:
            origin = Tensor(*origin.op.sources[0])
        if origin == source:
            outputs.append((enter, 0))
    if outputs or not backward.structure.frame_of(key):
        return outputs
    raise InvalidArgumentError(
        f"{source.name!r} is in a loop that does not contain the ys; build the gradient inside the "
        "loop, or differentiate by the inputs of the loop"
    )


def _first(graph: Graph, end: Tensor, grad: Any, name: str) -> Gradient:
    """Return the initial gradient of a y."""
    dtype = end.dtype.base_dtype
    if not is_trainable(dtype) or dtype.name == "resource":
        raise InvalidArgumentError(
            f"{end.name!r} is {dtype.name}, which has no gradient; expected a floating or complex "
            "type",
            node=end.op.name,
            op_type=end.op.op,
        )
    if grad is not None:
        return grad if isinstance(grad, IndexedSlices) else graph.convert(grad, dtype, name)
    if dtype.is_complex:
        raise InvalidArgumentError(
            f"{end.name!r} is {dtype.name}; the gradient of a complex tensor must be given in "
            "grad_ys",
            node=end.op.name,
            op_type=end.op.op,
        )
    return array.fill(array.shape(end), graph.constant(1, dtype), name=name)


def _tensors(items: Any) -> list[Tensor]:
    tensors = [getattr(item, "handle", item) for item in _as_list(items)]
    for item in tensors:
        if not isinstance(item, Tensor):
            raise InvalidArgumentError(f"{item!r} is not a tensor or variable of a graph")
    return tensors


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _key(tensor: Tensor) -> Output:
    return (tensor.op, tensor.value_index)
