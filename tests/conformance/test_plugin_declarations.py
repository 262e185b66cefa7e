"""The suite for kernels of plugins passes sound ones, and finds what contradicts a declaration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill.errors import InvalidArgumentError
from graphmill.runtime.kernel import kernel
from graphmill.runtime.lowering import Check, lowering
from graphmill.testing.case import parse_cases
from graphmill.testing.conformance import PluginTests
from graphmill.testing.foreign import ForeignPlugin, float_op, square_root

CASES = '[["Foreign>Root"]]\nin = ["float32[3]: [1, 4, 9]"]\n'
REFUSED = CASES + '[["Foreign>Root"]]\nin = ["float32[2]: [1, -4]"]\nerror = "InvalidArgument"\n'


class TestSound(PluginTests):
    cases = REFUSED

    @pytest.fixture
    def host(self) -> graphmill.Host:
        return graphmill.Host(plugins=[square_root()])


def forgets(xp: Any, x: Any) -> Any:
    return xp.all(x > 5)


def other_shape(trace: Any, x: Any) -> Any:
    return x[:1]


def other_values(trace: Any, x: Any) -> Any:
    return x * 2


def doubles(x: Any) -> Any:
    x *= 2
    return x


FAULTS: dict[str, tuple[dict[str, Any], Any]] = {
    "writes": ({}, doubles),
    "check": ({"check": Check(forgets, InvalidArgumentError)}, np.copy),
    "values": ({"lowering": other_values}, np.copy),
    "shape": ({"lowering": other_shape}, np.copy),
}


@pytest.mark.jax
@pytest.mark.parametrize("fault", FAULTS)
def test_contradiction_is_found_and_named(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared, compute = FAULTS[fault]

    @kernel("Foreign>Root", backend="numpy", **declared)
    def root(x: Any) -> Any:
        return compute(x)

    host = graphmill.Host(plugins=[ForeignPlugin([float_op("Foreign>Root")], [root])])
    (case,) = parse_cases(CASES, "own")
    with pytest.raises(AssertionError, match="Foreign>Root") as caught:
        PluginTests().test_a_case_has_one_answer_in_every_tier(case, "eager", host, monkeypatch)
    assert "ForeignPlugin" in str(caught.value)


@pytest.mark.parametrize("kind", ["kernels", "lowerings"])
def test_a_misspelt_op_is_found_and_named(kind: str) -> None:
    class Misspelt(ForeignPlugin):
        @graphmill.hookimpl
        def graphmill_register_lowerings(self, lowerings: Any) -> None:
            if kind == "lowerings":
                lowerings.add(lowering("Foreign>Rot")(other_values))

    @kernel("Foreign>Root", *(["Foreign>Rot"] if kind == "kernels" else ()))
    def root(xp: Any, x: Any) -> Any:
        return xp.sqrt(x)

    class TestMisspelt(PluginTests):
        cases = CASES

    host = graphmill.Host(plugins=[Misspelt([float_op("Foreign>Root")], [root])])
    with pytest.raises(AssertionError, match=f"Misspelt.* has {kind} for ops .*: Foreign>Rot\\. C"):
        TestMisspelt().test_kernels_and_lowerings_are_for_ops_that_are_defined(host)
