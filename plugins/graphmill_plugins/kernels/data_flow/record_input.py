"""RecordInput: read records of TFRecord files in random order, epoch after epoch.

Semantics: tensorflow/core/kernels/record_input_op.cc, record_yielder.cc. TensorFlow reads with
threads, so its order depends on chance whatever the seed; ours depends on the seed alone.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.spi import files, kernel
from graphmill.spi.files import check_compression, open_stream, read_record
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels._strings import string_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

_READ_SIZE = 1 << 18


class _Yielder:
    """Yields the records of an epoch in random order, limited by a buffer.

    Args:
        pattern: the pattern of the files' paths.
        compression: "", "ZLIB" or "GZIP".
        buffer_size: how many records are held at a time.
        shift: the share of the files by which their order is turned in each epoch.
    """

    def __init__(
        self, pattern: str, compression: str, buffer_size: int, seed: int, shift: float
    ) -> None:
        check_compression(compression)
        self._pattern, self._compression = files.as_path(pattern), compression
        self._buffer_size, self._shift = max(buffer_size, 1), shift
        self._random = random.Random(seed)

    def records(self) -> Iterator[bytes]:
        """Yield records forever.

        Raises:
            NotFoundError: there is no file, or no record in any.
        """
        while True:
            count = 0
            for record in self._epoch():
                count += 1
                yield record
            if not count:
                raise NotFoundError(f"Found no records in files at {self._pattern}")

    def _epoch(self) -> Iterator[bytes]:
        held: list[bytes] = []
        for record in self._in_files():
            held.append(record)
            if len(held) >= self._buffer_size:
                yield self._any(held)
        while held:
            yield self._any(held)

    def _any(self, held: list[bytes]) -> bytes:
        place = self._random.randrange(len(held))
        held[place], held[-1] = held[-1], held[place]
        return held.pop()

    def _in_files(self) -> Iterator[bytes]:
        paths = sorted(files.matching(self._pattern))
        if not paths:
            raise NotFoundError(f"Found no files at {self._pattern}")
        self._random.shuffle(paths)
        turn = int(len(paths) * self._shift)
        for path in (*paths[turn:], *paths[:turn]):
            with open_stream(path, self._compression, _READ_SIZE) as stream:
                offset = 0
                while (record := read_record(stream, offset)) is not None:
                    offset += len(record) + 16
                    yield record


@kernel("RecordInput", stateful=True, host=True, expensive=True, effects=("fs.read", "rng"))
class RecordInputKernel:
    """Return batches of records.

    Threads: `_lock` guards the iterator over the records; files are read under it.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._batch_size = construction.attr("batch_size")
        self._records = _Yielder(
            construction.attr("file_pattern"),
            construction.attr("compression_type"),
            construction.attr("file_buffer_size"),
            construction.attr("file_random_seed"),
            construction.attr("file_shuffle_shift_ratio"),
        ).records()
        if self._batch_size <= 0:
            raise InvalidArgumentError(f"batch_size must be positive, got {self._batch_size}")
        self._lock = fork_safe_lock()

    def __call__(self, ctx: OpKernelContext) -> Value:
        """Return the next records."""
        del ctx
        with self._lock:
            return string_array([next(self._records) for _ in range(self._batch_size)])
