"""Draw shapes, values and attrs for random op instances."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.testing.case_inputs import Values, numpy_dtype, parse_input
from graphmill.testing.case_writer import literal_text

if TYPE_CHECKING:
    import random

    from graphmill.ops.definition.op_def import AttrDef

Shape = tuple[int, ...]

TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "string"),
)
_SHAPES: tuple[Shape, ...] = (
    *((), (), (0,), (1,), (3,), (7,), (2, 3), (3, 3), (1, 3), (2, 1), (2, 0, 3), (0, 4)),
    *((2, 3, 4), (1, 1, 1), (2, 3, 3, 2), (1, 4, 4, 3), (2, 1, 3, 1, 2), (1, 0, 2, 2, 1)),
)
_MAX_ELEMENTS = 3000
_INTS = (-1, 0, 1, 2, 3, 4, 5, -2, -3, 7, 100)
_HUGE_INTEGERS = (2**31 - 1, -(2**31), 2**62, -(2**63), 2**63 - 1, 2**31)
_FLOATS = (0.0, 1.0, -1.0, 0.5, 0.25, 2.0, 1e-3, 1e10, -0.5, math.inf, -math.inf, math.nan)
_STRINGS = ("", "a", "A b", "1", "-1", "0.5", "%s", "é", "nan", " 7 ")
_WORDS = ("special", "special finite", "special small", "distinct", "iota", "fill 0", "fill 1")
_FLOAT_WORDS = ("special", "nan", "inf", "0..1", "-100..100", "fill -0.0", "sorted")
_INTEGER_WORDS = ("0..1", "0..3", "-1..3", "0..100", "sorted")


def shape(draw: random.Random) -> Shape:
    """Draw a shape with few elements."""
    return draw.choice(_SHAPES)


def tensor(draw: random.Random, dtype: str, dims: Shape) -> str:
    """Draw the text of an input of a dtype and shape."""
    return f"{dtype}[{','.join(map(str, dims))}] {words(draw, dtype)}".strip()


def words(draw: random.Random, dtype: str) -> str:
    """Draw the words that describe the values; none in half of the cases."""
    if draw.random() < 0.5 or dtype == "bool":
        return ""
    if dtype == "string":
        return draw.choice(("", "special"))
    more: tuple[str, ...] = (
        _FLOAT_WORDS if "float" in dtype or "complex" in dtype else _INTEGER_WORDS
    )
    if "complex" in dtype:
        more = ("special",)
    if dtype.startswith(("uint", "quint")):
        more = tuple(word for word in more if "-" not in word)
    chosen: str = draw.choice((*_WORDS, *more))
    return chosen


def retyped(text: str, dtype: str) -> str:
    """Return the text of an input with another dtype; literal values are kept if possible."""
    old = parse_input(text, {}, "")
    if old.shape is None and old.how.startswith(":"):
        loses_part = "complex" in old.dtype and "complex" not in dtype
        if loses_part or ("string" in (dtype, old.dtype) and dtype != old.dtype):
            return tensor_like(dtype, old.values().shape)
        return f"{dtype}{old.how}"
    dims = "" if old.shape is None else f"[{','.join(map(str, old.shape))}]"
    how = "" if dtype in ("string", "bool") and old.how != "special" else old.how
    if dtype.startswith(("uint", "quint")) and ".." in how and "-" in how:
        how = ""
    return f"{dtype}{dims} {how}".strip()


def tensor_like(dtype: str, dims: Shape) -> str:
    """Return the text of an input with a shape and default values."""
    return f"{dtype}[{','.join(map(str, dims))}]"


def other_shape(draw: random.Random, old: Shape) -> Shape:
    """Change a shape slightly: add, remove, grow or shrink a dimension, or set it to 1 or 0."""
    dims = list(old)
    for _ in range(draw.choice((1, 1, 2))):
        kind = draw.choice(("drop", "add", "one", "zero", "grow", "shrink", "any", "swap"))
        axis = draw.randrange(len(dims)) if dims else 0
        if kind == "any":
            dims = list(shape(draw))
        elif kind == "add":
            dims.insert(draw.randrange(len(dims) + 1), draw.choice((1, 1, 2, 3, 0)))
        elif not dims:
            continue
        elif kind == "drop":
            dims.pop(axis)
        elif kind == "swap":
            draw.shuffle(dims)
        else:
            dims[axis] = {"one": 1, "zero": 0, "grow": dims[axis] + 1}.get(
                kind, max(dims[axis] - 1, 0)
            )
    return tuple(dims) if math.prod(dims) <= _MAX_ELEMENTS else old


def reshaped(draw: random.Random, text: str, dims: Shape) -> str:
    """Return the text of an input with another shape; integers stay in their range."""
    old = parse_input(text, {}, "")
    if not old.how.startswith(":"):
        how = "" if "spd" in old.how or "column" in old.how else old.how
        return f"{tensor_like(old.dtype, dims)} {how}".strip()
    values = old.values()
    made = tensor_like(old.dtype, dims)
    if not values.size or values.dtype.kind not in "iu" or draw.random() < 0.2:
        return made
    low, high = int(values.min()), int(values.max())
    if max(abs(low), abs(high)) > 1_000_000:
        return made
    return f"{made} {low}..{high}"


def other_values(draw: random.Random, text: str) -> str:
    """Change a few values, or draw all values in another way."""
    old = parse_input(text, {}, "")
    values = old.values()
    kind = numpy_dtype(old.dtype)
    if values.size == 0 or (values.size > 24 or draw.random() < 0.3):
        return tensor(draw, old.dtype, values.shape)
    flat = values.reshape(-1).tolist()
    for _ in range(draw.choice((1, 1, 2))):
        index = draw.randrange(len(flat))
        flat[index] = _other_value(draw, flat[index], old.dtype)
    changed: Values = _array(flat, kind, old.dtype).reshape(values.shape)
    return literal_text(changed, old.dtype)


def _array(flat: list[Any], kind: Any, dtype: str) -> Values:
    if dtype == "string":
        out = np.empty(len(flat), object)
        out[:] = flat
        return out
    with np.errstate(all="ignore"):
        return np.array(flat, dtype=object).astype(kind)


def _other_value(draw: random.Random, value: Any, dtype: str) -> Any:
    if dtype == "string":
        return draw.choice((*_STRINGS, "\xff")).encode(
            "latin-1" if draw.random() < 0.3 else "utf-8"
        )
    if dtype == "bool":
        return not value
    if "float" in dtype:
        return draw.choice((*_FLOATS, -float(value), float(value) + 1))
    if "complex" in dtype:
        return complex(draw.choice(_FLOATS[:9]), draw.choice(_FLOATS[:9]))
    return _fitting(_other_int(draw, int(value)), dtype)


def _other_int(draw: random.Random, value: int) -> int:
    if draw.random() < 0.12:
        return int(draw.choice(_HUGE_INTEGERS))
    near = (value + 1, value - 1)
    chosen: int = draw.choice((*_INTS, *near, *near, -value, -value - 1))
    return chosen


def _fitting(value: int, dtype: str) -> int:
    """Clip an integer to the range of a dtype."""
    bits = 8 * numpy_dtype(dtype).itemsize
    low, high = (0, 2**bits - 1) if "uint" in dtype else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return int(min(max(value, low), high))


def attr(draw: random.Random, attr_def: AttrDef, old: Any) -> Any:
    """Draw another value of an attr, in the form of case tables; None if this is not possible."""
    if old is None and attr_def.has_default:
        old = attr_def.default
    kind = attr_def.type
    if kind.startswith("list("):
        return _list_attr(draw, attr_def, kind[5:-1], list(old) if old is not None else [])
    return _attr_item(draw, attr_def, kind, old)


def _list_attr(draw: random.Random, attr_def: AttrDef, kind: str, old: list[Any]) -> Any:
    items = [_plain_attr(item) for item in old]
    change = draw.choice(("item", "item", "item", "drop", "add"))
    if change == "drop" and items:
        items.pop(draw.randrange(len(items)))
    elif change == "item" and items:
        index = draw.randrange(len(items))
        items[index] = _attr_item(draw, attr_def, kind, items[index])
    else:
        items.append(_attr_item(draw, attr_def, kind, items[-1] if items else None))
    return None if any(item is None for item in items) else items


def _plain_attr(item: Any) -> Any:
    if isinstance(item, bytes):
        return item.decode("latin-1")
    return item.name if hasattr(item, "is_ref") else item


def _attr_item(draw: random.Random, attr_def: AttrDef, kind: str, old: Any) -> Any:
    if attr_def.allowed and draw.random() < 0.95:
        return _plain_attr(draw.choice(attr_def.allowed))
    if kind == "bool":
        return not old
    if kind == "int":
        return _int_attr(draw, int(old) if isinstance(old, int) else 1)
    if kind == "float":
        return draw.choice(_FLOATS)
    if kind == "string":
        return draw.choice(_STRINGS)
    if kind == "type":
        return draw.choice(TYPES)
    if kind == "shape":
        return _shape_attr(draw, old)
    return None


def _int_attr(draw: random.Random, old: int) -> int:
    if draw.random() < 0.05:
        return draw.choice((2**31 - 1, -(2**31), 2**62))
    return draw.choice((*_INTS, old + 1, old - 1, old + 1, old - 1))


def _shape_attr(draw: random.Random, old: Any) -> Any:
    if old is None or isinstance(old, str) or draw.random() < 0.2:
        return draw.choice(("unknown", *(list(dims) for dims in _SHAPES)))
    dims = list(other_shape(draw, tuple(max(int(d), 0) for d in old)))
    if dims and draw.random() < 0.4:
        dims[draw.randrange(len(dims))] = -1
    return dims
