"""Random numbers match published vectors; nodes and threads are independent."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill_plugins.kernels.random import _float32_math, _philox

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.kernels.op_kernel import OpKernel

    Bind = Callable[..., OpKernel]


def words(*values: int) -> int:
    return sum(value << 32 * place for place, value in enumerate(values))


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_returns_the_vectors_of_its_authors(
    counter: tuple[int, ...], key: tuple[int, ...], expected: str
) -> None:
    """The generator returns the known-answer vectors of Random123 for Philox4x32-10."""
    generator = _philox.Philox(words(*key), words(*counter[:2]), words(*counter[2:]))
    assert " ".join(f"{word:08x}" for word in _philox.samples(np, generator, 4)) == expected


def test_skipping_carries_into_the_high_half() -> None:
    start = _philox.Philox(5, (1 << 64) - 2, 3)
    run = _philox.samples(np, start, 16)
    np.testing.assert_array_equal(_philox.samples(np, start.skip(3), 4), run[12:])
    assert start.skip(2).high == 4


def test_logarithm_sine_and_cosine_are_nearly_exact() -> None:
    x = np.random.default_rng(0).uniform(1e-7, 1, 20000).astype(np.float32)
    angle = (x.astype(np.float64) * 2 * np.pi).astype(np.float32)
    sine, cosine = _float32_math.sine_and_cosine(np, angle)
    for got, exact in (
        (_float32_math.log(np, x), np.log(x.astype(np.float64))),
        (sine, np.sin(angle.astype(np.float64))),
        (cosine, np.cos(angle.astype(np.float64))),
    ):
        assert (np.abs(got - exact) <= np.spacing(np.abs(exact).astype(np.float32))).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_distributions_have_the_expected_moments(bind_kernel: Bind, ctx: Any, dtype: str) -> None:
    shape = np.array([20000], np.int32)
    draws = {
        op: bind_kernel(op, shape, dtype=dtype, seed=1, seed2=2).compute(ctx, shape)
        for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
    }
    uniform, normal, cut = (value.astype(np.float64) for value in draws.values())
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.02
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.02
    assert np.abs(cut).max() <= 2
    assert abs(cut.std() - 0.88) < 0.02


def test_random_state_is_per_node(bind_kernel: Bind, ctx: Any) -> None:
    shape = np.array([3], np.int32)
    first, again = (
        bind_kernel("RandomUniform", shape, dtype="float32", seed=7).compute for _ in range(2)
    )
    one, two = first(ctx, shape), first(ctx, shape)
    assert one.tolist() != two.tolist()
    assert again(ctx, shape).tolist() == one.tolist()


def test_nodes_without_a_seed_differ(bind_kernel: Bind, ctx: Any) -> None:
    shape = np.array([3], np.int32)
    one, two = (
        bind_kernel("RandomUniform", shape, dtype="float32").compute(ctx, shape) for _ in range(2)
    )
    assert one.tolist() != two.tolist()


def test_steps_at_once_get_different_numbers(bind_kernel: Bind, ctx: Any) -> None:
    shape = np.array([2], np.int32)
    compute = bind_kernel("RandomUniform", shape, dtype="float64", seed=7).compute
    drawn: list[Any] = []

    def work() -> None:
        drawn.extend(tuple(compute(ctx, shape)) for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 400


def test_a_shuffle_keeps_the_slices(bind_kernel: Bind, ctx: Any) -> None:
    value = np.arange(20).reshape(10, 2)
    got = bind_kernel("RandomShuffle", value, seed=1).compute(ctx, value)
    assert sorted(got.tolist()) == value.tolist()
    assert got.tolist() != value.tolist()


def test_classes_without_weight_are_not_drawn(bind_kernel: Bind, ctx: Any) -> None:
    logits = np.array([[0.0, -np.inf, 0.0]])
    count = np.array(200, np.int32)
    got = bind_kernel("Multinomial", logits, count, seed=1).compute(ctx, logits, count)
    assert set(got.ravel().tolist()) == {0, 2}


@pytest.mark.jax
@pytest.mark.parametrize("op", ["StatelessRandomUniform", "StatelessRandomNormal"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_jax_draws_the_same(
    call: Callable[..., Any], call_jax: Callable[..., Any], op: str, dtype: str
) -> None:
    seed = np.array([3, 1 << 40])
    numpy_result = call(op, np.array([3, 5], np.int32), seed, dtype=dtype)
    np.testing.assert_allclose(call_jax(op, (3, 5), seed, dtype=dtype), numpy_result, rtol=3e-7)


def test_bad_arguments_are_refused(call: Callable[..., Any]) -> None:
    shape, seed = np.array([3], np.int32), np.array([1, 2])
    with pytest.raises(errors.InvalidArgumentError, match=r"seed must have shape \[2\]"):
        call("StatelessRandomUniform", shape, np.array([1]))
    with pytest.raises(errors.InvalidArgumentError, match="non-negative sizes"):
        call("StatelessRandomUniform", -shape, seed)
    with pytest.raises(errors.InvalidArgumentError, match="minval < maxval, got 5 >= 5"):
        call("StatelessRandomUniformInt", shape, seed, np.int64(5), np.int64(5))
