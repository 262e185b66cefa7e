"""Random ops whose generator state is a resource variable: `tf.random.Generator`.

Semantics: tensorflow/core/kernels/stateful_random_ops.cc. The variable is an `int64` vector: the
low and high half of the Philox counter, then the key.
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
            "the ThreeFry algorithm is not supported, as in TensorFlow on the CPU; use Philox (1)"
        )
    if int(algorithm) not in (_PHILOX, _AUTO):
        raise InvalidArgumentError(
            f"Unsupported algorithm id: {int(algorithm)}; expected Philox ({_PHILOX})"
        )


def advance(resource: Any, count: int, start: int = 0) -> tuple[Any, _philox.Philox]:
    """Advance a generator by `count` counters; return its previous state and generator.

    Args:
        resource: the handle of the variable.
        count: how many counters to skip.
        start: the index of the counter in the state.

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
                f"the state of a Philox generator must be a vector of at least {size} int64 "
                f"numbers, got {state.dtype} of shape {list(state.shape)}"
            )
        if start:
            check_algorithm(state[0])
        low, high, key = (number & _MASK for number in state[start:size].tolist())
        generator = _philox.Philox(key, low, high)
        advanced = generator.skip(count)
        counter = np.array([advanced.low, advanced.high], np.uint64).view(np.int64)
        new_state = state.copy()
        new_state[start : start + 2] = counter
        variable.value = new_state
    return state, generator


def _reserve(
    resource: Any, algorithm: Value, shape: Value
) -> tuple[_philox.Philox, tuple[int, ...], int]:
    """Reserve counters for a tensor of a shape; return generator, sizes and element count."""
    check_algorithm(algorithm)
    sizes, count = _philox.output_shape(shape)
    _, generator = advance(resource, count * _philox.RESERVED_PER_OUTPUT)
    return generator, sizes, count


@kernel("RngReadAndSkip", stateful=True, host=True, effects=_EFFECTS)
def rng_read_and_skip(ctx: OpKernelContext, resource: Any, alg: Value, delta: Value) -> Value:
    """Return counter and key, and advance the counter by `delta` outputs."""
    del ctx
    check_algorithm(alg)
    if np.ndim(delta):
        raise InvalidArgumentError(f"delta must be of shape [], not {list(np.shape(delta))}")
    state, _ = advance(resource, int(delta) * _philox.RESERVED_PER_OUTPUT & _MASK)
    return state[:_STATE_SIZE].copy()


@kernel("RngSkip", stateful=True, host=True, effects=_EFFECTS)
def rng_skip(ctx: OpKernelContext, resource: Any, algorithm: Value, delta: Value) -> None:
    """Advance the counter by `delta` outputs."""
    del ctx
    check_algorithm(algorithm)
    if np.ndim(delta):
        raise InvalidArgumentError(f"delta must be of shape [], not {list(np.shape(delta))}")
    advance(resource, int(delta) * _philox.RESERVED_PER_OUTPUT & _MASK)


@kernel("StatefulUniform", stateful=True, host=True, effects=_EFFECTS)
def stateful_uniform(
    ctx: OpKernelContext, resource: Any, algorithm: Value, shape: Value, dtype: np.dtype[Any]
) -> Value:
    """Return floats of [0, 1)."""
    del ctx
    generator, sizes, count = _reserve(resource, algorithm, shape)
    return _philox.uniform(np, generator, count, dtype).reshape(sizes)


@kernel("StatefulStandardNormalV2", stateful=True, host=True, effects=_EFFECTS)
def stateful_normal(
    ctx: OpKernelContext, resource: Any, algorithm: Value, shape: Value, dtype: np.dtype[Any]
) -> Value:
    """Return floats of the standard normal distribution."""
    del ctx
    generator, sizes, count = _reserve(resource, algorithm, shape)
    return _philox.normal(np, generator, count, dtype).reshape(sizes)


@kernel("StatefulStandardNormal", stateful=True, host=True, effects=_EFFECTS)
def stateful_normal_v1(
    ctx: OpKernelContext, resource: Any, shape: Value, dtype: np.dtype[Any]
) -> Value:
    """Return floats of the standard normal distribution; the state begins with the algorithm."""
    del ctx
    sizes, count = _philox.output_shape(shape)
    _, generator = advance(resource, count * _philox.RESERVED_PER_OUTPUT, start=1)
    return _philox.normal(np, generator, count, dtype).reshape(sizes)


@kernel("StatefulTruncatedNormal", stateful=True, host=True, effects=_EFFECTS)
def stateful_truncated_normal(
    ctx: OpKernelContext, resource: Any, algorithm: Value, shape: Value, dtype: np.dtype[Any]
) -> Value:
    """Return floats of the standard normal distribution truncated at 2."""
    del ctx
    generator, sizes, count = _reserve(resource, algorithm, shape)
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
    generator, sizes, count = _reserve(resource, algorithm, shape)
    return _philox.integers(np, generator, count, dtype, minval, maxval).reshape(sizes)


@kernel("StatefulUniformFullInt", stateful=True, host=True, effects=_EFFECTS)
def stateful_uniform_full_int(
    ctx: OpKernelContext, resource: Any, algorithm: Value, shape: Value, dtype: np.dtype[Any]
) -> Value:
    """Return integers over the whole range of the type."""
    del ctx
    generator, sizes, count = _reserve(resource, algorithm, shape)
    return _philox.full_integers(np, generator, count, dtype).reshape(sizes)


@kernel("NonDeterministicInts", host=True, effects=("rng",))
def non_deterministic_ints(shape: Value, dtype: np.dtype[Any]) -> Value:
    """Return integers over the whole range of the type, from the system's entropy."""
    if shape.dtype not in (np.int32, np.int64):
        raise InvalidArgumentError(
            f"shape must be a vector of {{int32,int64}}, got one of {shape.dtype}"
        )
    sizes, count = _philox.output_shape(shape)
    return np.frombuffer(secrets.token_bytes(count * dtype.itemsize), dtype).reshape(sizes)
