"""Nodes that compute nothing, assertions, and results that nobody reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi import lowering
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.tracing.values import Absent

if TYPE_CHECKING:
    from graphmill_plugins.jit.tracing.node_trace import NodeTrace


@lowering("NoOp", "ControlTrigger")
def nothing(_: NodeTrace) -> None:
    """Compute nothing: control edges are kept by the order of nodes."""


@lowering("FakeParam")
def fake_param(_: NodeTrace) -> Absent:
    """Return what stands for a value that nobody reads."""
    return Absent()


@lowering("Assert")
def check_condition(trace: NodeTrace, condition: Any, *_: Any) -> None:
    """Check the condition; where it fails, the interpreter reports the data."""
    if np.ndim(condition):
        raise NotTraceable("its condition is no scalar")
    trace.require(condition)
