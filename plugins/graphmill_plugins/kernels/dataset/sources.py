"""Kernels of datasets from tensors, ranges and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import ResourceHandle, files
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._path_strings import texts
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels.dataset.iterators.ops import check_structure
from graphmill_plugins.kernels.dataset.pipeline.basic import ListOfElements, Range, Slices, Tensors
from graphmill_plugins.kernels.dataset.pipeline.buffering import Generator
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    CapturedFunction,
    dataset_maker,
    scalar,
    structure,
)
from graphmill_plugins.kernels.dataset.pipeline.files.csv import CsvOptions, CsvRecords
from graphmill_plugins.kernels.dataset.pipeline.files.records import FixedLength, Lines, TFRecords
from graphmill_plugins.kernels.dataset.pipeline.shuffle import RandomNumbers, SeedGenerator
from graphmill_plugins.kernels.unstack import rows

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset

_FILES = ("fs.read",)


def _types(dtypes: Sequence[np.dtype[Any]]) -> list[Any]:
    return [as_dtype(dtype) for dtype in dtypes]


@dataset_maker("TensorDataset")
def tensor_dataset(
    ctx: OpKernelContext,
    components: list[Value],
    Toutput_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> Dataset:
    """Make a dataset of one element."""
    del ctx
    return _checked(Tensors(components, _types(Toutput_types)), output_shapes)


def _checked(dataset: Dataset, shapes: Sequence[Shape]) -> Dataset:
    """Check the element shapes of a dataset against the node's attr; return the dataset.

    Raises:
        InvalidArgumentError: the shapes are incompatible.
    """
    check_structure(dataset.dtypes, dataset.shapes, dataset.dtypes, shapes)
    return dataset


@dataset_maker("TensorSliceDataset")
def tensor_slice_dataset(
    ctx: OpKernelContext,
    components: list[Value],
    Toutput_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> Dataset:
    """Make a dataset of the slices of tensors along their first axis."""
    del ctx
    return _checked(Slices(components, _types(Toutput_types)), output_shapes)


@dataset_maker("ListDataset")
def list_dataset(
    ctx: OpKernelContext,
    tensors: list[Value],
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> Dataset:
    """Make a dataset of the given elements, whose components are in one list."""
    del ctx
    return _listed(tensors, output_types, output_shapes)


def _listed(
    tensors: list[Value], output_types: Sequence[Any], output_shapes: Sequence[Shape]
) -> Dataset:
    types, shapes = structure(output_types, output_shapes)
    count = len(types)
    if len(tensors) % count:
        raise InvalidArgumentError(
            f"{len(tensors)} tensors cannot be elements of {count} components each"
        )
    elements = [tuple(tensors[start : start + count]) for start in range(0, len(tensors), count)]
    return ListOfElements(elements, types, shapes)


@dataset_maker("WindowOp")
def window_op(
    ctx: OpKernelContext,
    inputs: list[Value],
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> Dataset:
    """Make a dataset of the elements of a window."""
    del ctx
    return _listed(inputs, output_types, output_shapes)


@dataset_maker("SparseTensorSliceDataset")
def sparse_tensor_slice_dataset(
    ctx: OpKernelContext,
    indices: Value,
    values: Value,
    dense_shape: Value,
    Tvalues: np.dtype[Any],
) -> Dataset:
    """Make a dataset of the rows of a sparse tensor, whose rows must be in order."""
    del ctx
    rank = len(dense_shape) if dense_shape.ndim == 1 else 0
    values_shape = shape_of_value(values, as_dtype(Tvalues))
    if indices.ndim != 2 or len(values_shape) != 1 or rank < 1 or indices.shape[1] != rank:
        raise InvalidArgumentError(
            "a SparseTensorSliceDataset needs indices of shape [n, rank], values of shape [n] and "
            f"a dense_shape of shape [rank]; got {list(indices.shape)}, {list(values_shape)} and "
            f"{list(dense_shape.shape)}"
        )
    if len(indices) != len(values):
        raise InvalidArgumentError(
            f"Number of values must match first dimension of indices. Got {len(values)} values, "
            f"indices shape: {list(indices.shape)}"
        )
    first = indices[:, 0]
    if len(first) and (np.any(np.diff(first) < 0) or first[0] < 0):
        raise UnimplementedError(
            "The SparseTensor must be ordered in the batch dimension: the first column of its "
            "indices is negative or not sorted; sort it with SparseReorder"
        )
    count = int(dense_shape[0])
    if len(first) and first[-1] >= count:
        raise InvalidArgumentError(
            f"index {int(first[-1])} of a SparseTensor of {count} rows is out of range"
        )
    elements = _SparseRows(indices, values, dense_shape)
    types = (as_dtype(np.int64), as_dtype(Tvalues), as_dtype(np.int64))
    shapes = ((-1, rank - 1), (-1,), (rank - 1,))
    return ListOfElements(elements, types, shapes)


class _SparseRows(Sequence[tuple[Any, ...]]):
    """The rows of a sparse tensor, sliced on access."""

    def __init__(self, indices: Value, values: Value, dense_shape: Value) -> None:
        self._indices, self._values = indices, values
        self._row_shape = dense_shape[1:]
        self._count = int(dense_shape[0])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: Any) -> Any:
        if row >= self._count:
            raise IndexError(row)
        start, stop = np.searchsorted(self._indices[:, 0], [row, row + 1])
        return self._indices[start:stop, 1:], self._values[start:stop], self._row_shape


@dataset_maker("RangeDataset")
def range_dataset(
    ctx: OpKernelContext, start: Value, stop: Value, step: Value, output_types: Sequence[Any]
) -> Dataset:
    """Make a dataset of the numbers from `start` up to, but excluding, `stop`."""
    del ctx
    first, end, increment = (
        int(scalar(start, "start")),
        int(scalar(stop, "stop")),
        int(scalar(step, "step")),
    )
    return Range(first, end, increment, as_dtype(output_types[0]))


def seed_generator_of(handle: Any, seed: Value, seed2: Value, *, reseeds: bool) -> SeedGenerator:
    """Return the seed generator of a handle, or a new one if the handle has none."""
    generator = handle.resource if isinstance(handle, ResourceHandle) else None
    if isinstance(generator, SeedGenerator):
        return generator
    return SeedGenerator(int(scalar(seed, "seed")), int(scalar(seed2, "seed2")), reseeds=reseeds)


@dataset_maker("RandomDataset", "ExperimentalRandomDataset", effects=("rng",))
def random_dataset(ctx: OpKernelContext, seed: Value, seed2: Value) -> Dataset:
    """Make a dataset of random numbers, the same in each iteration."""
    del ctx
    return RandomNumbers(seed_generator_of(None, seed, seed2, reseeds=False))


@dataset_maker("RandomDatasetV2", effects=("rng", "state"))
def random_dataset_v2(
    ctx: OpKernelContext,
    seed: Value,
    seed2: Value,
    seed_generator: Any,
    rerandomize_each_iteration: bool,
) -> Dataset:
    """Make a dataset of random numbers."""
    del ctx
    return RandomNumbers(
        seed_generator_of(seed_generator, seed, seed2, reseeds=rerandomize_each_iteration)
    )


def _paths(filenames: Value) -> list[str]:
    if filenames.ndim > 1:
        raise InvalidArgumentError(
            f"`filenames` must be a scalar or a vector, got shape {list(filenames.shape)}"
        )
    return [files.as_path(text) for text in texts(filenames)]


def _file_options(filenames: Value, compression: Value, size: Value) -> tuple[list[str], str, int]:
    kind = decode(scalar(compression, "compression_type"))
    return _paths(filenames), kind, int(scalar(size, "buffer_size"))


@dataset_maker("TFRecordDataset", effects=_FILES, brokered=True)
def tf_record_dataset(
    ctx: OpKernelContext,
    filenames: Value,
    compression_type: Value,
    buffer_size: Value,
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of the records of TFRecord files."""
    del ctx
    return TFRecords(*_file_options(filenames, compression_type, buffer_size), broker)


