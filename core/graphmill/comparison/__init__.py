"""Compare what two sessions compute, node by node.

    with graphmill.Session(graph="model.pb") as a, graphmill.Session(graph="model.pb") as b:
        found = graphmill.comparison.compare_sessions(a, b, ["y:0"], {"x:0": [1.0, 2.0]})
    print(found.agrees)  # True

`graphmill compare` does this on the command line. See docs/howto/compare.md.
"""

from __future__ import annotations

from graphmill.comparison.differences import (
    TensorDifference,
    Tolerance,
    difference_of,
    units_in_last_place,
)
from graphmill.comparison.in_float64 import compare_with_float64
from graphmill.comparison.report import Comparison
from graphmill.comparison.sessions import compare_sessions, compare_with_values
from graphmill.comparison.with_recording import compare_with_recording

__all__ = [
    "Comparison",
    "TensorDifference",
    "Tolerance",
    "compare_sessions",
    "compare_with_float64",
    "compare_with_recording",
    "compare_with_values",
    "difference_of",
    "units_in_last_place",
]
