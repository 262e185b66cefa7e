"""Convert attr values from users to canonical form, and check them against an `AttrDef`.

Semantics: AttrValueHasType and ValidateAttrValue in tensorflow/core/framework/attr_value_util.cc
and op_def_util.cc; conversions as in tensorflow/python/framework/op_def_library.py.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.dtypes import DType, as_dtype
from graphmill.errors import InvalidArgumentError, suggest
from graphmill.ops.attrs import attr_value
from graphmill.ops.attrs.attr_types import (
    UNSET,
    AttrPlaceholder,
    FuncAttr,
    ShapeAttr,
    TensorAttr,
)
from graphmill.ops.inputs.values import is_weak, to_array

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill.ops.definition.op_def import AttrDef, OpDef

ATTR_TYPES: Final = ("type", "int", "float", "bool", "string", "shape", "tensor", "func")


def canonical(attr: AttrDef, value: Any, op: str = "") -> Any:
    """Convert a user's value to canonical form.

    Raises:
        InvalidArgumentError: it cannot be converted to the attr's type.
    """
    if isinstance(value, AttrPlaceholder):
        return value
    if _is_attr_value(value):
        return attr_value.attr_from_proto(value)
    try:
        if not attr.type.startswith("list("):
            return _CONVERTERS[attr.type](value)
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise _UnfitError
        return tuple(map(_CONVERTERS[attr.type[5:-1]], value))
    except _UnfitError:
        raise _error(attr, op, f"expected {_EXPECTED[attr.type]}, got {_short(value)}") from None
    except InvalidArgumentError as error:
        raise _error(attr, op, error.message) from None


def typed_tensor(attr: AttrDef, value: Any, dtype: DType, op: str = "") -> TensorAttr:
    """Convert a user's tensor whose element type is given by another attr, as in a constant.

    Raises:
        InvalidArgumentError: it is not a tensor, or cannot be converted to `dtype`.
    """
    if _is_attr_value(value):
        tensor_attr: TensorAttr = attr_value.attr_from_proto(value)
        return tensor_attr
    try:
        return _to_tensor(value, dtype)
    except InvalidArgumentError as error:
        raise _error(attr, op, error.message) from None


def canonical_undeclared(name: str, value: Any, op: str = "") -> Any:
    """Convert the value of an attr that no op declares, such as `_class`, to canonical form.

    Raises:
        InvalidArgumentError: the type of the value does not determine the kind of attr.
    """
    if value is UNSET or value is None or isinstance(value, _CANONICAL):
        return value
    if _is_attr_value(value):
        return attr_value.attr_from_proto(value)
    for types, convert in _GUESSES:
        if isinstance(value, types):
            return convert(value)
    if isinstance(value, (list, tuple)):
        return tuple(canonical_undeclared(name, item, op) for item in value)
    raise InvalidArgumentError(
        f"attr {name!r}: {_short(value)} cannot be converted to an attr value", op_type=op
    )


def check(attr: AttrDef, value: Any, op: str = "") -> None:
    """Check a canonical value against type, allowed values and minimum.

    Raises:
        InvalidArgumentError: it is not a valid value of the attr.
    """
    if type(value) is AttrPlaceholder:
        return
    if not _TESTS[attr.type](value):
        raise _error(attr, op, f"expected {_EXPECTED[attr.type]}, got {_short(value)}")
    if attr.allowed:
        for item in value if attr.type.startswith("list(") else (value,):
            if item not in attr.allowed:
                raise _error(attr, op, _not_allowed(attr, item))
    if attr.minimum is not None:
        if attr.type == "int":
            if value < attr.minimum:
                raise _error(attr, op, f"must be at least {attr.minimum}, got {value}")
        elif len(value) < attr.minimum:
            raise _error(
                attr,
                op,
                f"needs at least {attr.minimum} elements, got {len(value)}: {_short(value)}",
            )


def check_attrs(op_def: OpDef, attrs: Mapping[str, Any]) -> None:
    """Check a complete set of canonical attrs; see `OpDef.check_attrs`."""
    num_declared = 0
    for attr in op_def.attrs:
        value = attrs.get(attr.name, UNSET)
        if value is UNSET:
            present = ", ".join(name for name in attrs if not name.startswith("_")) or "none"
            raise InvalidArgumentError(
                f"attr {attr.name!r} ({attr.type}) of op {op_def.name} is missing; "
                f"given: {present}",
                op_type=op_def.name,
            )
        num_declared += 1
        check(attr, value, op_def.name)
    if num_declared == len(attrs):
        return
    for name in attrs:
        if not name.startswith("_") and not op_def.has_attr(name):
            names = [attr.name for attr in op_def.attrs]
            raise InvalidArgumentError(
                f"op {op_def.name} has no attr {name!r}{suggest(name, names)}; it has "
                f"{', '.join(names) or 'none'} (perhaps a newer version of TensorFlow wrote it)",
                op_type=op_def.name,
            )


def describe(attr: AttrDef) -> str:
    """Describe an attr in one line: `padding: string = 'SAME', one of 'SAME', 'VALID'`."""
    text = f"{attr.name}: {attr.type}"
    if attr.has_default:
        text += f" = {display(attr.default)}"
    if attr.minimum is not None:
        text += f", at least {attr.minimum}" + (" elements" if attr.type != "int" else "")
    if attr.allowed:
        text += f", one of {', '.join(map(display, attr.allowed))}"
    return text


def display(value: Any) -> str:
    """Return a human-readable text of a canonical value."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, bytes):
        return repr(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, ShapeAttr):
        return "[" + ", ".join("?" if size < 0 else str(size) for size in value) + "]"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(display, value)) + "]"
    if isinstance(value, FuncAttr):
        return value.name or "''"
    return repr(value)


