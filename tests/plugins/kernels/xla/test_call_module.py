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
    [{"has_token_input_output": True}, {"dim_args_spec": ["0.0"]}],
)
def test_unsupported_program_is_refused(graphmill_host, attrs):
    module, version = _program()
    with pytest.raises(UnimplementedError, match="XlaCallModule"):
        _run(graphmill_host, module, version, **attrs)


def _polymorphic(*platforms: str):
    from jax import export

    def function(x, y):
        return x @ y, (x * x.shape[0]).reshape(-1)

    rows, columns = export.symbolic_shape("rows, columns")
    shapes = [
        jax.ShapeDtypeStruct((rows, columns), np.float32),
        jax.ShapeDtypeStruct((columns, 4), np.float32),
    ]
    exported = export.export(jax.jit(function), platforms=platforms or ("cpu",))(*shapes)
    return exported.mlir_module_serialized, exported.calling_convention_version


DYNAMIC = {"Sout": [(None, 4), (None,)]}


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("platforms", [("cpu",), ("cpu", "tpu")])
def test_program_with_dynamic_shapes_runs_for_each_shape(graphmill_host, platforms, jit):
    module, version = _polymorphic(*platforms)
    attrs = {**DYNAMIC, "Tout": ["float32"] * 2, "platforms": [one.upper() for one in platforms]}
    with graphmill.Graph().as_default() as graph:
        args = [graph.placeholder("float32", [None, None], name=name) for name in "xy"]
        results = ops.xla.xla_call_module(args, version=version, module=module, **attrs)
        outputs = [ops.math.neg(result) for result in results]
    config = {"graphmill": {"jit": jit}}
    with graphmill.Session(graph=graph, host=graphmill_host, config=config) as session:
        for rows, columns in [(2, 3), (5, 1), (2, 3), (1, 7)]:
            x = np.random.default_rng(rows).normal(size=(rows, columns)).astype(np.float32)
            y = np.ones((columns, 4), np.float32)
            product, flat = session.run(outputs, {"x:0": x, "y:0": y})
            np.testing.assert_allclose(product, -(x @ y), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(flat, -(x * rows).ravel(), rtol=1e-5)


def test_static_results_of_dynamic_arguments_are_computed(graphmill_host):
    from jax import export

    shape = jax.ShapeDtypeStruct(export.symbolic_shape("n"), np.float32)
    exported = export.export(jax.jit(lambda x: (x.sum(), x.mean())))(shape)
    module, version = exported.mlir_module_serialized, exported.calling_convention_version
    total, mean = _run(graphmill_host, module, version, args=(X.ravel(),), Sout=[(), ()])
    assert (total, mean) == (15, 2.5)


@pytest.mark.parametrize(
    ("args", "match"),
    [
        ((X, Y[:2]), r"shapes \[2, 3\], \[2, 4\]"),  # the columns of x are not the rows of y
        ((X, Y[:, :3]), "shapes"),
        ((X.ravel(), Y), "shapes"),
        ((X[:0], Y), "Expected value >= 1 for dimension variable 'rows'"),
        ((X.astype(np.int32), Y), "shapes"),
    ],
)
def test_arguments_that_contradict_a_dynamic_program_are_refused(graphmill_host, args, match):
    module, version = _polymorphic()
    with pytest.raises(InvalidArgumentError, match=match):
        _run(graphmill_host, module, version, args=args, **DYNAMIC)
