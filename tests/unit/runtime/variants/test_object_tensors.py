"""Tensors of variants survive as messages; malformed messages are typed errors, cheaply."""

from __future__ import annotations

import contextlib
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from graphmill import dtypes, errors, proto
from graphmill.registry import Provenance
from graphmill.runtime.resources.variables import ResourceHandle
from graphmill.runtime.variants.object_tensors import (
    handles_from_tensor_proto,
    is_variant,
    variants_from_tensor_proto,
    variants_to_tensor_proto,
)
from graphmill.runtime.variants.variant_codec import VariantCodec, VariantData, VariantRegistry

VARIANT = dtypes.variant.enum


@dataclass(eq=False)
class Box:
    """A variant of a plugin: some bytes and typed tensors."""

    label: bytes = b""
    tensors: tuple[Any, ...] = ()
    types: tuple[dtypes.DType, ...] = ()


VARIANTS = VariantRegistry("variant")
VARIANTS.add(
    "Mine>Box",
    VariantCodec(
        Box,
        lambda box: VariantData(box.label, box.tensors, box.types),
        lambda data: Box(*data),
    ),
    owner=Provenance("mine"),
)


def decoded(data: bytes) -> Any:
    return variants_from_tensor_proto(proto.TensorProto.FromString(data), VARIANTS)


def survived(value: Any) -> Any:
    return decoded(variants_to_tensor_proto(value, VARIANTS).SerializeToString())


def nested(depth: int) -> Box:
    box = Box(b"innermost")
    for _ in range(depth):
        box = Box(b"", (box,), (dtypes.variant,))
    return box


def test_a_scalar_keeps_metadata_tensors_and_types() -> None:
    tensors = (np.float32(2), np.arange(3), np.array([b"a\0", b""], object), np.zeros((0, 2), "?"))
    types = (dtypes.float32, dtypes.int64, dtypes.string, dtypes.bool)
    found = survived(Box(b"\0label", tensors, types))
    assert (found.label, found.types) == (b"\0label", types)
    for one, other in zip(found.tensors, tensors, strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)


def test_an_array_keeps_its_shape_and_its_missing_elements() -> None:
    array = np.empty((2, 3), object)
    array[1, 2] = Box(b"last")
    found = survived(array)
    assert found.shape == (2, 3)
    assert dtypes.as_dtype(found.dtype) is dtypes.variant
    assert found[1, 2].label == b"last"
    assert found[0, 0] is None


def test_variants_and_handles_may_be_in_variants() -> None:
    handle = ResourceHandle("/cpu:0", "c", "v", "Variable")
    found = survived(Box(b"", (Box(b"inner"), handle), (dtypes.variant, dtypes.resource)))
    assert found.tensors[0].label == b"inner"
    assert found.tensors[1].name == "v"


def test_elements_in_variant_val_are_read_and_missing_ones_are_empty() -> None:
    message = proto.TensorProto(dtype=VARIANT)
    message.tensor_shape.dim.add(size=2)
    message.variant_val.add(type_name="Mine>Box", metadata=b"x")
    first, second = variants_from_tensor_proto(message, VARIANTS)
    assert first.label == b"x"
    assert second is None


def test_values_of_an_unknown_type_name_it() -> None:
    message = proto.TensorProto(dtype=VARIANT)
    message.variant_val.add(type_name="Other>Type")
    with pytest.raises(errors.UnimplementedError, match="Other>Type"):
        variants_from_tensor_proto(message, VARIANTS)
    with pytest.raises(errors.UnimplementedError, match="a variant that holds a object"):
        variants_to_tensor_proto(object(), VARIANTS)


@pytest.mark.parametrize("depth", [1, 20, 40])
def test_nested_variants_survive(depth: int) -> None:
    found = survived(nested(depth))
    for _ in range(depth):
        (found,) = found.tensors
    assert found.label == b"innermost"


def test_variants_nested_too_deeply_are_not_written() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="more than 40 levels"):
        variants_to_tensor_proto(nested(41), VARIANTS)


