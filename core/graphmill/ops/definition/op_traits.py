"""`OpTraits`: properties of an op that passes, executors and compilers may rely on.

An op's definition declares its inputs, outputs and attrs. Its traits declare its behaviour: its
effects, whether it is control flow, which functions it calls, which variables it reads or writes.
Code that reasons about graphs uses `node.op_def.traits`, never the op's name, so a plugin's op is
treated like one of TensorFlow's with the same traits.

A plugin declares traits with its op:

    @op("Mine>Now", effects=["clock"])
    def now(xp, x: float32) -> float32: ...

    ops.add(OpDef("Mine>ApplyLion", ...), traits=OpTraits(
        effects=frozenset({"state"}),
        resources=(ResourceUse("var", reads=True, writes=True),),
    ))

`graphmill.ops.definition.tensorflow_traits` declares the traits of TensorFlow's ops.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from graphmill.errors import InvalidArgumentError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.ops.definition.op_def import OpDef

EFFECTS = frozenset(
    {"fs.read", "fs.write", "net", "process", "python", "clock", "rng", "state", "log"}
)
"""All effects; `graphmill.ops.definition.effects` explains them."""


class ControlFlow(Enum):
    """The role of an op in control flow v1 (tensorflow/core/ops/control_flow_ops.cc).

    The role determines where an executor sends the outputs of the op; the op's kernel only computes
    them. `check_traits` rejects an op without the inputs, outputs and attrs of its role.
    """

    NONE = "none"
    SWITCH = "switch"
    """Sends input 0 to output 1 if input 1, a bool scalar, is true, else to output 0.

    Its kernel returns `DEAD` for the other output.
    """
    SWITCH_N = "switch_n"
    """Sends input 0 to the output whose index is input 1, an int32 scalar; the others are `DEAD`.

    An index out of range means the last output.
    """
    MERGE = "merge"
    """Returns the first input that arrives alive as output 0, and its index (int32) as output 1.

    Usually its inputs are one list. Its kernel gets None for inputs that have not arrived.
    """
    ENTER = "enter"
    """Passes input 0 into the frame with the name in the attr `frame_name` (string).

    If the attr `is_constant` (bool) is true, the value is available in all iterations, else only in
    the first one. The attr `parallel_iterations` (int, at least 1) limits the number of concurrent
    iterations; it is the same in all nodes that lead into a frame.
    """
    EXIT = "exit"
    """Passes input 0 to the enclosing frame."""
    NEXT_ITERATION = "next_iteration"
    """Passes input 0 to the next iteration of its frame; its edge to a `MERGE` closes the loop."""
    LOOP_COND = "loop_cond"
    """Returns input 0, the bool scalar that decides whether a loop continues."""
    TRIGGER = "trigger"
    """Runs even if its control inputs are dead (`ControlTrigger`)."""


class Boundary(Enum):
    """The role of an op through which a value enters or leaves the graph of an executor."""

    NONE = "none"
    ARGUMENT = "argument"
    """Returns the argument with the index in its attr `index`; without a kernel."""
    RESULT = "result"
    """Stores input 0 as the result with the index in its attr `index`; without a kernel."""
    SEND = "send"
    """Sends input 0 to a receiver; it also runs for a dead input, which is passed as `DEAD`."""
    RECEIVE = "receive"
    """Returns the value of a sender, `DEAD` if that is dead."""


class CallKind(Enum):
    """How an op calls a function."""

    ONCE = "once"
    """Once per call of the op, with the op's inputs; its results are the op's outputs."""
    BRANCH = "branch"
    """At most once, with all inputs but the first, which selects the function: with two attrs, the
    first function if the input is true (a non-scalar is true if it has elements); with a list attr,
    the function of that index, or the last one if the index is out of range."""
    LOOP_CONDITION = "loop_condition"
    """Before each iteration, with the loop's values; returns whether to run another iteration."""
    LOOP_BODY = "loop_body"
    """Once per iteration, with the loop's values; returns the values of the next iteration."""
    GRADIENT = "gradient"
    """The op computes the gradient of the function."""
    DEFERRED = "deferred"
    """Any number of times, now or later (for example by an iterator), with other inputs."""


