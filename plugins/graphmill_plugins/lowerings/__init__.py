"""Checks and lowerings that compilers need for TensorFlow's ops, besides the kernels.

Kernels are traced as functions of an array namespace. Here is declared, by the family of ops, what
compiled code must check (it cannot raise, and some of its functions go wrong for unusual values),
and which ops are worth a program of their own. A compiler plugin finds it in `Host.lowerings`, like
the lowerings of any other plugin.
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
