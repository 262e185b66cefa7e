"""`QueuedRequest`: a request that waits for its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from graphmill.errors import OpError
    from graphmill_plugins.serving.models.served_signature import Arrays


class QueuedRequest:
    """A request that waits for its outputs.

    Args:
        inputs: its arrays by name.
        outputs: the names of the outputs to compute.
        arrived: when it was queued, by the clock of the event loop.
        future: completed with the outputs.

    Attributes:
        rows: the common first dimension of its inputs; 0 if it cannot be combined with others.
        key: requests with equal keys can be combined.
    """

    __slots__ = ("arrived", "future", "inputs", "key", "outputs", "rows")

    def __init__(
        self,
        inputs: Arrays,
        outputs: tuple[str, ...],
        arrived: float,
        future: asyncio.Future[Arrays],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.arrived = arrived
        self.future = future
        rows = {array.shape[0] if array.ndim else 0 for array in inputs.values()}
        self.rows = rows.pop() if len(rows) == 1 else 0
        self.key: Any = (
            outputs,
            tuple(
                (array.shape[1:] if self.rows else array.shape, array.dtype)
                for array in inputs.values()
            ),
        )

    def fail(self, error: OpError) -> None:
        """Complete the request with an error, unless it has been completed."""
        if not self.future.done():
            self.future.set_exception(error)
