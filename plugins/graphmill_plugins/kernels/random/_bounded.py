"""Truncated normal values by three kinds of rejection sampling; NumPy only.

Semantics: tensorflow/core/kernels/parameterized_truncated_normal_op.cc. One generator serves all
rows in turn. (TensorFlow splits large tensors between threads, which changes what later rows get;
what is drawn here is what it draws in one thread.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.errors import InternalError, InvalidArgumentError
from graphmill_plugins.kernels.random import _philox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value

_INSIDE = 1.3  # deviations within the bounds from which on normal values are tried
_MOST_TURNS = 1000
_MOST_GROUPS = 256


class _Row(NamedTuple):
    """The parameters of a row, standardized so that the lower bound matters."""

    mean: Any
    deviation: Any
    low: Any
    high: Any


def _standardized(mean: Any, deviation: Any, low: Any, high: Any) -> _Row:
    is_valid = deviation > 0 and low < high and (np.isfinite(low) or np.isfinite(high))
    if not is_valid:
        raise InvalidArgumentError(
            f"Invalid parameters: standard deviation {deviation}, bounds {low} to {high}"
        )
    if (np.isinf(low) and low < 0) or high < mean:
        low, high, deviation = high, low, -deviation
    return _Row(mean, deviation, (low - mean) / deviation, (high - mean) / deviation)


def _normals(row: _Row) -> Callable[[Any], tuple[Any, Any]]:
    """Try normal values, four (float64: two) of each counter."""

    def attempt(bits: Any) -> tuple[Any, Any]:
        values = _philox.normal_of(bits, row.low.dtype)
        return values, (values >= row.low) & (values <= row.high)

    return attempt


def _uniforms(row: _Row) -> Callable[[Any], tuple[Any, Any]]:
    """Try uniform values of one counter, accepted by those of the next."""
    kind = row.low.dtype.type
    plus = kind(0) if row.low < 0 else row.low * row.low

    def attempt(bits: Any) -> tuple[Any, Any]:
        unit = _philox.unit_of(bits, row.low.dtype)
        values = unit[0::2] * (row.high - row.low) + row.low
        limit = np.exp((plus - values * values) / kind(2))
        return values, unit[1::2] <= limit

    return attempt


def _exponentials(row: _Row) -> Callable[[Any], tuple[Any, Any]]:
    """Try exponential values behind the lower bound, accepted by the uniform value after each."""
    kind = row.low.dtype.type
    alpha = (row.low + np.sqrt(row.low * row.low + kind(4))) / kind(2)

    def attempt(bits: Any) -> tuple[Any, Any]:
        unit = _philox.unit_of(bits, row.low.dtype)
        values = -np.log(unit[:, 0::2]) / alpha + row.low
        x = alpha - values if row.low < alpha else np.full_like(values, row.low - alpha)
        return values, (unit[:, 1::2] <= np.exp(-x * x / kind(2))) & (values < row.high)

    return attempt


def _chosen(row: _Row) -> tuple[Callable[[Any], tuple[Any, Any]], int]:
    """Return the way to draw, and how many counters one attempt of it takes."""
    kind = row.low.dtype.type
    inside = kind(_INSIDE)
    if (row.low < -inside and row.high >= 0) or (row.high > inside and row.low <= 0):
        return _normals(row), 1
    root = np.sqrt(row.low * row.low + kind(4))
    cutoff = kind(2) * np.exp(kind(0.5) + row.low * (row.low - root) / kind(4)) / (row.low + root)
    if row.high - row.low < cutoff:
        return _uniforms(row), 2
    return _exponentials(row), 1


def bounded_normal(
    generator: _philox.Philox, parameters: Sequence[Value], samples: int, count: int
) -> Value:
    """Return `count` values, `samples` for each row of means, deviations, lower and upper bounds.

    Raises:
        InvalidArgumentError: a deviation is not positive, or bounds are empty or both infinite.
        InternalError: no value was accepted for too long.
    """
    out = np.empty(count, parameters[0].dtype)
    for number, values in enumerate(zip(*parameters, strict=True)):
        row = _standardized(*values)
        attempt, counters = _chosen(row)
        part = out[number * samples : (number + 1) * samples]
        generator = _fill(part, generator, attempt, counters)
        part *= row.deviation
        part += row.mean
    return out


def _fill(
    part: Any,
    generator: _philox.Philox,
    attempt: Callable[[Any], tuple[Any, Any]],
    counters: int,
) -> _philox.Philox:
    """Fill with accepted values; return the generator behind the last counter that was used."""
    filled = refused = 0
    while filled < part.size:
        groups = min(max(part.size - filled, 4), _MOST_GROUPS)
        offsets = np.arange(groups * counters, dtype=np.uint64)
        values, good = attempt(_philox.blocks(np, generator, offsets))
        accepted = good.sum(axis=1)
        totals = np.cumsum(accepted)
        wanted = part.size - filled
        used = int(np.searchsorted(totals, wanted)) + 1 if totals[-1] >= wanted else groups
        found = values[:used][good[:used]][:wanted]
        part[filled : filled + len(found)] = found
        filled += len(found)
        refused = 0 if len(found) else refused + good.size
        if refused > _MOST_TURNS:
            raise InternalError("TruncatedNormal rejection sampler failed to accept a sample.")
        generator = generator.skip(used * counters)
    return generator
