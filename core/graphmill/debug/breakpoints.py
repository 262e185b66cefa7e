"""Conditions at which a debugger stops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from graphmill.debug.known_names import matches
from graphmill.debug.values import DEAD_VALUE

if TYPE_CHECKING:
    from graphmill.debug.recording import Event, Instance, Recording

ANY_NODE: Final = "*"


@dataclass(slots=True)
class Breakpoint:
    """A condition at which a debugger stops. This class stops before nodes.

    Attributes:
        pattern: the name of a node, or a pattern such as `encoder/*`.
        number: the number by which commands refer to it.
        num_hits: how often it has stopped the step.
    """

    pattern: str = ANY_NODE
    number: int = 0
    num_hits: int = 0

    def is_before(self, recording: Recording, instance: Instance, last: Instance | None) -> bool:
        """Return whether to stop before a node.

        Args:
            recording: what has happened.
            instance: the node that is next.
            last: the node that was processed before it.
        """
        del last
        return self.matches(recording, instance)

    def is_after(self, recording: Recording, event: Event) -> bool:
        """Return whether to stop after a node that is done."""
        del recording, event
        return False

    def matches(self, recording: Recording, instance: Instance) -> bool:
        """Return whether a node has a name that fits the pattern."""
        return matches(recording.name(instance), self.pattern)

    def __str__(self) -> str:
        return f"node {self.pattern}"


@dataclass(slots=True)
class NonFiniteBreakpoint(Breakpoint):
    """Stops after a node with a NaN or an infinity in an output."""

    def is_before(self, recording: Recording, instance: Instance, last: Instance | None) -> bool:
        """Return False: it stops after nodes."""
        del recording, instance, last
        return False

    def is_after(self, recording: Recording, event: Event) -> bool:
        """Return whether an output of a node of that name has a NaN or an infinity."""
        values = (recording.values[v] for v in event.outputs if v != DEAD_VALUE)
        return not all(value.is_finite for value in values) and self.matches(
            recording, event.instance
        )

    def __str__(self) -> str:
        return f"nan {self.pattern}"


@dataclass(slots=True)
class ShapeBreakpoint(Breakpoint):
    """Stops after a node with an output of a shape.

    Attributes:
        shape: the shape; None for a dimension of any size.
    """

    shape: tuple[int | None, ...] = ()

    def is_before(self, recording: Recording, instance: Instance, last: Instance | None) -> bool:
        """Return False: it stops after nodes."""
        del recording, instance, last
        return False

    def is_after(self, recording: Recording, event: Event) -> bool:
        """Return whether an output has the shape, and the node has the name."""
        return any(
            v != DEAD_VALUE and self._fits(recording.values[v].shape) for v in event.outputs
        ) and self.matches(recording, event.instance)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        return len(shape) == len(self.shape) and all(
            expected in (None, size) for expected, size in zip(self.shape, shape, strict=True)
        )

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"shape [{sizes}] {self.pattern}"


@dataclass(slots=True)
class IterationBreakpoint(Breakpoint):
    """Stops before the first node of an iteration of a loop.

    Attributes:
        pattern: the name of the frame, or of the node that loops over functions; or a pattern.
        iteration: the iteration.
    """

    iteration: int = 0

    def is_before(self, recording: Recording, instance: Instance, last: Instance | None) -> bool:
        """Return whether a node is in the iteration, and the one before it was not."""
        iterations = self._iterations(recording, instance)
        return bool(iterations) and (
            last is None or iterations != self._iterations(recording, last)
        )

    def _iterations(self, recording: Recording, instance: Instance) -> tuple[tuple[str, int], ...]:
        """Return the loops up to that of the breakpoint, if a node is in its iteration."""
        levels = recording.levels(instance)
        for depth, (name, number) in enumerate(levels):
            if number == self.iteration and matches(name, self.pattern):
                return levels[: depth + 1]
        return ()

    def __str__(self) -> str:
        return f"iteration {self.pattern} {self.iteration}"
