"""Reasons why the kernels of a cluster cannot be traced."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.tracing.traced_kernels import attempted


def looks_at_values(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def test_a_function_that_looks_at_traced_values_is_named() -> None:
    def trace(x: Any) -> Any:
        return attempted(looks_at_values, [x], "mine.looks_at_values", None)

    with pytest.raises(NotTraceable, match=r"mine\.looks_at_values needs the values of traced"):
        jax.make_jaxpr(trace)(np.ones(2, np.float32))
