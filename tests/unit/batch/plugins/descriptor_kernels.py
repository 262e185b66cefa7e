"""A kernel that writes to file descriptor 1, like a native library that prints."""

from __future__ import annotations

import os

from graphmill.spi import dtypes, hookimpl, kernel, op


@op("Descriptor>Write", stateful=True)
@kernel("Descriptor>Write")
def write_to_descriptor(xp, text: dtypes.string) -> dtypes.string:
    """Write to standard output behind Python's back."""
    os.write(1, b"half a line")
    return text


@hookimpl
def graphmill_register_ops(ops):
    ops.add(write_to_descriptor)


@hookimpl
def graphmill_register_kernels(kernels):
    kernels.add(write_to_descriptor)
