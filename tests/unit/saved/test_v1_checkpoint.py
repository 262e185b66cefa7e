"""Damaged checkpoints of format V1 are refused, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill import proto
from graphmill.errors import DataLossError
from graphmill.saved.table import TableWriter
from graphmill.saved.tensor_slice import TensorSlice, slice_key
from graphmill.saved.v1_checkpoint import V1Reader

if TYPE_CHECKING:
    from pathlib import Path


def write_checkpoint(path: Path, dtype: Any, sizes: tuple[int, ...]) -> str:
    """Write a checkpoint with tensor `x` of two values, which is described as given."""
    whole = TensorSlice.full(len(sizes))
    description = proto.SavedTensorSlices()
    description.meta.versions.producer = 1
    tensor = description.meta.tensor.add(name="x", type=dtype, slice=[whole.to_proto()])
    for size in sizes:
        tensor.shape.dim.add(size=size)
    values = proto.SavedTensorSlices()
    values.data.name = "x"
    values.data.slice.CopyFrom(whole.to_proto())
    values.data.data.int_val.extend([1, 2])
    content = bytearray()
    table = TableWriter(content.extend)
    table.add(b"", description.SerializeToString())
    table.add(slice_key(b"x", whole), values.SerializeToString())
    table.finish()
    path.write_bytes(content)
    return str(path)


def test_tensor_is_read(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "ckpt", proto.DataType.DT_INT32, (2,))
    with V1Reader(path) as reader:
        assert reader.read_tensor("x").tolist() == [1, 2]


def test_unknown_dimensions_are_named(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "ckpt", proto.DataType.DT_INT32, (-1,))
    with pytest.raises(DataLossError, match=r"tensor x: its shape \(-1,\) has unknown dimensions"):
        V1Reader(path)


def test_type_that_the_format_lacks_is_named(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "ckpt", proto.DataType.DT_UINT32, (2,))
    with (
        V1Reader(path) as reader,
        pytest.raises(DataLossError, match="has no uint32, the type of tensor x"),
    ):
        reader.read_tensor("x")


def test_number_of_values_must_match_the_shape(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "ckpt", proto.DataType.DT_INT32, (3,))
    with (
        V1Reader(path) as reader,
        pytest.raises(DataLossError, match=r"tensor x \(int32\) has 2 values, expected 3"),
    ):
        reader.read_tensor("x")
