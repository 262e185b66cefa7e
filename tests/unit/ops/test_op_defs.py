"""Every TensorFlow op has a definition (clause G3)."""

from __future__ import annotations

import json
import keyword
import re

import pytest

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.ops import FAMILIES
from graphmill.ops.definition.names import function_name
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_def_json import op_def_from_json, op_def_to_json
from graphmill.ops.definition.op_def_validation import validate_op_def
from graphmill.ops.definition.op_registry import bundled_ops
from graphmill.ops.definition.system_ops import NO_OP

NUMBER_OF_OPS = 2101


def test_every_line_starts_with_the_name_that_the_index_takes() -> None:
    bundled = bundled_ops()

    assert len(bundled.names()) == NUMBER_OF_OPS
    assert list(bundled.names()) == sorted(bundled.names())
    for name, line in bundled._lines.items():
        assert json.loads(line)["name"].encode() == name


def test_every_definition_is_sound_and_survives_message_and_json() -> None:
    bundled = bundled_ops()
    for name in bundled.names():
        op_def = bundled.get(name)
        assert op_def is not None
        validate_op_def(op_def)
        message = op_def.to_proto()
        again = OpDef.from_proto(message, op_def.family)
        assert again == op_def, name
        assert again.to_proto() == message, name
        assert op_def_from_json(op_def_to_json(op_def)) == op_def, name


def test_families_are_those_of_the_modules() -> None:
    assert sorted(bundled_ops().families()) == sorted(FAMILIES)
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in FAMILIES)


def test_family_is_known_without_parsing() -> None:
    assert bundled_ops().family("MatMul") == "math"
    assert bundled_ops().family("NoSuchOp") is None


def test_function_names_are_unique_identifiers_within_a_family() -> None:
    for family, names in bundled_ops().families().items():
        functions = [function_name(name) for name in names]
        assert len(set(functions)) == len(functions), family
        assert all(name.isidentifier() and not keyword.iskeyword(name) for name in functions)


def test_input_and_attr_names_of_an_op_do_not_clash() -> None:
    for name in bundled_ops().names():
        op_def = bundled_ops().get(name)
        assert op_def is not None
        names = [part.name for part in (*op_def.input_args, *op_def.attrs)]
        assert len(set(names)) == len(names), name


def test_the_no_op_of_core_is_that_of_the_data() -> None:
    assert bundled_ops().get("NoOp") == NO_OP


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("AddV2", "add_v2"),
        ("Conv2DBackpropInput", "conv2d_backprop_input"),
        ("FFT2D", "fft2d"),
        ("TopKV2", "top_kv2"),
        ("IsNan", "is_nan"),
        ("If", "if_"),
        ("_Arg", "_arg"),
        ("Namespace>TestStringOutput", "namespace_test_string_output"),
        ("BatchMatMulV2", "batch_mat_mul_v2"),
    ],
)
def test_function_names_are_those_of_tensorflow(op: str, expected: str) -> None:
    assert function_name(op) == expected


def arg(**changes: object) -> OpDef:
    return OpDef("Op", input_args=(ArgDef("x", **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op_def", "message"),
    [
        (OpDef("lower"), "not a valid op name"),
        (OpDef("Name With Spaces"), "not a valid op name"),
        (OpDef("Op", input_args=(ArgDef("X", dtypes.int32),)), "not a valid name of an input"),
        (arg(), "exactly one of type"),
        (arg(type=dtypes.int32, type_attr="T"), "exactly one of type"),
        (arg(type_attr="T"), "not an attr of type type"),
        (arg(type=dtypes.int32, number_attr="N"), "not an attr of type int"),
        (OpDef("Op", attrs=(AttrDef("a", "number"),)), "unknown type 'number'"),
        (OpDef("Op", attrs=(AttrDef("a", "float", minimum=1),)), "cannot have a minimum"),
        (OpDef("Op", attrs=(AttrDef("a", "int", 1, minimum=2),)), "at least 2"),
        (OpDef("Op", attrs=(AttrDef("a", "int"), AttrDef("a", "int"))), "several attrs"),
    ],
)
def test_an_unsound_definition_is_refused(op_def: OpDef, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        validate_op_def(op_def)
