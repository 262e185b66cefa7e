"""Import JAX modules when one of their names is first used.

Kernels for JAX are inspected long before any of them runs, to decide whether a node can be
compiled. Importing JAX takes half a second, which must not delay the first step.
"""

from __future__ import annotations

from typing import Any

__all__ = ["jax", "jnp", "jsl", "jsp", "lax"]


class LazyModule:
    """A proxy for a module; each name becomes an attribute when it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # tools that inspect objects must not trigger the import
        from graphmill_plugins._optional import import_optional  # needed once

        value = getattr(import_optional(self._name), name)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"<LazyModule {self._name!r}>"


jax: Any = LazyModule("jax")
jnp: Any = LazyModule("jax.numpy")
lax: Any = LazyModule("jax.lax")
jsp: Any = LazyModule("jax.scipy.special")
jsl: Any = LazyModule("jax.scipy.linalg")
