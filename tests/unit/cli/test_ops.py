"""`graphmill ops` lists ops and tells about one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill.cli import failures
from graphmill.plugin.host import Host
from graphmill.runtime.kernel import kernel

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


def test_all_ops(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "--json", host=host)
    ops = json.loads(outcome.out)["ops"]
    assert len(ops) > 1000
    assert {"name": "Conv2D", "family": "nn"} in ops


def test_pattern_and_family(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "Rel*", "--family", "nn", host=host)
    assert outcome.out.splitlines() == [
        "op         family",
        "Relu       nn",
        "Relu6      nn",
        "Relu6Grad  nn",
        "ReluGrad   nn",
    ]


def test_only_ops_with_a_kernel(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "--kernels", "--json", host=host)
    assert json.loads(outcome.out)["ops"] == [{"name": "Relu", "family": "nn"}]


def test_only_ops_without_a_kernel(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "Relu*", "--no-kernels", host=host)
    assert "Relu6" in outcome.out
    assert "Relu \n" not in outcome.out


def test_no_op_fits(graphmill_cli: Callable[..., Any], host: Host) -> None:
    assert graphmill_cli("ops", "Xyz*", host=host).out == "no such op\n"


def test_unknown_family_lists_families(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "--family", "maths", host=host)
    assert outcome.code == failures.INVALID
    assert "did you mean 'math'" in outcome.err


def test_unknown_op_gets_near_matches(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "relu", host=host)
    assert outcome.code == failures.INVALID
    assert "'Relu'" in outcome.err


def test_one_op_with_its_kernel(graphmill_cli: Callable[..., Any], host: Host) -> None:
    outcome = graphmill_cli("ops", "Relu", host=host)
    assert outcome.out.startswith("Relu (nn)\n")
    assert "T: float32" in outcome.out
    assert "ReluPlugin" in outcome.out


def test_one_op_as_json(graphmill_cli: Callable[..., Any], host: Host) -> None:
    data = json.loads(graphmill_cli("ops", "Relu", "--json", host=host).out)
    assert data["inputs"] == [{"name": "features", "type": "T"}]
    assert "bfloat16" in data["attrs"][0]["allowed"]
    assert [kernel["types"] for kernel in data["kernels"]] == [{"T": ["float32"]}]


def test_an_op_without_a_kernel(graphmill_cli: Callable[..., Any], host: Host) -> None:
    assert "no kernel here" in graphmill_cli("ops", "Conv2D", host=host).out


@pytest.mark.parametrize("op", ["Const", "ConcatV2", "Assign", "If", "VarHandleOp", "NoOp"])
def test_every_kind_of_signature_can_be_shown(
    graphmill_cli: Callable[..., Any], host: Host, op: str
) -> None:
    assert graphmill_cli("ops", op, host=host).code == 0
    assert graphmill_cli("ops", op, "--json", host=host).code == 0
