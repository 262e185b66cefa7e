"""Summarize a checkpoint: the names, dtypes and shapes of its variables."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from graphmill import files
from graphmill.cli.output.formatting import Block, Table
from graphmill.inputs.input_spec import show_shape
from graphmill.saved.checkpoint import latest_checkpoint, load_checkpoint

_INDEX = ".index"
_SAVED_MODELS = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")


@dataclass(frozen=True, slots=True)
class CheckpointTensor:
    """One tensor of a checkpoint.

    Attributes:
        name: its key.
        dtype: the name of its dtype.
        shape: its shape.
        bytes: its size in memory; 0 for strings, whose sizes are unknown.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


def find_checkpoint(path: str) -> str | None:
    """Return the prefix of the checkpoint that a path names, or None if it names another file.

    A path may be the prefix, the `.index` file, or a folder with a checkpoint and no SavedModel.
    """
    if path.endswith(_INDEX) and files.exists(path):
        return path.removesuffix(_INDEX)
    if files.is_dir(path):
        return _checkpoint_in(path)
    is_prefix = not files.exists(path) and files.exists(path + _INDEX)
    return path if is_prefix else None


def _checkpoint_in(folder: str) -> str | None:
    names = files.list_dir(folder)
    if any(name in names for name in _SAVED_MODELS):
        return None
    latest = latest_checkpoint(folder)
    if latest is not None:
        return latest
    indexes = [name for name in names if name.endswith(_INDEX)]
    return files.join(folder, indexes[0].removesuffix(_INDEX)) if len(indexes) == 1 else None


def read_checkpoint(prefix: str) -> list[CheckpointTensor]:
    """Return the tensors of a checkpoint, sorted by name; contents are not read.

    Raises:
        OpError: there is no such checkpoint, or it is damaged.
    """
    tensors = []
    with load_checkpoint(prefix) as reader:
        for name in sorted(reader.names()):
            dtype, shape = reader.dtype(name), reader.shape(name)
            size = 0 if dtype.name == "string" else dtype.size * prod(shape)
            tensors.append(CheckpointTensor(name, dtype.name, shape, size))
    return tensors


def checkpoint_data(model: str, prefix: str, tensors: list[CheckpointTensor]) -> dict[str, Any]:
    """Return a checkpoint as JSON data."""
    return {
        "model": model,
        "file": prefix,
        "kind": "checkpoint",
        "bytes": sum(tensor.bytes for tensor in tensors),
        "tensors": [
            {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape)}
            for tensor in tensors
        ],
    }


def checkpoint_blocks(model: str, prefix: str, tensors: list[CheckpointTensor]) -> list[Block]:
    """Return a checkpoint as text and a table."""
    elements = sum(prod(tensor.shape) for tensor in tensors)
    size = sum(tensor.bytes for tensor in tensors)
    table = Table(("name", "dtype", "shape"), title="tensors")
    table.rows += [(tensor.name, tensor.dtype, show_shape(tensor.shape)) for tensor in tensors]
    where = "" if prefix == model else f" {prefix}"
    return [
        f"{model}: checkpoint{where}",
        f"{len(tensors):,} tensors with {elements:,} elements; {size:,} bytes",
        table,
    ]
