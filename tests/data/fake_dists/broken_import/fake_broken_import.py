"""A plugin that needs something that is not installed."""

from __future__ import annotations

import there_is_no_such_module  # noqa: F401
