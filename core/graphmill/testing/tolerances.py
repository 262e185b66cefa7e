"""Look up the tolerance of a result; `tolerances.toml` holds the reasons.

A tolerance is in units of the dtype's machine epsilon: a value is correct if it differs from
TensorFlow's by at most `rtol * eps * |expected| + atol * eps * scale`, where `scale` is 1, or the
largest finite |expected| of that output if `by_scale`. Integers, bools and strings must be equal.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("tolerances.toml")

# XLA fuses multiply-adds, reassociates, and uses its own approximations of exp, log, tanh etc.
BACKEND_FACTOR = {"numpy": 1.0, "session": 1.0, "jax": 2.0, "jit": 2.0}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of an op; see the module for the formula."""

    rtol: float
    atol: float
    why: str
    by_scale: bool = False


def tolerance_of(op: str) -> Tolerance:
    """Return the tolerance of an op."""
    table = tolerances()
    return table.get(op, table["default"])


@functools.cache
def tolerances() -> dict[str, Tolerance]:
    """Read the tolerances by op; "default" is that of all other ops."""
    table: dict[str, Tolerance] = {}
    for name, row in tomllib.loads(_FILE.read_text("utf-8")).items():
        ops = row.pop("ops", name).split()
        table.update(dict.fromkeys(ops, Tolerance(**row)))
    return table
