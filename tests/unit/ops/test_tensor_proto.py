"""`TensorProto`s of every element type round-trip through NumPy."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graphmill import dtypes, proto
from graphmill.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from graphmill.ops.tensor_proto import numpy_to_tensor_proto, tensor_proto_to_numpy

if TYPE_CHECKING:
    from graphmill.dtypes import DType

EXTENDED = {"bfloat16", "int2", "uint2", "int4", "uint4", "float4_e2m1fn"} | {
    dtype.name for dtype in dtypes.ALL if dtype.name.startswith("float8")
}
VALUE_TYPES = [dtype for dtype in dtypes.ALL if dtype.kind not in "sh"]


@pytest.fixture(autouse=True)
def _skip_without_ml_dtypes(request: pytest.FixtureRequest) -> None:
    dtype = getattr(request.node, "callspec", None) and request.node.callspec.params.get("dtype")
    if dtype is not None and dtype.name in EXTENDED:
        pytest.importorskip("ml_dtypes")


def message(dtype: DType, shape: tuple[int, ...], **values: Any) -> proto.TensorProto:
    made = proto.TensorProto(dtype=dtype.enum, **values)  # type: ignore[arg-type]
    for size in shape:
        made.tensor_shape.dim.add(size=size)
    return made


@pytest.mark.parametrize("dtype", VALUE_TYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2), (0, 2)])
def test_numbers_round_trip(dtype: DType, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    array = np.arange(size).reshape(shape).astype(dtype.as_numpy_dtype)
    made = numpy_to_tensor_proto(array, dtype)
    again = tensor_proto_to_numpy(made)

    assert made.dtype == dtype.enum
    assert again.dtype == array.dtype
    assert again.shape == shape
    assert again.tobytes() == array.tobytes()


@given(
    hnp.arrays(
        hnp.scalar_dtypes().filter(
            lambda d: (
                d.kind in "biufc"
                and d.itemsize <= 16
                and d.name in {"bool", "int8", "int64", "uint32", "float32", "float64", "complex64"}
            )
        ),
        hnp.array_shapes(min_dims=0, min_side=0, max_side=4),
    )
)
def test_any_array_round_trips_bit_by_bit(array: np.ndarray[Any, Any]) -> None:
    array = array.astype(array.dtype.newbyteorder("="))
    again = tensor_proto_to_numpy(numpy_to_tensor_proto(array))
    assert again.tobytes() == array.tobytes()
    assert again.dtype == array.dtype


@given(st.lists(st.binary(max_size=5), max_size=4))
def test_strings_round_trip(strings: list[bytes]) -> None:
    array = np.array(strings, object)
    again = tensor_proto_to_numpy(numpy_to_tensor_proto(array))
    assert again.tolist() == strings


def test_text_is_written_as_utf8() -> None:
    array = np.array([["ä", b"\xff"]], object)
    assert tensor_proto_to_numpy(numpy_to_tensor_proto(array)).tolist() == [["ä".encode(), b"\xff"]]


def test_content_is_shared_with_the_message_and_read_only() -> None:
    made = message(dtypes.float32, (2,), tensor_content=struct.pack("<2f", 1, 2))
    array = tensor_proto_to_numpy(made)
    assert array.tolist() == [1.0, 2.0]
    assert not array.flags.writeable
    assert not array.flags.owndata


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (dtypes.float32, {"float_val": [1.5, 2.5]}, [1.5, 2.5, 2.5]),
        (dtypes.int8, {"int_val": [-1]}, [-1, -1, -1]),
        (dtypes.uint8, {"int_val": [255, 256]}, [255, 0, 0]),
        (dtypes.bool, {"bool_val": [True]}, [True] * 3),
        (dtypes.float16, {"half_val": [0x3C00, 0xC000]}, [1.0, -2.0, -2.0]),
        (dtypes.bfloat16, {"half_val": [0x3F80]}, [1.0] * 3),
        (dtypes.float8_e5m2, {"float8_val": b"\x3c"}, [1.0] * 3),
        (dtypes.int4, {"int_val": [-8, 7]}, [-8, 7, 7]),
        (dtypes.qint8, {"int_val": [5]}, [5] * 3),
        (dtypes.uint64, {"uint64_val": [2**64 - 1]}, [2**64 - 1] * 3),
        (dtypes.complex64, {"scomplex_val": [1, 2]}, [1 + 2j] * 3),
        (dtypes.complex128, {"dcomplex_val": [1, 2, 3, 4, 5]}, [1 + 2j, 3 + 4j, 3 + 4j]),
        (dtypes.string, {"string_val": [b"a", b"b"]}, [b"a", b"b", b"b"]),
        (dtypes.int64, {}, [0, 0, 0]),
        (dtypes.complex64, {}, [0, 0, 0]),
        (dtypes.string, {}, [b"", b"", b""]),
        (dtypes.float64, {"double_val": [1, 2, 3, 4]}, [1, 2, 3]),
    ],
)
def test_few_values_fill_the_shape(
    dtype: DType, values: dict[str, Any], expected: list[Any]
) -> None:
    array = tensor_proto_to_numpy(message(dtype, (3,), **values))
    assert array.astype(object).tolist() == expected
    assert array.dtype == dtype.as_numpy_dtype


def test_one_value_in_a_large_shape_takes_no_memory() -> None:
    array = tensor_proto_to_numpy(message(dtypes.float64, (10**6, 10**6), double_val=[2.5]))
    assert array.shape == (10**6, 10**6)
    assert array.strides == (0, 0)
    assert array[-1, -1] == 2.5


def test_a_shape_beyond_memory_is_a_typed_error() -> None:
    huge = message(dtypes.float64, (2**40, 2**20), double_val=[1, 2])
    with pytest.raises(
        ResourceExhaustedError, match="repeats its last value, which exceeds the memory budget"
    ):
        tensor_proto_to_numpy(huge)


@pytest.mark.parametrize("shape", [(2**62, 0), (2**31, 2**31, 0), (1,) * 65], ids=str)
def test_a_shape_that_no_array_has_is_a_typed_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"too many elements|65 dimensions"):
        tensor_proto_to_numpy(message(dtypes.float64, shape))


def test_any_byte_but_zero_is_true() -> None:
    array = tensor_proto_to_numpy(message(dtypes.bool, (3,), tensor_content=b"\x00\x01\x07"))
    assert array.tolist() == [False, True, True]
    assert array.dtype == np.bool_


def test_strings_in_content_are_read() -> None:
    content = bytes([1, 0, 0x80, 0x01]) + b"a" + b"b" * 128
    array = tensor_proto_to_numpy(message(dtypes.string, (3,), tensor_content=content))
    assert array.tolist() == [b"a", b"", b"b" * 128]


@given(st.binary(min_size=1, max_size=12), st.integers(0, 5))
def test_damaged_strings_in_content_are_a_typed_error(content: bytes, count: int) -> None:
    try:
        array = tensor_proto_to_numpy(message(dtypes.string, (count,), tensor_content=content))
    except InvalidArgumentError:
        return
    assert array.shape == (count,)


@pytest.mark.parametrize(
    ("made", "error", "text"),
    [
        (
            message(dtypes.float32, (2,), tensor_content=b"1234"),
            InvalidArgumentError,
            r"shape \[2\] needs 8 bytes of tensor_content, but it has 4",
        ),
        (proto.TensorProto(), InvalidArgumentError, "no dtype"),
        (proto.TensorProto(dtype=101), InvalidArgumentError, "reference type"),
        (proto.TensorProto(dtype=77), InvalidArgumentError, "not an element type"),
        (message(dtypes.float32, (-1,)), InvalidArgumentError, "negative size"),
        (message(dtypes.float32, (2**62, 4)), InvalidArgumentError, "too many elements"),
        (message(dtypes.resource, ()), InvalidArgumentError, r"shape \[\] needs 1 handles"),
        (message(dtypes.variant, (1,)), UnimplementedError, "handle"),
    ],
)
def test_bad_messages_are_refused(
    made: proto.TensorProto, error: type[Exception], text: str
) -> None:
    """A Const whose content does not match its shape is refused (clause S3)."""
    with pytest.raises(error, match=text):
        tensor_proto_to_numpy(made)


def test_shape_of_unknown_rank_is_not_a_value() -> None:
    made = proto.TensorProto(dtype=1)
    made.tensor_shape.unknown_rank = True
    with pytest.raises(InvalidArgumentError, match="unknown rank"):
        tensor_proto_to_numpy(made)


def test_a_resource_is_read_as_the_handle_that_it_names() -> None:
    """A Const may hold a handle, as in the graph of a serialized dataset (clause S3)."""
    made = proto.TensorProto(dtype=dtypes.resource.enum)  # type: ignore[arg-type]
    made.resource_handle_val.add(name="seeds", container="localhost")
    found = tensor_proto_to_numpy(made)
    assert found.shape == ()
    assert proto.ResourceHandleProto.FromString(found.item()).name == "seeds"


def test_bad_arrays_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="holds bytes or str, not int"):
        numpy_to_tensor_proto(np.array([1, "a"], object))
    with pytest.raises(InvalidArgumentError, match="int64 is not a tensor of float32"):
        numpy_to_tensor_proto(np.array([1]), dtypes.float32)
    with pytest.raises(UnimplementedError):
        numpy_to_tensor_proto(np.array([None]), dtypes.resource)
