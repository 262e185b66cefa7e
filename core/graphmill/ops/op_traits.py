"""`OpTraits`: what passes, executors and compilers may rely on about an op, declared with the op.

An op's definition says what it takes and gives. Its traits say how it behaves: what it touches
beyond its inputs and outputs, whether it is control flow, which functions it calls, which variables
it reads or writes. Whatever reasons about graphs asks `node.op_def.traits`, never the op's name, so
that an op of a plugin is treated as one of TensorFlow's with the same traits.

A plugin declares traits with its op:

    @op("Mine>Now", effects=["clock"])
    def now(xp, x: float32) -> float32: ...

    ops.add(OpDef("Mine>ApplyLion", ...), traits=OpTraits(
        effects=frozenset({"state"}),
        resources=(ResourceUse("var", reads=True, writes=True),),
    ))

TensorFlow's ops are declared in the same terms in `graphmill.ops.tensorflow_traits`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError, suggest

if TYPE_CHECKING:
    from graphmill.ops.op_def import OpDef

EFFECTS = frozenset(
    {"fs.read", "fs.write", "net", "process", "python", "clock", "rng", "state", "log"}
)
"""All effects there are; `graphmill.ops.effects` says what each means."""


class ControlFlow(Enum):
    """The role of an op in control flow v1 (tensorflow/core/ops/control_flow_ops.cc)."""

    NONE = "none"
    SWITCH = "switch"
    """Sends its first input to one of two outputs; the other one is dead."""
    SWITCH_N = "switch_n"
    """Sends its first input to one of many outputs; the others are dead."""
    MERGE = "merge"
    """Gives the one input that is alive, and its index."""
    ENTER = "enter"
    """Brings a value into the frame that its attr `frame_name` names."""
    EXIT = "exit"
    """Gives a value to the frame around its own."""
    NEXT_ITERATION = "next_iteration"
    """Gives a value to the next iteration of its frame."""
    LOOP_COND = "loop_cond"
    """Marks the value that decides whether a loop goes on."""
    TRIGGER = "trigger"
    """Runs even if what it waits for is dead (`ControlTrigger`)."""


class CallKind(Enum):
    """How an op calls a function."""

    ONCE = "once"
    """Once in each call of the op, with the op's inputs; its results are the op's outputs."""
    BRANCH = "branch"
    """At most once, with the inputs behind the first one, which chooses: of two attrs the first
    function if it holds (a tensor holds if it has elements), of an attr that is a list the function
    of that index, the last one for an index out of range."""
    LOOP_CONDITION = "loop_condition"
    """Before each iteration, with the loop's values; gives whether there is one more."""
    LOOP_BODY = "loop_body"
    """Once in each iteration, with the loop's values; gives the next ones."""
    GRADIENT = "gradient"
    """The op computes the gradient of the function."""
    DEFERRED = "deferred"
    """Any number of times, now or later (by an iterator, say), with inputs of its own."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function that an op calls.

    Attributes:
        attr: the attr that names it, or a list of functions.
        kind: how it is called.
        first_input: index of the first of the op's inputs that the function is given.
        counted: for a loop body, whether the iteration's number is its first argument, and the
            op's first three inputs are start, limit and delta.
    """

    attr: str
    kind: CallKind
    first_input: int = 0
    counted: bool = False


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """A variable or other resource that an op is given by handle or reference.

    Attributes:
        input: name of the input (as in the `OpDef`).
        reads: whether the op depends on its value.
        writes: whether the op changes its value.
        rows: name of the input with the indices of the rows that are touched; empty for all.
        updates: name of the input with a value for each of these rows; empty if there is none.
    """

    input: str
    reads: bool = False
    writes: bool = False
    rows: str = ""
    updates: str = ""


class Source(Enum):
    """What an op that takes no inputs stands for."""

    NONE = "none"
    CONSTANT = "constant"
    """The value of its attr `value`, the same in every step."""
    VARIABLE = "variable"
    """A handle of, or reference to, the same variable in every step."""
    PLACEHOLDER = "placeholder"
    """A value that the caller must feed."""


