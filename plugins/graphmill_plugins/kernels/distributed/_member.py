"""The membership of a node in a collective: build its request, and return the result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi.kernels import COLLECTIVE_MEMBERS_ATTR, CollectiveRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

    Done = Callable[..., None]
    Combine = Callable[[Sequence[CollectiveRequest]], Sequence[Any]]

# Each member may be in a loop of its own, and their names differ: only iteration numbers are
# compared.
_ITERATIONS: Final = re.compile(r":(\d+)(?=/|$)")


@dataclass(frozen=True, slots=True)
class Membership:
    """The identity of a collective and of one of its members.

    Attributes:
        group_key, group_size: the key and size of the group.
        instance_key: the key of the collective within the group.
        rank: the rank in the group; None to rank members by device.
    """

    group_key: Hashable
    group_size: int
    instance_key: Hashable
    rank: int | None = None


class Member:
    """The common part of collective ops: the reduction and the timeout.

    Args:
        construction: the construction of the node's kernel.
        kind: the name of the collective in messages; both ends of a broadcast use the same.
        combine: computes the results.
        agreed: values besides dtype and shape on which all members must agree.
    """

    def __init__(
        self, construction: OpKernelConstruction, kind: str, combine: Combine, **agreed: Any
    ) -> None:
        self._kind = kind
        self._combine = combine
        self._agreed = agreed
        self._timeout = float(construction.attr("timeout_seconds"))
        members = construction.attrs.get(COLLECTIVE_MEMBERS_ATTR, ())
        self._members = tuple(member.decode() for member in members)

    def join(
        self,
        ctx: OpKernelContext,
        membership: Membership,
        value: Value | None,
        done: Done,
        expected: tuple[np.dtype[Any], tuple[int, ...]] | None = None,
    ) -> None:
        """Join a collective.

        Args:
            ctx: the context of the call.
            membership: the identity of the collective and the member.
            value: the member's tensor; None if it only receives.
            done: called with the result, on the node's device, or with the error.
            expected: dtype and shape of the received tensor.
        """
        device = ctx.device
        if value is not None:
            value = np.asarray(value if device.is_host_memory else device.to_host(value))
            expected = value.dtype, value.shape
        agreed = dict(self._agreed)
        if expected is not None:
            agreed["dtype"], agreed["shape"] = expected[0], list(expected[1])
        request = CollectiveRequest(
            self._kind,
            membership.group_key,
            membership.group_size,
            membership.instance_key,
            "/".join(_ITERATIONS.findall(ctx.iteration_name)),
            device.name,
            ctx.node_name,
            value,
            agreed,
            self._combine,
            membership.rank,
            self._timeout,
            self._members,
        )

        def received(result: Any, error: Any) -> None:
            if error is not None or device.is_host_memory or result is None:
                done(result, error)
            else:
                done(device.to_device(result), None)

        wait = ctx.wait(lambda: f"the other members of {request}")
        ctx.collectives.execute_async(request, wait, received)
