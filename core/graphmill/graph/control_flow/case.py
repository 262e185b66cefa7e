"""`case`: build a chain of conditionals that runs the first branch with a true predicate.

Semantics: tf.compat.v1.case with control flow v2 disabled,
tensorflow/python/ops/control_flow_case.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.graph.assertion import Assert
from graphmill.graph.control_flow.cond import cond
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.tensor import Tensor
from graphmill.ops import array, math

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphmill.graph.node import Node

    Pair = tuple[Tensor, Callable[[], Any]]


def case(
    pred_fn_pairs: Mapping[Any, Callable[[], Any]] | Iterable[tuple[Any, Callable[[], Any]]],
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Return the result of the function of the first predicate that is true when the graph runs.

        x = F.placeholder("int32", [])
        branches = [(x < 0, lambda: "negative"), (x > 0, lambda: "positive")]
        sign = graphmill.case(branches, default=lambda: "zero")
        print(session.run(sign, {x: 7}))  # b'positive'

    Args:
        pred_fn_pairs: pairs of a scalar bool tensor and a function without arguments, in the order
            in which they are tried; or a dict of these.
        default: the function if no predicate is true; without it, the step fails in that case.
        exclusive: whether the step fails if several predicates are true.
        strict: whether a list or tuple of one stays one; by default its element is returned.
        name: name of the scope of the added nodes.

    Returns:
        The structure that all functions return, with a tensor for each leaf.

    Raises:
        InvalidArgumentError: there are no pairs, a predicate is not a bool tensor, or the functions
            do not agree on what they return; see `cond`.
    """
    pairs = _checked(pred_fn_pairs, default)
    predicates = [pred for pred, _ in pairs]
    graph = infer_graph(predicates)
    with graph.as_default(), graph.name_scope(name):
        build: Callable[[], Any] = default or partial(_last_of, pairs)
        for pred, function in reversed(pairs if default is not None else pairs[:-1]):
            build = partial(cond, pred, function, build, strict=strict)
        if not exclusive:
            return build()
        check = _at_most(predicates, 1, "Input error: exclusive=True")
        with graph.control_dependencies([check]):
            return build()


def _last_of(pairs: list[Pair]) -> Any:
    """Build the last case if there is no default; it asserts that its predicate is true."""
    predicates = [pred for pred, _ in pairs]
    last, function = pairs[-1]
    message = ["Input error: None of conditions evaluated as True:", _stacked(predicates)]
    with last.graph.control_dependencies([Assert(last, message, len(predicates))]):
        return function()


def _at_most(predicates: list[Tensor], count: int, message: str) -> Node:
    stacked = _stacked(predicates)
    true = math.sum(math.cast(stacked, DstT=dtypes.int32), [0], name="num_true_conds")
    names = ", ".join(pred.name for pred in predicates)
    text = f"{message}: more than {count} conditions ({names}) evaluated as True:"
    return Assert(math.less_equal(true, count), [text, stacked], len(predicates))


def _stacked(predicates: list[Tensor]) -> Tensor:
    return array.pack(predicates, name="preds_c")


def _checked(pairs: Any, default: object) -> list[Pair]:
    if default is not None and not callable(default):
        raise InvalidArgumentError(f"default is {default!r}, expected a function without arguments")
    cases = list(pairs.items() if isinstance(pairs, dict) else pairs)
    if not cases:
        raise InvalidArgumentError("case got no pairs of predicate and function; it needs one")
    for index, pair in enumerate(cases):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidArgumentError(
                f"case {index} is {pair!r}, expected a tuple of predicate and function"
            )
        pred, function = pair
        if not isinstance(pred, Tensor) or pred.dtype.base_dtype is not dtypes.bool:
            raise InvalidArgumentError(f"predicate {index} is {pred!r}, expected a bool tensor")
        if not callable(function):
            raise InvalidArgumentError(
                f"function {index} is {function!r}, expected a function without arguments"
            )
    return cases
