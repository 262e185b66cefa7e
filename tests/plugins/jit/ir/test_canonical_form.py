"""Clusters have equal forms if, and only if, their programs are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import body, inputs_of

import graphmill
from graphmill.lowering.policies.effects_policy import EffectsPolicy
from graphmill_plugins.jit.ir.canonical_form import canonical_form
from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies

if TYPE_CHECKING:
    from collections.abc import Hashable

CONST = "k = Const(dtype=float32, value='{}')"
AXIS = "k = Const(dtype=int32, value='int32: 0')"
CALL = "f(x: float32) -> float32: {}; return y"


def form_of(*nodes: str, large: bool = False, **rest: Any) -> Hashable:
    bodies = ScheduledBodies(body(*nodes, **rest), graphmill.default_host(), EffectsPolicy())
    constants = [node for node in bodies.main.nodes if node.op == "Const"] if large else []
    return canonical_form(bodies, constants, inputs_of(bodies.main).nodes)


BASE = ("a = Neg(x)", "b = Abs(a)", "y = Sub(a, b)")


def test_names_are_not_in_the_form() -> None:
    other = ("n1 = Neg(x)", "n2 = Abs(n1)", "n3 = Sub(n1, n2)")
    assert form_of(*BASE, x="float32") == form_of(*other, x="float32") is not None


@pytest.mark.parametrize(
    "nodes",
    [
        ("a = Neg(x)", "b = Abs(a)", "y = Sub(b, a)"),  # other inputs
        ("a = Neg(x)", "b = Abs(a)", "y = Add(a, b)"),  # another op
        ("a = Neg(x)", "b = Abs(x)", "y = Sub(a, b)"),
        ("a = Neg(x)", "b = Abs(a)", "y = Sub(a, b)", "z = Neg(y)"),
        ("a = Neg(x)", "b = Abs(a)", "y = Sub(a, b)", "z = Neg(a)"),  # another output
    ],
)
def test_other_nodes_and_edges_are_another_form(nodes: tuple[str, ...]) -> None:
    assert form_of(*BASE, x="float32") != form_of(*nodes, x="float32")


def test_another_type_is_another_form() -> None:
    assert form_of(*BASE, x="float32") != form_of(*BASE, x="float64")


def test_another_attr_is_another_form() -> None:
    first, second = (
        form_of(AXIS, f"y = Sum(x, k, keep_dims={keep})", x="float32[2,3]")
        for keep in (True, False)
    )
    assert first != second


@pytest.mark.parametrize(("first", "second"), [("1", "2"), ("0", "-0")])
def test_small_constants_are_compared_by_their_bytes(first: str, second: str) -> None:
    def form(value: str) -> Hashable:
        return form_of(CONST.format(f"float32: {value}.0"), "y = Mul(x, k)", x="float32")

    assert form(first) == form(first)
    assert form(first) != form(second)


def test_large_constants_are_arguments() -> None:
    def form(value: str, size: int) -> Hashable:
        constant = CONST.format(f"float32[{size}] fill {value}")
        return form_of(constant, "y = Mul(x, k)", large=True, x=f"float32[{size}]")

    assert form("1", 4) == form("2", 4)
    assert form("1", 4) != form("1", 5)


def test_float_attrs_distinguish_signed_zeros() -> None:
    first, second = (
        form_of(f"y = LeakyRelu(x, alpha={alpha})", x="float32[2]") for alpha in (0.0, -0.0)
    )
    assert first != second


def test_functions_are_compared_by_their_bodies() -> None:
    def form(name: str, text: str) -> Hashable:
        call = f"r = PartitionedCall([x], Tout=[float32], f={name})"
        function = CALL.format(text).replace("f(", f"{name}(", 1)
        return form_of(call, functions=(function,), x="float32")

    assert form("f", "y = Neg(x)") == form("g", "y = Neg(x)") is not None
    assert form("f", "y = Neg(x)") != form("f", "y = Abs(x)")


def test_variables_are_compared_by_position() -> None:
    def form(*reads: str) -> Hashable:
        handles = [
            f"{name} = VarHandleOp(dtype=float32, shape=[2], shared_name='{name}')"
            for name in sorted(set(reads))
        ]
        nodes = [f"r{i} = ReadVariableOp({name}, dtype=float32)" for i, name in enumerate(reads)]
        return form_of(*handles, *nodes, "y = Sub(r0, r1)", x="float32")

    assert form("v", "w") == form("p", "q") is not None
    assert form("v", "w") != form("v", "v")


def test_attr_that_cannot_be_compared_has_no_form() -> None:
    bodies = ScheduledBodies(
        body("y = Neg(x)", x="float32"), graphmill.default_host(), EffectsPolicy()
    )
    bodies.main.nodes[0].attrs["T"] = np.zeros(2)
    assert canonical_form(bodies, [], []) is None
