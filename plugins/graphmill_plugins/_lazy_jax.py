"""Import JAX modules when one of their names is first used.

Kernels for JAX are looked at long before any runs: whether a node can be compiled is asked of them.
The import takes half a second, which must not be a first step's.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["jax", "jnp", "jsl", "jsp", "lax"]


class LazyModule:
    """Stands for a module; names that were used become attributes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # who looks for marks on what a module holds asks for these
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"<LazyModule {self._name!r}>"


jax: Any = LazyModule("jax")
jnp: Any = LazyModule("jax.numpy")
lax: Any = LazyModule("jax.lax")
jsp: Any = LazyModule("jax.scipy.special")
jsl: Any = LazyModule("jax.scipy.linalg")
