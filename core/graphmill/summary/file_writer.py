"""`FileWriter`: write events for TensorBoard, without a session.

Semantics: tensorflow/python/summary/writer/writer.py. The events are written by the kernels of
summary writers.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from google.protobuf.message import DecodeError

from graphmill import dtypes, ops
from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.graph.builder import Graph
from graphmill.ops.tensor_proto import numpy_to_tensor_proto
from graphmill.proto import ConfigProto
from graphmill.proto.event_pb2 import Event
from graphmill.proto.summary_pb2 import Summary
from graphmill.session.session import Session
from graphmill.summary import nodes

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from graphmill.explain.step_trace import StepTrace
    from graphmill.graph.tensor import Tensor
    from graphmill.plugin.host import Host
    from graphmill.proto import GraphDef, MetaGraphDef, RunMetadata
    from graphmill.proto.event_pb2 import SessionLog


class FileWriter:
    """Writes events to a new file of a folder, which TensorBoard reads while it grows.

    Args:
        logdir: the folder, created if it is missing.
        graph: a graph to write first, also as a MetaGraph.
        max_queue: how many events are kept before they are written.
        flush_secs: an added event causes all to be written if the last write was longer ago than
            this many seconds.
        filename_suffix: the end of the file's name.
        host: where the kernels come from; the default host if not given.

    Raises:
        OpError: the file cannot be created.

    Threads: any may add events.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        graph: Graph | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str | None = None,
        *,
        host: Host | None = None,
    ) -> None:
        self._logdir = str(logdir)
        self._host = host
        self._tags: set[str] = set()
        self._options = max_queue, round(flush_secs * 1000), filename_suffix or ""
        self._makers: dict[str, Callable[..., Any]] = {}
        self._sessions: list[Session] = []
        self._open()
        if graph is not None:
            from graphmill.train.meta_graph_export import meta_graph_of  # few writers get a graph

            self.add_graph(graph)
            self.add_meta_graph(meta_graph_of(graph))

    def get_logdir(self) -> str:
        """Return the folder."""
        return self._logdir

    def add_scalar(self, tag: str, value: float, step: int | None = None) -> None:
        """Write a number.

        Raises:
            InvalidArgumentError: it is not a number.
        """
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"{value!r}, the value of {tag!r}, is not a number"
            ) from error
        self.add_summary(_summary(tag, simple_value=number), step)

    def add_histogram(self, tag: str, values: Any, step: int | None = None) -> None:
        """Write the distribution of an array.

        Raises:
            InvalidArgumentError: a value is NaN or infinite, or not a number.
        """
        array = np.asarray(values)
        wide = array if array.dtype in (np.float32, np.float64) else _cast(array, np.float64, tag)
        self.add_summary(
            self._summary_of("histogram", ops.summary.histogram_summary, tag, wide), step
        )

    def add_image(self, tag: str, image: Any, step: int | None = None) -> None:
        """Write an image or a batch of them: `[batch,] height, width, channels`.

        Floats are scaled to 0 to 255, negative ones around 128; uint8 is written as it is.

        Raises:
            InvalidArgumentError: the array is not an image with 1, 3 or 4 channels.
        """
        array = np.asarray(image)
        images = array[None] if array.ndim == 3 else array
        converted = images if images.dtype == np.uint8 else _cast(images, np.float32, tag)
        count = max(len(images), 1) if images.ndim else 1
        self.add_summary(
            self._summary_of(
                f"image of {converted.dtype} {count}",
                lambda name, values: ops.summary.image_summary(name, values, max_images=count),
                tag,
                converted,
            ),
            step,
        )

    def add_text(self, tag: str, text: Any, step: int | None = None) -> None:
        """Write a string or an array of them, which TensorBoard shows as Markdown."""
        tensor = numpy_to_tensor_proto(np.asarray(text, object), dtypes.string)
        metadata = nodes.text_metadata(tag)
        self.add_summary(_summary(tag, metadata=metadata, tensor=tensor), step)

    def add_summary(self, summary: Summary | bytes, global_step: int | None = None) -> None:
        """Write a summary, as a message or serialized as a fetch of its node returns it.

        Raises:
            InvalidArgumentError: the bytes are not a summary.
        """
        event = Event(wall_time=time.time())
        try:
            event.summary.MergeFromString(
                summary if isinstance(summary, bytes) else summary.SerializeToString()
            )
        except DecodeError as error:
            raise InvalidArgumentError("the bytes are not a serialized Summary") from error
        self._add(event, global_step)

    def add_graph(self, graph: Graph | GraphDef, global_step: int | None = None) -> None:
        """Write a graph."""
        message = graph.as_graph_def() if isinstance(graph, Graph) else graph
        event = Event(wall_time=time.time(), graph_def=message.SerializeToString())
        self._add(event, global_step)

    def add_meta_graph(self, meta_graph_def: MetaGraphDef, global_step: int | None = None) -> None:
        """Write a MetaGraph."""
        content = meta_graph_def.SerializeToString()
        self._add(Event(wall_time=time.time(), meta_graph_def=content), global_step)

    def add_run_metadata(
        self, run_metadata: RunMetadata | StepTrace, tag: str, global_step: int | None = None
    ) -> None:
        """Write the statistics of a traced step.

        Raises:
            InvalidArgumentError: the tag was used before.
        """
        if tag in self._tags:
            raise InvalidArgumentError(
                f"the tag {tag!r} was already used for the metadata of another step"
            )
        event = Event(wall_time=time.time())
        event.tagged_run_metadata.tag = tag
        event.tagged_run_metadata.run_metadata = run_metadata.SerializeToString()
        self._add(event, global_step)
        self._tags.add(tag)

    def add_session_log(self, session_log: SessionLog, global_step: int | None = None) -> None:
        """Write that a session has started, stopped, or saved a checkpoint."""
        self._add(Event(wall_time=time.time(), session_log=session_log), global_step)

    def add_event(self, event: Event) -> None:
        """Write an event.

        Raises:
            FailedPreconditionError: the writer is closed.
        """
        self._call("import")(event.SerializeToString())

    def flush(self) -> None:
        """Write the buffered events to the file."""
        self._call("flush")()

    def close(self) -> None:
        """Write the buffered events, and close the file; a second call does nothing."""
        if not self._sessions:
            return
        self._call("close")()
        for session in self._sessions:
            session.close()
        self._sessions.clear()
        self._makers.clear()

    def reopen(self) -> None:
        """Begin a new file, if the writer is closed."""
        if not self._sessions:
            self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        graph = Graph()
        with graph.as_default():
            writer = ops.summary.summary_writer(shared_name="writer")
            event = graph.placeholder("string", [], name="event")
            calls = {
                "create": ops.summary.create_summary_file_writer(
                    writer, self._logdir.encode(), *self._options[:2], self._options[2].encode()
                ),
                "import": ops.summary.import_event(writer, event),
                "flush": ops.summary.flush_summary_writer(writer),
                "close": ops.summary.close_summary_writer(writer),
            }
        session = self._new_session(graph)
        self._calls = {
            name: session.make_callable(node, [event] if name == "import" else [])
            for name, node in calls.items()
        }
        try:
            self._calls["create"]()
        except BaseException:
            self._sessions.clear()
            session.close()
            raise

    def _new_session(self, graph: Graph) -> Session:
        config = ConfigProto()
        config.graphmill.jit = "off"
        session = Session(graph=graph, config=config, host=self._host)
        self._sessions.append(session)
        return session

    def _call(self, name: str) -> Callable[..., Any]:
        if not self._sessions:
            raise FailedPreconditionError(
                f"the writer of {self._logdir} is closed; call reopen(), or create a new one"
            )
        return self._calls[name]

    def _add(self, event: Event, step: int | None) -> None:
        if step is not None:
            try:
                event.step = int(step)
            except (TypeError, ValueError) as error:
                raise InvalidArgumentError(f"the step {step!r} is not an integer") from error
        self.add_event(event)

    def _summary_of(
        self, key: str, make: Callable[[Tensor, Tensor], Tensor], tag: str, values: Any
    ) -> bytes:
        """Return the summary of an array, computed by a kernel."""
        key = f"{key} {values.dtype}"
        if key not in self._makers:
            graph = Graph()
            with graph.as_default():
                feeds = [graph.placeholder("string", []), graph.placeholder(values.dtype)]
                summary = make(*feeds)
            self._makers[key] = self._new_session(graph).make_callable(summary, feeds)
        content: bytes = self._makers[key](tag.encode(), values)
        return content


def _cast(array: Any, dtype: type, tag: str) -> Any:
    try:
        return array.astype(dtype)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"the values of {tag!r} are not numbers: {error}") from error


def _summary(tag: str, **fields: Any) -> Summary:
    if not isinstance(tag, str):
        raise InvalidArgumentError(f"the tag {tag!r} has type {type(tag).__name__}, expected str")
    summary = Summary()
    summary.value.add(tag=tag, **fields)
    return summary
