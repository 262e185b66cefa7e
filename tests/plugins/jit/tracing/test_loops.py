"""Loops over functions during tracing (clause E3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.tracer import compiled

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.lowerings.stack import TRACED as STACK
from graphmill_plugins.jit.tracing.elements import Elements
from graphmill_plugins.jit.tracing.loops import trace_while
from graphmill_plugins.jit.tracing.static_values import GUARD

pytest.importorskip("jax")


def below(limit: int) -> Any:
    return lambda args, state: ([args[0] < limit], state)


def test_static_invariants_stay_static() -> None:
    shape = np.array([2, 3])

    def body(args: list[Any], state: Any) -> Any:
        assert isinstance(args[1], np.ndarray)
        return [args[0] + np.int32(1), args[1], args[2] + np.ones(args[1], np.float32)], state

    def program(x: Any) -> Any:
        results, _ = trace_while(below(4), body, [np.int32(0), shape, x], {}, invariant=(1,))
        assert results[1] is shape
        return results[0], results[2]

    count, total = compiled(program, np.zeros((2, 3), np.float32))
    assert count == 4
    assert count.dtype == np.int32
    np.testing.assert_array_equal(total, np.full((2, 3), 4, np.float32))


def test_loop_with_zero_trip_count_is_not_traced() -> None:
    def body(args: list[Any], state: Any) -> Any:
        raise NotTraceable("it was traced")

    results, _ = trace_while(below(0), body, [np.int32(0)], {})
    assert results == [np.int32(0)]


def test_state_is_carried_where_it_changes() -> None:
    def body(args: list[Any], state: Any) -> Any:
        return [args[0] + np.int32(1)], {**state, "v": state["v"] * state["w"]}

    def program(v: Any, w: Any) -> Any:
        _, state = trace_while(below(3), body, [np.int32(0)], {"v": v, "w": w})
        assert state["w"] is w
        return state["v"]

    assert compiled(program, np.float32(2), np.float32(5)) == 250


def test_condition_writes_once_more_than_iterations() -> None:
    def cond(args: list[Any], state: Any) -> Any:
        return [args[0] < args[1]], {"tests": state["tests"] + np.int32(1)}

    def body(args: list[Any], state: Any) -> Any:
        return [args[0] + np.int32(1), args[1]], state

    def program(limit: Any, tests: Any) -> Any:
        first = [np.int32(0), limit]
        results, state = trace_while(cond, body, first, {"tests": tests}, invariant=(1,))
        return results[0], state["tests"]

    assert compiled(program, np.int32(5), np.int32(10)) == (5, 16)
    assert compiled(program, np.int32(-1), np.int32(10)) == (0, 11)


def test_non_scalar_condition_is_true_if_non_empty() -> None:
    def body(args: list[Any], state: Any) -> Any:
        return [args[0]], state

    def program(x: Any) -> Any:
        return trace_while(lambda args, state: ([args[0]], state), body, [x], {})[0]

    assert compiled(program, np.zeros((0, 2), np.bool_))[0].shape == (0, 2)


def test_a_shape_that_changes_is_not_traceable() -> None:
    def body(args: list[Any], state: Any) -> Any:
        numpy = jax_module().numpy
        return [args[0] + np.int32(1), numpy.concatenate([args[1], args[1]])], state

    def program(x: Any) -> Any:
        return trace_while(below(3), body, [np.int32(0), x], {})[0]

    with pytest.raises(NotTraceable, match=r"loop variable 1 has .* shapes \(1,\) and \(2,\)"):
        compiled(program, np.ones(1))


def test_a_handle_that_changes_is_not_traceable() -> None:
    def body(args: list[Any], state: Any) -> Any:
        return [args[0] + np.int32(1), object()], state

    def program(x: Any) -> Any:
        return trace_while(below(3), body, [x, object()], {})[0][0]

    with pytest.raises(NotTraceable, match="differs between iterations"):
        compiled(program, np.int32(0))


def pushing(trips: int | None) -> Any:
    """Return a program that pushes 0, 10, 20 in a loop, and pops the last two."""

    def body(args: list[Any], state: Any) -> Any:
        STACK["StackPushV2"](state, [args[1], args[0] * 10], {})
        return [args[0] + np.int32(1), args[1]], state

    def program(start: Any) -> Any:
        from graphmill import dtypes

        state: Any = {GUARD: jax_module().numpy.asarray(True)}
        [handle] = STACK["StackV2"](state, [np.int32(-1)], {"elem_type": dtypes.int32})
        args = [start, handle]
        _, state = trace_while(below(3), body, args, state, invariant=(1,), trips=trips)
        popped = [STACK["StackPopV2"](state, [handle], {})[0] for _ in range(2)]
        return popped, state[GUARD]

    return program


def test_a_stack_has_room_for_all_trips() -> None:
    popped, is_good = compiled(pushing(3), np.int32(0))
    assert popped == [20, 10]
    assert is_good


def test_a_stack_that_overflows_is_noticed() -> None:
    assert not compiled(pushing(2), np.int32(0))[1]


def test_unbounded_stack_gets_default_capacity() -> None:
    assert compiled(pushing(None), np.int32(0)) == compiled(pushing(3), np.int32(0))


def test_a_list_may_stay_empty_if_the_trip_count_is_unknown() -> None:
    def body(args: list[Any], state: Any) -> Any:
        return [args[0] + np.int32(1), args[1]], state

    def program(start: Any) -> Any:
        empty = Elements(np.dtype(np.float32), None, np.int32(0), -1, may_grow=True)
        results, _ = trace_while(below(4), body, [start, empty], {})
        assert results[1].data is None
        return results[0], results[1].length

    count, length = compiled(program, np.int32(1))
    assert (count, length) == (4, 0)


def test_elements_of_other_shapes_are_not_traceable() -> None:
    elements = Elements(np.dtype(np.float32), np.zeros((2, 3), np.float32), None, 2)
    with pytest.raises(NotTraceable, match=r"shapes \(3,\) and \(4,\)"):
        elements.with_element(0, np.zeros(4, np.float32))
