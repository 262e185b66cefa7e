"""Convert `AttrValue` messages to canonical Python values and back, without loss.

`graphmill.ops.attrs.attr_types` describes the canonical forms. Instances of TensorFlow's message
classes are accepted, too, as only the names of fields matter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import proto
from graphmill.dtypes import DType, as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.ops.attrs.attr_types import UNSET, AttrPlaceholder, FuncAttr, ShapeAttr, TensorAttr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill.proto import AttrValue, NameAttrList, TensorShapeProto
    from graphmill.typing import Shape

_NO_TYPES: Final[Mapping[str, str]] = {}


def attr_from_proto(message: AttrValue) -> Any:
    """Return the canonical value of a message (`UNSET` if it is empty).

    Raises:
        InvalidArgumentError: a list mixes several kinds, a dtype is unknown, or a tensor is
            invalid.
    """
    kind = message.WhichOneof("value")
    if kind is None:
        return UNSET
    return _READERS[kind](getattr(message, kind))


def attrs_from_proto(attr: Mapping[str, AttrValue]) -> dict[str, Any]:
    """Return the canonical values of an attr map such as `NodeDef.attr`."""
    return {name: attr_from_proto(message) for name, message in attr.items()}


def attr_to_proto(value: Any, message: AttrValue | None = None, attr_type: str = "") -> AttrValue:
    """Write a canonical value to `message` (by default a new one) and return the message.

    Args:
        value: the value; a tensor may also be a `TensorProto` or an array.
        message: the message to write to.
        attr_type: the attr's type as in its `AttrDef`, if known. With "shape", a plain tuple is a
            shape; otherwise it is a list.

    Raises:
        InvalidArgumentError: the value is not in canonical form.
    """
    target: AttrValue = proto.AttrValue() if message is None else message
    if value is UNSET:
        return target
    if isinstance(value, tuple) and type(value) is not ShapeAttr and attr_type != "shape":
        _list_to_proto(value, target.list, attr_type)
        return target
    kind = "shape" if attr_type == "shape" and type(value) is tuple else _kind(value)
    if kind in _WRITERS:
        field = getattr(target, kind)
        field.SetInParent()
        _WRITERS[kind](value, field)
    else:
        setattr(target, kind, _plain(value))
    return target


def attrs_to_proto(
    attrs: Mapping[str, Any], target: Any, attr_types: Mapping[str, str] = _NO_TYPES
) -> None:
    """Write canonical values to an attr map such as `NodeDef.attr`.

    `attr_types` has the types of declared attrs (`OpDef.attr_types`).
    """
    for name, value in attrs.items():
        attr_to_proto(value, target[name], attr_types.get(name, ""))


def func_from_proto(message: NameAttrList) -> FuncAttr:
    """Return the canonical form of a function with its attrs."""
    return FuncAttr(message.name, attrs_from_proto(message.attr))


def func_to_proto(value: FuncAttr, message: NameAttrList | None = None) -> NameAttrList:
    """Write a function with its attrs to `message` (by default a new one); return the message."""
    target: NameAttrList = proto.NameAttrList() if message is None else message
    target.name = value.name
    attrs_to_proto(value.attrs, target.attr)
    return target


def shape_from_proto(message: TensorShapeProto) -> Shape:
    """Return a shape as a tuple, with -1 for an unknown size; None for an unknown rank."""
    if message.unknown_rank:
        return None
    return ShapeAttr([dim.size if dim.size >= 0 else -1 for dim in message.dim])


def shape_to_proto(shape: Shape, message: TensorShapeProto | None = None) -> TensorShapeProto:
    """Write a shape to `message` (by default a new one) and return the message."""
    target: TensorShapeProto = proto.TensorShapeProto() if message is None else message
    if shape is None:
        target.unknown_rank = True
    else:
        for size in shape:
            target.dim.add(size=size)
    return target


def _float_from_proto(value: float) -> float:
    # Use one NaN object, so that tuples and dicts that contain it compare equal.
    return math.nan if value != value else value


def _list_to_proto(values: tuple[Any, ...], target: Any, attr_type: str) -> None:
    target.SetInParent()  # an empty list is also a value
    for item in values:
        kind = "shape" if attr_type == "list(shape)" else _kind(item)
        field = getattr(target, kind, None)
        if field is None:
            raise InvalidArgumentError(f"a list attr cannot hold a {type(item).__name__}: {item!r}")
        if kind in _WRITERS:
            _WRITERS[kind](item, field.add())
        else:
            field.append(_plain(item))


def _list_from_proto(message: Any) -> tuple[Any, ...]:
    filled = message.ListFields()
    if not filled:
        return ()
    if len(filled) > 1:
        kinds = ", ".join(descriptor.name for descriptor, _ in filled)
        raise InvalidArgumentError(f"AttrValue list mixes several kinds: {kinds}")
    descriptor, items = filled[0]
    return tuple(map(_READERS[descriptor.name], items))


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "s": bytes,
    "i": int,
    "f": _float_from_proto,
    "b": bool,
    "type": as_dtype,
    "shape": shape_from_proto,
    "tensor": TensorAttr,
    "func": func_from_proto,
    "list": _list_from_proto,
    "placeholder": AttrPlaceholder,
}

_WRITERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "shape": shape_to_proto,
    "tensor": lambda value, message: message.CopyFrom(_as_tensor(value).to_proto()),
    "func": func_to_proto,
}

_KINDS: Final[dict[type, str]] = {
    bool: "b",
    int: "i",
    float: "f",
    bytes: "s",
    DType: "type",
    ShapeAttr: "shape",
    type(None): "shape",
    TensorAttr: "tensor",
    FuncAttr: "func",
    AttrPlaceholder: "placeholder",
}


def _as_tensor(value: Any) -> TensorAttr:
    return value if isinstance(value, TensorAttr) else TensorAttr(value)


def _plain(value: Any) -> Any:
    """Return a value in the form that a scalar field of the message accepts."""
    if isinstance(value, DType):
        return value.enum
    return value.name if isinstance(value, AttrPlaceholder) else value


def _kind(value: Any) -> str:
    kind = _KINDS.get(type(value))
    if kind is None and isinstance(value, FuncAttr):  # a subclass; only its name is written
        return "func"
    if kind is None and (isinstance(value, np.ndarray) or hasattr(value, "tensor_shape")):
        return "tensor"
    if kind is None:
        raise InvalidArgumentError(
            f"{value!r} ({type(value).__name__}) is not an attr value in canonical form; "
            "OpDef.canonical_attrs creates one"
        )
    return kind