class Randomness(Enum):
    """Where the numbers of a random op come from."""

    NONE = "none"
    SEEDED = "seeded"
    """A generator that belongs to the node, started by its attrs `seed` and `seed2`."""
    STATEFUL = "stateful"
    """A generator that is a resource, or one without a seed."""


@dataclass(frozen=True, slots=True)
class OpTraits:
    """How an op behaves.

    Attributes:
        effects: what it touches beyond inputs and outputs, a subset of `EFFECTS`; None: `state` if
            the op is stateful or takes references or resources, nothing otherwise.
        control_flow: its role in control flow v1.
        calls: the functions that it calls. An attr of type "func" that is not named here counts as
            `CallKind.DEFERRED`.
        resources: the variables that it reads or writes; None where that is not known.
        source: what it stands for if it takes no inputs.
        randomness: where its random numbers come from.
        forwards: whether output i is input i, unchanged.
        elementwise: whether each element of the output depends on the elements of the inputs at
            the same place only (inputs broadcast).
        shape_only: whether its outputs depend on the shapes of its inputs only.
        asserts: whether it is there to fail for some values, so that it must neither be dropped
            nor run where the graph would not run it.
        loads_model: whether it reads files that belong to a model when that is loaded.
    """

    effects: frozenset[str] | None = None
    control_flow: ControlFlow = ControlFlow.NONE
    calls: tuple[FunctionCall, ...] = ()
    resources: tuple[ResourceUse, ...] | None = None
    source: Source = Source.NONE
    randomness: Randomness = Randomness.NONE
    forwards: bool = False
    elementwise: bool = False
    shape_only: bool = False
    asserts: bool = False
    loads_model: bool = False

    def __post_init__(self) -> None:
        for effect in sorted((self.effects or frozenset()) - EFFECTS):
            raise InvalidArgumentError(
                f"there is no effect {effect!r}{suggest(effect, EFFECTS)}; there are "
                f"{', '.join(sorted(EFFECTS))}"
            )

    @property
    def is_control_flow(self) -> bool:
        """Whether the op is control flow v1, `ControlTrigger` aside."""
        return self.control_flow not in (ControlFlow.NONE, ControlFlow.TRIGGER)

    @property
    def is_loop(self) -> bool:
        """Whether the op runs a function as the body of a loop."""
        return any(call.kind is CallKind.LOOP_BODY for call in self.calls)

    @property
    def is_conditional(self) -> bool:
        """Whether the op chooses among functions by its first input."""
        return any(call.kind is CallKind.BRANCH for call in self.calls)

    @property
    def writes(self) -> bool:
        """Whether the op is known to write a variable that it is given."""
        return any(use.writes for use in self.resources or ())


DEFAULT_TRAITS = OpTraits()


def check_traits(op_def: OpDef) -> None:
    """Check that the traits of an op fit its definition.

    Raises:
        InvalidArgumentError: they name an input or function attr that the op does not have, or a
            role that its inputs and outputs do not allow; the message names the op and the trait.
    """
    traits = op_def.traits
    inputs = {arg.name for arg in op_def.input_args}
    for use in traits.resources or ():
        for name in filter(None, (use.input, use.rows, use.updates)):
            if name not in inputs:
                raise _misfit(op_def, f"resources name the input {name!r}", inputs)
    functions = {attr.name for attr in op_def.attrs if attr.type in ("func", "list(func)")}
    for call in traits.calls:
        if call.attr not in functions:
            raise _misfit(op_def, f"calls name the function attr {call.attr!r}", functions)
    if traits.forwards and len(op_def.input_args) < len(op_def.output_args):
        raise _misfit(op_def, "it forwards inputs to outputs, of which it has more", inputs)
    if traits.source is not Source.NONE and op_def.input_args:
        raise _misfit(op_def, f"it is a {traits.source.value} and takes inputs", ())


def _misfit(op_def: OpDef, what: str, there_are: object) -> InvalidArgumentError:
    names = ", ".join(sorted(there_are)) if isinstance(there_are, set) else ""  # type: ignore[type-var]
    return InvalidArgumentError(
        f"the traits of op {op_def.name!r} do not fit it: {what}"
        + (f"; it has {names}" if names else ""),
        op=op_def.name,
    )
