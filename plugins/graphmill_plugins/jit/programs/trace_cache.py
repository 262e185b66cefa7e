"""Limit the size of JAX's cache of traces.

Most functions of `jax.numpy` are jitted. JAX 0.10 stores the trace of each for every shape, without
a limit (`trace_to_jaxpr` in `jax._src.interpreters.partial_eval`): 10 kB for each small cluster
that is compiled for a new shape. In addition `_seen_qdds` in `jax._src.pjit` has an entry of 1 kB
for each function and shape. It lists the mutable JAX values that the function was traced with; our
functions have none. All other caches of JAX that compiling fills have limits.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Final

_MAX_TRACES: Final = 8192
_MODULE: Final = "jax._src.interpreters.partial_eval"
_PJIT: Final = "jax._src.pjit"


def bound_traces(limit: int = _MAX_TRACES) -> None:
    """Clear the trace cache if it has more than `limit` entries.

    Compiled programs are not affected. Nothing happens if this version of JAX has no such cache.
    """
    traces = _traces()
    if traces is not None and traces.cache_info().currsize > limit:
        traces.cache_clear()
        _forget_empty_notes()


def _forget_empty_notes() -> None:
    """Drop the records of functions traced without mutable values.

    JAX creates equal records when it traces the function again.
    """
    notes = getattr(importlib.import_module(_PJIT), "_seen_qdds", {})
    for by_type in list(notes.values()):
        for key, cases in list(by_type.items()):
            if not any(cases):
                by_type.pop(key, None)


@cache
def _traces() -> Any:
    """Return JAX's trace cache; None if this version has no inspectable one."""
    try:
        function = getattr(importlib.import_module(_MODULE), "trace_to_jaxpr", None)
    except ImportError:
        return None
    return (
        function if hasattr(function, "cache_info") and hasattr(function, "cache_clear") else None
    )
