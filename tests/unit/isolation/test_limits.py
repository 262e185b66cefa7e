"""Limits of isolated models: positive numbers and known protections."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill.errors import InvalidArgumentError
from graphmill.isolation.limits import PROTECTIONS, IsolationLimits


def test_defaults_require_every_protection() -> None:
    assert IsolationLimits().require == PROTECTIONS == ("landlock", "seccomp")


@pytest.mark.parametrize("value", [0, -1, "many", 1.5, True, None])
def test_limit_that_is_not_a_positive_integer_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"memory_bytes is .* positive integer"):
        IsolationLimits(memory_bytes=value)


def test_time_limits_may_be_fractions() -> None:
    assert IsolationLimits(step_seconds=0.5).step_seconds == 0.5
    for value in (float("nan"), float("inf")):
        with pytest.raises(InvalidArgumentError, match=f"step_seconds is {value}"):
            IsolationLimits(step_seconds=value)


def test_unknown_protection_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidArgumentError, match="'seccomb'; did you mean 'seccomp'"):
        IsolationLimits(require=("seccomb",))
    with pytest.raises(InvalidArgumentError, match="is the string"):
        IsolationLimits(require="seccomp")  # type: ignore[arg-type]


def test_limits_are_parsed_from_texts() -> None:
    parsed = IsolationLimits.parse(["memory_bytes=5", "cpu_seconds=1.5", "require=seccomp"])
    assert parsed == IsolationLimits(memory_bytes=5, cpu_seconds=1.5, require=("seccomp",))
    assert IsolationLimits.parse(["require="]).require == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory=5", "did you mean 'memory_bytes'"),
        ("memory_bytes=2G", "memory_bytes is '2G', expected a positive integer"),
        ("cpu_seconds", "cpu_seconds is '', expected a positive number"),
        ("threads=0", "threads is 0"),
    ],
)
def test_malformed_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        IsolationLimits.parse([text])
