"""Parse the `in` lists of op cases and draw the values that they describe.

`graphmill.testing.cases` describes the language. Values must be the same on every machine and with
every NumPy version, because TensorFlow's results for them are stored. NumPy guarantees a stable
stream only for the raw output of its bit generators (`Philox.random_raw`), not for the methods of
`Generator`. This module therefore converts raw bits to numbers itself.
"""

from __future__ import annotations

import ast
import math
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_PATTERN = re.compile(r"\s*(?P<dtype>\w+)\s*(?:\[(?P<shape>[\d,\s]*)\])?\s*(?P<rest>.*)", re.DOTALL)
_RANGE = re.compile(r"(?P<low>-?[\d.]+?)\.\.(?P<high>-?[\d.]+)")
_WORDS = ("a", "bc", "def", "Graph", "mill", "", "x y", "1.5", "-7", "ümlaut", "tensor/flow", "END")
_KNOWN_WORDS = frozenset(
    (
        *("special", "finite", "small", "column"),
        *("sorted", "nan", "inf", "distinct", "iota", "spd"),
    )
)
_STORAGE = {
    "qint8": "int8",
    "quint8": "uint8",
    "qint16": "int16",
    "quint16": "uint16",
    "qint32": "int32",
}

Values = np.ndarray[Any, Any]


class SpecError(ValueError):
    """An input of a case is malformed."""


@dataclass(frozen=True, slots=True)
class Input:
    """Describe one input tensor; `values()` draws it.

    `dtype` is TensorFlow's name. `shape` is None if it follows from the values. `how` is the text
    after the shape. `seed` depends on the op, the text and the position of the input.
    """

    dtype: str
    shape: tuple[int, ...] | None
    how: str
    seed: int

    def values(self) -> Values:
        """Draw the values; strings are an object array of bytes."""
        if self.how.startswith(":"):
            return from_literal(self.how[1:], self.dtype)
        words = self.how.split()
        if "special" in words:
            values = _special(self.dtype, words, self.seed, self.shape)
        else:
            shape = self.shape if self.shape is not None else ()
            values = _drawn(self.dtype, shape, words, self.seed)
        return _modified(values, words)

    @property
    def text(self) -> str:
        """Return the canonical text of the input."""
        shape = "" if self.shape is None else "[" + ",".join(map(str, self.shape)) + "]"
        return f"{self.dtype}{shape} {self.how}".strip()


def parse_input(value: object, types: dict[str, str], seed_text: str) -> Input:
    """Parse an entry of `in`: a string, a number, a bool or a list of numbers.

    Args:
        value: the entry in the table.
        types: dtype names by the name of their type attr (`T` -> "float32").
        seed_text: additional text that the seed depends on.

    Raises:
        SpecError: the text is not in the language.
    """
    if not isinstance(value, str):
        dtype = _natural_dtype(value)
        return Input(dtype, None, f": {value!r}", 0)
    match = _PATTERN.fullmatch(value)
    if match is None:
        raise SpecError(f"Input {value!r} is not `<dtype>[<shape>] <how>`")
    dtype = types.get(match["dtype"], match["dtype"])
    shape = match["shape"]
    dims = None if shape is None else tuple(int(d) for d in shape.split(",") if d.strip())
    numpy_dtype(dtype)
    _check_words(match["rest"], value)
    seed = zlib.crc32(f"{seed_text}|{value}|{dtype}".encode())
    return Input(dtype, dims, match["rest"].strip(), seed)


