"""`CheckpointSaverListener`: callbacks around the checkpoints of a `CheckpointSaverHook`.

Semantics: tensorflow/python/training/basic_session_run_hooks.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.session.session import Session


class CheckpointSaverListener:
    """Callbacks around each checkpoint; no-ops by default.

    Threads: called in the thread that calls the session.
    """

    def begin(self) -> None:
        """Change the graph; called once, before the first session is created."""

    def before_save(self, session: Session, global_step_value: int) -> None:
        """Prepare for a checkpoint that is about to be written."""
        del session, global_step_value

    def after_save(self, session: Session, global_step_value: int) -> bool | None:
        """Process a checkpoint that was written; return True to stop training."""
        del session, global_step_value
        return None

    def end(self, session: Session, global_step_value: int) -> None:
        """Handle the end of training; not called when a step failed."""
        del session, global_step_value
