"""Convert `OpDef` to its message and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import proto
from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.ops.attrs.attr_types import NO_DEFAULT
from graphmill.ops.attrs.attr_value import attr_from_proto, attr_to_proto
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef

if TYPE_CHECKING:
    from collections.abc import Iterable


def op_def_to_proto(op_def: OpDef) -> proto.OpDef:
    """Return a definition as a message."""
    message = proto.OpDef(
        name=op_def.name,
        input_arg=[_arg_to_proto(arg) for arg in op_def.input_args],
        output_arg=[_arg_to_proto(arg) for arg in op_def.output_args],
        attr=[_attr_to_proto(attr) for attr in op_def.attrs],
        is_stateful=op_def.is_stateful,
        is_commutative=op_def.is_commutative,
        is_aggregate=op_def.is_aggregate,
        allows_uninitialized_input=op_def.allows_uninitialized_input,
        is_distributed_communication=op_def.is_distributed,
        control_output=op_def.control_outputs,
        summary=op_def.summary,
        description=op_def.description,
    )
    if op_def.deprecated_version:
        message.deprecation.version = op_def.deprecated_version
        message.deprecation.explanation = op_def.deprecated_reason
    return message


def op_def_from_proto(message: proto.OpDef, family: str = "") -> OpDef:
    """Return the definition in a message.

    Raises:
        InvalidArgumentError: a type or an attr value in it is invalid.
    """
    try:
        return OpDef(
            name=message.name,
            input_args=_args_from_proto(message.input_arg),
            output_args=_args_from_proto(message.output_arg),
            attrs=tuple(map(_attr_from_proto, message.attr)),
            is_stateful=message.is_stateful,
            is_commutative=message.is_commutative,
            is_aggregate=message.is_aggregate,
            allows_uninitialized_input=message.allows_uninitialized_input,
            is_distributed=message.is_distributed_communication,
            deprecated_version=message.deprecation.version,
            family=family,
            control_outputs=tuple(message.control_output),
            summary=message.summary,
            description=message.description,
            deprecated_reason=message.deprecation.explanation,
        )
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"definition of op {message.name!r}: {error.message}", op_type=message.name
        ) from None


def _arg_to_proto(arg: ArgDef) -> proto.OpDef.ArgDef:
    return proto.OpDef.ArgDef(
        name=arg.name,
        description=arg.description,
        type=arg.type.enum if arg.type else 0,  # type: ignore[arg-type]
        type_attr=arg.type_attr,
        number_attr=arg.number_attr,
        type_list_attr=arg.type_list_attr,
        is_ref=arg.is_ref,
    )


def _args_from_proto(messages: Iterable[Any]) -> tuple[ArgDef, ...]:
    return tuple(
        ArgDef(
            name=message.name,
            type=as_dtype(int(message.type)) if message.type else None,
            type_attr=message.type_attr,
            type_list_attr=message.type_list_attr,
            number_attr=message.number_attr,
            is_ref=message.is_ref,
            description=message.description,
        )
        for message in messages
    )


def _attr_to_proto(attr: AttrDef) -> proto.OpDef.AttrDef:
    message = proto.OpDef.AttrDef(name=attr.name, type=attr.type, description=attr.description)
    if attr.has_default:
        attr_to_proto(attr.default, message.default_value, attr.type)
    if attr.allowed:
        element_type = attr.type.removeprefix("list(").removesuffix(")")
        attr_to_proto(attr.allowed, message.allowed_values, f"list({element_type})")
    if attr.minimum is not None:
        message.has_minimum = True
        message.minimum = attr.minimum
    return message


def _attr_from_proto(message: proto.OpDef.AttrDef) -> AttrDef:
    has_default = message.HasField("default_value")
    return AttrDef(
        name=message.name,
        type=message.type,
        default=attr_from_proto(message.default_value) if has_default else NO_DEFAULT,
        allowed=attr_from_proto(message.allowed_values)
        if message.HasField("allowed_values")
        else (),
        minimum=message.minimum if message.has_minimum else None,
        description=message.description,
    )
