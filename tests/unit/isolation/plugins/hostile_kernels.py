"""A kernel that runs any Python code, like an attacker who controls the isolated process.

It declares no effects and opens files behind the broker's back.
"""

from __future__ import annotations

import numpy as np

from graphmill.spi import dtypes, hookimpl, kernel, op


@op("Hostile>Run", stateful=True)
@kernel("Hostile>Run")
def hostile_run(xp, code: dtypes.string) -> dtypes.string:
    """Run code, and return the text that it leaves in `result`."""
    names = {"result": "nothing"}
    exec(np.asarray(code).item().decode(), names)
    return np.array(str(names["result"]).encode(), object)


@hookimpl
def graphmill_register_ops(ops):
    ops.add(hostile_run)


@hookimpl
def graphmill_register_kernels(kernels):
    kernels.add(hostile_run)
