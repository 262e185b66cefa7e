"""A plugin that logs slow steps."""

from __future__ import annotations

import logging

from graphmill.spi import hookimpl

SLOW = 0.5  # seconds


@hookimpl
def graphmill_step_finished(step, seconds, error):
    if seconds > SLOW and error is None:
        logging.getLogger(__name__).warning("step %d took %.1f s", step.step_id, seconds)
