"""`OpDef`: inputs, outputs and attrs of an op, as frozen data.

Semantics: tensorflow/core/framework/op_def.proto, node_def_util.cc (the types of a node) and
op_def_util.cc. `graphmill.ops.attrs.attr_types` describes attr values in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.dtypes import DType
from graphmill.errors import InvalidArgumentError, NotFoundError, suggest
from graphmill.ops.attrs import attr_check, attr_inference
from graphmill.ops.attrs.attr_types import NO_DEFAULT, AttrPlaceholder, FuncAttr
from graphmill.ops.definition.op_traits import (
    DEFAULT_TRAITS,
    CallKind,
    FunctionCall,
    OpTraits,
    Source,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill import proto
    from graphmill.ops.inference.shape_inference import ShapeFunction
    from graphmill.ops.inference.value_inference import ValueFunction

    # For each arg its fixed type, or None and the attr that determines it.
    _TypePlan = tuple[tuple[DType | None, str], ...]

_FUNCTION_TYPES = ("func", "list(func)")
_WHILE = {CallKind.LOOP_CONDITION, CallKind.LOOP_BODY}
_MAX_TENSORS = 1 << 16  # limit for one list, so that an attr cannot exhaust memory

__all__ = ["NO_DEFAULT", "ArgDef", "AttrDef", "AttrPlaceholder", "FuncAttr", "OpDef"]


class ArgDef(NamedTuple):
    """An input or output of an op.

    Attributes:
        name: its name.
        type: its element type, if that is fixed.
        type_attr: the attr with its element type; "" if there is none.
        type_list_attr: the attr with the types of a list of tensors; "" if there is none.
        number_attr: the attr with the length of a list of tensors of one type; "" for none.
        is_ref: whether it is a reference to a variable instead of a value.
        description: a sentence for users.
    """

    name: str
    type: DType | None = None
    type_attr: str = ""
    type_list_attr: str = ""
    number_attr: str = ""
    is_ref: bool = False
    description: str = ""

    @property
    def is_list(self) -> bool:
        """Whether it stands for a list of tensors."""
        return bool(self.number_attr or self.type_list_attr)

    def length(self, attrs: Mapping[str, Any]) -> int:
        """Return the number of tensors it stands for, given the op's attrs.

        Raises:
            InvalidArgumentError: an attr that it needs is missing or still a placeholder.
        """
        if self.number_attr:
            length: int = _bound(attrs, self.number_attr)
            return length
        return len(_bound(attrs, self.type_list_attr)) if self.type_list_attr else 1

    def types(self, attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        """Return the element types of the tensors that it stands for, given the op's attrs.

        Raises:
            InvalidArgumentError: an attr that it needs is missing or still a placeholder.
        """
        if self.type_list_attr:
            types: tuple[DType, ...] = _bound(attrs, self.type_list_attr)
        else:
            one: DType = self.type or _bound(attrs, self.type_attr)
            types = (one,) * self._checked_length(attrs) if self.number_attr else (one,)
        return tuple(dtype.as_ref for dtype in types) if self.is_ref else types

    def _checked_length(self, attrs: Mapping[str, Any]) -> int:
        length: int = _bound(attrs, self.number_attr)
        if length > _MAX_TENSORS:
            raise InvalidArgumentError(
                f"attr {self.number_attr!r} requests {length} tensors of {self.name!r}; at most "
                f"{_MAX_TENSORS} are allowed"
            )
        return length

    def __str__(self) -> str:
        types = self.type_list_attr or self.type_attr or (self.type.tf_name if self.type else "?")
        count = f"{self.number_attr}*" if self.number_attr else ""
        return f"{self.name}:{f'Ref({count}{types})' if self.is_ref else count + types}"


class AttrDef(NamedTuple):
    """An attr of an op.

    Attributes:
        name: its name.
        type: "type", "int", "float", "bool", "string", "shape", "tensor", "func" or "list(…)".
        default: its default, in canonical form once it is registered, or `NO_DEFAULT`.
        allowed: the allowed values (for a list, of its elements); empty if all are allowed.
        minimum: the smallest allowed int, or length of a list; None if there is no minimum.
        description: a sentence for users.
    """

    name: str
    type: str
    default: Any = NO_DEFAULT
    allowed: tuple[Any, ...] = ()
    minimum: int | None = None
    description: str = ""

    @property
    def has_default(self) -> bool:
        """Whether it has a default and so is optional."""
        return self.default is not NO_DEFAULT

    def canonical(self, value: Any, op: str = "") -> Any:
        """Convert a user's value to canonical form.

        Raises:
            InvalidArgumentError: it cannot be converted to the attr's type; the message names `op`.
        """
        return attr_check.canonical(self, value, op)

    def check(self, value: Any, op: str = "") -> None:
        """Check a canonical value against type, allowed values and minimum.

        Raises:
            InvalidArgumentError: it is not a valid value; the message names `op`.
        """
        attr_check.check(self, value, op)

    def __str__(self) -> str:
        return attr_check.describe(self)


# Methods are written out: generating them would take a large part of the time of an import.
@dataclass(init=False, repr=False, eq=False, match_args=False)
class OpDef:
    """The definition of an op.

    Attributes:
        name: its type, for example "MatMul".
        input_args, output_args, attrs: its inputs, outputs and attrs, in order.
        is_stateful: whether two equal calls may differ, so that they must not be merged.
        is_commutative: whether its two inputs may be swapped.
        is_aggregate: whether it combines any number of inputs, and can combine partial results.
        allows_uninitialized_input: whether a ref input may be a variable without a value.
        is_distributed: whether it communicates with other workers.
        deprecated_version: the first GraphDef version that must not use it; 0 for none.
        family: its family, which names the module of its function and kernels.
        control_outputs: for the signature of a function, the names of its control outputs.
        summary, description, deprecated_reason: text for users.
        traits: how the op behaves; see `graphmill.ops.definition.op_traits`.
        shape_function: infers the shapes of the outputs; see
            `graphmill.ops.inference.shape_inference`.
        value_function: infers static values of the outputs; see
            `graphmill.ops.inference.value_inference`.
        effects: its effects, once `graphmill.ops.definition.effects.effects_of` was asked for them.
        has_list_inputs, has_list_outputs: whether an input or output stands for several tensors.
        has_tensor_attrs: whether an attr is a tensor or a list of them.
        attr_keywords: the attrs that kernel functions take, with the functions, by their ids; see
            `graphmill.runtime.kernels.kernel_signature.attr_keywords`.

    `traits`, `shape_function` and `value_function` are not stored in messages and are ignored when
    definitions are compared. A definition is never changed; use `dataclasses.replace`.
    """

    name: str
    input_args: tuple[ArgDef, ...]
    output_args: tuple[ArgDef, ...]
    attrs: tuple[AttrDef, ...]
    is_stateful: bool
    is_commutative: bool
    is_aggregate: bool
    allows_uninitialized_input: bool
    is_distributed: bool
    deprecated_version: int
    family: str
    control_outputs: tuple[str, ...]
    summary: str
    description: str
    deprecated_reason: str
    traits: OpTraits
    shape_function: ShapeFunction | None
    value_function: ValueFunction | None

    def __init__(
        self,
        name: str,
        input_args: tuple[ArgDef, ...] = (),
        output_args: tuple[ArgDef, ...] = (),
        attrs: tuple[AttrDef, ...] = (),
        is_stateful: bool = False,
        is_commutative: bool = False,
        is_aggregate: bool = False,
        allows_uninitialized_input: bool = False,
        is_distributed: bool = False,
        deprecated_version: int = 0,
        family: str = "",
        control_outputs: tuple[str, ...] = (),
        summary: str = "",
        description: str = "",
        deprecated_reason: str = "",
        traits: OpTraits = DEFAULT_TRAITS,
        shape_function: ShapeFunction | None = None,
        value_function: ValueFunction | None = None,
    ) -> None:
        self.name = name
        self.input_args = input_args
        self.output_args = output_args
        self.attrs = attrs
        self.is_stateful = is_stateful
        self.is_commutative = is_commutative
        self.is_aggregate = is_aggregate
        self.allows_uninitialized_input = allows_uninitialized_input
        self.is_distributed = is_distributed
        self.deprecated_version = deprecated_version
        self.family = family
        self.control_outputs = control_outputs
        self.summary = summary
        self.description = description
        self.deprecated_reason = deprecated_reason
        self.traits = traits
        self.shape_function = shape_function
        self.value_function = value_function
        self.effects: frozenset[str] | None = None
        # Derived once, because every node needs them.
        self._attrs = {attr.name: attr for attr in attrs}
        self._defaults = {a.name: a.default for a in attrs if a.default is not NO_DEFAULT}
        self._inputs = _type_plan(input_args)
        self._outputs = _type_plan(output_args)
        self._calls = _all_calls(attrs, traits)
        self.has_list_inputs = any(arg.is_list for arg in input_args)
        self.has_list_outputs = any(arg.is_list for arg in output_args)
        self.has_tensor_attrs = any("tensor" in attr.type for attr in attrs)
        self.attr_keywords: dict[int, tuple[Any, tuple[tuple[AttrDef, str], ...]]] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpDef):
            return NotImplemented
        return self is other or _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(_compared(self))

    def __repr__(self) -> str:
        return str(self)

    def attr(self, name: str) -> AttrDef:
        """Return the definition of an attr.

        Raises:
            NotFoundError: the op has no such attr; the message names near matches.
        """
        attr_def = self._attrs.get(name)
        if attr_def is None:
            raise NotFoundError(
                f"op {self.name} has no attr {name!r}{suggest(name, self._attrs)} "
                f"(it has {', '.join(self._attrs) or 'none'})",
                op_type=self.name,
            )
        return attr_def

    def has_attr(self, name: str) -> bool:
        """Return whether the op has an attr of that name."""
        return name in self._attrs

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        """The functions that the op calls; calls that its traits do not declare are deferred."""
        return self._calls

    @property
    def is_while(self) -> bool:
        """Whether the op calls exactly a loop condition and a body without a counter argument."""
        kinds = {call.kind for call in self._calls if not call.counted}
        return len(self._calls) == 2 and kinds == _WHILE

    @property
    def attr_types(self) -> dict[str, str]:
        """The type of each attr, as in its `AttrDef`."""
        return {attr.name: attr.type for attr in self.attrs}

    def with_defaults(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new dict of the attrs, with the defaults of missing ones."""
        return {**self._defaults, **attrs}

    def canonical_attrs(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a user's attrs to canonical form, and add the defaults of missing ones.

        Attrs whose names start with `_` are not declared by ops and may have any value.

        Raises:
            InvalidArgumentError: a value cannot be converted to its attr's type.
            NotFoundError: the op has no attr of that name.
        """
        canonical = dict(self._defaults)
        for name, value in attrs.items():
            if name.startswith("_") and name not in self._attrs:
                canonical[name] = attr_check.canonical_undeclared(name, value, self.name)
            else:
                canonical[name] = self.attr(name).canonical(value, self.name)
        if self.traits.source is Source.CONSTANT and "value" in attrs and "dtype" in attrs:
            arguments = self.attr("value"), attrs["value"], canonical["dtype"]
            canonical["value"] = attr_check.typed_tensor(*arguments, self.name)
        return canonical

    def check_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Check a complete set of canonical attrs.

        Semantics: ValidateNodeDef in tensorflow/core/framework/node_def_util.cc.

        Raises:
            InvalidArgumentError: an attr is missing, unknown, of the wrong type, not among the
                allowed values, or below the minimum.
        """
        attr_check.check_attrs(self, attrs)

    def input_types(self, attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        """Return the element types of all inputs, with lists flattened.

        Raises:
            InvalidArgumentError: an attr that determines a type is missing or still a placeholder.
        """
        return self._types(self._inputs, self.input_args, attrs)

    def output_types(self, attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        """Return the element types of all outputs, with lists flattened.

        Raises:
            InvalidArgumentError: an attr that determines a type is missing or still a placeholder.
        """
        return self._types(self._outputs, self.output_args, attrs)

    def input_ranges(self, attrs: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        """Map each input name to the range (start, stop) of flat inputs that it stands for."""
        return _ranges(self.input_args, attrs)

    def output_ranges(self, attrs: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        """Map each output name to the range (start, stop) of flat outputs that it stands for."""
        return _ranges(self.output_args, attrs)

    def infer_attrs(
        self, inputs: Sequence[DType | Sequence[DType]], attrs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return `attrs` and those that the inputs determine: types, type lists, list lengths.

        Args:
            inputs: one element type for each input, a sequence of them for a list.
            attrs: canonical attrs that are given explicitly; the inputs must agree with them.

        Raises:
            InvalidArgumentError: inputs do not match the op, each other, or `attrs`.
        """
        return attr_inference.infer_attrs(self, inputs, attrs or {})

    def group_inputs(self, count: int, attrs: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        """Return the range of each input among `count` flat ones; attrs may be incomplete.

        Raises:
            InvalidArgumentError: `count` is wrong, or several lists have an unknown length.
        """
        return attr_inference.group_inputs(self, count, attrs)

    def to_proto(self) -> proto.OpDef:
        """Return the definition as a message."""
        from graphmill.ops.definition.op_def_proto import op_def_to_proto

        return op_def_to_proto(self)

    @staticmethod
    def from_proto(message: proto.OpDef, family: str = "") -> OpDef:
        """Return the definition in a message.

        Raises:
            InvalidArgumentError: the message does not define a valid op.
        """
        from graphmill.ops.definition.op_def_proto import op_def_from_proto

        return op_def_from_proto(message, family)

    def _types(
        self, plan: _TypePlan | None, args: tuple[ArgDef, ...], attrs: Mapping[str, Any]
    ) -> tuple[DType, ...]:
        if plan is not None:
            types: tuple[Any, ...] = tuple([fixed or attrs.get(attr) for fixed, attr in plan])
            for dtype in types:
                if type(dtype) is not DType:  # missing or a placeholder: reported below
                    break
            else:
                return types
        try:
            return tuple([dtype for arg in args for dtype in arg.types(attrs)])
        except InvalidArgumentError as error:
            raise error.locate(op_type=self.name)  # noqa: B904 - it is the same error

    def __str__(self) -> str:
        ins = ", ".join(map(str, self.input_args))
        outs = ", ".join(map(str, self.output_args))
        attrs = "; ".join(["", *map(str, self.attrs)])
        return f"Op<{self.name}({ins}) -> ({outs}){attrs}>"


# Everything that a message holds.
_compared = attrgetter(
    "name",
    "input_args",
    "output_args",
    "attrs",
    "is_stateful",
    "is_commutative",
    "is_aggregate",
    "allows_uninitialized_input",
    "is_distributed",
    "deprecated_version",
    "family",
    "control_outputs",
    "summary",
    "description",
    "deprecated_reason",
)


def _type_plan(args: tuple[ArgDef, ...]) -> _TypePlan | None:
    """Return the fixed type or type attr of each arg; None if an arg is a list."""
    if any(arg.is_list or (arg.is_ref and arg.type is None) for arg in args):
        return None
    return tuple([(_fixed_type(arg), arg.type_attr) for arg in args])


def _all_calls(attrs: tuple[AttrDef, ...], traits: OpTraits) -> tuple[FunctionCall, ...]:
    declared = {call.attr for call in traits.calls}
    rest = [a.name for a in attrs if a.type in _FUNCTION_TYPES and a.name not in declared]
    return (*traits.calls, *(FunctionCall(name, CallKind.DEFERRED) for name in rest))


def _fixed_type(arg: ArgDef) -> DType | None:
    return arg.type.as_ref if arg.type is not None and arg.is_ref else arg.type


def _ranges(args: tuple[ArgDef, ...], attrs: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    ranges, start = {}, 0
    for arg in args:
        stop = start + arg.length(attrs)
        ranges[arg.name] = (start, stop)
        start = stop
    return ranges


def _bound(attrs: Mapping[str, Any], name: str) -> Any:
    try:
        value = attrs[name]
    except KeyError:
        raise InvalidArgumentError(
            f"attr {name!r} is missing; it determines the types of inputs or outputs; "
            f"given: {', '.join(attrs) or 'none'}"
        ) from None
    if isinstance(value, AttrPlaceholder):
        raise InvalidArgumentError(
            f"attr {name!r} is the placeholder {value.name!r} of a function body; it only has a "
            "value after the function is instantiated"
        )
    return value
