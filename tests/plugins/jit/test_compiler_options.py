"""Options follow the sizes of the products."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

from graphmill_plugins.jit import compiler_options  # noqa: E402
from graphmill_plugins.jit.compiler_options import (  # noqa: E402
    compiler_options_for,
    product_sizes,
)


def square(size: int):
    x = np.ones((size, size), np.float32)
    return jax.make_jaxpr(lambda a: a @ a)(x)


def test_small_products_leave_ynnpack(monkeypatch):
    monkeypatch.setattr(compiler_options, "_is_known", lambda *_: True)
    assert compiler_options_for(square(64)) == {compiler_options._YNN: ""}


@pytest.mark.parametrize("program", [square(512), jax.make_jaxpr(lambda x: x + 1)(1.0)])
def test_others_keep_what_xla_does(program):
    assert compiler_options_for(program) == {}


def test_nothing_is_asked_of_other_platforms():
    assert compiler_options_for(square(64), "gpu") == {}


def test_an_option_that_xla_does_not_know_is_left_out():
    assert not compiler_options._is_known("xla_cpu_no_such_option", "")


def test_products_in_loops_and_convolutions_count():
    def loop(a):
        return jax.lax.fori_loop(0, 3, lambda _, b: b @ a, a)

    assert list(product_sizes(jax.make_jaxpr(loop)(np.ones((4, 4))).jaxpr)) == [128.0]
    convolve = jax.make_jaxpr(
        lambda x, k: jax.lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    )(np.ones((1, 5, 5, 2), np.float32), np.ones((3, 3, 2, 4), np.float32))
    assert list(product_sizes(convolve.jaxpr)) == [2.0 * 5 * 5 * 4 * 18]
