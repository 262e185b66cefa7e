"""`OpDef`: types of inputs and outputs, defaults, checks, inference (G1, G3, S3)."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from graphmill import dtypes, proto
from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.ops.attrs.attr_types import AttrPlaceholder, FuncAttr, ShapeAttr, TensorAttr
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_registry import bundled_ops

F32, F64, I32 = dtypes.float32, dtypes.float64, dtypes.int32


def op(name: str) -> OpDef:
    found = bundled_ops().get(name)
    assert found is not None
    return found


def test_types_follow_a_type_attr() -> None:
    assert op("AddV2").input_types({"T": F64}) == (F64, F64)
    assert op("AddV2").output_types({"T": F64}) == (F64,)


def test_fixed_types_need_no_attrs() -> None:
    assert op("MergeSummary").output_types({}) == (dtypes.string,)
    assert op("NoOp").input_types({}) == ()


def test_lists_unfold() -> None:
    attrs = {"N": 2, "T": F32, "Tidx": I32}
    assert op("ConcatV2").input_types(attrs) == (F32, F32, I32)
    assert op("ConcatV2").input_ranges(attrs) == {"values": (0, 2), "axis": (2, 3)}
    assert op("IdentityN").output_types({"T": (F32, I32)}) == (F32, I32)
    assert op("SplitV").output_ranges({"num_split": 3}) == {"output": (0, 3)}


def test_references_have_reference_types() -> None:
    assert op("Assign").input_types({"T": F32}) == (F32.as_ref, F32)
    assert op("VariableV2").output_types({"dtype": F32}) == (F32.as_ref,)


def test_a_missing_or_unbound_type_attr_is_named_with_the_op() -> None:
    with pytest.raises(InvalidArgumentError, match="'T' is missing") as caught:
        op("AddV2").input_types({})
    assert caught.value.op_type == "AddV2"
    with pytest.raises(InvalidArgumentError, match="placeholder 'Tin'"):
        op("AddV2").output_types({"T": AttrPlaceholder("Tin")})


def test_defaults_fill_missing_attrs_only() -> None:
    attrs = op("MatMul").with_defaults({"T": F32, "transpose_a": True})
    assert attrs["transpose_a"] is True
    assert attrs["transpose_b"] is False


def test_an_unknown_attr_is_answered_with_near_matches() -> None:
    with pytest.raises(NotFoundError, match="did you mean 'transpose_a'"):
        op("MatMul").attr("transposea")


CONV = {"T": "float32", "strides": [1, 1, 1, 1], "padding": "SAME"}


def test_user_values_become_canonical_attrs() -> None:
    attrs = op("Conv2D").canonical_attrs(CONV)
    assert attrs["T"] is F32
    assert attrs["strides"] == (1, 1, 1, 1)
    assert attrs["padding"] == b"SAME"
    assert attrs["data_format"] == b"NHWC"
    op("Conv2D").check_attrs(attrs)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", np.int64(3), 3),
        ("float", 0.1, float(np.float32(0.1))),
        ("float", 1, 1.0),
        ("float", 1e39, math.inf),
        ("float", math.nan, math.nan),
        ("bool", np.True_, True),
        ("string", "ä", "ä".encode()),
        ("type", "DT_HALF", dtypes.float16),
        ("type", np.float64, F64),
        ("shape", [None, 3], (-1, 3)),
        ("shape", None, None),
        ("shape", (), ShapeAttr()),
        ("func", "f", FuncAttr("f")),
        ("func", proto.NameAttrList(name="f"), FuncAttr("f")),
        ("tensor", [1, 2], TensorAttr(np.array([1, 2], np.int32))),
        ("tensor", proto.TensorProto(dtype=3), TensorAttr(np.array(0, np.int32))),  # type: ignore[arg-type]
        ("list(int)", np.arange(3), (0, 1, 2)),
        ("list(shape)", [[1], None], ((1,), None)),
        ("list(type)", ["float", "int32"], (F32, I32)),
        ("int", AttrPlaceholder("N"), AttrPlaceholder("N")),
        ("int", proto.AttrValue(i=4), 4),
    ],
)
def test_values_become_canonical(kind: str, value: Any, expected: Any) -> None:
    found = AttrDef("a", kind).canonical(value)
    assert found is expected or found == expected
    assert type(found) in (type(expected), ShapeAttr)
    AttrDef("a", kind).check(found)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 1.5),
        ("int", True),
        ("int", "1"),
        ("float", "1"),
        ("float", True),
        ("bool", 1),
        ("string", 1),
        ("type", None),
        ("type", "float31"),
        ("shape", 3),
        ("shape", [-2]),
        ("shape", "ab"),
        ("func", 1),
        ("list(int)", 1),
        ("list(int)", [1.5]),
        ("list(string)", "abc"),
    ],
)
def test_type_error_names_op_attr_and_expected_type(kind: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="attr 'a' of op Op: ") as caught:
        AttrDef("a", kind).canonical(value, "Op")
    assert caught.value.op_type == "Op"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"padding": b"SAM"}, "attr 'padding' of op Conv2D: 'SAM' is not one of 'SAME', 'VALID'"),
        ({"T": dtypes.string}, "attr 'T' of op Conv2D: string is not one of float16"),
        ({"strides": (1.0,)}, "expected a list of ints, got"),
        ({"strides": ShapeAttr((1, 1))}, "expected a list of ints"),
        ({"use_cudnn_on_gpu": 1}, "expected a bool, got int 1"),
        ({"stride": 1}, "has no attr 'stride'; did you mean 'strides'"),
    ],
)
def test_wrong_attrs_are_refused(changes: dict[str, Any], message: str) -> None:
    """Attrs of the wrong type are refused (clause S3)."""
    attrs = {**op("Conv2D").canonical_attrs(CONV), **changes}
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        op("Conv2D").check_attrs(attrs)


def test_a_missing_attr_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"attr 'padding' \(string\) of op Conv2D"):
        op("Conv2D").check_attrs(op("Conv2D").with_defaults({"T": F32, "strides": (1,)}))


def test_values_below_the_minimum_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="must be at least 1, got 0"):
        op("AddN").check_attrs({"N": 0, "T": F32})
    with pytest.raises(InvalidArgumentError, match="needs at least 4 elements, got 1"):
        op("MaxPool").attr("ksize").check((1,), "MaxPool")


def test_attrs_with_a_leading_underscore_belong_to_no_op() -> None:
    attrs = op("NoOp").canonical_attrs(
        {"_class": ["loc:@x"], "_flag": True, "_shapes": (ShapeAttr((1,)), None)}
    )
    assert attrs == {"_class": (b"loc:@x",), "_flag": True, "_shapes": ((1,), None)}
    op("NoOp").check_attrs(attrs)


def test_placeholders_pass_any_check() -> None:
    op("AddN").check_attrs({"N": AttrPlaceholder("N"), "T": AttrPlaceholder("T")})


def test_attrs_are_inferred_from_inputs() -> None:
    assert op("AddV2").infer_attrs([F32, F32]) == {"T": F32}
    assert op("ConcatV2").infer_attrs([[F32] * 3, I32]) == {"N": 3, "T": F32, "Tidx": I32}
    assert op("IdentityN").infer_attrs([[F32, I32]]) == {"T": (F32, I32)}
    assert op("Assign").infer_attrs([F32.as_ref, F32]) == {"T": F32}
    assert op("Identity").infer_attrs([F32.as_ref]) == {"T": F32}


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "message"),
    [
        ("AddV2", [F32, I32], {}, "'y' has type int32, which does not match type float32 of "),
        ("AddV2", [F32], {}, "takes 2 inputs (x, y), got 1"),
        ("AddV2", [F32, F32], {"T": I32}, "does not match type int32 of attr 'T'"),
        ("AddV2", [[F32], F32], {}, "'x' is one tensor, got a list of 1"),
        ("AddN", [F32], {}, "'inputs' is a list of tensors, got one"),
        ("AddN", [[F32, I32]], {}, "'inputs[1]' has type int32"),
        ("AddN", [[F32]], {"N": 2}, "has length 1, which does not match length 2 of attr 'N'"),
        ("IdentityN", [[F32]], {"T": (I32,)}, "has type [float32], which does not match"),
        ("Assign", [F32, F32], {}, "'ref' must be a reference to a variable"),
        ("MergeSummary", [[F32]], {}, "'inputs[0]' has type float32, expected string"),
    ],
)
def test_inputs_that_do_not_fit(
    name: str, inputs: list[Any], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(message)) as caught:
        op(name).infer_attrs(inputs, attrs)
    assert caught.value.op_type == name


def test_flat_inputs_are_grouped() -> None:
    assert op("AddN").group_inputs(3, {}) == {"inputs": (0, 3)}
    assert op("ConcatV2").group_inputs(3, {}) == {"values": (0, 2), "axis": (2, 3)}
    sparse = op("SparseConcat").group_inputs(6, {})
    assert sparse == {"indices": (0, 2), "values": (2, 4), "shapes": (4, 6)}


def test_flat_inputs_that_cannot_be_grouped() -> None:
    with pytest.raises(InvalidArgumentError, match="5 inputs do not fit op SparseConcat"):
        op("SparseConcat").group_inputs(5, {})
    several = OpDef(
        "Op",
        (ArgDef("x", I32, number_attr="N"), ArgDef("y", I32, number_attr="M")),
        attrs=(AttrDef("N", "int"), AttrDef("M", "int")),
    )
    with pytest.raises(InvalidArgumentError, match="set the attrs N, M to give"):
        several.group_inputs(3, {})
    assert several.group_inputs(3, {"N": 1}) == {"x": (0, 1), "y": (1, 3)}


def test_op_is_shown_as_text() -> None:
    text = str(OpDef("Op", (ArgDef("x", type_attr="T"),), (), (AttrDef("T", "type", F32),)))
    assert text == "Op<Op(x:T) -> (); T: type = float32>"
