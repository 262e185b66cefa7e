"""Candidate samplers for sampled losses, and ComputeAccidentalHits.

Semantics: tensorflow/core/kernels/candidate_sampler_ops.cc. With a seed set, a node draws
TensorFlow's own candidates, call after call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import files, kernel
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.nn.sampling import _sampler
from graphmill_plugins.kernels.random.stateful import GuardedPhilox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill.spi.files import Broker

_COUNTERS_PER_CANDIDATE = 2048 // 4
_RNG = ("rng",)
_CLASS_SIZE = 128  # bytes: each weight is in several arrays, and in lists of Python numbers


class _CandidateKernel:
    """Sample candidates from the distribution that a subclass defines.

    Outputs: the candidates (vector of int64), and the expected counts of the true classes and of
    the candidates (float32, each in the shape of its classes).
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._num_true = construction.attr("num_true")
        self._count = construction.attr("num_sampled")
        self._unique = construction.attr("unique")
        self._source = GuardedPhilox(construction)

    def _check(self, true_classes: Value, size: int) -> None:
        if true_classes.ndim != 2 or true_classes.shape[1] != self._num_true:
            raise InvalidArgumentError(
                f"true_classes must be a matrix of num_true = {self._num_true} columns, got shape "
                f"{shape_text(true_classes.shape)}"
            )
        if self._unique and self._count > size:
            raise InvalidArgumentError(
                f"Sampler's range is too small: {self._count} unique candidates of {size} classes"
            )
        if ((true_classes < 0) | (true_classes >= size)).any():
            raise InvalidArgumentError(f"`true_candidate` out of range [0, {size})")
        check_size((self._count,), "the candidates", itemsize=_CLASS_SIZE if self._unique else 8)


class _DrawnKernel(_CandidateKernel):
    """Draw candidates from a distribution."""

    def __init__(self, construction: OpKernelConstruction, sampler: _sampler.Sampler) -> None:
        super().__init__(construction)
        self._sampler = sampler

    def __call__(self, ctx: OpKernelContext, true_classes: Value) -> tuple[Value, Value, Value]:
        """Return candidates, and the expected counts of the true classes and of the candidates."""
        del ctx
        sampler = self._sampler
        self._check(true_classes, sampler.size)
        generator = self._source.reserve(_COUNTERS_PER_CANDIDATE * self._count)
        drawn, tries = _sampler.draw_candidates(sampler, generator, self._count, self._unique)
        counts = [
            _sampler.expected_count(sampler.probability(classes), self._count, tries)
            for classes in (true_classes, drawn)
        ]
        sampler.learn(true_classes.reshape(-1))
        return drawn, counts[0], counts[1]


@kernel("UniformCandidateSampler", stateful=True, host=True, effects=_RNG)
class UniformKernel(_DrawnKernel):
    """Draw classes from a uniform distribution."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction, _sampler.Uniform(construction.attr("range_max")))


@kernel("LogUniformCandidateSampler", stateful=True, host=True, effects=_RNG)
class LogUniformKernel(_DrawnKernel):
    """Draw classes from a log-uniform distribution, the first ones most often."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction, _sampler.LogUniform(construction.attr("range_max")))


class _LearningKernel(_DrawnKernel):
    """Draw classes in proportion to the times they were true in earlier calls."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction, _sampler.Unigram(construction.attr("range_max")))


@kernel("LearnedUnigramCandidateSampler", stateful=True, host=True, effects=("rng", "state"))
class LearnedUnigramKernel(_LearningKernel):
    """Draw classes in proportion to the times they were true in earlier calls."""


@kernel("ThreadUnsafeUnigramCandidateSampler", stateful=True, host=True, effects=_RNG)
class ThreadUnsafeUnigramKernel(_LearningKernel):
    """Draw classes as `LearnedUnigramKernel` does; this kernel is also thread-safe."""


@kernel(
    "FixedUnigramCandidateSampler",
    stateful=True,
    host=True,
    effects=("fs.read", "rng"),
    brokered=True,
)
class FixedUnigramKernel(_DrawnKernel):
    """Sample classes with weights from attrs or a file."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        size = construction.attr("range_max")
        super().__init__(construction, _sampler.FixedUnigram(size, _weights(construction)))


