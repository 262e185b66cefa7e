"""Collectives: combine the tensors of a group of devices (clause R6).

Semantics: tensorflow/core/framework/collective.h. A kernel hands a `CollectiveRequest` to the
`CollectiveExecutor` of its device, or else of the step. A waiting member occupies no thread; when
the last member has joined, all get their results. Tensors are always combined in the order of
ranks, so results are bitwise reproducible.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from graphmill.errors import (
    CancelledError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    OpError,
    UnimplementedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    import numpy as np

    from graphmill.runtime.steps.cancellation import Cancellation

    Done: TypeAlias = Callable[[Any, OpError | None], None]
    Combine: TypeAlias = Callable[["Sequence[CollectiveRequest]"], Sequence[Any]]


COLLECTIVE_MEMBERS_ATTR: Final = "_collective_members"
"""Attr of a collective node in a graph of several tasks: names and incarnations of all devices
that have such nodes. The master of a cluster writes it."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveRequest:
    """The request of one member to join a collective.

    Attributes:
        kind: the op type, for messages; members of one instance must agree on it.
        group_key, group_size: the group, and its number of members.
        instance_key: the collective within the group.
        iteration: the iterations of the loops around the node; each is a separate collective.
        device: full name of the member's device.
        node: name of the node.
        value: the member's tensor in host memory; None if the member only receives.
        agreed: the values on which all members must agree; the names are for messages.
        combine: computes the results from the requests of all members, in the order of ranks.
        rank: the member's rank; None to order members by device name.
        timeout: seconds to wait for the other members; 0 for no limit.
        members: the devices of all tasks that can be members, as the master of a cluster wrote them
            into the node; empty for a single task.
    """

    kind: str
    group_key: Hashable
    group_size: int
    instance_key: Hashable
    iteration: str
    device: str
    node: str
    value: np.ndarray[Any, Any] | None
    agreed: Mapping[str, Any]
    combine: Combine
    rank: int | None = None
    timeout: float = 0.0
    members: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Hashable, Hashable, str]:
        """The key that the members of one collective share."""
        return self.group_key, self.instance_key, self.iteration

    def __str__(self) -> str:
        """Name group, instance, device (with its task) and node."""
        return (
            f"{self.kind} of group {self.group_key}, instance {self.instance_key}, on "
            f"{self.device} (node {self.node})"
        )


class CollectiveExecutor(ABC):
    """Runs collectives; a device may supply its own (`Device.collectives`).

    Threads: all methods may be called from any thread.
    """

    @abstractmethod
    def execute_async(
        self, request: CollectiveRequest, cancellation: Cancellation, done: Done
    ) -> None:
        """Join a collective and return at once.

        Args:
            request: the member's part.
            cancellation: the manager of the member's step; cancelling it fails all members.
            done: called once with the result or the error, in any thread, possibly before this
                method returns.
        """


class LocalCollectives(CollectiveExecutor):
    """The collectives of one step, between devices of this process.

    Args:
        num_devices: the number of devices that can be members; None if unknown.

    Threads: `_lock` guards all attributes; no callback is called under it.
    """

    def __init__(self, num_devices: int | None = None) -> None:
        self._lock = threading.Lock()
        self._num_devices = num_devices
        self._groups: dict[Hashable, _Group] = {}
        self._instances: dict[Hashable, _Instance] = {}

    def execute_async(
        self, request: CollectiveRequest, cancellation: Cancellation, done: Done
    ) -> None:
        """Join the members that are waiting; the last one combines the tensors of all."""
        member = _Member(request, cancellation, done)
        key = request.key
        with self._lock:
            instance = self._instances.setdefault(key, _Instance())
            author = None
            if instance.error is None:
                author, instance.error = member, self._refusal(instance, request)
            instance.members.append(member)
            error = instance.error
            is_whole = error is None and len(instance.members) == request.group_size
            leaving = instance.take_all() if error is not None or is_whole else []
            if is_whole:
                del self._instances[key]
        if error is not None:
            _fail(leaving, error, author)
        elif is_whole:
            _finish(leaving)
        else:
            member.watch(lambda failure: self._abort(instance, member, failure))

    def lacks_members(self, request: CollectiveRequest) -> bool:
        """Return whether a group has more members than can be in this step."""
        possible = self._num_possible(request)
        return possible is not None and request.group_size > possible

    def _num_possible(self, request: CollectiveRequest) -> int | None:
        """Return the number of devices in this step that can be members; None if unknown."""
        return len(request.members) or self._num_devices

    def _refusal(self, instance: _Instance, request: CollectiveRequest) -> OpError | None:
        """Return the error if a member cannot join, else None; call it under the lock."""
        size = request.group_size
        if size < 1:
            return InvalidArgumentError(f"{request}: the group size must be positive, got {size}")
        if self.lacks_members(request):
            return UnimplementedError(
                f"{request}: the group has {size} members, but nodes of this step that can be "
                f"members are on {self._num_possible(request)} devices. Members in several "
                "sessions need a cluster: connect each session to the server of a task"
            )
        group = self._groups.setdefault(request.group_key, _Group(size))
        return group.refusal(request) or instance.refusal(request)

    def _abort(self, instance: _Instance, author: _Member | None, error: OpError) -> None:
        """Fail all waiting members, and those that join later."""
        with self._lock:
            if not instance.members:
                return  # the collective has ended
            instance.error = error
            leaving = instance.take_all()
        _fail(leaving, error, author)


