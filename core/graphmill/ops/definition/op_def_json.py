"""Convert a line of `op_defs.jsonl` to an `OpDef`, and back.

A line is a JSON object. Keys, omitted if empty or false: `name`, `family`, `in` and `out`
(lists of `name` with `type` | `type_attr` | `type_list_attr`, `number_attr`, `ref`), `attr` (a list
of `name`, `type`, `default`, `allowed`, `min`), `stateful`, `commutative`, `aggregate`, `uninit`
(allows uninitialized input), `dist` (is distributed communication), `deprecated` (the GraphDef
version). For information only: `src` (if TensorFlow 2.21 no longer has the op: "1.15" for a public
op of 1.15, "1.15-internal" and "1.15-contrib" for one that only its C++ code has), `test` (the op
exists for TensorFlow's own tests).

Values: a type is "DT_X"; a shape a list of sizes, null for unknown rank; a string that is not UTF-8
is {"b64": …}; a float is the shortest decimal of the float32, "inf", "-inf" and "nan" as strings; a
function {"func": name}; a tensor {"dtype", "shape", "b64"} with the little-endian content.
"""

from __future__ import annotations

import base64
import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.dtypes import DType, as_dtype
from graphmill.ops.attrs.attr_check import to_float32
from graphmill.ops.attrs.attr_types import NO_DEFAULT, FuncAttr, ShapeAttr, TensorAttr
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.tensorflow_traits import traits_of_bundled

if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS: Final = {
    "stateful": "is_stateful",
    "commutative": "is_commutative",
    "aggregate": "is_aggregate",
    "uninit": "allows_uninitialized_input",
    "dist": "is_distributed",
    "deprecated": "deprecated_version",
    "family": "family",
}

# Lists of allowed types make up most of the text, and few of them are distinct.
_type_lists: dict[str, tuple[DType, ...]] = {}


def op_def_from_json(line: str | bytes) -> OpDef:
    """Return the definition in a line, with the traits of TensorFlow's op of that name."""
    row = json.loads(line)
    attrs = tuple([_attr(attr) for attr in row["attr"]]) if "attr" in row else ()
    return OpDef(
        row["name"],
        tuple([_arg(arg) for arg in row["in"]]) if "in" in row else (),
        tuple([_arg(arg) for arg in row["out"]]) if "out" in row else (),
        attrs,
        traits=traits_of_bundled(row["name"]),
        **{field: row[key] for key, field in _FLAGS.items() if key in row},
    )


def op_def_to_json(op_def: OpDef, **notes: Any) -> str:
    """Return the line of a definition; `notes` are additional keys, which readers ignore."""
    row: dict[str, Any] = {"name": op_def.name}
    if op_def.family:
        row["family"] = op_def.family
    if op_def.input_args:
        row["in"] = [_arg_row(arg) for arg in op_def.input_args]
    if op_def.output_args:
        row["out"] = [_arg_row(arg) for arg in op_def.output_args]
    if op_def.attrs:
        row["attr"] = [_attr_row(attr) for attr in op_def.attrs]
    row.update(
        (key, value)
        for key, field in _FLAGS.items()
        if key != "family" and (value := getattr(op_def, field))
    )
    return json.dumps({**row, **notes}, separators=(",", ":"), ensure_ascii=False)


def _arg(row: dict[str, Any]) -> ArgDef:
    type_name = row.get("type")
    return ArgDef(
        row["name"],
        None if type_name is None else as_dtype(type_name),
        row.get("type_attr", ""),
        row.get("type_list_attr", ""),
        row.get("number_attr", ""),
        row.get("ref", False),
    )


def _attr(row: dict[str, Any]) -> AttrDef:
    attr_type = row["type"]
    allowed: tuple[Any, ...] = ()
    if "allowed" in row:
        if attr_type in ("type", "list(type)"):
            allowed = _dtypes(row["allowed"])
        else:
            allowed = tuple(
                map(_VALUES[attr_type.removeprefix("list(").rstrip(")")], row["allowed"])
            )
    default: Any = NO_DEFAULT
    if "default" in row:
        if attr_type.startswith("list("):
            default = tuple(map(_VALUES[attr_type[5:-1]], row["default"]))
        else:
            default = _VALUES[attr_type](row["default"])
    return AttrDef(row["name"], attr_type, default, allowed, row.get("min"))


def _dtypes(names: list[str]) -> tuple[DType, ...]:
    key = " ".join(names)
    types = _type_lists.get(key)
    if types is None:
        types = _type_lists[key] = tuple(map(as_dtype, names))
    return types


def _string(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()


def _tensor(value: dict[str, Any]) -> TensorAttr:
    dtype = as_dtype(value["dtype"])
    content = np.frombuffer(base64.b64decode(value["b64"]), dtype.as_numpy_dtype)
    return TensorAttr(content.reshape(value["shape"]), dtype)


def _float(value: Any) -> float:
    return to_float32(float(value))


_VALUES: Final[dict[str, Callable[[Any], Any]]] = {
    "type": as_dtype,
    "int": int,
    "float": _float,
    "bool": bool,
    "string": _string,
    "shape": lambda value: None if value is None else ShapeAttr(value),
    "tensor": _tensor,
    "func": lambda value: FuncAttr(value["func"]),
}


def _arg_row(arg: ArgDef) -> dict[str, Any]:
    row: dict[str, Any] = {"name": arg.name}
    if arg.type is not None:
        row["type"] = arg.type.proto_name
    for key in ("type_attr", "type_list_attr", "number_attr"):
        if value := getattr(arg, key):
            row[key] = value
    if arg.is_ref:
        row["ref"] = True
    return row


def _attr_row(attr: AttrDef) -> dict[str, Any]:
    row: dict[str, Any] = {"name": attr.name, "type": attr.type}
    if attr.has_default:
        row["default"] = _plain(attr.default)
    if attr.allowed:
        row["allowed"] = _plain(attr.allowed)
    if attr.minimum is not None:
        row["min"] = attr.minimum
    return row


def _plain(value: Any) -> Any:
    """Return a canonical attr value in its JSON form."""
    if isinstance(value, DType):
        return value.proto_name
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, float):
        return float(str(np.float32(value))) if math.isfinite(value) else str(value)
    if isinstance(value, FuncAttr):
        return {"func": value.name}
    if isinstance(value, TensorAttr):
        content = base64.b64encode(value.numpy().tobytes()).decode()
        return {"dtype": value.dtype.proto_name, "shape": list(value.shape), "b64": content}
    return value
