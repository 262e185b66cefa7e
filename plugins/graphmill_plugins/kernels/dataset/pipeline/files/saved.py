"""Datasets that write their elements to files, and datasets of such files.

Semantics: tensorflow/core/kernels/data/experimental/{save_dataset_op,load_dataset_op}.cc and
core/data/snapshot_utils.cc.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill.errors import (
    InvalidArgumentError,
    NotFoundError,
)
from graphmill.spi import files
from graphmill.spi.kernels import dtype_of_value
from graphmill_plugins.kernels.dataset.pipeline.basic import ListOfElements
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    UNKNOWN,
    CapturedFunction,
    Dataset,
    Derived,
    ElementIterator,
    on_drop,
)
from graphmill_plugins.kernels.dataset.pipeline.files.snapshot_files import (
    VERSION,
    ElementReader,
    ElementWriter,
    Metadata,
    check_snapshot_compression,
    data_file,
    now,
    read_metadata,
    shard_folder,
    write_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

    Structure = tuple[Sequence[DType], Sequence[Shape]]


class ShardWriters:
    """Writes the elements of a dataset to the shards of a new run.

    Args:
        folder: the folder of the run's metadata.
        types: the types of the components.
        compression: that of the files.
        broker: opens the files.
        graph_hash: the hash of the dataset, as text.
    """

    def __init__(
        self,
        folder: str,
        types: Sequence[DType],
        compression: str,
        broker: Broker,
        graph_hash: str = "",
    ) -> None:
        self._broker = broker
        self._folder, self._types, self._compression = folder, tuple(types), compression
        self._metadata = Metadata(
            str(secrets.randbits(64)),
            graph_hash,
            created=now(),
            types=tuple(dtype.enum for dtype in types),
        )
        self._run = files.join(folder, self._metadata.run_id)
        self._writers: dict[int, ElementWriter] = {}
        self._count = 0
        broker.make_dirs(self._run)
        write_metadata(folder, self._metadata, broker)

    def write(self, element: Element, shard: int) -> None:
        """Append an element to a shard."""
        writer = self._writers.get(shard)
        if writer is None:
            path = data_file(shard_folder(self._run, shard), 0)
            writer = ElementWriter(path, self._compression, self._types, self._broker)
            self._writers[shard] = writer
        writer.write(element)
        self._count += 1

    def finish(self, *, counts: bool) -> None:
        """Finish all files; then record in the metadata that the run is complete.

        Args:
            counts: whether to record the number of elements.
        """
        for writer in self._writers.values():
            writer.close()
        number = self._count if counts else 0
        done = replace(self._metadata, num_elements=number, is_finalized=True)
        write_metadata(self._folder, done, self._broker)

    def abandon(self) -> None:
        """Delete unfinished files."""
        for writer in self._writers.values():
            writer.abandon()


def shard_of(function: CapturedFunction | None, scope: Scope, element: Element) -> int:
    """Return the shard that a function chooses for an element; 0 without a function.

    Raises:
        InvalidArgumentError: the function returns something else than a number.
    """
    if function is None:
        return 0
    results = scope.call(function, element)
    if len(results) != 1 or dtype_of_value(results[0]) != np.int64 or results[0].size != 1:
        raise InvalidArgumentError("`shard_func` must return a scalar int64.")
    return int(results[0].item())


class Save(Derived):
    """The elements of the input, written to files as they are taken.

    Args:
        source: the dataset.
        folder: where to write.
        compression: that of the files.
        shard_function: chooses the shard of an element; None for a single shard.
        broker: opens the files.
    """

    waits = True

    def __init__(
        self,
        source: Dataset,
        folder: str,
        compression: str,
        shard_function: CapturedFunction | None,
        broker: Broker,
    ) -> None:
        check_snapshot_compression(compression)
        super().__init__(source)
        self.folder, self.compression = folder, compression
        self.shard_function, self._broker = shard_function, broker

    @property
    def cardinality(self) -> int:
        """The cardinality of the input."""
        return self.source.cardinality

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        writers = ShardWriters(self.folder, self.dtypes, self.compression, self._broker)
        source = self.source.iterate(scope)
        return write_shards(source, scope, writers, self.shard_function, counts=True)


class Writing(ElementIterator):
    """Takes elements and writes them.

    Args:
        source: the elements.
        write: writes an element.
        finish: is called once, after the last element.
        abandon: is called when the iterator is dropped.
    """

    def __init__(
        self,
        source: Elements,
        write: Callable[[Element], None],
        finish: Callable[[], None],
        abandon: Callable[[], None],
    ) -> None:
        self._source, self._write, self._finish = source, write, finish
        self._is_done = False
        on_drop(self, abandon)

    def __next__(self) -> Element:
        if self._is_done:
            raise StopIteration
        element = next(self._source, None)
        if element is None:
            self._is_done = True
            self._finish()
            raise StopIteration
        self._write(element)
        return element


def write_shards(
    source: Elements,
    scope: Scope,
    writers: ShardWriters,
    function: CapturedFunction | None,
    *,
    counts: bool,
) -> Writing:
    """Return an iterator that writes elements to the shards that a function chooses.

    Args:
        source: the elements.
        scope: calls the function.
        writers: write the elements.
        function: chooses the shard of an element; None for a single shard.
        counts: whether to record the number of elements.
    """

    def write(element: Element) -> None:
        writers.write(element, shard_of(function, scope, element))

    return Writing(source, write, partial(writers.finish, counts=counts), writers.abandon)


class ShardElements(Dataset):
    """The elements of one shard, from a position on."""

    waits = True

    def __init__(
        self,
        folder: str,
        compression: str,
        structure: Structure,
        version: int,
        broker: Broker,
        start: int = 0,
    ) -> None:
        check_snapshot_compression(compression)
        if version != VERSION:
            raise InvalidArgumentError(
                f"Snapshot reader version {version} is not supported; expected {VERSION}"
            )
        super().__init__(*structure)
        self.folder, self.compression, self._start = folder, compression, start
        self.broker = broker

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return islice(_ShardReading(self), self._start, None)


class _ShardReading(ElementIterator):
    def __init__(self, dataset: ShardElements) -> None:
        self._dataset = dataset
        self._next_file = 0
        self._elements: ElementReader | None = None

    def __next__(self) -> Element:
        while True:
            if self._elements is None:
                path = data_file(self._dataset.folder, self._next_file)
                if not self._dataset.broker.exists(path):
                    raise StopIteration
                self._next_file += 1
                self._elements = ElementReader(
                    path,
                    self._dataset.compression,
                    self._dataset.dtypes,
                    self._dataset.broker,
                )
            element = next(self._elements, None)
            if element is not None:
                return element
            self._elements = None


class Nested(ListOfElements):
    """A dataset whose elements are datasets, of unknown cardinality as in TensorFlow."""

    is_indexed = False

    @property
    def cardinality(self) -> int:
        """The number of elements: unknown."""
        return UNKNOWN


def shards_of(
    folder: str, run_id: str, compression: str, structure: Structure, broker: Broker
) -> Dataset:
    """Return a dataset of datasets: one of the elements of each shard of a run."""
    run = files.join(folder, run_id)
    names = [name for name in broker.list_dir(run) if name.endswith(".shard")]
    shards = [
        (ShardElements(files.join(run, name), compression, structure, VERSION, broker),)
        for name in names
    ]
    return Nested(shards, (dtypes.variant,), ((),))


class Load(Dataset):
    """The elements of a saved dataset, in an order chosen by a function of the shards.

    Raises:
        NotFoundError: nothing was saved there.
    """

    waits = True

    def __init__(
        self,
        folder: str,
        compression: str,
        reader: CapturedFunction,
        structure: Structure,
        broker: Broker,
    ) -> None:
        check_snapshot_compression(compression)
        metadata = read_metadata(folder, broker)
        if metadata is None:
            raise NotFoundError(f"Could not find metadata file [{folder}]")
        super().__init__(*structure)
        self._folder, self._compression, self._reader = folder, compression, reader
        self._metadata, self._broker = metadata, broker

    @property
    def cardinality(self) -> int:
        """The number of elements that were saved."""
        return self._metadata.num_elements

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        structure = self.dtypes, self.shapes
        run = self._metadata.run_id
        shards = shards_of(self._folder, run, self._compression, structure, self._broker)
        return self._reader.dataset(scope, (shards,)).iterate(scope)
