"""Datasets of files: their names, records, lines.

Semantics: tensorflow/python/data/ops/readers.py.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from graphmill.data.components import Component, scalar
from graphmill.data.dataset import Dataset
from graphmill.data.element_spec import TensorSpec
from graphmill.data.sources import from_tensor_slices
from graphmill.data.steps import shuffled
from graphmill.errors import InvalidArgumentError
from graphmill.ops import array, io, math
from graphmill.ops import dataset as ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor

_LINE = TensorSpec([], "string")
_ALL_ELEMENTS = -2


class TFRecordDataset(Dataset):
    """The records of TFRecord files, strings.

        with graphmill.tf_record.TFRecordWriter("a.tfrecord") as writer:
            writer.write(b"one")
        print(list(graphmill.data.TFRecordDataset("a.tfrecord")))  # [b'one']

    Args:
        filenames: a path, a list of these, a tensor, or a dataset of paths.
        compression_type: "", "ZLIB" or "GZIP".
        buffer_size: the number of bytes that are read at once; by default 256 KiB.
        num_parallel_reads: how many files are read at the same time, with interleaved records; by
            default one after the other.
        name: stored in the metadata of the node.

    Raises:
        InvalidArgumentError: an argument has a wrong type or value.
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        extra = [_compression(compression_type), _buffer_size(buffer_size)]
        _init_reader(self, ops.tf_record_dataset, filenames, extra, num_parallel_reads)
        self.named(name)


class TextLineDataset(Dataset):
    """The lines of text files, strings without the line breaks.

    Args:
        filenames, compression_type, buffer_size, num_parallel_reads: as for `TFRecordDataset`.

    Raises:
        InvalidArgumentError: an argument has a wrong type or value.
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        extra = [_compression(compression_type), _buffer_size(buffer_size)]
        _init_reader(self, ops.text_line_dataset, filenames, extra, num_parallel_reads)
        self.named(name)


class FixedLengthRecordDataset(Dataset):
    """The records of files whose records have one length, strings.

    Args:
        filenames, buffer_size, compression_type, num_parallel_reads: as for `TFRecordDataset`.
        record_bytes: the length of a record.
        header_bytes, footer_bytes: the number of bytes before the first and after the last record.

    Raises:
        InvalidArgumentError: an argument has a wrong type or value.
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: Any,
        header_bytes: Any = None,
        footer_bytes: Any = None,
        buffer_size: Any = None,
        compression_type: Any = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        extra = [
            scalar(0 if header_bytes is None else header_bytes, "int64", "header_bytes"),
            scalar(record_bytes, "int64", "record_bytes"),
            scalar(0 if footer_bytes is None else footer_bytes, "int64", "footer_bytes"),
        ]
        extra += [_buffer_size(buffer_size), _compression(compression_type)]
        _init_reader(self, ops.fixed_length_record_dataset_v2, filenames, extra, num_parallel_reads)
        self.named(name)


def list_files(file_pattern: Any, shuffles: bool, seed: int | None) -> Dataset:
    """Return a dataset of names of files; see `Dataset.list_files`."""
    patterns = Component(_paths(file_pattern), "string")

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        del inputs
        from graphmill.graph.assertion import Assert

        pattern = patterns.add_to(graph)
        names = io.matching_files(pattern)
        message = ["No files matched pattern: ", pattern]
        matched = Assert(math.greater(array.size(names), 0), message, summarize=10)
        with graph.control_dependencies([matched]):
            names = array.identity(names)
        return ops.tensor_slice_dataset([names], output_shapes=[[]], is_files=True)

    names = Dataset(build, _LINE, components=[patterns])
    return shuffled(names, _ALL_ELEMENTS, seed, reshuffles=True) if shuffles else names


def _init_reader(
    dataset: Dataset,
    op: Callable[..., Tensor],
    filenames: Any,
    extra: list[Component],
    num_parallel_reads: int | None,
) -> None:
    """Initialize a dataset that reads files one after the other, or interleaves several."""
    names = filenames if isinstance(filenames, Dataset) else _names(filenames)
    if names.element_spec.dtype.name != "string":
        raise InvalidArgumentError(
            f"`filenames` must be strings, got {names.element_spec.dtype.name}"
        )

    def read(name: Tensor) -> Dataset:
        def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
            del inputs
            return op(name, *(part.add_to(graph) for part in extra))

        opened = Dataset(build, _LINE)
        opened.graph = name.graph
        return opened

    if num_parallel_reads is None:
        records = names.flat_map(read)
    else:
        records = names.interleave(read, num_parallel_reads, 1, num_parallel_reads)

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        del graph
        return inputs[0]

    Dataset.__init__(dataset, build, _LINE, [records])


def _names(filenames: Any) -> Dataset:
    component = Component(_paths(filenames))
    if component.dtype.name != "string":
        raise InvalidArgumentError(
            f"`filenames` must be strings, a list of these or a dataset, got {component.dtype.name}"
        )
    if component.value is not None:
        return from_tensor_slices(component.value.reshape(-1))
    from graphmill.functions import reshape

    return from_tensor_slices(reshape(filenames, [-1]))


def _paths(paths: Any) -> Any:
    """Return paths as strings; a list of them as a list."""
    if isinstance(paths, (list, tuple)):
        return [_paths(path) for path in paths]
    return os.fspath(paths) if isinstance(paths, os.PathLike) else paths


def _compression(compression_type: Any) -> Component:
    kind = "" if compression_type is None else compression_type
    component = scalar(kind, "string", "compression_type")
    if component.value is not None and component.value.item() not in (b"", b"ZLIB", b"GZIP"):
        raise InvalidArgumentError(
            f"compression_type must be '', 'ZLIB' or 'GZIP', got {compression_type!r}"
        )
    return component


def _buffer_size(buffer_size: Any) -> Component:
    return scalar(256 * 1024 if buffer_size is None else buffer_size, "int64", "buffer_size")
