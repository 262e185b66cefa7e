"""Compile a program, and detect hits in JAX's own persistent cache.

XLA cannot serialize a CPU program completely if the program was itself deserialized. A program that
JAX loaded from its folder (`jax_compilation_cache_dir`) can be serialized again without an error,
but the result, when loaded, computes wrong values or does not find its functions.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import jax
import jax.monitoring

if TYPE_CHECKING:
    from collections.abc import Mapping

_HIT: Final = "/jax/compilation_cache/cache_hits"


class _Hits(threading.local):
    """Counts this thread's cache hits; JAX records them in the thread that compiles."""

    count = 0


_hits = _Hits()


def compile_with_cache_hit(lowered: Any, options: Mapping[str, Any]) -> tuple[Any, bool]:
    """Compile a program; return it, and whether it came from JAX's cache.

    Raises:
        jax.errors.JaxRuntimeError: XLA cannot compile it.
    """
    if jax.config.jax_compilation_cache_dir:
        _listen()
    before = _hits.count
    call = lowered.compile(compiler_options=dict(options))
    return call, _hits.count > before


@cache
def _listen() -> None:
    """Start counting hits; JAX does not report the origin of a single program."""
    jax.monitoring.register_event_listener(_count)


def _count(event: str, **_: object) -> None:
    if event == _HIT:
        _hits.count += 1