def _weights(construction: OpKernelConstruction) -> Any:
    """Return the weights of the classes of a FixedUnigramCandidateSampler's shard, in float32."""
    path, unigrams = construction.attr("vocab_file"), construction.attr("unigrams")
    if bool(path) == bool(unigrams):
        raise InvalidArgumentError("Must provide either vocab_file or unigrams, and not both")
    shards, shard = construction.attr("num_shards"), construction.attr("shard")
    reserved = construction.attr("num_reserved_ids")
    own_reserved = len(range(shard, max(reserved, 0), shards))
    check_size((own_reserved,), "the weights of reserved classes", itemsize=_CLASS_SIZE)
    weights = np.array(
        list(_read_weights(path, construction.broker)) if path else unigrams, np.float32
    )
    # As in TensorFlow, ids continue after the reserved classes of this shard alone.
    own = weights[(shard - own_reserved) % shards :: shards]
    return np.concatenate(
        [np.zeros(own_reserved, np.float32), own ** np.float32(_distortion(construction))]
    )


def _distortion(construction: OpKernelConstruction) -> float:
    return float(construction.attr("distortion"))


def _read_weights(path: str, broker: Broker) -> Iterator[float]:
    """Yield the last comma-separated field of each line.

    Raises:
        InvalidArgumentError: a field is not a number.
    """
    for line in broker.read_bytes(files.as_path(path)).splitlines():
        try:
            yield float(line.rpartition(b",")[2])
        except ValueError:
            raise InvalidArgumentError(f"Wrong vocabulary format at line: {decode(line)}") from None


@kernel("AllCandidateSampler", stateful=True, host=True, effects=_RNG)
class AllKernel(_CandidateKernel):
    """Take every class."""

    def __call__(self, ctx: OpKernelContext, true_classes: Value) -> tuple[Value, Value, Value]:
        """Return all classes; each is expected once."""
        del ctx
        self._check(true_classes, self._count)
        ones = np.ones(self._count, np.float32)
        return np.arange(self._count), np.ones(true_classes.shape, np.float32), ones


def check_classes(true_classes: Value, sampled_candidates: Value, num_true: int) -> None:
    """Check true classes and candidates.

    Raises:
        InvalidArgumentError: the true classes are not a matrix of `num_true` columns, or the
            candidates are not a vector.
    """
    if true_classes.ndim != 2 or true_classes.shape[1] != num_true:
        raise InvalidArgumentError(
            f"true_candidates must be a batch_size * num_true matrix with {num_true} columns, got "
            f"shape {shape_text(true_classes.shape)}"
        )
    if sampled_candidates.ndim != 1:
        raise InvalidArgumentError(
            "sampled_candidates must be a vector, which is typically an output from "
            f"CandidateSampler, got shape {shape_text(sampled_candidates.shape)}"
        )


@kernel("ComputeAccidentalHits", host=True, dynamic_shape=True)
def compute_accidental_hits(
    true_classes: Value, sampled_candidates: Value, num_true: int
) -> tuple[Value, Value, Value]:
    """Return row, candidate index and lowest float for each true class sampled."""
    check_classes(true_classes, sampled_candidates, num_true)
    positions = {
        candidate: position for position, candidate in enumerate(sampled_candidates.tolist())
    }
    hits = [
        (row, positions[number])
        for row, numbers in enumerate(true_classes.tolist())
        for number in numbers
        if number in positions
    ]
    pairs = np.array(hits, np.int64).reshape(-1, 2)
    lowest = np.full(len(hits), np.finfo(np.float32).min, np.float32)
    return pairs[:, 0].astype(np.int32), pairs[:, 1], lowest
