"""Hoist computations that depend only on constants out of a program.

Constants are arguments of a compiled program, so XLA cannot fold them. Computations on constants
alone (transposed weights, the scale of a batch normalization) would run again in each call. `hoist`
moves these equations to another program, which runs once. Its results replace the constants as
arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jax.extend import core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_GROWTH: Final = 5  # a hoisted result may be this many times larger than its inputs
_MAX_ENLARGED_BYTES: Final = 1 << 16  # smaller hoisted results may grow by more


@dataclass(frozen=True, slots=True)
class Hoisted:
    """The two halves of a program: the hoisted one and the rest.

    Attributes:
        prepare: takes all constants, in the order of `constants`; returns the values that
            `program` takes instead. It runs once, jitted or not.
        program: takes the prepared values and then the other arguments; returns the outputs.
        early: `prepare` as a closed jaxpr.
        closed: `program` as a closed jaxpr.
        constants: positions of the constants among the arguments of the whole program.
        moved: how many equations moved to `prepare`.
    """

    prepare: Callable[..., list[Any]]
    program: Callable[..., list[Any]]
    early: core.ClosedJaxpr
    closed: core.ClosedJaxpr
    constants: tuple[int, ...]
    moved: int


def hoist(closed: core.ClosedJaxpr, constants: Sequence[int]) -> Hoisted:
    """Split a traced program (`jax.make_jaxpr(f)(…)`, flat arguments) into constant part and rest.

    Args:
        closed: the program.
        constants: positions of the arguments that are the same in every call.
    """
    jaxpr = closed.jaxpr
    positions = tuple(constants)
    static = {jaxpr.invars[index] for index in positions} | set(jaxpr.constvars)
    early, late = [], []
    for eqn in jaxpr.eqns:
        if _is_movable(eqn, static):
            static.update(eqn.outvars)
            early.append(eqn)
        else:
            late.append(eqn)
    early, late = _with_numbers(early, late)
    used = _read_by(late)
    used.update(v for v in jaxpr.outvars if isinstance(v, core.Var))
    used -= {v for eqn in late for v in eqn.outvars}
    carried = [v for v in _in_order(jaxpr, positions, early) if v in used]
    fixed = set(positions)
    dynamic = [v for index, v in enumerate(jaxpr.invars) if index not in fixed]
    inputs = [jaxpr.invars[index] for index in positions]
    first = closed_part(jaxpr, early, inputs, carried, closed.consts)
    program = closed_part(jaxpr, late, [*carried, *dynamic], jaxpr.outvars, closed.consts)
    functions = core.jaxpr_as_fun(first), core.jaxpr_as_fun(program)
    return Hoisted(*functions, first, program, positions, len(early))


def _with_numbers(early: list[Any], late: list[Any]) -> tuple[list[Any], list[Any]]:
    """Move broadcasts of scalars into the late half, so that only the scalars are passed to it.

    Otherwise each broadcast tensor would become an argument of the program.
    """
    used = _read_by(late)
    repeated = [eqn for eqn in early if _repeats_number(eqn) and not used.isdisjoint(eqn.outvars)]
    if not repeated:
        return early, late
    needed = _read_by(early)
    superfluous = {id(eqn) for eqn in repeated if needed.isdisjoint(eqn.outvars)}
    return [eqn for eqn in early if id(eqn) not in superfluous], [*repeated, *late]


def _repeats_number(eqn: Any) -> bool:
    inputs = [v for v in eqn.invars if isinstance(v, core.Var)]
    is_larger = any(v.aval.shape for v in eqn.outvars)
    return is_larger and not any(v.aval.shape for v in inputs)


def _read_by(eqns: Sequence[Any]) -> set[Any]:
    return {v for eqn in eqns for v in eqn.invars if isinstance(v, core.Var)}


def _in_order(jaxpr: core.Jaxpr, positions: Sequence[int], eqns: Sequence[Any]) -> list[Any]:
    inputs = [jaxpr.invars[index] for index in positions]
    return [*inputs, *(v for eqn in eqns for v in eqn.outvars)]


def _is_movable(eqn: Any, static: set[Any]) -> bool:
    """Return whether an equation depends only on `static` and does not enlarge its inputs much."""
    if eqn.effects or not eqn.invars:
        return False
    inputs = [v for v in eqn.invars if isinstance(v, core.Var)]
    if not inputs or any(v not in static for v in inputs):
        return False
    output_bytes = sum(bytes_of(v) for v in eqn.outvars)
    return output_bytes <= max(_MAX_ENLARGED_BYTES, _GROWTH * sum(bytes_of(v) for v in inputs))


def bytes_of(variable: Any) -> int:
    """Return the size of a program's variable in bytes."""
    aval = variable.aval
    return int(np.prod(aval.shape, dtype=np.int64)) * int(aval.dtype.itemsize)


def part_of(
    whole: core.Jaxpr,
    eqns: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    consts: Sequence[Any],
) -> Callable[..., list[Any]]:
    """Return a function of some equations of a program, to be run or traced.

    Args:
        whole: the program.
        eqns: the equations, in their order.
        inputs, outputs: variables of the program.
        consts: values of its constants.
    """
    function: Callable[..., list[Any]] = core.jaxpr_as_fun(
        closed_part(whole, eqns, inputs, outputs, consts)
    )
    return function


def closed_part(
    whole: core.Jaxpr,
    eqns: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    consts: Sequence[Any],
) -> core.ClosedJaxpr:
    """Return some equations of a program as a closed jaxpr; see `part_of`."""
    names = whole.debug_info._replace(
        arg_names=("",) * len(inputs), result_paths=("",) * len(outputs)
    )
    part = core.Jaxpr(whole.constvars, list(inputs), list(outputs), list(eqns), debug_info=names)
    return core.ClosedJaxpr(part, consts)
