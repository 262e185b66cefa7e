"""Random ops with seed attrs: uniform, normal and truncated normal, shuffle, multinomial.

Semantics: tensorflow/core/kernels/random_op.cc, random_shuffle_op.cc, multinomial_op.cc,
tensorflow/core/util/guarded_philox_random.h. With a seed, successive calls of a node return
TensorFlow's values; with both seeds 0, the system draws a seed when the kernel is created.

The generator of a node is a variable, which compiled programs take as an input and return updated.
So interpreted and compiled calls of a node draw from one sequence.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import Variable, kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.random import _philox
from graphmill_plugins.kernels.random._shuffle import shuffled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.spi import ArrayNamespace, OpKernelConstruction, OpKernelContext, Value

_Class = TypeVar("_Class", bound="type[Any]")

_MAX_COMPARISONS: Final = 1 << 16
"""Number of comparisons with cumulative weights above which a binary search is faster."""


class GuardedPhilox(Variable):
    """The generator of a node; concurrent steps receive disjoint ranges of counters.

    Its value is the key, then the low and high half of the next counter, as `uint64`.

    Threads: `lock` guards its value.
    """

    __slots__ = ("_xp",)

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(dtypes.uint64, (3,), construction.node_name)
        seed, seed2 = construction.attr("seed"), construction.attr("seed2")
        if seed == 0 and seed2 == 0:
            seed, seed2 = secrets.randbits(64), secrets.randbits(64)
        generator = _philox.seeded(seed, seed2)
        self._xp = construction.xp
        self.value = np.array([generator.key, generator.low, generator.high], np.uint64)

    def reserve(self, counters: int) -> _philox.Philox:
        """Return the current generator, and advance it by `counters`."""
        with self.lock:
            generator = _philox.Philox(*self._words())
            advanced = generator.skip(counters)
            words = [advanced.key, advanced.low, advanced.high]
            self.value = self._xp.asarray(words, np.uint64)
        return generator

    def _words(self) -> list[Any]:
        """Return the elements of the value as Python integers, or as tracers while tracing."""
        if self._xp is np:
            return np.asarray(self.value).tolist()  # type: ignore[no-any-return]
        return list(self.value)

    def reserve_outputs(self, count: int) -> _philox.Philox:
        """Reserve as many counters as TensorFlow does for `count` outputs."""
        return self.reserve(count * _philox.RESERVED_PER_OUTPUT)


def _random_kernel(*ops: str, traced: Iterable[str] | None = None) -> Callable[[_Class], _Class]:
    """Register a class as the kernel of random ops, with outputs in host memory.

    Args:
        ops: the names of the ops.
        traced: the inputs that must be static while tracing; None if it cannot be traced.
    """
    common: dict[str, Any] = {"stateful": True, "effects": ("rng",), "variable": "generator"}
    on_host = kernel(*ops, host=True, **common)
    if traced is None:
        return on_host
    # Kernels of the backend jax on the CPU are used for tracing only, never by the interpreter.
    to_trace = kernel(*ops, backend="jax", device="CPU", static=traced, **common)
    return lambda kernel_class: to_trace(on_host(kernel_class))


@_random_kernel("RandomUniform", "RandomStandardNormal", traced=("shape",))
class RandomFloatKernel:
    """Draw floats of one of the standard distributions."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self.generator = GuardedPhilox(construction)
        self._xp = construction.xp
        self._dtype = construction.attr("dtype")
        is_uniform = construction.op == "RandomUniform"
        self._draw = _philox.uniform if is_uniform else _philox.normal

    def __call__(self, ctx: OpKernelContext, shape: Value) -> Value:
        """Return a tensor of `shape`."""
        del ctx
        sizes, count = _philox.output_shape(shape)
        generator = self.generator.reserve_outputs(count)
        return self._draw(self._xp, generator, count, self._dtype).reshape(sizes)


