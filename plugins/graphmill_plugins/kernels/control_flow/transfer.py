"""Send and receive kernels: transfer a tensor, dead or alive, between devices.

Semantics: tensorflow/core/kernels/sendrecv_ops.cc. An executor runs them even if their inputs are
dead: the sender then gets `DEAD` as its input, and the receiver returns `DEAD`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import errors
from graphmill.spi import DEAD, RendezvousKey, TransferArgs, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

_HOST_OPS = frozenset({"_HostSend", "_HostRecv"})


class _Transfer:
    """The common part of both ends: the rendezvous key and the device."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self.prefix = RendezvousKey(
            construction.attr("send_device"),
            construction.attr("send_device_incarnation") & (1 << 64) - 1,
            construction.attr("recv_device"),
            construction.attr("tensor_name"),
        ).prefix
        self.device = device = construction.device
        self.on_host = device is None or device.is_host_memory or construction.op in _HOST_OPS
        self.args = TransferArgs(device, self.on_host)
        self.is_fed = bool(construction.attr("client_terminated"))

    def key(self, ctx: OpKernelContext) -> str:
        """Return the key for the current iteration."""
        return self.prefix + ctx.frame_iteration


def _rendezvous(ctx: OpKernelContext) -> Any:
    rendezvous = ctx.rendezvous
    if rendezvous is None:
        raise errors.InternalError(
            f"Op kernel context needs to provide a rendezvous for {ctx.op}: the step runs on one "
            f"device, so there is no peer"
        )
    return rendezvous


@kernel("_Send", "Send", stateful=True)
@kernel("_HostSend", stateful=True, host_memory=("tensor",))
class Send(_Transfer):
    """Send a value, dead or alive."""

    def __call__(self, ctx: OpKernelContext, value: Value) -> None:
        """Put the value into the rendezvous; the receiver copies it to its device."""
        is_dead = value is DEAD
        _rendezvous(ctx).send(self.key(ctx), self.args, None if is_dead else value, is_dead)


@kernel("_CopyToHost", stateful=True, host_memory=("output",))
def copy_to_host(ctx: OpKernelContext, value: Value) -> Value:
    """Copy a value of the node's device to host memory."""
    return ctx.device.to_host(value)


@kernel("_CopyToDevice", stateful=True, host_memory=("input",))
def copy_to_device(ctx: OpKernelContext, value: Value) -> Value:
    """Copy a value in host memory to the node's device."""
    return ctx.device.to_device(value)


@kernel("_Recv", "Recv", async_=True)
@kernel("_HostRecv", async_=True, host_memory=("tensor",))
class Recv(_Transfer):
    """Receive a value, or `DEAD`."""

    def __call__(self, ctx: OpKernelContext, *, done: Callable[..., None]) -> None:
        """Call `done` when the value arrives."""

        def received(value: Value, is_dead: bool, error: BaseException | None) -> None:
            done(DEAD if is_dead else value, error)

        cancellation, kernel = ctx.cancellation, ctx.kernel
        node = kernel.node_name, kernel.op
        args = TransferArgs(self.device, self.on_host, cancellation, *node, self.is_fed)
        _rendezvous(ctx).recv_async(self.key(ctx), args, received)
