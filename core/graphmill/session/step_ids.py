"""Numbers of steps, unique in the process: observers and logs tell steps of all sessions apart."""

from __future__ import annotations

import itertools

_numbers = itertools.count(1)


def next_step_id() -> int:
    """Return the number of a new step; atomic, so it takes no lock."""
    return next(_numbers)