class _UnfitError(Exception):
    """A value cannot be converted to an attr's type; the caller adds the message."""


def _is_attr_value(value: Any) -> bool:
    """Return whether a value is an AttrValue message, ours or TensorFlow's."""
    return hasattr(value, "WhichOneof") and hasattr(value, "placeholder")


def _error(attr: AttrDef, op: str, problem: str) -> InvalidArgumentError:
    owner = f" of op {op}" if op else ""
    return InvalidArgumentError(f"attr {attr.name!r}{owner}: {problem}", op_type=op or None)


def _not_allowed(attr: AttrDef, item: Any) -> str:
    near = ""
    if isinstance(item, bytes):
        names = [value.decode("utf-8", "replace") for value in attr.allowed]
        near = suggest(item.decode("utf-8", "replace"), names)
    return f"{display(item)} is not one of {', '.join(map(display, attr.allowed))}{near}"


def _short(value: Any) -> str:
    if isinstance(value, (DType, bytes)) or (
        isinstance(value, tuple) and all(isinstance(item, (DType, bytes, int)) for item in value)
    ):
        text = display(value)
    else:
        text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def _to_int(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise _UnfitError
    try:
        return operator.index(value)
    except TypeError:
        raise _UnfitError from None


def to_float32(value: float) -> float:
    """Round `value` to float32; return a Python float, and the object `math.nan` for any NaN."""
    if math.isnan(value):
        return math.nan
    try:
        single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return single


def _to_float(value: Any) -> float:
    if isinstance(value, (bool, np.bool_, str, bytes, complex)):
        raise _UnfitError
    try:
        return to_float32(float(value))
    except (TypeError, ValueError):
        raise _UnfitError from None


def _to_bool(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise _UnfitError


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    raise _UnfitError


def _to_shape(value: Any) -> ShapeAttr | None:
    if value is None:
        return None
    if hasattr(value, "unknown_rank"):  # a TensorShapeProto
        return attr_value.shape_from_proto(value)  # type: ignore[return-value]
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _UnfitError
    sizes = [-1 if size is None else _to_int(size) for size in value]
    if any(size < -1 for size in sizes):
        raise InvalidArgumentError(
            f"a dimension of shape {sizes} is negative; use -1 or None if it is unknown"
        )
    return ShapeAttr(sizes)


def _to_tensor(value: Any, dtype: DType | None = None) -> TensorAttr:
    if isinstance(value, TensorAttr):
        return value
    if hasattr(value, "tensor_shape"):  # a TensorProto
        return TensorAttr(value)
    has_strings = isinstance(value, np.ndarray) and value.dtype.kind in "SUO"
    if is_weak(value) or has_strings or (dtype and as_dtype(value.dtype) is not dtype):
        return TensorAttr(*to_array(value, dtype))
    return TensorAttr(value)


def _to_func(value: Any) -> FuncAttr:
    if isinstance(value, FuncAttr):
        return value
    if isinstance(value, str):
        return FuncAttr(value)
    if hasattr(value, "DESCRIPTOR"):  # a NameAttrList
        return attr_value.func_from_proto(value)
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return FuncAttr(name)
    raise _UnfitError


def _to_dtype(value: Any) -> DType:
    if value is None:
        raise _UnfitError
    return as_dtype(value)


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "type": _to_dtype,
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "string": _to_bytes,
    "shape": _to_shape,
    "tensor": _to_tensor,
    "func": _to_func,
}

_CANONICAL: Final = (DType, ShapeAttr, TensorAttr, FuncAttr, AttrPlaceholder, bytes)
_GUESSES: Final[tuple[tuple[Any, Callable[[Any], Any]], ...]] = (
    ((bool, np.bool_), bool),
    ((int, np.integer), int),
    ((float, np.floating), _to_float),
    (str, _to_bytes),
    ((np.dtype, type), as_dtype),
    (np.ndarray, TensorAttr),
)


def _is_shape(value: Any) -> bool:
    return value is None or (
        isinstance(value, tuple) and all(type(size) is int and size >= -1 for size in value)
    )


_TESTS: Final[dict[str, Callable[[Any], bool]]] = {
    "type": lambda value: type(value) is DType and not value.is_ref,
    "int": lambda value: type(value) is int,
    "float": lambda value: type(value) is float,
    "bool": lambda value: type(value) is bool,
    "string": lambda value: type(value) is bytes,
    "shape": _is_shape,
    "tensor": lambda value: type(value) is TensorAttr,
    "func": lambda value: type(value) is FuncAttr,
}


def _list_test(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, tuple) and type(value) is not ShapeAttr and all(map(test, value))
    )


_TESTS.update({f"list({kind})": _list_test(_TESTS[kind]) for kind in ATTR_TYPES})

_EXPECTED: Final[dict[str, str]] = {
    "type": "an element type",
    "int": "an int",
    "float": "a float",
    "bool": "a bool",
    "string": "a string",
    "shape": "a shape (a list of sizes, None for an unknown size; None for unknown rank)",
    "tensor": "a tensor",
    "func": "a function",
}
_EXPECTED.update(
    {
        "list(type)": "a list of element types",
        "list(int)": "a list of ints",
        "list(float)": "a list of floats",
        "list(bool)": "a list of bools",
        "list(string)": "a list of strings",
        "list(shape)": "a list of shapes",
        "list(tensor)": "a list of tensors",
        "list(func)": "a list of functions",
    }
)
