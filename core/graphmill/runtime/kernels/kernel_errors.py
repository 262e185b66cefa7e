"""Convert exceptions of kernels to status errors with node, op, device and plugin (clause S12).

Executors call these functions around plugins' code; `failure_at` does all that a failing node
needs.
"""

from __future__ import annotations

import re
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import (
    CancelledError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from graphmill.registry import Provenance
from graphmill.runtime.dead import DEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.node import Node
    from graphmill.runtime.kernels.op_kernel import OpKernel
    from graphmill.typing import Value

_FED: Final = re.compile(r"^_arg_(.+)_\d+_\d+$")
"""The name of the node that represents a fed tensor, formatted with node, output and index."""
MAX_MESSAGE: Final = 16_384
"""Characters of the message of a failed node; the middle of a longer one is omitted."""
_MAX_INPUTS: Final = 8
"""The maximum number of inputs of a failed node that are described."""
_COPIES: Final = ("to_device", "to_host")
"""Methods of a device that copy values; kernels and executors call them."""
_TRANSFERS: Final = ("send", "recv_async")
"""Methods of a rendezvous, which a plugin's transport may have created; kernels call them."""
# What NumPy and kernels raise for bad values; any other class is a bug of the kernel.
_BAD_VALUE: Final = (ValueError, IndexError, OverflowError, ZeroDivisionError)
# What kernels and executors use of any value.
_ARRAY_MEMBERS: Final = frozenset({"astype", "dtype", "nbytes", "ndim", "reshape", "shape", "size"})


def as_status(error: BaseException, kernel: OpKernel | None) -> OpError:
    """Return `error` as a status error; the original is its cause."""
    if isinstance(error, OpError):
        return error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, MemoryError):
        status: OpError = ResourceExhaustedError(f"out of memory: {text}")
    elif isinstance(error, RecursionError):
        status = ResourceExhaustedError(f"functions call each other too deeply: {text}")
    elif (fault := _fault_below(error)) is not None:
        what, plugin = fault
        status = InternalError(f"{what} failed: {text}{_no_array_note(error)}", plugin=plugin)
    elif isinstance(error, _BAD_VALUE):
        status = InvalidArgumentError(str(error) or text)
    else:
        source = kernel.definition.source if kernel is not None else "of the executor"
        status = InternalError(f"the kernel {source} failed: {text}{_no_array_note(error)}")
    status.__cause__ = error
    return status


def _fault_below(error: BaseException) -> tuple[str, str | None] | None:
    """Return the method of a device or transport that raised an error, and its plugin.

    None stands for an error of the kernel or executor that called it, or of an unknown plugin.
    """
    from graphmill.runtime.devices.device import Device  # it imports this package
    from graphmill.runtime.rendezvous import Rendezvous

    for frame, _ in walk_tb(error.__traceback__):
        name, called = frame.f_code.co_name, frame.f_locals.get("self")
        method = f"{type(called).__module__}.{type(called).__qualname__}.{name}"
        if name in _COPIES and isinstance(called, Device):
            return f"{method} of the device {called.name}", None
        if name in _TRANSFERS and isinstance(called, Rendezvous) and hasattr(called, "owner"):
            return f"{method} of {called.owner}", called.owner.error_plugin
    return None


def _no_array_note(error: BaseException) -> str:
    """Return a hint if an `AttributeError` shows that a device's value is not array-like, or ""."""
    if not isinstance(error, AttributeError) or error.name not in _ARRAY_MEMBERS:
        return ""
    kind = type(error.obj)
    if kind.__module__ == "builtins" or issubclass(kind, (np.ndarray, np.generic)):
        return ""
    return (
        f". If {kind.__module__}.{kind.__qualname__} is what a device plugin's to_device returns, "
        f"it must have {error.name!r} like an array of NumPy; the page 'Write a device' says what "
        "else kernels need"
    )


def step_cancelled(reason: OpError | None) -> OpError:
    """Return the error of a step that was cancelled for `reason`.

    A deadline belongs to the step; another reason may be shared by many steps, so each step gets a
    copy to which its node is added. If the reason is the error of a node, which the step reports
    itself, the copy is derived.
    """
    if isinstance(reason, DeadlineExceededError):
        return reason
    cancelled = CancelledError("the step was cancelled" + (f": {reason.message}" if reason else ""))
    cancelled.is_derived = reason is not None and reason.node is not None
    return cancelled


