"""`compile_cluster` and its programs: constants, variables, checks, faults (clauses S6, S12)."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import body, inputs_of

import graphmill
from graphmill import dtypes
from graphmill.lowering.policies.effects_policy import EffectsPolicy
from graphmill.runtime.resources.variables import ResourceHandle, Variable
from graphmill_plugins.jit.ir.errors import NeedsStatic, NotTraceable
from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies

pytestmark = pytest.mark.jax

jax = pytest.importorskip("jax")

from graphmill_plugins.jit.programs import compiler  # noqa: E402 - needs JAX
from graphmill_plugins.jit.programs.compiled_cluster import ProgramFailedError  # noqa: E402

STEP = SimpleNamespace(is_cancelled=False, stats_collector=None)
VARIABLE = "v = VarHandleOp(dtype=float32, shape=[2], shared_name='v')"
ADD = ("add = AssignAddVariableOp(v, x)", "read = ReadVariableOp(v, dtype=float32, after=[add])")
PICK = ("k = Const(dtype=int32, value='int32: 0')", "part = GatherV2(x, i, k)")


class Compiled:
    """A body compiled for some values."""

    def __init__(self, made, values):
        bodies = ScheduledBodies(made, graphmill.default_host(), EffectsPolicy())
        self.inputs = inputs_of(bodies.main)
        self.cluster = compiler.compile_cluster(bodies, self.inputs, values)

    def __call__(self, *values):
        return [np.asarray(value).tolist() for value in self.cluster(values, STEP)]


def floats(*values):
    return np.array(values, np.float32)


def handle_of(*values):
    variable = Variable(dtypes.float32, (len(values),), "v")
    variable.value = floats(*values)
    return variable, ResourceHandle("", "", "v", "Variable", variable)


def with_variable(*nodes, **placeholders):
    return body(VARIABLE, *nodes, **placeholders)


# ------------------------------------------------------------------------------------ what it gives


def test_program_matches_its_nodes_s6():
    values = [floats(1, 2)]
    compiled = Compiled(body("a = Mul(x, x)", "y = AddV2(a, x)", x="float32[2]"), values)
    assert compiled(*values) == [[2, 6]]
    assert compiled(floats(3, 4)) == [[12, 20]]


def test_program_key_is_its_input_signature_s6():
    compiled = Compiled(body("y = Neg(x)", x="float32[2]"), [floats(1, 2)])
    assert compiled.cluster.key == compiled.inputs.key([floats(5, 6)])
    assert compiled.cluster.key != compiled.inputs.key([floats(5, 6, 7)])


def test_static_result_needs_no_program_s6():
    values = [floats(1, 2)]
    compiled = Compiled(body("s = Shape(x)", "y = AddV2(s, s)", x="float32[2]"), values)
    assert compiled(*values) == [[4]]
    assert compiled.cluster([floats(1, 2)], STEP)[0].dtype == np.int32


def test_large_constant_expressions_are_computed_once_s6():
    text = "c = Const(dtype=float32, value='float32[64,64] fill 2')"
    values = [np.ones((64, 64), np.float32)]
    compiled = Compiled(body(text, "d = Mul(c, c)", "y = AddV2(d, x)", x="float32[64,64]"), values)
    assert compiled.cluster.num_hoisted
    assert compiled(*values)[0][0][0] == 5


# ---------------------------------------------------------------------------------------- variables


def test_a_variable_gets_its_new_value_s6():
    variable, handle = handle_of(1, 2)
    made = with_variable(*ADD, x="float32[2]")
    compiled = Compiled(made, values_for(made, handle, floats(1, 1)))
    assert compiled(*values_for(made, handle, floats(1, 1))) == [[2, 3]]
    assert compiled(*values_for(made, handle, floats(2, 2))) == [[4, 5]]
    assert variable.value.tolist() == [4, 5]
    assert not variable.lock.locked()


def values_for(made, handle, array):
    """Return the values of a body's inputs: its arguments, then its variables."""
    assert [dtype.name for dtype in made.arg_types] == ["float32"]
    return [array, handle]


def test_a_variable_without_a_value_is_not_compiled_s6():
    variable, handle = handle_of(1, 2)
    variable.value = None
    made = with_variable(*ADD, x="float32[2]")
    with pytest.raises(NotTraceable, match="no value yet"):
        Compiled(made, values_for(made, handle, floats(1, 1)))


def test_uninitialized_variable_is_interpreted_s12():
    variable, handle = handle_of(1, 2)
    made = with_variable(*ADD, x="float32[2]")
    values = values_for(made, handle, floats(1, 1))
    compiled = Compiled(made, values)
    variable.value = None
    with pytest.raises(compiler.CheckFailedError):
        compiled(*values)
    assert not variable.lock.locked()


def test_no_update_of_another_thread_is_lost_s6():
    variable, handle = handle_of(0, 0)
    made = with_variable(*ADD, x="float32[2]")
    values = values_for(made, handle, floats(1, 1))
    compiled = Compiled(made, values)
    threads = [
        threading.Thread(target=lambda: [compiled(*values) for _ in range(100)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert variable.value.tolist() == [400, 400]


# ------------------------------------------------------------------------------- checks and faults


def test_check_that_fails_is_interpreted_s12():
    made = body(*PICK, x="float32[2]", i="int32[1]")
    order = [dtype.name for dtype in made.arg_types]

    def values(index):
        both = {"float32": floats(1, 2), "int32": np.array([index], np.int32)}
        return [both[name] for name in order]

    compiled = Compiled(made, values(0))
    assert compiled(*values(1)) == [[2]]
    with pytest.raises(compiler.CheckFailedError) as failed:
        compiled(*values(2))
    assert not failed.value.args  # the compiled form is kept


@pytest.mark.parametrize(
    "error", [ValueError("a layout"), TypeError("a type"), MemoryError("none left")]
)
def test_uncallable_program_is_interpreted_s12(error, monkeypatch):
    variable, handle = handle_of(1, 2)
    made = with_variable(*ADD, x="float32[2]")
    values = values_for(made, handle, floats(1, 1))
    compiled = Compiled(made, values)

    def fail(*_):
        raise error

    monkeypatch.setattr(compiled.cluster, "_program", fail)
    with pytest.raises(ProgramFailedError, match=str(error)):
        compiled(*values)
    assert variable.value.tolist() == [1, 2]
    assert not variable.lock.locked()


def test_required_static_value_names_its_node_s12():
    made = body("a = Neg(x)", "y = Reshape(a, i)", x="float32[2]", i="int32[1]")
    both = {"float32": floats(1, 2), "int32": np.array([2], np.int32)}
    with pytest.raises(NeedsStatic) as needs:
        Compiled(made, [both[dtype.name] for dtype in made.arg_types])
    node, positions = needs.value.needed
    assert (node.op, positions) == ("Reshape", (1,))


def test_a_type_of_half_octets_is_in_no_cluster_s12():
    with pytest.raises(ValueError, match="0 clusters"):
        body("y = Identity(x)", x="float4_e2m1fn[2]")
