"""Callables: signatures that a master has prepared (`MakeCallable`)."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from graphmill.errors import InternalError, InvalidArgumentError, UnimplementedError
from graphmill.spi.cluster import Signature, copy_message
from graphmill.spi.protos import proto

from ..wire.tensor_messages import RUN_CALLABLE_REQUEST, RUN_CALLABLE_RESPONSE, parse_message
from .step import new_request_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

    from .session import GrpcSession
    from .step import StepPlan


class Callables:
    """The callables of one session.

    A callable that is garbage collected is released with the next call of the session, because the
    garbage collector may run anywhere and must not call a server.

    Threads: any number may create callables and call them.
    """

    def __init__(self, session: GrpcSession) -> None:
        self._session = session
        self._dropped: deque[int] = deque()

    def make(
        self,
        plan: StepPlan,
        rebuild: Callable[[list[Value]], Any],
        options: proto.CallableOptions,
    ) -> Callable[..., Any]:
        """Return a function of the fed values, with `run_metadata` as keyword.

        Raises:
            UnimplementedError: feeds or fetches should stay on a device of the server.
            OpError: the signature cannot be run.
        """
        if options.feed_devices or options.fetch_devices:
            raise UnimplementedError(
                "feed_devices and fetch_devices need a session in this process: the devices are "
                f"those of {self._session.target}"
            )
        request = proto.MakeCallableRequest(
            session_handle=self._session.handle, options=options, request_id=new_request_id()
        )
        data = self._session.call("MakeCallable", request, self._session.timeout(None))
        handle = parse_message(proto.MakeCallableResponse, data).handle
        remote_callable = RemoteCallable(self._session, handle, plan, rebuild, options.run_options)
        weakref.finalize(remote_callable, self._dropped.append, handle).atexit = False
        return remote_callable

    def release_dropped(self) -> None:
        """Make the server free the callables that were dropped.

        Raises:
            OpError: the server cannot be reached, or refuses.
        """
        while self._dropped:
            try:
                handle = self._dropped.popleft()
            except IndexError:  # another thread was faster
                return
            request = proto.ReleaseCallableRequest(
                session_handle=self._session.handle, handle=handle
            )
            self._session.call("ReleaseCallable", request, self._session.timeout(None))


class RemoteCallable:
    """A signature that a master has prepared, called with the fed values."""

    def __init__(
        self,
        session: GrpcSession,
        handle: int,
        plan: StepPlan,
        rebuild: Callable[[list[Value]], Any],
        options: proto.RunOptions,
    ) -> None:
        self._session = session
        self._handle = handle
        self._plan = plan
        self._rebuild = rebuild
        self._timeout = session.timeout(options)

    def __call__(self, *values: Any, run_metadata: proto.RunMetadata | None = None) -> Any:
        """Run the signature.

        Raises:
            InvalidArgumentError: there are too many or too few values, or one does not fit.
            CancelledError: the session is closed.
            OpError: the first error of the step.
        """
        session = self._session
        session.check_open()
        plan = self._plan
        if len(values) != len(plan.feeds):
            raise InvalidArgumentError(
                f"the callable takes {len(plan.feeds)} values ({', '.join(plan.feeds) or 'none'}), "
                f"{len(values)} given"
            )
        request = proto.RunCallableRequest(
            session_handle=session.handle, handle=self._handle, request_id=new_request_id()
        )
        data = RUN_CALLABLE_REQUEST.encode(request, plan.tensors(values), session.host.variants)
        response, tensors = RUN_CALLABLE_RESPONSE.decode(
            session.call_with_bytes("RunCallable", data, self._timeout), session.host.variants
        )
        if run_metadata is not None:
            copy_message(response.metadata, run_metadata)
        results = [tensor.value for tensor in tensors]
        if len(results) != len(plan.fetches):
            raise InternalError(
                f"the master sent {len(results)} tensors but {len(plan.fetches)} were fetched"
            )
        return self._rebuild(plan.in_order(dict(zip(plan.fetches, results, strict=True))))


def options_of_callable(
    signature: Signature,
    options: proto.RunOptions | None,
    callable_options: proto.CallableOptions | None,
    fetches: tuple[str, ...],
) -> proto.CallableOptions:
    """Return the options of a callable, with each fetch once."""
    merged: proto.CallableOptions = proto.CallableOptions()
    if callable_options is not None:
        merged.CopyFrom(callable_options)
    feeds, _, targets = signature
    for field in ("feed", "fetch", "target"):
        merged.ClearField(field)
    merged.feed.extend(feeds)
    merged.fetch.extend(fetches)
    merged.target.extend(targets)
    if options is not None:
        merged.run_options.CopyFrom(options)
    return merged