def test_a_message_nested_too_deeply_is_refused() -> None:
    content = b""
    for _ in range(1000):  # in tensor_content, which protobuf does not look into
        element = proto.VariantTensorDataProto(type_name="Mine>Box")
        if content:
            element.tensors.add(dtype=VARIANT, tensor_content=content)
            element.tensors[0].tensor_shape.SetInParent()
        data = element.SerializeToString()
        content = proto.TensorProto(tensor_content=bytes(_varint(len(data))) + data).tensor_content
    message = proto.TensorProto(dtype=VARIANT, tensor_content=content)
    with pytest.raises(errors.InvalidArgumentError, match="more than 40 levels"):
        variants_from_tensor_proto(message, VARIANTS)


def _varint(value: int) -> list[int]:
    out = []
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return [*out, value]


def bomb(**tensor: Any) -> proto.TensorProto:
    """Return a short message of a hundred tensors of 2**22 elements each."""
    message = proto.TensorProto(dtype=VARIANT)
    element = message.variant_val.add(type_name="Mine>Box")
    for _ in range(100):
        element.tensors.add(tensor_shape=proto.TensorShapeProto(dim=[{"size": 1 << 22}]), **tensor)
    return message


@pytest.mark.parametrize(
    "message",
    [
        bomb(dtype=1, float_val=[1.0]),
        bomb(dtype=9),
        bomb(dtype=7, string_val=[b"a"]),
        bomb(dtype=VARIANT),
        proto.TensorProto(
            dtype=VARIANT, tensor_shape=proto.TensorShapeProto(dim=[{"size": 1 << 40}])
        ),
    ],
    ids=["repeated", "zeros", "strings", "variants", "one"],
)
def test_a_short_message_does_not_take_much_memory(message: proto.TensorProto) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(errors.InvalidArgumentError, match="omits more than 64 MiB"):
            variants_from_tensor_proto(message, VARIANTS)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "message",
    [
        proto.TensorProto(dtype=VARIANT, tensor_content=b"\x05abc"),
        proto.TensorProto(dtype=VARIANT, tensor_content=b"\x03abc"),
        proto.TensorProto(dtype=VARIANT, variant_val=[{}, {}]),
        proto.TensorProto(dtype=VARIANT, variant_val=[{"metadata": b"x"}]),
        proto.TensorProto(dtype=VARIANT, variant_val=[{"type_name": "Mine>Box", "tensors": [{}]}]),
        proto.TensorProto(
            dtype=VARIANT, variant_val=[{"type_name": "Mine>Box", "tensors": [{"dtype": 999}]}]
        ),
        proto.TensorProto(
            dtype=VARIANT,
            variant_val=[
                {"type_name": "Mine>Box", "tensors": [{"dtype": 1, "tensor_content": b"abc"}]}
            ],
        ),
        proto.TensorProto(dtype=VARIANT, tensor_shape=proto.TensorShapeProto(unknown_rank=True)),
    ],
    ids=range(8),
)
def test_malformed_messages_are_typed_errors(message: proto.TensorProto) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        variants_from_tensor_proto(message, VARIANTS)


SOME = variants_to_tensor_proto(
    Box(
        b"abc",
        (np.arange(5), nested(3), np.array(b"text", object)),
        (dtypes.int64, dtypes.variant, dtypes.string),
    ),
    VARIANTS,
).SerializeToString()


@given(
    st.integers(0, len(SOME)),
    st.integers(0, 8),
    st.binary(max_size=8),
)
def test_mutated_messages_are_values_or_typed_errors(start: int, cut: int, added: bytes) -> None:
    with contextlib.suppress(errors.OpError, DecodeError):
        decoded(SOME[:start] + added + SOME[start + cut :])


@given(st.binary(max_size=60))
def test_any_content_is_a_value_or_a_typed_error(content: bytes) -> None:
    message = proto.TensorProto(dtype=VARIANT, tensor_content=content)
    with contextlib.suppress(errors.OpError):
        variants_from_tensor_proto(message, VARIANTS)


def test_too_few_handles_are_an_error() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="has 0 handles"):
        handles_from_tensor_proto(proto.TensorProto(dtype=dtypes.resource.enum))


def test_values_of_unknown_type_are_recognized() -> None:
    boxes = np.array([Box()], object)
    texts = np.array([b"a"], object)
    handle = ResourceHandle("/cpu:0", "c", "v", "Variable")
    assert [is_variant(value) for value in (Box(), boxes)] == [True, True]
    others = (texts, b"a", "a", 1, 2.0, [1], np.float32(1), np.zeros(3), handle)
    assert not any(is_variant(value) for value in others)
