"""Choose initial cluster centres: KmeansPlusPlusInitialization, KMC2ChainInitialization.

Semantics: tensorflow/core/kernels/clustering_ops.cc (after Arthur and Vassilvitskii, "k-means++",
2007; Bachem et al., "Approximate K-Means++ in Sublinear Time", 2016). Random draws are the same as
in TensorFlow.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable, check_cancelled
from graphmill_plugins.kernels._support import check_size, scalar_int, shape_text
from graphmill_plugins.kernels.random._philox import seeded
from graphmill_plugins.kernels.random._stream import Numbers, numbers_of

if TYPE_CHECKING:
    from graphmill.spi import Value

_F = np.float32


def _numbers(seed: Value) -> Numbers:
    return Numbers(numbers_of(seeded(scalar_int("seed", seed), 0)))


class _Sampling:
    """Samples points that are far from those sampled before."""

    def __init__(self, points: Any, numbers: Numbers) -> None:
        self._points, self._numbers = points, numbers
        self._half_norms = _F(0.5) * (points * points).sum(axis=1)
        self._distances = np.full(len(points), _F(np.inf))
        self._drawn: dict[int, None] = {}

    def _candidate(self, sums: Any) -> int:
        count = len(self._points)
        if not self._drawn:
            return self._numbers.below_64(count)
        while True:
            check_cancelled()
            if sums[-1] > 0:
                bound = _F(self._numbers.unit()) * sums[-1]
                index = min(int(np.searchsorted(sums, bound, side="right")), count - 1)
            else:  # all points coincide with sampled ones
                index = self._numbers.below_64(count)
            if index not in self._drawn:
                return index

    def _distances_with(self, index: int) -> Any:
        """Return half the squared distances to the nearest point, after sampling another one."""
        products = self._points @ self._points[index]
        to_point = (self._half_norms - products) + self._half_norms[index]
        return np.minimum(self._distances, to_point)

    def draw(self, tries: int) -> None:
        """Sample the best of `tries` candidates: the one with the smallest sum of distances."""
        sums = np.add.accumulate(self._distances)
        best, lowest, nearest = 0, _F(np.inf), self._distances
        for attempt in cancellable(range(tries), 64):
            index = self._candidate(sums)
            distances = self._distances_with(index)
            potential = distances.sum()
            if potential < lowest or (tries == 1 and attempt == 0):
                best, lowest, nearest = index, potential, distances
        self._distances = nearest
        self._drawn[best] = None

    def chosen(self) -> list[int]:
        """Return the indices of the sampled points, in order."""
        return list(self._drawn)


@kernel("KmeansPlusPlusInitialization", host=True, dynamic_shape=True, expensive=True)
def kmeans_plus_plus(
    points: Value,
    num_to_sample: Value,
    seed: Value,
    num_retries_per_sample: Value,
) -> Value:
    """Return rows sampled in proportion to their squared distance to the chosen ones."""
    if points.ndim != 2 or not len(points):
        raise InvalidArgumentError(
            f"Input points should be a matrix of at least one row, got {shape_text(points.shape)}"
        )
    count = scalar_int("num_to_sample", num_to_sample)
    retries = scalar_int("num_retries_per_sample", num_retries_per_sample)
    if not 0 < count <= len(points):
        raise InvalidArgumentError(
            f"Expected num_to_sample to be in [1, {len(points)}] (the number of points), got "
            f"{count}"
        )
    check_size((len(points), max(points.shape[1], 2)), "the distances", itemsize=4)
    sampling = _Sampling(points, _numbers(seed))
    for _ in range(count):
        sampling.draw(1 + (2 + int(math.log(count)) if retries < 0 else retries))
    return points[sampling.chosen()]


@kernel("KMC2ChainInitialization", host=True, expensive=True)
def kmc2_chain(distances: Value, seed: Value) -> Value:
    """Return the index at which a Markov chain over the distances ends."""
    if distances.ndim != 1 or not len(distances):
        raise InvalidArgumentError(
            f"Input distances should be a vector and not empty, got {shape_text(distances.shape)}"
        )
    numbers = _numbers(seed)
    current = 0
    for candidate in cancellable(range(1, len(distances)), 1 << 14):
        if distances[candidate] > _F(numbers.unit()) * distances[current]:
            current = candidate
    return np.int64(current)
