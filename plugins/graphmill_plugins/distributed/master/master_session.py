"""`MasterSession`: one client session, on this server or on all tasks of the cluster.

Semantics: `tensorflow/core/distributed_runtime/master_session.cc`.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
)
from graphmill.spi import CancellationManager
from graphmill_plugins.distributed.master.request_memory import RequestMemory
from graphmill_plugins.distributed.wire.tensor_messages import NamedTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from graphmill.spi import Value
    from graphmill.spi.cluster import ClusterSession, DirectSession
    from graphmill.spi.protos import proto
    from graphmill_plugins.distributed.master.request_memory import Request
    from graphmill_plugins.distributed.server.dispatch import Call

    Runner = DirectSession | ClusterSession
    """The session that runs the steps: in this process alone, or on the tasks of a cluster."""

CLOSED = "Step was cancelled by an explicit call to `Session::Close()`."


class MasterSession:
    """A client's session: its runtime, graph version, callables and requests.

    Threads: any number of calls at once; `_lock` guards the version, the callables and the count.

    Args:
        session: the session that runs the steps.
        close_devices: called at the end, for devices that belong to the session.

    Attributes:
        requests: the requests that were sent with an id.
        last_use: the time of its last use, by the clock of its table.
        num_running: the number of its running calls.
        num_nodes: the number of nodes of its graph and functions; set by the service.
    """

    def __init__(self, session: Runner, close_devices: Callable[[], None] | None) -> None:
        self._session = session
        self._close_devices = close_devices
        self._lock = threading.Lock()
        self._version = 0
        self._is_closed = False
        self._numbers = itertools.count()
        self._callables: dict[int, _Callable] = {}
        self.requests = RequestMemory()
        self.last_use = 0.0
        self.num_running = 0
        self.num_nodes = 0

    @property
    def session(self) -> Runner:
        """The session that runs the steps."""
        return self._session

    def extend(self, graph_def: proto.GraphDef, version: int) -> int:
        """Add nodes and functions; return the graph's new version.

        Raises:
            AbortedError: the client has another version of the graph.
            OpError: the nodes cannot be added; the session is unchanged.
        """
        self._check_open()
        with self._lock:
            if version != self._version:
                raise AbortedError(
                    f"Current version is {self._version} but caller expected {version}."
                )
            self._session.extend(graph_def)
            self._version += 1
            return self._version

    def run(
        self,
        message: proto.RunStepRequest,
        feeds: Sequence[NamedTensor],
        options: proto.RunOptions | None,
        metadata: proto.RunMetadata | None,
        cancellation: CancellationManager,
    ) -> Iterator[NamedTensor]:
        """Run a step, or a piece of a partial run; return the fetched tensors.

        Args:
            message: the request.
            feeds: its tensors.
            options: the options of the message; None if none is set.
            metadata: filled with measurements, if given.
            cancellation: cancels the step.

        Raises:
            OpError: the first error of the step.
        """
        fetches = tuple(message.fetch[:])  # a slice is read faster than the field
        if message.partial_run_handle:
            values = self._partial_run(message, feeds, metadata, cancellation)
        else:
            names = tuple([feed.name for feed in feeds])
            if len(names) > 1 and len(set(names)) != len(names):
                raise InvalidArgumentError(
                    f"a tensor is fed twice; the fed tensors are {', '.join(names)}"
                )
            signature = names, fetches, tuple(message.target[:])
            fed = [feed.value for feed in feeds]
            values = self._session.run(signature, fed, options, metadata, cancellation)
        return map(fetched_tensor, fetches, values)

    def partial_run_setup(self, message: proto.PartialRunSetupRequest) -> str:
        """Begin a run that is fed and fetched piece by piece; return its handle."""
        self._check_open()
        signature = tuple(message.feed), tuple(message.fetch), tuple(message.target)
        return self._session.partial_run_setup(signature, None)

    def make_callable(self, options: proto.CallableOptions) -> int:
        """Prepare a signature; return the index of the callable, from 0.

        Raises:
            OpError: the signature cannot be run.
        """
        self._check_open()
        callable_ = _Callable(self._session, options)
        with self._lock:
            number = next(self._numbers)
            self._callables[number] = callable_
        return number

    def run_callable(
        self,
        number: int,
        values: Iterable[Value],
        metadata: proto.RunMetadata | None,
        cancellation: CancellationManager,
    ) -> list[Value]:
        """Run a callable with the values of its feeds; return those of its fetches.

        Raises:
            InvalidArgumentError: there is no callable with that index.
            OpError: the first error of the step.
        """
        callable_ = self._find_callable(number)
        results: list[Value] = callable_.call(
            *values, run_metadata=metadata, cancellation=cancellation
        )
        return results

    def wants_metadata(self, number: int) -> bool:
        """Return whether the options of a callable request metadata."""
        return asks_for_metadata(self._find_callable(number).options)

    def release_callable(self, number: int) -> None:
        """Remove a callable, if it exists."""
        with self._lock:
            self._callables.pop(number, None)

    def step(
        self, call: Call, request: Request | None, work: Callable[[CancellationManager], bytes]
    ) -> bytes:
        """Run the work of a call, and cancel it if its client disconnects or the session is closed.

        Args:
            call: the call.
            request: the request of the call, which other calls may share.
            work: the function to run.

        Raises:
            AbortedError: the client has disconnected.
            FailedPreconditionError: the session was closed.
            OpError: raised by the work.
        """
        cancellation = CancellationManager(self._session.cancellation)
        watch = _ClientWatch(cancellation, self.requests, request)
        if request is not None:
            request.cancel = watch.cancel
        with self._lock:
            self.num_running += 1
        try:
            if not call.on_end(watch.call_ended):
                watch.call_ended()
            self._check_open()
            return work(cancellation)
        except OpError as error:
            if watch.is_client_gone:
                raise AbortedError(
                    "the step was cancelled because its client disconnected. It may have been "
                    "applied in part"
                ) from error
            raise
        finally:
            watch.is_done = True
            cancellation.close()
            with self._lock:
                self.num_running -= 1

    def close(self) -> None:
        """Cancel running steps, and free the session's resources."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._callables.clear()
        self._session.cancellation.start_cancel(CancelledError(CLOSED))
        self._session.close()
        if self._close_devices is not None:
            self._close_devices()

    def _partial_run(
        self,
        message: proto.RunStepRequest,
        feeds: Sequence[NamedTensor],
        metadata: proto.RunMetadata | None,
        cancellation: CancellationManager,
    ) -> list[Value]:
        handle = message.partial_run_handle
        session = self._session
        token = cancellation.register(
            lambda: session.cancel_partial_run(
                handle, cancellation.reason or CancelledError("the step was cancelled")
            )
        )
        try:
            return session.partial_run(
                handle, tuple(message.fetch), {f.name: f.value for f in feeds}, metadata
            )
        finally:
            cancellation.deregister(token)

    def _find_callable(self, number: int) -> _Callable:
        callable_ = self._callables.get(number)
        if callable_ is None:
            raise InvalidArgumentError(
                f"Attempted to run callable after handle was released: {number}"
            )
        return callable_

    def _check_open(self) -> None:
        if self._is_closed:
            raise FailedPreconditionError("Session is closed.")


