"""`TaskCollectives`: the collectives of a step whose members are on several tasks.

Each task gives what its members bring to the other tasks through the step's rendezvous, and pulls
what theirs bring; then each combines all of it by itself, in the order of ranks, so that all get
the same bits. What applies to tensors between tasks applies to these, too: shared memory, pieces,
cancellation, errors of other tasks, restarted devices. Which devices can be members the master has
written into the attr `COLLECTIVE_MEMBERS_ATTR` of each node that communicates.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.errors import InternalError, OpError
from graphmill.ops.definition.effects import effects_of
from graphmill.runtime.collectives import (
    COLLECTIVE_MEMBERS_ATTR,
    CollectiveRequest,
    LocalCollectives,
)
from graphmill.runtime.rendezvous import HOST, RendezvousKey, TransferArgs
from graphmill.runtime.steps.cancellation import CancellationManager

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.runtime.collectives import Done
    from graphmill.runtime.devices.device import DeviceAttributes
    from graphmill.runtime.rendezvous import Rendezvous


def note_members(graph: Graph, devices: Iterable[DeviceAttributes]) -> None:
    """Write into each node that communicates on which devices others do.

    Such an op is distributed (`OpDef.is_distributed_communication`) and has the effect `net`.

    Args:
        graph: the graph of a step, placed and whole.
        devices: those of all tasks.
    """
    nodes = [
        node
        for node in graph.nodes
        if node.op_def.is_distributed and "net" in effects_of(node.op_def)
    ]
    used = {node.assigned_device for node in nodes}
    ends = [End(one.name, one.incarnation) for one in devices if one.name in used]
    members = tuple(str(end).encode() for end in sorted(ends))
    for node in nodes:
        graph.set_attr(node, COLLECTIVE_MEMBERS_ATTR, members)


class End(NamedTuple):
    """A device that can be a member, in one of its lives."""

    device: str
    incarnation: int

    @property
    def task(self) -> str:
        """The name of its task."""
        return self.device.partition("/device:")[0]

    def __str__(self) -> str:
        return f"{self.device};{self.incarnation:016x}"

    @classmethod
    def parse(cls, text: str) -> End:
        """Return the end that `str` spelled so."""
        device, _, incarnation = text.partition(";")
        return cls(device, int(incarnation, 16))


class TaskCollectives(LocalCollectives):
    """The collectives of one step on one task.

    An instance of a group is used once in a step, or once in each round of the loops around it.

    Args:
        rendezvous: the step's.
        own: names of the devices of this task.
        num_devices: on how many of them the step runs.

    Threads: as `LocalCollectives`.
    """

    def __init__(self, rendezvous: Rendezvous, own: Container[str], num_devices: int) -> None:
        super().__init__(num_devices)
        self._rendezvous = rendezvous
        self._own = own
        self._exchanges: dict[Hashable, _Exchange] = {}

    def execute_async(
        self, request: CollectiveRequest, cancellation: CancellationManager, done: Done
    ) -> None:
        """Join the members that are there, on this task and on others."""
        ends = [End.parse(text) for text in request.members]
        others = _first_of_tasks(end for end in ends if end.device not in self._own)
        if not others or request.group_size > len(ends):
            super().execute_async(request, cancellation, done)
            return
        here = next(end for end in ends if end.device in self._own)
        request = replace(request, agreed={k: str(v) for k, v in request.agreed.items()})
        with self._lock:
            exchange = self._exchanges.get(request.key)
            is_first = exchange is None
            if exchange is None:
                exchange = self._exchanges[request.key] = _Exchange(
                    self, request, here, others, cancellation
                )
            number = exchange.num_own
            exchange.num_own += 1

        def leave(result: Any, error: OpError | None) -> None:
            exchange.end()
            done(result, error)

        exchange.give(request, number)
        super().execute_async(request, cancellation, leave)
        if is_first:
            exchange.begin()

    def join_from_afar(self, request: CollectiveRequest, cancellation: CancellationManager) -> None:
        """Let a member of another task join those that wait here, if any does."""
        with self._lock:
            is_awaited = request.key in self._meetings
        if is_awaited:
            super().execute_async(request, cancellation, _nobody)

    def fail(self, request: CollectiveRequest, error: OpError) -> None:
        """Fail the members that wait here, as others cannot come."""
        with self._lock:
            meeting = self._meetings.get(request.key)
        if meeting is not None:
            self._abort(meeting, None, error)

    @property
    def rendezvous(self) -> Rendezvous:
        """The step's rendezvous."""
        return self._rendezvous


class _Exchange:
    """What the members of one collective give to other tasks, and pull from them.

    Args:
        collectives: where members meet.
        request: of the first member on this task.
        here: the device in whose name this task gives and pulls.
        others: the same of the other tasks.
        cancellation: of the step.

    Attributes:
        num_own: how many members of this task have come.
    """

    def __init__(
        self,
        collectives: TaskCollectives,
        request: CollectiveRequest,
        here: End,
        others: Sequence[End],
        cancellation: CancellationManager,
    ) -> None:
        self.num_own = 0
        self._collectives = collectives
        self._request = request
        self._here = here
        self._others = others
        self._cancellation = cancellation
        self._pulls = CancellationManager(cancellation)

    def give(self, request: CollectiveRequest, number: int) -> None:
        """Let other tasks pull what a member brings."""
        rendezvous = self._collectives.rendezvous
        told = json.dumps(_described(request)).encode()
        for other in self._others:
            key = self._key(self._here, other.device, number)
            rendezvous.send(f"{key}:who;0:0", HOST, np.array(told, object))
            if request.value is not None:
                rendezvous.send(f"{key}:value;0:0", HOST, request.value)

    def begin(self) -> None:
        """Pull the members of all other tasks, one after the other of each."""
        for other in self._others:
            self._pull(other, 0)

    def end(self) -> None:
        """Pull no more."""
        self._pulls.start_cancel()
        self._pulls.close()

    def _pull(self, other: End, number: int) -> None:
        """Pull a member of another task, and then the next one, until all have come."""
        key = self._key(other, self._here.device, number)
        args = TransferArgs(None, True, self._pulls)

        def join(who: dict[str, Any], value: Any) -> None:
            request = replace(self._request, value=value, timeout=0.0, **who)
            self._collectives.join_from_afar(request, self._cancellation)
            if not self._pulls.is_cancelled:
                self._pull(other, number + 1)

        def told(text: Any, is_dead: bool, error: BaseException | None) -> None:
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

        self._collectives.rendezvous.recv_async(f"{key}:who;0:0", args, told)

    def _has_failed(self, is_dead: bool, error: BaseException | None) -> bool:
        """Return whether a pull gave nothing; tell the members, unless they have left."""
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
    """Return what other tasks must know of a member, as JSON can hold it."""
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
    found: dict[str, End] = {}
    for end in ends:
        found.setdefault(end.task, end)
    return list(found.values())


def _nobody(result: Any, error: OpError | None) -> None:
    """Take the result of a member that is on another task, which makes it by itself."""
    del result, error
