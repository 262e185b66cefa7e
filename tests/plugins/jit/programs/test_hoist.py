"""Hoisting constant expressions out of programs preserves results."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

import jax.numpy as jnp  # noqa: E402

from graphmill_plugins.jit.programs.hoist import hoist  # noqa: E402


def split(function, *arguments, constants):
    closed = jax.make_jaxpr(function)(*arguments)
    hoisted = hoist(closed, constants)
    prepared = hoisted.prepare(*(arguments[place] for place in constants))
    rest = [a for place, a in enumerate(arguments) if place not in constants]
    return hoisted, prepared, rest


def test_split_execution_matches_whole():
    def function(w, x, scale):
        return (x @ jnp.transpose(w) * jnp.sqrt(scale), scale + 1)

    arguments = (np.ones((3, 4), np.float32), np.ones((2, 4), np.float32), np.float32(9))
    hoisted, prepared, rest = split(function, *arguments, constants=(0, 2))
    outputs = jax.jit(hoisted.program)(*prepared, *rest)
    for got, expected in zip(outputs, function(*arguments), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert hoisted.moved == 3


def test_constants_that_are_not_needed_any_more_are_not_passed():
    def function(w, x):
        return x + w.sum()

    _, prepared, _ = split(function, np.ones((9, 9)), np.ones(3), constants=(0,))
    assert [value.shape for value in prepared] == [()]


def test_constant_output_is_returned():
    hoisted, prepared, rest = split(lambda w, x: (w, x), np.ones(2), np.zeros(2), constants=(0,))
    outputs = hoisted.program(*prepared, *rest)
    np.testing.assert_array_equal(outputs[0], np.ones(2))


def test_hoisting_that_needs_much_more_memory_is_skipped():
    def function(w, x):
        return x + jnp.broadcast_to(w, (1000, 1000))

    hoisted, prepared, _ = split(function, np.ones(1000), np.ones((1000, 1000)), constants=(0,))
    assert hoisted.moved == 0
    assert [value.shape for value in prepared] == [(1000,)]


def test_a_number_is_passed_as_a_number():
    arguments = np.float32(2), np.ones(8, np.float32)
    hoisted, prepared, _ = split(lambda k, x: x * k, *arguments, constants=[0])
    assert hoisted.moved == 0
    assert prepared == [2]


def test_number_that_both_halves_read_as_a_tensor_is_passed_as_a_number():
    def function(w, x):
        scale = jnp.broadcast_to(jnp.sum(w), (4,))
        return x * scale + w * scale, scale

    arguments = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    hoisted, prepared, rest = split(function, *arguments, constants=[0])
    assert sorted(one.shape for one in prepared) == [(), (4,)]
    for got, expected in zip(hoisted.program(*prepared, *rest), function(*arguments), strict=True):
        np.testing.assert_allclose(got, expected)


def test_computation_with_a_number_that_depends_on_constants_is_hoisted():
    def function(w, x):
        return x @ (w / jnp.sqrt(jnp.sum(w * w)))

    arguments = np.full((4, 4), 2, np.float32), np.ones((2, 4), np.float32)
    hoisted, prepared, rest = split(function, *arguments, constants=[0])
    (result,) = hoisted.program(*prepared, *rest)
    assert [one.shape for one in prepared] == [(4, 4)]
    np.testing.assert_allclose(result, function(*arguments), rtol=1e-6)


def test_program_without_constants_is_not_split():
    hoisted, prepared, rest = split(lambda x: x * 2, np.ones(3), constants=())
    assert hoisted.moved == 0
    assert not prepared
    np.testing.assert_array_equal(hoisted.program(*rest)[0], np.full(3, 2.0))


def test_captured_constants_are_static():
    captured = jnp.arange(4.0)
    hoisted, prepared, rest = split(lambda x: x * (captured + 1), np.ones(4), constants=())
    assert hoisted.moved == 1
    np.testing.assert_array_equal(hoisted.program(*prepared, *rest)[0], [1, 2, 3, 4])
