"""Store tensors in the session between runs: get, read and delete them by handle.

Semantics: tensorflow/core/kernels/session_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.spi import ResourceHandle, kernel
from graphmill.spi.kernels import dtype_of_value, has_dtype
from graphmill_plugins.kernels.state.value import keepable

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value


def _state(ctx: OpKernelContext) -> Any:
    state = ctx.session_state
    if state is None:
        raise FailedPreconditionError(
            "session tensors need a session, and this step runs without one"
        )
    return state


def _store(ctx: OpKernelContext, value: Value) -> str:
    handle: str = _state(ctx).add(ctx.node_name, value, ctx.device.name, ctx.step_id)
    return handle


@kernel("GetSessionHandle", stateful=True, effects={"state"})
def get_session_handle(ctx: OpKernelContext, value: Value) -> Value:
    """Store a tensor in the session if its handle is fetched; return the handle as a string."""
    handle = np.empty((), object)
    handle[()] = _store(ctx, keepable(value)).encode()
    return handle


@kernel("GetSessionHandleV2", stateful=True, effects={"state"})
def get_session_handle_v2(ctx: OpKernelContext, value: Value) -> ResourceHandle:
    """Store a tensor in the session if its handle is fetched; return it as a resource."""
    name = _store(ctx, keepable(value))
    stored = _state(ctx).reference(name)
    return ResourceHandle(ctx.device.name, "session", name, "SessionTensor", stored)


@kernel("GetSessionTensor", stateful=True, effects={"state"})
def get_session_tensor(ctx: OpKernelContext, handle: Value, dtype: np.dtype[Any]) -> Value:
    """Return a tensor stored in the session."""
    value = _state(ctx).get(_text(handle))
    if not has_dtype(value, as_dtype(dtype)):
        raise InvalidArgumentError(
            f"the stored tensor is of {dtype_of_value(value)}, the node expects {dtype}"
        )
    return value


@kernel("DeleteSessionTensor", stateful=True, effects={"state"})
def delete_session_tensor(ctx: OpKernelContext, handle: Value) -> None:
    """Delete a tensor stored in the session."""
    _state(ctx).delete(_text(handle))


def _text(handle: Value) -> str:
    content: bytes = handle.item() if isinstance(handle, np.ndarray) else handle
    return content.decode("utf-8", "surrogateescape")
