"""Trace conditionals as `lax.switch`.

The module `values` describes the functions' arguments and results. Needs JAX's 64-bit mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.tracing.elements import is_gradient_of_entry
from graphmill_plugins.jit.tracing.static_values import is_static
from graphmill_plugins.jit.tracing.values import (
    Absent,
    fitted,
    form_of_both,
    is_array_value,
    is_shape,
    run_traced,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphmill_plugins.jit.tracing.values import Function, State


def trace_cond(
    pred: Any, branches: Sequence[Function], args: Sequence[Any], state: State
) -> tuple[list[Any], State]:
    """Trace a conditional.

    Args:
        pred: a bool, which selects the second of two branches if it is true, or the index of a
            branch; an index out of range selects the last branch.
        branches: the functions.
        args: their arguments.
        state: the state before.

    Returns:
        The results, and the state after.

    Raises:
        NotTraceable: the branches return values of different shapes, or different handles.
    """
    if is_static(pred) or np.ndim(pred):
        return branches[_static_choice(pred, len(branches))](list(args), dict(state))
    jax = jax_module()
    numpy = jax.numpy
    outcomes = [_traced(branch, args, state) for branch in branches]
    keys = _common_keys(outcomes, state)
    joined = _Joined(outcomes, keys)

    def run(outcome: _Outcome) -> Any:
        def compute(_: Any) -> Any:
            results, after = outcome.emit()
            return joined.dynamic([*results, *(after.get(key, Absent()) for key in keys)])

        return compute

    if pred.dtype == np.bool_:
        index = pred.astype(np.int32)
    else:
        index = numpy.where((pred < 0) | (pred >= len(branches)), len(branches) - 1, pred)
    chosen = joined.whole(jax.lax.switch(index, [run(one) for one in outcomes], 0))
    count = len(outcomes[0].results)
    return chosen[:count], {**state, **dict(zip(keys, chosen[count:], strict=True))}


def _common_keys(outcomes: Sequence[_Outcome], state: State) -> list[Hashable]:
    """Return the keys of the state after all branches.

    Gradients that one branch creates are zeros after the others. What else it creates, such as a
    tensor array of its own, ends with it.
    """
    keys = dict.fromkeys(key for outcome in outcomes for key in outcome.state)
    return [
        key
        for key in keys
        if all(key in outcome.state for outcome in outcomes) or is_gradient_of_entry(key, state)
    ]


def _static_choice(pred: Any, count: int) -> int:
    if np.ndim(pred):  # a tensor is true if it has elements
        return int(np.size(pred) > 0)
    index = int(pred)
    return index if 0 <= index < count else count - 1


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a traced function: arrays by shape and type, handles unchanged.

    Attributes:
        results, state: the function's results, and the state after it.
        program: the traced program, which computes the arrays in both.
    """

    results: list[Any]
    state: dict[Hashable, Any]
    program: Any

    def emit(self) -> tuple[list[Any], State]:
        """Emit the traced program into the caller's trace; return results and state."""
        jax = jax_module()
        values = [*self.results, *self.state.values()]
        shapes = [value if is_shape(value) else None for value in values]
        tree = jax.tree_util.tree_structure(shapes)
        leaves = run_traced(self.program, np.int32(0))
        computed = jax.tree_util.tree_unflatten(tree, leaves)
        whole = [
            shape if is_shape(value) else value
            for shape, value in zip(computed, values, strict=True)
        ]
        count = len(self.results)
        return whole[:count], dict(zip(self.state, whole[count:], strict=True))


def _traced(function: Function, args: Sequence[Any], state: State) -> _Outcome:
    """Trace a function."""
    fixed: list[Any] = []
    layout: list[Any] = []

    def compute(_: Any) -> Any:
        results, after = function(list(args), dict(state))
        layout[:] = [len(results), list(after)]
        values = [*results, *after.values()]
        fixed[:] = [None if is_array_value(value) else value for value in values]
        return [value if is_array_value(value) else None for value in values]

    program, shapes = jax_module().make_jaxpr(compute, return_shape=True)(np.int32(0))
    count, keys = layout
    values = [s if f is None else f for s, f in zip(shapes, fixed, strict=True)]
    return _Outcome(values[:count], dict(zip(keys, values[count:], strict=True)), program)


class _Joined:
    """The common form of the results of several branches."""

    def __init__(self, outcomes: Sequence[_Outcome], keys: Sequence[Hashable]) -> None:
        rows = [[*one.results, *(one.state.get(key, Absent()) for key in keys)] for one in outcomes]
        self.specs = [self._spec(column) for column in zip(*rows, strict=True)]

    def dynamic(self, values: Sequence[Any]) -> list[Any]:
        """Return the traced values of a branch, in the same order for all branches."""
        return [
            None if not is_shape(spec) else fitted(value, spec)
            for value, spec in zip(values, self.specs, strict=True)
        ]

    def whole(self, computed: Sequence[Any]) -> list[Any]:
        """Return the computed values together with the values that are not arrays."""
        return [
            value if is_shape(spec) else spec
            for value, spec in zip(computed, self.specs, strict=True)
        ]

    def _spec(self, column: tuple[Any, ...]) -> Any:
        present = [value for value in column if not isinstance(value, Absent)]
        if not present:
            return column[0]
        best = present[0]
        for value in present[1:]:
            best = form_of_both(best, value, "the branches of a conditional return")
        return best
