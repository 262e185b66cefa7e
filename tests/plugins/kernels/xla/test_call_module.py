"""XlaCallModule: programs in StableHLO that JAX exported."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InvalidArgumentError, UnimplementedError

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.ones((3, 4), np.float32)


def _program(*platforms: str):
    from jax import export

    def function(x, y):
        return x @ y, x.sum()

    shapes = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in (X, Y)]
    exported = export.export(jax.jit(function), platforms=platforms or ("cpu",))(*shapes)
    return exported.mlir_module_serialized, exported.calling_convention_version


def _run(graphmill_host, module, version, *, args=(X, Y), **attrs):
    settings = {"Sout": [(2, 4), ()], "Tout": ["float32", "float32"], **attrs}
    with graphmill.Graph().as_default() as graph:
        made = ops.xla.xla_call_module(list(args), version=version, module=module, **settings)
    with graphmill.Session(graph=graph, host=graphmill_host) as session:
        return session.run(list(made))


@pytest.mark.parametrize("platforms", [("cpu",), ("cpu", "tpu")])
def test_program_computes_its_results(graphmill_host, platforms):
    module, version = _program(*platforms)
    product, total = _run(
        graphmill_host, module, version, platforms=[name.upper() for name in platforms]
    )
    np.testing.assert_allclose(product, X @ Y)
    assert total == X.sum()


def test_argument_of_another_shape_is_refused(graphmill_host):
    module, version = _program()
    with pytest.raises(InvalidArgumentError, match="XlaCallModule"):
        _run(graphmill_host, module, version, args=(X[:1], Y))


def test_program_for_another_platform_is_refused(graphmill_host):
    module, version = _program("tpu")
    with pytest.raises(InvalidArgumentError, match="platform"):
        _run(graphmill_host, module, version, platforms=["TPU"])


@pytest.mark.parametrize(
    "attrs",
    [{"Sout": [(None, 4), ()]}, {"has_token_input_output": True}, {"dim_args_spec": ["0.0"]}],
)
def test_unsupported_program_is_refused(graphmill_host, attrs):
    module, version = _program()
    with pytest.raises(UnimplementedError, match="XlaCallModule"):
        _run(graphmill_host, module, version, **attrs)
