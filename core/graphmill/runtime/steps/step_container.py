"""`StepContainer`: the resource container of one step, cleared at its end (clause S10)."""

from __future__ import annotations


class StepContainer:
    """Names a step's container, and records whether it was used: most steps use none.

    Attributes:
        step_id: id of the step.
        is_used: whether `name` was read.
    """

    __slots__ = ("is_used", "step_id")

    def __init__(self, step_id: int) -> None:
        self.step_id = step_id
        self.is_used = False

    @property
    def name(self) -> str:
        """The container's name; reading it causes the container to be cleared after the step."""
        self.is_used = True
        return f"__per_step_{self.step_id}"
