"""`Comparison`: what was compared, and what differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from graphmill.explain.plain import as_plain

if TYPE_CHECKING:
    from graphmill.comparison.differences import TensorDifference

NUM_WORST: Final = 10


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison of two runs.

    Attributes:
        outputs: the difference of each fetch; empty if nodes are compared one by one.
        tensors: the differences of the tensors on the way to the fetches, in the order in which
            they are computed; those that are equal are left out. Empty if the fetches agree.
        num_compared: the number of tensors on the way that were compared.
        skipped: tensors that were not compared, each with the reason.
        path: the tensors from the first one outside of the tolerance to a fetch, or to the last
            one on the way that is outside, too.
        notes: sentences about the comparison as a whole.
    """

    outputs: tuple[TensorDifference, ...]
    tensors: tuple[TensorDifference, ...] = ()
    num_compared: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether all fetches are within the tolerance; without fetches, all tensors."""
        return not any(difference.is_outside for difference in self.outputs or self.tensors)

    @property
    def first(self) -> TensorDifference | None:
        """The first intermediate tensor that is outside of the tolerance; None if there is none."""
        return next((difference for difference in self.tensors if difference.is_outside), None)

    @property
    def worst(self) -> tuple[TensorDifference, ...]:
        """The ten intermediate tensors with the largest difference in units in the last place."""
        ordered = sorted(self.tensors, key=_size, reverse=True)
        return tuple(ordered[:NUM_WORST])

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        plain: dict[str, Any] = as_plain(self)
        first = self.first
        return {
            "agrees": self.agrees,
            **plain,
            "first": None if first is None else first.tensor,
            "worst": [difference.tensor for difference in self.worst],
        }

    def __str__(self) -> str:
        lines = [*map(str, self.outputs)]
        if self.first is not None:
            lines += [f"first: {self.first}", "path: " + " -> ".join(self.path)]
        lines += [f"worst: {difference}" for difference in self.worst]
        if self.skipped:
            lines.append(f"{len(self.skipped)} tensors were not compared")
        return "\n".join((*lines, *self.notes))


def _size(difference: TensorDifference) -> float:
    return float("inf") if difference.reason else difference.max_ulps
