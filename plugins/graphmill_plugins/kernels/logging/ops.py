"""Kernels that check and print: Assert, Print, PrintV2, Timestamp.

Semantics: tensorflow/core/kernels/logging_ops.cc.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels._tensor_text import summarize as summary_of

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill.spi.files import Broker

_LOGGER = logging.getLogger("graphmill.print")
_LEVELS = {
    "log(info)": logging.INFO,
    "log(warning)": logging.WARNING,
    "log(error)": logging.ERROR,
}


@kernel("Assert", host=True)
def assert_(condition: Value, data: list[Value], summarize: int) -> None:
    """Raise InvalidArgumentError with `data` unless `condition` is true."""
    if condition.ndim != 0:
        raise errors.InvalidArgumentError(f"In[0] should be a scalar: {list(condition.shape)}")
    if not condition:
        text = " ".join(f"[{summary_of(value, summarize)}]" for value in data)
        raise errors.InvalidArgumentError(f"assertion failed: {text}")


@kernel("Print", stateful=True, host=True, effects=("log",))
class PrintKernel:
    """Return the input; print `data` to stderr on the first `first_n` calls (-1: on all)."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._message = construction.attr("message")
        self._remaining_calls = construction.attr("first_n")
        self._summarize = construction.attr("summarize")

    def __call__(self, ctx: OpKernelContext, value: Value, data: list[Value]) -> Value:
        """Return `value`."""
        del ctx
        if self._remaining_calls == 0:
            return value
        self._remaining_calls -= self._remaining_calls > 0
        text = "".join(f"[{summary_of(item, self._summarize)}]" for item in data)
        print(self._message + text, file=sys.stderr)
        return value


@kernel("PrintV2", stateful=True, host=True, effects=("log",), brokered=True)
def print_v2(
    ctx: OpKernelContext, value: Value, output_stream: str, end: str, *, broker: Broker
) -> None:
    """Write a string scalar to stdout, stderr or the log."""
    del ctx
    if value.ndim != 0:
        raise errors.InvalidArgumentError(
            f"Input is expected to be scalar, but got {list(value.shape)}"
        )
    text = decode(value.item())
    if output_stream in ("stdout", "stderr"):
        stream = sys.stdout if output_stream == "stdout" else sys.stderr
        stream.write((text + end).encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        stream.flush()
    elif output_stream in _LEVELS:
        _LOGGER.log(_LEVELS[output_stream], "%s", text)
    elif output_stream.startswith("file://"):
        broker.require("fs.write", output_stream)
        raise errors.UnimplementedError(
            f"PrintV2 to {output_stream}: output to files is not supported; print to stderr or "
            "the log, or use WriteFile"
        )
    else:
        raise errors.InvalidArgumentError(f"Unknown output stream {output_stream!r}")


@kernel("Timestamp", stateful=True, host=True, effects=("clock",))
def timestamp(ctx: OpKernelContext) -> Value:
    """Return the seconds since 1970."""
    del ctx
    return np.float64(time.time())
