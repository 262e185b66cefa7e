"""`cond`: build a conditional from `Switch` and `Merge` nodes.

    y = graphmill.cond(x > 0, lambda: x + 1, lambda: -x)

Semantics: tf.compat.v1.cond with control flow v2 disabled, tensorflow/python/ops/cond.py. Nodes
that the two functions add run only if their branch is taken; nodes added before always run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.deprecations import warn_renamed
from graphmill.errors import InvalidArgumentError
from graphmill.graph.control_flow.cond_context import CondContext
from graphmill.graph.dependencies import with_dependencies
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.node import Node
from graphmill.graph.structures import check_same, flatten_with_paths, pack
from graphmill.ops import array, control_flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor


def cond(
    pred: Any,
    true_fn: Callable[[], Any],
    false_fn: Callable[[], Any],
    strict: bool | str | None = False,
    name: str | None = None,
) -> Any:
    """Return the result of one of two functions; a predicate selects it when the graph runs.

        x = F.placeholder("float32", [])
        size = graphmill.cond(x < 0.0, lambda: -x, lambda: x)
        print(session.run(size, {x: -2.0}))  # 2.0

    Both functions are called once, now, to build their branches. They may use any tensor from
    outside, and must return the same structure of tensors, values and nodes, of the same types.

    Args:
        pred: a scalar bool tensor.
        true_fn: builds the branch that runs if the predicate is true.
        false_fn: builds the other branch.
        strict: whether a list or tuple of one stays one; by default its element is returned. A name
            is accepted with a warning for one version.
        name: name of the scope of the added nodes, by default `cond`.

    Returns:
        The structure that both return, with a tensor for each leaf; for a node a bool tensor that
        is available when the node is done.

    Raises:
        InvalidArgumentError: the predicate is not a bool tensor, a branch returns nothing, the
            branches do not agree, or one uses a tensor of another loop or branch.
        FailedPreconditionError: the predicate is not a tensor and there is no default graph.
    """
    _check_arguments(pred, true_fn, false_fn)
    if isinstance(strict, str):
        warn_renamed("the fourth argument of cond, a name,", "name")
        name, strict = strict, False
    is_strict = bool(strict)
    graph = infer_graph(pred)
    with graph.as_default(), graph.name_scope(name or "cond"):
        pred = graph.convert(pred, dtypes.bool, "pred")
        when_false, when_true = control_flow.switch(pred, pred)
        pivot_true = array.identity(when_true, name="switch_t")
        pivot_false = array.identity(when_false, name="switch_f")
        pred = array.identity(pred, name="pred_id")
        taken = _Branch(
            graph, CondContext(graph, pred, pivot_true, 1), true_fn, "true_fn", is_strict
        )
        other = _Branch(
            graph, CondContext(graph, pred, pivot_false, 0), false_fn, "false_fn", is_strict
        )
        return _merged(graph, taken, other)


class _Branch:
    """A branch that has been built.

    Attributes:
        function: name of the parameter that holds the branch's function, for messages.
        structure: the result of that function.
        results: the leaves of the structure as tensors of the branch, each with its path.
    """

    def __init__(
        self,
        graph: Graph,
        context: CondContext,
        build: Callable[[], Any],
        function: str,
        strict: bool,
    ) -> None:
        self.function = function
        with graph.control_flow.entered(context):
            self.structure = build()
            if self.structure is None:
                raise InvalidArgumentError(
                    f"{function} returned None, expected tensors; a branch that does nothing can "
                    "return graphmill.no_op()"
                )
            if not strict:
                self.structure = _unpacked(self.structure)
            leaves = flatten_with_paths(self.structure, f"{function}()")
            self.results = [(path, _leaf(context, path, leaf)) for path, leaf in leaves]


def _merged(graph: Graph, taken: _Branch, other: _Branch) -> Any:
    check_same(taken.structure, other.structure, "false_fn()", "true_fn()")
    if not taken.results:
        raise InvalidArgumentError("true_fn and false_fn return no tensors; at least one is needed")
    pairs = []
    for (path, expected), (_, actual) in zip(taken.results, other.results, strict=True):
        if expected.dtype.base_dtype is not actual.dtype.base_dtype:
            raise InvalidArgumentError(
                f"{path} is {expected.dtype.name} ({expected.name!r}), but false_fn returns "
                f"{actual.dtype.name} there ({actual.name!r}); both branches must return the same "
                "types"
            )
        pairs.append([actual, expected])
    with graph.control_flow.unchecked():
        return pack(taken.structure, [_merge(pair) for pair in pairs])


def _merge(pair: list[Tensor]) -> Tensor:
    if all(tensor.dtype.is_ref for tensor in pair):
        return control_flow.ref_merge(pair, name="Merge").output
    return control_flow.merge(pair).output


def _leaf(context: CondContext, path: str, leaf: Any) -> Tensor:
    if isinstance(leaf, Node):
        return with_dependencies([leaf], context.pivot)
    try:
        tensor = context.graph.convert(leaf)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{path}: {error.message}") from None
    context.graph.control_flow.check_use(tensor, path)
    return context.result(tensor)


def _unpacked(structure: Any) -> Any:
    if isinstance(structure, (list, tuple)) and len(structure) == 1:
        return structure[0]
    return structure


def _check_arguments(pred: Any, true_fn: object, false_fn: object) -> None:
    if isinstance(pred, bool):
        raise InvalidArgumentError(
            "the predicate of cond is a Python bool, expected a tensor; use Python's if, or "
            "convert it with graph.constant"
        )
    for name, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise InvalidArgumentError(
                f"{name} is {function!r}, expected a function without arguments"
            )
