"""Compare the gradients of random op instances with TensorFlow's."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.deprecations import renamed_name
from graphmill.testing.case import parse_cases
from graphmill.testing.differential.op_instances import Accepted, outcome_without_result
from graphmill.testing.oracle.gradient_results import FAILS, NO_GRADIENT, NONE, ROWS
from graphmill.testing.runners.subprocess_runner import NO_CASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.testing.case_inputs import Values
    from graphmill.testing.golden import CaseResult

# The allowed difference of gradients, relative to the value plus the largest one in the tensor. It
# is wide because a gradient runs several kernels, and the two systems use different orders.
_BOUND = {
    "float64": 1e-7,
    "complex128": 1e-7,
    "float32": 1e-3,
    "complex64": 1e-3,
    "float16": 5e-2,
    "bfloat16": 2e-1,
}


@functools.cache
def accepted() -> tuple[Accepted, ...]:
    """Read the accepted differences."""
    text = Path(__file__).with_name("gradients_accepted.toml").read_text("utf-8")
    return tuple(Accepted(**row) for row in tomllib.loads(text)["accepted"])


def classify(
    text: str, expected: CaseResult, run: Callable[[str], CaseResult], *, strict: bool = False
) -> tuple[str, str]:
    """Return the outcome of a comparison, and for "differ" the difference.

    Args:
        text: the request and the case, as written by `gradient_results.GradientRequest.text`.
        expected: TensorFlow's result.
        run: returns graphmill's result; not called if TensorFlow has none.
        strict: whether to report accepted differences too.
    """
    outcome = outcome_without_result(expected)
    if outcome:
        return outcome, ""
    if expected.error == NO_GRADIENT:  # JAX may differentiate the kernel here
        return "TensorFlow has no gradient", ""
    actual = run(text)
    if actual.error == NO_CASE and FAILS in actual.message:  # the values differ, not the gradients
        return "only graphmill fails", ""
    detail = difference(expected, actual)
    if expected.error and not actual.error:
        return "only TensorFlow refuses", ""
    (case,) = parse_cases(text, "sweep")
    if detail and not strict and any(entry.covers(case.op, detail) for entry in accepted()):
        return "differ for a known reason", ""
    if detail:
        return "differ", detail
    return ("agree on an error" if expected.error else "agree"), ""


def difference(expected: CaseResult, actual: CaseResult) -> str:
    """Return how gradients differ from TensorFlow's, or ""; any two errors count as equal."""
    if actual.error and (not expected.error or actual.error.startswith("<")):
        return f"expected {expected.error or 'gradients'}, got {actual.error} ({actual.message})"
    if expected.error or actual.error:
        return ""
    rows = zip(expected.outputs, actual.outputs, expected.dtypes, actual.dtypes, strict=True)
    for index, (expected_value, actual_value, expected_type, type_) in enumerate(rows):
        detail = _difference(expected_value, actual_value, expected_type, type_)
        if detail:
            return f"input {index}: {detail}"
    return ""


def _difference(expected: Values, actual: Values, expected_type: str, type_: str) -> str:
    if type_ != expected_type:
        return f"{type_}, expected {expected_type}"
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    if type_ == NONE or not expected.size:
        return ""
    expected_type = expected_type.removesuffix(ROWS)
    kind = np.complex128 if expected_type.startswith("complex") else np.float64
    wide_expected, wide_actual = expected.astype(kind), actual.astype(kind)
    with np.errstate(all="ignore"):
        finite = np.abs(wide_expected[np.isfinite(wide_expected)])
        allowed = _BOUND[expected_type] * (np.abs(wide_expected) + finite.max(initial=0.0))
        alike = (wide_expected == wide_actual) | (np.isnan(wide_expected) & np.isnan(wide_actual))
        alike |= (np.abs(wide_actual - wide_expected) <= allowed) & np.isfinite(wide_expected)
    if alike.all():
        return ""
    where = tuple(int(i) for i in np.argwhere(~np.atleast_1d(alike))[0]) if expected.ndim else ()
    count = int(np.count_nonzero(~alike))
    detail = f"first at {list(where)}: {actual[where]!r}, expected {expected[where]!r}"
    return f"{expected_type}: {count} of {expected.size} differ, {detail}"


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