class _Group:
    """The members of a group that have joined so far."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.devices: set[str] = set()

    def refusal(self, request: CollectiveRequest) -> OpError | None:
        """Add a member to the group; return the reason if it cannot be added, else None."""
        if request.group_size != self.size:
            return InternalError(
                f"{request}: the member has group size {request.group_size}, but others of the "
                f"group have {self.size}; give all members of a group the same size"
            )
        self.devices.add(request.device)
        if len(self.devices) > self.size:
            return InternalError(
                f"{request}: the group of {self.size} is full: its devices are "
                f"{', '.join(sorted(self.devices - {request.device}))}"
            )
        return None


class _Member:
    """A waiting member, with its cancellation callback and timer."""

    def __init__(self, request: CollectiveRequest, cancellation: Cancellation, done: Done) -> None:
        self.request = request
        self.done = done
        self._cancellation = cancellation
        self._token: int | None = None
        self._timer: threading.Timer | None = None
        self._has_left = False
        self._lock = threading.Lock()

    def watch(self, abort: Callable[[OpError], None]) -> None:
        """Call `abort` when the member's step is cancelled or its timeout expires."""
        request = self.request
        with self._lock:
            if self._has_left:
                return
            if request.timeout > 0:
                late = DeadlineExceededError(
                    f"{request}: not all {request.group_size} members arrived within "
                    f"{request.timeout:g} seconds (timeout_seconds)"
                )
                seconds = min(request.timeout, threading.TIMEOUT_MAX)
                self._timer = threading.Timer(seconds, abort, [late])
                self._timer.daemon = True
                self._timer.start()
        token = self._cancellation.register(lambda: abort(self._cancelled()))
        with self._lock:
            self._token = token
            has_left = self._has_left
        if token is None:
            abort(self._cancelled())
        elif has_left:
            self._cancellation.deregister(token)

    def leave(self) -> None:
        """Remove the cancellation callback and the timer."""
        with self._lock:
            self._has_left = True
            timer, token = self._timer, self._token
        if timer is not None:
            timer.cancel()
        self._cancellation.deregister(token)

    def _cancelled(self) -> OpError:
        reason = self._cancellation.reason
        because = "" if reason is None else f": {reason.message}"
        error = CancelledError(f"{self.request}: the member's step was cancelled{because}")
        error.is_derived = reason is not None
        return error


class _Instance:
    """The members that wait for one collective."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.error: OpError | None = None

    def take_all(self) -> list[_Member]:
        """Remove and return all waiting members."""
        taken, self.members = self.members, []
        return taken

    def refusal(self, request: CollectiveRequest) -> OpError | None:
        """Return the error if a member does not match the waiting ones, else None."""
        for other in (member.request for member in self.members):
            if other.device == request.device:
                return InternalError(
                    f"{request}: node {other.node} of the same device waits for the same instance; "
                    "give collectives that run at the same time different instance keys"
                )
            if other.kind != request.kind:
                return InternalError(f"{request} does not match {other}")
            for name, value in request.agreed.items():
                if value != other.agreed[name]:
                    kind = InvalidArgumentError if name != "dtype" else InternalError
                    return kind(
                        f"{request} has {name} {value}, but {other} has {name} "
                        f"{other.agreed[name]}; members of an instance must agree"
                    )
        return None


def _fail(members: Sequence[_Member], error: OpError, author: _Member | None) -> None:
    """Fail a member with its error, and the others with a derived one."""
    for member in members:
        member.leave()
        if member is author:
            member.done(None, error)
        else:
            derived = type(error)(f"{member.request} is aborted by: {error.message}")
            derived.is_derived = error.is_derived
            member.done(None, derived)


def _finish(members: list[_Member]) -> None:
    """Call `done` of each member with its result, or of all with the error of combining."""
    for member in members:
        member.leave()
    members.sort(key=_rank_key)
    try:
        results = members[0].request.combine([member.request for member in members])
    except OpError as error:
        _fail(members, error, members[0])
        return
    except Exception as error:  # noqa: BLE001 - all members wait for the outcome
        failure = InternalError(f"{members[0].request}: {type(error).__name__}: {error}")
        _fail(members, failure, members[0])
        return
    for member, result in zip(members, results, strict=True):
        member.done(result, None)


def _rank_key(member: _Member) -> tuple[Any, ...]:
    """Return the sort key: the rank if given, else the device, with CPU:2 before CPU:10."""
    request = member.request
    parts = re.split(r"(\d+)", request.device)
    by_name = tuple(int(part) if part.isdigit() else part for part in parts)
    return (-1 if request.rank is None else request.rank, by_name)
