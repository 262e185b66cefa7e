"""Infer type and length attrs from an op's inputs.

Semantics: _ExtractInputsAndAttrs in tensorflow/python/framework/op_def_library.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.dtypes import DType
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.ops.definition.op_def import ArgDef, OpDef


def infer_attrs(
    op_def: OpDef, inputs: Sequence[DType | Sequence[DType]], attrs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `attrs` with the attrs that the inputs determine; see `OpDef.infer_attrs`."""
    if len(inputs) != len(op_def.input_args):
        raise InvalidArgumentError(
            f"op {op_def.name} takes {len(op_def.input_args)} inputs "
            f"({', '.join(arg.name for arg in op_def.input_args) or 'none'}), got {len(inputs)}",
            op_type=op_def.name,
        )
    inference = _Inference(op_def, dict(attrs))
    for arg, types in zip(op_def.input_args, inputs, strict=True):
        inference.add(arg, types)
    return inference.attrs


def group_inputs(op_def: OpDef, count: int, attrs: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the range of each input among `count` flat ones; see `OpDef.group_inputs`.

    Lists whose length no attr determines share the remaining inputs equally.
    """
    lengths = {arg.name: _declared_length(arg, attrs) for arg in op_def.input_args}
    unknown = [arg for arg in op_def.input_args if lengths[arg.name] is None]
    rest = count - sum(length for length in lengths.values() if length is not None)
    if len({arg.number_attr or arg.type_list_attr for arg in unknown}) > 1:
        names = ", ".join(arg.number_attr or arg.type_list_attr for arg in unknown)
        raise InvalidArgumentError(
            f"op {op_def.name} has several lists of inputs; set the attrs {names} to give their "
            "lengths",
            op_type=op_def.name,
        )
    if rest < 0 or (rest % len(unknown) if unknown else rest):
        raise InvalidArgumentError(
            f"{count} inputs do not fit op {op_def.name}, which takes "
            f"({', '.join(map(str, op_def.input_args))})",
            op_type=op_def.name,
        )
    ranges, start = {}, 0
    for arg in op_def.input_args:
        length = lengths[arg.name]
        stop = start + (rest // len(unknown) if length is None else length)
        ranges[arg.name] = (start, stop)
        start = stop
    return ranges


def _declared_length(arg: ArgDef, attrs: Mapping[str, Any]) -> int | None:
    if arg.number_attr:
        length: int | None = attrs.get(arg.number_attr)
        return length
    if arg.type_list_attr:
        types = attrs.get(arg.type_list_attr)
        return None if types is None else len(types)
    return 1


class _Inference:
    """The attrs inferred so far, and the input from which each was inferred."""

    def __init__(self, op_def: OpDef, attrs: dict[str, Any]) -> None:
        self.op_def = op_def
        self.attrs = attrs
        self.inferred_from: dict[str, str] = {}

    def add(self, arg: ArgDef, dtypes: DType | Sequence[DType]) -> None:
        """Infer attrs from the types of one input."""
        if isinstance(dtypes, DType):
            if arg.is_list:
                raise self.error(f"input {arg.name!r} is a list of tensors, got one tensor")
            types: Sequence[DType] = (dtypes,)
        elif not arg.is_list:
            raise self.error(f"input {arg.name!r} is one tensor, got a list of {len(dtypes)}")
        else:
            types = dtypes
        if arg.is_ref and not all(dtype.is_ref for dtype in types):
            raise self.error(
                f"input {arg.name!r} must be a reference to a variable, got a value "
                f"({', '.join(dtype.name for dtype in types)})"
            )
        if arg.number_attr:
            self.bind(arg, arg.number_attr, len(types))
        if arg.type_list_attr:
            self.bind(arg, arg.type_list_attr, tuple(dtype.base_dtype for dtype in types))
            return
        for position, dtype in enumerate(types):
            self.add_type(arg, dtype.base_dtype, position if arg.is_list else None)

    def add_type(self, arg: ArgDef, dtype: DType, position: int | None) -> None:
        """Infer attrs from the type of one tensor."""
        if arg.type_attr:
            self.bind(arg, arg.type_attr, dtype, position)
        elif dtype is not arg.type and arg.type is not None:
            raise self.error(
                f"input {_show(arg, position)} has type {dtype.name}, expected {arg.type.name}"
            )

    def bind(self, arg: ArgDef, name: str, value: Any, position: int | None = None) -> None:
        """Set an attr to the value that an input determines, or check that it has this value."""
        existing = self.attrs.get(name)
        if existing is None:
            self.attrs[name] = value
            self.inferred_from[name] = arg.name
        elif existing != value:
            other = self.inferred_from.get(name)
            source = f"input {other!r}" if other is not None else f"attr {name!r}"
            what = "length" if name == arg.number_attr else "type"
            advice = ""
            if isinstance(value, DType) and isinstance(existing, DType) and other is not None:
                advice = f"; convert one of them, as in graphmill.functions.cast(x, {value.name!r})"
            raise self.error(
                f"input {_show(arg, position)} has {what} {_names(value)}, which does not match "
                f"{what} {_names(existing)} of {source}{advice}"
            )

    def error(self, problem: str) -> InvalidArgumentError:
        """Return an error about an input of the op."""
        return InvalidArgumentError(f"op {self.op_def.name}: {problem}", op_type=self.op_def.name)


def _show(arg: ArgDef, position: int | None) -> str:
    return repr(arg.name) if position is None else f"'{arg.name}[{position}]'"


def _names(value: Any) -> str:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, tuple):
        return "[" + ", ".join(dtype.name for dtype in value) + "]"
    return str(value)
