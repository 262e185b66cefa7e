"""Mark traced steps and their kernels in a profile of JAX's profiler.

The names are those of TensorFlow's `profiler::TraceMe`, so that a viewer relates the work of the
host to that of XLA's devices. Only traced steps are marked, and only while a profile is running: a
mark costs five microseconds.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from graphmill.graph.node import Node


def is_profiled() -> bool:
    """Return whether a profile of JAX's profiler is running, so that kernels should be marked."""
    annotation = _of_profiler("TraceAnnotation")
    if annotation is None:
        return False
    is_enabled = getattr(annotation, "is_enabled", None)
    return is_enabled is None or bool(is_enabled())


def activity(node: Node, step_id: int, device: str) -> AbstractContextManager[Any]:
    """Return a context that marks the call of a node's kernel.

    Args:
        node: the node.
        step_id: id of the step.
        device: name of the device.
    """
    annotation = _of_profiler("TraceAnnotation")
    if annotation is None:
        return nullcontext()
    marked: AbstractContextManager[Any] = annotation(
        f"{node.name}:{node.op}", step_id=step_id, device=device
    )
    return marked


def step_activity(step_id: int) -> AbstractContextManager[Any]:
    """Return a context that marks a step, by which TensorBoard groups the activities in it."""
    annotation = _of_profiler("StepTraceAnnotation")
    if annotation is None or not is_profiled():
        return nullcontext()
    marked: AbstractContextManager[Any] = annotation("SessionRun", step_num=step_id)
    return marked


def _of_profiler(name: str) -> Any:
    """Return an attribute of `jax.profiler` if the process has imported it; else None.

    Without the module there is no profile. While another thread imports it, attributes are absent.
    """
    return getattr(sys.modules.get("jax.profiler"), name, None)
