"""Codecs of TensorFlow's variant types: TensorFlow's bytes, and malformed contents."""

from __future__ import annotations

import contextlib
import zlib
from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill
from graphmill import dtypes, errors, proto
from graphmill.runtime.variants.codec_lookup import codec_names, codec_of_value
from graphmill.spi import VariantData
from graphmill.spi.protos import variants_from_tensor_proto, variants_to_tensor_proto
from graphmill_plugins.kernels._variant import TensorVariant
from graphmill_plugins.kernels.dataset.compression import Component, CompressedElement
from graphmill_plugins.kernels.dataset.iterators._optional import Optional
from graphmill_plugins.kernels.dataset.iterators.iterator_state import SavedIterator
from graphmill_plugins.kernels.dataset.iterators.ops import IteratorPosition
from graphmill_plugins.kernels.ragged._ragged import RaggedVariant
from graphmill_plugins.kernels.sparse._csr_matrix import CsrMatrix, from_indices
from graphmill_plugins.kernels.tensor_list._tensor_list import TensorList
from graphmill_plugins.kernels.tensor_map._tensor_map import Entry, TensorMap, key_of
from graphmill_plugins.kernels.variant.codecs import (
    compressed_element,
    csr_matrix,
    iterator_state,
    tensor_list,
)
from graphmill_plugins.kernels.variant.composite_tensor import CompositeTensor

VARIANTS = graphmill.default_host().variants
F32, I32, I64 = dtypes.float32, dtypes.int32, dtypes.int64


def read(content: bytes, *shape: int) -> Any:
    message = proto.TensorProto(dtype=dtypes.variant.enum, tensor_content=content)
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    return variants_from_tensor_proto(message, VARIANTS)


def written(value: Any) -> proto.VariantTensorDataProto:
    content = variants_to_tensor_proto(value, VARIANTS).tensor_content
    return proto.VariantTensorDataProto.FromString(content[1 if content[0] < 0x80 else 2 :])


def survived(value: Any) -> Any:
    return variants_from_tensor_proto(variants_to_tensor_proto(value, VARIANTS), VARIANTS)


def plain(value: Any) -> Any:
    """Return the parts of a variant, for comparison."""
    data = codec_of_value(value, codec_names(VARIANTS), VARIANTS)[1].encode(value)
    tensors = [
        plain(tensor) if dtype is dtypes.variant else np.asarray(tensor).tolist()
        for tensor, dtype in zip(data.tensors, data.types, strict=True)
    ]
    return data.metadata, tensors, [dtype.name for dtype in data.types]


def a_map() -> TensorMap:
    key = np.array(b"k", object)
    entry = Entry(key, np.float32([2, 3]), F32)
    return TensorMap({key_of(key, dtypes.string): entry})


def a_matrix() -> CsrMatrix:
    indices = np.int64([[0, 0, 1], [1, 0, 0], [1, 1, 2]])
    return from_indices((2, 2, 3), indices, np.float32([1, 2, 3]))


def an_element() -> CompressedElement:
    content = np.int32([1, 2]).tobytes() + b"abc"
    parts = [Component(I32, (2,), (8,)), Component(dtypes.string, (2,), (3, 0))]
    return CompressedElement(zlib.compress(content), parts)


