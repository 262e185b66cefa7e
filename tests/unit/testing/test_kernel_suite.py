"""`KernelTests` fails a device only for its own faults."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill.testing.case import load_cases
from graphmill.testing.conformance import KernelTests
from graphmill.testing.golden import CaseResult

CASE = next(case for case in load_cases(stems=["math"]) if not case.error)


class Runner:
    def __init__(self, message: str) -> None:
        self.message = message

    def run(self, _case: Any) -> CaseResult:
        return CaseResult(error="Unimplemented", message=self.message)


def test_missing_library_skips_the_case() -> None:
    runner = Runner("files are read with Pillow, which is not installed; run: pip\n [[node]]")
    with pytest.raises(pytest.skip.Exception, match="Pillow, which is not installed"):
        KernelTests().test_op_matches_tensorflow(CASE, runner, "")


def test_unimplemented_kernel_case_is_a_failure() -> None:
    with pytest.raises(AssertionError):
        KernelTests().test_op_matches_tensorflow(CASE, Runner("this corner is not there"), "")
