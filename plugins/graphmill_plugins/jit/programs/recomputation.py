"""Limit the recomputation of values that XLA:CPU fuses into several consumers.

XLA fuses an elementwise computation into everything that reads it, however many readers it has. A
sum that grows from layer to layer (the residual connections of a network, the steps of a stencil)
is then computed anew, from its first operand on, wherever it is read: the work grows with the
square of the number of layers. An optimization barrier behind a value makes XLA store it. It is
placed where a value has several readers and each would read many arrays instead of one, or where
so many read it (the taps of a window) that a few arrays are many in all.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from jax import lax
from jax.extend import core

from graphmill_plugins.jit.programs.compiler_options import platform_branch
from graphmill_plugins.jit.programs.hoist import bytes_of, closed_part

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_READS: Final = 4  # of arrays, for each element of a value that is not stored
_MAX_REPEATED: Final = 32  # reads of arrays by all readers of a value that is not stored
_MAX_FOLLOWED: Final = 64  # reads; further ones change nothing
_MIN_BYTES: Final = 1 << 14  # smaller values stay in the nearest cache
_BARRIER: Final = "optimization_barrier"
# What XLA fuses, element by element, ...
_ELEMENTWISE: Final = frozenset({
    "abs", "add", "add_any", "and", "ceil", "clamp", "convert_element_type", "copy", "cos", "div",
    "eq", "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log",
    "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pow", "rem", "round",
    "rsqrt", "select_n", "sign", "sin", "sqrt", "square", "sub", "tan", "tanh", "xor",
})  # fmt: skip
# ... and of what it reads the same elements in another order, or others.
_REORDERED: Final = frozenset({"broadcast_in_dim", "reshape", "squeeze", "transpose"})
_MOVED: Final = frozenset({"dynamic_slice", "pad", "rev", "slice"})
_CALLS: Final = frozenset({"closed_call", "jit", "pjit"})
_Reads = frozenset[int]  # a number for each array that is read, and for the elements of it


def limit_recomputation(closed: core.ClosedJaxpr, platform: str) -> core.ClosedJaxpr:
    """Return a traced program that stores values that many consumers would recompute.

    Args:
        closed: the program.
        platform: the platform of the device, as JAX names it; others than "cpu" need no limit.
    """
    jaxpr = closed.jaxpr
    if platform != "cpu":
        return closed
    stored = _to_store(jaxpr, platform)
    if not stored:
        return closed
    eqns: list[Any] = []
    for eqn in jaxpr.eqns:
        found = [variable for variable in eqn.outvars if variable in stored]
        if not found:
            eqns.append(eqn)
            continue
        fresh = {variable: _like(variable) for variable in found}
        eqns.append(eqn.replace(outvars=[fresh.get(one, one) for one in eqn.outvars]))
        eqns += [_barrier(fresh[variable], variable, eqn) for variable in found]
    return closed_part(jaxpr, eqns, jaxpr.invars, jaxpr.outvars, closed.consts)


def _to_store(jaxpr: core.Jaxpr, platform: str) -> set[core.Var]:
    """Return the variables that an optimization barrier should store."""
    readers = Counter(
        variable for eqn in jaxpr.eqns for variable in {*filter(_is_variable, eqn.invars)}
    )
    stored: set[core.Var] = set()
    moves = _Moves()
    reads: dict[core.Var, _Reads] = {}
    for eqn in jaxpr.eqns:
        found_of = zip(eqn.outvars, _reads_of(eqn, reads, platform, moves), strict=True)
        for variable, found in found_of:
            count = readers[variable]
            if _is_expensive(len(found), count) and bytes_of(variable) >= _MIN_BYTES:
                stored.add(variable)
                found = _itself(variable)
            reads[variable] = frozenset(islice(found, _MAX_FOLLOWED))
    return stored


def _is_expensive(reads: int, readers: int) -> bool:
    """Return whether reading some arrays for each reader of a value takes longer than storing it.

    A window of many taps reads an image as often, which counts even for an image of few arrays.
    """
    return readers > 1 and (reads > _MAX_READS or (reads - 1) * readers > _MAX_REPEATED)


class _Moves:
    """Numbers for operations of `_MOVED`, the same for equal ones; calls share their operations."""

    def __init__(self) -> None:
        self._found: dict[int, int] = {}

    def number(self, eqn: core.JaxprEqn) -> int:
        """Return the number of an operation."""
        found = self._found.get(id(eqn))
        if found is None:
            found = self._found[id(eqn)] = hash((eqn.primitive.name, str(eqn.params)))
        return found


def _reads_of(
    eqn: core.JaxprEqn, reads: dict[core.Var, _Reads], platform: str, moves: _Moves
) -> Sequence[_Reads]:
    """Return the arrays that are read for one element of each result of an operation."""
    name = eqn.primitive.name
    operands = [
        reads.get(one) or _itself(one) for one in dict.fromkeys(filter(_is_variable, eqn.invars))
    ]
    if name in _ELEMENTWISE:
        return [frozenset().union(*operands)]
    if name in _REORDERED:
        return operands[:1] or [frozenset()]
    if name in _MOVED:
        moved = moves.number(eqn)
        return [frozenset(hash((one, moved)) for one in frozenset().union(*operands[:1]))]
    inner, operands_of_call = _called(eqn, platform)
    if inner is None:
        return [_itself(variable) for variable in eqn.outvars]
    within: dict[core.Var, _Reads] = {}
    for variable, one in zip(inner.invars, operands_of_call, strict=True):
        within[variable] = reads.get(one) or _itself(one) if _is_variable(one) else frozenset()
    for one in inner.eqns:
        within.update(zip(one.outvars, _reads_of(one, within, platform, moves), strict=True))
    return [within.get(one) or frozenset() for one in inner.outvars]


def _called(eqn: core.JaxprEqn, platform: str) -> tuple[core.Jaxpr | None, Sequence[Any]]:
    """Return the program that an operation only calls, with its operands; None if it does more."""
    if eqn.primitive.name in _CALLS:
        closed = next(one for one in eqn.params.values() if isinstance(one, core.ClosedJaxpr))
        return closed.jaxpr, eqn.invars
    return platform_branch(eqn, platform), eqn.invars[1:]


def _itself(variable: core.Var) -> _Reads:
    return frozenset((id(variable),))


def _is_variable(atom: Any) -> bool:
    return isinstance(atom, core.Var)


def _like(variable: core.Var) -> core.Var:
    """Return a new variable of the same type."""
    return type(variable)(variable.aval)


def _barrier(value: core.Var, stored: core.Var, near: core.JaxprEqn) -> core.JaxprEqn:
    return near.replace(
        primitive=lax.optimization_barrier_p,
        invars=[value],
        outvars=[stored],
        params={},
        effects=frozenset(),
    )
