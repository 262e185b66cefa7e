"""Checks reject optimizer scalars that kernels refuse by their sign."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.runtime.resources.variables import Ref

from .conftest import checks_of

REFERENCED = [
    *("ApplyProximalAdagrad", "SparseApplyProximalAdagrad"),
    *("SparseApplyFtrl", "SparseApplyFtrlV2"),
]
GOOD = {"lr": 0.5, "l1": 0.0, "l2": 0.5, "l2_shrinkage": 0.0, "lr_power": -0.5}
BAD = {"lr": -1.0, "l1": -1.0, "l2": -1.0, "l2_shrinkage": -1.0, "lr_power": 1.0}
CTX = SimpleNamespace(xp=np, state={}, args=object())  # of a step that is interpreted


def variable():
    made = Ref(as_dtype(np.float32), (2,), "v")
    made.value = np.ones(2, np.float32)
    return made


def given(op_def, changed):
    """Return inputs with variables of two rows; scalars are valid by default."""
    scalars = {name: np.float32(value) for name, value in {**GOOD, **changed}.items()}
    others = {"grad": np.ones(2, np.float32), "indices": np.arange(2)}
    known = {**scalars, **others}
    return [known[arg.name] if arg.name in known else variable() for arg in op_def.input_args]


@pytest.mark.parametrize("op", REFERENCED)
def test_scalars_with_the_right_signs_are_computed(op, checked, graphmill_host):
    made = checked(op, *given(graphmill_host.ops.get(op), {}))
    assert made.failed_inputs() == []
    made.compute(CTX)


@pytest.mark.parametrize("op", REFERENCED)
def test_scalars_with_wrong_signs_are_refused_by_check_and_kernel(op, checked, graphmill_host):
    op_def = graphmill_host.ops.get(op)
    for name in BAD.keys() & {arg.name for arg in op_def.input_args}:
        made = checked(op, *given(op_def, {name: BAD[name]}))
        assert [check.error for check in made.failed_inputs()] == [InvalidArgumentError], name
        with pytest.raises(InvalidArgumentError, match=f"{name}.* is not a"):
            made.compute(CTX)


@pytest.mark.parametrize("op", REFERENCED)
def test_ops_on_handles_have_the_checks_of_those_on_references(op):
    of_reference, of_handle = checks_of(op), checks_of(f"Resource{op}")
    assert [check.predicate for check in of_handle] == [one.predicate for one in of_reference]
    assert len(of_handle) == 1
