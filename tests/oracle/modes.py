"""Modes in which random programs are compared with TensorFlow.

XLA takes most of the time of a comparison. `GRAPHMILL_COMPILE_EVERY=8` compiles with it only for
every eighth seed, so that the same time compares several times as many programs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from graphmill.testing.differential.compiled_graphs import jit_config

if TYPE_CHECKING:
    from graphmill import proto


def configs(seed: int) -> dict[str, proto.ConfigProto]:
    """Return the configs to compare the program of a seed with, by name.

    Every program is interpreted and run as straight-line code.
    """
    modes = ["off", "deterministic"]
    if seed % int(os.environ.get("GRAPHMILL_COMPILE_EVERY", "1")) == 0:
        modes.append("eager")
    return {mode: jit_config(mode) for mode in modes}