@_random_kernel("TruncatedNormal")
class TruncatedNormalKernel:
    """Draw floats of the standard normal distribution truncated at 2."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self.generator = GuardedPhilox(construction)
        self._dtype = construction.attr("dtype")

    def __call__(self, ctx: OpKernelContext, shape: Value) -> Value:
        """Return a tensor of `shape`."""
        del ctx
        sizes, count = _philox.output_shape(shape)
        generator = self.generator.reserve_outputs(count)
        return _philox.truncated_normal(generator, count, self._dtype).reshape(sizes)


@_random_kernel("RandomUniformInt", traced=("shape", "minval", "maxval"))
class RandomUniformIntKernel:
    """Draw integers of [minval, maxval)."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self.generator = GuardedPhilox(construction)
        self._xp = construction.xp
        self._dtype = construction.attr("Tout")

    def __call__(self, ctx: OpKernelContext, shape: Value, minval: Value, maxval: Value) -> Value:
        """Return a tensor of `shape`."""
        del ctx
        sizes, count = _philox.output_shape(shape)
        _philox.check_range(minval, maxval, count)
        if not count:
            return np.zeros(sizes, self._dtype)
        generator = self.generator.reserve_outputs(count)
        drawn = _philox.integers(self._xp, generator, count, self._dtype, minval, maxval)
        return drawn.reshape(sizes)


@_random_kernel("RandomShuffle")
class RandomShuffleKernel:
    """Shuffle the slices along the first axis."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self.generator = GuardedPhilox(construction)

    def __call__(self, ctx: OpKernelContext, value: Value) -> Value:
        """Return the shuffled tensor."""
        del ctx
        if value.ndim == 0 or value.shape[0] <= 1:
            return value
        size = value.shape[0]
        generator = self.generator.reserve((size - 1 + 3) // 4)
        return value.take(shuffled(generator, size), axis=0)


def multinomial(
    xp: ArrayNamespace, generator: _philox.Philox, logits: Any, num_samples: int, dtype: Any
) -> Value:
    """Draw `num_samples` classes for each row of unnormalized log-probabilities."""
    if logits.ndim != 2:
        raise errors.InvalidArgumentError(
            f"logits should be a matrix, got shape {list(logits.shape)}"
        )
    rows, classes = logits.shape
    if num_samples < 0:
        raise errors.InvalidArgumentError(f"num_samples should be nonnegative, got {num_samples}")
    if rows and classes < 1:
        raise errors.InvalidArgumentError(f"num_classes should be positive, got {classes}")
    check_size((rows, num_samples), itemsize=24)  # draws, their targets, and the result
    wide = logits.astype(np.float64)
    finite = xp.isfinite(wide)
    peak = xp.max(wide, axis=1, keepdims=True, initial=-np.inf, where=finite)
    weights = xp.where(finite, xp.exp(wide - peak), 0)
    totals = xp.cumsum(weights, axis=1)
    unit = _philox.uniform(xp, generator, rows * num_samples, np.dtype(np.float64))
    targets = unit.reshape(rows, num_samples) * totals[:, -1:]
    if rows * num_samples * classes > _MAX_COMPARISONS and xp is np:
        pairs = cancellable(zip(totals, targets, strict=True))
        samples = [np.searchsorted(*row, side="right") for row in pairs]
        return np.array(samples, dtype).reshape(rows, num_samples)
    # The first class whose cumulative weight exceeds the target.
    return xp.sum(totals[:, None, :] <= targets[:, :, None], axis=2, dtype=dtype)


def sample_count(num_samples: Value) -> int:
    """Return the input num_samples as an integer.

    Raises:
        InvalidArgumentError: it is not a scalar.
    """
    if np.ndim(num_samples) != 0:
        raise errors.InvalidArgumentError(
            f"num_samples should be a scalar, got shape {list(np.shape(num_samples))}"
        )
    return int(num_samples)


@_random_kernel("Multinomial", traced=("num_samples",))
class MultinomialKernel:
    """Draw classes from rows of unnormalized log-probabilities."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self.generator = GuardedPhilox(construction)
        self._xp = construction.xp
        self._dtype = construction.attr("output_dtype")

    def __call__(self, ctx: OpKernelContext, logits: Value, num_samples: Value) -> Value:
        """Return (rows, num_samples) class indices."""
        del ctx
        count = sample_count(num_samples)
        reserved = len(logits) * ((count + 3) // 4 * 4) * 2 if logits.ndim else 0
        generator = self.generator.reserve_outputs(max(reserved, 0))
        return multinomial(self._xp, generator, logits, count, self._dtype)