@dataset_maker("TFRecordDatasetV2", effects=_FILES, brokered=True)
def tf_record_dataset_v2(
    ctx: OpKernelContext,
    filenames: Value,
    compression_type: Value,
    buffer_size: Value,
    byte_offsets: Value,
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of the records of TFRecord files, starting at an offset in each file."""
    del ctx
    options = _file_options(filenames, compression_type, buffer_size)
    return TFRecords(*options, broker, offsets=byte_offsets.ravel().tolist())


def _csv(
    inputs: tuple[Any, ...],
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
    broker: Broker,
) -> Dataset:
    filenames, compression_type, buffer_size, header, field_delim, use_quote_delim = inputs[:6]
    na_value, select_cols, record_defaults, exclude_cols = inputs[6:]
    paths, compression, size = _file_options(filenames, compression_type, buffer_size)
    options = CsvOptions(
        compression,
        size,
        bool(scalar(header, "header")),
        scalar(field_delim, "field_delim"),
        bool(scalar(use_quote_delim, "use_quote_delim")),
        scalar(na_value, "na_value"),
        tuple(select_cols.ravel().tolist()),
        tuple(exclude_cols.ravel().tolist()),
    )
    elements = structure(output_types, output_shapes)
    return CsvRecords(paths, options, record_defaults, *elements, broker)


@dataset_maker("CSVDataset", "ExperimentalCSVDataset", effects=_FILES, brokered=True)
def csv_dataset(
    ctx: OpKernelContext,
    *inputs: Any,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
    broker: Broker,
) -> Dataset:
    """Make a dataset of the records of CSV files."""
    del ctx
    return _csv((*inputs, np.zeros(0, np.int64)), output_types, output_shapes, broker)


@dataset_maker("CSVDatasetV2", effects=_FILES, brokered=True)
def csv_dataset_v2(
    ctx: OpKernelContext,
    *inputs: Any,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
    broker: Broker,
) -> Dataset:
    """Make a dataset of the records of CSV files; columns may be excluded."""
    del ctx
    return _csv(inputs, output_types, output_shapes, broker)


@dataset_maker("TextLineDataset", effects=_FILES, brokered=True)
def text_line_dataset(
    ctx: OpKernelContext,
    filenames: Value,
    compression_type: Value,
    buffer_size: Value,
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of the lines of text files."""
    del ctx
    return Lines(*_file_options(filenames, compression_type, buffer_size), broker)


@dataset_maker("FixedLengthRecordDataset", effects=_FILES, brokered=True)
def fixed_length_record_dataset(
    ctx: OpKernelContext,
    filenames: Value,
    header_bytes: Value,
    record_bytes: Value,
    footer_bytes: Value,
    buffer_size: Value,
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of the fixed-length records of files."""
    del ctx
    sizes = header_bytes, record_bytes, footer_bytes
    return _fixed_length(filenames, *sizes, buffer_size, "", broker)


@dataset_maker("FixedLengthRecordDatasetV2", effects=_FILES, brokered=True)
def fixed_length_record_dataset_v2(
    ctx: OpKernelContext,
    filenames: Value,
    header_bytes: Value,
    record_bytes: Value,
    footer_bytes: Value,
    buffer_size: Value,
    compression_type: Value,
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of the fixed-length records of files that may be compressed."""
    del ctx
    kind = decode(scalar(compression_type, "compression_type"))
    sizes = header_bytes, record_bytes, footer_bytes
    return _fixed_length(filenames, *sizes, buffer_size, kind, broker)


def _fixed_length(
    filenames: Value,
    header: Value,
    record: Value,
    footer: Value,
    size: Value,
    kind: str,
    broker: Broker,
) -> Dataset:
    return FixedLength(
        _paths(filenames),
        kind,
        int(scalar(size, "buffer_size")),
        broker,
        header=int(scalar(header, "header_bytes")),
        record=int(scalar(record, "record_bytes")),
        footer=int(scalar(footer, "footer_bytes")),
    )


@dataset_maker(
    "MatchingFilesDataset", "ExperimentalMatchingFilesDataset", effects=_FILES, brokered=True
)
def matching_files_dataset(ctx: OpKernelContext, patterns: Value, *, broker: Broker) -> Dataset:
    """Make a dataset of the paths that match patterns, sorted."""
    del ctx
    paths = [path for text in _paths(patterns) for path in broker.matching(text)]
    out = np.empty(len(paths), object)
    out[:] = sorted(path.encode("utf-8", "surrogateescape") for path in paths)
    string = as_dtype("string")
    return ListOfElements([(row,) for row in rows(out, string)], (string,), ((),))


@dataset_maker("GeneratorDataset", effects=("state",))
def generator_dataset(
    ctx: OpKernelContext,
    init_args: list[Value],
    next_args: list[Value],
    finalize_args: list[Value],
    init_func: Any,
    next_func: Any,
    finalize_func: Any,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> Dataset:
    """Make a dataset that calls a function for each element, until it raises OutOfRange."""
    return Generator(
        CapturedFunction(ctx, init_func, init_args),
        CapturedFunction(ctx, next_func, next_args),
        CapturedFunction(ctx, finalize_func, finalize_args),
        structure(output_types, output_shapes),
    )
