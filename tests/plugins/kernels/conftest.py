"""Fixtures for tests of kernels without graph and session."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill.dtypes import as_dtype
from graphmill.runtime.kernels.op_kernel import OpKernelConstruction, bind
from graphmill.runtime.resources.resource_mgr import ResourceMgr
from graphmill.testing.case_graph import node_attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.kernels.op_kernel import OpKernel


def _dtype(value: Any) -> Any:
    return as_dtype(value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype)


@pytest.fixture
def bind_kernel(graphmill_host: Any) -> Callable[..., OpKernel]:
    """Return a function that binds an op's kernel for given inputs."""

    def make(op: str, *inputs: Any, backend: str = "numpy", **attrs: Any) -> OpKernel:
        op_def = graphmill_host.ops.get(op)
        types = [
            tuple(map(_dtype, value)) if isinstance(value, list) else _dtype(value)
            for value in inputs
        ]
        canonical = node_attrs(op_def, types, attrs)
        choice = graphmill_host.kernels.find(op_def, canonical, "CPU", (backend,))
        xp = np if backend == "numpy" else importlib.import_module("jax.numpy")
        return bind(choice.definition, OpKernelConstruction("n", op_def, canonical, None, xp))

    return make


@pytest.fixture
def call(bind_kernel: Callable[..., OpKernel]) -> Callable[..., Any]:
    """Return a function that runs an op's kernel: inputs by position, attrs by keyword."""

    def run(op: str, *inputs: Any, **attrs: Any) -> Any:
        flat = [one for value in inputs for one in (value if isinstance(value, list) else [value])]
        with np.errstate(all="ignore"):  # as an executor does for the whole step
            kernel = bind_kernel(op, *inputs, **attrs)
            context = (StatefulContext(),) if kernel.definition.stateful else ()
            return kernel.compute(*context, *flat)

    return run


@pytest.fixture
def call_jax(bind_kernel: Callable[..., OpKernel]) -> Callable[..., Any]:
    """Return a function that runs an op's JAX kernel under `jit`; ints and tuples stay static."""
    jax = pytest.importorskip("jax")

    def run(op: str, *inputs: Any, **attrs: Any) -> Any:
        arrays = [_static(value) for value in inputs]
        kernel = bind_kernel(op, *arrays, backend="jax", **attrs)
        moving = [at for at, value in enumerate(inputs) if not isinstance(value, int | tuple)]

        def traced(*values: Any) -> Any:
            by_position = dict(zip(moving, values, strict=True))
            return kernel.compute(*(by_position.get(at, array) for at, array in enumerate(arrays)))

        with jax.enable_x64(True):
            result = jax.jit(traced)(*(arrays[at] for at in moving))
        return np.asarray(result)

    return run


def _static(value: Any) -> Any:
    return np.array(value, np.int32) if isinstance(value, int | tuple) else value


class StatefulContext:
    """A substitute for `OpKernelContext`: the resources of one device, and NumPy."""

    def __init__(self) -> None:
        self.resources = ResourceMgr()
        self.device = SimpleNamespace(name="/device:CPU:0", device_type="CPU")
        self.xp: Any = np
        self.step_container = "step_1"
        self.node_name, self.op = "n", "Op"
        self.cancellation = SimpleNamespace(is_cancelled=False)
        self.state: dict[Any, Any] = {}


@pytest.fixture
def ctx() -> StatefulContext:
    """Return a context for stateful kernels without a session."""
    return StatefulContext()
