"""`BatchingOptions`: the maximum waiting time of requests, and size of their batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from google.protobuf import text_format

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi.files import read_bytes
from graphmill.spi.protos import proto

DEFAULT_THREADS: Final = 2
DEFAULT_ROWS: Final = 64
"""The default of the maximum number of rows of a batch."""
_MICROSECONDS: Final = 1e-6


@dataclass(frozen=True, slots=True)
class BatchingOptions:
    """The options of the queues of requests.

    Attributes:
        max_batch_size: the maximum number of rows of a batch; 1 runs each request alone.
        max_wait_seconds: how long a batch may wait for more requests; 0 takes those that have
            arrived while the previous batch ran.
        max_queued_requests: how many requests of a model may wait; more are refused.
        num_threads: how many batches of a model run at once.
        allowed_batch_sizes: if not empty, batches are padded to the next of these numbers of rows.
        pads_alone: whether a request that runs alone is padded, too.
    """

    max_batch_size: int = 1
    max_wait_seconds: float = 0.0
    max_queued_requests: int = 1000
    num_threads: int = DEFAULT_THREADS
    allowed_batch_sizes: tuple[int, ...] = ()
    pads_alone: bool = True

    def __post_init__(self) -> None:
        """Refuse sizes that contradict each other."""
        for name in ("max_batch_size", "max_queued_requests", "num_threads"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(
                    f"{name} of the batching parameters is {getattr(self, name)}; expected at "
                    "least 1"
                )
        if self.max_wait_seconds < 0:
            raise InvalidArgumentError(
                f"batch_timeout_micros is negative: {self.max_wait_seconds / _MICROSECONDS:g}"
            )
        sizes = self.allowed_batch_sizes
        is_rising = all(smaller < larger for smaller, larger in pairwise(sizes))
        if sizes and (not is_rising or sizes[0] < 1 or sizes[-1] != self.max_batch_size):
            raise InvalidArgumentError(
                f"allowed_batch_sizes is {list(sizes)}; expected increasing positive numbers, the "
                f"last of which is max_batch_size, {self.max_batch_size}"
            )

    @property
    def is_enabled(self) -> bool:
        """Whether requests are combined."""
        return self.max_batch_size > 1

    @staticmethod
    def of_rows(
        largest: int, *, num_threads: int = DEFAULT_THREADS, max_queued_requests: int = 1000
    ) -> BatchingOptions:
        """Return options for batches of at most `largest` rows, padded to 1, 2, 4, … of them.

        Sessions compile for each size that occurs; so there are few.

        Args:
            largest: the maximum number of rows of a batch.
            num_threads: how many batches of a model run at once.
            max_queued_requests: how many requests of a model may wait.
        """
        sizes = [1]
        while sizes[-1] * 2 < largest:
            sizes.append(sizes[-1] * 2)
        return BatchingOptions(
            max_batch_size=largest,
            allowed_batch_sizes=(*sizes, largest) if largest > 1 else (),
            num_threads=num_threads,
            max_queued_requests=max_queued_requests,
        )

    def without_batches(self) -> BatchingOptions:
        """Return options that run each request alone."""
        return replace(self, max_batch_size=1, max_wait_seconds=0.0, allowed_batch_sizes=())

    @staticmethod
    def read(path: str, defaults: BatchingOptions) -> BatchingOptions:
        """Return the options of a file with `BatchingParameters` in text form.

        Args:
            path: the path or URL of the file.
            defaults: the values of fields that the file does not set.

        Raises:
            NotFoundError: there is no such file.
            InvalidArgumentError: it is malformed.
            UnimplementedError: it sets a field that is not supported.
        """
        message = proto.BatchingParameters()
        try:
            text_format.Parse(read_bytes(path).decode("utf-8"), message)
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(
                f"{path} is not a BatchingParameters message in text form: {error}"
            ) from error
        return _with_message(defaults, message, path)


def _with_message(
    defaults: BatchingOptions, message: proto.BatchingParameters, path: str
) -> BatchingOptions:
    settings = {
        "pad_variable_length_inputs": message.pad_variable_length_inputs,
        "max_execution_batch_size": message.HasField("max_execution_batch_size"),
        "enable_large_batch_splitting": message.enable_large_batch_splitting.value,
    }
    unsupported = [name for name, is_set in settings.items() if is_set]
    if unsupported:
        raise UnimplementedError(
            f"{path} sets {', '.join(unsupported)}, which graphmill does not support; remove it"
        )
    changes: dict[str, object] = {}
    if message.HasField("max_batch_size"):
        changes["max_batch_size"] = message.max_batch_size.value
    if message.HasField("batch_timeout_micros"):
        changes["max_wait_seconds"] = message.batch_timeout_micros.value * _MICROSECONDS
    if message.HasField("num_batch_threads"):
        changes["num_threads"] = message.num_batch_threads.value
    if message.allowed_batch_sizes:
        changes["allowed_batch_sizes"] = tuple(message.allowed_batch_sizes)
    options = replace(defaults, **changes)  # type: ignore[arg-type]
    if message.HasField("max_enqueued_batches"):
        requests = message.max_enqueued_batches.value * options.max_batch_size
        options = replace(options, max_queued_requests=requests)
    return options
