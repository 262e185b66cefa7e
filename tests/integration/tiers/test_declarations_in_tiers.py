"""Validation mode finds kernels that contradict their declarations, in every tier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes
from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.ops.definition.op_traits import OpTraits
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.runtime.kernels.kernel import kernel
from graphmill.runtime.kernels.lowering import Check
from graphmill.runtime.resources.variables import Variable
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin, float_op
from graphmill.testing.tier_programs import PROGRAMS

TIERS = ("off", "tiered", "eager")
STEPS = 6


@kernel("Foreign>Writes", backend="numpy")
def writes(x: Any) -> Any:
    x += 1
    return x


@kernel("Foreign>Peek", stateful=True)
def peeks(ctx: Any, var: Any) -> Any:
    variable = var.expect(Variable)
    variable.value = variable.value + 1
    return variable.value


@kernel("Foreign>Forwards", backend="numpy")
def forwards(x: Any) -> Any:
    return x


def is_positive(xp: Any, x: Any) -> Any:
    return xp.all(x > 0)


@kernel("Foreign>Checked", backend="numpy", check=Check(is_positive, InvalidArgumentError))
def forgets_its_check(x: Any) -> Any:
    return x * 2


def session(definition: Any, op: str, tier: str) -> graphmill.Session:
    host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op(op)], [definition])])
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        graph.create_op(op, [graphmill.ops.math.mul(x, 1.0)], name="y")
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    return graphmill.Session(graph=graph, host=host, config=config)


@pytest.fixture(autouse=True)
def validation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")


@pytest.mark.parametrize("tier", TIERS)
def test_kernel_without_effects_cannot_write_to_its_inputs(tier: str) -> None:
    with session(writes, "Foreign>Writes", tier) as made:
        for _ in range(STEPS):
            with pytest.raises(InternalError, match="writes to one of its inputs") as caught:
                made.run("y:0", {"x:0": np.ones(2, np.float32)})
    for text in ("ThirdPartyPlugin", "Foreign>Writes", "test_declarations_in_tiers.writes"):
        assert text in caught.value.message
    assert caught.value.node == "y"


@pytest.mark.parametrize("tier", TIERS)
def test_kernel_without_effects_cannot_write_to_a_variable(tier: str) -> None:
    op = OpDef(
        "Foreign>Peek",
        (ArgDef("var", dtypes.resource),),
        (ArgDef("y", dtypes.float32),),
        traits=OpTraits(effects=frozenset()),
    )
    host = graphmill.Host(plugins=[ThirdPartyPlugin([op], [peeks])])
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        attrs = {"dtype": "float32", "shape": (2,)}
        (handle,) = graph.outputs_of(graph.create_op("VarHandleOp", [], attrs, name="v"))
        ones = graph.constant(np.ones(2, np.float32))
        graph.create_op("AssignVariableOp", [handle, ones], name="init")
        graph.create_op("Foreign>Peek", [handle], name="y")
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    with graphmill.Session(graph=graph, host=host, config=config) as made:
        made.run([], targets=["init"])
        for _ in range(STEPS):
            with pytest.raises(InternalError, match="writes to a variable") as caught:
                made.run("y:0")
    for text in ("ThirdPartyPlugin", "Foreign>Peek", "test_declarations_in_tiers.peeks", "effects"):
        assert text in caught.value.message
    assert caught.value.node == "y"


@pytest.mark.parametrize("tier", TIERS)
def test_kernel_may_give_its_input(tier: str) -> None:
    with session(forwards, "Foreign>Forwards", tier) as made:
        for _ in range(STEPS):
            assert made.run("y:0", {"x:0": np.ones(2, np.float32)}).tolist() == [1, 1]


@pytest.mark.parametrize("tier", TIERS)
def test_kernel_must_raise_where_its_check_is_false(tier: str) -> None:
    with session(forgets_its_check, "Foreign>Checked", tier) as made:
        for _ in range(STEPS):
            assert made.run("y:0", {"x:0": np.ones(2, np.float32)}).tolist() == [2, 2]
            with pytest.raises(InternalError, match="check=is_positive with Invalid") as caught:
                made.run("y:0", {"x:0": -np.ones(2, np.float32)})
    for text in ("ThirdPartyPlugin", "Foreign>Checked", "forgets_its_check"):
        assert text in caught.value.message
    assert caught.value.node == "y"


@pytest.mark.parametrize("place", PROGRAMS)
@pytest.mark.parametrize("tier", TIERS)
def test_outputs_of_generic_kernels_are_checked_in_each_call(place: str, tier: str) -> None:
    """Outputs of generic kernels are checked in each call, not only in the first ones."""
    calls = 0

    @kernel("Foreign>Late")
    def late(xp: Any, x: Any) -> Any:
        nonlocal calls
        calls += 1
        return np.float64(1) if np.any(x == 7) else x

    host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Late")], [late])])
    program = PROGRAMS[place]
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    graph = program.graph_def(host.ops, "Foreign>Late")
    with graphmill.Session(graph=graph, host=host, config=config) as made:
        for _ in range(12):
            made.run(program.fetch, program.feeds)
        for _ in range(2):
            with pytest.raises(InternalError, match="returned a tensor of float64 for output 0"):
                made.run(program.fetch, {**program.feeds, "x:0": np.float32(7)})
