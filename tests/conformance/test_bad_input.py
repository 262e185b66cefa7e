"""Kernels handle inputs of wrong shape or value with results or typed errors.

Each op's first case runs again with one input changed. Errors of NumPy itself count as typed:
executors convert them to InvalidArgumentError (graphmill.runtime.kernels.kernel_errors).
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from graphmill.errors import OpError
from graphmill.testing.case import load_cases, parse_cases
from graphmill.testing.runners.kernel_runner import KernelRunner, NotApplicableError
from graphmill.testing.runners.session_runner import SessionRunner

REFUSALS = (OpError, *KernelRunner.refusals)


def changed(value):
    """Yield variants of an input."""
    array = np.asarray(value)
    if array.size:
        yield array.reshape(-1)[:1].reshape(())
    yield array[None]
    yield array.reshape(-1)[:0]
    yield array.reshape(-1)
    if array.ndim:
        yield array[..., :0]
        yield np.concatenate([array, array])
    if array.dtype.kind == "i":
        yield -1 - np.abs(array)
    if array.dtype.kind == "f":
        yield np.full_like(array, np.nan)


@functools.cache
def first_cases():
    """Return the first case of each op that its kernel supports without a session."""
    found = {}
    for case in load_cases():
        if not case.error and case.program is None and case.op not in found:
            found[case.op] = case
    return found


@pytest.mark.parametrize("letter", sorted({op[0] for op in first_cases()}))
def test_changed_inputs_give_answers_or_typed_errors(letter, graphmill_host):
    runner = KernelRunner(graphmill_host.ops, graphmill_host.kernels)
    for op, case in first_cases().items():
        if op.startswith(letter):
            ask_with_changes(runner, case)


def ask_with_changes(runner, case):
    try:
        bound = runner.bind(case)
    except (NotApplicableError, OpError):
        return
    if bound.kernel.definition.effects:
        return
    for place, value in enumerate(bound.inputs):
        for other in () if isinstance(value, list) else changed(value):
            inputs = [*bound.inputs[:place], other, *bound.inputs[place + 1 :]]
            try:
                with np.errstate(all="ignore"):
                    bound.call(inputs)
            except (*REFUSALS, MemoryError):
                continue
            except Exception as error:  # the finding
                shape = list(other.shape)
                raise AssertionError(f"{case.id}, input {place} of shape {shape}") from error


HUGE = list(parse_cases(Path(__file__).with_name("huge.toml").read_text("utf-8"), "huge"))


@pytest.mark.parametrize("case", HUGE, ids=lambda case: case.id)
def test_sizes_beyond_all_memory_are_refused_at_once(case, graphmill_host):
    result = SessionRunner(graphmill_host).run(case)
    assert result.error in {"InvalidArgument", "ResourceExhausted"}, result.message
