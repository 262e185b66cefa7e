"""`QueueRunner`: threads that fill the queues of a TensorFlow 1 input pipeline.

Semantics: tensorflow/python/training/queue_runner_impl.py.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, cast

from graphmill import proto
from graphmill.deprecations import renamed_arguments, warn_renamed
from graphmill.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError
from graphmill.errors import error_class as _error_class
from graphmill.graph.default_session import session_for
from graphmill.ops import data_flow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.session.session import Session
    from graphmill.train.coordinator import Coordinator

_QUEUE_RUNNERS: Final = "queue_runners"


class QueueRunner:
    """Enqueues in threads until the queue is closed or a stop is requested.

    Attributes:
        name: the name of the queue.
        enqueue_ops: the names of the nodes that enqueue; each runs in a thread of its own.
        close_op: the name of the node that closes the queue when all threads have ended.
        cancel_op: the name of the node that closes it and cancels waiting enqueues.
        exceptions_raised: the errors of threads without a coordinator.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Node] | None = None,
        close_op: Node | None = None,
        cancel_op: Node | None = None,
        queue_closed_exception_types: Sequence[type[OpError]] | None = None,
        queue_runner_def: Any = None,
    ) -> None:
        """Create the runner of a queue, or that of a message.

        Args:
            queue: the handle of the queue. A `QueueRunnerDef` is taken as `queue_runner_def`, with
                a warning for one version.
            enqueue_ops: nodes that enqueue; each runs in a thread of its own.
            close_op, cancel_op: nodes that close the queue; by default they are added to its graph.
            queue_closed_exception_types: the errors of `enqueue_ops` that say that the input has
                ended; by default OutOfRangeError.
            queue_runner_def: a `QueueRunnerDef` message, instead of the other arguments.

        Raises:
            InvalidArgumentError: there are no nodes, an error is not an `OpError`, or both a queue
                and a message are given.
        """
        if isinstance(queue, proto.QueueRunnerDef):
            warn_renamed("the first argument of QueueRunner, a message,", "queue_runner_def")
            queue, queue_runner_def = None, queue
        if (queue is None) == (queue_runner_def is None):
            raise InvalidArgumentError("give either queue and enqueue_ops, or queue_runner_def")
        definition = queue_runner_def
        if definition is None:
            definition = _definition(
                queue, enqueue_ops, close_op, cancel_op, queue_closed_exception_types
            )
        self.name: str = definition.queue_name
        self.enqueue_ops = tuple(definition.enqueue_op_name)
        self.close_op: str = definition.close_op_name
        self.cancel_op: str = definition.cancel_op_name
        codes = definition.queue_closed_exception_types
        self._closed_errors = tuple(_error_class(code) for code in codes) or (OutOfRangeError,)
        self.exceptions_raised: list[OpError] = []
        self._lock = threading.Lock()  # guards the number of running threads and the errors
        self._running: dict[int, int] = {}

    @classmethod
    def of_queue(cls, queue: Tensor, enqueue_ops: Sequence[Node]) -> QueueRunner:
        """Return `QueueRunner(queue, enqueue_ops)`."""
        return cls(queue, enqueue_ops)

    @classmethod
    def from_proto(cls, queue_runner_def: Any) -> QueueRunner:
        """Return the runner of a `QueueRunnerDef` message."""
        return cls(queue_runner_def=queue_runner_def)

    @property
    def queue_closed_exception_types(self) -> Sequence[type[OpError]]:
        """The errors of the nodes that enqueue which say that the input has ended."""
        return self._closed_errors

    def to_proto(self) -> Any:
        """Return the runner as a `QueueRunnerDef` message."""
        codes: Any = [kind.code for kind in self._closed_errors]
        return proto.QueueRunnerDef(
            queue_name=self.name,
            enqueue_op_name=self.enqueue_ops,
            close_op_name=self.close_op,
            cancel_op_name=self.cancel_op,
            queue_closed_exception_types=codes,
        )

    def create_threads(
        self,
        sess: Session,
        coord: Coordinator | None = None,
        daemon: bool = True,
        start: bool = False,
    ) -> list[threading.Thread]:
        """Return the threads that fill the queue: one for each enqueue op.

        With a coordinator there is one more, which cancels waiting enqueues at a stop. If threads
        of this session run already, there are none.

        Args:
            sess: the session.
            coord: decides when to stop, and receives errors.
            daemon: whether the threads do not keep the process alive.
            start: whether to start them.
        """
        with self._lock:
            if self._running.get(id(sess), 0):
                return []
            self._running[id(sess)] = len(self.enqueue_ops)
            self.exceptions_raised.clear()
        targets: list[tuple[Callable[..., None], tuple[Any, ...], str]]
        targets = [(self._enqueue, (sess, op, coord), op) for op in self.enqueue_ops]
        if coord is not None and self.cancel_op:
            targets.append((self._close_on_stop, (sess, coord), self.cancel_op))
        threads = [
            threading.Thread(
                target=target, args=args, daemon=daemon, name=f"QueueRunnerThread-{self.name}-{op}"
            )
            for target, args, op in targets
        ]
        for thread in threads:
            if coord is not None:
                coord.register_thread(thread)
            if start:
                thread.start()
        return threads

    def _enqueue(self, sess: Session, op: str, coord: Coordinator | None) -> None:
        try:
            while coord is None or not coord.should_stop():
                sess.run([], targets=[op])
        except self._closed_errors:
            pass  # the input has ended, or the queue was closed
        except CancelledError as error:
            if coord is None or not coord.should_stop():  # else the stop cancelled it
                self._note(error, coord, op)
        except OpError as error:
            self._note(error, coord, op)
        finally:
            self._end_thread(sess, coord)

    def _end_thread(self, sess: Session, coord: Coordinator | None) -> None:
        """Close the queue after the last thread, so that waiting dequeues end."""
        with self._lock:
            self._running[id(sess)] -= 1
            is_last = not self._running[id(sess)]
            if is_last:
                del self._running[id(sess)]
        if is_last and self.close_op:
            try:
                sess.run([], targets=[self.close_op])
            except OpError as error:
                if not isinstance(error, CancelledError):  # the session was closed
                    self._note(error, coord, self.close_op)

    def _close_on_stop(self, sess: Session, coord: Coordinator) -> None:
        coord.wait_for_stop()
        try:
            sess.run([], targets=[self.cancel_op])
        except CancelledError:
            pass  # the session was closed, and its queues with it
        except OpError as error:
            coord.request_stop(error)

    def _note(self, error: OpError, coord: Coordinator | None, op: str) -> None:
        error.add_note(
            f"raised in a thread of the queue runner of {self.name!r}, which runs {op!r}"
        )
        if coord is not None:
            coord.request_stop(error)
            return
        with self._lock:
            self.exceptions_raised.append(error)


