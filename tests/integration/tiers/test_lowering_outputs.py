"""Validation mode finds lowerings whose outputs differ from their kernels'."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill.errors import InternalError
from graphmill.ops import math
from graphmill.ops.definition.op_traits import OpTraits
from graphmill.registry import PluginWarning
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin, float_op
from graphmill.testing.tier_programs import PROGRAMS

pytestmark = pytest.mark.jax
TIERS = ("tiered", "eager")
STEPS = 6


def other_dtype(trace: Any, x: Any) -> Any:
    return x.astype("float64")


def other_shape(trace: Any, x: Any) -> Any:
    return trace.xp.reshape(x, (1, *x.shape))


def two_outputs(trace: Any, x: Any) -> Any:
    return x, x


def one_output(trace: Any, x: Any) -> Any:
    return x


def three_outputs(trace: Any, x: Any) -> Any:
    return x, x, x


FAULTS: dict[str, tuple[str, Any, str]] = {
    "dtype": ("y", other_dtype, "returns float64 for output 0, but the op has float32"),
    "shape": (
        "y",
        other_shape,
        "returns the shape [1, 2] for output 0, but its kernel returns [2]",
    ),
    "two of one": ("y", two_outputs, "returns 2 outputs, but the op has 1"),
    "one of two": ("y z", one_output, "but the op has 2"),
    "three of two": ("y z", three_outputs, "returns 3 outputs, but the op has 2"),
}


def plugin(outputs: str, lowering: Any) -> ThirdPartyPlugin:
    @kernel("Foreign>Copy", backend="numpy", lowering=lowering)
    def copy(x: Any) -> Any:
        return np.copy(x) if outputs == "y" else (np.copy(x), np.copy(x))

    return ThirdPartyPlugin([float_op("Foreign>Copy", outputs=outputs)], [copy])


def session(host: graphmill.Host, tier: str) -> graphmill.Session:
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        copies = graph.outputs_of(graph.create_op("Foreign>Copy", [math.mul(x, 2.0)], name="c"))
        math.add_v2(copies[0], copies[-1], name="y")
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    return graphmill.Session(graph=graph, host=host, config=config)


def error_of(made: graphmill.Session, host: graphmill.Host) -> InternalError:
    """Return the first error of several steps; it must not be that of the first step."""
    for _ in range(STEPS):
        try:
            made.run("y:0", {"x:0": [1.0, 2.0]})
        except InternalError as error:
            return error
        host.background.wait_idle(60)
    raise AssertionError("no step failed")


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("fault", FAULTS)
def test_output_mismatch_is_an_error_in_validation_mode(
    fault: str, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    outputs, lowering, words = FAULTS[fault]
    host = graphmill.Host(plugins=[plugin(outputs, lowering)])
    with session(host, tier) as made:
        error = error_of(made, host)
        again = error_of(made, host)
    for text in (words, "ThirdPartyPlugin", "Foreign>Copy", f"the lowering {__name__}"):
        assert text in error.message, error.message
    assert error.node == again.node == "c"
    assert again.message == error.message


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"shape"}))
def test_other_outputs_are_interpreted_with_a_warning_otherwise(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VALIDATE_VARIABLE, raising=False)
    outputs, lowering, _ = FAULTS[fault]
    host = graphmill.Host(plugins=[plugin(outputs, lowering)])
    with (
        session(host, "eager") as made,
        pytest.warns(
            PluginWarning, match=f"its lowering {__name__}.{lowering.__name__} of .* returns"
        ),
    ):
        assert made.run("y:0", {"x:0": [1.0, 2.0]}).tolist() == [4, 8]


@pytest.mark.parametrize("form", ["lowering", "kernel for JAX"])
@pytest.mark.parametrize("place", PROGRAMS)
def test_shape_that_the_op_cannot_have_is_interpreted_with_a_warning(
    form: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VALIDATE_VARIABLE, raising=False)

    @kernel("Foreign>Copy", backend="jax")
    def traced(xp: Any, x: Any) -> Any:
        return xp.reshape(x, (1, *x.shape))

    @kernel("Foreign>Copy", backend="numpy", lowering=other_shape if form == "lowering" else None)
    def copy(x: Any) -> Any:
        return np.copy(x)

    op = float_op("Foreign>Copy", traits=OpTraits(elementwise=True))
    kernels = [copy] if form == "lowering" else [copy, traced]
    host = graphmill.Host(plugins=[ThirdPartyPlugin([op], kernels)])
    program = PROGRAMS[place]
    graph = program.graph_def(host.ops, "Foreign>Copy")
    results = []
    for tier in ("off", "eager"):
        config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PluginWarning)
            with graphmill.Session(graph=graph, host=host, config=config) as made:
                results.append(made.run(program.fetch, program.feeds))
    np.testing.assert_array_equal(*results)
    (text,) = {str(one.message) for one in caught if one.category is PluginWarning}
    for words in ("ThirdPartyPlugin", "Foreign>Copy", "for output 0, but the op", "shape [1"):
        assert words in text, text


def test_traced_kernel_must_match_interpreted_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")

    @kernel("Foreign>Copy", backend="numpy")
    def copy(x: Any) -> Any:
        return np.copy(x)

    @kernel("Foreign>Copy", backend="jax")
    def first(xp: Any, x: Any) -> Any:
        return x[:1]

    host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Copy")], [copy, first])])
    with session(host, "eager") as made:
        error = error_of(made, host)
    assert "first, backend='jax', of" in error.message
    assert "returns the shape [1] for output 0, but its kernel returns [2]" in error.message


@pytest.mark.parametrize("place", PROGRAMS)
def test_other_outputs_are_found_in_bodies(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    host = graphmill.Host(plugins=[plugin("y", other_dtype)])
    program = PROGRAMS[place]
    config = {"graphmill": {"jit": "eager", "jit_min_cluster_size": 1}}
    graph = program.graph_def(host.ops, "Foreign>Copy")
    with (
        graphmill.Session(graph=graph, host=host, config=config) as made,
        pytest.raises(InternalError, match="returns float64 for output 0"),
    ):
        made.run(program.fetch, program.feeds)


def test_lowering_with_value_dependent_shape_is_not_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lowering whose output shape depends on input values is not rejected."""
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")

    def same(trace: Any, x: Any) -> Any:
        return x * 1

    @kernel("Foreign>Copy", backend="numpy", lowering=same)
    def copy(x: Any) -> Any:
        return x[x != 0]

    host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Copy")], [copy])])
    with session(host, "eager") as made:
        assert made.run("y:0", {"x:0": [1.0, 2.0]}).tolist() == [4, 8]