def not_a_scalar(value: Value) -> InvalidArgumentError:
    """Return the error of a predicate or index of control flow v1 that has dimensions."""
    return InvalidArgumentError(
        f"The second input must be a scalar, but it has shape {list(value.shape)}"
    )


def with_reason(error: OpError, reason: OpError | None) -> OpError:
    """Return the error of a node in a step that `reason` has cancelled (None: it was not).

    A node that only noticed the cancellation before the executor did is not at fault.
    """
    if reason is None or not isinstance(error, CancelledError):
        return error
    error.is_derived = True
    if isinstance(reason, DeadlineExceededError):
        return reason
    if reason.message not in error.message:
        error.message += f": {reason.message}"
    return error


def failure_at(
    error: BaseException,
    node: Node,
    kernel: OpKernel | None,
    *,
    device: str,
    reason: OpError | None,
    iteration: str = "",
    inputs: Sequence[Value] | None = None,
) -> OpError:
    """Return an exception raised at a node as a status error that names the node.

    Args:
        error: the exception.
        node, kernel: the failed node and its kernel.
        device: name of the device.
        reason: the error that cancelled the step (`ExecutorArgs.cancel_reason`), or None; a
            deadline is returned itself, with the node that noticed it.
        iteration: frame and iteration, such as `while:3`; empty outside of loops.
        inputs: the node's inputs, whose types and shapes become a note; None if they are unknown.
    """
    status = with_reason(as_status(error, kernel), reason)
    if len(status.message) > MAX_MESSAGE:
        status.message = _shortened(status.message)
    is_own = status.node is None and not isinstance(status, (CancelledError, DeadlineExceededError))
    if inputs and is_own:
        status.add_note(_inputs_note(node, inputs))
    return at_node(status, node, kernel, device, iteration)


def _shortened(message: str) -> str:
    """Return the start and the end of a message, which may contain a value of millions of items."""
    half = MAX_MESSAGE // 2
    omitted = len(message) - 2 * half
    return f"{message[:half]} … ({omitted} characters omitted) … {message[-half:]}"


def _inputs_note(node: Node, inputs: Sequence[Value]) -> str:
    described = [
        " ".join((_FED.sub(r"\1", edge.tensor_name), dtype.name, _shape_text(value, dtype)))
        for edge, dtype, value in zip(node.in_edges, node.input_types, inputs, strict=False)
    ]
    more = f", and {len(described) - _MAX_INPUTS} more" if len(described) > _MAX_INPUTS else ""
    return f"inputs of '{node.name}': {', '.join(described[:_MAX_INPUTS])}{more}"


def _shape_text(value: Value, dtype: DType) -> str:
    if value is DEAD:
        return "dead"
    if dtype.kind == "h" and not hasattr(value, "shape"):
        return "[]"
    shape = getattr(value, "shape", None)  # None of a variable without a value
    return str(list(shape)) if isinstance(shape, tuple) else type(value).__name__


def done_twice(node_name: str) -> InternalError:
    """Return the error of an asynchronous kernel that called `done` more than once."""
    return InternalError(f"the kernel of {node_name!r} called done twice")


def at_node(
    error: OpError, node: Node, kernel: OpKernel | None, device: str, iteration: str = ""
) -> OpError:
    """Add node, op and device to an error that has none yet; return it.

    Args:
        error: the error; if a node inside of a called function raised it, it keeps that node.
        node, kernel: what failed.
        device: name of the device.
        iteration: frame and iteration, such as `while:3`; empty outside of loops.
    """
    if error.node is None:
        add_iteration(error, iteration)
    return error.locate(
        node=node.name,
        op_type=node.op,
        device=device,
        plugin=_plugin_of(kernel),
        node_def=_node_def_maker(node),
    )


def _plugin_of(kernel: OpKernel | None) -> str | None:
    owner = None if kernel is None else kernel.owner
    if isinstance(owner, Provenance):
        return owner.error_plugin
    return None if owner is None else str(owner)


def add_iteration(error: OpError, iteration: str) -> None:
    """Append frame and iteration to the message of an error, if there are any."""
    if iteration:
        error.message += f" (in iteration {iteration})"


def _node_def_maker(node: Node) -> Callable[[], Any]:
    def make() -> Any:
        from graphmill.graph.formats.import_export import node_to_node_def

        return node_to_node_def(node)

    return make