def _definition(
    queue: Tensor,
    enqueue_ops: Sequence[Node] | None,
    close_op: Node | None,
    cancel_op: Node | None,
    closed_errors: Sequence[type[OpError]] | None,
) -> Any:
    """Return the `QueueRunnerDef` of a queue; add the nodes that close it if they are missing."""
    if not enqueue_ops:
        raise InvalidArgumentError("a queue runner needs at least one enqueue op")
    codes: Any = [getattr(kind, "code", None) for kind in closed_errors or (OutOfRangeError,)]
    if not all(isinstance(code, int) for code in codes):
        raise InvalidArgumentError(
            f"queue_closed_exception_types={closed_errors!r}; expected classes of graphmill.errors"
        )
    name = queue.op.name
    with queue.graph.as_default(), queue.graph.control_dependencies(None):
        if close_op is None:
            close_op = data_flow.queue_close_v2(queue, name=f"{name}_Close")
        if cancel_op is None:
            cancel_op = data_flow.queue_close_v2(
                queue, cancel_pending_enqueues=True, name=f"{name}_Close_cancel"
            )
    return proto.QueueRunnerDef(
        queue_name=name,
        enqueue_op_name=[node.name for node in enqueue_ops],
        close_op_name=close_op.name,
        cancel_op_name=cancel_op.name,
        queue_closed_exception_types=codes,
    )


def queue_runners_of(meta_graph: Any) -> list[QueueRunner]:
    """Return the queue runners of a `MetaGraphDef` message.

    Raises:
        InvalidArgumentError: the collection is damaged.
    """
    from google.protobuf.message import DecodeError

    runners: list[QueueRunner] = []
    if _QUEUE_RUNNERS not in meta_graph.collection_def:  # a look-up would add it
        return runners
    for content in meta_graph.collection_def[_QUEUE_RUNNERS].bytes_list.value:
        try:
            runners.append(QueueRunner.from_proto(proto.QueueRunnerDef.FromString(content)))
        except DecodeError as error:
            raise InvalidArgumentError(
                f"a queue runner of the graph is damaged: {error}"
            ) from error
    return runners


def start_queue_runners(
    sess: Session | None = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    *,
    runners: Iterable[QueueRunner] | None = None,
) -> list[threading.Thread]:
    """Start the threads of queue runners, and return them.

    Args:
        sess: the session; by default the default session.
        coord: the coordinator of the threads.
        daemon: whether the threads do not keep the process alive.
        start: whether to start them.
        runners: the runners; by default those of the session's graph (`Graph.queue_runners`).

    Raises:
        FailedPreconditionError: `sess` is None and there is no default session.
    """
    sess = cast("Session", session_for(sess, "start_queue_runners"))
    used = sess.graph.queue_runners if runners is None else runners
    return [
        thread
        for runner in list(used)
        for thread in runner.create_threads(sess, coord, daemon=daemon, start=start)
    ]


@renamed_arguments(runner="qr")
def add_queue_runner(qr: QueueRunner, graph: Any = None) -> None:
    """Add a runner to those of a graph, by default the default graph."""
    from graphmill.graph.infer_graph import infer_graph

    (infer_graph() if graph is None else graph).queue_runners.append(qr)
