"""`OpTraits`: what passes, executors and compilers may rely on, declared with the op.

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

TensorFlow's ops are declared in the same terms in `graphmill.ops.definition.tensorflow_traits`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from graphmill.errors import InvalidArgumentError, suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.ops.definition.op_def import OpDef

EFFECTS = frozenset(
    {"fs.read", "fs.write", "net", "process", "python", "clock", "rng", "state", "log"}
)
"""All effects there are; `graphmill.ops.definition.effects` says what each means."""


class ControlFlow(Enum):
    """The role of an op in control flow v1 (tensorflow/core/ops/control_flow_ops.cc).

    An executor decides by the role where the outputs of the op go; the op's kernel only computes
    them. `check_traits` refuses an op without the inputs, outputs and attrs that its role has.
    """

    NONE = "none"
    SWITCH = "switch"
    """Sends input 0 to output 1 if input 1, a bool scalar, is true, else to output 0.

    Its kernel gives `DEAD` for the other output.
    """
    SWITCH_N = "switch_n"
    """Sends input 0 to the output whose index is input 1, an int32 scalar; the others are `DEAD`.

    An index out of range means the last output.
    """
    MERGE = "merge"
    """Gives the first input that arrives alive as output 0, and its index (int32) as output 1.

    Its inputs are one list in most cases. Its kernel finds None for those that have not arrived.
    """
    ENTER = "enter"
    """Brings input 0 into the frame that the attr `frame_name` (string) names.

    With the attr `is_constant` (bool) the value is there in all iterations, else in the first one.
    The attr `parallel_iterations` (int, at least 1) is the same in all that lead into a frame: so
    many iterations may run at once.
    """
    EXIT = "exit"
    """Gives input 0 to the frame around its own."""
    NEXT_ITERATION = "next_iteration"
    """Gives input 0 to the next iteration of its frame; its edge to a `MERGE` closes the loop."""
    LOOP_COND = "loop_cond"
    """Gives input 0, the bool scalar that decides whether a loop goes on."""
    TRIGGER = "trigger"
    """Runs even if what it waits for is dead (`ControlTrigger`)."""


class Boundary(Enum):
    """How a value comes into the graph of an executor, or leaves it, through an op."""

    NONE = "none"
    ARGUMENT = "argument"
    """Gives the argument whose number is its attr `index`; the executor stands for its kernel."""
    RESULT = "result"
    """Takes input 0 as the result whose number is its attr `index`, as an argument does."""
    SEND = "send"
    """Hands input 0 to a receiver elsewhere; it runs for a dead input too, and is given `DEAD`."""
    RECEIVE = "receive"
    """Gives what a sender elsewhere hands over, `DEAD` if that is dead."""


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


class FunctionCall(NamedTuple):
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


class ResourceUse(NamedTuple):
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
    """What the value of an op stands for that does not come from its inputs (alone)."""

    NONE = "none"
    CONSTANT = "constant"
    """The value of its attr `value`, the same in every step."""
    VARIABLE = "variable"
    """A handle of, or reference to, the same variable in every step; its attr `shape` is known."""
    PLACEHOLDER = "placeholder"
    """A value that the caller must feed; its attr `shape`, if it has one, says which shapes fit."""
    PLACEHOLDER_WITH_DEFAULT = "placeholder with a default"
    """Input 0, unless the caller feeds another value; the attr `shape` is that of a placeholder."""


class Randomness(Enum):
    """Where the numbers of a random op come from; any but `NONE` implies the effect `rng`."""

    NONE = "none"
    SEEDED = "seeded"
    """A generator that belongs to the node, started by its attrs `seed` and `seed2`."""
    STATEFUL = "stateful"
    """A generator that is a resource."""
    UNSEEDED = "unseeded"
    """Nothing that can be given again: the numbers are others in each run."""


class Arithmetic(Enum):
    """What an op computes of two inputs of numbers, element by element.

    By it a compiler reads the trip count of a loop: the condition compares a counter with a limit,
    and the body adds to the counter. `check_traits` refuses an op without two inputs and an output.
    """

    NONE = "none"
    ADD = "add"
    """Gives the sum of both."""
    LESS = "less"
    """Gives whether input 0 is less than input 1."""
    LESS_EQUAL = "less or equal"
    """Gives whether input 0 is less than input 1, or equal to it."""
    LOGICAL_AND = "logical and"
    """Gives whether both of its inputs, which are bools, hold."""


class OpTraits(NamedTuple):
    """How an op behaves.

    Attributes:
        effects: what it touches beyond inputs and outputs, a subset of `EFFECTS`; None: `state` if
            the op is stateful or takes references or resources, nothing otherwise.
        control_flow: its role in control flow v1.
        boundary: whether a value comes into the graph, or leaves it, through the op.
        gives_dead: whether its kernel may give `DEAD` for some outputs although no input is dead;
            the roles in control flow imply it where it is so.
        calls: the functions that it calls. An attr of type "func" that is not named here counts as
            `CallKind.DEFERRED`.
        resources: the variables that it reads or writes; None where that is not known.
        per_step_state: whether the state that it touches is made again in each step by the graph
            itself (`TensorArray`), so that to run that part of the graph again repeats no effect.
        source: what its value stands for.
        randomness: where its random numbers come from; None: `SEEDED` if the op is stateful and has
            attrs `seed` and `seed2`, as TensorFlow's random ops have, nowhere otherwise.
        forwards: whether output i is input i, unchanged.
        reshapes: whether its only output has the elements of input 0 under another shape.
        validates: whether its only output is input 0, unchanged, and it fails for some values.
        arithmetic: what it computes of two numbers.
        elementwise: whether each element of the output depends on the elements of the inputs at
            the same place only (inputs broadcast).
        shape_only: whether its outputs depend on the shapes of its inputs only.
        asserts: whether it is there to fail for some values, so that it must neither be dropped
            nor run where the graph would not run it.
        loads_model: whether it reads files that belong to a model when that is loaded.
        int32_attrs: its attrs of type "int" or "list(int)" whose values must fit into 32 bits: a
            node with others is refused when its kernel is bound.
    """

    effects: frozenset[str] | None = None
    control_flow: ControlFlow = ControlFlow.NONE
    boundary: Boundary = Boundary.NONE
    gives_dead: bool = False
    calls: tuple[FunctionCall, ...] = ()
    resources: tuple[ResourceUse, ...] | None = None
    per_step_state: bool = False
    source: Source = Source.NONE
    randomness: Randomness | None = None
    forwards: bool = False
    reshapes: bool = False
    validates: bool = False
    arithmetic: Arithmetic = Arithmetic.NONE
    elementwise: bool = False
    shape_only: bool = False
    asserts: bool = False
    loads_model: bool = False
    int32_attrs: tuple[str, ...] = ()

    @property
    def is_control_flow(self) -> bool:
        """Whether the op is control flow v1, `ControlTrigger` aside."""
        return self.control_flow not in (ControlFlow.NONE, ControlFlow.TRIGGER)

    @property
    def may_be_dead(self) -> bool:
        """Whether its outputs may be dead, or run more than once, though no input is dead."""
        return self.gives_dead or (
            self.is_control_flow and self.control_flow is not ControlFlow.LOOP_COND
        )

    def calls_as(self, kind: CallKind) -> bool:
        """Return whether the op is declared to call a function in that way."""
        return any(call.kind is kind for call in self.calls)

    @property
    def is_loop(self) -> bool:
        """Whether the op runs a function as the body of a loop."""
        return self.calls_as(CallKind.LOOP_BODY)

    @property
    def is_conditional(self) -> bool:
        """Whether the op chooses among functions by its first input."""
        return self.calls_as(CallKind.BRANCH)

    @property
    def writes(self) -> bool:
        """Whether the op is known to write a variable that it is given."""
        return any(use.writes for use in self.resources or ())

    @property
    def only_reads(self) -> bool:
        """Whether the op is known to leave the variables that it is given as they are."""
        return self.resources is not None and not self.writes


DEFAULT_TRAITS = OpTraits()


class _Form(NamedTuple):
    """What an op of a role has: how many inputs and outputs, None for any number, and attrs."""

    inputs: int | None
    outputs: int | None
    attrs: tuple[str, ...] = ()


_ONE_TO_ONE = _Form(1, 1)
_TWO_TO_ONE = _Form(2, 1)
_FORMS: Mapping[ControlFlow | Boundary | Arithmetic, _Form] = {
    ControlFlow.SWITCH: _Form(2, 2),
    ControlFlow.SWITCH_N: _Form(2, 1),  # one list of outputs
    ControlFlow.MERGE: _Form(None, 2),
    ControlFlow.ENTER: _Form(1, 1, ("frame_name", "is_constant", "parallel_iterations")),
    ControlFlow.EXIT: _ONE_TO_ONE,
    ControlFlow.NEXT_ITERATION: _ONE_TO_ONE,
    ControlFlow.LOOP_COND: _ONE_TO_ONE,
    ControlFlow.TRIGGER: _Form(0, 0),
    Boundary.ARGUMENT: _Form(0, 1, ("index",)),
    Boundary.RESULT: _Form(1, 0, ("index",)),
    Boundary.SEND: _Form(1, 0),
    Boundary.RECEIVE: _Form(0, 1),
    Arithmetic.ADD: _TWO_TO_ONE,
    Arithmetic.LESS: _TWO_TO_ONE,
    Arithmetic.LESS_EQUAL: _TWO_TO_ONE,
    Arithmetic.LOGICAL_AND: _TWO_TO_ONE,
}


def check_traits(op_def: OpDef) -> None:
    """Check that the traits of an op fit its definition.

    Raises:
        InvalidArgumentError: they name an effect that there is not, an input or function attr that
            the op does not have, or a role that its inputs and outputs do not allow; the message
            names the op and the trait.
    """
    traits = op_def.traits
    for effect in sorted((traits.effects or frozenset()) - EFFECTS):
        there_are = ", ".join(sorted(EFFECTS))
        near = suggest(effect, EFFECTS)
        raise _misfit(op_def, f"there is no effect {effect!r}{near}; there are {there_are}", ())
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
    if traits.validates and not (op_def.input_args and len(op_def.output_args) == 1):
        raise _misfit(op_def, "it validates input 0, which is to be its only output", inputs)
    integers = {attr.name for attr in op_def.attrs if attr.type in ("int", "list(int)")}
    for name in traits.int32_attrs:
        if name not in integers:
            raise _misfit(op_def, f"int32_attrs name the int attr {name!r}", integers)
    takes_none = traits.source not in (Source.NONE, Source.PLACEHOLDER_WITH_DEFAULT)
    if takes_none and op_def.input_args:
        raise _misfit(op_def, f"it is a {traits.source.value} and takes inputs", ())
    if traits.randomness is Randomness.SEEDED:
        _check_attrs(op_def, "its generator is seeded", ("seed", "seed2"))
    if traits.source is Source.CONSTANT:
        _check_attrs(op_def, "it is a constant", ("value",))
    _check_role(op_def, traits.control_flow.value, _FORMS.get(traits.control_flow))
    _check_role(op_def, traits.boundary.value, _FORMS.get(traits.boundary))
    _check_role(op_def, traits.arithmetic.value, _FORMS.get(traits.arithmetic))


def _check_role(op_def: OpDef, role: str, form: _Form | None) -> None:
    if form is None:
        return
    for what, args, count in (
        ("inputs", op_def.input_args, form.inputs),
        ("outputs", op_def.output_args, form.outputs),
    ):
        if count is not None and len(args) != count:
            given = f"its role is {role!r}, which has {count} {what}, not {len(args)}"
            raise _misfit(op_def, given, {arg.name for arg in args})
    _check_attrs(op_def, f"its role is {role!r}", form.attrs)


def _check_attrs(op_def: OpDef, why: str, names: tuple[str, ...]) -> None:
    for name in names:
        if not op_def.has_attr(name):
            missing = f"{why}, for which it needs the attr {name!r}"
            raise _misfit(op_def, missing, set(op_def.attr_types))


def _misfit(op_def: OpDef, what: str, there_are: object) -> InvalidArgumentError:
    names = ", ".join(sorted(there_are)) if isinstance(there_are, set) else ""
    return InvalidArgumentError(
        f"the traits of op {op_def.name!r} do not fit it: {what}"
        + (f"; it has {names}" if names else ""),
        op=op_def.name,
    )
