"""Hooks that feed, wait, and run ops at the end: `FeedFnHook`, `GlobalStepWaiterHook` and others.

Semantics: tensorflow/python/training/basic_session_run_hooks.py.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from graphmill.train.hooks import find_global_step
from graphmill.train.session_run_hook import SessionRunArgs, SessionRunHook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill.session.session import Session
    from graphmill.train.session_run_hook import SessionRunContext

_logger = logging.getLogger(__name__)


class FeedFnHook(SessionRunHook):
    """Feeds the values that a function returns to each step.

    Args:
        feed_fn: returns the feeds by tensor, without arguments.
    """

    def __init__(self, feed_fn: Callable[[], Mapping[Any, Any]]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Add the feeds."""
        del run_context
        return SessionRunArgs(feed_dict=self.feed_fn())


class FinalOpsHook(SessionRunHook):
    """Runs ops at the end of training.

    Args:
        final_ops: fetches in any structure.
        final_ops_feed_dict: their feeds.

    Attributes:
        final_ops_values: the values at the end; None before.
    """

    def __init__(
        self, final_ops: Any, final_ops_feed_dict: Mapping[Any, Any] | None = None
    ) -> None:
        self._fetches, self._feeds = final_ops, final_ops_feed_dict
        self.final_ops_values: Any = None

    def end(self, session: Session) -> None:
        """Run the ops.

        Raises:
            OpError: a step failed; OutOfRangeError if the ops read input, which is at its end.
        """
        if self._fetches is not None:
            self.final_ops_values = session.run(self._fetches, self._feeds)


class GlobalStepWaiterHook(SessionRunHook):
    """Waits before the first step of a worker until the chief has run some steps.

    Args:
        wait_until_step: the global step to wait for.
        poll_secs: the number of seconds between two reads of the global step.
    """

    def __init__(self, wait_until_step: int, *, poll_secs: float = 0.5) -> None:
        self._wait_until_step, self._poll_secs = wait_until_step, poll_secs
        self._between_reads = threading.Event()
        self._has_started = False

    def begin(self) -> None:
        """Find the global step."""
        self._global_step = find_global_step("GlobalStepWaiterHook")

    def before_run(self, run_context: SessionRunContext) -> None:
        """Wait before the first step."""
        if self._has_started:
            return
        if self._wait_until_step > 0:
            _logger.info("waiting for global step %d", self._wait_until_step)
            while int(run_context.session.run(self._global_step)) < self._wait_until_step:
                self._between_reads.wait(self._poll_secs)
        self._has_started = True
