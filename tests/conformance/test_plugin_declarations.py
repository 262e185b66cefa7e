"""`PluginTests` passes correct kernels and finds violated declarations."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import graphmill
from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.ops.definition.op_traits import OpTraits, ResourceUse
from graphmill.runtime.kernels.kernel import kernel
from graphmill.runtime.kernels.lowering import Check, NotTraceable, lowering
from graphmill.runtime.resources.variables import Variable
from graphmill.spi import files
from graphmill.testing.case import parse_cases
from graphmill.testing.conformance import PluginTests
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin, float_op, square_root
from graphmill.testing.finite_differences import why_not_checked

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


def other_dtype(trace: Any, x: Any) -> Any:
    return x.astype("float64")


def two_outputs(trace: Any, x: Any) -> Any:
    return x, x


def doubles(x: Any) -> Any:
    x *= 2
    return x


FAULTS: dict[str, tuple[dict[str, Any], Any]] = {
    "writes": ({}, doubles),
    "check": ({"check": Check(forgets, InvalidArgumentError)}, np.copy),
    "values": ({"lowering": other_values}, np.copy),
    "shape": ({"lowering": other_shape}, np.copy),
    "dtype": ({"lowering": other_dtype}, np.copy),
    "count": ({"lowering": two_outputs}, np.copy),
}


def find(host: graphmill.Host, text: str, tier: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the suite's report on a case with wrong declarations."""
    (case,) = parse_cases(text, "own")
    with pytest.raises(AssertionError) as caught:
        PluginTests().test_a_case_has_one_result_in_every_tier(case, tier, host, monkeypatch)
    return str(caught.value)


