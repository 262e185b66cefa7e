"""The cached JAX array of a variable is freed when its value is replaced (clause S11)."""

from __future__ import annotations

from weakref import ref

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

from graphmill import dtypes
from graphmill.runtime.resources.compiler_form import forms_of
from graphmill.runtime.resources.variables import Variable
from graphmill_plugins.jit.programs.buffer_cache import array_behind, remember_array

pytestmark = pytest.mark.jax

jax = pytest.importorskip("jax")

SHAPE = [1000]
GRAPH = graph_def(
    "v = VarHandleOp(dtype=float32, shape=[1000], shared_name='v')",
    "start = AssignVariableOp(v, x)",
    "add = AssignAddVariableOp(v, x)",
    "read = ReadVariableOp(v, dtype=float32, after=[add])",
    "y = Mul(read, x)",
    x="float32[1000]",
)


def variable_with(array):
    variable = Variable(dtypes.float32, (3,))
    variable.value = np.asarray(array)
    remember_array(variable, variable.value, array)
    return variable


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_buffer_is_found_while_value_is_unchanged_s11(dtype):
    array = jax.numpy.ones(3, dtype)
    variable = variable_with(array)
    assert array_behind(variable, variable.value) is array
    assert array_behind(variable, np.array(variable.value)) is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_cache_is_dropped_with_the_value_s11(dtype):
    array = jax.numpy.ones(3, dtype)
    variable = variable_with(array)
    gone = ref(array)
    del array
    assert array_behind(variable, variable.value) is gone()
    assert gone() is not None
    variable.value = np.zeros(3, np.float32)
    assert gone() is None


def test_interpreted_update_replaces_the_compiled_value_s11():
    ones = np.ones(SHAPE, np.float32)
    with HotSession(GRAPH) as session:
        session.run([], {"x:0": ones}, targets=["start"])
        assert session.run("y:0", {"x:0": ones})[0] == 2
        assert any(one.num_compiled for c in session.clusters for one in c.signatures)
        device = session.session._impl.devices.host
        variable = device.resource_mgr.lookup("", "v", Variable)
        kept = ref(*forms_of([variable], type(jax.numpy.ones(1))))
        assert kept() is not None
        variable.value = ones
        assert kept() is None
        assert session.run("y:0", {"x:0": ones})[0] == 2
