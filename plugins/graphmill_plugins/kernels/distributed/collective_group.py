"""Collective groups as values: CollectiveAssignGroupV2, communicators, their collectives.

Semantics: tensorflow/core/kernels/collective_ops.cc.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import ResourceHandle, kernel
from graphmill_plugins.kernels._support import scalar_int
from graphmill_plugins.kernels.distributed._combine import exchange, reduction
from graphmill_plugins.kernels.distributed._member import Member, Membership

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill.spi.kernels import CollectiveRequest

    Done = Callable[..., None]

_NET = ("net",)


class Communicator:
    """A member's handle of an initialized group.

    Attributes:
        group_key, group_size, rank: the group, and the member's rank in it.
        numbers: a counter of its collectives. Members that run collectives in the same order get
            the same numbers.
    """

    def __init__(self, group_key: int, group_size: int, rank: int) -> None:
        self.group_key, self.group_size, self.rank = group_key, group_size, rank
        self.numbers = itertools.count()


@kernel(
    "CollectiveAssignGroupV2",
    stateful=True,
    effects=_NET,
    host_memory=("group_assignment", "device_index", "base_key", "group_size", "group_key"),
)
def collective_assign_group(
    ctx: OpKernelContext, group_assignment: Value, device_index: Value, base_key: Value
) -> tuple[Value, Value]:
    """Return the size and key of a device's group; each row of the matrix lists one group."""
    del ctx
    if group_assignment.ndim != 2:
        raise InvalidArgumentError(
            "group_assignment must be a matrix with a group in each row, got shape "
            f"{list(group_assignment.shape)}"
        )
    index, base = scalar_int("device_index", device_index), scalar_int("base_key", base_key)
    rows = np.flatnonzero((group_assignment == index).any(axis=1))
    if not len(rows):
        raise InvalidArgumentError(f"device_index {index} is not found in group_assignment")
    key = base + int(rows[0])
    if key == 0:
        raise InvalidArgumentError(
            f"Using the reserved group_key = 0 is not allowed: group_id = {rows[0]}, "
            f"base_key = {base}"
        )
    return np.int32(group_assignment.shape[1]), np.int32(key)


@kernel(
    "CollectiveInitializeCommunicator",
    async_=True,
    effects=("net", "state"),
    host_memory=("group_key", "rank", "group_size"),
)
class InitializeCommunicator:
    """Wait for all members of a group; return the member's communicator."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._member = Member(construction, "InitializeCommunicator", _check_ranks)

    def __call__(
        self, ctx: OpKernelContext, group_key: Value, rank: Value, group_size: Value, done: Done
    ) -> None:
        """Join the group."""
        key, own_rank = scalar_int("group_key", group_key), scalar_int("rank", rank)
        size = scalar_int("group_size", group_size)
        communicator = Communicator(key, size, own_rank)
        handle = ResourceHandle(ctx.device.name, "", ctx.node_name, "Communicator", communicator)

        def joined(_: Any, error: Any = None) -> None:
            done(None if error is not None else handle, error)

        self._member.join(ctx, Membership(key, size, "communicator", own_rank), None, joined)


def _check_ranks(requests: Sequence[CollectiveRequest]) -> list[None]:
    ranks = [request.rank for request in requests]
    if ranks != list(range(len(ranks))):
        raise InvalidArgumentError(
            f"{requests[0]}: the members have ranks {ranks}; expected each of "
            f"0 to {len(ranks) - 1} once"
        )
    return [None] * len(ranks)


def _reduce(construction: OpKernelConstruction) -> Member:
    merge = construction.attr("reduction")
    return Member(construction, "Reduce", reduction(merge, "Id"), reduction=merge)


def _all_to_all(construction: OpKernelConstruction) -> Member:
    return Member(construction, "AllToAll", exchange)


_MEMBERS: dict[str, Callable[[OpKernelConstruction], Member]] = {
    "CollectiveReduceV3": _reduce,
    "CollectiveAllToAllV3": _all_to_all,
}


@kernel(
    "CollectiveReduceV3",
    "CollectiveAllToAllV3",
    async_=True,
    effects=_NET,
    host_memory=("group_assignment",),
)
class CollectiveV3Kernel:
    """Combine tensors with the other members of a communicator."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._member = _MEMBERS[construction.op](construction)

    def __call__(
        self,
        ctx: OpKernelContext,
        input_: Value,
        communicator: Any,
        group_assignment: Value,
        done: Done,
    ) -> None:
        """Join the next collective of the communicator."""
        if group_assignment.size:
            raise UnimplementedError(
                "Group assignments are not supported yet; pass an empty group_assignment, and "
                "create a communicator for each group"
            )
        group: Communicator = communicator.expect(Communicator)
        instance = ("of communicator", next(group.numbers))
        membership = Membership(group.group_key, group.group_size, instance, group.rank)
        self._member.join(ctx, membership, input_, done)
