"""Shrink a failing program: drop calls, then resources that no call uses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphmill.testing.generators.session_programs.program import Pending, Run
from graphmill.testing.generators.session_programs.simulation import is_defined

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.testing.generators.session_programs.program import Program


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return a smaller program that also fails.

    Args:
        program: a program for which `fails` is true.
        fails: whether a program shows the failure.
    """
    size = max(len(program.calls) // 2, 1)
    while size:
        start, changed = 0, False
        while start < len(program.calls):
            calls = (*program.calls[:start], *program.calls[start + size :])
            smaller = replace(program, calls=calls)
            if calls and is_defined(smaller) and fails(smaller):
                program, changed = smaller, True
            else:
                start += size
        size = size if changed and size == 1 else size // 2
    return _without_resources(program, fails)


def _without_resources(program: Program, fails: Callable[[Program], bool]) -> Program:
    used = {name for call in program.calls for name in _resources_of(call)}
    *own, arithmetic = program.resources  # other calls use names of the arithmetic
    smaller = replace(program, resources=(*(r for r in own if r.name in used), arithmetic))
    return smaller if fails(smaller) else program


def _resources_of(call: object) -> list[str]:
    if isinstance(call, Run):
        return [step.resource for step in call.steps]
    return [call.waiting.resource] if isinstance(call, Pending) else []
