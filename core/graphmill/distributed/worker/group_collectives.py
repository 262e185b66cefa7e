"""`GroupCollectives`: collectives whose members are in several steps, of several sessions.

Each session has a master of its own, and knows only its members. A member asks the group leader
for the devices of its group, waits there until all have joined, and gets an exchange id: that of
the rendezvous through which they exchange their tensors, as `TaskCollectives` do in one step.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import proto
from graphmill.distributed.worker.group_leader import EXCHANGE_PROTOCOL
from graphmill.distributed.worker.task_collectives import End, TaskCollectives
from graphmill.errors import CancelledError, DeadlineExceededError, OpError, UnimplementedError
from graphmill.graph.device_name import task_of
from graphmill.runtime.process.fork import fork_safe_lock
from graphmill.runtime.steps.cancellation import CancellationManager

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from graphmill.distributed.worker.group_leader import GroupLeader
    from graphmill.distributed.worker.peers import Peer, Peers
    from graphmill.distributed.worker.rendezvous_mgr import RendezvousMgr
    from graphmill.runtime.collectives import CollectiveRequest, Done
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.steps.cancellation import Cancellation

KEPT_SECONDS: Final = 60.0
"""Seconds for which the tensors of an ended collective are kept for members yet to fetch them."""


class GroupCollectives:
    """The collectives of a worker with members in other sessions.

    A device runs the collectives of one instance one after the other, whatever their steps.

    Threads: `_lock` guards the tables; no function that was passed in is called under it.

    Args:
        leader: leads the groups, if this task is their leader.
        leader_task: the name of the task that leads all groups of the cluster.
        devices: the devices of the worker.
        rendezvous: the rendezvous of the worker's steps.
    """

    def __init__(
        self,
        leader: GroupLeader,
        leader_task: str,
        devices: Iterable[Device],
        rendezvous: RendezvousMgr,
    ) -> None:
        self._leader = leader
        self.leader_task = leader_task
        self.devices = {device.name: device.attributes for device in devices}
        self._rendezvous = rendezvous
        self._lock = fork_safe_lock()
        self._groups: dict[tuple[Hashable, str], tuple[End, ...]] = {}
        self._queues: dict[Hashable, deque[_Joining]] = {}
        self._exchanges: dict[int, TaskCollectives] = {}
        self._finished: dict[Hashable, tuple[int, float]] = {}

    def execute_async(
        self, request: CollectiveRequest, peers: Peers, cancellation: Cancellation, done: Done
    ) -> None:
        """Join a collective; see `CollectiveExecutor.execute_async`.

        Args:
            request: the member's part.
            peers: the other tasks of its session.
            cancellation: that of its step.
            done: receives the result or the error.
        """
        key = request.device, request.key

        def leave(result: Any, error: OpError | None) -> None:
            with self._lock:
                queue = self._queues[key]
                queue.popleft()
                following = queue[0] if queue else None
                if not queue:
                    del self._queues[key]
            done(result, error)
            if following is not None:
                following.begin()

        joining = _Joining(self, request, peers, cancellation, leave)
        with self._lock:
            queue = self._queues.setdefault(key, deque())
            queue.append(joining)
            is_first = len(queue) == 1
        if is_first:
            joining.begin()

    def fail_group(self, group_key: int, peers: Peers, error: OpError) -> None:
        """Fail the members in other sessions that wait for those here, whose step has failed."""
        with self._lock:
            devices = [device for key, device in self._groups if key == group_key]
        for device in devices:
            request = proto.CompleteInstanceRequest(
                group_key=group_key,
                device=device,
                incarnation=self.devices[device].incarnation,
                error_code=error.code,
                error_message=error.message,
            )
            self.at_leader(peers).complete_instance(request, _ignore)

    def at_leader(self, peers: Peers) -> GroupLeader | Peer:
        """Return the group leader, as a task that can be called.

        Raises:
            UnavailableError: the leader is not in the cluster of the session.
        """
        is_here = self.leader_task == task_of(next(iter(self.devices)))
        return self._leader if is_here else peers.get(self.leader_task)

    def members(self, request: CollectiveRequest) -> tuple[End, ...] | None:
        """Return the devices of a group; None if they are not known yet."""
        ends = self._groups.get((request.group_key, request.device))
        return ends if ends is not None and len(ends) == request.group_size else None

    def note_members(self, request: CollectiveRequest, ends: tuple[End, ...] | None) -> None:
        """Remember the devices of a group; None forgets them."""
        with self._lock:
            if ends is None:
                self._groups.pop((request.group_key, request.device), None)
            else:
                self._groups[request.group_key, request.device] = ends

    def exchange(self, exchange_id: int, peers: Peers) -> TaskCollectives:
        """Return this task's part of a collective with an exchange id.

        Raises:
            AbortedError: it has ended.
        """
        rendezvous = self._rendezvous.find(exchange_id)
        rendezvous.initialize(exchange_id, self.devices, peers)
        with self._lock:
            collectives = self._exchanges.get(exchange_id)
            if collectives is None:
                collectives = self._exchanges[exchange_id] = TaskCollectives(
                    rendezvous, self.devices, None
                )
            return collectives

    def end_exchange(
        self, exchange_id: int, request: CollectiveRequest, error: OpError | None
    ) -> None:
        """Discard the tensors of an exchange, or its error, once no other member needs them.

        When members join the same collective again, all have received the tensors of the previous
        one.
        """
        now = time.monotonic()
        with self._lock:
            collectives = self._exchanges.pop(exchange_id, None)
            if collectives is None:
                return  # another member of this task has ended it
            key = request.key if error is None else exchange_id
            before = self._finished.pop(key, None)
            self._finished[key] = exchange_id, now
            dropped = self._take_old(now - KEPT_SECONDS)
        if before is not None:
            dropped.append(before[0])
        if error is not None:
            collectives.rendezvous.start_abort(error)
        for ended in dropped:
            self._rendezvous.cleanup(ended)

    def _take_old(self, before: float) -> list[int]:
        """Remove and return the exchanges that ended before a time; the lock must be held."""
        taken = []
        for key, (exchange_id, finished) in list(self._finished.items()):
            if finished >= before:
                break  # the table is in the order of their ends
            del self._finished[key]
            taken.append(exchange_id)
        return taken


class StepGroups:
    """The participation of one step in collectives with members in other sessions.

    Args:
        groups: the groups of the worker.
        peers: the other tasks of the session.
        keys: the groups that steps of the same graph have joined; changed here.
    """

    def __init__(self, groups: GroupCollectives, peers: Peers, keys: set[int]) -> None:
        self._groups = groups
        self._peers = peers
        self._keys = keys
        self._has_failed = False

    def execute_async(
        self, request: CollectiveRequest, cancellation: Cancellation, done: Done
    ) -> None:
        """Join a collective; see `CollectiveExecutor.execute_async`."""
        self._keys.add(_int32(request.group_key))

        def ended(result: Any, error: OpError | None) -> None:
            self._has_failed |= error is not None
            done(result, error)

        self._groups.execute_async(request, self._peers, cancellation, ended)

    def step_failed(self, error: OpError) -> None:
        """Fail members in other sessions that wait for this step, which has failed.

        If a collective has failed, they have been notified.
        """
        if self._has_failed:
            return
        for key in sorted(self._keys):
            self._groups.fail_group(key, self._peers, error)


class _Joining:
    """A member that is joining a collective.

    Threads: `_lock` decides which outcome is the first, and guards the call in flight.
    """

    def __init__(
        self,
        owner: GroupCollectives,
        request: CollectiveRequest,
        peers: Peers,
        cancellation: Cancellation,
        done: Done,
    ) -> None:
        self._owner = owner
        self._request = request
        self._peers = peers
        self._done = done
        self._lock = threading.Lock()
        self._has_ended = False
        self._exchange_id = 0
        self._call = CancellationManager(cancellation)
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Find the group, then join the collective."""
        token = self._call.register(self._cancelled)
        if token is None:
            self._cancelled()
            return
        if self._request.timeout > 0:
            seconds = min(self._request.timeout, threading.TIMEOUT_MAX)
            self._timer = threading.Timer(seconds, self._late)
            self._timer.daemon = True
            self._timer.start()
        try:
            if self._owner.members(self._request) is None:
                self._ask_for_group()
            else:
                self._ask_for_exchange_id()
        except OpError as error:
            self._end(None, error)

    def _ask_for_group(self) -> None:
        request = self._request
        device = self._owner.devices[request.device]
        message = proto.CompleteGroupRequest(
            group_key=_int32(request.group_key),
            group_size=request.group_size,
            device_type=device.device_type,
            device_attributes=device.to_proto(),
            exchange_protocol=EXCHANGE_PROTOCOL,
        )

        def answered(response: Any, error: OpError | None) -> None:
            if error is not None:
                self._end(None, error)
            elif response.exchange_protocol != EXCHANGE_PROTOCOL:
                self._end(None, self._foreign())
            else:
                ends = (End(one.name, one.incarnation) for one in response.device_attributes)
                self._owner.note_members(request, tuple(ends))
                self._run_unless_ended(self._ask_for_exchange_id)

        leader = self._owner.at_leader(self._peers)
        self._withdraw_with(leader.complete_group(message, answered))

    def _ask_for_exchange_id(self) -> None:
        request = self._request
        message = proto.CompleteInstanceRequest(
            name=request.kind,
            group_key=_int32(request.group_key),
            group_size=request.group_size,
            instance_key=_int32(request.instance_key),
            device_type=self._owner.devices[request.device].device_type,
            device=request.device,
            incarnation=self._owner.devices[request.device].incarnation,
            instance=json.dumps([request.instance_key, request.iteration]),
        )

        def answered(response: Any, error: OpError | None) -> None:
            if error is not None:
                self._end(None, error)
            else:
                self._run_unless_ended(lambda: self._exchange(response.exchange_id))

        leader = self._owner.at_leader(self._peers)
        self._withdraw_with(leader.complete_instance(message, answered))

    def _exchange(self, exchange_id: int) -> None:
        ends = self._owner.members(self._request) or ()
        request = replace(self._request, members=tuple(map(str, ends)), timeout=0.0)
        with self._lock:
            if self._has_ended:
                return
            self._exchange_id = exchange_id
        self._owner.exchange(exchange_id, self._peers).execute_async(request, self._call, self._end)

    def _run_unless_ended(self, function: Callable[[], None]) -> None:
        """Call a function, unless the member has left; an error ends its participation."""
        if self._has_ended:
            return
        try:
            function()
        except OpError as error:
            self._end(None, error)

    def _withdraw_with(self, withdraw: Callable[[], None]) -> None:
        """Withdraw the call in flight if the step is cancelled."""
        if self._call.register(withdraw) is None:
            withdraw()

    def _cancelled(self) -> None:
        if self._exchange_id:
            return  # the exchange ends with its own error
        reason = self._call.reason
        because = "" if reason is None else f": {reason.message}"
        error = CancelledError(f"{self._request}: the member's step was cancelled{because}")
        error.is_derived = reason is not None
        self._end(None, error)

    def _late(self) -> None:
        request = self._request
        error = DeadlineExceededError(
            f"{request}: not all {request.group_size} members arrived within "
            f"{request.timeout:g} seconds (timeout_seconds)"
        )
        self._end(None, error)
        self._call.start_cancel(error)

    def _end(self, result: Any, error: OpError | None) -> None:
        with self._lock:
            has_ended, self._has_ended = self._has_ended, True
        if has_ended:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._exchange_id:
            self._owner.end_exchange(self._exchange_id, self._request, error)
        if error is not None:
            self._owner.note_members(self._request, None)
        self._call.close()
        self._done(result, error)

    def _foreign(self) -> OpError:
        return UnimplementedError(
            f"{self._request}: the group leader {self._owner.leader_task} does not run "
            "this version of graphmill; members on TensorFlow's tasks cannot be in a group with "
            "graphmill's. Set experimental.collective_group_leader in the server's config"
        )


def _int32(key: Hashable) -> int:
    """Return an integer key for TensorFlow's messages, 0 for others: `instance` identifies them."""
    return int(key) if isinstance(key, int | np.integer) else 0


def _ignore(response: Any, error: OpError | None) -> None:
    """Ignore the outcome of a notice: a leader that is lost has lost the waiting members too."""
    del response, error
