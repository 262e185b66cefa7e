"""Read tensor bundles (checkpoints of format V2)."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from graphmill import dtypes, errors, files, proto
from graphmill.access.broker import UNRESTRICTED
from graphmill.memory import aligned_empty
from graphmill.runtime.process.fork import fork_safe_lock
from graphmill.runtime.variants.object_tensors import variants_from_messages
from graphmill.saved import bundle_format as layout
from graphmill.saved import crc
from graphmill.saved.bundle_entry import BundleEntry, adjacent_runs
from graphmill.saved.slice_copy import assemble
from graphmill.saved.table import TableReader
from graphmill.saved.tensor_slice import TensorSlice, is_slice_key, slice_key

if TYPE_CHECKING:
    import mmap
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from graphmill.access.broker import Broker
    from graphmill.proto.versions_pb2 import VersionDef
    from graphmill.runtime.variants.variant_codec import VariantRegistry

_CHUNK = 4 << 20  # bytes to read at once: small enough to be in the cache for the checksum
_MIN_ALIGNED = 4 << 10  # bytes of an array: the alignment of smaller ones saves no time
_MAX_BYTES = 1 << 58  # NumPy's limit is 2**63 with the largest element type
_MAX_RANK = 64  # NumPy's limit

_Decoded = TypeVar("_Decoded")


class BundleReader:
    """A checkpoint opened for reading.

    Thread-safe: a lock guards the opened data files; values are read without it.

    Args:
        prefix: path or URL of the checkpoint, without `.index`.
        check: whether to verify checksums (needs google-crc32c).
        mapped: whether to return views of memory-mapped files, if values are aligned in the file.
            This saves memory if several processes read one checkpoint. But overwriting a file in
            place while it is in use crashes the process, so values are copied by default.
        broker: opens the files.
        variants: the codecs of variants; without them variants cannot be read.

    Raises:
        NotFoundError: the checkpoint does not exist.
        DataLossError: it is damaged.
        InvalidArgumentError: it has a newer format.
    """

    def __init__(
        self,
        prefix: str | os.PathLike[str],
        *,
        check: bool = True,
        mapped: bool = False,
        broker: Broker = UNRESTRICTED,
        variants: VariantRegistry | None = None,
    ) -> None:
        self.prefix, self._broker, self._variants = files.as_path(prefix), broker, variants
        self._check = check
        self._mapped = mapped
        self._lock = fork_safe_lock()
        self._data: dict[int, files.Reader] = {}
        self._maps: dict[int, mmap.mmap] = {}
        self._kinds: dict[tuple[int, bytes], tuple[dtypes.DType, tuple[int, ...]]] = {}
        self._index = _open_index(self.prefix, broker)
        try:
            self._table = TableReader(self._index, check=check)
            header = self._header()
        except errors.OpError:
            self.close()
            raise
        self.num_shards: int = header.num_shards
        is_big = header.endianness == proto.BundleHeaderProto.BIG
        self._is_swapped = is_big != (sys.byteorder == "big")

    def _header(self) -> Any:
        content = self._table.get(layout.HEADER_KEY)
        if content is None:
            raise self._damaged("its index has no header")
        header = self._parse(proto.BundleHeaderProto, content, "header")
        check_version(header.version, layout.VERSION, self._index.path)
        return header

    def names(self) -> list[str]:
        """Return the names of all tensors (not of stored slices), in the order of the file."""
        return [
            layout.name_of(key)
            for key, _ in self._table.items()
            if key != layout.HEADER_KEY and not is_slice_key(key)
        ]

    def entries(self) -> Iterator[BundleEntry]:
        """Yield the entries of all tensors (not of stored slices), in the order of the file."""
        for key, content in self._table.items():
            if key != layout.HEADER_KEY and not is_slice_key(key):
                yield self._decode(layout.name_of(key), content)

    def __contains__(self, name: str) -> bool:
        return bool(name) and self._table.get(layout.key_of(name)) is not None

    def entry(self, name: str) -> BundleEntry:
        """Return the entry of tensor `name`.

        Raises:
            NotFoundError: the checkpoint has no such tensor.
            DataLossError: the entry is damaged.
        """
        content = self._table.get(layout.key_of(name)) if name else None
        if content is None:
            raise errors.NotFoundError(
                f"Key {name} not found in checkpoint {self.prefix}"
                f"{errors.suggest(name, self.names())}"
            )
        return self._decode(name, content)

    def read_tensor(self, name: str) -> np.ndarray[Any, Any]:
        """Return the values of tensor `name`, assembled if they are stored in slices.

        Strings are an object array of bytes, variants one of their objects. The array may be
        read-only.

        Raises:
            NotFoundError: there is no such tensor, or a data file is missing.
            DataLossError: the values are damaged.
            UnimplementedError: the tensor is a variant, and its type has no codec.
        """
        return self.read_entry(self.entry(name))

    def read_entry(self, entry: BundleEntry) -> np.ndarray[Any, Any]:
        """Return the values of the tensor of an entry; as `read_tensor`, without the look-up."""
        if entry.slices:
            return self._read_pieces(entry, TensorSlice.full(len(entry.shape)))
        return self._read(entry)

    def read_entries(self, entries: Sequence[BundleEntry]) -> list[np.ndarray[Any, Any]]:
        """Return the values of the tensors of several entries; as `read_entry` for each.

        Small tensors whose values are adjacent in a file are read with one call.
        """
        if self._mapped:
            return [self.read_entry(entry) for entry in entries]
        found: dict[str, np.ndarray[Any, Any]] = {}
        for run in adjacent_runs(entries):
            found.update(self._read_run(run))
        return [
            self.read_entry(entry) if (values := found.pop(entry.name, None)) is None else values
            for entry in entries
        ]

    def read_slice(self, name: str, wanted: TensorSlice) -> np.ndarray[Any, Any]:
        """Return one slice of tensor `name`, whether it is stored whole or in slices.

        Raises:
            InternalError: the slice is out of the tensor's bounds.
            InvalidArgumentError: the stored slices do not cover it.
            NotFoundError, DataLossError, UnimplementedError: as for `read_tensor`.
        """
        entry = self.entry(name)
        if entry.slices:
            return self._read_pieces(entry, wanted)
        whole = self._read(entry)
        part = whole[wanted.indices(entry.shape)]
        return part.copy() if part.size < whole.size else part  # a view would keep `whole` alive

    def close(self) -> None:
        """Release the files; safe to call twice. Arrays that view them stay valid."""
        with self._lock:
            for reader in (self._index, *self._data.values()):
                reader.close()
            self._data.clear()
            self._maps.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _decode(self, name: str, content: bytes) -> BundleEntry:
        entry = self._parse(proto.BundleEntryProto, content, f"entry of tensor {name}")
        # Many tensors have the same type and shape, whose conversion takes most of the time.
        stored_kind = entry.dtype, entry.shape.SerializeToString()
        kind = self._kinds.get(stored_kind)
        if kind is None:
            kind = self._kinds[stored_kind] = self._kind_of(name, entry)
        dtype, shape = kind
        stored = entry.slices
        slices = self._slices_of(name, stored, shape) if stored else ()
        return BundleEntry(
            name, dtype, shape, entry.shard_id, entry.offset, entry.size, entry.crc32c, slices
        )

    def _kind_of(self, name: str, entry: Any) -> tuple[dtypes.DType, tuple[int, ...]]:
        """Return the element type and the shape in an entry's message."""
        stored_shape = entry.shape
        shape = tuple([dim.size for dim in stored_shape.dim])
        if stored_shape.unknown_rank or min(shape, default=0) < 0:
            raise self._damaged(f"the shape of tensor {name} has unknown dimensions: {shape}")
        count = math.prod(shape)
        if not count:
            count = math.prod(max(size, 1) for size in shape)
        if len(shape) > _MAX_RANK or count > _MAX_BYTES:
            raise self._damaged(f"the shape of tensor {name} is too large: {shape}")
        try:
            return dtypes.as_dtype(entry.dtype), shape
        except errors.InvalidArgumentError as error:
            raise self._damaged(f"the entry of tensor {name}: {error.message}") from error

    def _slices_of(
        self, name: str, stored: Iterable[Any], shape: tuple[int, ...]
    ) -> tuple[TensorSlice, ...]:
        """Return the slices in an entry's message, each of which lies within the shape."""
        try:
            slices = tuple(map(TensorSlice.from_proto, stored))
            for piece in slices:
                piece.bounds(shape)
        except (errors.InvalidArgumentError, errors.InternalError) as error:
            raise self._damaged(f"the entry of tensor {name}: {error.message}") from error
        return slices

    def _parse(self, message: type[Any], content: bytes, what: str) -> Any:
        try:
            return message.FromString(content)
        except _decode_error() as error:  # looked up only after an error
            raise self._damaged(f"the {what} cannot be parsed: {error}") from error

    def _read_pieces(self, entry: BundleEntry, region: TensorSlice) -> np.ndarray[Any, Any]:
        def read(piece: TensorSlice) -> np.ndarray[Any, Any]:
            content = self._table.get(slice_key(layout.key_of(entry.name), piece))
            if content is None:
                raise self._damaged(f"slice {piece} of tensor {entry.name} has no entry")
            stored = self._decode(entry.name, content)
            expected = piece.shape(entry.shape)
            if stored.shape != expected or stored.dtype is not entry.dtype:
                raise self._damaged(
                    f"slice {piece} of tensor {entry.name} is stored as {stored.dtype.name} "
                    f"{stored.shape}, expected {entry.dtype.name} {expected}"
                )
            return self._read(stored)

        dtype = entry.dtype.as_numpy_dtype
        return assemble(entry.name, entry.shape, dtype, region, entry.slices, read)

    def _read(self, entry: BundleEntry) -> np.ndarray[Any, Any]:
        """Read the values of `entry`."""
        if entry.dtype is dtypes.string:
            return self._read_strings(entry)
        if entry.dtype is dtypes.variant and self._variants is not None:
            return self._read_variants(entry, self._variants)
        if not entry.dtype.size or entry.dtype.is_ref:
            raise errors.UnimplementedError(
                f"tensor {entry.name} of checkpoint {self.prefix} holds {entry.dtype.name} values, "
                "which have no encoding outside of a session"
            )
        expected = layout.count_elements(entry.shape) * entry.dtype.size
        if entry.size != expected:
            raise self._damaged(
                f"tensor {entry.name} of shape {entry.shape} and type {entry.dtype.name} needs "
                f"{expected} bytes, but {entry.size} are stored"
            )
        reader = self._open(entry)
        if self._mapped and isinstance(reader, files.LocalReader) and entry.size:
            return self._view(entry, reader)
        values = aligned_empty(entry.shape, entry.dtype.as_numpy_dtype)
        self._fill(entry, reader, values.reshape(-1).view(np.uint8).data)
        if self._is_swapped:
            layout.swap_bytes(values)
        return values

    def _read_run(self, run: Sequence[BundleEntry]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        """Yield the names and values of the entries of a run.

        Entries that are damaged, or whose type needs more than a copy of the bytes, are left out;
        reading them one by one raises the error about them.
        """
        reader = self._open(run[0])
        start = run[0].offset
        stop = min(max(entry.offset + entry.size for entry in run), reader.size)
        buffer = bytearray(stop - start)
        reader.read_into(start, memoryview(buffer))
        content = bytes(buffer)
        for name, dtype, shape, _, offset, size, crc32c, _ in run:
            if not dtype.size or dtype.is_ref or size != math.prod(shape) * dtype.size:
                continue
            if offset + size > stop:
                continue
            first = offset - start
            if self._check and crc.mask(crc.value(content[first : first + size])) != crc32c:
                continue
            values = _copy(content, first, size, shape, dtype.as_numpy_dtype)
            if self._is_swapped:
                layout.swap_bytes(values)
            yield name, values

    def _fill(self, entry: BundleEntry, reader: files.Reader, buffer: memoryview) -> None:
        total = 0
        for start in range(0, len(buffer), _CHUNK):
            chunk = buffer[start : start + _CHUNK]
            reader.read_into(entry.offset + start, chunk)
            if self._check:
                total = crc.extend(total, chunk)
        self._compare(entry, total)

    def _view(self, entry: BundleEntry, reader: files.LocalReader) -> np.ndarray[Any, Any]:
        """Return a view of the mapped file, or a copy if it is not aligned or is swapped."""
        with self._lock:
            mapped = self._maps.get(entry.shard)
            if mapped is None:
                mapped = reader.map()
                self._maps[entry.shard] = mapped
        content = np.frombuffer(mapped, np.uint8, entry.size, entry.offset)
        if self._check:
            self._compare(entry, crc.value(content.data))
        values = content.view(entry.dtype.as_numpy_dtype).reshape(entry.shape)
        if self._is_swapped or not values.flags.aligned:
            values = values.copy()
            if self._is_swapped:
                layout.swap_bytes(values)
        return values

    def _read_strings(self, entry: BundleEntry) -> np.ndarray[Any, Any]:
        count = layout.count_elements(entry.shape)
        if entry.size < count:  # each length takes at least a byte; do not allocate for `count`
            raise self._damaged(f"tensor {entry.name} has {count} strings in {entry.size} bytes")
        strings = self._decoded(entry, count, layout.decode_strings)
        return strings.reshape(entry.shape)

    def _read_variants(self, entry: BundleEntry, variants: VariantRegistry) -> np.ndarray[Any, Any]:
        count = layout.count_elements(entry.shape)
        if entry.size < count:
            raise self._damaged(f"tensor {entry.name} has {count} variants in {entry.size} bytes")
        messages = self._decoded(entry, count, layout.decode_messages)
        array = np.empty(entry.shape, object)
        array[()] = variants_from_messages(messages, entry.shape, variants)
        return array

    def _decoded(
        self, entry: BundleEntry, count: int, decode: Callable[..., tuple[_Decoded, int]]
    ) -> _Decoded:
        """Return the elements of an encoding with lengths, after verifying its checksums."""
        content = bytearray(entry.size)
        self._open(entry).read_into(entry.offset, memoryview(content))
        try:
            elements, total = decode(
                bytes(content), count, swapped=self._is_swapped, check=self._check
            )
        except errors.DataLossError as error:
            raise self._damaged(f"tensor {entry.name}: {error.message}") from error
        self._compare(entry, total)
        return elements

    def _open(self, entry: BundleEntry) -> files.Reader:
        """Return the data file of `entry`, after checking that it contains the values."""
        path = layout.data_path(self.prefix, entry.shard, self.num_shards)
        with self._lock:
            reader = self._data.get(entry.shard)
            if reader is None:
                try:
                    reader = self._data[entry.shard] = self._broker.open_reader(path)
                except errors.NotFoundError as error:
                    raise errors.NotFoundError(
                        f"{path} is missing: checkpoint {self.prefix} has {self.num_shards} data "
                        f"file(s), and this one contains tensor {entry.name}"
                    ) from error
        # Check before allocating: a damaged size must not allocate gigabytes.
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > reader.size:
            raise errors.DataLossError(
                f"{path} is truncated: tensor {entry.name} occupies bytes {entry.offset} to "
                f"{entry.offset + entry.size}, but the file has {reader.size} bytes"
            )
        return reader

    def _compare(self, entry: BundleEntry, actual: int) -> None:
        stored = crc.unmask(entry.crc32c)
        if self._check and actual != stored:
            path = layout.data_path(self.prefix, entry.shard, self.num_shards)
            raise errors.DataLossError(
                f"{path}: Checksum does not match for tensor {entry.name} ({entry.size} bytes at "
                f"byte {entry.offset}): stored {stored:08x}, calculated {actual:08x}; the file is "
                "damaged, restore it from a backup"
            )

    def _damaged(self, reason: str) -> errors.DataLossError:
        return errors.DataLossError(f"checkpoint {self.prefix} is damaged: {reason}")


def _decode_error() -> type[Exception]:
    from google.protobuf.message import DecodeError

    return DecodeError


def _copy(
    content: bytes, first: int, size: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Return a copy of the array of `size` bytes that begins at byte `first` of `content`.

    An array of less than a page is not aligned for XLA, which copies it in less time than that.
    """
    stored: np.ndarray[Any, Any] = np.ndarray(shape, dtype, content, first)
    if size < _MIN_ALIGNED:
        return stored.copy()
    values = aligned_empty(shape, dtype)
    values[...] = stored
    return values


def check_version(versions: VersionDef, current: int, path: str) -> None:
    """Check the versions of a file against `current`, the newest version that is supported.

    Raises:
        InvalidArgumentError: the file needs a newer reader.
    """
    if versions.min_consumer > current or current in versions.bad_consumers:
        raise errors.InvalidArgumentError(
            f"{path} needs a reader of version {versions.min_consumer}, but this one reads up to "
            f"version {current}; upgrade graphmill"
        )


def _open_index(prefix: str, broker: Broker) -> files.Reader:
    path = layout.index_path(prefix)
    try:
        return broker.open_reader(path)
    except errors.NotFoundError as error:
        hint = ""
        if broker.exists(prefix) and not broker.is_dir(prefix):
            hint = f"; the file {prefix} may be a checkpoint of format V1"
        elif prefix.endswith(".index") or ".data-" in prefix:
            hint = "; pass the prefix, without .index or .data-…"
        raise errors.NotFoundError(
            f"checkpoint {prefix} does not exist: {path} is missing{hint}"
        ) from error