class FunctionCall(NamedTuple):
    """A function that an op calls.

    Attributes:
        attr: the attr with the function, or a list of functions.
        kind: how the op calls it.
        first_input: index of the first of the op's inputs that is passed to the function.
        counted: for a loop body, whether the loop counter is its first argument, and the op's first
            three inputs are start, limit and delta.
    """

    attr: str
    kind: CallKind
    first_input: int = 0
    counted: bool = False


class ResourceUse(NamedTuple):
    """A variable or other resource that an op takes by handle or reference.

    Attributes:
        input: name of the input, as in the `OpDef`.
        reads: whether the op depends on the resource's value.
        writes: whether the op changes the resource's value.
        rows: name of the input with the indices of the accessed rows; empty for all rows.
        updates: name of the input with a value for each of these rows; empty if there is none.
        stores: name of the input that becomes the resource's value, unchanged; empty if the op
            computes the value.
    """

    input: str
    reads: bool = False
    writes: bool = False
    rows: str = ""
    updates: str = ""
    stores: str = ""


class RowUse(NamedTuple):
    """How an op carries the rows of a batch: the first dimension of some inputs.

    Row i of output 0 only depends on row i of these inputs, and on inputs that have no rows.

    Attributes:
        inputs: names of the inputs that may have rows, separated by spaces. If only some of them
            have rows, the others are broadcast.
        min_rank: the rank from which on the first dimension is that of a batch.
        unless: the name of an attr that must be false, or zero; "" for none.
        axes: the name of the input with the dimensions that the op combines, none of which may be
            the first; "" for none.
        zeros: the name of an input whose value must be zero for the first dimension, such as
            paddings; "" for none.
    """

    inputs: str
    min_rank: int = 1
    unless: str = ""
    axes: str = ""
    zeros: str = ""


class Source(Enum):
    """The source of an op's value, if it does not come (only) from its inputs."""

    NONE = "none"
    CONSTANT = "constant"
    """The value of its attr `value`, the same in every step."""
    VARIABLE = "variable"
    """A handle of or reference to the same variable in every step; has an attr `shape`."""
    PLACEHOLDER = "placeholder"
    """A value that the caller must feed; an attr `shape` restricts its shape."""
    PLACEHOLDER_WITH_DEFAULT = "placeholder with a default"
    """Input 0, unless the caller feeds another value; an attr `shape` restricts the shape."""


class Randomness(Enum):
    """The source of random numbers of an op; all but `NONE` imply the effect `rng`."""

    NONE = "none"
    SEEDED = "seeded"
    """A generator of the node, seeded by its attrs `seed` and `seed2`."""
    STATEFUL = "stateful"
    """A generator that is a resource."""
    UNSEEDED = "unseeded"
    """A generator without a seed: the numbers are not reproducible."""


class Arithmetic(Enum):
    """The elementwise function of two inputs that an op computes.

    Compilers use it to determine the trip count of a loop, whose condition compares a counter with
    a limit and whose body adds to the counter. `check_traits` rejects an op without two inputs and
    one output.
    """

    NONE = "none"
    ADD = "add"
    """Returns the sum of its inputs."""
    LESS = "less"
    """Returns whether input 0 is less than input 1."""
    LESS_EQUAL = "less or equal"
    """Returns whether input 0 is less than or equal to input 1."""
    LOGICAL_AND = "logical and"
    """Returns whether both of its bool inputs are true."""


class HalfPrecision(Enum):
    """How an op of float32 is treated by `auto_mixed_precision`, which computes in a half type.

    The classes and their names are those of
    `tensorflow/core/grappler/optimizers/auto_mixed_precision_lists.h`.
    """

    NONE = "none"
    """It stays in float32, and separates the nodes before it from those after it."""
    ALLOW = "allow"
    """It is safe and much faster in the half type: it is always converted."""
    INFER = "infer"
    """It is safe unless a `DENY` op comes before it: converted if it follows converted ops."""
    DENY = "deny"
    """It is unsafe, and so are `INFER` ops after it."""
    CLEAR = "clear"
    """It only moves or compares values: converted if a neighbour is."""


