"""Validate an op definition before it is registered.

Semantics: ValidateOpDef in tensorflow/core/framework/op_def_util.cc.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.attrs import attr_check
from graphmill.ops.attrs.attr_types import NO_DEFAULT
from graphmill.ops.definition.op_def import AttrDef
from graphmill.ops.definition.op_traits import check_traits

if TYPE_CHECKING:
    from graphmill.ops.definition.op_def import ArgDef, OpDef

_OP_NAME: Final = re.compile(r"(?:_*[A-Z]\w*>)*_*[A-Z]\w*", re.ASCII)
_ARG_NAME: Final = re.compile(r"[a-z_]\w*", re.ASCII)
_ATTR_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TYPES: Final = {*attr_check.ATTR_TYPES, *(f"list({kind})" for kind in attr_check.ATTR_TYPES)}


def validate_op_def(op_def: OpDef) -> None:
    """Check a definition.

    Raises:
        InvalidArgumentError: a name is invalid or used twice; an attr has an unknown type, or an
            invalid default; an input or output refers to a missing attr; the traits contradict the
            definition.
    """
    if not _OP_NAME.fullmatch(op_def.name):
        raise InvalidArgumentError(
            f"{op_def.name!r} is not a valid op name; expected CamelCase such as 'MyOp' or "
            "'MyPackage>MyOp'"
        )
    for attr in op_def.attrs:
        _validate_attr(op_def, attr)
    for arg in (*op_def.input_args, *op_def.output_args):
        _validate_arg(op_def, arg)
    _check_unique(op_def, [attr.name for attr in op_def.attrs], "attrs")
    _check_unique(op_def, [arg.name for arg in op_def.input_args], "inputs")
    _check_unique(op_def, [arg.name for arg in op_def.output_args], "outputs")
    check_traits(op_def)


def with_canonical_values(op_def: OpDef) -> OpDef:
    """Return a definition whose attrs have defaults and allowed values in canonical form.

    Authors may write them as for a node: text for a string, a list for a list.

    Raises:
        InvalidArgumentError: one cannot be converted to the type of its attr.
    """
    attrs = tuple([_with_canonical_values(attr, op_def.name) for attr in op_def.attrs])
    # Compared as text, because 1, 1.0 and True are equal in Python.
    if repr(attrs) == repr(op_def.attrs):
        return op_def
    return dataclasses.replace(op_def, attrs=attrs)


def _with_canonical_values(attr: AttrDef, op: str) -> AttrDef:
    if attr.type not in _TYPES:
        return attr  # `validate_op_def` refuses it
    element = AttrDef(attr.name, attr.type.removeprefix("list(").removesuffix(")"))
    allowed = tuple([element.canonical(value, op) for value in attr.allowed])
    default = attr.canonical(attr.default, op) if attr.has_default else attr.default
    return attr._replace(default=default, allowed=allowed)


def _validate_attr(op_def: OpDef, attr: AttrDef) -> None:
    if not _ATTR_NAME.fullmatch(attr.name):
        raise _error(op_def, f"{attr.name!r} is not a valid attr name")
    if attr.type not in _TYPES:
        raise _error(
            op_def,
            f"attr {attr.name!r} has the unknown type {attr.type!r}; types are {sorted(_TYPES)}",
        )
    if attr.minimum is not None and attr.type != "int" and not attr.type.startswith("list("):
        raise _error(op_def, f"attr {attr.name!r} is a {attr.type} and cannot have a minimum")
    if attr.default is not NO_DEFAULT:
        attr.check(attr.default, op_def.name)


def _validate_arg(op_def: OpDef, arg: ArgDef) -> None:
    if not _ARG_NAME.fullmatch(arg.name):
        raise _error(
            op_def, f"{arg.name!r} is not a valid name of an input or output; expected snake_case"
        )
    sources = [bool(arg.type), bool(arg.type_attr), bool(arg.type_list_attr)]
    if sum(sources) != 1 or (arg.type_list_attr and arg.number_attr):
        raise _error(
            op_def,
            f"{arg.name!r} needs exactly one of type, type_attr and type_list_attr (and a "
            "number_attr only with the first two)",
        )
    for name, required in (
        (arg.type_attr, "type"),
        (arg.type_list_attr, "list(type)"),
        (arg.number_attr, "int"),
    ):
        if name and not (op_def.has_attr(name) and op_def.attr(name).type == required):
            raise _error(
                op_def, f"{arg.name!r} refers to {name!r}, which is not an attr of type {required}"
            )


def _check_unique(op_def: OpDef, names: list[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _error(op_def, f"several {what} have the name {', '.join(map(repr, twice))}")


def _error(op_def: OpDef, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"definition of op {op_def.name}: {problem}", op_type=op_def.name)
