"""`switch_case`: choose a branch by index, as a binary tree of conditionals.

Semantics: tf.switch_case, tensorflow/python/ops/control_flow_switch_case.py. TensorFlow adds one
`Case` op that calls functions; here the choice is built from `Switch` and `Merge` nodes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.graph.control_flow.cond import cond
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.tensor import Tensor
from graphmill.ops import math

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Branch = Callable[[], Any]


def switch_case(
    branch_index: Tensor,
    branch_fns: Mapping[int, Branch] | Sequence[Branch] | Sequence[tuple[int, Branch]],
    default: Branch | None = None,
    name: str = "switch_case",
) -> Any:
    """Return the result of one of several functions; a tensor selects it when the graph runs.

        index = F.placeholder("int32", [])
        chosen = graphmill.switch_case(index, [lambda: F.constant(10), lambda: F.constant(20)])
        print(session.run(chosen, {index: 1}))  # 20

    Args:
        branch_index: a scalar integer tensor.
        branch_fns: functions without arguments, or a dict or pairs of an index and a function; the
            indices are 0, 1, 2 … in any order.
        default: the function for all other indices; by default the last one.
        name: name of the scope of the added nodes.

    Returns:
        The structure that all functions return, with a tensor for each leaf.

    Raises:
        InvalidArgumentError: the index is not an integer tensor, there are no functions, their
            indices have gaps, or the functions do not agree on what they return; see `cond`.
    """
    branches = _in_order(branch_fns, default)
    if not isinstance(branch_index, Tensor) or not branch_index.dtype.base_dtype.is_integer:
        raise InvalidArgumentError(f"branch_index is {branch_index!r}, expected an integer tensor")
    graph = infer_graph(branch_index)
    with graph.as_default(), graph.name_scope(name):
        last = len(branches) - 1
        if not last:
            return branches[0]()
        is_other = (branch_index < 0) | (branch_index > last)
        chosen = math.select_v2(is_other, last, branch_index)
        return _choose(chosen, 0, branches)


def _choose(index: Tensor, first: int, branches: list[Branch]) -> Any:
    """Build the choice among branches whose indices begin with `first`."""
    if len(branches) == 1:
        return branches[0]()
    half = len(branches) // 2
    return cond(
        index < first + half,
        partial(_choose, index, first, branches[:half]),
        partial(_choose, index, first + half, branches[half:]),
    )


def _in_order(branch_fns: Any, default: Branch | None) -> list[Branch]:
    items: list[Any] = list(branch_fns.items() if isinstance(branch_fns, dict) else branch_fns)
    if not items:
        raise InvalidArgumentError("switch_case got no functions; it needs at least one")
    pairs = list(enumerate(items)) if all(map(callable, items)) else items
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], int)):
            raise InvalidArgumentError(
                f"expected a function, or a tuple of an index and a function, got {pair!r}"
            )
        if not callable(pair[1]):
            raise InvalidArgumentError(
                f"branch {pair[0]} is {pair[1]!r}, expected a function without arguments"
            )
    indices = sorted(index for index, _ in pairs)
    if indices != list(range(len(pairs))):
        raise InvalidArgumentError(
            f"the indices of branches are {indices}, expected 0 to {len(pairs) - 1}, each once"
        )
    if default is not None and not callable(default):
        raise InvalidArgumentError(f"default is {default!r}, expected a function without arguments")
    branches = dict(pairs)
    return [branches[index] for index in indices] + ([] if default is None else [default])
