"""Results of programs are arguments of others without a conversion."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
from tests.plugins.jit.small_graphs import HotSession, graph_def  # noqa: E402

from graphmill.runtime.resources.compiler_form import forms_of  # noqa: E402
from graphmill.runtime.resources.variables import Variable  # noqa: E402
from graphmill_plugins.jit.programs.memory import HostMemory  # noqa: E402


@pytest.fixture
def memory():
    return HostMemory(jax.devices("cpu")[0])


@pytest.fixture
def array():
    return jax.jit(lambda x: x + 1)(np.arange(12, dtype=np.float32).reshape(3, 4))


def test_the_array_behind_a_result_is_the_argument(memory, array):
    assert memory.as_argument(memory.as_value(array)) is array


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:2],
        lambda x: x.reshape(4, 3),
        lambda x: x.view(np.int32),
        lambda x: np.asarray(memoryview(x.base)[::-1]),
        lambda x: np.frombuffer(x.base, np.float32),
    ],
    ids=["part", "reshaped", "other dtype", "reversed", "flat"],
)
def test_another_view_of_a_result_is_the_argument_itself(memory, array, view):
    value = view(memory.as_value(array))
    assert memory.as_argument(value) is value


def test_memory_of_others_is_the_argument_itself(memory):
    value = np.asarray(memoryview(bytearray(b"abcd")))
    assert memory.as_argument(value) is value


def test_beside_donated_arrays_a_result_stays_a_view(memory, array):
    value = memory.as_value(array)
    assert memory.as_separate_argument(value) is value


COUNTERS = graph_def(
    "v = VarHandleOp(dtype=bfloat16, shape=[3], shared_name='v')",
    "w = VarHandleOp(dtype=float32, shape=[3], shared_name='w')",
    "b = Cast(x, DstT=bfloat16)",
    "start_v = AssignVariableOp(v, b)",
    "start_w = AssignVariableOp(w, x, after=[start_v])",
    "add_v = AssignAddVariableOp(v, b)",
    "add_w = AssignAddVariableOp(w, x, after=[add_v])",
    "read = ReadVariableOp(w, dtype=float32, after=[add_w])",
    "y = Neg(read)",
    "end_v = DestroyResourceOp(v)",
    "end_w = DestroyResourceOp(w, after=[end_v])",
    x="float32[3]",
)


@pytest.fixture
def counters():
    with HotSession(COUNTERS) as session:
        session.run([], {"x:0": np.ones(3, np.float32)}, targets=["start_w"])
        yield session


def variables_of(session):
    manager = session.session._impl.devices.host.resource_mgr
    return [manager.lookup("", name, Variable) for name in "vw"]


def test_programs_leave_arrays_in_variables(counters):
    """Values are converted when somebody reads them, and stay what they were."""
    feeds = {"x:0": np.ones(3, np.float32)}
    variables = variables_of(counters)
    reads = []
    for count in range(2, 9):
        assert counters.run("y:0", feeds).tolist() == [-count] * 3
        reads.append([variable.value for variable in variables])
        assert all(type(value) is np.ndarray for value in reads[-1])
    assert None not in forms_of(variables, type(jax.numpy.ones(1)))
    for count, values in enumerate(reads, 2):
        assert [value.tolist() for value in values] == [[count] * 3] * 2


def test_variables_that_hold_arrays_can_be_destroyed(counters):
    counters.run("y:0", {"x:0": np.ones(3, np.float32)})
    counters.run("y:0", {"x:0": np.ones(3, np.float32)})
    counters.run([], {"x:0": np.ones(3, np.float32)}, targets=["end_w"])
    assert counters.session._impl.devices.host.resource_mgr.names() == []


def test_outputs_that_could_not_be_computed_change_nothing(memory):
    class Failed:
        def block_until_ready(self):
            raise ValueError("failed")

    variable = Variable(None, (3,))
    value = variable.value = np.zeros(3)
    with pytest.raises(ValueError, match="failed"):
        memory.replace_all([variable], [Failed()])
    assert variable.value is value
