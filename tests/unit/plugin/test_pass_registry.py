"""Passes run in the order of their registrations, also after withdrawals."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill import Graph, ops
from graphmill.errors import InvalidArgumentError
from graphmill.plugin.pass_registry import PassRegistry, has_ops
from graphmill.registry import Provenance

ONE = Provenance("one", "dist-one", "1")
TWO = Provenance("two", "dist-two", "2")


def nothing(graph: Any, options: Any) -> None:
    pass


def names(passes: PassRegistry, phase: str) -> list[str]:
    return [name for name, _ in passes.scheduled_in(phase)]


def test_a_pass_that_is_registered_later_runs_too() -> None:
    passes = PassRegistry()
    passes.add_pass("last", nothing, phase="HOT", order=3, owner=ONE)
    assert names(passes, "HOT") == ["last"]
    passes.add_pass("first", nothing, phase="HOT", owner=TWO)
    assert names(passes, "HOT") == ["first", "last"]
    assert names(passes, "PRE_PLACEMENT") == []


def test_a_replacing_pass_moves_to_its_own_phase() -> None:
    passes = PassRegistry()
    passes.add_pass("mine", nothing, phase="HOT", owner=ONE)
    assert names(passes, "HOT") == ["mine"]
    passes.add_pass("mine", nothing, phase="PRE_PLACEMENT", owner=TWO, priority=1)
    assert names(passes, "HOT") == []
    assert names(passes, "PRE_PLACEMENT") == ["mine"]


def test_withdrawn_passes_run_no_more() -> None:
    passes = PassRegistry()
    passes.add_pass("kept", nothing, phase="HOT", owner=ONE)
    passes.add_pass("gone", nothing, phase="HOT", owner=TWO)
    assert names(passes, "HOT") == ["gone", "kept"]
    passes.withdraw(TWO)
    assert names(passes, "HOT") == ["kept"]


def test_passes_that_are_left_out_stay_in_the_first_registry() -> None:
    passes = PassRegistry()
    passes.add_pass("kept", nothing, phase="HOT", owner=ONE)
    passes.add_pass("out", nothing, phase="HOT", owner=ONE)
    assert names(passes, "HOT") == ["kept", "out"]
    assert names(passes.without(["out"]), "HOT") == ["kept"]
    assert names(passes, "HOT") == ["kept", "out"]


def test_a_condition_has_to_be_callable() -> None:
    with pytest.raises(InvalidArgumentError, match=r"has_ops\('Op', \.\.\.\)") as caught:
        PassRegistry().add_pass("p", nothing, phase="HOT", applies="OneHot", owner=ONE)  # type: ignore[arg-type]
    assert caught.value.plugin == "one"


def test_has_ops_finds_an_op_of_a_graph() -> None:
    graph = Graph()
    with graph.as_default():
        ops.math.exp(graph.placeholder("float32"))
    options: Any = None
    assert has_ops("Log", "Exp")(graph, options)
    assert not has_ops("Log")(graph, options)
    assert not has_ops()(graph, options)
