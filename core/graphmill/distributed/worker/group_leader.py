"""`GroupLeader`: the groups of collectives whose members run in steps of different sessions.

Semantics: `CollectiveParamResolverDistributed` of
`tensorflow/core/distributed_runtime/collective_param_resolver_distributed.h`. One task of a cluster
leads: members ask it for the devices of their group (CompleteGroup), and wait there for each other
before they exchange tensors (CompleteInstance). Unlike in TensorFlow, members meet for each
collective, not only for the first of an instance, so sessions that failed and those that did not
cannot get out of step; and a group is formed again when one of its devices has been restarted.
"""

from __future__ import annotations

import copy
import secrets
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphmill import proto
from graphmill.errors import (
    AbortedError,
    CancelledError,
    InternalError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
    UnimplementedError,
    error_class,
)
from graphmill.graph.device_name import task_of
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.distributed.worker.peers import Peers

    Answer = Callable[[Any, OpError | None], None]
    Withdraw = Callable[[], None]

EXCHANGE_PROTOCOL: Final = 1
"""How members of graphmill exchange tensors: by RecvTensor, each with all others."""
CHECK_SECONDS: Final = 1.0
"""Seconds of waiting after which the leader checks that tasks of absent members are alive."""
MAX_GROUPS: Final = 4096
"""Maximum number of groups; beyond it, the least recently used idle one is forgotten."""


class GroupLeader:
    """The groups that this task leads.

    Threads: `_lock` guards the tables; no function that was passed in is called under it.

    Args:
        task: the name of this task.
        peers: the other tasks.
    """

    def __init__(self, task: str, peers: Peers) -> None:
        self._task = task
        self._peers = peers
        self._lock = fork_safe_lock()
        self._groups: dict[int, _Group] = {}
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def complete_group(self, request: proto.CompleteGroupRequest, done: Answer) -> Withdraw:
        """Answer with a group's devices when all have asked; return a function that withdraws."""
        error = _refusal(request)
        waiter = _Waiter(request.device_attributes.name, done)
        stale: _Group | None = None
        leaving: list[_Waiter] = []
        response = None
        if error is None:
            with self._lock:
                group, stale = self._group_for(request)
                error = group.add(request, waiter)
                if error is not None or group.is_whole:
                    leaving = group.take_waiting()
                if error is not None and not group.is_whole:
                    self._groups.pop(group.key, None)
                response = group.response() if error is None and group.is_whole else None
        if stale is not None:
            _fail(stale.take_all(), AbortedError(f"group {stale.key} was formed again"))
        if error is not None:
            _fail([*leaving, waiter], error)
        for one in leaving if error is None else ():
            one.done(response, None)
        return lambda: self._leave_group(request.group_key, waiter)

    def complete_instance(self, request: proto.CompleteInstanceRequest, done: Answer) -> Withdraw:
        """Answer when all members have joined a collective; return a function that withdraws.

        A request with an error is answered at once: it fails the collectives that wait for the
        member.
        """
        if request.error_code:
            self._fail_absent(request)
            done(proto.CompleteInstanceResponse(instance_key=request.instance_key), None)
            return _nothing
        waiter = _Waiter(request.device, done)
        leaving: list[_Waiter] = []
        with self._lock:
            group = self._groups.get(request.group_key)
            error = _not_member(group, request) if group is None else group.refusal(request)
            if group is not None and error is None:
                instance = group.instances.setdefault(request.instance, _Instance())
                instance.waiters.append(waiter)
                if len(instance.waiters) == group.size:
                    leaving = group.instances.pop(request.instance).waiters
                else:
                    self._check_later()
        if error is not None:
            done(None, error)
            return _nothing
        response = proto.CompleteInstanceResponse(
            instance_key=request.instance_key,
            source_rank=-1,
            exchange_id=secrets.randbits(56) | 1 << 56,
        )
        for one in leaving:
            one.done(response, None)
        return lambda: self._leave_instance(request, waiter)

    def close(self) -> None:
        """Fail all waiting members."""
        with self._lock:
            self._is_closed = True
            groups, self._groups = list(self._groups.values()), {}
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        for group in groups:
            _fail(group.take_all(), CancelledError(f"the group leader {self._task} is stopped"))

    def _group_for(self, request: proto.CompleteGroupRequest) -> tuple[_Group, _Group | None]:
        """Return the group that a member joins, and the one that it replaces; under the lock."""
        key = request.group_key
        group, stale = self._groups.pop(key, None), None
        if group is not None and group.is_outdated_by(request):
            group, stale = None, group
        if group is None:
            group = _Group(key, request.group_size)
        self._groups[key] = group  # behind all others: it is the one used last
        if len(self._groups) > MAX_GROUPS:
            idle = next((k for k, one in self._groups.items() if not one.is_awaited), key)
            if idle != key:
                del self._groups[idle]
        return group, stale

    def _leave_group(self, key: int, waiter: _Waiter) -> None:
        with self._lock:
            group = self._groups.get(key)
            if group is None or waiter not in group.waiting:
                return
            group.waiting.remove(waiter)
            if all(other.device != waiter.device for other in group.waiting):
                del group.members[waiter.device]
            if not group.members:
                del self._groups[key]

    def _leave_instance(self, request: proto.CompleteInstanceRequest, waiter: _Waiter) -> None:
        """Fail the members that wait with one that has left."""
        with self._lock:
            group = self._groups.get(request.group_key)
            instance = None if group is None else group.instances.get(request.instance)
            if group is None or instance is None or waiter not in instance.waiters:
                return
            del group.instances[request.instance]
        instance.waiters.remove(waiter)
        reason = f"the member on {waiter.device} has left: its step was cancelled, or its task lost"
        _fail(instance.waiters, AbortedError(f"{_named(request)}: {reason}"))

    def _fail_absent(self, request: proto.CompleteInstanceRequest) -> None:
        """Fail all collectives that wait for a member whose step has failed."""
        text = (
            f"a collective of group {request.group_key} is aborted: the step of its member on "
            f"{request.device} failed: {request.error_message}"
        )
        error = error_class(request.error_code)(text)
        error.is_derived = True
        with self._lock:
            group = self._groups.get(request.group_key)
            is_member = group is not None and group.incarnation(request.device) == (
                request.incarnation
            )
            waiters = group.take_absent({request.device}) if group and is_member else []
        _fail(waiters, error)

    def _check_later(self) -> None:
        """Check absent members after a while, unless that is due anyway; under the lock."""
        if self._timer is None and not self._is_closed:
            self._timer = threading.Timer(CHECK_SECONDS, self._check)
            self._timer.daemon = True
            self._timer.start()

    def _check(self) -> None:
        """Check that the tasks of members for which others have been waiting are alive."""
        with self._lock:
            self._timer = None
            absent = {d for group in self._groups.values() for d in group.absent(CHECK_SECONDS / 2)}
            if any(group.instances for group in self._groups.values()):
                self._check_later()
        tasks = {task_of(device) for device in absent} - {self._task}
        for task in tasks:
            try:
                self._peers.get(task).get_status(partial(self._fail_lost_devices, task))
            except OpError as error:
                self._fail_lost_devices(task, None, error)

    def _fail_lost_devices(self, task: str, response: Any, error: OpError | None) -> None:
        """Fail the collectives that wait for devices that a task no longer has."""
        if isinstance(error, UnavailableError):
            found: dict[str, int] = {}
        elif error is not None:
            return  # the task is alive: it has answered
        else:
            found = {one.name: one.incarnation for one in response.device_attributes}
        with self._lock:
            failed = []
            for group in list(self._groups.values()):
                devices = {d for d in group.members if task_of(d) == task}
                lost = {d for d in devices if found.get(d) != group.incarnation(d)}
                waiters = group.take_absent(lost)
                failed += [(group.key, waiter) for waiter in waiters]
                if waiters:
                    self._groups.pop(group.key)
        for key, waiter in failed:
            waiter.done(None, _lost(key, task, error))


