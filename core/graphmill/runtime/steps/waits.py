"""`Wait`: describe on request what a node waits for.

A kernel that waits registers with the cancellation of its step. One that registers through
`OpKernelContext.wait` also says what it waits for, by a function that is only called to answer a
question: for the error of a step that is cancelled while it waits, for `Session.waits`, or for a
line of progress. So a wait that ends by itself costs nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.errors import OpError
    from graphmill.runtime.kernels.op_kernel_context import OpKernelContext
    from graphmill.runtime.steps.cancellation import CancellationManager

_MAX_NAMED = 3


class WaitRecord(NamedTuple):
    """What a node waits for.

    Attributes:
        node, op: the node and its op type.
        device: full name of its device.
        what: what it waits for, such as "an element of FIFOQueue 'q' (0 elements, capacity 32)".
    """

    node: str
    op: str
    device: str
    what: str

    def __str__(self) -> str:
        return f"node '{self.node}' ({self.op}) waits for {self.what}"


class Wait:
    """The cancellation of a step, as seen by a kernel that waits for something.

    Args:
        ctx: the context of the kernel.
        describe: returns what it waits for; called in any thread, at any time while it waits, so it
            must take no lock that is held while a `done` is called.
    """

    __slots__ = ("_ctx", "_describe", "_manager")

    def __init__(self, ctx: OpKernelContext, describe: Callable[[], str]) -> None:
        self._ctx = ctx
        self._describe = describe
        self._manager: CancellationManager = ctx.args.cancellation_manager

    @property
    def is_cancelled(self) -> bool:
        """Whether the step has been cancelled."""
        return self._manager.is_cancelled

    @property
    def reason(self) -> OpError | None:
        """The error that cancelled the step, or None."""
        return self._manager.reason

    def register(self, callback: Callable[[], None]) -> int | None:
        """Register a callback for cancellation; return a token, or None if it is too late."""
        return self._manager.register(_OnCancel(callback, self))

    def deregister(self, token: int | None) -> bool:
        """Remove a callback; return False if it was called already or is being called."""
        return self._manager.deregister(token)

    def record(self) -> WaitRecord:
        """Return what the node waits for now."""
        ctx = self._ctx
        try:
            what = self._describe()
        except Exception as error:  # noqa: BLE001 - a plugin's code; it must not hide the question
            what = f"something that it cannot describe ({type(error).__name__}: {error})"
        if ctx.iteration_name:
            what += f" in iteration {ctx.iteration_name}"
        return WaitRecord(ctx.node_name, ctx.op, ctx.device.name, what)


class _OnCancel:
    """A callback with the wait that it ends."""

    __slots__ = ("_callback", "wait")

    def __init__(self, callback: Callable[[], None], wait: Wait) -> None:
        self._callback = callback
        self.wait = wait

    def __call__(self) -> None:
        self._callback()


def waits_text(waits: Sequence[WaitRecord]) -> str:
    """Return the first waits as one text; "" for none."""
    more = len(waits) - _MAX_NAMED
    text = "; ".join(map(str, waits[:_MAX_NAMED]))
    return f"{text}; {more} more nodes wait" if more > 0 else text


def add_waits(error: OpError, waits: Sequence[WaitRecord]) -> None:
    """Add to the error of a cancelled step what it waited for, and where.

    Args:
        error: the error, which is changed; it keeps the node that it names.
        waits: what the step waited for when it was cancelled; may be empty.
    """
    if not waits:
        return
    first = waits[0]
    text = waits_text(waits)
    if text not in error.message:
        error.message += f"; {text}"
    error.locate(node=first.node, op_type=first.op, device=first.device)
