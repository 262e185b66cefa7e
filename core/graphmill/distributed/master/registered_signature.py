"""`RegisteredSignature`: the graphs of one signature on the workers of a session, and their runs.

Semantics: `ReffedClientGraph` in `tensorflow/core/distributed_runtime/master_session.cc`.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill import proto
from graphmill.distributed.master.task_calls import TaskCalls, root_cause
from graphmill.errors import DeadlineExceededError, OpError
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.distributed.master.task_graphs import TaskGraph
    from graphmill.distributed.master.worker_interface import WorkerInterface
    from graphmill.lowering.callable_options import CallableRewrites
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.proto.debug_pb2 import DebugTensorWatch
    from graphmill.session.executors_cache import Signature


class SignatureKey(NamedTuple):
    """The key of registered graphs; equal keys share them.

    Attributes:
        feeds, fetches, targets: names, sorted, without duplicates.
        rewrites: further options of a callable.
        debug_options: a serialized `DebugOptions`.
        collective_graph_key: groups the collectives of the steps.
    """

    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    rewrites: CallableRewrites | None = None
    debug_options: bytes = b""
    collective_graph_key: int = 0


def key_of(signature: Signature, options: Any, rewrites: CallableRewrites | None) -> SignatureKey:
    """Return the key of a signature with some `RunOptions`, or None."""
    feeds, fetches, targets = signature
    ordered = tuple(sorted(feeds)), tuple(sorted(set(fetches))), tuple(sorted(set(targets)))
    if options is None:
        return SignatureKey(*ordered, rewrites)
    return SignatureKey(
        *ordered,
        rewrites,
        options.debug_options.SerializeToString(deterministic=True),
        options.experimental.collective_graph_key,
    )


def watches_of(key: SignatureKey) -> Sequence[DebugTensorWatch]:
    """Return the debug watches of a signature."""
    if not key.debug_options:
        return ()
    options = proto.RunOptions().debug_options
    options.ParseFromString(key.debug_options)
    return options.debug_tensor_watch_opts


class RegisteredSignature:
    """The graphs of one signature, registered with each participating task.

    They are deregistered when the session has released it and its last step has ended.

    Threads: `_lock` guards the count of users.

    Args:
        session_handle: the session on its workers.
        parts: the graphs by task.
        workers: all workers of the session.
        converters: for each feed, the function that converts the caller's value to a tensor.
        needed_feeds: the feeds that each fetch needs.

    Attributes:
        parts: the graphs by task.
        handles: the graph handles of the workers, by task.
        step_count: the number of its steps.
    """

    def __init__(
        self,
        session_handle: str,
        parts: Mapping[str, TaskGraph],
        workers: Mapping[str, WorkerInterface],
        converters: Mapping[str, Callable[[Any], Any]],
        needed_feeds: Mapping[str, set[str]],
    ) -> None:
        self.parts = parts
        self.handles: dict[str, str] = {}
        self.step_count = 0
        self.converters = converters
        self.needed_feeds = needed_feeds
        self._session_handle = session_handle
        self._workers = workers
        self._lock = fork_safe_lock()
        self._num_users = 1

    def register(self, key: SignatureKey, config: ConfigProto, timeout: float | None) -> None:
        """Register the graphs with all their tasks at once.

        Args:
            key: the key of the graphs.
            config: that of the session.
            timeout: the timeout in seconds.

        Raises:
            DeadlineExceededError: a task has not answered in time; names it.
            OpError: a task refused its graph; those of the others are deregistered.
        """
        calls = TaskCalls()
        for task, part in self.parts.items():
            request = proto.RegisterGraphRequest(
                session_handle=self._session_handle,
                graph_def=part.graph_def,
                graph_options=config.graph_options,
                config_proto=config,
                create_worker_session_called=True,
                collective_graph_key=key.collective_graph_key,
            )
            _add_watches(request, key.debug_options)
            calls.start(task, partial(self._workers[task].register_graph, request))
        try:
            finish(calls, timeout, "register a graph")
        finally:
            self.handles = {task: r.graph_handle for task, r in calls.results.items()}
            if len(self.handles) < len(self.parts):
                self.release()
            for part in self.parts.values():
                part.graph_def.Clear()  # it may be large, and the workers have a copy

    def acquire(self) -> bool:
        """Start a step; return whether its graphs are still registered."""
        with self._lock:
            if not self._num_users:
                return False
            self._num_users += 1
        return True

    def release(self) -> None:
        """Release it after a step or for the session; the last release deregisters the graphs.

        This does not wait for the workers: one that is down has no graph left.
        """
        with self._lock:
            self._num_users -= 1
            is_last = not self._num_users
        if not is_last:
            return
        for task, handle in self.handles.items():
            request = proto.DeregisterGraphRequest(
                session_handle=self._session_handle,
                graph_handle=handle,
                create_worker_session_called=True,
            )
            self._workers[task].deregister_graph(request, _ignore)


def finish(calls: TaskCalls, timeout: float | None, what: str) -> None:
    """Wait until all tasks have answered.

    Raises:
        DeadlineExceededError: a task has not answered in time; the message names it.
        OpError: the root cause of the failure.
    """
    has_ended = calls.wait(timeout)
    late = calls.pending
    calls.withdraw()
    if calls.errors:
        raise root_cause(calls.errors)
    if not has_ended:
        raise DeadlineExceededError(
            f"cannot {what}: no answer within {timeout:g} s from {', '.join(late)}. Check that "
            "these tasks are running, or exclude them by ConfigProto.device_filters"
        )


def new_step_id() -> int:
    """Return a random number below 2**57, as TensorFlow's masters choose."""
    return secrets.randbits(56) | 1 << 56


def new_request_id() -> int:
    """Return a random number of 63 bits that is not 0."""
    return secrets.randbits(63) | 1


def _add_watches(request: proto.RegisterGraphRequest, debug_options: bytes) -> None:
    """Add the debug watches of the nodes in the request's graph."""
    if not debug_options:
        return
    request.debug_options.ParseFromString(debug_options)
    names = {node.name for node in request.graph_def.node}
    watches = request.debug_options.debug_tensor_watch_opts
    own = [watch for watch in watches if watch.node_name in names]
    del watches[:]
    watches.extend(own)


def _ignore(response: Any, error: OpError | None) -> None:
    """Ignore an outcome that no longer matters."""
    del response, error
