"""A plugin kernel that fails during tracing leaves its cluster interpreted."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.explain import explain_all
from graphmill.registry import PluginWarning
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.spi import Check, dtypes, kernel, lowering, op

pytest.importorskip("jax")
pytestmark = pytest.mark.jax

T = TypeVar("T")


class OnlyNumPy:
    """A plugin whose kernel, lowering or check works, except during tracing."""

    def __init__(self, error: BaseException, part: str = "kernel") -> None:
        self.error, self.part = error, part

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        ops.add(self._declared())

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        kernels.add(self._declared())

    @graphmill.hookimpl
    def graphmill_register_lowerings(self, lowerings: Any) -> None:
        if self.part == "kernel":
            return

        @lowering("Faulty>Double", check=Check(self._holds, of="inputs"))
        def doubled(trace: Any, x: Any) -> Any:
            del trace
            if self.part == "lowering":
                raise self.error
            return x + x

        lowerings.add(doubled)

    def _holds(self, xp: Any, x: Any) -> Any:
        if self.part == "check":
            raise self.error
        return xp.all(x == x)

    def _declared(self) -> Any:
        @op("Faulty>Double", types={"T": dtypes.FLOATING})
        @kernel("Faulty>Double")
        def double(xp: Any, x: T) -> T:
            if xp is not np and self.part == "kernel":
                raise self.error
            return x + x

        return double


def faulty_session(
    error: BaseException, make_host: Any, mode: str, part: str = "kernel"
) -> graphmill.Session:
    return session(make_host(OnlyNumPy(error, part)), mode)


def session(host: Any, mode: str) -> graphmill.Session:
    graph = graphmill.Graph(host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        doubled = graph.create_op("Faulty>Double", [x], name="doubled")
        ops.math.tanh(ops.math.neg(graph.outputs_of(doubled)[0]), name="y")
    return graphmill.Session(graph=graph, config={"graphmill": {"jit": mode}}, host=host)


def run(made: graphmill.Session, steps: int, size: int = 2) -> None:
    for _ in range(steps):
        found = made.run("y:0", {"x:0": np.ones(size)})
        assert found == pytest.approx(np.tanh(np.full(size, -2.0)))
        made._impl.host.background.wait_idle()


def run_two_signatures(made: graphmill.Session) -> None:
    run(made, 8)
    run(made, 4, size=3)


def signatures(made: graphmill.Session) -> list[Any]:
    (step,) = explain_all(made)
    (compilation,) = step.compilations.values()
    return [one for cluster in compilation.clusters for one in cluster.signatures]


@pytest.mark.parametrize(
    "error", [ValueError("my own bug"), KeyError("my own bug"), OSError("my own bug")], ids=repr
)
@pytest.mark.parametrize("mode", ["tiered", "eager"])
def test_kernel_failing_to_trace_leaves_steps_interpreted(
    mode: str, error: Exception, make_host: Any
) -> None:
    with faulty_session(error, make_host, mode) as made:
        with pytest.warns(PluginWarning, match="my own bug") as warnings:
            run_two_signatures(made)
        first, second = signatures(made)
    assert len([one for one in warnings if one.category is PluginWarning]) == 1
    for record in (first, second):
        assert (record.tier, record.state) == ("straight-line", "compiler failed")
        assert "OnlyNumPy" in record.reason
        assert f"{type(error).__name__}: " in record.reason
        assert "doubled (Faulty>Double)" in record.reason
        assert record.num_compiled == 0
    assert first.num_straight == (8 if mode == "eager" else 5)


@pytest.mark.parametrize("mode", ["tiered", "eager"])
def test_built_in_kernel_failing_to_trace_is_interpreted(
    mode: str, make_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("a bug of ours")

    monkeypatch.setattr("jax.numpy.tanh", broken)
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.tanh(ops.math.neg(x + x), name="y")
    config = {"graphmill": {"jit": mode}}
    with graphmill.Session(graph=graph, config=config, host=make_host()) as made:
        with pytest.warns(PluginWarning, match="graphmill.* failed while it was traced.*of ours"):
            run(made, 8)
        (record,) = signatures(made)
    assert (record.tier, record.state) == ("straight-line", "compiler failed")


@pytest.mark.parametrize("mode", ["tiered", "eager"])
@pytest.mark.parametrize("op_type", ["Faulty>Sum", "AddV2"])
def test_shape_mismatch_is_a_step_error_not_a_fault(
    op_type: str, mode: str, make_host: Any, recwarn: pytest.WarningsRecorder
) -> None:
    graph_host = make_host(Sums())
    graph = graphmill.Graph(graph_host.ops)
    with graph.as_default():
        x, y = (graph.placeholder("float32", None, name=name) for name in "xy")
        total = graph.outputs_of(graph.create_op(op_type, [x, y], name="total"))[0]
        ops.math.tanh(ops.math.neg(total), name="z")
    config = {"graphmill": {"jit": mode}}
    with graphmill.Session(graph=graph, config=config, host=graph_host) as made:
        for _ in range(8):
            with pytest.raises(InvalidArgumentError, match="total"):
                made.run("z:0", {"x:0": np.ones(2), "y:0": np.ones(3)})
            made._impl.host.background.wait_idle()
    assert not [one for one in recwarn if one.category is PluginWarning]


class Sums:
    """A plugin whose kernel relies on the namespace to reject shapes."""

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        ops.add(self._declared())

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        kernels.add(self._declared())

    def _declared(self) -> Any:
        @op("Faulty>Sum", types={"T": dtypes.FLOATING})
        @kernel("Faulty>Sum")
        def total(xp: Any, x: T, y: T) -> T:
            return xp.add(x, y)

        return total


@pytest.mark.parametrize("part", ["lowering", "check"])
@pytest.mark.parametrize("mode", ["tiered", "eager"])
def test_a_lowering_or_check_that_raises_leaves_steps_interpreted(
    part: str, mode: str, make_host: Any
) -> None:
    with faulty_session(LookupError("my own bug"), make_host, mode, part) as made:
        with pytest.warns(PluginWarning, match="OnlyNumPy.*my own bug"):
            run(made, 8)
        (record,) = signatures(made)
    assert (record.tier, record.state) == ("straight-line", "compiler failed")
    assert "LookupError: my own bug" in record.reason


class WrongResult(OnlyNumPy):
    """A plugin whose lowering returns `result` of `jax.numpy` and x."""

    def __init__(self, result: Any) -> None:
        super().__init__(LookupError(), "nothing")
        self._result = result

    @graphmill.hookimpl
    def graphmill_register_lowerings(self, lowerings: Any) -> None:
        @lowering("Faulty>Double")
        def wrongly_doubled(trace: Any, x: Any) -> Any:
            return self._result(trace.xp, x)

        lowerings.add(wrongly_doubled)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda xp, x: (x + x).astype(xp.float16), "float16, expected float32"),
        (lambda xp, x: (x, x), "2 outputs, expected 1 outputs"),
        (lambda xp, x: None, "a NoneType, expected a tensor"),
    ],
    ids=["dtype", "count", "type"],
)
@pytest.mark.parametrize("mode", ["tiered", "eager"])
def test_a_lowering_that_returns_another_type_is_a_fault_of_its_plugin(
    mode: str, result: Any, text: str, make_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "0")  # else it is an error
    with session(make_host(WrongResult(result)), mode) as made:
        with pytest.warns(PluginWarning, match="wrongly_doubled.* returns") as warnings:
            run_two_signatures(made)
        records = signatures(made)
    assert len([one for one in warnings if one.category is PluginWarning]) == 1
    for record in records:
        assert record.state == "compiler failed"
        assert "doubled (Faulty>Double): its lowering " in record.reason
        assert text in record.reason


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_interrupt_during_tracing_reaches_the_caller(error: BaseException, make_host: Any) -> None:
    with faulty_session(error, make_host, "eager") as made:
        with pytest.raises(type(error)):
            made.run("y:0", {"x:0": [1.0]})
        run(made, 1, size=1)  # it is not tried again


def break_compiler(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    from graphmill_plugins.jit.programs import compiler

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(compiler, "compile_program", fail)


@pytest.mark.parametrize("mode", ["tiered", "eager"])
def test_a_fault_of_the_compiler_leaves_steps_interpreted(
    mode: str, make_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_compiler(monkeypatch, KeyError("a bug of ours"))
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.tanh(x * -2.0, name="y")
    with graphmill.Session(
        graph=graph, config={"graphmill": {"jit": mode}}, host=make_host()
    ) as made:
        with pytest.warns(PluginWarning, match="the compiler failed: KeyError"):
            run(made, 8)
        (record,) = signatures(made)
    assert record.state == "compiler failed"


def test_internal_errors_surface_in_validation_mode(
    make_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    break_compiler(monkeypatch, InternalError("a broken invariant"))
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.tanh(x * -2.0, name="y")
    with (
        graphmill.Session(
            graph=graph, config={"graphmill": {"jit": "eager"}}, host=make_host()
        ) as made,
        pytest.raises(InternalError, match="a broken invariant"),
    ):
        made.run("y:0", {"x:0": [1.0]})
