"""Run the queue runners of a model while it runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.cli.model.loaded_model import RunnableModel

_LOCAL_INIT = "local_init_op"  # the collection that tf.train.Supervisor and Scaffold write


@contextmanager
def queue_runners_running(model: RunnableModel, *, is_on: bool) -> Iterator[None]:
    """Fill the queues of a model in threads in a `with` block; their errors are raised at its end.

    Args:
        model: the model.
        is_on: whether to do it; otherwise the block just runs.

    Raises:
        InvalidArgumentError: the model has no queue runners.
        OpError: a thread failed.
    """
    if not is_on:
        yield
        return
    from graphmill.cli.model.loaded_model import LoadedModel
    from graphmill.train.coordinator import Coordinator
    from graphmill.train.queue_runner import queue_runners_of, start_queue_runners

    meta_graph = model.meta_graph if isinstance(model, LoadedModel) else None
    runners = [] if meta_graph is None else queue_runners_of(meta_graph)
    if not isinstance(model, LoadedModel) or not runners or meta_graph is None:
        raise InvalidArgumentError(
            f"{model.name} has no queue runners; a .meta file or a SavedModel can have them"
        )
    init = meta_graph.collection_def[_LOCAL_INIT].node_list.value
    model.session.run([], targets=list(init))
    coordinator = Coordinator()
    start_queue_runners(model.session, coordinator, runners)
    try:
        yield
    finally:
        coordinator.request_stop()
        coordinator.join()
