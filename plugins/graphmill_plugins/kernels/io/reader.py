"""Reader kernels: create readers, read records, save and restore their state.

Semantics: tensorflow/core/kernels/reader_ops.cc and the *_reader_op.cc files. The handle of the v1
ops is a reference to the two strings (container, name).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import Ref, ResourceHandle, kernel
from graphmill.spi.files import check_compression
from graphmill_plugins.kernels._strings import string_array, string_scalar
from graphmill_plugins.kernels._support import scalar_int
from graphmill_plugins.kernels.data_flow.queue import queue_of, reference
from graphmill_plugins.kernels.io._reader import (
    FileRecordReader,
    IdentityReader,
    LmdbReader,
    Read,
    Reader,
    WholeFileReader,
    open_fixed_length,
    open_lines,
    open_records,
)
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill_plugins.kernels.io._reader import Record

    Done = Callable[..., None]

_STATE = ("state",)
_READ = ("fs.read", "state")
_READING: Final[dict[str, Any]] = {
    "async_": True,
    "waits": True,
    "host": True,
    "effects": _READ,
    "brokered": True,  # the reader opens the files through the broker of its own node
}


class _ReaderKernel:
    """Find or create a node's reader, and return its handle."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._container, self._name = resource_key(construction)
        self._is_reference = construction.op_def.output_args[0].is_ref
        self._factory = self._make(construction)

    def _make(self, construction: OpKernelConstruction) -> Callable[[], Reader]:
        raise NotImplementedError

    def __call__(self, ctx: OpKernelContext) -> Any:
        """Return the handle."""
        reader = ctx.resources.lookup_or_create(self._container, self._name, Reader, self._factory)
        container = self._container or ctx.resources.default_container
        if self._is_reference:
            return reference(container, self._name)
        return ResourceHandle(ctx.device.name, container, self._name, "Reader", reader)


@kernel("IdentityReader", "IdentityReaderV2", stateful=True, effects=_STATE)
class IdentityReaderKernel(_ReaderKernel):
    """Return a reader whose records are its work units."""

    def _make(self, construction: OpKernelConstruction) -> Callable[[], Reader]:
        del construction
        return IdentityReader


@kernel("WholeFileReader", "WholeFileReaderV2", stateful=True, effects=_READ, brokered=True)
class WholeFileReaderKernel(_ReaderKernel):
    """Return a reader whose records are whole files."""

    def _make(self, construction: OpKernelConstruction) -> Callable[[], Reader]:
        return partial(WholeFileReader, construction.broker)


@kernel("LMDBReader", stateful=True, effects=_READ, brokered=True)
class LmdbReaderKernel(_ReaderKernel):
    """Return a reader of the keys and values of LMDB databases."""

    def _make(self, construction: OpKernelConstruction) -> Callable[[], Reader]:
        return partial(LmdbReader, construction.broker)


@kernel("TFRecordReader", "TFRecordReaderV2", stateful=True, effects=_READ, brokered=True)
class TFRecordReaderKernel(_ReaderKernel):
    """Return a reader of TFRecord files."""

    def _make(self, construction: OpKernelConstruction) -> Callable[[], Reader]:
        compression = construction.attr("compression_type")
        check_compression(compression)
        return partial(
            FileRecordReader,
            partial(open_records, broker=construction.broker, compression=compression),
        )


@kernel("TextLineReader", "TextLineReaderV2", stateful=True, effects=_READ, brokered=True)
class TextLineReaderKernel(_ReaderKernel):
    """Return a reader whose records are lines."""

    def _make(self, construction: OpKernelConstruction) -> Callable[[], Reader]:
        skipped = construction.attr("skip_header_lines")
        if skipped < 0:
            raise InvalidArgumentError(f"skip_header_lines must be >= 0 not {skipped}")
        open_file = partial(open_lines, broker=construction.broker, skipped=skipped)
        return partial(FileRecordReader, open_file, first_number=skipped + 1)