class _Waiter:
    """A member that waits."""

    __slots__ = ("device", "done")

    def __init__(self, device: str, done: Answer) -> None:
        self.device = device
        self.done = done


class _Instance:
    """The members that have joined a collective, and the time of the first."""

    def __init__(self) -> None:
        self.waiters: list[_Waiter] = []
        self.begun = time.monotonic()


class _Group:
    """A group, whose members are known when all have asked.

    Attributes:
        members: the attributes of its devices, by name.
        waiting: the members that wait for the others.
        instances: the collectives that members have joined, by name.
    """

    def __init__(self, key: int, size: int) -> None:
        self.key = key
        self.size = size
        self.members: dict[str, Any] = {}
        self.waiting: list[_Waiter] = []
        self.instances: dict[str, _Instance] = {}

    @property
    def is_whole(self) -> bool:
        """Whether all members are known."""
        return len(self.members) == self.size

    @property
    def is_awaited(self) -> bool:
        """Whether a member waits."""
        return bool(self.waiting or self.instances)

    def incarnation(self, device: str) -> int | None:
        """Return the incarnation of a member; None if the device is no member."""
        attributes = self.members.get(device)
        return None if attributes is None else int(attributes.incarnation)

    def is_outdated_by(self, request: proto.CompleteGroupRequest) -> bool:
        """Return whether a request shows that a member was restarted, or the program changed."""
        device = request.device_attributes
        known = self.incarnation(device.name)
        is_other = self.is_whole and self.size != request.group_size
        return is_other or (known is not None and known != device.incarnation)

    def add(self, request: proto.CompleteGroupRequest, waiter: _Waiter) -> OpError | None:
        """Add a member; return the error if it cannot be one."""
        where = f"group {self.key} on {waiter.device}"
        if request.group_size != self.size:
            return InternalError(
                f"{where}: the member has group size {request.group_size}, but others of the "
                f"group have {self.size}; give all members of a group the same size"
            )
        if self.is_whole and waiter.device not in self.members:
            return InternalError(
                f"{where}: the group of {self.size} is full: its devices are "
                f"{', '.join(sorted(self.members))}"
            )
        attributes = proto.DeviceAttributes()
        attributes.CopyFrom(request.device_attributes)
        self.members[waiter.device] = attributes
        self.waiting.append(waiter)
        return None

    def refusal(self, request: proto.CompleteInstanceRequest) -> OpError | None:
        """Return the error if a member cannot join a collective, else None."""
        if not self.is_whole or self.incarnation(request.device) != request.incarnation:
            return _not_member(self, request)
        if request.group_size != self.size:
            return InternalError(f"{_named(request)}: the group has {self.size} members")
        instance = self.instances.get(request.instance)
        if instance is not None and any(w.device == request.device for w in instance.waiters):
            return InternalError(
                f"{_named(request)}: another node of {request.device} waits for the same "
                "instance; give collectives that run at the same time different instance keys"
            )
        return None

    def response(self) -> proto.CompleteGroupResponse:
        """Return the answer to all members."""
        return proto.CompleteGroupResponse(
            group_key=self.key,
            group_size=self.size,
            num_tasks=len({task_of(device) for device in self.members}),
            device_attributes=[self.members[device] for device in sorted(self.members)],
            exchange_protocol=EXCHANGE_PROTOCOL,
        )

    def absent(self, seconds: float) -> set[str]:
        """Return the members that others have been waiting for longer than some seconds."""
        latest = time.monotonic() - seconds
        late = [instance for instance in self.instances.values() if instance.begun <= latest]
        return {d for one in late for d in self.members.keys() - {w.device for w in one.waiters}}

    def take_absent(self, devices: Iterable[str]) -> list[_Waiter]:
        """End the collectives that lack a member on some devices; return their waiting members."""
        absent = set(devices)
        taken: list[_Waiter] = []
        for name, instance in list(self.instances.items()):
            if absent - {waiter.device for waiter in instance.waiters}:
                taken += self.instances.pop(name).waiters
        return taken

    def take_waiting(self) -> list[_Waiter]:
        """Remove and return the members that wait for the group."""
        taken, self.waiting = self.waiting, []
        return taken

    def take_all(self) -> list[_Waiter]:
        """Remove and return all waiting members."""
        instances, self.instances = self.instances, {}
        return [*self.take_waiting(), *(w for m in instances.values() for w in m.waiters)]