VALUES = {
    "list": TensorList(F32, (-1,), [None, np.float32([1, 2]), None, np.float32([])], 7),
    "empty list": TensorList(dtypes.string, None),
    "list of lists": TensorList(dtypes.variant, (), [TensorList(I32, (), [np.int32(5)])]),
    "optional": Optional((np.int64(3), np.array(b"a", object)), (I64, dtypes.string)),
    "no value": Optional(),
    "ragged": RaggedVariant((np.int64([0, 2, 3]),), np.int32([1, 2, 3])),
    "row": RaggedVariant((), np.int32([4])),
    "map": a_map(),
    "matrix": a_matrix(),
    "tensor": TensorVariant(np.float16([1, 2])),
    "compressed": an_element(),
    "iterator": SavedIterator(IteratorPosition(3, [(array("q", [5, -6]), 8), (array("q"), 0)])),
    "composite": CompositeTensor((np.int32(1), np.float32([2])), (I32, F32)),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_survive(name: str) -> None:
    value = VALUES[name]
    found = survived(value)
    assert type(found) is type(value)
    assert plain(found) == plain(value)


# What TensorFlow 2.21 writes: see tests/oracle/clusters/test_variants_live.py.
def test_a_list_is_read_as_tensorflow_writes_it() -> None:
    found = read(
        b"@\n\x16tensorflow::TensorList\x12\x12\x02\x00\x02\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff"
        b"\x01\x12\x02\x08\x02\x1a\x12\x08\x01\x12\x04\x12\x02\x08\x02*\x08\x00\x00\x80?\x00\x00\x00@"
    )
    assert (found.element_dtype, found.element_shape, found.max_num_elements) == (F32, (2,), -1)
    assert [None if one is None else one.tolist() for one in found.elements()] == [
        None,
        [1, 2],
        None,
    ]
    assert written(found).metadata == b"\2\0\2\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\x12\2\x08\2"


def test_a_list_of_unknown_rank_and_limited_length_is_read() -> None:
    found = read(b"\x1f\n\x16tensorflow::TensorList\x12\x05\x00\x07\x05\x18\x01")
    assert (found.element_dtype, found.element_shape) == (dtypes.string, None)
    assert (found.max_num_elements, found.length) == (5, 0)
    assert written(found).metadata == b"\0\7\5\x18\1"


def test_a_list_in_a_list_is_read() -> None:
    found = read(
        b"n\n\x16tensorflow::TensorList\x12\x0c\x00\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1aF"
        b"\x08\x15\x12\x00z@\n\x16tensorflow::TensorList\x12\x12\x02\x00\x02\x01\xff\xff\xff\xff\xff"
        b"\xff\xff\xff\xff\x01\x12\x02\x08\x02\x1a\x12\x08\x01\x12\x04\x12\x02\x08\x02*\x08\x00\x00\x80"
        b"?\x00\x00\x00@"
    )
    assert found.element(0).element(1).tolist() == [1, 2]


def test_optionals_are_read() -> None:
    found = read(
        b"5\n\x1atensorflow::data::Optional\x12\x01\x01\x1a\x07\x08\x03\x12\x00:\x01\x01\x1a\x0b\x08"
        b"\x07\x12\x04\x12\x02\x08\x01B\x01a"
    )
    assert found.types == (I32, dtypes.string)
    assert [value.tolist() for value in found.values] == [1, [b"a"]]
    assert read(b"\x1f\n\x1atensorflow::data::Optional\x12\x01\x00").values is None


def test_a_batch_of_ragged_tensors_is_read() -> None:
    first, second = read(
        b'"#\n\x13RaggedTensorVariant\x1a\x0b\x08\x03\x12\x04\x12\x02\x08\x01:\x01\x01'
        b"\n\x13RaggedTensorVariant\x1a\x0c\x08\x03\x12\x04\x12\x02\x08\x02:\x02\x02\x03",
        2,
    )
    assert (first.values.tolist(), second.values.tolist()) == ([1], [2, 3])


def test_matrix_is_read_with_any_metadata_padding() -> None:
    found = read(
        b"t\n\x1btensorflow::CSRSparseMatrix\x12\x08\x01\t\xa8\xd6\x01\x00\x00\x00\x1a\x0c\x08\t\x12"
        b"\x04\x12\x02\x08\x02R\x02\x02\x02\x1a\x0c\x08\x03\x12\x04\x12\x02\x08\x02:\x02\x00\x02\x1a\r"
        b"\x08\x03\x12\x04\x12\x02\x08\x03:\x03\x00\x01\x02\x1a\x0c\x08\x03\x12\x04\x12\x02\x08\x02:\x02"
        b"\x00\x01\x1a\x12\x08\x01\x12\x04\x12\x02\x08\x02*\x08\x00\x00\x80?\x00\x00\x00@"
    )
    assert (found.dense_shape, found.indices().tolist()) == ((2, 2), [[0, 0], [1, 1]])
    assert found.values.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("tensorflow::TensorList", VariantData(b"\xff\xff\x03")),
        ("tensorflow::TensorList", VariantData(b"\x01\x05\x01\x00\x12\x00")),
        ("tensorflow::TensorList", VariantData(b"\x02\x01\x00\x01\x00\x12\x00")),
        ("tensorflow::TensorList", VariantData(b"\x00\x01\x00\xff")),
        ("tensorflow::TensorList", VariantData(b"\x00\x7f\x00")),
        ("tensorflow::TensorList", VariantData(b"\0\1\0", (np.int32(1),), (I32,))),
        ("tensorflow::TensorList", VariantData(b"\0\1\0\x12\2\x08\2", (np.float32([1]),), (F32,))),
        ("tensorflow::data::Optional", VariantData()),
        ("tensorflow::data::Optional", VariantData(b"\0", (np.int32(1),), (I32,))),
        ("RaggedTensorVariant", VariantData()),
        ("RaggedTensorVariant", VariantData(b"", (np.float32([0, 1]), np.int32([1])), (F32, I32))),
        ("RaggedTensorVariant", VariantData(b"", (np.int32([0, 9]), np.int32([1])), (I32, I32))),
        ("RaggedTensorVariant", VariantData(b"", (np.int32(0), np.int32(1)), (I32, I32))),
        ("tensorflow::TensorMap", VariantData(b"", (np.int32(1),), (I32,))),
        ("tensorflow::TensorMap", VariantData(b"", (None, 1), (dtypes.variant, I32))),
        ("tensorflow::Tensor", VariantData()),
        ("tensorflow::CSRSparseMatrix", VariantData()),
        ("Graphmill>IteratorState", VariantData()),
        ("Graphmill>IteratorState", VariantData(b"", (np.int64([1]),), (I64,))),
        ("Graphmill>IteratorState", VariantData(b"", (np.int32(1),), (I32,))),
        ("Graphmill>IteratorState", VariantData(b"", (np.int64(-1),), (I64,))),
        ("Graphmill>IteratorState", VariantData(b"", (np.int64(1), np.int64([])), (I64, I64))),
        ("Graphmill>IteratorState", VariantData(b"", (np.int64(1), np.int64([1, 2])), (I64, I64))),
        ("tensorflow.data.CompressedElement", VariantData(b"\x0a\x05")),
        ("tensorflow.data.CompressedElement", VariantData(b"\x12\x02\x08\x01")),
        ("tensorflow.data.CompressedElement", VariantData(b"\x12\x04\x08\x07\x12\x00")),
        ("tensorflow.data.CompressedElement", VariantData(b"\x12\x06\x08\x07\x12\x02\x18\x01")),
        ("tensorflow.data.CompressedElement", VariantData(b"\x12\x05\x08\x65\x22\x01\x04")),
    ],
    ids=range(28),
)
def test_malformed_contents_are_typed_errors(name: str, data: VariantData) -> None:
    with pytest.raises((errors.InvalidArgumentError, errors.DataLossError)):
        VARIANTS.get(name).decode(data)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (0, np.int64([2, 3])),
        (0, np.int64([2, -2, 3])),
        (0, np.int64([2, 2**40, 3])),
        (0, np.int64(2)),
        (1, np.int32([0, 1])),
        (1, np.int32([0, 2, 1])),
        (1, np.int32([1, 1, 3])),
        (2, np.int32([0, 1, 1, 0, 1])),
        (2, np.int32([0, 1, 1, 0, 3, 2])),
        (3, np.int32([1, 0, 3])),
        (3, np.int32([1, 0, -1])),
        (3, np.int32([1, 0])),
        (4, np.float32([1, 2, 3, 4])),
        (4, np.float32(1)),
    ],
)
def test_parts_of_a_matrix_that_do_not_fit_are_refused(part: int, value: Any) -> None:
    data = csr_matrix.encode(a_matrix())
    tensors = (*data.tensors[:part], value, *data.tensors[part + 1 :])
    with pytest.raises(errors.InvalidArgumentError, match="a CSR matrix"):
        csr_matrix.decode(data._replace(tensors=tensors))


