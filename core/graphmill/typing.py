"""Type aliases that several layers share."""

from __future__ import annotations

from typing import Any, TypeAlias

Shape: TypeAlias = tuple[int, ...] | None
"""A static shape: dimension sizes, -1 if unknown; None if the rank is unknown."""

Value: TypeAlias = Any
"""A tensor at run time: a NumPy array or scalar, a device's array, or a handle object."""

ArrayNamespace: TypeAlias = Any
"""A module with the array API that kernels are written for: `numpy`, `jax.numpy`, …"""