class OpTraits(NamedTuple):
    """How an op behaves.

    Attributes:
        effects: its effects beyond computing outputs, a subset of `EFFECTS`. None stands for
            `state` if the op is stateful or takes references or resources, else for no effects.
        control_flow: its role in control flow v1.
        boundary: its role if a value enters or leaves the graph through it.
        gives_dead: whether its kernel may return `DEAD` for some outputs although no input is dead;
            roles in control flow imply this if necessary.
        calls: the functions that it calls. An attr of type "func" that is not listed counts as
            `CallKind.DEFERRED`.
        resources: the variables that it reads or writes; None if they are unknown.
        per_step_state: whether the graph itself creates the state that it uses in each step
            (`TensorArray`), so that running this part of the graph again repeats no effect.
        source: the source of its value.
        randomness: the source of its random numbers. None stands for `SEEDED` if the op is stateful
            and has attrs `seed` and `seed2`, like TensorFlow's random ops, else for `NONE`.
        forwards: whether output i is input i, unchanged.
        reshapes: whether its only output has the elements of input 0 in another shape.
        validates: whether its only output is input 0, unchanged, and it fails for some values.
        arithmetic: the elementwise function of two inputs that it computes.
        elementwise: whether each element of the output only depends on the elements of the inputs
            at the same position (inputs broadcast).
        rows: how it carries the rows of a batch to its first output; None if it may combine them,
            or if another trait says so.
        shape_only: whether its outputs only depend on the shapes of its inputs.
        asserts: whether its purpose is to fail for some values, so that it must neither be removed
            nor run if the graph would not run it.
        diagnoses: whether it only checks or reports values for people, so that results are the same
            without it; `debug_stripper` removes such nodes. Its output, if any, is input 0.
        loads_model: whether it reads a model's files while the model is loaded.
        int32_attrs: its attrs of type "int" or "list(int)" whose values must be in the range of
            int32; binding a kernel rejects nodes with other values.
        float16, bfloat16: how `auto_mixed_precision` and its variants treat it when they compute in
            this type.
        half_form: the op, with the same inputs and outputs, that takes half types too; "" for none.
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
    rows: RowUse | None = None
    shape_only: bool = False
    asserts: bool = False
    diagnoses: bool = False
    loads_model: bool = False
    int32_attrs: tuple[str, ...] = ()
    float16: HalfPrecision = HalfPrecision.NONE
    bfloat16: HalfPrecision = HalfPrecision.NONE
    half_form: str = ""

    @property
    def is_control_flow(self) -> bool:
        """Whether the op is control flow v1 other than `ControlTrigger`."""
        return self.control_flow not in (ControlFlow.NONE, ControlFlow.TRIGGER)

    @property
    def may_be_dead(self) -> bool:
        """Whether its outputs may be dead, or computed repeatedly, although no input is dead."""
        return self.gives_dead or (
            self.is_control_flow and self.control_flow is not ControlFlow.LOOP_COND
        )

    def calls_as(self, kind: CallKind) -> bool:
        """Return whether the op declares a function call of this kind."""
        return any(call.kind is kind for call in self.calls)

    @property
    def is_loop(self) -> bool:
        """Whether the op runs a function as the body of a loop."""
        return self.calls_as(CallKind.LOOP_BODY)

    @property
    def is_conditional(self) -> bool:
        """Whether the op selects among functions by its first input."""
        return self.calls_as(CallKind.BRANCH)

    @property
    def writes(self) -> bool:
        """Whether the op is known to write a variable."""
        return any(use.writes for use in self.resources or ())

    @property
    def only_stores(self) -> bool:
        """Whether the op only stores inputs in variables, unchanged."""
        return bool(self.resources) and all(use.stores for use in self.resources or ())

    @property
    def only_reads(self) -> bool:
        """Whether the op is known not to write any variable."""
        return self.resources is not None and not self.writes


DEFAULT_TRAITS = OpTraits()


class _Form(NamedTuple):
    """Number of inputs and outputs (None for any number), and attrs of an op with a role."""

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


def effect_set(effects: Iterable[str]) -> frozenset[str]:
    """Return declared effects as a set.

    Raises:
        InvalidArgumentError: they are one string, whose characters would count as effects.
    """
    if isinstance(effects, str):
        raise InvalidArgumentError(
            f"effects is the string {effects!r}, expected a list of effects: effects=[{effects!r}]"
        )
    return frozenset(effects)


def check_traits(op_def: OpDef) -> None:
    """Check that the traits of an op fit its definition.

    Raises:
        InvalidArgumentError: they have an unknown effect, an input or function attr that the op
            does not have, or a role that its inputs and outputs do not allow; the message names the
            op and the trait.
    """
    traits = op_def.traits
    for effect in sorted(effect_set(traits.effects or ()) - EFFECTS):
        near = suggest(effect, EFFECTS)
        raise _misfit(
            op_def, f"unknown effect {effect!r}{near}; effects are {', '.join(sorted(EFFECTS))}", ()
        )
    inputs = {arg.name for arg in op_def.input_args}
    for use in traits.resources or ():
        for name in filter(None, (use.input, use.rows, use.updates, use.stores)):
            if name not in inputs:
                raise _misfit(op_def, f"resources name the unknown input {name!r}", inputs)
    if traits.rows is not None:
        _check_rows(op_def, traits.rows, inputs)
    functions = {attr.name for attr in op_def.attrs if attr.type in ("func", "list(func)")}
    for call in traits.calls:
        if call.attr not in functions:
            raise _misfit(
                op_def, f"calls name {call.attr!r}, which is not a function attr", functions
            )
    if traits.forwards and len(op_def.input_args) < len(op_def.output_args):
        raise _misfit(op_def, "forwards needs an input for each output", inputs)
    if traits.validates and not (op_def.input_args and len(op_def.output_args) == 1):
        raise _misfit(op_def, "validates needs an input and exactly one output", inputs)
    if traits.diagnoses and op_def.output_args and not op_def.input_args:
        raise _misfit(op_def, "diagnoses needs an input", inputs)
    for half in ("float16", "bfloat16"):
        if getattr(traits, half) is not HalfPrecision.NONE and not _has_type_attr(op_def):
            raise _misfit(op_def, f"{half} needs an attr with the type of inputs or outputs", ())
    integers = {attr.name for attr in op_def.attrs if attr.type in ("int", "list(int)")}
    for name in traits.int32_attrs:
        if name not in integers:
            raise _misfit(op_def, f"int32_attrs name {name!r}, which is not an int attr", integers)
    takes_none = traits.source not in (Source.NONE, Source.PLACEHOLDER_WITH_DEFAULT)
    if takes_none and op_def.input_args:
        raise _misfit(op_def, f"a {traits.source.value} cannot have inputs", ())
    if traits.randomness is Randomness.SEEDED:
        _check_attrs(op_def, "a seeded generator", ("seed", "seed2"))
    if traits.source is Source.CONSTANT:
        _check_attrs(op_def, "a constant", ("value",))
    _check_role(op_def, traits.control_flow.value, _FORMS.get(traits.control_flow))
    _check_role(op_def, traits.boundary.value, _FORMS.get(traits.boundary))
    _check_role(op_def, traits.arithmetic.value, _FORMS.get(traits.arithmetic))


def _check_rows(op_def: OpDef, use: RowUse, inputs: set[str]) -> None:
    for name in filter(None, (*use.inputs.split(), use.axes, use.zeros)):
        if name not in inputs:
            raise _misfit(op_def, f"rows name the unknown input {name!r}", inputs)
    if use.unless:
        _check_attrs(op_def, "rows", (use.unless,))


def _has_type_attr(op_def: OpDef) -> bool:
    return any(
        arg.type_attr or arg.type_list_attr for arg in op_def.input_args + op_def.output_args
    )


def _check_role(op_def: OpDef, role: str, form: _Form | None) -> None:
    if form is None:
        return
    for what, args, count in (
        ("inputs", op_def.input_args, form.inputs),
        ("outputs", op_def.output_args, form.outputs),
    ):
        if count is not None and len(args) != count:
            counts = f"the role {role!r} needs {count} {what}, not {len(args)}"
            raise _misfit(op_def, counts, {arg.name for arg in args})
    _check_attrs(op_def, f"the role {role!r}", form.attrs)


def _check_attrs(op_def: OpDef, subject: str, names: tuple[str, ...]) -> None:
    for name in names:
        if not op_def.has_attr(name):
            missing = f"{subject} needs the attr {name!r}"
            raise _misfit(op_def, missing, set(op_def.attr_types))


def _misfit(op_def: OpDef, what: str, existing: object) -> InvalidArgumentError:
    names = ", ".join(sorted(existing)) if isinstance(existing, set) else ""
    return InvalidArgumentError(
        f"the traits of op {op_def.name!r} do not fit it: {what}"
        + (f"; it has {names}" if names else ""),
        op_type=op_def.name,
    )
