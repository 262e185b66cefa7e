"""`BundleEntry`: where a tensor's values are in a bundle, and which entries to read together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphmill.dtypes import DType
    from graphmill.saved.tensor_slice import TensorSlice

_MAX_SIZE: Final = 64 << 10  # bytes of the values of a tensor: larger ones are read alone
_MAX_GAP: Final = 4 << 10  # bytes between two tensors of a run, which are read too
_MAX_RUN: Final = 1 << 20  # bytes of a run: small enough to stay in the cache


class BundleEntry(NamedTuple):
    """The entry of one tensor (or stored slice) in a bundle's index.

    Attributes:
        name: the tensor's name; for a stored slice, the name of the whole tensor.
        dtype: element type.
        shape: full shape.
        shard: index of the data file.
        offset: offset of the values in that file.
        size: size of the values in bytes.
        crc32c: masked checksum of the values.
        slices: the stored slices, if the tensor is not stored as a whole.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc32c: int
    slices: tuple[TensorSlice, ...]


def adjacent_runs(entries: Iterable[BundleEntry]) -> Iterator[Sequence[BundleEntry]]:
    """Yield runs of at least two small tensors whose values are close together in a data file."""
    small = sorted(
        (entry for entry in entries if 0 <= entry.size <= _MAX_SIZE and not entry.slices),
        key=lambda entry: (entry.shard, entry.offset),
    )
    run: list[BundleEntry] = []
    for entry in small:
        if run and not _follows(entry, run[-1], run[0].offset):
            if len(run) > 1:
                yield run
            run = []
        run.append(entry)
    if len(run) > 1:
        yield run


def _follows(entry: BundleEntry, last: BundleEntry, start: int) -> bool:
    """Return whether an entry belongs to the run that begins at `start` and ends with `last`."""
    return (
        entry.shard == last.shard
        and entry.offset - last.offset - last.size <= _MAX_GAP
        and entry.offset + entry.size - start <= _MAX_RUN
    )
