"""Compare the results of random op instances with TensorFlow's."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphmill.testing.case import parse_cases
from graphmill.testing.compare import difference
from graphmill.testing.runners.subprocess_runner import CRASHED, HANGS, NO_CASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.testing.golden import Answer

# What TensorFlow says where it has no kernel for the types or options; ours may have one.
_NO_KERNEL = (
    *("No OpKernel was registered", "Could not find device", "Cannot assign a device"),
    *("Signature mismatch", "Invalid output dtype", "does not yet support", "only support"),
)
# Classes between which TensorFlow itself is not consistent; any of them refuses the instance.
_REFUSALS = frozenset(
    ("InvalidArgument", "Unimplemented", "Internal", "ResourceExhausted", "Unknown")
)
# Values drawn at random meet places where a formula loses digits; cases are chosen to avoid them.
_SLACK = 16.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """A difference that stays as it is, and why. All patterns that are given must be found.

    Attributes:
        pattern: of `<op> <difference>`.
        why: the reason.
        ops: no other than these, if there are any.
        instance: of the instance's text.
        tensorflow: of what TensorFlow says.
    """

    pattern: str
    why: str
    ops: str = ""
    instance: str = ""
    tensorflow: str = ""

    def covers(self, op: str, difference: str, text: str = "", message: str = "") -> bool:
        """Whether this difference is meant, by TensorFlow's message of an instance's text."""
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


def outcome_without_answer(wanted: Answer) -> str:
    """Return the outcome where TensorFlow has no answer; empty if it has one."""
    if wanted.error == NO_CASE:
        return "no case"
    if wanted.error in (CRASHED, HANGS):
        return "end TensorFlow"
    return "wait" if wanted.error == "DeadlineExceeded" else ""


def judge(
    text: str, wanted: Answer, ask: Callable[[str], Answer], backend: str, *, strict: bool = False
) -> tuple[str, str]:
    """Return the outcome of an instance, and for "differ" the difference.

    Args:
        text: the instance, as a case file.
        wanted: TensorFlow's answer.
        ask: gives ours; not called where TensorFlow has no say.
        backend: whose answer that is: "numpy", "session" or "jax".
        strict: report known differences, too.
    """
    unsaid = outcome_without_answer(wanted)
    if unsaid:
        return unsaid, ""
    if any(words in wanted.message for words in _NO_KERNEL):
        return "without a kernel of TensorFlow's", ""
    if backend == "jax" and wanted.error:
        return "not applicable", ""
    got = ask(text)
    if got.error.startswith("<") and got.error not in (CRASHED, HANGS):
        return "not applicable", ""  # no case of ours, or a value that no attr can hold
    (case,) = parse_cases(text, "sweep")
    detail = difference(case, wanted, got, backend, slack=_SLACK)
    if detail and _are_refusals(wanted, got) and not _is_fault(got):
        return "refuse with another class", ""
    if detail and not strict and is_known(case.op, detail, text, wanted.message):
        return "differ for a known reason", ""
    if detail:
        return "differ", detail
    return ("agree on an error" if wanted.error else "agree"), ""


def is_known(op: str, detail: str, text: str, message: str) -> bool:
    """Return whether `op_instances_accepted.toml` has an entry that covers a difference."""
    return any(entry.covers(op, detail, text, message) for entry in accepted())


def _are_refusals(wanted: Answer, got: Answer) -> bool:
    """Whether both refuse: here for want of a kernel, too, where TensorFlow dislikes a shape."""
    have = "InvalidArgument" if "no kernel for op" in got.message else got.error
    return {wanted.error, have} <= _REFUSALS


def _is_fault(got: Answer) -> bool:
    """Return whether a kernel crashed on an input that it should have refused."""
    return got.error == "Internal" and "the kernel " in got.message
