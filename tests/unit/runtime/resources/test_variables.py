"""References, handles and variables (clause S10)."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.runtime.resources.variables import Ref, ResourceHandle, Variable


def test_s10_a_variable_has_no_value_before_it_is_assigned() -> None:
    variable = Variable(dtypes.float32, (2,), "v")
    assert not variable.is_initialized
    variable.value = np.zeros(2, np.float32)
    assert variable.is_initialized


def test_s10_reading_uninitialized_ref_names_the_initializer() -> None:
    ref = Ref(dtypes.float32, (), "weights")
    with pytest.raises(errors.FailedPreconditionError, match="uninitialized value weights; run"):
        ref.read()
    ref.value = np.float32(3)
    assert ref.read() == 3


def test_s10_a_handle_gives_its_resource() -> None:
    variable = Variable(dtypes.float32)
    handle = ResourceHandle("/device:CPU:0", "box", "v", "Variable", variable)
    assert handle.expect(Variable) is variable
    assert repr(handle) == "<ResourceHandle Variable box/v on /device:CPU:0>"
    assert dtypes.as_dtype(handle.dtype) is dtypes.resource
    assert (handle.shape, handle.ndim) == ((), 0)


def test_s10_unknown_or_mistyped_handle_is_reported() -> None:
    handle = ResourceHandle("", "box", "v", "Variable")
    with pytest.raises(errors.FailedPreconditionError, match=r"box/v \(Variable\) does not exist"):
        handle.expect(Variable)
    handle.resource = object()
    with pytest.raises(errors.InvalidArgumentError, match="box/v is a object, not a Variable"):
        handle.expect(Variable)
