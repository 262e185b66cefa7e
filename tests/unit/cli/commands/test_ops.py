"""`graphmill ops` lists ops and describes one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill.cli import error_reporting
from graphmill.plugin.host import Host
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.fakes.third_party_plugin import float_op

if TYPE_CHECKING:
    from collections.abc import Callable


@kernel("Relu", types={"T": ("float32",)})
def relu(xp: Any, features: Any) -> Any:
    return xp.maximum(features, 0)


class ReluPlugin:
    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        kernels.add(relu)


@pytest.fixture
def host() -> Host:
    return Host(plugins=[ReluPlugin()], load_entry_points=False)


def test_all_ops_are_listed(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "--json", host=host)
    ops = json.loads(outcome.out)["ops"]
    assert len(ops) > 1000
    conv2d = next(op for op in ops if op["name"] == "Conv2D")
    assert conv2d["family"] == "nn"
    assert conv2d["summary"].startswith("Convolve images ")


def test_ops_are_chosen_by_pattern_and_family(
    graphmill_cli: Callable[..., Any], host: Host
) -> None:
    outcome = graphmill_cli("ops", "Rel*", "--family", "nn", host=host)
    assert outcome.out.splitlines() == [
        "op         family  description",
        "Relu       nn      Return max(features, 0).",
        "Relu6      nn      Return min(max(features, 0), 6).",
        "Relu6Grad  nn      Pass gradients where features are between 0 and 6.",
        "ReluGrad   nn      Pass gradients where features are positive.",
    ]


def test_kernels_lists_only_ops_with_a_kernel(
    graphmill_cli: Callable[..., Any], host: Host
) -> None:
    outcome = graphmill_cli("ops", "--kernels", "--json", host=host)
    assert [op["name"] for op in json.loads(outcome.out)["ops"]] == ["Relu"]


def test_no_kernels_lists_only_ops_without_a_kernel(
    graphmill_cli: Callable[..., Any], host: Host
) -> None:
    outcome = graphmill_cli("ops", "Relu*", "--no-kernels", host=host)
    assert "Relu6" in outcome.out
    assert "Relu \n" not in outcome.out


def test_pattern_without_ops_says_so(graphmill_cli: Callable[..., Any], host: Host) -> None:
    assert graphmill_cli("ops", "Xyz*", host=host).out == "no such op\n"


def test_unknown_family_lists_families(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "--family", "maths", host=host)
    assert outcome.code == error_reporting.INVALID
    assert "did you mean 'math'" in outcome.err


def test_unknown_op_gets_near_matches(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "relu", host=host)
    assert outcome.code == error_reporting.INVALID
    assert "'Relu'" in outcome.err


def test_unknown_op_gets_our_name_of_tensorflows_function(
    graphmill_cli: Callable[..., Any], host: Host
) -> None:
    outcome = graphmill_cli("ops", "reduce_mean", host=host)
    assert "tf.reduce_mean is graphmill.functions.reduce_mean here" in outcome.err


def test_one_op_is_described_with_its_kernel(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "Relu", host=host)
    assert outcome.out.startswith("Relu (nn)\n\nReturn max(features, 0).\n")
    assert "T: float32" in outcome.out
    assert "ReluPlugin" in outcome.out


def test_op_is_described_as_json(graphmill_cli: Callable[..., Any], host: Host) -> None:
    data = json.loads(graphmill_cli("ops", "Relu", "--json", host=host).out)
    assert data["inputs"] == [{"name": "features", "type": "T"}]
    assert "bfloat16" in data["attrs"][0]["allowed"]
    assert [kernel["types"] for kernel in data["kernels"]] == [{"T": ["float32"]}]


class CubeRoot:
    """A plugin with an op without family, and everything that belongs to it."""

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        ops.add(float_op("Mine>CubeRoot"))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        @kernel("Mine>CubeRoot", backend="numpy", lowering=traced_cube_root)
        def cube_root(x: Any) -> Any:
            return np.cbrt(x)

        kernels.add(cube_root)

    @graphmill.hookimpl
    def graphmill_register_gradients(self, gradients: Any) -> None:
        gradients.add(graphmill.gradient("Mine>CubeRoot")(cube_root_gradient))


def traced_cube_root(trace: Any, x: Any) -> Any:
    return trace.xp.cbrt(x)


def cube_root_gradient(op: Any, grad: Any) -> Any:
    return grad / (op.outputs[0] * op.outputs[0] * 3.0)


def test_gradient_and_lowering_of_an_op_name_their_plugin(
    graphmill_cli: Callable[..., Any],
) -> None:
    host = Host(plugins=[CubeRoot()], load_entry_points=False)
    outcome = graphmill_cli("ops", "Mine>CubeRoot", host=host)
    lines = outcome.out.splitlines()
    assert lines[0] == "Mine>CubeRoot"  # no family
    for function in (cube_root_gradient, traced_cube_root):
        (line,) = (line for line in lines if line.startswith(f"{__name__}.{function.__name__} "))
        assert "CubeRoot" in line.partition(" ")[2]
    data = json.loads(graphmill_cli("ops", "Mine>CubeRoot", "--json", host=host).out)
    assert [one["source"] for one in data["lowerings"]] == [f"{__name__}.traced_cube_root"]
    assert [one["source"] for one in data["gradients"]] == [f"{__name__}.cube_root_gradient"]
    (record,) = host.plugins
    assert record.counts == {"ops": 1, "kernels": 1, "lowerings": 1, "gradients": 1}


def test_op_without_gradient_is_named(graphmill_cli: Callable[..., Any], host: Host) -> None:
    assert "no gradient is registered" in graphmill_cli("ops", "Relu", host=host).out


def test_an_op_without_summary_is_described_by_its_kernel(
    graphmill_cli: Callable[..., Any],
) -> None:
    @kernel("KthOrderStatistic")
    def clip(xp: Any, features: Any) -> Any:
        """Limit each element to
        0..6.

        More about it.
        """
        return xp.clip(features, 0, 6)

    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_kernels(self, kernels: Any) -> None:
            kernels.add(clip)

    host = Host(plugins=[Plugin()], load_entry_points=False)
    data = json.loads(graphmill_cli("ops", "KthOrderStatistic", "--json", host=host).out)
    assert data["summary"] == "Limit each element to 0..6."
    outcome = graphmill_cli("ops", "KthOrderStatistic", host=host)
    assert "Limit each element to 0..6." in outcome.out


def test_a_kernel_of_many_ops_describes_none(graphmill_cli: Callable[..., Any]) -> None:
    @kernel("TopKUnique", "TopKWithUnique", "MakeUnique", "Unary")
    def any_of_many(xp: Any, x: Any) -> Any:
        """Compute something."""
        return x

    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_kernels(self, kernels: Any) -> None:
            kernels.add(any_of_many)

    host = Host(plugins=[Plugin()], load_entry_points=False)
    data = json.loads(graphmill_cli("ops", "MakeUnique", "--json", host=host).out)
    assert data["summary"] == ""


def test_an_op_without_a_kernel_says_so(graphmill_cli: Callable[..., Any], host: Host) -> None:
    assert "no kernel here" in graphmill_cli("ops", "Conv2D", host=host).out


@pytest.mark.parametrize("op", ["Const", "ConcatV2", "Assign", "If", "VarHandleOp", "NoOp"])
def test_every_kind_of_signature_can_be_shown(
    graphmill_cli: Callable[..., Any], host: Host, op: str
) -> None:
    assert graphmill_cli("ops", op, host=host).code == 0
    assert graphmill_cli("ops", op, "--json", host=host).code == 0


SURVEY = {
    "graph_op_names": ["Relu", "Conv2D", "CudnnRNN"],
    "graphs": [
        {"name": "a", "ops": [[0, 3]]},
        {"name": "b", "ops": [[0, 1], [1, 2]]},
        {"name": "c", "ops": [[0, 1], [2, 1]]},
        {"name": "d", "synthetic": True, "ops": [[1, 1]]},
    ],
    "ops": {
        "Relu": {"tier": "T0", "kernels": ["cpu", "gpu"]},
        "Conv2D": {"tier": "T1", "kernels": ["cpu"]},
        "CudnnRNN": {"tier": "T1", "kernels": ["gpu"]},
    },
}


def test_ops_of_a_survey_are_counted(
    graphmill_cli: Callable[..., Any], host: Host, tmp_path: Any
) -> None:
    (tmp_path / "op_frequency.json").write_text(json.dumps(SURVEY))
    outcome = graphmill_cli("ops", "--coverage", str(tmp_path), "--json", host=host)
    found = json.loads(outcome.out)
    assert found["tiers"]["T0"] == {"ops": 1, "covered": 1, "missing": []}
    assert found["tiers"]["T1"]["missing"] == ["Conv2D", "CudnnRNN"]
    assert (found["graphs"], found["covered"], found["runnable"]) == (3, 1, 2)
    assert found["lacking"] == {"b": ["Conv2D"]}
    text = graphmill_cli("ops", "--coverage", str(tmp_path), host=host).out
    assert "1 of 3 graphs have kernels for all their ops; 2 for all" in text
    assert "b lacks Conv2D" in text


@pytest.mark.parametrize("content", [None, "nothing", "[]", '{"ops": {"A": 1}}'])
def test_invalid_survey_is_reported(
    graphmill_cli: Callable[..., Any], host: Host, tmp_path: Any, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "op_frequency.json").write_text(content)
    outcome = graphmill_cli("ops", "--coverage", str(tmp_path), host=host)
    assert outcome.code != 0
    assert "op_frequency.json" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("Add", "--coverage", "survey"),
        ("--coverage", "survey", "--family", "math"),
        ("Add", "--family", "math"),
        ("Add", "--no-kernels"),
    ],
)
def test_option_without_effect_is_refused(
    graphmill_cli: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    outcome = graphmill_cli("ops", *arguments)
    assert outcome.code == 2
    assert "leave" in outcome.err
