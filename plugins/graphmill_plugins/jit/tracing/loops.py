"""Trace loops as `lax.while_loop`.

The module `values` describes the functions' arguments and results. Needs JAX's 64-bit mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable, ShapesChange
from graphmill_plugins.jit.tracing.elements import Elements, is_gradient_of_entry
from graphmill_plugins.jit.tracing.iteration_limit import ITERATIONS_LEFT
from graphmill_plugins.jit.tracing.static_values import GUARD, is_static
from graphmill_plugins.jit.tracing.values import (
    Absent,
    fitted,
    form_of_both,
    is_array_value,
    is_shape,
    run_traced,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from graphmill_plugins.jit.tracing.iteration_limit import Limit
    from graphmill_plugins.jit.tracing.values import Function, State

_MAX_ROUNDS: Final = 8  # traces of an iteration until the shapes of a loop must be stable
_ASSUMED_ITERATIONS: Final = 256  # capacity of growing lists if the trip count is unknown
_MAX_ASSUMED_BYTES: Final = 1 << 26  # maximum size in bytes of such lists


def trace_while(
    cond: Function,
    body: Function,
    args: Sequence[Any],
    state: State,
    *,
    invariant: Collection[int] = (),
    trips: int | None = None,
    limit: Limit | None = None,
) -> tuple[list[Any], State]:
    """Trace a loop.

    Args:
        cond: the condition; its first result is whether to continue.
        body: returns the next values of all arguments.
        args: the first values.
        state: the state before.
        invariant: indices of the arguments that the body returns unchanged; static ones stay
            static.
        trips: the maximum number of iterations if it is static, which is the capacity of growing
            lists; None otherwise.
        limit: ends the loop early; None for a loop that need not be cancelled.

    Returns:
        The last values, and the state after.

    Raises:
        NotTraceable: a value changes its shape, a handle changes, or a stack grows without bound.
    """
    condition, after = cond(list(args), dict(state))
    if is_static(condition[0]) and not _holds(condition[0]):
        return list(args), after
    if any(key not in state or after[key] is not state[key] for key in after):
        # XLA's loops drop state that the condition writes, so each iteration ends with it instead.
        if limit is not None:
            limit.condition_changes_state |= _has_effects(after, state)
        test, iteration = _condition_last(cond, body)
        shifted = {index + 1 for index in invariant}
        first = [_holds(condition[0]), *args]
        results, last = trace_while(
            test, iteration, first, after, invariant=shifted, trips=trips, limit=limit
        )
        return results[1:], last
    if ITERATIONS_LEFT in state and limit is not None:
        cond, body = _within_iterations(cond, body)
        limit = None
    loop = _Loop(cond, body, list(args), dict(state), invariant)
    loop.reserve(trips)
    loop.settle()
    return loop.run(limit)


def _within_iterations(cond: Function, body: Function) -> tuple[Function, Function]:
    """Return condition and body of a loop that ends when the iteration budget is used up."""

    def test(values: list[Any], state: State) -> tuple[list[Any], State]:
        condition, state = cond(values, state)
        return [_holds(condition[0]) & (state[ITERATIONS_LEFT] > 0)], state

    def iteration(values: list[Any], state: State) -> tuple[list[Any], State]:
        results, state = body(values, state)
        return results, {**state, ITERATIONS_LEFT: state[ITERATIONS_LEFT] - 1}

    return test, iteration


def _condition_last(cond: Function, body: Function) -> tuple[Function, Function]:
    """Return condition and body of a loop that carries the condition as its first value."""

    def test(values: list[Any], state: State) -> tuple[list[Any], State]:
        return values[:1], state

    def iteration(values: list[Any], state: State) -> tuple[list[Any], State]:
        results, state = body(values[1:], state)
        condition, state = cond(list(results), state)
        return [_holds(condition[0]), *results], state

    return test, iteration


def _has_effects(after: State, state: State) -> bool:
    """Return whether more differs between two states than the result of checks."""
    return any(key != GUARD and after[key] is not state.get(key) for key in after)


def _holds(pred: Any) -> Any:
    """Return the truth of a condition as a scalar bool; a tensor is true if it has elements."""
    if np.ndim(pred):
        return np.bool_(np.size(pred) > 0)
    return np.bool_(pred) if is_static(pred) else pred.astype(np.bool_)


@dataclass(frozen=True, slots=True)
class _Iteration:
    """A traced iteration of a loop.

    Attributes:
        results: shapes of the next values of the carried arguments.
        state: shapes of the state after it.
        changed: the keys of the state that it changes.
        program: the traced program, which computes both.
    """

    results: list[Any]
    state: dict[Hashable, Any]
    changed: set[Hashable]
    program: Any

    def emit(self, carry: Any) -> tuple[list[Any], State]:
        """Emit the traced program for `carry`; return the next values and the state."""
        tree_util = jax_module().tree_util
        leaves = run_traced(self.program, *tree_util.tree_leaves(carry))
        tree = tree_util.tree_structure((self.results, list(self.state.values())))
        values, states = tree_util.tree_unflatten(tree, leaves)
        return values, dict(zip(self.state, states, strict=True))


class _Loop:
    """A loop whose values have the same shapes in each iteration."""

    def __init__(
        self,
        cond: Function,
        body: Function,
        args: list[Any],
        state: State,
        invariant: Collection[int],
    ) -> None:
        self._cond = cond
        self._body = body
        self._args = args
        self._state = state
        self._original = dict(state)
        self._carried: list[Hashable] = []  # keys of the state, while `settle` runs
        self._dynamic = [
            index
            for index, value in enumerate(args)
            if index not in invariant and is_array_value(value)
        ]
        self._keys: list[Hashable] = []  # keys of the state that the loop changes
        self._trips: int | None = 0
        for index in self._dynamic:
            args[index] = self._array(args[index])

    def reserve(self, trips: int | None) -> None:
        """Set the capacity of all empty stacks and lists for the expected iterations."""
        self._trips = trips
        capacity = _ASSUMED_ITERATIONS if trips is None else trips
        for key, value in self._state.items():
            if isinstance(value, Elements) and value.may_grow and value.data is None:
                self._state[key] = value.reserved(capacity)
        for index in self._dynamic:
            value = self._args[index]
            if isinstance(value, Elements) and value.may_grow and value.data is None:
                self._args[index] = value.reserved(capacity)

    def settle(self) -> None:
        """Find the state that changes, and the final shapes of all values.

        Raises:
            NotTraceable: there are no such shapes.
        """
        self._carried = [key for key, value in self._state.items() if is_array_value(value)]
        for key in self._carried:
            self._state[key] = self._array(self._state[key])
        for _ in range(_MAX_ROUNDS):
            self._iteration = iteration = self._traced_iteration()
            if not self._widen(iteration):
                self._keys = [key for key in self._carried if key in iteration.changed]
                self._check_capacity()
                return
        raise ShapesChange("the shapes of a loop's values change in each iteration")

    def _check_capacity(self) -> None:
        """Check that lists with an unknown number of appends do not need too much memory.

        Raises:
            NotTraceable: they do.
        """
        if self._trips is not None:
            return
        values = [
            *(self._args[i] for i in self._dynamic),
            *(self._state[key] for key in self._keys),
        ]
        lists = [v for v in values if isinstance(v, Elements) and v.length is not None]
        sizes = [v.data.nbytes for v in lists if v.data is not None]
        if sum(sizes) > _MAX_ASSUMED_BYTES:
            raise NotTraceable(
                "the trip count of a loop is unknown, and the lists that grow in it would take "
                f"{sum(sizes)} bytes for {_ASSUMED_ITERATIONS} iterations, more than "
                f"{_MAX_ASSUMED_BYTES}"
            )

    def run(self, limit: Limit | None = None) -> tuple[list[Any], State]:
        """Trace the loop itself."""
        jax = jax_module()

        before = self._original.get(GUARD, np.bool_(True))
        is_guarded = GUARD in self._keys or not is_static(before)

        def test(carry: Any) -> Any:
            args, state = self._opened(carry, self._keys)
            holds = jax.numpy.asarray(_holds(self._cond(args, state)[0][0]))
            # After a failed check the values are arbitrary, and a loop over them might never end.
            return holds & state[GUARD] if is_guarded else holds

        def iteration(carry: Any) -> Any:
            _, state = self._opened(carry, self._keys)
            values, after = self._iteration.emit((carry[0], [state[key] for key in self._carried]))
            return self._closed(values, after, carry)

        first = [self._args[i] for i in self._dynamic], [self._state[k] for k in self._keys]
        last = (
            limit.loop(test, iteration, first, self._trips)
            if limit
            else jax.lax.while_loop(test, iteration, first)
        )
        args, state = self._opened(last, self._keys)
        unchanged = {k: v for k, v in self._original.items() if k not in self._keys}
        after = {**state, **unchanged}
        ended = limit.ended(test, last, self._trips) if limit else None
        if ended is not None:
            after[GUARD] = after.get(GUARD, np.bool_(True)) & ended
        return args, after

    def _traced_iteration(self) -> _Iteration:
        """Trace an iteration."""
        changed: set[Hashable] = set()
        array_keys: list[Hashable] = []

        def iteration(carry: Any) -> Any:
            args, state = self._opened(carry, self._carried)
            before = dict(state)
            results, after = self._body(list(args), state)
            changed.update(k for k in after if k not in before or after[k] is not before[k])
            for index, value in enumerate(results):
                if index not in self._dynamic and value is not args[index]:
                    self._check_fixed(index, value, args[index])
            array_keys[:] = [key for key, value in after.items() if is_array_value(value)]
            return [results[index] for index in self._dynamic], [after[key] for key in array_keys]

        first = [self._args[i] for i in self._dynamic], [self._state[k] for k in self._carried]
        program, shapes = jax_module().make_jaxpr(iteration, return_shape=True)(first)
        values, states = shapes
        return _Iteration(values, dict(zip(array_keys, states, strict=True)), changed, program)

    def _widen(self, outcome: _Iteration) -> bool:
        """Give initial values the shapes of the next ones; return whether any changed."""
        is_wider = False
        for index, shape in zip(self._dynamic, outcome.results, strict=True):
            wider = self._first(self._args[index], shape, f"loop variable {index} has")
            is_wider |= wider is not self._args[index]
            self._args[index] = wider
        for key, shape in outcome.state.items():
            if key in self._state:
                wider = self._first(self._state[key], shape, f"{key} has")
                is_wider |= wider is not self._state[key]
                self._state[key] = wider
            elif is_gradient_of_entry(key, self._state):
                # Gradients that the first iteration creates are zeros before it.
                self._state[key] = fitted(Absent(), shape)
                self._carried.append(key)
                is_wider = True
        return is_wider

    def _first(self, value: Any, shape: Any, subject: str) -> Any:
        if not is_shape(value):
            raise NotTraceable(f"{subject} no value before the loop")
        if _begins_to_grow(value, shape):
            return value.growing(_ASSUMED_ITERATIONS if self._trips is None else self._trips)
        try:
            wider = form_of_both(value, shape, f"{subject} in the iterations of a loop")
        except NotTraceable as error:
            raise ShapesChange(*error.args) from None
        return value if wider is value else value.like(wider)

    def _opened(self, carry: Any, keys: Sequence[Hashable]) -> tuple[list[Any], State]:
        values, states = carry
        args, state = list(self._args), dict(self._state)
        for index, value in zip(self._dynamic, values, strict=True):
            args[index] = value
        state.update(zip(keys, states, strict=True))
        return args, state

    def _closed(self, results: list[Any], state: State, carry: Any) -> Any:
        values = [fitted(value, before) for value, before in zip(results, carry[0], strict=True)]
        states = [
            fitted(state[key], before) for key, before in zip(self._keys, carry[1], strict=True)
        ]
        return values, states

    def _check_fixed(self, index: int, value: Any, before: Any) -> None:
        if is_array_value(value) or is_array_value(before):
            is_same = is_static(value) and is_static(before) and np.array_equal(value, before)
            if is_same:
                return
            raise NotTraceable(
                f"loop variable {index} is not an array, or differs between iterations"
            )
        raise NotTraceable(f"the handle in loop variable {index} differs between iterations")

    @staticmethod
    def _array(value: Any) -> Any:
        """Return a value in the form that a loop can carry: static values become JAX arrays."""
        if isinstance(value, Elements):
            return value
        numpy = jax_module().numpy
        return jax_module().tree_util.tree_map(lambda one: numpy.asarray(one, one.dtype), value)


def _begins_to_grow(before: Any, after: Any) -> bool:
    """Return whether a value is a list of fixed length that has grown."""
    lists = isinstance(before, Elements) and isinstance(after, Elements)
    return lists and before.length is None and after.length is not None
