"""Tensors of every type survive the wire, as values and as bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from graphmill import dtypes, errors, proto
from graphmill.ops.tensor_proto import tensor_proto_to_numpy
from graphmill.registry import Provenance
from graphmill.spi import ResourceHandle, VariantCodec, VariantData, VariantRegistry
from graphmill_plugins._server.tensors import decode_tensor, encode_tensor

VARIANTS = VariantRegistry("variant")
FIXED = [dtype for dtype in dtypes.ALL if dtype.size]


class Pair(NamedTuple):
    """A variant type of a plugin."""

    left: int
    right: int


VARIANTS.add(
    "Mine>Pair",
    VariantCodec(Pair, lambda pair: VariantData(bytes(pair)), lambda data: Pair(*data.metadata)),
    owner=Provenance("mine"),
)


def encoded(value, dtype=None) -> proto.TensorProto:
    parts, size = encode_tensor(value, VARIANTS, dtype)
    data = b"".join(parts)
    assert len(data) == size
    return proto.TensorProto.FromString(data)


def numbers(dtype: dtypes.DType, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(count) % 2).astype(dtype.as_numpy_dtype).reshape(shape)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3), (200, 30)], ids=str)
@pytest.mark.parametrize("dtype", FIXED, ids=lambda dtype: dtype.name)
def test_numbers_survive(dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
    value = numbers(dtype, shape)
    message = encoded(value, dtype)
    assert message.dtype == dtype.enum
    assert message.tensor_content == value.tobytes()
    found = decode_tensor(message, VARIANTS)
    assert found.dtype == value.dtype
    assert found.shape == shape
    assert np.array_equal(found, value)
    assert np.array_equal(found, tensor_proto_to_numpy(message))


def test_quantized_types_are_kept() -> None:
    message = encoded(np.int8([1, 2]), dtypes.qint8)
    assert message.dtype == dtypes.qint8.enum
    assert dtypes.as_dtype(decode_tensor(message, VARIANTS).dtype) is dtypes.qint8


@pytest.mark.parametrize(
    "value",
    [
        np.arange(4000).reshape(40, 100).T,
        np.arange(4000)[::-2],
        np.broadcast_to(np.float32(2), (300, 400)),
        np.asfortranarray(np.ones((70, 90))),
    ],
    ids=["transposed", "reversed", "broadcast", "column-major"],
)
def test_arrays_of_any_layout_are_sent_in_row_major_order(value: np.ndarray) -> None:
    assert np.array_equal(decode_tensor(encoded(value), VARIANTS), value)


def test_large_arrays_are_not_copied() -> None:
    value = np.zeros((100, 100))
    parts, _ = encode_tensor(value, VARIANTS)
    assert np.shares_memory(parts[1], value)
    content = memoryview(value.tobytes())
    message = proto.TensorProto.FromString(parts[0][: parts[0].index(b"\x22")])
    found = decode_tensor(message, VARIANTS, content)
    assert np.shares_memory(found, np.frombuffer(content, np.uint8))
    assert not found.flags.writeable


def test_scalars_are_numpy_scalars() -> None:
    found = decode_tensor(proto.TensorProto(dtype=1, tensor_content=b"\0\0\x80?"), VARIANTS)
    assert type(found) is np.float32
    assert found == 1.0
    assert type(decode_tensor(proto.TensorProto(dtype=1, float_val=[1.0]), VARIANTS)) is np.float32


def test_bytes_other_than_0_are_true() -> None:
    message = proto.TensorProto(dtype=10, tensor_content=b"\0\1\2\xff")
    message.tensor_shape.dim.add(size=4)
    found = decode_tensor(message, VARIANTS)
    assert found.dtype == np.bool_
    assert found.tolist() == [False, True, True, True]


@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 2)], ids=str)
def test_strings_survive(shape: tuple[int, ...]) -> None:
    items = [b"a\0", b"", "\N{SNOWMAN}".encode(), b"\xff" * 300]
    value = np.empty(int(np.prod(shape)), object)
    value[:] = items[: value.size]
    value = value.reshape(shape)
    found = decode_tensor(encoded(value, dtypes.string), VARIANTS)
    assert found.shape == shape
    assert found.tolist() == value.tolist()


@pytest.mark.parametrize("value", [b"a\0", "a\0", np.array("a"), np.bytes_(b"a")], ids=repr)
def test_single_strings_survive(value) -> None:
    found = decode_tensor(encoded(value), VARIANTS)
    assert found.shape == ()
    assert found.item() == (b"a\0" if len(np.array(value, object).item()) == 2 else b"a")


def test_strings_of_tensorflow_have_lengths_and_bytes_in_their_content() -> None:
    content = b"\x02\x00\xac\x02" + b"ab" + b"x" * 300
    message = proto.TensorProto(dtype=7)
    message.tensor_shape.dim.add(size=3)
    found = decode_tensor(message, VARIANTS, memoryview(content))
    assert found.tolist() == [b"ab", b"", b"x" * 300]
    message.tensor_content = content
    assert decode_tensor(message, VARIANTS).tolist() == found.tolist()


def test_single_value_is_broadcast() -> None:
    message = proto.TensorProto(dtype=1, float_val=[2.5])
    message.tensor_shape.dim.add(size=3)
    assert decode_tensor(message, VARIANTS).tolist() == [2.5, 2.5, 2.5]


def test_a_repeated_value_larger_than_a_message_is_refused() -> None:
    message = proto.TensorProto(dtype=7, string_val=[b"a", b"b"])
    message.tensor_shape.dim.add(size=2**40)
    with pytest.raises(errors.InvalidArgumentError, match="2 GiB at most"):
        decode_tensor(message, VARIANTS)


def test_handles_of_resources_survive() -> None:
    handle = ResourceHandle("/job:ps/task:0/device:CPU:0", "c", "v", "Variable")
    found = decode_tensor(encoded(handle), VARIANTS)
    assert isinstance(found, ResourceHandle)
    assert (found.device, found.container, found.name, found.type_name) == (
        handle.device,
        "c",
        "v",
        "Variable",
    )
    array = np.empty(1, dtypes.resource.as_numpy_dtype)
    array[0] = handle
    assert decode_tensor(encoded(array), VARIANTS)[0].name == "v"


def test_a_variant_without_a_value_survives() -> None:
    assert decode_tensor(encoded(None, dtypes.variant), VARIANTS) is None
    found = decode_tensor(encoded(np.empty(2, dtypes.variant.as_numpy_dtype)), VARIANTS)
    assert found.tolist() == [None, None]


def test_variants_of_a_registered_type_survive() -> None:
    found = decode_tensor(encoded(Pair(1, 2), dtypes.variant), VARIANTS)
    assert found == Pair(1, 2)


def test_sending_a_variant_without_a_codec_names_its_type() -> None:
    class Mine:
        dtype = dtypes.variant.as_numpy_dtype

    with pytest.raises(errors.UnimplementedError, match="a variant that holds a Mine cannot leave"):
        encode_tensor(Mine(), VARIANTS)


@pytest.mark.parametrize(
    "message",
    [
        proto.TensorProto(),
        proto.TensorProto(dtype=101),
        proto.TensorProto(dtype=999),
        proto.TensorProto(dtype=1, tensor_content=b"12345"),
        proto.TensorProto(dtype=1, tensor_shape=proto.TensorShapeProto(unknown_rank=True)),
        proto.TensorProto(
            dtype=1, tensor_shape=proto.TensorShapeProto(dim=[{"size": -1}]), tensor_content=b"1234"
        ),
        proto.TensorProto(dtype=1, tensor_shape=proto.TensorShapeProto(dim=[{"size": 1}] * 65)),
        proto.TensorProto(
            dtype=1, tensor_shape=proto.TensorShapeProto(dim=[{"size": 2**62}, {"size": 0}])
        ),
        proto.TensorProto(dtype=20, tensor_shape=proto.TensorShapeProto(dim=[{"size": 2}])),
        proto.TensorProto(
            dtype=7, tensor_shape=proto.TensorShapeProto(dim=[{"size": 3}]), tensor_content=b"\x09a"
        ),
    ],
    ids=repr,
)
def test_malformed_tensors_are_typed_errors(message: proto.TensorProto) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        decode_tensor(message, VARIANTS)


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="float64"):
        encode_tensor(np.float64(1), VARIANTS, dtypes.float32)