class _ClientWatch:
    """Cancels a step when no call waits for it any longer."""

    __slots__ = ("_cancellation", "_memory", "_request", "is_client_gone", "is_done")

    def __init__(
        self,
        cancellation: CancellationManager,
        memory: RequestMemory,
        request: Request | None,
    ) -> None:
        self._cancellation = cancellation
        self._memory = memory
        self._request = request
        self.is_done = False
        self.is_client_gone = False

    def call_ended(self) -> None:
        """Handle the end of the call, which may have been answered."""
        if self.is_done:
            return
        if self._request is None:
            self.cancel()
        else:
            self._memory.leave(self._request)

    def cancel(self) -> None:
        """Cancel the step."""
        self.is_client_gone = True
        self._cancellation.start_cancel(CancelledError("the client of the step disconnected"))


class _Callable:
    """A signature that was prepared.

    Attributes:
        options: its options.
        call: the function from the values of the feeds to those of the fetches.
    """

    def __init__(self, session: Runner, callable_options: proto.CallableOptions) -> None:
        feeds = tuple(map(_with_number, callable_options.feed))
        fetches = tuple(map(_with_number, callable_options.fetch))
        if len(set(feeds)) != len(feeds):
            raise InvalidArgumentError(
                f"a tensor is fed twice; the fed tensors are {', '.join(feeds)}"
            )
        options = type(callable_options)()
        options.CopyFrom(callable_options)
        # Over the wire every value comes from the host's memory and goes there.
        options.ClearField("feed_devices")
        options.ClearField("fetch_devices")
        run_options = options.run_options if options.run_options.ByteSize() else None
        self.options = options.run_options
        signature = feeds, fetches, tuple(options.target)
        self.call: Any = session.make_callable(signature, list, run_options, options)


def fetched_tensor(name: str, value: Value) -> NamedTensor:
    """Convert a fetched value to the tensor of a message; a scalar string is `bytes`."""
    return NamedTensor(name, np.array(value, object) if type(value) is bytes else value)


def _with_number(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def asks_for_metadata(options: proto.RunOptions) -> bool:
    """Return whether options request statistics or partition graphs."""
    return bool(options.trace_level or options.output_partition_graphs)


def options_of(message: proto.RunStepRequest) -> proto.RunOptions | None:
    """Return the options of a step; None if none is set."""
    options = message.options
    return options if options.ByteSize() else None
