"""`StepTrace`: the trace of a step, converted to messages when it is first read.

    trace = graphmill.timeline.StepTrace()
    session.run(y, run_metadata=trace)
    trace.step_stats  # as that of a `RunMetadata`

Filling in a `RunMetadata` takes longer than a step of small nodes. A `StepTrace` keeps what the
step recorded, and fills in the message on the first read.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from graphmill.proto.config_pb2 import RunMetadata, RunOptions
    from graphmill.proto.step_stats_pb2 import StepStats


class StepTrace:
    """The trace of one step, to pass as `run_metadata`; the step is then traced.

    Keeps the step's graphs alive until it is read. A function of `make_callable` traces its steps
    if its `options` do, as with a `RunMetadata`.

    Threads: use it in one thread at a time.
    """

    __slots__ = ("_fill", "_message")

    def __init__(self) -> None:
        self._message: RunMetadata | None = None
        self._fill: Callable[[RunMetadata], None] | None = None

    @property
    def metadata(self) -> RunMetadata:
        """The metadata of the step; empty before it has run."""
        message = self._message
        if message is None:
            from graphmill.proto import RunMetadata

            message = self._message = RunMetadata()
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(message)
        return message

    @property
    def step_stats(self) -> StepStats:
        """When each node ran, on which device and thread."""
        return self.metadata.step_stats

    @property
    def has_statistics(self) -> bool:
        """Whether a traced step has run."""
        return self._fill is not None or bool(self.metadata.step_stats.dev_stats)

    def take(self, message: RunMetadata, fill: Callable[[RunMetadata], None] | None) -> None:
        """Replace the contents by those of a step; sessions call this.

        Args:
            message: the metadata, perhaps without the statistics.
            fill: fills in the statistics, on the first read; None if they are not missing.
        """
        self._message, self._fill = message, fill

    def CopyFrom(self, other: Message) -> None:  # noqa: N802 - the name of protobuf's method
        """Replace the contents by those of a `RunMetadata`, as sessions of servers do."""
        self.ParseFromString(other.SerializeToString())

    def ParseFromString(self, content: bytes) -> None:  # noqa: N802 - the name of protobuf's method
        """Replace the contents by those of a serialized `RunMetadata`."""
        from graphmill.proto import RunMetadata

        self.take(RunMetadata.FromString(content), None)

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name of protobuf's method
        """Return the serialized `RunMetadata`."""
        return self.metadata.SerializeToString()


def traced_options(options: RunOptions | None, run_metadata: Any) -> RunOptions | None:
    """Return the options of a step, which is traced if the caller passes a `StepTrace`."""
    if not isinstance(run_metadata, StepTrace):
        return options
    if options is None:
        return _full_trace()
    if options.trace_level:
        return options
    traced = type(options)()
    traced.CopyFrom(options)
    traced.MergeFrom(_full_trace())
    return traced


@cache
def _full_trace() -> RunOptions:
    from graphmill.proto import RunOptions

    return RunOptions(trace_level=RunOptions.FULL_TRACE)
