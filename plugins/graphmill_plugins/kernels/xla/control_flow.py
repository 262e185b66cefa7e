"""`XlaIf` and `XlaWhile`, which behave like `If` and `While` outside of XLA programs.

Semantics: tensorflow/compiler/tf2xla/kernels (if_op.cc, while_op.cc) and, on the CPU,
tensorflow/core/kernels/functional_ops.cc.
"""

from __future__ import annotations

from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels.functional.ops import if_, while_

FUNCTIONAL = KernelTable([
    KernelDef(
        ops=("XlaIf",),
        function=if_,
        host_memory=("cond",),
        stateful=True,
        async_=True,
        waits=False,
    ),
    KernelDef(ops=("XlaWhile",), function=while_, stateful=True, async_=True, waits=False),
])  # fmt: skip
