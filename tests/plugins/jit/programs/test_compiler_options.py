"""Compiler options depend on the operations of a program."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

from graphmill_plugins.jit.programs import compiler_options  # noqa: E402
from graphmill_plugins.jit.programs.compiler_options import (  # noqa: E402
    compiler_options_for,
    primitives,
)


def product():
    return jax.make_jaxpr(lambda a: a @ a)(np.ones((4, 4), np.float32))


def convolution():
    def convolve(x, k):
        names = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=names)

    return jax.make_jaxpr(convolve)(
        np.ones((1, 5, 5, 2), np.float32), np.ones((3, 3, 2, 4), np.float32)
    )


@pytest.fixture
def knows_all(monkeypatch):
    """Make every option supported: JAX 0.8 has none for YNNPACK."""
    monkeypatch.setattr(compiler_options, "_is_supported", lambda option, value: True)


def test_products_are_computed_by_ynnpack(knows_all):
    (value,) = compiler_options_for(product()).values()
    assert "INDIVIDUAL_DOT" in value


def test_convolutions_are_not(knows_all):
    (value,) = compiler_options_for(convolution()).values()
    assert "CONVOLUTION" not in value
    assert "DOT" not in value


@pytest.mark.parametrize(("rows", "library"), [(64, "Eigen"), (1 << 10, "YNNPACK")])
def test_large_products_beside_convolutions_are_for_ynnpack(knows_all, monkeypatch, rows, library):
    """1024 rows are 2^23 and 2^24 multiplications, 64 rows a sixteenth of that."""
    monkeypatch.setattr(compiler_options, "_FIRST_VERSION", (0, 0))
    names = ("NHWC", "HWIO", "NHWC")

    def network(x, kernel, narrow, wide):
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=names)
        return (x @ narrow) @ wide

    shapes = [(1, rows // 16, 16, 128), (3, 3, 128, 128), (128, 64), (64, 256)]
    closed = jax.make_jaxpr(network)(*[jax.ShapeDtypeStruct(one, np.float32) for one in shapes])
    value = compiler_options_for(closed, is_kept=True)[compiler_options._YNN]
    assert ("DOT" in value) == (library == "YNNPACK")


def test_products_beside_convolutions_are_for_eigen_before_jax_0_12(knows_all, monkeypatch):
    monkeypatch.setattr(jax.version, "__version_info__", (0, 11, 0))
    monkeypatch.setattr(compiler_options, "_MIN_MEAN_WORK", 0)
    (value,) = compiler_options_for(convolution()).values()
    assert "DOT" not in value


def test_barriers_stay_until_loops_are_fused():
    """Optimization barriers remain until loops are fused, so that values are computed once."""

    def twice(x):
        y = jax.lax.optimization_barrier(jax.numpy.abs(x) + 1)
        return y[::2] * y[1::2]

    closed = jax.make_jaxpr(twice)(np.ones(64, np.float32))
    options = compiler_options_for(closed)
    compiled = jax.jit(twice).lower(np.ones(64, np.float32)).compile(compiler_options=options)
    assert "opt-barrier" in compiled.as_text()
    assert np.asarray(compiled(np.ones(64, np.float32))).tolist() == [4.0] * 32


def test_program_without_either_keeps_xla_defaults():
    assert compiler_options_for(jax.make_jaxpr(lambda x: x + 1)(1.0)) == {}


def test_other_platforms_are_not_queried():
    assert compiler_options_for(product(), "gpu") == {}


def test_unknown_xla_option_is_dropped(monkeypatch):
    assert not compiler_options._is_supported("xla_cpu_no_such_option", "")
    monkeypatch.setattr(compiler_options, "_is_supported", lambda *_: False)
    assert compiler_options_for(product()) == {}


def test_inner_programs_are_looked_into():
    def loop(a):
        return jax.lax.fori_loop(0, 3, lambda _, b: b @ a, a)

    assert "dot_general" in set(primitives(jax.make_jaxpr(loop)(np.ones((4, 4))).jaxpr))


def chain(length, size):
    def compute(x):
        for _ in range(length // 2):
            x = jax.numpy.tanh(x) + x
        return x

    return compute, jax.make_jaxpr(compute)(np.ones(size, np.float32))


def test_many_functions_on_small_tensors_are_not_fused():
    """Fusing them takes XLA longer than it saves."""
    (value,) = compiler_options_for(chain(1600, 8)[1]).values()
    assert value == "fusion"


def test_large_tensors_few_functions_and_loops_are_fused():
    compute, _ = chain(1600, 8)
    loop = jax.make_jaxpr(lambda x: jax.lax.fori_loop(0, 9, lambda _, y: compute(y), x))
    programs = [chain(1600, 4096)[1], chain(800, 8)[1], loop(np.ones(8, np.float32))]
    assert [compiler_options_for(program) for program in programs] == [{}, {}, {}]


def test_functions_whose_results_are_read_again_are_not_fused():
    """Each would be a separate fusion, which recomputes the operations in between."""

    def compute(x, are_read_again):
        before = x
        for _ in range(40):
            value = jax.numpy.tanh(x)
            x, before = value + (before if are_read_again else 1), value
        return x

    def program(are_read_again, size):
        return jax.make_jaxpr(lambda x: compute(x, are_read_again))(np.ones(size, np.float32))

    assert list(compiler_options_for(program(True, 8)).values()) == ["fusion"]
    assert compiler_options_for(program(False, 8)) == {}
    assert compiler_options_for(program(True, 4096)) == {}


def test_many_additions_are_fused():
    """Fusing them takes less time than compiling them one by one."""

    def add(x):
        y = x
        for _ in range(1600):
            y = y + x
        return y

    assert compiler_options_for(jax.make_jaxpr(add)(np.ones(8, np.float32))) == {}


def recent_sums(x, count, num_results, operation=None):
    """Return the last of many sums, each of the two that are one and three sums before it."""
    values = [x, x + 1, x + 2]
    for _ in range(count):
        values.append(values[-1] + values[-3])
        if operation is not None:
            values[-1] = operation(values[-1])
    return values[-num_results:]


def test_operations_that_many_results_repeat_are_not_fused():
    """Each result would be a fusion of its own, with all operations before it."""

    def options(num_results, size=8):
        x = np.ones(size, np.float32)
        program = jax.make_jaxpr(lambda x: recent_sums(x, 400, num_results))(x)
        return list(compiler_options_for(program).values())

    assert options(20) == ["fusion"]
    assert options(3) == []  # fewer repetitions than operations that would not be fused
    assert options(20, size=4096) == []


def test_operations_between_products_are_not_repeated(knows_all):
    """A fusion after a product does not repeat the operations before the product."""
    x = np.ones((4, 4), np.float32)
    program = jax.make_jaxpr(lambda x: recent_sums(x, 200, 20, lambda y: y @ x))(x)
    assert "fusion" not in compiler_options_for(program).values()


def test_functions_between_many_products_are_fused(knows_all):
    """Products are not fused, so each fusion contains only few functions."""

    def layers(x):
        for _ in range(600):
            x = jax.numpy.tanh(x @ x)
        return x

    options = compiler_options_for(jax.make_jaxpr(layers)(np.ones((4, 4), np.float32)))
    assert "fusion" not in options.values()
