"""Stacks: behaviour that op cases do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill_plugins.kernels.data_flow.stack import Stack

X = np.ones(2, np.float32)


def test_pop_returns_pushed_elements():
    stack = Stack("s", dtypes.float32, -1)
    stack.push(X)
    stack.push(None)
    stack.pop()
    assert stack.pop() is X


@pytest.mark.parametrize("action", [lambda stack: stack.push(X), lambda stack: stack.pop()])
def test_a_closed_stack_is_named(action):
    stack = Stack("s", dtypes.float32, -1)
    stack.close()
    with pytest.raises(errors.InvalidArgumentError, match=r"Stack\[s\] has already been closed"):
        action(stack)


def test_error_of_a_full_stack_has_its_size():
    stack = Stack("s", dtypes.float32, 1)
    stack.push(X)
    with pytest.raises(errors.InvalidArgumentError, match=r"max_size \(1\)"):
        stack.push(X)
