"""Evaluate the checks of a program before it runs.

A program with donated variables cannot undo its writes. So if its checks are cheap (of a fed index
or a label), they are compiled as a separate program that runs first. Selecting between new and old
values inside the program would be slower: XLA then copies the old values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jax.extend import core

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.programs.hoist import part_of
from graphmill_plugins.jit.programs.program_cache import ProgramCache, compile_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_ELEMENTS: Final = 1 << 16
_COSTLY: Final = frozenset({
    "conv_general_dilated", "cond", "custom_call", "dot_general", "fft", "ffi_call",
    "pure_callback", "scan", "sort", "while",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class GuardProgram:
    """A compiled program that evaluates the guard alone.

    Attributes:
        call: the program.
        positions: the positions of its arguments among those of the whole program.
    """

    call: Any
    positions: tuple[int, ...]

    def holds(self, arguments: Sequence[Any]) -> bool:
        """Return whether all checks hold for the arguments of the whole program."""
        return bool(np.asarray(self.call(*[arguments[index] for index in self.positions])[0]))


def guard_program_for(
    closed: core.ClosedJaxpr, output: int, cache: ProgramCache | None
) -> GuardProgram | None:
    """Compile the computation of the guard; return None if it is expensive.

    Args:
        closed: the program.
        output: position of the guard among its outputs.
        cache: the persistent cache; None for none.
    """
    jaxpr = closed.jaxpr
    guard = jaxpr.outvars[output]
    if not isinstance(guard, core.Var):  # a literal: the program itself returns it
        return None
    eqns = _needed(jaxpr, guard)
    if sum(_elements(eqn.outvars) for eqn in eqns) > _MAX_ELEMENTS or any(
        eqn.primitive.name in _COSTLY or eqn.effects for eqn in eqns
    ):
        return None
    read = {v for eqn in eqns for v in eqn.invars if isinstance(v, core.Var)} | {guard}
    positions = tuple(index for index, v in enumerate(jaxpr.invars) if v in read)
    inputs = [jaxpr.invars[index] for index in positions]
    function = part_of(jaxpr, eqns, inputs, [guard], closed.consts)
    jax = jax_module()
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in inputs]
    lowered = jax.jit(function, keep_unused=True).lower(*shapes)
    return GuardProgram(compile_program(lowered, {}, cache).call, positions)


def _needed(jaxpr: core.Jaxpr, output: Any) -> list[Any]:
    """Return the equations that a variable depends on, in order."""
    needed, equations = {output}, []
    for eqn in reversed(jaxpr.eqns):
        if needed.intersection(eqn.outvars):
            equations.append(eqn)
            needed.update(v for v in eqn.invars if isinstance(v, core.Var))
    return equations[::-1]


def _elements(variables: Iterable[Any]) -> int:
    return sum(prod(variable.aval.shape) for variable in variables)
