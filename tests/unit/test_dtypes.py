"""Element types and their NumPy forms."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from graphmill import dtypes, errors, proto
from graphmill.dtypes import as_dtype

_SMALL = ("bfloat", "float8", "float4", "int4", "uint4", "int2", "uint2")
NEEDS_ML_DTYPES = [dtype for dtype in dtypes.ALL if dtype.name.startswith(_SMALL)]
PLAIN = [dtype for dtype in dtypes.ALL if dtype not in NEEDS_ML_DTYPES]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_each_type_is_interned_under_all_its_names(dtype: dtypes.DType) -> None:
    for name in (dtype, dtype.name, dtype.tf_name, dtype.proto_name, dtype.enum):
        assert as_dtype(name) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert repr(dtype) == f"graphmill.{dtype.name}"


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_numbers_and_names_are_those_of_the_messages(dtype: dtypes.DType) -> None:
    assert proto.DataType.Value(dtype.proto_name) == dtype.enum
    assert proto.DataType.Value(dtype.as_ref.proto_name) == dtype.as_ref.enum


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_numpy_form_identifies_the_dtype(dtype: dtypes.DType) -> None:
    numpy_dtype = dtype.as_numpy_dtype
    assert as_dtype(numpy_dtype) is dtype
    assert numpy_dtype is dtype.as_numpy_dtype
    if dtype.size:
        assert numpy_dtype.itemsize == dtype.size


@pytest.mark.parametrize("dtype", NEEDS_ML_DTYPES, ids=str)
def test_numpy_form_of_small_types_identifies_the_dtype(dtype: dtypes.DType) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert dtype.as_numpy_dtype == np.dtype(getattr(ml_dtypes, dtype.name))
    assert as_dtype(dtype.as_numpy_dtype) is dtype
    assert as_dtype(getattr(ml_dtypes, dtype.name)) is dtype


def test_every_type_of_the_messages_is_known() -> None:
    numbers = {number for name, number in proto.DataType.items() if not name.endswith("_REF")}
    assert numbers - {0} == {dtype.enum for dtype in dtypes.ALL}


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_reference_types_belong_to_their_base_types(dtype: dtypes.DType) -> None:
    ref = dtype.as_ref
    assert (ref.name, ref.enum) == (f"{dtype.name}_ref", dtype.enum + 100)
    assert ref.is_ref
    assert not dtype.is_ref
    assert ref.base_dtype is dtype.base_dtype is dtype
    assert ref.as_ref is dtype.as_ref is ref
    assert as_dtype(ref.name) is as_dtype(ref.enum) is as_dtype(ref.proto_name) is ref


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (float, dtypes.float32),
        (int, dtypes.int32),
        (bool, dtypes.bool),
        (complex, dtypes.complex128),
        (str, dtypes.string),
        (bytes, dtypes.string),
        (object, dtypes.string),
        (np.float64, dtypes.float64),
        (np.dtype(">f4"), dtypes.float32),
        (np.dtype("longlong"), dtypes.int64),
        (np.str_, dtypes.string),
        (np.dtype("S3"), dtypes.string),
        (np.bool_, dtypes.bool),
        ("float", dtypes.float32),
        ("half", dtypes.float16),
        ("DT_INT64", dtypes.int64),
        ("FLOAT32_REF", None),
    ],
)
def test_type_names_are_parsed(value: object, dtype: dtypes.DType | None) -> None:
    if dtype is None:
        with pytest.raises(errors.InvalidArgumentError):
            as_dtype(value)
    else:
        assert as_dtype(value) is dtype


@pytest.mark.parametrize(
    "value",
    [
        *("flaot32", "", "_ref", 0, 99, 134, -1, True, None, 1.5, [], list, dict, ValueError),
        *(np.generic, np.floating, np.integer, np.number, np.void, np.datetime64),
        *(np.dtype("M8[s]"), np.dtype([("a", "f4")]), np.dtype("f4, f4"), np.longdouble),
    ],
    ids=repr,
)
def test_invalid_dtype_name_is_invalid_argument(value: object) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        as_dtype(value)


def test_near_matches_are_suggested() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="did you mean 'float32'"):
        as_dtype("flaot32")


def test_each_type_is_of_its_kinds() -> None:
    def names(which: str) -> set[str]:
        return {dtype.name for dtype in PLAIN if getattr(dtype, which)}

    assert names("is_floating") == {"float16", "float32", "float64"}
    assert names("is_complex") == {"complex64", "complex128"}
    assert names("is_integer") == {f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)}
    assert names("is_unsigned") == {f"uint{n}" for n in (8, 16, 32, 64)}
    assert names("is_bool") == {"bool"}
    assert names("is_quantized") == {dtype.name for dtype in dtypes.QUANTIZED}
    assert {d.name for d in dtypes.ALL if not d.is_numpy_compatible} == {"resource", "variant"}


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (dtypes.int8, -128, 127),
        (dtypes.uint16, 0, 65535),
        (dtypes.qint8, -128, 127),
        (dtypes.float16, -65504.0, 65504.0),
        (dtypes.bool, False, True),
    ],
    ids=str,
)
def test_numeric_types_have_limits(dtype: dtypes.DType, low: object, high: object) -> None:
    assert (dtype.min, dtype.max) == (low, high)
    assert dtype.min.dtype == dtype.as_numpy_dtype


def test_small_types_have_limits() -> None:
    pytest.importorskip("ml_dtypes")
    assert (dtypes.int4.min, dtypes.int4.max) == (-8, 7)
    assert float(dtypes.bfloat16.max) == pytest.approx(3.39e38, rel=1e-2)


@pytest.mark.parametrize("dtype", [dtypes.string, dtypes.complex64, dtypes.resource], ids=str)
def test_other_types_have_no_limits(dtype: dtypes.DType) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="no smallest and largest value"):
        _ = dtype.max


def test_strings_handles_and_quantized_types_are_distinguished() -> None:
    arrays = {
        name: np.zeros(2, as_dtype(name).as_numpy_dtype) for name in ("string", "resource", "qint8")
    }
    assert {name: as_dtype(array.dtype).name for name, array in arrays.items()} == {
        name: name for name in arrays
    }
    assert as_dtype(np.dtype("O")) is dtypes.string
    assert as_dtype(np.dtype("int8")) is dtypes.int8


def test_real_type_and_compatibility_are_those_of_tensorflow() -> None:
    complex64, float32 = dtypes.complex64, dtypes.float32
    assert complex64.real_dtype is complex64.as_ref.real_dtype is float32
    assert float32.real_dtype is float32
    assert float32.is_compatible_with("float32")
    assert float32.is_compatible_with(float32.as_ref)
    assert not float32.as_ref.is_compatible_with(float32)
    assert not float32.is_compatible_with("float64")
    assert float32.as_datatype_enum == float32.enum
