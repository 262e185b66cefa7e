"""Only programs of common convolutions are left to oneDNN."""

from __future__ import annotations

import functools

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

from graphmill_plugins.jit.programs import compiler_options, onednn  # noqa: E402
from graphmill_plugins.jit.programs.compiler_options import (  # noqa: E402
    compiler_options_for,
    operations,
)
from graphmill_plugins.kernels.jax._conv_gradients import gradient_by_image  # noqa: E402
from graphmill_plugins.kernels.nn.window import make_axis  # noqa: E402

NAMES = ("NHWC", "HWIO", "NHWC")


def convolve(x, kernel, **changes):
    arguments = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": NAMES}
    return jax.lax.conv_general_dilated(x, kernel, **arguments | changes)


def images(*shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


IMAGES, KERNEL = images(2, 64, 64, 8), images(3, 3, 8, 8)


@pytest.fixture
def known_machine(monkeypatch):
    """Pretend that the rules were measured on this machine, with this version of JAX."""
    monkeypatch.setattr(onednn, "_MACHINES", (onednn.platform.machine(),))
    monkeypatch.setattr(onednn, "_FIRST_VERSION", (0,))


def is_chosen(compute, *shapes):
    return onednn.is_for_onednn(operations(jax.make_jaxpr(compute)(*shapes).jaxpr, "cpu"))


@pytest.mark.usefixtures("known_machine")
def test_convolutions_of_images_are_computed_by_onednn():
    assert is_chosen(convolve, IMAGES, KERNEL)
    assert is_chosen(lambda x, k: jax.nn.relu(convolve(convolve(x, k), k) + 1), IMAGES, KERNEL)


@pytest.mark.usefixtures("known_machine")
@pytest.mark.parametrize(("count", "stride"), [(2, 1), (2, 2), (40, 1)])
def test_gradients_of_weights_are_computed_by_onednn(count, stride):
    axes = [make_axis(64, 3, stride, 1, "SAME")] * 2
    compute = functools.partial(gradient_by_image, axes=axes)
    size = 64 // stride
    assert is_chosen(compute, images(count, 64, 64, 32), images(count, size, size, 24))


@pytest.mark.usefixtures("known_machine")
@pytest.mark.parametrize(
    ("changes", "shapes"),
    [
        ({"feature_group_count": 2}, (IMAGES, images(3, 3, 4, 8))),
        ({"batch_group_count": 2}, (IMAGES, KERNEL)),
        ({"lhs_dilation": (2, 1), "padding": [(1, 1)] * 2}, (IMAGES, KERNEL)),
        ({"padding": [(-1, 1), (1, 1)]}, (IMAGES, KERNEL)),
        ({"dimension_numbers": ("NCHW", "HWIO", "NHWC")}, (images(2, 8, 64, 64), KERNEL)),
        ({"dimension_numbers": ("NHWC", "OIHW", "NHWC")}, (IMAGES, images(8, 8, 3, 3))),
        ({}, (images(2, 64, 64, 8, dtype=np.float16), images(3, 3, 8, 8, dtype=np.float16))),
    ],
)
def test_one_other_convolution_keeps_a_program_from_onednn(changes, shapes):
    """It might not support that one, and would then end the process."""
    other = functools.partial(convolve, **changes)
    assert not is_chosen(other, *shapes)
    assert not is_chosen(
        lambda x, k, *pair: (convolve(x, k), other(*pair)), IMAGES, KERNEL, *shapes
    )


@pytest.mark.usefixtures("known_machine")
def test_convolutions_on_other_platforms_do_not_count():
    """A kernel may compute them in another way on the CPU."""
    grouped = functools.partial(convolve, feature_group_count=2)

    def compute(x, kernel, small):
        images = jax.lax.platform_dependent(
            x, small, cpu=lambda x, k: x * k[1, 1, 0], default=grouped
        )
        return convolve(images, kernel)

    shapes = IMAGES, KERNEL, images(3, 3, 4, 8)
    assert is_chosen(compute, *shapes)
    everywhere = operations(jax.make_jaxpr(compute)(*shapes).jaxpr)
    assert not onednn.is_for_onednn(everywhere)


@pytest.mark.usefixtures("known_machine")
def test_the_branch_for_all_other_platforms_counts():
    grouped = functools.partial(convolve, feature_group_count=2)

    def compute(x, kernel, small):
        other = jax.lax.platform_dependent(x, small, cuda=lambda x, k: x, default=grouped)
        return convolve(other, kernel)

    assert not is_chosen(compute, IMAGES, KERNEL, images(3, 3, 4, 8))


@pytest.mark.usefixtures("known_machine")
def test_convolutions_of_volumes_are_not():
    shapes = images(2, 8, 32, 32, 8), images(3, 3, 3, 8, 8)
    names = ("NDHWC", "DHWIO", "NDHWC")
    assert not is_chosen(
        functools.partial(convolve, window_strides=(1,) * 3, dimension_numbers=names), *shapes
    )


@pytest.mark.usefixtures("known_machine")
def test_small_convolutions_are_not_worth_the_call():
    assert not is_chosen(convolve, images(1, 28, 28, 8), KERNEL)


@pytest.mark.usefixtures("known_machine")
def test_a_program_with_more_work_in_products_keeps_eigen():
    def both(x, k, a):
        return convolve(x, k), a @ a

    assert is_chosen(both, IMAGES, KERNEL, images(64, 64))
    assert not is_chosen(both, IMAGES, KERNEL, images(512, 512))


def test_other_machines_and_versions_are_left_alone(monkeypatch, known_machine):
    monkeypatch.setattr(onednn, "_MACHINES", ())
    assert not is_chosen(convolve, IMAGES, KERNEL)
    monkeypatch.setattr(onednn, "_MACHINES", (onednn.platform.machine(),))
    monkeypatch.setattr(onednn, "_FIRST_VERSION", (99,))
    assert not is_chosen(convolve, IMAGES, KERNEL)


@pytest.mark.usefixtures("known_machine")
def test_cached_program_does_not_use_onednn(monkeypatch):
    """XLA cannot serialize a program that calls oneDNN."""
    monkeypatch.setattr(compiler_options, "_is_supported", lambda option, value: True)
    closed = jax.make_jaxpr(convolve)(IMAGES, KERNEL)
    assert set(onednn.OPTIONS) <= compiler_options_for(closed).keys()
    assert not set(onednn.OPTIONS) & compiler_options_for(closed, is_kept=True).keys()


@pytest.mark.usefixtures("no_cache_of_jax")  # which cannot keep a program that calls oneDNN
def test_result_is_that_of_xlas_own_convolution():
    rng = np.random.default_rng(0)
    x, kernel, bias = (
        rng.standard_normal(shape, np.float32) for shape in [(1, 40, 33, 8), (3, 5, 8, 24), 24]
    )

    def layer(x, kernel, bias):
        return jax.nn.relu(convolve(x, kernel, rhs_dilation=(2, 1)) + bias)

    lowered = jax.jit(layer).lower(x, kernel, bias)
    options = compiler_options_for(jax.make_jaxpr(layer)(x, kernel, bias))
    result, expected = lowered.compile(options)(x, kernel, bias), lowered.compile()(x, kernel, bias)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
