"""Type aliases and protocols that several floors share."""

from __future__ import annotations

from typing import Any, TypeAlias

Shape: TypeAlias = tuple[int, ...] | None
"""A static shape: sizes with -1 where one is unknown; None where the rank is unknown."""

Value: TypeAlias = Any
"""A tensor at run time: NumPy array or scalar, an array of a device, or a handle object."""

ArrayNamespace: TypeAlias = Any
"""A module with the array API that kernels are written over: `numpy`, `jax.numpy`, …"""
