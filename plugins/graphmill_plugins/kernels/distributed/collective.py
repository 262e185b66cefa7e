"""Collectives whose group is given by attrs or inputs: reduce, gather, broadcast, all-to-all.

Semantics: tensorflow/core/kernels/collective_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import scalar_int, shape_text, to_ints
from graphmill_plugins.kernels.distributed._combine import (
    broadcast,
    exchange,
    gather,
    reduction,
    scattered_reduction,
)
from graphmill_plugins.kernels.distributed._member import Member, Membership

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

    Done = Callable[..., None]

_NET = ("net",)
_KEYS = ("group_size", "group_key", "instance_key")


def _membership_in_attrs(construction: OpKernelConstruction) -> Membership:
    """Return the group and collective that a node's attrs specify.

    Raises:
        InvalidArgumentError: the group size is not positive.
    """
    key, size, instance = map(construction.attr, ("group_key", "group_size", "instance_key"))
    if size < 1:
        raise InvalidArgumentError(f"group_size must be positive integer but got {size}")
    return Membership(key, size, instance)


def _membership_in_inputs(group_size: Value, group_key: Value, instance_key: Value) -> Membership:
    """Return the group and collective that a node's inputs specify.

    Raises:
        InvalidArgumentError: an input is not a scalar.
    """
    values = (group_key, group_size, instance_key)
    names = ("group_key", "group_size", "instance_key")
    key, size, instance = (
        scalar_int(name, value) for name, value in zip(names, values, strict=True)
    )
    return Membership(key, size, instance)


def _reduce(construction: OpKernelConstruction) -> Member:
    merge, final = construction.attr("merge_op"), construction.attr("final_op")
    return Member(construction, "Reduce", reduction(merge, final), merge_op=merge, final_op=final)


def _reduce_scatter(construction: OpKernelConstruction) -> Member:
    merge, final = construction.attr("merge_op"), construction.attr("final_op")
    combine = scattered_reduction(merge, final)
    return Member(construction, "ReduceScatter", combine, merge_op=merge, final_op=final)


def _gather(construction: OpKernelConstruction) -> Member:
    return Member(construction, "Gather", gather)


def _all_to_all(construction: OpKernelConstruction) -> Member:
    return Member(construction, "AllToAll", exchange)


_MEMBERS: dict[str, Callable[[OpKernelConstruction], Member]] = {
    "CollectiveReduce": _reduce,
    "CollectiveReduceV2": _reduce,
    "CollectiveReduceScatterV2": _reduce_scatter,
    "CollectiveGather": _gather,
    "CollectiveGatherV2": _gather,
    "CollectiveAllToAllV2": _all_to_all,
}


@kernel("CollectiveReduce", "CollectiveGather", async_=True, effects=_NET)
class CollectiveKernel:
    """Combine tensors with the other members of a group given by attrs."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._membership = _membership_in_attrs(construction)
        self._member = _MEMBERS[construction.op](construction)

    def __call__(self, ctx: OpKernelContext, input_: Value, done: Done) -> None:
        """Join the collective."""
        self._member.join(ctx, self._membership, input_, done)


@kernel(
    "CollectiveReduceV2",
    "CollectiveGatherV2",
    "CollectiveReduceScatterV2",
    "CollectiveAllToAllV2",
    async_=True,
    effects=_NET,
    host_memory=_KEYS,
)
class CollectiveV2Kernel:
    """Combine tensors with the other members of a group given by inputs."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._member = _MEMBERS[construction.op](construction)

    def __call__(
        self,
        ctx: OpKernelContext,
        input_: Value,
        group_size: Value,
        group_key: Value,
        instance_key: Value,
        ordering_token: Sequence[Any],
        done: Done,
    ) -> None:
        """Join the collective; the ordering token acts only as a dependency."""
        del ordering_token
        membership = _membership_in_inputs(group_size, group_key, instance_key)
        self._member.join(ctx, membership, input_, done)


@kernel("CollectiveBcastSend", async_=True, effects=_NET)
class BcastSend:
    """Send a tensor to the other members of a group given by attrs."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._membership = _membership_in_attrs(construction)
        self._shape: tuple[int, ...] = construction.attr("shape")
        self._member = Member(construction, "Broadcast", broadcast)

    def __call__(self, ctx: OpKernelContext, input_: Value, done: Done) -> None:
        """Join the broadcast."""
        if tuple(input_.shape) != tuple(self._shape):
            raise InvalidArgumentError(
                f"Declared shape of op {ctx.node_name} {shape_text(self._shape)} does not match "
                f"shape of input {shape_text(input_.shape)}"
            )
        self._member.join(ctx, self._membership, input_, done)


@kernel("CollectiveBcastRecv", async_=True, effects=_NET)
class BcastRecv:
    """Receive a tensor from a member of a group given by attrs."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._membership = _membership_in_attrs(construction)
        self._expected = np.dtype(construction.attr("T")), tuple(construction.attr("shape"))
        self._member = Member(construction, "Broadcast", broadcast)

    def __call__(self, ctx: OpKernelContext, done: Done) -> None:
        """Join the broadcast."""
        self._member.join(ctx, self._membership, None, done, self._expected)


@kernel("CollectiveBcastSendV2", async_=True, effects=_NET, host_memory=_KEYS)
class BcastSendV2:
    """Send a tensor to the other members of a group given by inputs."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._member = Member(construction, "Broadcast", broadcast)

    def __call__(
        self,
        ctx: OpKernelContext,
        input_: Value,
        group_size: Value,
        group_key: Value,
        instance_key: Value,
        done: Done,
    ) -> None:
        """Join the broadcast."""
        membership = _membership_in_inputs(group_size, group_key, instance_key)
        self._member.join(ctx, membership, input_, done)


@kernel("CollectiveBcastRecvV2", async_=True, effects=_NET, host_memory=(*_KEYS, "shape"))
class BcastRecvV2:
    """Receive a tensor from a member of a group given by inputs."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype = np.dtype(construction.attr("T"))
        self._member = Member(construction, "Broadcast", broadcast)

    def __call__(
        self,
        ctx: OpKernelContext,
        group_size: Value,
        group_key: Value,
        instance_key: Value,
        shape: Value,
        done: Done,
    ) -> None:
        """Join the broadcast."""
        membership = _membership_in_inputs(group_size, group_key, instance_key)
        self._member.join(ctx, membership, None, done, (self._dtype, to_ints(shape)))
