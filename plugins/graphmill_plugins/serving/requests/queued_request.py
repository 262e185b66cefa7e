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

    Attributes:
        future: completed with the outputs; created by `wait_in`.
        rows: the common first dimension of its inputs; 0 if it cannot be combined with others.
        key: requests with equal keys can be combined.
    """

    __slots__ = ("arrived", "future", "inputs", "key", "outputs", "rows")

    def __init__(
        self,
        inputs: Arrays,
        outputs: tuple[str, ...],
        arrived: float,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.arrived = arrived
        self.future: asyncio.Future[Arrays]
        shapes = [array.shape for array in inputs.values()]
        sizes = [shape[:1] for shape in shapes]
        is_common = shapes and shapes[0] and sizes.count(sizes[0]) == len(sizes)
        self.rows: int = sizes[0][0] if is_common else 0
        if self.rows:
            shapes = [shape[1:] for shape in shapes]
        self.key: Any = (outputs, *shapes, *[array.dtype for array in inputs.values()])

    def wait_in(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Arrays]:
        """Create the future, and return it."""
        self.future = loop.create_future()
        return self.future

    def fail(self, error: OpError) -> None:
        """Complete the request with an error, unless it has been completed."""
        if not self.future.done():
            self.future.set_exception(error)
