"""`LoweringChoices`: the compiler uses the kernel selected for a node, or none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.jit.small_graphs import graph

from graphmill import dtypes
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.ops.definition.op_traits import OpTraits, ResourceUse
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.kernels.kernel import kernel
from graphmill.runtime.kernels.lowering import Check, Lowering, lowering
from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices


def host_with(*kernels: Any, lowerings: Any = (), ops: Any = ()) -> Host:
    class Mine:
        @staticmethod
        @hookimpl
        def graphmill_register_ops(ops: Any, added: Any = ops) -> None:
            for op in added:
                ops.add(op)

        @staticmethod
        @hookimpl
        def graphmill_register_kernels(kernels: Any, added: Any = kernels) -> None:
            for one in added:
                kernels.add(one)

        @staticmethod
        @hookimpl
        def graphmill_register_lowerings(lowerings: Any, added: Any = lowerings) -> None:
            for one in added:
                lowerings.add(one)

    return Host(plugins=[Mine])


def choice_of(host: Host, text: str, **inputs: str) -> Any:
    return LoweringChoices(host).of(graph(text, **inputs).node("y"))


MATMUL = {"x": "float32[2,2]"}


def test_numpy_kernel_of_another_plugin_keeps_the_node_outside() -> None:
    @kernel("MatMul", backend="numpy", priority=10)
    def mine(xp: Any, a: Any, b: Any) -> Any:
        return a @ b

    reason = choice_of(host_with(mine), "y = MatMul(x, x)", **MATMUL)
    assert "mine" in reason
    assert "has no lowering" in reason


def test_general_kernel_of_another_plugin_is_traced_itself() -> None:
    @kernel("MatMul", priority=10)
    def mine(xp: Any, a: Any, b: Any) -> Any:
        return xp.matmul(a, b)

    choice = choice_of(host_with(mine), "y = MatMul(x, x)", **MATMUL)
    assert choice.kernel.definition.function is mine


def test_foreign_jax_kernel_does_not_lower_built_in_numpy_kernel() -> None:
    @kernel("MatMul", backend="jax", priority=10)
    def mine(xp: Any, a: Any, b: Any) -> Any:
        return a @ b

    choice = choice_of(host_with(mine), "y = MatMul(x, x)", **MATMUL)
    assert choice.kernel.definition.function is not mine


def test_kernel_by_type_wins_for_that_type_only() -> None:
    @kernel("MatMul", backend="numpy", types={"T": [dtypes.float32]}, priority=10)
    def mine(xp: Any, a: Any, b: Any) -> Any:
        return a @ b

    host = host_with(mine)
    assert isinstance(choice_of(host, "y = MatMul(x, x)", **MATMUL), str)
    assert choice_of(host, "y = MatMul(x, x)", x="float64[2,2]").kernel is not None


def test_lower_priority_kernel_does_not_lower_a_higher_one() -> None:
    @kernel("MatMul", backend="numpy", priority=10)
    def special(xp: Any, a: Any, b: Any) -> Any:
        return a @ b

    @kernel("MatMul", priority=5)
    def general(xp: Any, a: Any, b: Any) -> Any:
        return xp.matmul(a, b)

    assert "has no lowering" in choice_of(host_with(special, general), "y = MatMul(x, x)", **MATMUL)


def test_lowering_of_the_same_plugin_is_used_with_its_checks() -> None:
    check = Check(lambda xp, a, b: xp.all(a >= 0))

    @kernel("MatMul", backend="numpy", priority=10)
    def mine(xp: Any, a: Any, b: Any) -> Any:
        return a @ b

    @lowering("MatMul", check=check)
    def lowered(trace: Any, a: Any, b: Any) -> Any:
        return trace.xp.matmul(a, b)

    choice = choice_of(host_with(mine, lowerings=[lowered]), "y = MatMul(x, x)", **MATMUL)
    assert choice.has_function
    assert choice.checks == (check,)


@pytest.mark.parametrize(("priority", "winner"), [(0, "kernel"), (1, "registered")])
def test_registered_lowering_replaces_that_of_the_kernel_by_priority(
    priority: int, winner: str
) -> None:
    def own(trace: Any, a: Any, b: Any) -> Any:
        return trace.xp.matmul(a, b)

    @kernel("MatMul", backend="numpy", priority=10, lowering=own)
    def mine(xp: Any, a: Any, b: Any) -> Any:
        return a @ b

    @lowering("MatMul", priority=priority)
    def lowered(trace: Any, a: Any, b: Any) -> Any:
        return trace.xp.matmul(a, b)

    choice = choice_of(host_with(mine, lowerings=[lowered]), "y = MatMul(x, x)", **MATMUL)
    assert choice.lowering.function is {"kernel": own, "registered": lowered}[winner]


def test_registered_lowering_combines_with_declaration_without_form() -> None:
    @kernel("MatMul", backend="numpy", priority=10, lowering=Lowering(standalone=True))
    def mine(xp: Any, a: Any, b: Any) -> Any:
        return a @ b

    @lowering("MatMul")
    def lowered(trace: Any, a: Any, b: Any) -> Any:
        return trace.xp.matmul(a, b)

    choice = choice_of(host_with(mine, lowerings=[lowered]), "y = MatMul(x, x)", **MATMUL)
    assert choice.lowering.function is lowered
    assert choice.lowering.standalone


def test_foreign_lowering_is_not_used_for_built_in_kernel() -> None:
    @lowering("Neg", check=lambda xp, x: False, priority=99)
    def lowered(trace: Any, x: Any) -> Any:
        return x

    choice = choice_of(host_with(lowerings=[lowered]), "y = Neg(x)", x="float32[2]")
    assert not choice.has_function


@pytest.mark.parametrize("where", ["op", "kernel"])
def test_declared_effects_keep_a_node_outside(where: str) -> None:
    op = OpDef(
        "Mine>Now",
        (ArgDef("x", dtypes.float32),),
        (ArgDef("y", dtypes.float32),),
        traits=OpTraits(frozenset({"clock"}) if where == "op" else None),
    )

    @kernel("Mine>Now", effects=["clock"] if where == "kernel" else [])
    def now(xp: Any, x: Any) -> Any:
        return x

    host = host_with(now, ops=[op])
    made = graph("x2 = Neg(x)", x="float32[2]")
    node = made.add_node("y", op, [(made.node("x2"), 0)], attrs={})
    assert LoweringChoices(host).of(node) == "it has effects: clock"


def test_optimizer_of_another_plugin_is_traced_with_variables() -> None:
    op = OpDef(
        "Mine>ApplyLion",
        (ArgDef("var", dtypes.resource), ArgDef("g", dtypes.float32)),
        is_stateful=True,
        traits=OpTraits(
            frozenset({"state"}), resources=(ResourceUse("var", reads=True, writes=True),)
        ),
    )

    @kernel("Mine>ApplyLion", stateful=True, effects=["state"], traces_variables=True)
    def lion(ctx: Any, var: Any, g: Any) -> None: ...

    host = host_with(lion, ops=[op])
    made = graph("g = Neg(x)", "v = VarHandleOp(dtype=float32, shape=[2])", x="float32[2]")
    node = made.add_node("y", op, [(made.node("v"), 0), (made.node("g"), 0)], attrs={})
    choice = LoweringChoices(host).of(node)
    assert not isinstance(choice, str)
    assert choice.takes_handles


def test_kernel_that_may_wait_keeps_the_node_outside() -> None:
    @kernel("Neg", priority=10, waits=True)
    def mine(xp: Any, x: Any) -> Any:
        return -x

    reason = choice_of(host_with(mine), "y = Neg(x)", x="float32[2]")
    assert reason == "its kernel may wait for another node"
