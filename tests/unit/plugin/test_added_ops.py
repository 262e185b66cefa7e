"""Ops that plugins add: provenance, conflicts, removal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from graphmill import dtypes, errors
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.registry import CORE, PluginConflictError, Provenance

if TYPE_CHECKING:
    from graphmill.dtypes import DType

ONE = Provenance("one", "dist-one", "1")
TWO = Provenance("two", "dist-two", "2")


def op(name: str = "Mine>Op", dtype: DType = dtypes.float32) -> OpDef:
    return OpDef(name, input_args=(ArgDef("x", dtype),))


def test_two_definitions_of_one_op_conflict() -> None:
    ops = OpRegistry()
    ops.add(op(), owner=ONE)
    with pytest.raises(PluginConflictError) as caught:
        ops.add(op(dtype=dtypes.int32), owner=TWO)
    assert caught.value.owners == (ONE, TWO)
    assert "dist-one 1" in str(caught.value)
    assert "dist-two 2" in str(caught.value)


def test_an_op_of_tensorflow_conflicts_with_core() -> None:
    with pytest.raises(PluginConflictError) as caught:
        OpRegistry().add(op("MatMul"), owner=ONE)
    assert caught.value.owners == (CORE, ONE)
    assert caught.value.op_type == "MatMul"


@pytest.mark.parametrize("order", list(itertools.permutations([False, True])))
def test_replace_wins_in_either_order(order: tuple[bool, bool]) -> None:
    ops = OpRegistry()
    for replace in order:
        dtype = dtypes.int32 if replace else dtypes.float32
        ops.add(op(dtype=dtype), owner=TWO if replace else ONE, replace=replace)
    assert ops.get("Mine>Op") == op(dtype=dtypes.int32)
    assert "two" in ops.owner("Mine>Op")


def test_the_same_definition_stays_while_one_of_two_owners_does() -> None:
    ops = OpRegistry()
    ops.add(op(), owner=ONE)
    ops.add(op(), owner=TWO)
    ops.withdraw(ONE)
    assert "two" in ops.owner("Mine>Op")
    ops.withdraw(TWO)
    with pytest.raises(errors.NotFoundError):
        ops.get("Mine>Op")


def test_withdrawing_a_replacement_restores_tensorflows_op() -> None:
    ops = OpRegistry()
    original = ops.get("MatMul")
    ops.add(op("MatMul"), owner=ONE, replace=True)
    assert ops.get("MatMul") != original
    ops.withdraw(ONE)
    assert ops.get("MatMul") == original
    assert ops.owner("MatMul") == "TensorFlow"
