"""Write tensor bundles (checkpoints of format V2), byte for byte as TensorFlow does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from graphmill import dtypes, errors, files, proto
from graphmill.access.broker import UNRESTRICTED
from graphmill.runtime.variants.object_tensors import variants_to_messages
from graphmill.saved import bundle_format as layout
from graphmill.saved import crc
from graphmill.saved.table import TableWriter
from graphmill.saved.tensor_slice import slice_key

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from graphmill.access.broker import Broker
    from graphmill.proto.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto
    from graphmill.runtime.variants.variant_codec import VariantRegistry
    from graphmill.saved.tensor_slice import TensorSlice


class BundleWriter:
    """Write a checkpoint. Not thread-safe.

    Values are written to temporary files as they are added. `finish` moves the files to their
    final paths, the index last, so a checkpoint with an index is complete. As a context manager,
    it calls `finish`, or `abandon` after an error.

    Args:
        prefix: path or URL of the checkpoint, without `.index`.
        num_shards: number of data files; each tensor goes to the smallest one so far.
            TensorFlow writes one, and gets several by merging checkpoints.
        broker: opens the files.
        variants: the codecs of variants; without them variants cannot be written.
    """

    def __init__(
        self,
        prefix: str | os.PathLike[str],
        num_shards: int = 1,
        *,
        broker: Broker = UNRESTRICTED,
        variants: VariantRegistry | None = None,
    ) -> None:
        if num_shards < 1:
            raise errors.InvalidArgumentError(f"num_shards is {num_shards}; it must be at least 1")
        self.prefix, self._broker, self._variants = files.as_path(prefix), broker, variants
        self._entries: dict[bytes, BundleEntryProto] = {}
        self._sizes = [0] * num_shards
        self._files: list[files.Writer] = []
        for shard in range(num_shards):
            path = layout.data_path(self.prefix, shard, num_shards)
            try:
                self._files.append(broker.open_writer(path))
            except errors.OpError:
                self.abandon()
                raise

    def add(self, name: str, values: Any, dtype: dtypes.DType | None = None) -> None:
        """Write tensor `name`.

        Args:
            name: its name; not empty.
            values: an array or array-like.
            dtype: its element type, if that of the array is ambiguous (quantized types).

        Raises:
            InvalidArgumentError: a tensor of that name was already written.
            UnimplementedError: the values have no encoding (resources, variants without codec).
        """
        if not name:
            raise errors.InvalidArgumentError("a tensor in a checkpoint must have a name")
        self._add(layout.key_of(name), values, dtype)

    def add_slice(
        self,
        name: str,
        full_shape: tuple[int, ...],
        tensor_slice: TensorSlice,
        values: Any,
        dtype: dtypes.DType | None = None,
    ) -> None:
        """Write one slice of tensor `name`, whose full shape is `full_shape`.

        Raises:
            InvalidArgumentError: the slice was already written, its shape is not that of `values`,
                or its full shape or dtype differs from that of previous slices.
            InternalError: the slice is out of the bounds of `full_shape`.
        """
        array, dtype = self._as_array(name, values, dtype)
        shape = tensor_slice.shape(full_shape)
        if shape != array.shape:
            raise errors.InvalidArgumentError(
                f"slice {tensor_slice} of tensor {name} has shape {shape}, but its values have "
                f"shape {array.shape}"
            )
        if tensor_slice.is_full or shape == full_shape:
            self.add(name, array, dtype)
            return
        whole = self._entries.get(layout.key_of(name))
        if whole is None:
            whole = self._entries[layout.key_of(name)] = _new_entry(dtype, full_shape)
        elif not whole.slices or _signature(whole) != (dtype.enum, full_shape):
            raise errors.InvalidArgumentError(
                f"a slice of tensor {name} ({dtype.name}, full shape {full_shape}) was added after "
                "a whole tensor, or slices of another type or full shape, of the same name"
            )
        self._add(slice_key(layout.key_of(name), tensor_slice), array, dtype)
        whole.slices.append(tensor_slice.to_proto())

    def finish(self) -> None:
        """Move the files to their final paths, which completes the checkpoint.

        All files are written before the first one is moved, so that an old checkpoint of the same
        name stays whole if the disk is full.
        """
        header = proto.BundleHeaderProto(num_shards=len(self._files))
        header.version.producer = layout.VERSION
        if sys.byteorder == "big":
            header.endianness = proto.BundleHeaderProto.BIG
        try:
            self._files.append(self._broker.open_writer(layout.index_path(self.prefix)))
            _write_table(self._files[-1], header, self._entries)
            for writer in self._files:
                writer.flush()
            while self._files:
                self._files[0].commit()
                del self._files[0]
        except errors.OpError:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Delete the files written so far."""
        for writer in self._files:
            writer.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()

    def _add(self, key: bytes, values: Any, dtype: dtypes.DType | None) -> None:
        if key in self._entries:
            raise errors.InvalidArgumentError(f"Adding duplicate key: {layout.name_of(key)}")
        array, dtype = self._as_array(layout.name_of(key), values, dtype)
        entry = _new_entry(dtype, array.shape)
        shard = self._sizes.index(min(self._sizes))
        entry.shard_id, entry.offset = shard, self._sizes[shard]
        content, checksum = self._encode(array, dtype)
        self._files[shard].write(content)
        entry.size, entry.crc32c = len(content), crc.mask(checksum)
        self._sizes[shard] += len(content)
        self._entries[key] = entry

    def _as_array(
        self, name: str, values: Any, dtype: dtypes.DType | None
    ) -> tuple[np.ndarray[Any, Any], dtypes.DType]:
        array = np.asarray(values)
        if array.dtype.kind in "US":
            array = array.astype(object)
        dtype = dtypes.as_dtype(array.dtype) if dtype is None else dtype.base_dtype
        is_variant = dtype is dtypes.variant and self._variants is not None
        if dtype is dtypes.string or is_variant:
            return array, dtype
        if not dtype.size or array.dtype.hasobject:
            raise errors.UnimplementedError(
                f"tensor {name} holds {dtype.name} values, which cannot be stored in a checkpoint"
            )
        return array, dtype

    def _encode(
        self, array: np.ndarray[Any, Any], dtype: dtypes.DType
    ) -> tuple[bytes | memoryview, int]:
        """Return the bytes of a tensor, and their checksum."""
        if dtype is dtypes.string:
            return layout.encode_strings(
                value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
                for value in array.reshape(-1).tolist()
            )
        if self._variants is not None and dtype is dtypes.variant:
            return layout.encode_messages(variants_to_messages(array, self._variants))
        native = array.dtype.newbyteorder("=")
        flat = np.ascontiguousarray(array, native).reshape(-1).view(np.uint8)
        return flat.data, crc.value(flat.data)


def write_index(
    prefix: str,
    header: BundleHeaderProto,
    entries: Mapping[bytes, BundleEntryProto],
    broker: Broker = UNRESTRICTED,
) -> None:
    """Write the table of a bundle."""
    with broker.open_writer(layout.index_path(prefix)) as writer:
        _write_table(writer, header, entries)


def _write_table(
    writer: files.Writer, header: BundleHeaderProto, entries: Mapping[bytes, BundleEntryProto]
) -> None:
    table = TableWriter(writer.write)
    table.add(layout.HEADER_KEY, header.SerializeToString())
    for key in sorted(entries):
        table.add(key, entries[key].SerializeToString())
    table.finish()


def _new_entry(dtype: dtypes.DType, shape: tuple[int, ...]) -> BundleEntryProto:
    entry = proto.BundleEntryProto(dtype=dtype.enum)  # type: ignore[arg-type]
    entry.shape.SetInParent()  # the shape of a scalar is present but empty
    for size in shape:
        entry.shape.dim.add(size=size)
    return entry


def _signature(entry: BundleEntryProto) -> tuple[int, tuple[int, ...]]:
    return entry.dtype, tuple(dim.size for dim in entry.shape.dim)
