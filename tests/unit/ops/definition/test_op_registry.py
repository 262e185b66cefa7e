"""`OpRegistry`: look-up, additions, conflicts (G3, and the hook graphmill_register_ops)."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill import dtypes
from graphmill.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_registry import OpRegistry, bundled_ops
from graphmill.registry import PluginConflictError, Provenance

TWICE = OpDef(
    "Downstream>Twice",
    (ArgDef("x", dtypes.float32),),
    (ArgDef("y", dtypes.float32),),
    family="downstream",
)
ONE, TWO = Provenance("one", "dist-one", "1.0"), Provenance("two", "dist-two", "2.0")


@pytest.fixture
def ops() -> OpRegistry:
    return OpRegistry()


def test_tensorflow_ops_are_registered_initially(ops: OpRegistry) -> None:
    assert "MatMul" in ops
    assert ops.get("MatMul").family == ops.family("MatMul") == "math"
    assert ops.owner("MatMul") == "TensorFlow"


def test_unknown_op_lists_near_matches_and_failed_plugins() -> None:
    ops = OpRegistry(failures=lambda: ["plugin 'x' does not import"])
    with pytest.raises(
        NotFoundError,
        match=r"unknown op 'Matmul'; did you mean 'MatMul' .*\? It is not .*, and no plugin",
    ) as caught:
        ops.get("Matmul")
    assert "plugin 'x' does not import" in caught.value.message
    assert "Matmul" not in ops
    assert 1 not in ops


def test_added_op_is_found(ops: OpRegistry) -> None:
    ops.add(TWICE, owner=ONE)

    assert ops.get("Downstream>Twice") is TWICE
    assert "dist-one" in ops.owner("Downstream>Twice")
    assert "downstream" in ops.families()
    assert ops.ops_in("downstream") == ["Downstream>Twice"]
    assert "Downstream>Twice" in ops.names()
    assert "Downstream>Twice" not in OpRegistry()


def test_a_message_can_be_added(ops: OpRegistry) -> None:
    ops.add(TWICE.to_proto())
    assert ops.get("Downstream>Twice").input_args == TWICE.input_args


@pytest.mark.parametrize(
    ("kind", "written", "canonical"),
    [
        ("string", "a", b"a"),
        ("float", 1, 1.0),
        ("list(float)", [1, 2], (1.0, 2.0)),
        ("list(string)", ["a"], (b"a",)),
        ("type", "float32", dtypes.float32),
    ],
)
def test_defaults_may_be_written_as_for_a_node(
    ops: OpRegistry, kind: str, written: Any, canonical: Any
) -> None:
    elements = written if isinstance(written, list) else [written]
    added = ops.add(OpDef("Mine", attrs=(AttrDef("a", kind, written, allowed=tuple(elements)),)))
    attr = added.attr("a")
    assert repr(attr.default) == repr(canonical)
    assert ops.add(added) is added
    with pytest.raises(InvalidArgumentError):
        ops.add(OpDef("Other", attrs=(AttrDef("a", kind, object()),)))


def test_the_same_definition_again_is_fine(ops: OpRegistry) -> None:
    ops.add(TWICE, owner=ONE)
    ops.add(TWICE, owner=TWO)
    ops.add(bundled_ops().get("MatMul"))
    ops.withdraw(ONE)
    assert "Downstream>Twice" in ops
    ops.withdraw(TWO)
    assert "Downstream>Twice" not in ops


def test_duplicate_definition_names_both_owners(ops: OpRegistry) -> None:
    ops.add(TWICE, owner=ONE)
    with pytest.raises(PluginConflictError, match="dist-two") as caught:
        ops.add(OpDef("Downstream>Twice"), owner=TWO)
    assert "dist-one" in caught.value.message
    assert set(caught.value.owners) == {ONE, TWO}
    assert ops.get("Downstream>Twice") is TWICE


def test_an_op_of_tensorflow_needs_replace(ops: OpRegistry) -> None:
    other = OpDef("MatMul")
    with pytest.raises(AlreadyExistsError, match="TensorFlow"):
        ops.add(other, owner=ONE)
    ops.add(other, owner=ONE, replace=True)
    assert ops.get("MatMul") is other
    assert "MatMul" not in ops.ops_in("math")


def test_names_of_tensorflows_own_tests_are_free(ops: OpRegistry) -> None:
    assert ops.family("Simple") == "testing"
    ops.add(OpDef("Simple"), owner=ONE)
    assert ops.get("Simple").family == ""


def test_invalid_op_definitions_are_refused(ops: OpRegistry) -> None:
    with pytest.raises(InvalidArgumentError, match="does not define an op"):
        ops.add(42)
    with pytest.raises(InvalidArgumentError, match="not a valid op name"):
        ops.add(OpDef("twice"))


def test_unknown_family_lists_alternatives(ops: OpRegistry) -> None:
    with pytest.raises(NotFoundError, match="did you mean 'math'"):
        ops.ops_in("maths")
