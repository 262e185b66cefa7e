"""Kernels that save and restore checkpoints.

Semantics: tensorflow/core/kernels/save_restore_v2_ops.cc, save_op.cc, restore_op.cc,
save_restore_tensor.cc. Files are written atomically: they appear complete or not at all.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from graphmill import errors
from graphmill.dtypes import DType, as_dtype, variant
from graphmill.spi import files, kernel
from graphmill.spi.checkpoints import (
    BundleReader,
    BundleWriter,
    TensorSlice,
    V1Reader,
    V1Writer,
    index_path,
    key_of,
    merge_bundles,
    parse_shape_and_slice,
)
from graphmill.spi.kernels import freeze
from graphmill_plugins.kernels._helper_threads import HELPERS
from graphmill_plugins.kernels._path_strings import path_scalar, sole_text, texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import OpKernelContext, Value
    from graphmill.spi.checkpoints import BundleEntry
    from graphmill.spi.files import Broker

_MIN_LARGE_BYTES: Final = 1 << 20  # bytes of a tensor above which threads share the reading


class _Add(Protocol):
    """The method of a writer that adds a tensor or slice."""

    def __call__(
        self,
        name: str,
        full_shape: tuple[int, ...] | None,
        tensor_slice: TensorSlice | None,
        values: Value,
        dtype: DType,
    ) -> None: ...


@kernel("SaveV2", host=True, stateful=True, expensive=True, effects=("fs.write",), brokered=True)
def save_v2(
    ctx: OpKernelContext,
    prefix: Value,
    tensor_names: Value,
    shape_and_slices: Value,
    tensors: list[Value],
    dtypes: tuple[np.dtype[Any], ...],
    *,
    broker: Broker,
) -> None:
    """Write a checkpoint in the V2 format."""
    names, slices = _names_and_slices(tensor_names, shape_and_slices)
    if len(names) != len(tensors):
        raise errors.InvalidArgumentError(
            f"Got {len(names)} tensor names but {len(tensors)} tensors."
        )
    path, variants = files.as_path(sole_text(prefix, "Input prefix")), ctx.functions.host.variants
    with BundleWriter(path, broker=broker, variants=variants) as writer:

        def add(
            name: str,
            full_shape: tuple[int, ...] | None,
            tensor_slice: TensorSlice | None,
            values: Value,
            dtype: DType,
        ) -> None:
            if full_shape is None or tensor_slice is None:
                writer.add(name, values, dtype)
            else:
                writer.add_slice(name, full_shape, tensor_slice, values, dtype)

        _save(add, zip(names, slices, tensors, dtypes, strict=True))


@kernel("RestoreV2", host=True, stateful=True, expensive=True, effects=("fs.read",), brokered=True)
def restore_v2(
    ctx: OpKernelContext,
    prefix: Value,
    tensor_names: Value,
    shape_and_slices: Value,
    dtypes: tuple[np.dtype[Any], ...],
    *,
    broker: Broker,
) -> list[Value]:
    """Read tensors or slices of a checkpoint in the V1 or V2 format."""
    path = files.as_path(sole_text(prefix, "Input prefix"))
    names, slices = _names_and_slices(tensor_names, shape_and_slices)
    if len(names) != len(dtypes):
        raise errors.InvalidArgumentError(
            f"Got {len(names)} tensor names, but {len(dtypes)} expected dtypes."
        )
    by_numpy = {dtype: as_dtype(dtype) for dtype in set(dtypes)}  # thousands may have a few types
    requested = [
        (name, spec, by_numpy[dtype])
        for name, spec, dtype in zip(names, slices, dtypes, strict=True)
    ]
    if broker.exists(index_path(path)) or not _matches(path, broker):
        with BundleReader(path, broker=broker, variants=ctx.functions.host.variants) as bundle:
            return _restore(bundle, requested)
    with V1Reader(path, broker=broker) as reader:
        return [_restore_v1(reader, *row) for row in requested]


@kernel(
    "MergeV2Checkpoints",
    host=True,
    expensive=True,
    effects=("fs.read", "fs.write"),
    brokered=True,
)
def merge_v2_checkpoints(
    checkpoint_prefixes: Value,
    destination_prefix: Value,
    delete_old_dirs: bool,
    allow_missing_files: bool,
    *,
    broker: Broker,
) -> None:
    """Merge checkpoints into one; with `delete_old_dirs`, remove folders that become empty."""
    if np.ndim(checkpoint_prefixes) != 1 or np.ndim(destination_prefix):
        shapes = f"{list(np.shape(checkpoint_prefixes))} and {list(np.shape(destination_prefix))}"
        raise errors.InvalidArgumentError(
            "Input checkpoint_prefixes should be an 1-D tensor and destination_prefix a scalar, "
            f"got shapes {shapes}"
        )
    prefixes = [files.as_path(text) for text in texts(checkpoint_prefixes)]
    destination = files.as_path(sole_text(destination_prefix, "Input destination_prefix"))
    for path in (*prefixes, destination):
        broker.require("fs.write", path)
    merge_bundles(prefixes, destination, allow_missing_files=allow_missing_files, broker=broker)
    if delete_old_dirs:
        for folder in {files.parent(prefix) for prefix in prefixes} - {files.parent(destination)}:
            with contextlib.suppress(errors.OpError):  # not empty, or gone already
                broker.remove_empty_dir(folder)


@kernel("Save", host=True, expensive=True, effects=("fs.write",), brokered=True)
def save(
    filename: Value,
    tensor_names: Value,
    data: list[Value],
    T: tuple[np.dtype[Any], ...],
    *,
    broker: Broker,
) -> None:
    """Write a checkpoint in the V1 format."""
    slices = [b""] * np.size(tensor_names)
    save_slices(filename, tensor_names, slices, data, T, broker=broker)


@kernel("SaveSlices", host=True, expensive=True, effects=("fs.write",), brokered=True)
def save_slices(
    filename: Value,
    tensor_names: Value,
    shapes_and_slices: Value,
    data: list[Value],
    T: tuple[np.dtype[Any], ...],
    *,
    broker: Broker,
) -> None:
    """Write a checkpoint of tensors or slices in the V1 format."""
    names, slices = texts(tensor_names), texts(shapes_and_slices)
    if not len(names) == len(slices) == len(data):
        raise errors.InvalidArgumentError(
            f"Expected one of each per tensor, got {len(names)} tensor names, {len(slices)} shapes "
            f"and slices and {len(data)} tensors"
        )
    writer = V1Writer(files.as_path(sole_text(filename, "Input 0 (filename)")), broker=broker)

    def add(
        name: str,
        full_shape: tuple[int, ...] | None,
        tensor_slice: TensorSlice | None,
        values: Value,
        dtype: DType,
    ) -> None:
        writer.add(name, values, dtype, full_shape, tensor_slice)

    # Sorted by name, so that restoring reads the file sequentially.
    rows = sorted(zip(names, slices, data, T, strict=True), key=lambda row: key_of(row[0]))
    _save(add, rows)
    writer.finish()


@kernel("Restore", host=True, expensive=True, effects=("fs.read",), brokered=True)
def restore(
    file_pattern: Value,
    tensor_name: Value,
    dt: np.dtype[Any],
    preferred_shard: int,
    *,
    broker: Broker,
) -> Value:
    """Read a tensor of a checkpoint in the V1 format."""
    return restore_slice(file_pattern, tensor_name, [b""], dt, preferred_shard, broker=broker)


@kernel("RestoreSlice", host=True, expensive=True, effects=("fs.read",), brokered=True)
def restore_slice(
    file_pattern: Value,
    tensor_name: Value,
    shape_and_slice: Value,
    dt: np.dtype[Any],
    preferred_shard: int,
    *,
    broker: Broker,
) -> Value:
    """Read a tensor or slice of a checkpoint in the V1 format."""
    pattern = files.as_path(sole_text(file_pattern, "Input 0 (file_pattern)"))
    name = sole_text(tensor_name, "Input 1 (tensor_name)")
    spec = sole_text(shape_and_slice, "Input 2 (shape_and_slice)")
    with V1Reader(pattern, preferred_shard, broker=broker) as reader:
        return _restore_v1(reader, name, spec, as_dtype(dt))


@kernel("ShardedFilename", host=True)
def sharded_filename(basename: Value, shard: Value, num_shards: Value) -> Value:
    """Return the file name of a shard, such as `base-00001-of-00003`."""
    return path_scalar(f"{_base(basename)}-{_number(shard):05d}-of-{_number(num_shards):05d}")


@kernel("ShardedFilespec", host=True)
def sharded_filespec(basename: Value, num_shards: Value) -> Value:
    """Return the pattern of the file names of all shards, such as `base-?????-of-00003`."""
    return path_scalar(f"{_base(basename)}-?????-of-{_number(num_shards):05d}")


def _base(basename: Value) -> str:
    if np.ndim(basename):
        raise errors.InvalidArgumentError(
            f"basename must be a scalar, got shape {list(np.shape(basename))}"
        )
    return sole_text(basename, "Input basename")


def _number(value: Value) -> int:
    if np.ndim(value):
        raise errors.InvalidArgumentError(
            f"the shard and the number of shards must be scalars, got shape {list(np.shape(value))}"
        )
    return int(np.asarray(value).item())


def _matches(path: str, broker: Broker) -> bool:
    """Return whether any file matches a pattern and may be a checkpoint in the V1 format."""
    paths = [path] if broker.exists(path) else broker.matching(path)
    return any(not broker.is_dir(name) for name in paths)


def _names_and_slices(tensor_names: Value, shape_and_slices: Value) -> tuple[list[str], list[str]]:
    if np.ndim(tensor_names) != 1 or np.ndim(shape_and_slices) != 1:
        raise errors.InvalidArgumentError(
            "Input tensor_names and shape_and_slices should be an 1-D tensors, got "
            f"{list(np.shape(tensor_names))} and {list(np.shape(shape_and_slices))} instead."
        )
    names, slices = texts(tensor_names), texts(shape_and_slices)
    if len(names) != len(slices):
        raise errors.InvalidArgumentError(
            "tensor_names and shape_and_slices have different number of elements: "
            f"{len(names)} vs. {len(slices)}"
        )
    return names, slices


def _save(add: _Add, rows: Iterable[tuple[str, str, Value, np.dtype[Any]]]) -> None:
    """Pass each tensor, or slice of a larger one, to a writer."""
    for name, spec, value, dtype in rows:
        values = np.asarray(value)
        full_shape, tensor_slice = parse_shape_and_slice(spec) if spec else (None, None)
        if tensor_slice is not None and full_shape is not None:
            shape = tensor_slice.shape(full_shape)
            if shape != values.shape:
                raise errors.InvalidArgumentError(
                    "Slice in shape_and_slice specification does not match the shape of the tensor "
                    f"to  save: {spec}, tensor: {list(values.shape)} ({name})"
                )
        add(name, full_shape, tensor_slice, values, as_dtype(dtype))


def _restore(bundle: BundleReader, requested: list[tuple[str, str, DType]]) -> list[Value]:
    entries = [bundle.entry(name) for name, _, _ in requested]
    for entry, (name, _, dtype) in zip(entries, requested, strict=True):
        if entry.dtype is not dtype.base_dtype:
            raise errors.InvalidArgumentError(
                f"tensor_name = {name}; expected dtype {dtype.tf_name} does not equal original "
                f"dtype {entry.dtype.tf_name}"
            )
    whole = [entry for entry, (_, spec, _) in zip(entries, requested, strict=True) if not spec]
    values = iter(_values(bundle, whole))
    return [
        _restore_slice(bundle, entry, spec) if spec else _storable(next(values), entry.dtype)
        for entry, (_, spec, _) in zip(entries, requested, strict=True)
    ]


def _storable(value: Value, dtype: DType) -> Value:
    """Return restored values in a form that a variable may store without a copy."""
    if dtype is variant:
        return value if value.ndim else value.item()
    return freeze(value)


def _values(bundle: BundleReader, entries: list[BundleEntry]) -> list[Value]:
    """Return the values of whole tensors; large ones are read by several threads."""
    values: list[Any] = [None] * len(entries)

    def read(index: int) -> None:
        with contextlib.suppress(errors.OpError):  # reading it again below raises it
            values[index] = bundle.read_entry(entries[index])

    large = [
        i for i, entry in enumerate(entries) if entry.size >= _MIN_LARGE_BYTES and entry.dtype.size
    ]
    if len(large) > 1:
        HELPERS.run([partial(read, index) for index in large])
    left = [index for index, value in enumerate(values) if value is None]
    rest = bundle.read_entries([entries[index] for index in left])
    for index, value in zip(left, rest, strict=True):
        values[index] = value
    return values


def _restore_slice(bundle: BundleReader, entry: BundleEntry, spec: str) -> Value:
    full_shape, tensor_slice = parse_shape_and_slice(spec)
    _check_shape(entry.name, full_shape, entry.shape)
    return freeze(bundle.read_slice(entry.name, tensor_slice))


def _restore_v1(reader: V1Reader, name: str, spec: str, dtype: DType) -> Value:
    stored = reader.dtype(name)
    if stored is not dtype.base_dtype:
        raise errors.InvalidArgumentError(
            f"Expected to restore a tensor of type {dtype.tf_name}, got a tensor of type "
            f"{stored.tf_name} instead: tensor_name = {name}"
        )
    if not spec:
        return reader.read_tensor(name)
    full_shape, tensor_slice = parse_shape_and_slice(spec)
    _check_shape(name, full_shape, reader.shape(name))
    return reader.read_slice(name, tensor_slice)


def _check_shape(name: str, in_spec: tuple[int, ...], stored: tuple[int, ...]) -> None:
    if in_spec != stored:
        raise errors.InvalidArgumentError(
            f"tensor_name = {name}; shape in shape_and_slice spec {list(in_spec)} does not match "
            f"the shape stored in checkpoint: {list(stored)}"
        )