def _check_words(how: str, text: str) -> None:
    """Raise an error for words that would be ignored."""
    if how.strip().startswith(":"):
        return
    for word in how.split():
        if word in ("fill", "choice"):
            return
        if word not in _KNOWN_WORDS and not _RANGE.fullmatch(word):
            raise SpecError(
                f"Input {text!r} has the unknown word {word!r}; expected a range LOW..HIGH, fill, "
                f"choice, or one of {', '.join(sorted(_KNOWN_WORDS))}"
            )


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype that stores a dtype; that of the integers for a quantized dtype.

    Raises:
        SpecError: there is no such dtype.
    """
    name = _STORAGE.get(name, name)
    if name == "string":
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        pass
    import ml_dtypes

    if not hasattr(ml_dtypes, name):
        raise SpecError(f"{name!r} is not a dtype, nor a type attr of this table")
    extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return extended


def literal(text: str) -> Any:
    """Evaluate a Python literal that may contain `nan` and `inf`.

    Raises:
        SpecError: the text is not a literal.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return ast.literal_eval(_NamedFloats().visit(tree))
    except (ValueError, SyntaxError) as error:
        raise SpecError(f"{text!r} is not a literal: {error}") from error


def from_literal(text: str, dtype: str) -> Values:
    """Return the array of a Python literal."""
    value = literal(text)
    if dtype == "string":
        return _string_array(value)
    if dtype.startswith(("int", "uint", "q")):
        return np.array(value, dtype=object).astype(numpy_dtype(dtype))
    return np.array(value).astype(numpy_dtype(dtype))


