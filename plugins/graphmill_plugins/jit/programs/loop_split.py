"""Split a traced program at its long loops into stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jax.extend import core

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.programs.hoist import part_of
from graphmill_plugins.jit.programs.preemptible_loops import StagedProgram
from graphmill_plugins.jit.programs.program_cache import ProgramCache, compile_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, slots=True)
class LoopPositions:
    """The positions of a loop program's inputs and outputs.

    Attributes:
        limit: position of the iteration budget among its inputs.
        count: position of the iteration count among its inputs.
        carried: position of the first loop-carried input; the others follow.
        counted: position of the iteration count among its outputs.
    """

    limit: int
    count: int
    carried: int
    counted: int


@dataclass(slots=True)
class Stage:
    """One part of a split program.

    Attributes:
        function: the function to compile.
        inputs, outputs: slots of its arguments and results.
        loop: positions of its budget and counts, if it is a loop; None otherwise.
        donated: positions of inputs that no later stage reads.
        last_read: slots that no later stage reads.
        call: the compiled `function`.
    """

    function: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    loop: LoopPositions | None = None
    donated: tuple[int, ...] = ()
    last_read: tuple[int, ...] = ()
    call: Any = None


@dataclass(slots=True)
class SplitProgram:
    """A program split into stages.

    Attributes:
        stages: the stages, in order.
        first: the initial values of the slots: constants, and None for the others.
        shapes: shape and dtype of each slot.
        arguments, results: slots of the arguments, without the iteration budget, and the results.
    """

    stages: list[Stage]
    first: list[Any]
    shapes: list[Any]
    arguments: list[int]
    results: list[int]


def split_at_loops(closed: core.ClosedJaxpr, num_loops: int) -> SplitProgram:
    """Split a program (`jax.make_jaxpr`, flat) into stages.

    Args:
        closed: the program. Its last argument is the maximum number of iterations of a loop in one
            call; its last results are the iteration counts of the long loops.
        num_loops: the number of long loops.

    Raises:
        NotTraceable: an iteration count is not an output of a loop.
    """
    jaxpr = closed.jaxpr
    slots = _Slots(closed)
    *_, limit = jaxpr.invars
    results, counts = jaxpr.outvars[:-num_loops], set(jaxpr.outvars[-num_loops:])
    stages: list[Stage] = []
    eqns: list[Any] = []
    rest = list(jaxpr.eqns)
    for position, eqn in enumerate(rest):
        if not counts & set(eqn.outvars):
            eqns.append(eqn)
            continue
        if eqn.primitive.name != "while":
            raise NotTraceable(f"the trip count of a loop depends on {eqn.primitive.name}")
        _add_straight(stages, closed, eqns, [*rest[position:]], results, slots)
        eqns = []
        stages.append(_loop(eqn, limit, counts, slots))
    _add_straight(stages, closed, eqns, [], results, slots)
    split = SplitProgram(
        stages,
        slots.first,
        slots.shapes,
        [slots.of(v) for v in jaxpr.invars[:-1]],
        [slots.of(v) for v in results],
    )
    _note_last_reads(split)
    return split


class _Slots:
    """Assigns a slot to each variable of a program."""

    def __init__(self, closed: core.ClosedJaxpr) -> None:
        self._indices: dict[Any, int] = {}
        self.first: list[Any] = []
        self.shapes: list[Any] = []
        for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            self.first[self.of(variable)] = value

    def of(self, variable: Any) -> int:
        if not isinstance(variable, core.Var):  # a literal
            self.first.append(variable.val)
            self.shapes.append(variable.aval)
            return len(self.first) - 1
        index = self._indices.get(variable)
        if index is None:
            index = self._indices[variable] = len(self.first)
            self.first.append(None)
            self.shapes.append(variable.aval)
        return index


def _add_straight(
    stages: list[Stage],
    closed: core.ClosedJaxpr,
    eqns: list[Any],
    later: Iterable[Any],
    results: Sequence[Any],
    slots: _Slots,
) -> None:
    """Add a stage of equations without long loops, if a later stage needs any of its outputs."""
    read = {v for eqn in later for v in eqn.invars if isinstance(v, core.Var)}
    read.update(v for v in results if isinstance(v, core.Var))
    outputs = [v for eqn in eqns for v in eqn.outvars if v in read]
    if not outputs:
        return
    outputs_of_eqns = {v for eqn in eqns for v in eqn.outvars}
    inputs = dict.fromkeys(
        v
        for eqn in eqns
        for v in eqn.invars
        if isinstance(v, core.Var) and v not in outputs_of_eqns
    )
    fixed = set(closed.jaxpr.constvars)
    dynamic = [v for v in inputs if v not in fixed]
    function = part_of(closed.jaxpr, eqns, dynamic, outputs, closed.consts)
    input_slots, output_slots = tuple(map(slots.of, dynamic)), tuple(map(slots.of, outputs))
    stages.append(Stage(function, input_slots, output_slots))


def _loop(eqn: Any, limit: Any, counts: set[Any], slots: _Slots) -> Stage:
    carried = eqn.params["cond_nconsts"] + eqn.params["body_nconsts"]
    counted = next(index for index, v in enumerate(eqn.outvars) if v in counts)

    def function(*values: Any) -> Any:
        return eqn.primitive.bind(*values, **eqn.params)

    positions = LoopPositions(eqn.invars.index(limit), carried + counted, carried, counted)
    inputs = tuple(slots.of(v) for v in eqn.invars)
    return Stage(function, inputs, tuple(slots.of(v) for v in eqn.outvars), positions)


def _note_last_reads(split: SplitProgram) -> None:
    """Record which slots are freed after each stage, and which a loop may reuse."""
    live = set(split.results)
    fixed = {slot for slot, value in enumerate(split.first) if value is not None}
    for stage in reversed(split.stages):
        dead = set(stage.inputs) - live - fixed
        stage.last_read = tuple(dead)
        if stage.loop is not None:
            mine = dead - set(split.arguments)
            stage.donated = tuple(
                position
                for position, slot in enumerate(stage.inputs)
                if position >= stage.loop.carried
                and position != stage.loop.count
                and slot in mine
                and stage.inputs.count(slot) == 1
            )
        live |= set(stage.inputs)


def compile_stages(
    split: SplitProgram, options: dict[str, Any], cache: ProgramCache | None
) -> StagedProgram:
    """Compile the stages of a program."""
    jax = jax_module()
    for stage in split.stages:
        shapes = [split.shapes[slot] for slot in stage.inputs]
        inputs = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in shapes]
        jitted = jax.jit(stage.function, keep_unused=True, donate_argnums=stage.donated)
        stage.call = compile_program(jitted.lower(*inputs), options, cache).call
    return StagedProgram(split.stages, split.first, split.arguments, split.results)
