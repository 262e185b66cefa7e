"""Scatter ops with PyTorch's `index_put`.

Semantics: `tensorflow/core/kernels/scatter_nd_op.cc`.
"""

from __future__ import annotations

from typing import Any

import torch

from graphmill.spi import errors, kernel
from graphmill_torch.kernels.elementwise import FLOATS

_T = {"T": FLOATS}


@kernel("ScatterNd", backend="torch", types=_T, static=("shape",))
def scatter_nd(xp: Any, indices: Any, updates: Any, shape: Any, *, bad_indices_policy: str) -> Any:
    """Add updates to a tensor of zeros."""
    del xp
    if shape.ndim != 1:
        raise errors.InvalidArgumentError(f"shape must be a vector, not {tuple(shape.shape)}")
    zeros = updates.new_zeros(tuple(int(size) for size in shape))
    return _put(zeros, indices, updates, bad_indices_policy, accumulate=True)


@kernel("TensorScatterUpdate", backend="torch", types=_T)
def tensor_scatter_update(
    xp: Any, tensor: Any, indices: Any, updates: Any, *, bad_indices_policy: str
) -> Any:
    """Assign updates in a copy of the tensor."""
    del xp
    return _put(tensor.clone(), indices, updates, bad_indices_policy, accumulate=False)


def _put(target: Any, indices: Any, updates: Any, policy: str, *, accumulate: bool) -> Any:
    if policy not in ("", "DEFAULT", "ERROR", "IGNORE"):
        raise errors.InvalidArgumentError(f"Bad indices policy {policy!r} is unknown")
    depth = indices.shape[-1] if indices.ndim else 0
    if indices.ndim < 2 or depth > target.ndim:
        raise errors.InvalidArgumentError(
            f"indices of shape {tuple(indices.shape)} do not fit a tensor of {tuple(target.shape)}"
        )
    expected = (*indices.shape[:-1], *target.shape[depth:])
    if tuple(updates.shape) != expected:
        raise errors.InvalidArgumentError(
            f"Must have updates.shape = indices.shape[:batch_dim] + shape[num_index_dims:], got "
            f"updates.shape: {tuple(updates.shape)}, expected {expected}"
        )
    if updates.numel() and not indices.numel():
        raise errors.InvalidArgumentError(
            f"Updates of shape {tuple(updates.shape)} have elements, but indices of shape "
            f"{tuple(indices.shape)} are empty"
        )
    where = indices.to(torch.int64)
    limits = torch.tensor(target.shape[:depth], device=where.device)
    is_bad = ((where < 0) | (where >= limits)).any(-1)
    if policy == "IGNORE":
        where, updates = where[~is_bad], updates[~is_bad]
    elif bool(is_bad.any()):
        raise errors.InvalidArgumentError(
            f"indices are out of bounds: they must lie in {tuple(target.shape[:depth])}"
        )
    if not depth:
        return target  # there is no update
    flat = tuple(where.reshape(-1, depth).T)
    values = updates.reshape(-1, *target.shape[depth:])
    return target.index_put(flat, values, accumulate=accumulate)