class _NamedFloats(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in ("nan", "inf"):
            return ast.Constant(float(node.id))
        return node


def _natural_dtype(value: object) -> str:
    leaf = value
    while isinstance(leaf, list):
        if any(isinstance(item, float) for item in leaf):
            return "float32"
        if not leaf:
            raise SpecError(f'{value!r} has no dtype; write "int32[0]" for an empty tensor')
        leaf = leaf[0]
    kinds: dict[type, str] = {bool: "bool", int: "int32", float: "float32"}
    if type(leaf) not in kinds:
        raise SpecError(f"{value!r} cannot be an input")
    return kinds[type(leaf)]


def _string_array(value: object) -> Values:
    flat: list[bytes] = []

    def shape_of(item: object) -> tuple[int, ...]:
        if not isinstance(item, list):
            flat.append(item if isinstance(item, bytes) else str(item).encode())
            return ()
        shapes = [shape_of(child) for child in item]
        return (len(item), *(shapes[0] if shapes else ()))

    shape = shape_of(value)
    out = np.empty(len(flat), dtype=object)
    out[:] = flat
    return out.reshape(shape)


# ----------------------------------------------------------------------------------------------
# drawing


def _raw(count: int, seed: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.asarray(np.random.Philox(key=seed).random_raw(max(count, 1)), np.uint64)[:count]


def _uniform(count: int, seed: int, low: float, high: float) -> Values:
    unit = (_raw(count, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return low + unit * (high - low)


def _integers(count: int, seed: int, low: int, high: int) -> Values:
    span = np.uint64(high - low + 1)
    return (_raw(count, seed) % span).astype(np.int64) + low


def _shuffled(count: int, seed: int) -> Values:
    return np.argsort(_raw(count, seed), kind="stable")


def _drawn(dtype: str, shape: tuple[int, ...], words: Sequence[str], seed: int) -> Values:
    """Draw values of a dtype; `words` says how, such as `["fill", "7"]`."""
    count = math.prod(shape)
    for word, make in _MAKERS.items():
        if word in words:
            rest = words[words.index(word) + 1 :]
            return make(dtype, shape, list(rest), seed).astype(numpy_dtype(dtype)).reshape(shape)
    bounds = next((m for m in map(_RANGE.fullmatch, words) if m), None)
    if dtype == "string":
        picks = [_WORDS[i].encode() for i in _integers(count, seed, 0, len(_WORDS) - 1)]
        out = np.empty(count, dtype=object)
        out[:] = picks
        return out.reshape(shape)
    low, high = _bounds(dtype, bounds)
    if dtype == "bool":
        return _integers(count, seed, 0, 1).astype(bool).reshape(shape)
    if _is_integer(dtype):
        return _integers(count, seed, int(low), int(high)).astype(numpy_dtype(dtype)).reshape(shape)
    values = _uniform(count, seed, low, high)
    if dtype.startswith("complex"):
        values = values + 1j * _uniform(count, seed + 1, low, high)
    return values.astype(numpy_dtype(dtype)).reshape(shape)


def _bounds(dtype: str, match: re.Match[str] | None) -> tuple[float, float]:
    if match is not None:
        return float(match["low"]), float(match["high"])
    if _is_integer(dtype):
        return (0, 9) if "uint" in dtype else (-9, 9)
    return -2.0, 2.0


def _is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint", "qint", "quint"))


def _distinct(dtype: str, shape: tuple[int, ...], _words: list[str], seed: int) -> Values:
    order = _shuffled(math.prod(shape), seed)
    return order if _is_integer(dtype) else order * 0.37 - 0.15 * len(order)


def _iota(_dtype: str, shape: tuple[int, ...], _words: list[str], _seed: int) -> Values:
    return np.arange(math.prod(shape))


def _fill(dtype: str, shape: tuple[int, ...], words: list[str], _seed: int) -> Values:
    return np.broadcast_to(from_literal(words[0], dtype), (math.prod(shape),))


def _choice(dtype: str, shape: tuple[int, ...], words: list[str], seed: int) -> Values:
    pool = from_literal("[" + ",".join(words) + "]", dtype)
    return np.asarray(pool[_integers(math.prod(shape), seed, 0, len(pool) - 1)])


def _spd(dtype: str, shape: tuple[int, ...], _words: list[str], seed: int) -> Values:
    root = _drawn("complex128" if dtype.startswith("complex") else "float64", shape, [], seed)
    return root @ np.swapaxes(root.conj(), -1, -2) + np.eye(shape[-1])


_Maker = Callable[[str, tuple[int, ...], list[str], int], Values]
_MAKERS: dict[str, _Maker] = {
    "distinct": _distinct,
    "iota": _iota,
    "fill": _fill,
    "choice": _choice,
    "spd": _spd,
}


# ----------------------------------------------------------------------------------------------
# special values


def _special_values(dtype: str, words: Sequence[str]) -> Values:
    if dtype == "string":
        return _string_array([b"", b"a", b"A b", "é", b"\xff", b"x\0y", b"12", b" -3.5 "])
    if dtype == "bool":
        return np.array([False, True])
    if dtype.startswith("complex"):
        return np.array([0, 1, -1, 1j, -1j, 1 + 1j, -1 - 2j, 0.5 - 0.5j]).astype(dtype)
    if _is_integer(dtype):
        return _special_integers(dtype, words)
    return _special_floats(dtype, words)


def _special_integers(dtype: str, words: Sequence[str]) -> Values:
    kind = numpy_dtype(dtype)
    values = [0, 1, 2, 3, 7]
    bits = 8 * kind.itemsize
    low, high = (0, 2**bits - 1) if "uint" in dtype else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if low:
        values += [-1, -2, -3, -7]
    if "small" not in words:
        values += [high, high - 1, low + 1, low]
    return np.array(values, dtype=object).astype(kind)


def _special_floats(dtype: str, words: Sequence[str]) -> Values:
    kind = numpy_dtype(dtype)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.1, 3.0, -7.25, 20.0]
    if "small" not in words:
        import ml_dtypes

        limits = ml_dtypes.finfo(kind)
        values += [
            float(x) for x in (limits.eps, limits.tiny, -limits.tiny, limits.max, limits.min)
        ]
    if "finite" not in words and "small" not in words:
        values += [math.inf, -math.inf, math.nan]
    return np.array(values).astype(kind)


def _special(dtype: str, words: Sequence[str], seed: int, shape: tuple[int, ...] | None) -> Values:
    values = _special_values(dtype, words)
    if shape is None:
        return values
    picks = _integers(math.prod(shape), seed, 0, len(values) - 1)
    return np.asarray(values[picks]).reshape(shape)


def _modified(values: Values, words: Sequence[str]) -> Values:
    if "sorted" in words:
        values = np.sort(values, axis=-1)
    if "column" in words:
        values = values.reshape(*values.shape, 1)
    for word in ("nan", "inf"):
        if word in words and values.size > 1:
            values = values.copy()
            values.reshape(-1)[1] = float(word)
    return values
