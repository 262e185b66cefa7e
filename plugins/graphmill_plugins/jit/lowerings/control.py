"""Lower ops without computation, assertions, and placeholders of unread results."""

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
    """Compute nothing; the order of nodes preserves control edges."""


@lowering("FakeParam")
def fake_param(_: NodeTrace) -> Absent:
    """Return a placeholder for a value that is never read."""
    return Absent()


@lowering("Assert")
def check_condition(trace: NodeTrace, condition: Any, *_: Any) -> None:
    """Check the condition; if it fails, the interpreter reports the data."""
    if np.ndim(condition):
        raise NotTraceable("its condition is not a scalar")
    trace.require(condition)
