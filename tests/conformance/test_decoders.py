"""Kernels that parse strings handle malformed text with results or typed errors.

Hypothesis damages one of the strings of a stored case, or replaces it by other bytes. So every op
that decodes files, messages, numbers, patterns or characters is tested without being named here,
including ops that are added later.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphmill.errors import OpError
from graphmill.testing.case import load_cases
from graphmill.testing.runners.kernel_runner import KernelRunner, NotApplicableError

if TYPE_CHECKING:
    from graphmill.testing.case import Case

pytestmark = pytest.mark.divided

EXAMPLES = 15
_MAX_TEXT_BYTES = 3_000  # bytes; longer texts are cut, which is a damage as well


def takes_text(case: Case) -> bool:
    """Return whether some input of a case is an array of strings."""
    flat = [one for tree in case.inputs for one in (tree if isinstance(tree, tuple) else (tree,))]
    return any(one.dtype == "string" for one in flat)


@functools.cache
def cases_by_op() -> dict[str, list[Case]]:
    """Return the cases with strings that a kernel supports without a session."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case in load_cases():
        if case.program is None and takes_text(case):
            found[case.op].append(case)
    return dict(found)


@st.composite
def damage(draw: Any, text: bytes) -> bytes:
    """Change, remove or insert a few bytes."""
    content = bytearray(text[:_MAX_TEXT_BYTES])
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(content)))
        if draw(st.booleans()):
            content[place : place + 1] = bytes([draw(st.integers(0, 255))])
        else:
            content[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=6))
    return bytes(content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content)


@pytest.mark.parametrize("op", sorted(cases_by_op()))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_text_is_answered_or_refused(op: str, graphmill_host: Any, data: Any) -> None:
    case = data.draw(st.sampled_from(cases_by_op()[op]))
    try:
        bound = KernelRunner(graphmill_host.ops, graphmill_host.kernels).bind(case)
    except (NotApplicableError, OpError):
        return
    if bound.kernel.definition.effects:
        return
    inputs = [changed(data, value) if is_text(value) else value for value in bound.inputs]
    try:
        with np.errstate(all="ignore"):
            bound.call(inputs)
    except OpError:
        return


def is_text(value: Any) -> bool:
    """Return whether a value is a string array."""
    return isinstance(value, bytes) or np.asarray(value).dtype.kind == "O"


def changed(data: Any, value: Any) -> Any:
    """Return an array with one of its strings changed."""
    array = np.array(value, object)
    if array.size:
        place = data.draw(st.integers(0, array.size - 1))
        old = array.reshape(-1)[place]
        array.reshape(-1)[place] = data.draw(st.one_of(st.binary(max_size=40), damage(old)))
    return array