@kernel(
    "FixedLengthRecordReader",
    "FixedLengthRecordReaderV2",
    stateful=True,
    effects=_READ,
    brokered=True,
)
class FixedLengthRecordReaderKernel(_ReaderKernel):
    """Return a reader whose records have a fixed length."""

    def _make(self, construction: OpKernelConstruction) -> Callable[[], Reader]:
        names = ("header_bytes", "record_bytes", "footer_bytes", "hop_bytes")
        header, record, footer, hop = (construction.attr(name) for name in names)
        if min(header, footer, hop) < 0 or record <= 0:
            raise InvalidArgumentError(
                f"{', '.join(names)} must not be negative, and record_bytes positive; got "
                f"{header}, {record}, {footer}, {hop}"
            )
        encoding = construction.attrs.get("encoding", b"").decode()
        check_compression(encoding)
        open_file = partial(
            open_fixed_length,
            broker=construction.broker,
            encoding=encoding,
            header=header,
            record=record,
            footer=footer,
            hop=hop,
        )
        return partial(FileRecordReader, open_file, first_number=0)


def reader_of(ctx: OpKernelContext, handle: Any) -> Reader:
    """Return the reader of a handle of either kind.

    Raises:
        NotFoundError: there is none of that name.
        InvalidArgumentError: the handle is not that of a reader.
    """
    if type(handle) is ResourceHandle:
        reader: Reader = handle.expect(Reader)
        return reader
    names = handle.read() if isinstance(handle, Ref) else handle
    container, name = (part.decode() for part in names.ravel().tolist())
    return ctx.resources.lookup(container, name, Reader)


def _submit(ctx: OpKernelContext, reader: Any, queue: Any, count: int, done: Any) -> None:
    works = queue_of(ctx, queue)
    wait = ctx.wait(lambda: f"a work unit from {works}")
    reader_of(ctx, reader).submit(Read(works, count, done, wait))


@kernel("ReaderRead", "ReaderReadV2", **_READING)
def reader_read(ctx: OpKernelContext, reader: Any, queue: Any, done: Done) -> None:
    """Return the next key and record."""

    def taken(records: list[Record] | None, error: BaseException | None) -> None:
        if error is not None or records is None:
            done(error=error)
        else:
            done(tuple(map(string_scalar, records[0])))

    _submit(ctx, reader, queue, 1, taken)


@kernel("ReaderReadUpTo", "ReaderReadUpToV2", **_READING)
def reader_read_up_to(
    ctx: OpKernelContext, reader: Any, queue: Any, num_records: Value, done: Done
) -> None:
    """Return up to `num_records` keys and records of one work unit."""
    count = scalar_int("num_records", num_records)
    if count < 1:
        raise InvalidArgumentError(f"num_records must be positive, got {count}")

    def taken(records: list[Record] | None, error: BaseException | None) -> None:
        if error is not None or records is None:
            done(error=error)
        else:
            done(tuple(string_array(list(part)) for part in zip(*records, strict=True)))

    _submit(ctx, reader, queue, count, taken)


@kernel("ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2", stateful=True, effects=_STATE)
def reader_num_records_produced(ctx: OpKernelContext, reader: Any) -> Value:
    """Return the number of records that a reader has returned."""
    return np.int64(reader_of(ctx, reader).produced)


@kernel(
    "ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2", stateful=True, effects=_STATE
)
def reader_num_work_units_completed(ctx: OpKernelContext, reader: Any) -> Value:
    """Return the number of work units that a reader has completed."""
    return np.int64(reader_of(ctx, reader).finished)


@kernel("ReaderSerializeState", "ReaderSerializeStateV2", stateful=True, effects=_STATE)
def reader_serialize_state(ctx: OpKernelContext, reader: Any) -> Value:
    """Return the state of a reader."""
    return string_scalar(reader_of(ctx, reader).state())


@kernel("ReaderRestoreState", "ReaderRestoreStateV2", stateful=True, host=True, effects=_STATE)
def reader_restore_state(ctx: OpKernelContext, reader: Any, state: Value) -> None:
    """Restore the state of a reader."""
    if state.ndim:
        raise InvalidArgumentError(f"Reader state must be scalar, got shape {list(state.shape)}")
    reader_of(ctx, reader).restore(state.item())


@kernel("ReaderReset", "ReaderResetV2", stateful=True, effects=_STATE)
def reader_reset(ctx: OpKernelContext, reader: Any) -> None:
    """Reset a reader to its initial state."""
    reader_of(ctx, reader).reset()