# What TensorFlow 2.21 writes for CompressElement(components=[[1, 2], "ab"]).
TENSORFLOWS_ELEMENT = (
    b"\n\x0c\n$\x01\x00\x00\x00\x02\x00\x00\x00ab"
    b'\x12\x0b\x08\x03\x12\x04\x12\x02\x08\x02"\x01\x08\x12\x07\x08\x07\x12\x00"\x01\x02'
)


def test_a_compressed_element_is_read_as_tensorflow_writes_it() -> None:
    found = compressed_element.decode(VariantData(TENSORFLOWS_ELEMENT))
    assert found.content() == np.int32([1, 2]).tobytes() + b"ab"
    assert found.components == (
        Component(I32, (2,), (8,)),
        Component(dtypes.string, (), (2,)),
    )
    again = compressed_element.decode(compressed_element.encode(found))
    assert (again.content(), again.components) == (found.content(), found.components)


def test_an_unknown_version_of_a_compressed_element_is_refused() -> None:
    with pytest.raises(errors.UnimplementedError, match="version 1 "):
        compressed_element.decode(VariantData(b"\x18\x01"))


def test_a_compressed_element_of_another_length_is_damaged() -> None:
    value = CompressedElement(zlib.compress(b"abc"), [Component(dtypes.string, (), (2,))])
    with pytest.raises(errors.DataLossError, match="3 bytes, but its components need 2"):
        value.content()


def test_the_state_of_an_iterator_keeps_its_seeds() -> None:
    value = SavedIterator(IteratorPosition(3, [(array("q", [5, -6]), 8), (array("q"), 0)]))
    found = iterator_state.decode(iterator_state.encode(value))
    assert found.position == value.position


@given(st.lists(st.none() | st.integers(-5, 5)), st.integers(-(2**31), 2**31 - 1))
def test_any_list_survives(elements: list[int | None], limit: int) -> None:
    value = TensorList(I32, (), [None if e is None else np.int32(e) for e in elements], limit)
    found = tensor_list.decode(tensor_list.encode(value))
    assert (found.elements(), found.max_num_elements) == (elements, limit)


@pytest.mark.parametrize("name", VALUES)
@given(position=st.integers(0, 200), cut=st.integers(0, 4), added=st.binary(max_size=4))
def test_mutated_values_are_values_or_typed_errors(
    name: str, position: int, cut: int, added: bytes
) -> None:
    content = variants_to_tensor_proto(VALUES[name], VARIANTS).tensor_content
    element = content[1 if content[0] < 0x80 else 2 :]
    start = position % (len(element) + 1)
    mutated = element[:start] + added + element[start + cut :]
    size = len(mutated)
    head = bytes([size & 0x7F | 0x80, size >> 7])
    with contextlib.suppress(errors.OpError):
        read(head + mutated)
