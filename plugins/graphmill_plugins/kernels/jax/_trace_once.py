"""`trace_once`: trace and lower a part of a kernel once for all equal calls in a program."""

from __future__ import annotations

from functools import cache, wraps
from typing import TYPE_CHECKING, TypeVar

from graphmill_plugins._lazy_jax import jax

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_F = TypeVar("_F", bound="Callable[..., Value]")


def trace_once(*static: str) -> Callable[[_F], _F]:
    """Return a decorator for a function of traced arrays that many nodes of a network call.

    JAX traces the function once for each combination of shapes, dtypes and static arguments, and a
    program contains it once, as a function that its nodes call; XLA inlines the calls. To JAX, an
    argument passed by position differs from one passed by name. What the function computes from
    weights alone is not moved out of the program.

    Args:
        static: the names of the parameters that are no arrays; their values must be hashable.
    """

    def decorate(function: _F) -> _F:
        @cache  # JAX is imported when a kernel is first traced
        def jitted() -> _F:
            traced: _F = jax.jit(function, static_argnames=static)
            return traced

        @wraps(function)
        def call(*args: object, **kwargs: object) -> Value:
            return jitted()(*args, **kwargs)

        return call  # type: ignore[return-value]  # of the same signature

    return decorate
