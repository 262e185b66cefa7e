"""The effects of ops as data."""

from __future__ import annotations

import re

import pytest

from graphmill import dtypes
from graphmill.ops.definition.effects import _TABLE, EFFECTS, effects_of, listed_effects
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.ops.definition.op_registry import bundled_ops
from graphmill.runtime.kernels import kernel


def effects(name: str) -> set[str]:
    op_def = bundled_ops().get(name)
    assert op_def is not None
    return set(effects_of(op_def))


def test_the_table_names_ops_that_exist_once_each() -> None:
    names = [name for text in _TABLE.values() for name in text.split()]
    assert len(set(names)) == len(names)
    assert set(names) <= set(bundled_ops().names())


def test_the_table_uses_effects_that_exist() -> None:
    assert frozenset().union(*listed_effects().values()) == EFFECTS
    assert kernel.EFFECTS == EFFECTS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MatMul", set()),
        ("StatelessRandomUniformV2", set()),
        ("StatefulPartitionedCall", set()),
        ("RandomUniform", {"rng"}),
        ("VariableV2", {"state"}),
        ("Assign", {"state"}),
        ("LookupTableFindV2", {"state"}),
        ("ReadFile", {"fs.read"}),
        ("SaveV2", {"fs.write"}),
        ("MergeV2Checkpoints", {"fs.read", "fs.write"}),
        ("PrintV2", {"log", "fs.write"}),
        ("PyFunc", {"python"}),
        ("Timestamp", {"clock"}),
        ("RpcCall", {"net", "state"}),
        ("Abort", {"process"}),
    ],
)
def test_known_ops_have_their_effects(name: str, expected: set[str]) -> None:
    assert effects(name) == expected


def test_an_op_of_a_plugin_is_judged_by_its_definition() -> None:
    assert effects_of(OpDef("Mine")) == frozenset()
    assert effects_of(OpDef("Mine", is_stateful=True)) == {"state"}
    assert effects_of(OpDef("Mine", (ArgDef("x", dtypes.resource),))) == {"state"}


def test_ops_with_file_names_declare_effects() -> None:
    telling = re.compile(r"(Read|Write)File|^Save|^Restore|Records?Dataset$|Rpc|PyFunc|Kafka|Sql")
    silent = [name for name in bundled_ops().names() if telling.search(name) and not effects(name)]
    assert silent == []
