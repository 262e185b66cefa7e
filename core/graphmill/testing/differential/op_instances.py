"""Compare the results of random op instances with TensorFlow's."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmill.deprecations import renamed_name
from graphmill.testing.case import parse_cases
from graphmill.testing.compare import difference
from graphmill.testing.runners.subprocess_runner import CRASHED, HANGS, NO_CASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.testing.golden import CaseResult

# TensorFlow's messages if it has no kernel for the types or options; graphmill may have one.
_NO_KERNEL = (
    *("No OpKernel was registered", "Could not find device", "Cannot assign a device"),
    *("Signature mismatch", "Invalid output dtype", "does not yet support", "only support"),
)
# Error classes that TensorFlow uses inconsistently; any of them counts as a refusal.
_REFUSALS = frozenset(
    ("InvalidArgument", "Unimplemented", "Internal", "ResourceExhausted", "Unknown")
)
# Random values may hit points where a formula loses digits; stored cases avoid these.
_SLACK = 16.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted difference and its reason. All non-empty patterns must match.

    Attributes:
        pattern: pattern for `<op> <difference>`.
        why: the reason.
        ops: only these ops; empty for all.
        instance: pattern for the instance's text.
        tensorflow: pattern for TensorFlow's message.
    """

    pattern: str
    why: str
    ops: str = ""
    instance: str = ""
    tensorflow: str = ""

    def covers(self, op: str, difference: str, text: str = "", message: str = "") -> bool:
        """Return whether this entry accepts a difference."""
        if self.ops and op not in self.ops.split():
            return False
        pairs = (
            (self.pattern, f"{op} {difference}"),
            (self.instance, text),
            (self.tensorflow, message),
        )
        return all(re.search(pattern, detail, re.DOTALL) for pattern, detail in pairs)


@functools.cache
def accepted() -> tuple[Accepted, ...]:
    """Read the accepted differences."""
    text = Path(__file__).with_name("op_instances_accepted.toml").read_text("utf-8")
    return tuple(Accepted(**row) for row in tomllib.loads(text)["accepted"])


def outcome_without_result(expected: CaseResult) -> str:
    """Return the outcome if TensorFlow has no result; "" if it has one."""
    if expected.error == NO_CASE:
        return "no case"
    if expected.error in (CRASHED, HANGS):
        return "end TensorFlow"
    return "wait" if expected.error == "DeadlineExceeded" else ""


def classify(
    text: str,
    expected: CaseResult,
    run: Callable[[str], CaseResult],
    backend: str,
    *,
    strict: bool = False,
) -> tuple[str, str]:
    """Return the outcome of an instance, and for "differ" the difference.

    Args:
        text: the instance, as a case file.
        expected: TensorFlow's result.
        run: returns graphmill's result; not called if TensorFlow has none.
        backend: the backend that computes it: "numpy", "session" or "jax".
        strict: whether to report accepted differences too.
    """
    outcome = outcome_without_result(expected)
    if outcome:
        return outcome, ""
    if any(words in expected.message for words in _NO_KERNEL):
        return "TensorFlow has no kernel", ""
    if backend == "jax" and expected.error:
        return "not applicable", ""
    actual = run(text)
    if actual.error.startswith("<") and actual.error not in (CRASHED, HANGS):
        return "not applicable", ""  # not a valid case here, or a value that no attr can hold
    (case,) = parse_cases(text, "sweep")
    detail = difference(case, expected, actual, backend, slack=_SLACK)
    if detail and _are_refusals(expected, actual) and not _is_fault(actual):
        return "refuse with another class", ""
    if detail and not strict and is_known(case.op, detail, text, expected.message):
        return "differ for a known reason", ""
    if detail:
        return "differ", detail
    return ("agree on an error" if expected.error else "agree"), ""


def is_known(op: str, detail: str, text: str, message: str) -> bool:
    """Return whether `op_instances_accepted.toml` has an entry that covers a difference."""
    return any(entry.covers(op, detail, text, message) for entry in accepted())


def _are_refusals(expected: CaseResult, actual: CaseResult) -> bool:
    """Return whether both refuse; a missing kernel counts as an invalid argument."""
    error = "InvalidArgument" if "no kernel for op" in actual.message else actual.error
    return {expected.error, error} <= _REFUSALS


def _is_fault(result: CaseResult) -> bool:
    """Return whether a kernel crashed on an input that it should have refused."""
    return result.error == "Internal" and "the kernel " in result.message


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
