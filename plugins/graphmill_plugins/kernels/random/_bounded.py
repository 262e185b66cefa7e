"""Truncated normal values by three kinds of rejection sampling; NumPy only.

Semantics: tensorflow/core/kernels/parameterized_truncated_normal_op.cc. The rows draw from one
generator, one after the other. TensorFlow splits large tensors between threads, which changes the
values of later rows; the values here are those of TensorFlow on one thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.spi.kernels import check_cancelled
from graphmill_plugins.kernels.random import _philox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value

_NORMAL_MARGIN = 1.3  # distance of a bound from the mean, in deviations, to try normal values
_MAX_REJECTIONS = 1000
_MAX_GROUPS = 256


class _Row(NamedTuple):
    """The standardized parameters of a row, mirrored so that `low` is the relevant bound."""

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
    """Return a sampler of normal values: four per counter, two for float64."""

    def attempt(bits: Any) -> tuple[Any, Any]:
        values = _philox.normal_of(bits, row.low.dtype)
        return values, (values >= row.low) & (values <= row.high)

    return attempt


def _uniforms(row: _Row) -> Callable[[Any], tuple[Any, Any]]:
    """Return a sampler of uniform values, each accepted by the uniform value after it."""
    kind = row.low.dtype.type
    plus = kind(0) if row.low < 0 else row.low * row.low

    def attempt(bits: Any) -> tuple[Any, Any]:
        unit = _philox.unit_of(bits, row.low.dtype)
        values = unit[0::2] * (row.high - row.low) + row.low
        limit = np.exp((plus - values * values) / kind(2))
        return values, unit[1::2] <= limit

    return attempt


def _exponentials(row: _Row) -> Callable[[Any], tuple[Any, Any]]:
    """Return a sampler of exponential values, accepted by the uniform value after each."""
    kind = row.low.dtype.type
    alpha = (row.low + np.sqrt(row.low * row.low + kind(4))) / kind(2)

    def attempt(bits: Any) -> tuple[Any, Any]:
        unit = _philox.unit_of(bits, row.low.dtype)
        values = -np.log(unit[:, 0::2]) / alpha + row.low
        x = alpha - values if row.low < alpha else np.full_like(values, row.low - alpha)
        return values, (unit[:, 1::2] <= np.exp(-x * x / kind(2))) & (values < row.high)

    return attempt


def _choose_sampler(row: _Row) -> tuple[Callable[[Any], tuple[Any, Any]], int]:
    """Choose a sampler; return it and the number of counters per attempt."""
    kind = row.low.dtype.type
    margin = kind(_NORMAL_MARGIN)
    if (row.low < -margin and row.high >= 0) or (row.high > margin and row.low <= 0):
        return _normals(row), 1
    root = np.sqrt(row.low * row.low + kind(4))
    cutoff = kind(2) * np.exp(kind(0.5) + row.low * (row.low - root) / kind(4)) / (row.low + root)
    if row.high - row.low < cutoff:
        return _uniforms(row), 2
    return _exponentials(row), 1


def bounded_normal(
    generator: _philox.Philox, parameters: Sequence[Value], samples: int, count: int
) -> Value:
    """Return `count` values: `samples` per row of means, deviations, lower and upper bounds.

    Raises:
        InvalidArgumentError: a deviation is not positive, or bounds are empty or both infinite.
        InternalError: too many values were rejected in sequence.
    """
    out = np.empty(count, parameters[0].dtype)
    for index, values in enumerate(zip(*parameters, strict=True)):
        row = _standardized(*values)
        attempt, counters = _choose_sampler(row)
        part = out[index * samples : (index + 1) * samples]
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
    """Fill `part` with accepted values; return the generator advanced past the used counters."""
    filled = rejected = 0
    while filled < part.size:
        check_cancelled()
        groups = min(max(part.size - filled, 4), _MAX_GROUPS)
        offsets = np.arange(groups * counters, dtype=np.uint64)
        values, is_accepted = attempt(_philox.blocks(np, generator, offsets))
        accepted = is_accepted.sum(axis=1)
        totals = np.cumsum(accepted)
        missing = part.size - filled
        used = int(np.searchsorted(totals, missing)) + 1 if totals[-1] >= missing else groups
        new_values = values[:used][is_accepted[:used]][:missing]
        part[filled : filled + len(new_values)] = new_values
        filled += len(new_values)
        rejected = 0 if len(new_values) else rejected + is_accepted.size
        if rejected > _MAX_REJECTIONS:
            raise InternalError("TruncatedNormal rejection sampler failed to accept a sample.")
        generator = generator.skip(used * counters)
    return generator
