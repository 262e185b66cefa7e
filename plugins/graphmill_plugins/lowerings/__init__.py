"""Checks and lowerings that compilers need for TensorFlow's ops, besides the kernels.

Compilers trace kernels as functions of an array namespace. The modules of this package declare, by
family of ops, the conditions that compiled code must check (it cannot raise, and some of its
functions are wrong for unusual values), and the ops that may form a cluster alone. Compiler plugins
find these declarations in `Host.lowerings`, like those of any other plugin.

A module is imported when one of its ops is first compiled. `_ops` lists the ops of each module: a
declaration that is not in this list has no effect. tools/make_kernel_index.py writes it. The
section "Lowerings of built-in ops" in docs/howto/lowering.md describes how to add one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl
from graphmill_plugins.lowerings._ops import OPS

if TYPE_CHECKING:
    from graphmill.spi import LoweringRegistrar


@hookimpl
def graphmill_register_lowerings(lowerings: LoweringRegistrar) -> None:
    """Register each module for its ops; it is imported when one of them is compiled."""
    for module, ops in OPS.items():
        lowerings.add_module(f"{__name__}.{module}", ops.split())
