"""Kernels that are traced once for several equal nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.jax

TIMES = 8  # more often than a kernel is called before its operations are recorded


class Calls:
    """Calls one kernel for several nodes of a program."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self.kernel = kernel
        self.count = 0
        self.was_marked: list[bool] = []

    def compute(self, *inputs: Any) -> Any:
        from graphmill_plugins._constants import is_prepared_once

        self.count += 1
        self.was_marked.append(is_prepared_once(inputs[0]))
        return self.kernel(*inputs)

    def trace(self, *others: Any, is_marked: bool = False, x: Any = None) -> Any:
        """Return the results of nodes with the inputs `x` and one of `others`, as a program."""
        import jax

        from graphmill_plugins._constants import marking
        from graphmill_plugins.jit.tracing.replay import Replays

        (node,) = [node for node in nodes("y = Neg(x)") if node.op == "Neg"]

        def program(x: Any) -> list[Any]:
            with marking() as marks:
                marks.add([x] if is_marked else [])
                replays = Replays(marks)
                results = []
                for other in others:
                    inputs = [x, other]
                    key = replays.key_of(node, inputs)
                    found = replays.find(key, inputs)
                    if found is None:
                        found = (replays.call(key, self.compute, *inputs),)
                    results += found
            return results

        return jax.jit(program)(np.ones(2, np.float32) if x is None else x)


def nodes(*lines: str) -> Any:
    from tests.plugins.jit.small_graphs import body

    return body(*lines, x="float32[2]").graph.nodes


def test_equal_nodes_are_traced_once() -> None:
    calls = Calls(lambda x, y: x + y)
    results = calls.trace(*[np.float32(3)] * TIMES)
    assert [result.tolist() for result in results] == [[4, 4]] * TIMES
    assert calls.count < TIMES


def test_nodes_with_other_static_inputs_are_traced_by_themselves() -> None:
    calls = Calls(lambda x, y: x + y)
    results = calls.trace(*[np.float32(n % 2) for n in range(2 * TIMES)])
    assert [result.tolist() for result in results] == [[1, 1], [2, 2]] * TIMES
    calls = Calls(lambda x, y: x / y)
    results = calls.trace(*[np.float32(zero) for zero in (0.0, -0.0) * TIMES])
    assert [float(result[0]) for result in results] == [np.inf, -np.inf] * TIMES


def test_large_static_inputs_are_not_compared() -> None:
    calls = Calls(lambda x, y: x + y.sum())
    calls.trace(*[np.ones(1_000, np.float32)] * TIMES)
    assert calls.count == TIMES


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_kernel_sees_which_inputs_are_constant(*, is_marked: bool) -> None:
    calls = Calls(lambda x, y: x + y)
    calls.trace(*[np.float32(1)] * TIMES, is_marked=is_marked)
    assert calls.count < TIMES
    assert set(calls.was_marked) == {is_marked}


def test_kernels_with_static_results_are_called_for_each_node() -> None:
    calls = Calls(lambda x, _: np.float32(x.ndim))
    results = calls.trace(*[np.float32(1)] * TIMES)
    assert [float(result) for result in results] == [1.0] * TIMES
    assert calls.count > TIMES  # one more to find that out


def test_kernels_with_effects_are_called_for_each_node() -> None:
    import jax

    printed: list[float] = []

    def printing(x: Any, y: Any) -> Any:
        jax.debug.callback(lambda value: printed.append(float(value)), x[0], ordered=True)
        return x + y

    calls = Calls(printing)
    calls.trace(*[np.float32(1)] * TIMES)
    jax.effects_barrier()
    assert printed == [1.0] * TIMES
    assert calls.count > TIMES


def test_nodes_with_other_attrs_are_not_equal() -> None:
    lines = [f"y{n} = Sum(x, {'ab'[n % 2]}, keep_dims={n % 4 > 1})" for n in range(4 * TIMES)]
    total = ", ".join(f"y{n}" for n in range(4 * TIMES) if n % 4 < 2)
    constants = (
        "a = Const(dtype=int32, value='int32: 0')",
        "b = Const(dtype=int32, value='int32: 1')",
    )
    graph = graph_def(*constants, *lines, f"y = Pack([{total}])", *kept(), x="float32[2,2]")
    x = np.array([[1, 2], [3, 5]], np.float32)
    with HotSession(graph) as session:
        assert session.run("y:0", {"x:0": x}).tolist() == [[4, 7], [3, 8]] * TIMES
        assert session.run("z:0", {"x:0": x}).shape == (TIMES, 1, 2)


def kept() -> tuple[str, ...]:
    """Return the line that packs the sums over rows that keep their dimension."""
    return (f"z = Pack([{', '.join(f'y{n}' for n in range(2, 4 * TIMES, 4))}])",)
