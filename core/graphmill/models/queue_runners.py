"""Run the queue runners of a model while it runs."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphmill.errors import DeadlineExceededError, InvalidArgumentError, OpError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.models.loaded_model import RunnableModel
    from graphmill.proto import MetaGraphDef
    from graphmill.session.session import Session
    from graphmill.train.coordinator import Coordinator
    from graphmill.train.queue_runner import QueueRunner

_LOCAL_INIT = "local_init_op"  # the collection that tf.train.Supervisor and Scaffold write
_LOCAL_VARIABLES = "local_variables"
_TABLES = "table_initializer"
_ADVICE = "try: --queue-runners (queue_runners=True), which fills the queues of the model"


@contextmanager
def queue_runners_running(model: RunnableModel, *, is_on: bool) -> Iterator[None]:
    """Fill the queues of a model in threads in a `with` block; their errors are raised at its end.

    A failed thread also ends a step that would wait for its queue, by closing the session, unless
    the runner closes the queue itself.

    Args:
        model: the model.
        is_on: whether to do it; otherwise the error of a step that waited too long for one of
            these queues says how.

    Raises:
        InvalidArgumentError: the model has no queue runners.
        OpError: a thread failed.
    """
    if not is_on:
        with _advice(model):
            yield
        return
    from graphmill.models.loaded_model import LoadedModel
    from graphmill.train.coordinator import Coordinator
    from graphmill.train.queue_runner import start_queue_runners

    meta_graph = model.meta_graph if isinstance(model, LoadedModel) else None
    runners = _runners(model)
    if not isinstance(model, LoadedModel) or not runners or meta_graph is None:
        raise InvalidArgumentError(
            f"{model.name} has no queue runners; a .meta file or a SavedModel can have them"
        )
    model.session.run([], targets=_local_initializers(meta_graph))
    coordinator = Coordinator()
    start_queue_runners(model.session, coordinator, runners=runners)
    with _session_closed_on_error(model.session, coordinator, runners):
        try:
            yield
        finally:
            coordinator.request_stop()
            _join(coordinator)


def _join(coordinator: Coordinator) -> None:
    """Wait for the threads; the error of one is one of execution."""
    from graphmill.models.execution_errors import mark_as_execution

    try:
        coordinator.join()
    except OpError as error:
        mark_as_execution(error)
        raise


@contextmanager
def _session_closed_on_error(
    session: Session, coordinator: Coordinator, runners: Sequence[QueueRunner]
) -> Iterator[None]:
    """Close the session when a runner fails, if some runner does not close its queue at a stop.

    In TensorFlow, a step that waits for such a queue waits forever.
    """
    if all(runner.cancel_op for runner in runners):
        yield
        return

    def watch() -> None:
        coordinator.wait_for_stop()
        try:
            coordinator.raise_requested_exception()
        except OpError:
            session.close()

    watcher = threading.Thread(target=watch, name="graphmill-queue-runner-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        watcher.join()  # a stop has been requested


def _local_initializers(meta_graph: MetaGraphDef) -> list[str]:
    """Return the nodes that initialize local variables, such as counts of epochs.

    Raises:
        InvalidArgumentError: the collection of local variables is damaged.
    """
    from google.protobuf.message import DecodeError

    from graphmill.proto import VariableDef

    collections = meta_graph.collection_def
    if _LOCAL_INIT in collections:  # a look-up would add it
        return list(collections[_LOCAL_INIT].node_list.value)
    nodes: list[str] = []
    if _LOCAL_VARIABLES in collections:
        messages = collections[_LOCAL_VARIABLES].bytes_list.value
        try:
            nodes += [VariableDef.FromString(message).initializer_name for message in messages]
        except DecodeError as error:
            raise InvalidArgumentError(
                f"collection {_LOCAL_VARIABLES!r} of the model is damaged: {error}"
            ) from error
    if _TABLES in collections:
        nodes += collections[_TABLES].node_list.value
    return nodes


@contextmanager
def _advice(model: RunnableModel) -> Iterator[None]:
    """Advise that the model can fill its queues if a step timed out waiting for one of them."""
    try:
        yield
    except DeadlineExceededError as error:
        waits = any(repr(runner.name) in error.message for runner in _runners(model))
        if waits and _ADVICE not in getattr(error, "__notes__", ()):
            error.add_note(_ADVICE)
        raise


def _runners(model: RunnableModel) -> list[QueueRunner]:
    from graphmill.models.loaded_model import LoadedModel
    from graphmill.train.queue_runner import queue_runners_of

    meta_graph = model.meta_graph if isinstance(model, LoadedModel) else None
    return [] if meta_graph is None else queue_runners_of(meta_graph)
