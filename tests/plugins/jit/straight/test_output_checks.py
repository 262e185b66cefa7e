"""Generated code checks outputs in its first calls, and always if types depend on values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import body, numpy_kernel

import graphmill
from graphmill.errors import InternalError
from graphmill.lowering.policies.effects_policy import EffectsPolicy
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.runtime.kernels.kernel import kernel, kernels_of
from graphmill.runtime.kernels.op_kernel import OpKernelConstruction, bind
from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies
from graphmill_plugins.jit.straight.output_checks import (
    FIRST_CALLS,
    FIRST_CALLS_OF_LARGE,
    LARGE,
)
from graphmill_plugins.jit.straight.straight_line import StraightLine


def code(give: Any, *nodes: str, shares: bool = False, **declared: Any) -> StraightLine:
    """Return the code of nodes whose kernels are all `give`.

    Args:
        give: the kernel.
        nodes: the nodes.
        shares: whether the nodes of one op share the call of the first one's kernel.
        declared: options of the kernel.
    """
    definition = kernels_of(kernel("Neg", "Split", **declared)(give))[-1]
    calls: dict[str, Any] = {}

    def create(node: Any, scheduled: Any) -> Any:
        if node.op == "Cast":
            return numpy_kernel(node, scheduled)
        construction = OpKernelConstruction(node.name, node.op_def, node.attrs, None, np)
        made = bind(definition, construction)
        if shares:
            made.compute = calls.setdefault(node.op, made.compute)
        return made

    bodies = ScheduledBodies(
        body(*nodes, x="float32[4]"), graphmill.default_host(), EffectsPolicy()
    )
    return StraightLine(bodies, create, "/device:CPU:0")


def error_of(made: StraightLine, value: Any) -> Any:
    try:
        made.call(None, value)
    except Exception as error:  # noqa: BLE001 - as the kernel of a cluster does
        return made.error_of(error)
    return None


TWICE = ("n = Neg(x)", "y = Neg(n)")


def double_of_two(xp: Any, x: Any) -> Any:
    return np.float64(x) if x == 2 else x


@pytest.mark.parametrize("result", [np.float64(1), None, "text", (np.float32(1), np.float32(1))])
def test_wrong_output_names_node_and_kernel(result: Any) -> None:
    error = error_of(code(lambda xp, x: result, "y = Neg(x)"), np.float32(1))
    assert type(error) is InternalError
    assert (error.node, error.op_type) == ("y", "Neg")
    assert "<lambda>" in error.message


@pytest.mark.parametrize("result", [(np.ones(2, np.float32),) * 3, np.ones(2, np.float32), None])
def test_wrong_number_of_outputs_names_node(result: Any) -> None:
    nodes = ("d = Const(dtype=int32, value='int32: 0')", "y = Split(d, x, num_split=2)")
    error = error_of(code(lambda xp, d, x: result, *nodes), np.ones(4, np.float32))
    assert type(error) is InternalError
    assert error.node == "y"


def test_error_of_the_kernel_itself_stays() -> None:
    def fail(xp: Any, x: Any) -> Any:
        return x.no_such_attribute

    error = error_of(code(fail, "y = Neg(x)"), np.float32(1))
    assert "no_such_attribute" in error.message


def test_array_namespace_kernel_is_checked_in_first_calls() -> None:
    made = code(double_of_two, "y = Neg(x)")
    assert ".dtype" not in made.source
    for _ in range(FIRST_CALLS - 1):
        assert error_of(made, np.float32(1)) is None
    assert error_of(made, np.float32(2)).node == "y"
    assert error_of(made, np.float32(2)) is None


def test_long_code_is_checked_in_more_calls() -> None:
    nodes = [f"n{index} = Neg({f'n{index - 1}' if index else 'x'})" for index in range(LARGE)]
    made = code(double_of_two, *nodes, f"y = Neg(n{LARGE - 1})")
    for _ in range(FIRST_CALLS_OF_LARGE - 1):
        assert error_of(made, np.float32(1)) is None
    assert error_of(made, np.float32(2)).node == "n0"
    assert error_of(made, np.float32(2)) is None


@pytest.mark.parametrize("validates", [False, True])
def test_first_of_nodes_that_share_a_call_is_checked(
    validates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long code is not compiled again to drop a few checks."""
    monkeypatch.setenv(VALIDATE_VARIABLE, str(int(validates)))
    nodes = [f"n{index} = Neg({f'n{index - 1}' if index else 'x'})" for index in range(LARGE)]
    made = code(double_of_two, *nodes, shares=True)
    assert made.source.count(".dtype is") == (LARGE if validates else 1)
    for _ in range(FIRST_CALLS_OF_LARGE + 1):
        assert error_of(made, np.float32(1)) is None
    assert error_of(made, np.float32(2)).node == "n0"


def test_short_code_drops_the_check_of_a_shared_call() -> None:
    made = code(double_of_two, *TWICE, shares=True)
    assert ".dtype is" not in made.source
    assert error_of(made, np.float32(2)).node == "n"


def test_nodes_of_other_types_are_checked_even_if_they_share_a_call() -> None:
    def wrong_integers(xp: Any, x: Any) -> Any:
        return np.float64(x) if x.dtype == np.int32 else x

    nodes = ("n = Neg(x)", "i = Cast(n, DstT=int32)", "y = Neg(i)")
    made = code(wrong_integers, *nodes, shares=True)
    assert error_of(made, np.float32(1)).node == "y"


def test_shared_call_is_checked_at_each_node_if_it_looks_at_values() -> None:
    def increased(x: Any) -> Any:
        return np.float64(x + 1) if x == 2 else x + 1

    made = code(increased, *TWICE, backend="numpy", shares=True)
    for _ in range(FIRST_CALLS + 1):
        assert error_of(made, np.float32(5)) is None
    assert error_of(made, np.float32(1)).node == "y"


def test_kernel_that_looks_at_values_is_checked_in_each_call() -> None:
    made = code(double_of_two, "y = Neg(x)", backend="numpy")
    for _ in range(FIRST_CALLS + 1):
        assert error_of(made, np.float32(1)) is None
    assert error_of(made, np.float32(2)).node == "y"


def two_of_another_dtype(xp: Any, d: Any, x: Any) -> Any:
    halves = np.split(x, 2)
    return [half.astype(np.float64) for half in halves] if x[0] == 2 else halves


SPLIT = ("d = Const(dtype=int32, value='int32: 0')", "y = Split(d, x, num_split=2)")


def test_several_outputs_are_checked_in_the_first_calls() -> None:
    made = code(two_of_another_dtype, *SPLIT)
    for _ in range(FIRST_CALLS - 1):
        assert error_of(made, np.ones(4, np.float32)) is None
    assert error_of(made, np.full(4, 2, np.float32)).node == "y"
    assert error_of(made, np.full(4, 2, np.float32)) is None


def test_validation_checks_several_outputs_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    made = code(two_of_another_dtype, *SPLIT)
    for _ in range(2 * FIRST_CALLS):
        assert error_of(made, np.ones(4, np.float32)) is None
        assert error_of(made, np.full(4, 2, np.float32)).node == "y"


def test_validation_checks_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    made = code(double_of_two, "y = Neg(x)")
    for _ in range(FIRST_CALLS + 1):
        assert error_of(made, np.float32(1)) is None
    assert error_of(made, np.float32(2)).node == "y"
