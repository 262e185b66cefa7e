"""`LocalWorker`: a worker in this process, called directly.

Semantics: `tensorflow/core/distributed_runtime/worker.h` as the master of its own task uses it.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import proto
from graphmill.distributed.master.worker_interface import WorkerInterface
from graphmill.errors import CancelledError, OpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.distributed.master.worker_interface import Done, RunDone, Withdraw
    from graphmill.distributed.worker.step_call import StepCall, StepResult
    from graphmill.distributed.worker.worker import Worker


class LocalWorker(WorkerInterface):
    """A worker of this process.

    Args:
        worker: the worker.
        outputs_may_alias: whether fetched arrays may share the memory of variables, because the
            master only reads them, and not for long.
    """

    def __init__(self, worker: Worker, *, outputs_may_alias: bool = False) -> None:
        self._worker = worker
        self._outputs_may_alias = outputs_may_alias

    def get_status(self, request: proto.GetStatusRequest, done: Done) -> Withdraw:
        """Return the devices of the worker."""
        del request
        return _answer(done, self._status)

    def create_worker_session(
        self, request: proto.CreateWorkerSessionRequest, done: Done
    ) -> Withdraw:
        """Create a session."""

        def create() -> proto.CreateWorkerSessionResponse:
            self._worker.sessions.create(
                request.session_handle,
                request.server_def,
                isolate_session_state=request.isolate_session_state,
                master_task=request.master_task,
                master_incarnation=request.master_incarnation,
            )
            return proto.CreateWorkerSessionResponse()

        return _answer(done, create)

    def delete_worker_session(
        self, request: proto.DeleteWorkerSessionRequest, done: Done
    ) -> Withdraw:
        """Drop a session."""

        def delete() -> proto.DeleteWorkerSessionResponse:
            self._worker.sessions.delete(request.session_handle)
            return proto.DeleteWorkerSessionResponse()

        return _answer(done, delete)

    def register_graph(self, request: proto.RegisterGraphRequest, done: Done) -> Withdraw:
        """Register a graph."""

        def register() -> proto.RegisterGraphResponse:
            handle = self._worker.register_graph(
                request.session_handle,
                request.graph_def,
                was_created=request.create_worker_session_called,
                config=request.config_proto if request.HasField("config_proto") else None,
                graph_options=request.graph_options if request.HasField("graph_options") else None,
                watches=request.debug_options.debug_tensor_watch_opts,
                collective_graph_key=request.collective_graph_key,
            )
            return proto.RegisterGraphResponse(graph_handle=handle)

        return _answer(done, register)

    def deregister_graph(self, request: proto.DeregisterGraphRequest, done: Done) -> Withdraw:
        """Deregister a graph."""

        def deregister() -> proto.DeregisterGraphResponse:
            self._worker.deregister_graph(
                request.session_handle,
                request.graph_handle,
                was_created=request.create_worker_session_called,
            )
            return proto.DeregisterGraphResponse()

        return _answer(done, deregister)

    def run_graph(self, session_handle: str, call: StepCall, done: RunDone) -> Withdraw:
        """Run a partition of a step, in a thread of the worker."""
        once = _Once(done, may_alias=self._outputs_may_alias)
        # No call is repeated here, so its outcome need not be stored.
        call = replace(call, request_id=0)
        leave = self._worker.run_graph(session_handle, call, once, was_created=True)

        def withdraw() -> None:
            leave()
            once(None, CancelledError("the call was cancelled by its caller"))

        return withdraw

    def logging(self, request: proto.LoggingRequest, done: Done) -> Withdraw:
        """Turn the log of receives on or off, or return it."""
        return _answer(done, lambda: self._worker.logging(request))

    def cleanup_graph(self, request: proto.CleanupGraphRequest, done: Done) -> Withdraw:
        """End a step."""

        def clean() -> proto.CleanupGraphResponse:
            self._worker.cleanup_graph(request.step_id)
            return proto.CleanupGraphResponse()

        return _answer(done, clean)

    def cleanup_all(self, request: proto.CleanupAllRequest, done: Done) -> Withdraw:
        """Clear resource containers."""

        def clean() -> proto.CleanupAllResponse:
            self._worker.cleanup_all(request.container)
            return proto.CleanupAllResponse()

        return _answer(done, clean)

    def _status(self) -> proto.GetStatusResponse:
        return proto.GetStatusResponse(
            device_attributes=[attributes.to_proto() for attributes in self._worker.get_status()]
        )


class _Once:
    """Passes on the first outcome of a step, with values that the master owns or borrows.

    The outputs of a worker in this process may share the memory of a variable.

    Threads: `_lock` decides which outcome is the first.
    """

    def __init__(self, done: RunDone, *, may_alias: bool) -> None:
        self._done: RunDone | None = done
        self._may_alias = may_alias
        self._lock = threading.Lock()

    def __call__(self, result: StepResult | None, error: OpError | None) -> None:
        with self._lock:
            done, self._done = self._done, None
        if done is None:
            return
        if result is not None:
            own = _as_fetched if self._may_alias else _own
            result.outputs = {key: own(value) for key, value in result.outputs.items()}
        done(result, error)


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) and value.ndim else _as_fetched(value)


def _as_fetched(value: Any) -> Any:
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def _answer(done: Done, work: Callable[[], Any]) -> Withdraw:
    try:
        response = work()
    except OpError as error:
        done(None, error)
    else:
        done(response, None)
    return _nothing


def _nothing() -> None:
    """Do nothing: the call has ended."""
