"""Step ids, unique in the process, so that logs distinguish the steps of all sessions."""

from __future__ import annotations

import itertools

_ids = itertools.count(1)


def next_step_id() -> int:
    """Return the id of a new step; atomic, so it takes no lock."""
    return next(_ids)
