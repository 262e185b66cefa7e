"""`TaskCollectives`: the collectives of a step whose members are on several tasks.

Each task sends the tensors of its members to the other tasks through the step's rendezvous, and
pulls theirs. Then each task combines all tensors itself, in the order of ranks, so that all get the
same bits. These tensors are transferred like all tensors between tasks: with shared memory, in
pieces, with cancellation, errors of other tasks, and checks of incarnations. The master has written
the devices that can be members into the attr `COLLECTIVE_MEMBERS_ATTR` of each communicating node.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.errors import InternalError, OpError
from graphmill.graph.device_name import task_of
from graphmill.ops.definition.effects import effects_of
from graphmill.runtime.collectives import (
    COLLECTIVE_MEMBERS_ATTR,
    CollectiveRequest,
    LocalCollectives,
)
from graphmill.runtime.rendezvous import HOST, RendezvousKey, TransferArgs
from graphmill.runtime.steps.cancellation import Cancellation, CancellationManager

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Sequence

    from graphmill.distributed.worker.group_collectives import StepGroups
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.collectives import Done
    from graphmill.runtime.devices.device import DeviceAttributes
    from graphmill.runtime.rendezvous import Rendezvous


def note_members(graph: Graph, devices: Iterable[DeviceAttributes]) -> None:
    """Write into each communicating node the devices of the others.

    An op communicates if it is distributed (`OpDef.is_distributed_communication`) and has the
    effect `net`.

    Args:
        graph: the graph of a step, placed and not partitioned.
        devices: the devices of all tasks.
    """
    nodes = [
        node
        for node in graph.nodes
        if node.op_def.is_distributed and "net" in effects_of(node.op_def)
    ]
    ends = [End(one.name, one.incarnation) for one in devices]
    for node in nodes:
        used = {other.assigned_device for other in nodes if _may_share_group(node, other)}
        members = tuple(str(end).encode() for end in sorted(ends) if end.device in used)
        graph.set_attr(node, COLLECTIVE_MEMBERS_ATTR, members)


def _may_share_group(node: Node, other: Node) -> bool:
    """Return whether two nodes may be of one group; its key may be known only in the step."""
    keys = {one.attrs["group_key"] for one in (node, other) if "group_key" in one.attrs}
    return len(keys) < 2


class End(NamedTuple):
    """A device that can be a member of a collective, with its incarnation."""

    device: str
    incarnation: int

    @property
    def task(self) -> str:
        """The name of its task."""
        return task_of(self.device)

    def __str__(self) -> str:
        return f"{self.device};{self.incarnation:016x}"

    @classmethod
    def parse(cls, text: str) -> End:
        """Parse the text that `str` returns for an end."""
        device, _, incarnation = text.partition(";")
        return cls(device, int(incarnation, 16))


class TaskCollectives(LocalCollectives):
    """The collectives of one step on one task.

    An instance of a group is used once in a step, or once in each iteration of enclosing loops.

    Args:
        rendezvous: that of the step.
        own: names of the devices of this task.
        num_devices: the number of those on which the step runs; None if unknown.
        groups: for groups with members in other sessions.

    Threads: see `LocalCollectives`.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        own: Container[str],
        num_devices: int | None,
        groups: StepGroups | None = None,
    ) -> None:
        super().__init__(num_devices)
        self._groups_of_sessions = groups
        self._rendezvous = rendezvous
        self._own = own
        self._exchanges: dict[Hashable, _Exchange] = {}

    def execute_async(
        self, request: CollectiveRequest, cancellation: Cancellation, done: Done
    ) -> None:
        """Join the waiting members on this task and on others."""
        groups = self._groups_of_sessions
        if groups is not None and self.lacks_members(request):
            groups.execute_async(request, cancellation, done)
            return
        ends = [End.parse(text) for text in request.members]
        others = _first_of_tasks(end for end in ends if end.device not in self._own)
        if not others or request.group_size > len(ends):
            super().execute_async(request, cancellation, done)
            return
        local_end = next(end for end in ends if end.device in self._own)
        request = replace(request, agreed={k: str(v) for k, v in request.agreed.items()})
        with self._lock:
            exchange = self._exchanges.get(request.key)
            is_first = exchange is None
            if exchange is None:
                exchange = self._exchanges[request.key] = _Exchange(
                    self, request, local_end, others, cancellation
                )
            number = exchange.num_own
            exchange.num_own += 1

        def leave(result: Any, error: OpError | None) -> None:
            exchange.end()
            done(result, error)

        exchange.send(request, number)
        super().execute_async(request, cancellation, leave)
        if is_first:
            exchange.begin()

    def join_remote(self, request: CollectiveRequest, cancellation: Cancellation) -> None:
        """Let a member of another task join the waiting members of this task, if there are any."""
        with self._lock:
            is_awaited = request.key in self._instances
        if is_awaited:
            super().execute_async(request, cancellation, _ignore_result)

    def fail(self, request: CollectiveRequest, error: OpError) -> None:
        """Fail the waiting members of this task, because others cannot join."""
        with self._lock:
            instance = self._instances.get(request.key)
        if instance is not None:
            self._abort(instance, None, error)

    def step_failed(self, error: OpError) -> None:
        """Fail the members in other sessions that wait for this step, which has failed."""
        if self._groups_of_sessions is not None:
            self._groups_of_sessions.step_failed(error)

    @property
    def rendezvous(self) -> Rendezvous:
        """The step's rendezvous."""
        return self._rendezvous


