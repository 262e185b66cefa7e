"""Compare a result with the expected one: error, dtype, shape, NaN positions, values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.testing.case import Case
from graphmill.testing.golden import CaseResult, stored_results
from graphmill.testing.runners.kernel_runner import NotApplicableError
from graphmill.testing.tolerances import BACKEND_FACTOR, Tolerance, tolerance_of

if TYPE_CHECKING:
    from graphmill.testing.case_inputs import Values

Run = Callable[[Case], CaseResult | NotApplicableError]

_EPS = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e5m2": 2.0**-2,
    "float8_e4m3fn": 2.0**-3,
}


def verdict(case: Case, run: Run, backend: str) -> str:
    """Run a case and return how its result differs from the stored one; "" if it does not.

    Args:
        case: the case.
        run: runs it.
        backend: "numpy", "jax", "session" or "jit"; selects the tolerances and the `skip` reasons.

    Raises:
        NotApplicableError: the case does not apply to this runner.
    """
    if backend in case.skip:
        raise NotApplicableError(case.skip[backend])
    stored = stored_results(case.stem).get(case.id)
    if stored is None or stored.digest != case.digest:
        return "there is no up-to-date stored result; run tools/make_op_cases.py"
    result = run(case)
    if isinstance(result, NotApplicableError):
        raise result
    return difference(case, stored.result, result, backend)


def difference(
    case: Case, expected: CaseResult, actual: CaseResult, backend: str, *, slack: float = 1.0
) -> str:
    """Return how `actual` differs from the expected result; "" if it does not.

    Args:
        case: the case, which states how to compare and may override the tolerance.
        expected: TensorFlow's result.
        actual: graphmill's result.
        backend: the backend that computed it: "numpy", "jax", "session" or "jit".
        slack: factor for the tolerance.
    """
    if backend == "jax" and case.error_from == "values" and not actual.error:
        return ""  # a compiled kernel cannot check values
    if case.differs:
        if actual.error != case.error or not case.expect:
            return _error_difference(case.error, actual)
        expected = CaseResult(
            tuple(one.values() for one in case.expect), tuple(one.dtype for one in case.expect)
        )
    if expected.error or actual.error:
        return _error_difference(expected.error, actual)
    if len(expected.outputs) != len(actual.outputs):
        return f"{len(actual.outputs)} outputs, expected {len(expected.outputs)}"
    for index, (expected_value, actual_value) in enumerate(
        zip(expected.outputs, actual.outputs, strict=True)
    ):
        dtypes = expected.dtypes[index], actual.dtypes[index]
        mode = "shape" if index in case.unspecified else case.compare
        message = _output_difference(
            expected_value, actual_value, dtypes, mode, _Bound(case, backend, slack)
        )
        if message:
            return f"output {index}: {message}"
    return ""


def _error_difference(expected: str, actual: CaseResult) -> str:
    if expected == actual.error:
        return ""
    outcome = f"{actual.error} ({actual.message})" if actual.error else f"a result {_brief(actual)}"
    return f"expected {expected or 'a result'}, got {outcome}"


def _brief(result: CaseResult) -> str:
    return ", ".join(
        f"{d}{list(v.shape)}" for d, v in zip(result.dtypes, result.outputs, strict=True)
    )


def _output_difference(
    expected: Values, actual: Values, dtypes: tuple[str, str], mode: str, bound: _Bound
) -> str:
    if dtypes[0] != dtypes[1]:
        return f"dtype {dtypes[1]}, expected {dtypes[0]}"
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    if mode == "shape" or expected.size == 0:
        return ""
    if mode == "set":
        expected, actual = np.sort(expected, axis=None), np.sort(actual, axis=None)
    eps = 0.0 if mode == "exact" else _EPS.get(dtypes[0], 0.0)
    if not eps:
        return _exact_difference(expected, actual)
    kind = np.complex128 if dtypes[0].startswith("complex") else np.float64
    return _close_difference(expected, actual, bound, eps, kind)


class _Bound:
    """Computes the allowed difference of one output."""

    def __init__(self, case: Case, backend: str, slack: float) -> None:
        self._tolerance: Tolerance = tolerance_of(case.op)
        self._factor = BACKEND_FACTOR[backend] * slack
        self._close = case.close
        self._slack = slack

    def of(self, expected: Values, eps: float) -> Values:
        size = np.abs(expected)
        if self._close is not None:
            return np.asarray((self._close.rtol * size + self._close.atol) * self._slack)
        finite = size[np.isfinite(size)]
        scale = float(finite.max(initial=0.0)) if self._tolerance.by_scale else 1.0
        unit = eps * self._factor
        return np.asarray(
            self._tolerance.rtol * unit * size + self._tolerance.atol * unit * max(scale, 1e-30)
        )


def _exact_difference(expected: Values, actual: Values) -> str:
    same = (expected == actual) | ((expected != expected) & (actual != actual))
    return "" if np.all(same) else _first(expected, actual, ~np.asarray(same, bool))


def _close_difference(
    expected: Values, actual: Values, bound: _Bound, eps: float, kind: Any
) -> str:
    wide_expected, wide_actual = expected.astype(kind), actual.astype(kind)
    expected_nan, actual_nan = np.isnan(wide_expected), np.isnan(wide_actual)
    if not np.array_equal(expected_nan, actual_nan):
        return "NaN positions differ: " + _first(expected, actual, expected_nan != actual_nan)
    with np.errstate(all="ignore"):
        equal = (wide_expected == wide_actual) | expected_nan
        allowed = np.broadcast_to(bound.of(wide_expected, eps), expected.shape)
        close = np.abs(wide_actual - wide_expected) <= allowed
    wrong = ~(equal | (close & np.isfinite(wide_expected)))
    return _first(expected, actual, wrong) + _allowed(allowed[wrong]) if wrong.any() else ""


def _allowed(differences: Values) -> str:
    """Return the allowed difference of the first wrong element, as part of a message."""
    first = float(differences[0])
    if not np.isfinite(first):
        return ""  # an infinity must be equal
    return f"; they may differ by {first:.2g} (`close` of the case sets another tolerance)"


def _first(expected: Values, actual: Values, wrong: Values) -> str:
    where = tuple(int(i) for i in np.argwhere(np.atleast_1d(wrong))[0]) if expected.ndim else ()
    count = int(np.count_nonzero(wrong))
    first = f"first at {list(where)}: {actual[where]!r}, expected {expected[where]!r}"
    return f"{count} of {expected.size} differ, {first}"
