"""Set environment variables during a block, for a library that reads them when it starts."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphmill.runtime.process.effects import ProcessEffect


@contextmanager
def variables_set(effect: ProcessEffect, values: Mapping[str, str]) -> Iterator[None]:
    """Set variables, and restore them afterwards; do nothing if the effect is switched off."""
    if not effect.is_enabled:
        yield
        return
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