class _Exchange:
    """The tensors that the members of one collective exchange with other tasks.

    Args:
        collectives: the collectives of the step.
        request: that of the first member on this task.
        local_end: the device that represents this task.
        others: the devices that represent the other tasks.
        cancellation: that of the step.

    Attributes:
        num_own: the number of members of this task that have joined.
    """

    def __init__(
        self,
        collectives: TaskCollectives,
        request: CollectiveRequest,
        local_end: End,
        others: Sequence[End],
        cancellation: Cancellation,
    ) -> None:
        self.num_own = 0
        self._collectives = collectives
        self._request = request
        self._local_end = local_end
        self._others = others
        self._cancellation = cancellation
        self._pulls = CancellationManager(cancellation)

    def send(self, request: CollectiveRequest, number: int) -> None:
        """Make the tensor of a member available to other tasks."""
        rendezvous = self._collectives.rendezvous
        description = json.dumps(_described(request)).encode()
        for other in self._others:
            key = self._key(self._local_end, other.device, number)
            rendezvous.send(f"{key}:who;0:0", HOST, np.array(description, object))
            if request.value is not None:
                rendezvous.send(f"{key}:value;0:0", HOST, request.value)

    def begin(self) -> None:
        """Pull the tensors of all other tasks' members, one at a time from each task."""
        for other in self._others:
            self._pull(other, 0)

    def end(self) -> None:
        """Stop pulling."""
        self._pulls.start_cancel()
        self._pulls.close()

    def _pull(self, other: End, number: int) -> None:
        """Pull the tensor of a member of another task, then the next, until all have arrived."""
        key = self._key(other, self._local_end.device, number)
        args = TransferArgs(None, True, self._pulls)

        def join(who: dict[str, Any], value: Any) -> None:
            request = replace(self._request, value=value, timeout=0.0, **who)
            self._collectives.join_remote(request, self._cancellation)
            if not self._pulls.is_cancelled:
                self._pull(other, number + 1)

        def on_description(text: Any, is_dead: bool, error: BaseException | None) -> None:
            if self._has_failed(is_dead, error):
                return
            who = json.loads(text.item())
            if not who.pop("has_value"):
                join(who, None)
                return
            self._collectives.rendezvous.recv_async(f"{key}:value;0:0", args, taken(who))

        def taken(who: dict[str, Any]) -> Any:
            def take(value: Any, is_dead: bool, error: BaseException | None) -> None:
                if not self._has_failed(is_dead, error):
                    join(who, value)

            return take

        self._collectives.rendezvous.recv_async(f"{key}:who;0:0", args, on_description)

    def _has_failed(self, is_dead: bool, error: BaseException | None) -> bool:
        """Return whether a pull has failed; if so, fail the waiting members."""
        if self._pulls.is_cancelled:
            return True
        if error is None and not is_dead:
            return False
        if not isinstance(error, OpError):
            error = InternalError(f"{self._request}: {error or 'a member of a task is dead'}")
        self._collectives.fail(self._request, error)
        return True

    def _key(self, source: End, target: str, number: int) -> str:
        group, instance, iteration = self._request.key
        edge = f"collective:{group}:{instance}:{iteration}:{number}".replace(";", "_")
        return RendezvousKey(source.device, source.incarnation, target, edge).prefix[:-1]


def _described(request: CollectiveRequest) -> dict[str, Any]:
    """Return the description of a member for other tasks, as JSON values."""
    return {
        "kind": request.kind,
        "group_size": request.group_size,
        "device": request.device,
        "node": request.node,
        "rank": request.rank,
        "agreed": request.agreed,
        "has_value": request.value is not None,
    }


def _first_of_tasks(ends: Iterable[End]) -> list[End]:
    first: dict[str, End] = {}
    for end in ends:
        first.setdefault(end.task, end)
    return list(first.values())


def _ignore_result(result: Any, error: OpError | None) -> None:
    """Ignore the result of a member of another task, which computes it itself."""
    del result, error
