"""Snapshots: datasets that are computed once, written to files, and then read from the files.

Semantics: tensorflow/core/kernels/data/experimental/snapshot_dataset_op.cc (version 2).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.spi import files
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    UNKNOWN,
    CapturedFunction,
    Dataset,
    Derived,
    ElementIterator,
)
from graphmill_plugins.kernels.dataset.pipeline.files.saved import (
    ShardWriters,
    shards_of,
    write_shards,
)
from graphmill_plugins.kernels.dataset.pipeline.files.snapshot_files import (
    ElementReader,
    check_snapshot_compression,
    read_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

_CHUNK: Final = re.compile(r"chunk_(\d+)_(\d+)_(-?\d+)")
_POLL_SECONDS: Final = 0.1


class Snapshot(Derived):
    """The elements: computed and written by the first iteration, read by later ones.

    Args:
        source: the dataset.
        folder: where to write; snapshots of different datasets may share it.
        graph_hash: identifies the dataset.
        compression: that of the files.
        shard_function: chooses the shard of an element.
        reader: makes a dataset of the datasets of the shards.
    """

    waits = True

    def __init__(
        self,
        source: Dataset,
        folder: str,
        graph_hash: int,
        compression: str,
        shard_function: CapturedFunction,
        reader: CapturedFunction,
        broker: Broker,
    ) -> None:
        check_snapshot_compression(compression)
        super().__init__(source)
        self._folder, self._hash = files.join(folder, str(graph_hash)), str(graph_hash)
        self._compression = compression
        self._shard_function, self._reader = shard_function, reader
        self._broker = broker

    @property
    def cardinality(self) -> int:
        """The cardinality of the input."""
        return self.source.cardinality

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        metadata = read_metadata(self._folder, self._broker)
        if metadata is not None and metadata.is_finalized:
            structure = self.dtypes, self.shapes
            shards = shards_of(
                self._folder, metadata.run_id, self._compression, structure, self._broker
            )
            return self._reader.dataset(scope, (shards,)).iterate(scope)
        writers = ShardWriters(
            self._folder, self.dtypes, self._compression, self._broker, self._hash
        )
        source = self.source.iterate(scope)
        return write_shards(source, scope, writers, self._shard_function, counts=False)


class Chunk(Dataset):
    """The elements of one file of a snapshot."""

    waits = True

    def __init__(
        self,
        path: str,
        compression: str,
        structure: tuple[Sequence[DType], Sequence[Shape]],
        broker: Broker,
    ) -> None:
        check_snapshot_compression(compression)
        super().__init__(*structure)
        self._path, self._compression, self._broker = path, compression, broker

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return ElementReader(self._path, self._compression, self.dtypes, self._broker)


class Chunks(Dataset):
    """The paths of the files of a snapshot that several processes write.

    While the snapshot is incomplete, an iterator waits for the next file.
    """

    waits = True

    def __init__(self, folder: str, broker: Broker) -> None:
        super().__init__((dtypes.string,), ((),))
        self.folder, self._broker = folder, broker

    @property
    def cardinality(self) -> int:
        """The number of files once the snapshot is complete."""
        return len(self.paths()) if self.is_complete() else UNKNOWN

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Listing(self, scope)

    def is_complete(self) -> bool:
        """Return whether all files are written.

        Raises:
            InternalError: writing them failed.
        """
        failure = files.join(self.folder, "ERROR")
        if self._broker.exists(failure):
            reason = self._broker.read_bytes(failure).decode("utf-8", "replace")
            raise InternalError(f"the snapshot in {self.folder} could not be written: {reason}")
        return self._broker.exists(files.join(self.folder, "DONE"))

    def paths(self) -> list[str]:
        """Return the paths of the existing files, sorted by index and stream.

        Raises:
            InvalidArgumentError: there is another file.
        """
        folder = files.join(self.folder, "chunks")
        names = self._broker.list_dir(folder) if self._broker.is_dir(folder) else []
        return [files.join(folder, name) for name in sorted(names, key=_order)]


def _order(name: str) -> tuple[int, int]:
    numbers = _CHUNK.fullmatch(name)
    if numbers is None:
        raise InvalidArgumentError(
            f"Failed to parse chunk file name {name}: expected chunk_<stream>_<index>_<elements>"
        )
    return int(numbers[2]), int(numbers[1])


class _Listing(ElementIterator):
    def __init__(self, dataset: Chunks, scope: Scope) -> None:
        self._dataset, self._scope = dataset, scope
        self._listed: set[str] = set()

    def __next__(self) -> Element:
        while True:
            is_complete = self._dataset.is_complete()  # first: then no file is missed
            for path in self._dataset.paths():
                if path not in self._listed:
                    self._listed.add(path)
                    return (string_scalar(path.encode("utf-8", "surrogateescape")),)
            if is_complete:
                raise StopIteration
            self._scope.sleep(_POLL_SECONDS)