@pytest.mark.jax
@pytest.mark.parametrize("tier", ["tiered", "eager"])
@pytest.mark.parametrize("fault", FAULTS)
def test_contradiction_is_found_and_named(
    fault: str, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared, compute = FAULTS[fault]

    @kernel("Foreign>Root", backend="numpy", **declared)
    def root(x: Any) -> Any:
        return compute(x)

    host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Root")], [root])])
    found = find(host, CASES, tier, monkeypatch)
    assert "Foreign>Root" in found
    assert "ThirdPartyPlugin" in found


STEP = """[["Foreign>Step"]]
nodes = [
    "v = VarHandleOp(dtype=float32, shape=[])",
    "init = AssignVariableOp(v, x)",
    "step = Foreign>Step(v, after=[init])",
    "y = ReadVariableOp(v, dtype=float32, after=[step])",
]
feed.x = "float32: 1"
run = ["y"]
"""


def step_plugin(kernel_function: Any) -> ThirdPartyPlugin:
    traits = OpTraits(
        effects=frozenset({"state"}), resources=(ResourceUse("var", reads=True, writes=True),)
    )
    op = OpDef(
        "Foreign>Step", (ArgDef("var", dtypes.resource),), (), is_stateful=True, traits=traits
    )
    return ThirdPartyPlugin([op], [kernel_function])


def hidden_steps() -> Any:
    """Return a kernel that counts its calls, and adds the count to a variable."""

    @kernel("Foreign>Step", stateful=True, effects=["state"], traces_variables=True)
    def step(ctx: Any, var: Any) -> None:
        variable = var.expect(Variable)
        ctx.state["calls"] = ctx.state.get("calls", 0) + 1
        with variable.lock:
            variable.value = ctx.xp.add(variable.value, np.float32(ctx.state["calls"]))

    return step


@pytest.mark.jax
@pytest.mark.parametrize("tier", ["tiered", "eager"])
def test_non_variable_state_is_found(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """State that changes with each kernel call, but not in a program, is reported."""
    host = graphmill.Host(plugins=[step_plugin(hidden_steps())])
    found = find(host, STEP, tier, monkeypatch)
    assert "Foreign>Step" in found
    assert "hidden_steps.step of plugin 'ThirdPartyPlugin'" in found
    assert "run " in found


class TestStatelessStep(PluginTests):
    """The same op with a stateless kernel passes, and is compiled."""

    cases = STEP

    @pytest.fixture
    def host(self) -> graphmill.Host:
        @kernel("Foreign>Step", stateful=True, effects=["state"], traces_variables=True)
        def step(ctx: Any, var: Any) -> None:
            variable = var.expect(Variable)
            with variable.lock:
                variable.value = ctx.xp.add(variable.value, np.float32(1))

        return graphmill.Host(plugins=[step_plugin(step)])


MEET = """[["Foreign>Meet"]]
nodes = ["a = Foreign>Meet(x)", "b = Foreign>Meet(x)"]
feed.x = "float32: 1"
run = ["a b"]
"""


@pytest.mark.parametrize("tier", ["tiered", "eager", "deterministic"])
def test_undeclared_wait_is_found(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Any] = []

    @kernel("Foreign>Meet", async_=True, waits=False, effects=["state"])
    def meet(ctx: Any, x: Any, *, done: Any) -> None:
        waiting.append(lambda: done(x))
        if len(waiting) == 2:  # the call of the second node ends the wait of the first
            for end in waiting:
                end()
            waiting.clear()

    op = float_op("Foreign>Meet", is_stateful=True)
    host = graphmill.Host(plugins=[ThirdPartyPlugin([op], [meet])])
    found = find(host, MEET, tier, monkeypatch)
    for text in ("waits for another node", "Foreign>Meet", "ThirdPartyPlugin", "waits=True"):
        assert text in found


@pytest.mark.jax
def test_lowering_that_never_compiles_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(trace: Any, x: Any) -> Any:
        raise NotTraceable("it is never traceable")

    @kernel("Foreign>Root", backend="numpy", lowering=refuses)
    def root(x: Any) -> Any:
        return np.sqrt(x)

    host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Root")], [root])])
    cases = list(parse_cases(CASES, "own"))
    with pytest.raises(pytest.fail.Exception, match="but none of its cases is") as caught:
        PluginTests().test_kernels_with_declared_lowerings_are_compiled(cases, host, monkeypatch)
    for text in ("Foreign>Root", "ThirdPartyPlugin", "it is never traceable"):
        assert text in str(caught.value)


@pytest.mark.parametrize("way", ["pathlib", "os", "spi"])
def test_a_kernel_that_opens_files_without_the_broker_is_found(way: str) -> None:
    def opened() -> bytes:
        if way == "pathlib":
            return Path(os.devnull).read_bytes()
        if way == "os":
            os.close(os.open(os.devnull, os.O_RDONLY))
            return b""
        return files.read_bytes("/proc/self/cmdline")

    @kernel("Foreign>Root", host=True, effects=["fs.read"])
    def root(x: Any) -> Any:
        opened()
        return np.sqrt(x)

    host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Root")], [root])])
    with pytest.raises(
        AssertionError, match=r"Foreign>Root.* without the broker: .*open '/"
    ) as caught:
        PluginTests().test_kernels_open_files_through_the_broker(
            list(parse_cases(CASES, "own")), host
        )
    assert "brokered=True" in str(caught.value)


def test_a_kernel_that_opens_files_through_the_broker_is_sound() -> None:
    @kernel("Foreign>Root", host=True, effects=["fs.read"], brokered=True)
    def root(x: Any, *, broker: files.Broker) -> Any:
        assert broker.read_bytes(__file__)
        return np.sqrt(x)

    host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Root")], [root])])
    PluginTests().test_kernels_open_files_through_the_broker(list(parse_cases(CASES, "own")), host)


def test_no_lowering_need_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    @kernel("Foreign>Root", host=True)
    def root(x: Any) -> Any:
        return np.sqrt(x)

    host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Root")], [root])])
    cases = list(parse_cases(CASES, "own"))
    with pytest.raises(pytest.skip.Exception):
        PluginTests().test_kernels_with_declared_lowerings_are_compiled(cases, host, monkeypatch)


@pytest.mark.parametrize("kind", ["kernels", "lowerings"])
def test_a_misspelt_op_is_found_and_named(kind: str) -> None:
    class Misspelt(ThirdPartyPlugin):
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


class Derived(ThirdPartyPlugin):
    """A plugin with a square, and a gradient with a given factor."""

    def __init__(self, factor: float, dtype: dtypes.DType = dtypes.float32) -> None:
        args = [(ArgDef(name, dtype),) for name in "xy"]

        @kernel("Foreign>Square")
        def square(xp: Any, x: Any) -> Any:
            return x * x

        super().__init__([OpDef("Foreign>Square", *args)], [square])
        self._factor = factor

    @graphmill.hookimpl
    def graphmill_register_gradients(self, gradients: Any) -> None:
        @graphmill.gradient("Foreign>Square")
        def square_gradient(op: Any, dy: Any) -> Any:
            return dy * op.inputs[0] * self._factor

        gradients.add(square_gradient)


def square_case(dtype: str = "float32") -> Any:
    text = f'[["Foreign>Square"]]\nin = ["{dtype}[2,3]"]\n'
    (case,) = parse_cases(text, "own")
    return case


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_a_right_gradient_passes(dtype: dtypes.DType) -> None:
    host = graphmill.Host(plugins=[Derived(2.0, dtype)])
    PluginTests().test_gradients_match_finite_differences(square_case(dtype.name), host)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("factor", [7.0, 2.2, -2.0])
def test_a_wrong_gradient_is_found_and_named(factor: float, dtype: dtypes.DType) -> None:
    host = graphmill.Host(plugins=[Derived(factor, dtype)])
    with pytest.raises(AssertionError) as caught:
        PluginTests().test_gradients_match_finite_differences(square_case(dtype.name), host)
    found = re.search(
        r"op Foreign>Square, gradient of .*Derived.* by input 'x' .* gives (\S+), finite "
        r"differences give (\S+?)\.? If",
        str(caught.value),
    )
    assert found, str(caught.value)
    assert float(found[1]) / float(found[2]) == pytest.approx(factor / 2, rel=0.02)


def test_a_gradient_that_differs_on_purpose_is_excluded() -> None:
    class TestExcluded(PluginTests):
        exclude: ClassVar[dict[str, str]] = {"Foreign>Square": "the factor is 7 on purpose"}

    host = graphmill.Host(plugins=[Derived(7.0)])
    with pytest.raises(pytest.skip.Exception, match="on purpose"):
        TestExcluded().test_gradients_match_finite_differences(square_case(), host)


def test_gradients_of_ops_with_effects_are_not_checked() -> None:
    plugin = ThirdPartyPlugin([float_op("Foreign>Root", is_stateful=True)])
    (case,) = parse_cases(CASES, "own")
    assert "declares effects" in why_not_checked(case, graphmill.Host(plugins=[plugin]))


def test_a_case_of_integers_has_no_finite_differences() -> None:
    host = graphmill.Host(plugins=[Derived(7.0, dtypes.int32)])
    assert "no input and output are both float64" in why_not_checked(square_case("int32"), host)
    with pytest.raises(pytest.skip.Exception, match="no input and output are both float64"):
        PluginTests().test_gradients_match_finite_differences(square_case("int32"), host)


def test_a_built_in_gradient_is_not_checked() -> None:
    (case,) = parse_cases('[[Square]]\nin = ["float32[2]"]\n', "own")
    with pytest.raises(pytest.skip.Exception, match="no plugin has a gradient for Square"):
        PluginTests().test_gradients_match_finite_differences(case, graphmill.default_host())