def _refusal(request: proto.CompleteGroupRequest) -> OpError | None:
    """Return the error if a request cannot be granted in any group, else None."""
    if request.exchange_protocol != EXCHANGE_PROTOCOL:
        return UnimplementedError(
            f"group {request.group_key}: {request.device_attributes.name or 'the member'} is on a "
            "task that does not run this version of graphmill; TensorFlow's tasks exchange the "
            "tensors of collectives in another way, and cannot be in a group with graphmill's"
        )
    if request.group_size < 1:
        return InvalidArgumentError(
            f"group {request.group_key}: the group size must be positive, got {request.group_size}"
        )
    if not request.device_attributes.name:
        return InvalidArgumentError(f"group {request.group_key}: the member names no device")
    return None


def _not_member(group: _Group | None, request: proto.CompleteInstanceRequest) -> OpError:
    known = "does not know the group" if group is None else "knows another group of this key"
    return AbortedError(
        f"{_named(request)}: the group leader {known}: the leader or another member was restarted. "
        "Run the step again"
    )


def _lost(key: int, task: str, error: OpError | None) -> OpError:
    if error is not None:
        return UnavailableError(f"group {key} waits for its member on {task}: {error.message}")
    return AbortedError(f"group {key} waits for its member on {task}, which was restarted")


def _named(request: proto.CompleteInstanceRequest) -> str:
    return (
        f"{request.name or 'collective'} of group {request.group_key}, instance "
        f"{request.instance_key}, on {request.device}"
    )


def _fail(waiters: Iterable[_Waiter], error: OpError) -> None:
    for waiter in waiters:
        waiter.done(None, copy.copy(error))  # its receiver adds the node


def _nothing() -> None:
    """Do nothing: the call has ended."""
