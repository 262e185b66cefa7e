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
        limit: position among its inputs of how many iterations it makes at most.
        count: position among its inputs of how many it has made.
        carried: of the first input that it carries from iteration to iteration; the others follow.
        counted: position among its outputs of how many iterations it has made.
    """

    limit: int
    count: int
    carried: int
    counted: int


@dataclass(slots=True)
class Stage:
    """One part of a split program.

    Attributes:
        function: to be compiled.
        inputs, outputs: slots of what it takes and gives.
        loop: where its numbers are, if it is a loop; None for other parts.
        donated: positions of inputs that nobody reads any more.
        last_read: slots that nothing reads afterwards.
        call: `function`, compiled.
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
        stages: in their order.
        first: what is in the slots at first: constants, and None.
        shapes: shape and type of each slot.
        arguments, results: slots; the limit is none of the arguments.
    """

    stages: list[Stage]
    first: list[Any]
    shapes: list[Any]
    arguments: list[int]
    results: list[int]


def split_at_loops(closed: core.ClosedJaxpr, num_loops: int) -> SplitProgram:
    """Split a program (`jax.make_jaxpr`, flat) into stages.

    Args:
        closed: its last argument is the most iterations that a loop makes in one call, its last
            results are the iterations that each long loop made.
        num_loops: how many these are.

    Raises:
        NotTraceable: what counts iterations is not made by a loop.
    """
    jaxpr = closed.jaxpr
    slots = _Slots(closed)
    *_, limit = jaxpr.invars
    results, counts = jaxpr.outvars[:-num_loops], set(jaxpr.outvars[-num_loops:])
    stages: list[Stage] = []
    eqns: list[Any] = []
    rest = list(jaxpr.eqns)
    for place, eqn in enumerate(rest):
        if not counts & set(eqn.outvars):
            eqns.append(eqn)
            continue
        if eqn.primitive.name != "while":
            raise NotTraceable(f"the trip count of a loop depends on {eqn.primitive.name}")
        _add_straight(stages, closed, eqns, [*rest[place:]], results, slots)
        eqns = []
        stages.append(_loop(eqn, limit, counts, slots))
    _add_straight(stages, closed, eqns, [], results, slots)
    made = SplitProgram(
        stages,
        slots.first,
        slots.shapes,
        [slots.of(v) for v in jaxpr.invars[:-1]],
        [slots.of(v) for v in results],
    )
    _note_last_reads(made)
    return made


class _Slots:
    """Assigns a slot to each variable of a program."""

    def __init__(self, closed: core.ClosedJaxpr) -> None:
        self._numbers: dict[Any, int] = {}
        self.first: list[Any] = []
        self.shapes: list[Any] = []
        for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            self.first[self.of(variable)] = value

    def of(self, variable: Any) -> int:
        if not isinstance(variable, core.Var):  # a literal
            self.first.append(variable.val)
            self.shapes.append(variable.aval)
            return len(self.first) - 1
        number = self._numbers.get(variable)
        if number is None:
            number = self._numbers[variable] = len(self.first)
            self.first.append(None)
            self.shapes.append(variable.aval)
        return number


def _add_straight(
    stages: list[Stage],
    closed: core.ClosedJaxpr,
    eqns: list[Any],
    later: Iterable[Any],
    results: Sequence[Any],
    slots: _Slots,
) -> None:
    """Add the equations without long loops that a later stage needs."""
    read = {v for eqn in later for v in eqn.invars if isinstance(v, core.Var)}
    read.update(v for v in results if isinstance(v, core.Var))
    outputs = [v for eqn in eqns for v in eqn.outvars if v in read]
    if not outputs:
        return
    made = {v for eqn in eqns for v in eqn.outvars}
    inputs = dict.fromkeys(
        v for eqn in eqns for v in eqn.invars if isinstance(v, core.Var) and v not in made
    )
    fixed = set(closed.jaxpr.constvars)
    given = [v for v in inputs if v not in fixed]
    function = part_of(closed.jaxpr, eqns, given, outputs, closed.consts)
    stages.append(Stage(function, tuple(map(slots.of, given)), tuple(slots.of(v) for v in outputs)))


def _loop(eqn: Any, limit: Any, counts: set[Any], slots: _Slots) -> Stage:
    carried = eqn.params["cond_nconsts"] + eqn.params["body_nconsts"]
    counted = next(place for place, v in enumerate(eqn.outvars) if v in counts)

    def function(*values: Any) -> Any:
        return eqn.primitive.bind(*values, **eqn.params)

    positions = LoopPositions(eqn.invars.index(limit), carried + counted, carried, counted)
    inputs = tuple(slots.of(v) for v in eqn.invars)
    return Stage(function, inputs, tuple(slots.of(v) for v in eqn.outvars), positions)


def _note_last_reads(made: SplitProgram) -> None:
    """Record which slots are freed after each stage, and which a loop may reuse."""
    live = set(made.results)
    fixed = {slot for slot, value in enumerate(made.first) if value is not None}
    for stage in reversed(made.stages):
        gone = set(stage.inputs) - live - fixed
        stage.last_read = tuple(gone)
        if stage.loop is not None:
            mine = gone - set(made.arguments)
            stage.donated = tuple(
                place
                for place, slot in enumerate(stage.inputs)
                if place >= stage.loop.carried
                and place != stage.loop.count
                and slot in mine
                and stage.inputs.count(slot) == 1
            )
        live |= set(stage.inputs)


def compile_stages(
    made: SplitProgram, options: dict[str, Any], cache: ProgramCache | None
) -> StagedProgram:
    """Compile the stages of a program."""
    jax = jax_module()
    for stage in made.stages:
        shapes = [made.shapes[slot] for slot in stage.inputs]
        given = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in shapes]
        jitted = jax.jit(stage.function, keep_unused=True, donate_argnums=stage.donated)
        stage.call = compile_program(jitted.lower(*given), options, cache).call
    return StagedProgram(made.stages, made.first, made.arguments, made.results)
