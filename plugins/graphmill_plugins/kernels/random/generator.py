"""Random ops whose generator state is a resource variable: `tf.random.Generator`.

Semantics: tensorflow/core/kernels/stateful_random_ops.cc. The variable holds a vector of `int64`:
both halves of the counter, then the key (Philox).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from graphmill.spi import Variable, kernel
from graphmill_plugins.kernels.random import _philox

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value

_EFFECTS = ("rng", "state")
_PHILOX, _THREEFRY, _AUTO = 1, 2, 3
_MASK = (1 << 64) - 1
_STATE_SIZE = 3


def check_algorithm(algorithm: Value) -> None:
    """Raise InvalidArgumentError, or UnimplementedError, unless it is Philox."""
    if np.ndim(algorithm):
        raise InvalidArgumentError(
            f"algorithm must be of shape [], not {list(np.shape(algorithm))}"
        )
    if int(algorithm) == _THREEFRY:
        raise UnimplementedError(
            "TensorFlow has the ThreeFry algorithm on XLA devices only; use Philox (1)"
        )
    if int(algorithm) not in (_PHILOX, _AUTO):
        raise InvalidArgumentError(
            f"Unsupported algorithm id: {int(algorithm)}; expected Philox ({_PHILOX})"
        )


def advanced(resource: Any, count: int, start: int = 0) -> tuple[Any, _philox.Philox]:
    """Move a generator on by `count` counters; return its state and generator from before.

    Args:
        resource: the handle of the variable.
        count: how many counters to skip.
        start: where the counter begins in the state.

    Raises:
        FailedPreconditionError: the variable has no value.
        InvalidArgumentError: it is not a vector of at least `start + 3` `int64`.
    """
    variable = resource.expect(Variable)
    with variable.lock:
        state = variable.value
        if state is None:
            raise FailedPreconditionError(
                f"the generator's variable {variable.name} has no value; run its initializer"
            )
        state = np.asarray(state)
        size = start + _STATE_SIZE
        if state.dtype != np.int64 or state.ndim != 1 or state.size < size:
            raise InvalidArgumentError(
                f"the state of a Philox generator is a vector of at least {size} int64 numbers, "
                f"got {state.dtype} of shape {list(state.shape)}"
            )
        if start:
            check_algorithm(state[0])
        low, high, key = (number & _MASK for number in state[start:size].tolist())
        generator = _philox.Philox(key, low, high)
        later = generator.skip(count)
        changed = state.copy()
        changed[start : start + 2] = np.array([later.low, later.high], np.uint64).view(np.int64)
        variable.value = changed
    return state, generator


def _reserved(
    resource: Any, algorithm: Value, shape: Value
) -> tuple[_philox.Philox, tuple[int, ...], int]:
    """Return a generator for a tensor of the shape, its sizes and its number of elements."""
    check_algorithm(algorithm)
    sizes, count = _philox.output_shape(shape)
    _, generator = advanced(resource, count * _philox.RESERVED_PER_OUTPUT)
    return generator, sizes, count


@kernel("RngReadAndSkip", stateful=True, host=True, effects=_EFFECTS)
def rng_read_and_skip(ctx: OpKernelContext, resource: Any, alg: Value, delta: Value) -> Value:
    """Return counter and key, and move the counter on by `delta` outputs."""
    del ctx
    check_algorithm(alg)
    if np.ndim(delta):
        raise InvalidArgumentError(f"delta must be of shape [], not {list(np.shape(delta))}")
    state, _ = advanced(resource, int(delta) * _philox.RESERVED_PER_OUTPUT & _MASK)
    return state[:_STATE_SIZE].copy()


@kernel("RngSkip", stateful=True, host=True, effects=_EFFECTS)
def rng_skip(ctx: OpKernelContext, resource: Any, algorithm: Value, delta: Value) -> None:
    """Move the counter on by `delta` outputs."""
    del ctx
    check_algorithm(algorithm)
    if np.ndim(delta):
        raise InvalidArgumentError(f"delta must be of shape [], not {list(np.shape(delta))}")
    advanced(resource, int(delta) * _philox.RESERVED_PER_OUTPUT & _MASK)


@kernel("StatefulUniform", stateful=True, host=True, effects=_EFFECTS)
def stateful_uniform(
    ctx: OpKernelContext, resource: Any, algorithm: Value, shape: Value, dtype: np.dtype[Any]
) -> Value:
    """Return floats of [0, 1)."""
    del ctx
    generator, sizes, count = _reserved(resource, algorithm, shape)
    return _philox.uniform(np, generator, count, dtype).reshape(sizes)


@kernel("StatefulStandardNormalV2", stateful=True, host=True, effects=_EFFECTS)
def stateful_normal(
    ctx: OpKernelContext, resource: Any, algorithm: Value, shape: Value, dtype: np.dtype[Any]
) -> Value:
    """Return floats of the standard normal distribution."""
    del ctx
    generator, sizes, count = _reserved(resource, algorithm, shape)
    return _philox.normal(np, generator, count, dtype).reshape(sizes)


@kernel("StatefulStandardNormal", stateful=True, host=True, effects=_EFFECTS)
def stateful_normal_v1(
    ctx: OpKernelContext, resource: Any, shape: Value, dtype: np.dtype[Any]
) -> Value:
    """Return floats of the standard normal distribution; the state begins with the algorithm."""
    del ctx
    sizes, count = _philox.output_shape(shape)
    _, generator = advanced(resource, count * _philox.RESERVED_PER_OUTPUT, start=1)
    return _philox.normal(np, generator, count, dtype).reshape(sizes)


@kernel("StatefulTruncatedNormal", stateful=True, host=True, effects=_EFFECTS)
def stateful_truncated_normal(
    ctx: OpKernelContext, resource: Any, algorithm: Value, shape: Value, dtype: np.dtype[Any]
) -> Value:
    """Return floats of the standard normal distribution cut off at 2."""
    del ctx
    generator, sizes, count = _reserved(resource, algorithm, shape)
    return _philox.truncated_normal(generator, count, dtype).reshape(sizes)


@kernel("StatefulUniformInt", stateful=True, host=True, effects=_EFFECTS)
def stateful_uniform_int(
    ctx: OpKernelContext,
    resource: Any,
    algorithm: Value,
    shape: Value,
    minval: Value,
    maxval: Value,
    dtype: np.dtype[Any],
) -> Value:
    """Return integers of [minval, maxval)."""
    del ctx
    _philox.check_range(minval, maxval, 1)
    generator, sizes, count = _reserved(resource, algorithm, shape)
    return _philox.integers(np, generator, count, dtype, minval, maxval).reshape(sizes)


@kernel("StatefulUniformFullInt", stateful=True, host=True, effects=_EFFECTS)
def stateful_uniform_full_int(
    ctx: OpKernelContext, resource: Any, algorithm: Value, shape: Value, dtype: np.dtype[Any]
) -> Value:
    """Return integers over the whole range of the type."""
    del ctx
    generator, sizes, count = _reserved(resource, algorithm, shape)
    return _philox.full_integers(np, generator, count, dtype).reshape(sizes)


@kernel("NonDeterministicInts", host=True, effects=("rng",))
def non_deterministic_ints(shape: Value, dtype: np.dtype[Any]) -> Value:
    """Return integers that no seed determines, over the whole range of the type."""
    if shape.dtype not in (np.int32, np.int64):
        raise InvalidArgumentError(
            f"shape must be a vector of {{int32,int64}}, got one of {shape.dtype}"
        )
    sizes, count = _philox.output_shape(shape)
    return np.frombuffer(secrets.token_bytes(count * dtype.itemsize), dtype).reshape(sizes)
