"""Format tensors as TensorFlow does, for Assert, Print and StringFormat.

Semantics: tensorflow/core/framework/tensor.cc, SummarizeValue with and without `print_v2`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi.kernels import cancellable

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_ESCAPES = {
    **{byte: f"\\{byte:03o}" for byte in range(256) if not 0x20 <= byte < 0x7F},
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord('"'): '\\"',
    ord("'"): "\\'",
    ord("\\"): "\\\\",
}
_ASCII_ESCAPES = {byte: text for byte, text in _ESCAPES.items() if byte < 0x80}


def escape(item: bytes) -> str:
    """Return `item` as a C string literal without quotes; non-ASCII bytes in octal."""
    return item.decode("latin-1").translate(_ESCAPES)


def _escape_ascii(item: bytes) -> str:
    """Return `item` as a C string literal without quotes; non-ASCII characters stay unchanged.

    Bytes that are not valid UTF-8 are returned as surrogates, for `errors="surrogateescape"`.
    """
    return item.decode("utf-8", "surrogateescape").translate(_ASCII_ESCAPES)


def _float_text(value: Any, digits: int, more: int) -> str:
    """Format a float with `digits` digits, or with `more` if these do not read back equal."""
    short = f"{float(value):.{digits}g}"
    if value != value or type(value)(short) == value:
        return short
    return f"{float(value):.{more}g}"


def _element_printer(dtype: np.dtype[Any], quoted: bool) -> Callable[[Any], str]:
    if dtype.kind == "O":
        return lambda item: _object_text(item, quoted)
    if dtype.kind in "iu":
        return str
    if dtype.kind == "b":
        return lambda item: "1" if item else "0"
    if dtype.kind == "c":
        return lambda _: "?"
    if dtype == np.float64:
        return lambda item: _float_text(np.float64(item), 15, 17)
    # Narrower floats are printed as the float32 of the same value.
    return lambda item: _float_text(np.float32(item), 6, 9)


def _object_text(item: Any, quoted: bool) -> str:
    if not isinstance(item, bytes):
        return "?"
    return f'"{_escape_ascii(item)}"' if quoted else escape(item)


def summarize(value: Value, limit: int) -> str:
    """Return the first `limit` elements (all if negative) in one line, as Assert prints them."""
    array = np.asarray(value)
    count = array.size
    limit = count if limit < 0 else min(limit, count)
    show = _element_printer(array.dtype, quoted=False)
    text = _one_line(array.ravel(), array.shape, limit, show)
    return text + ("..." if limit < count else "")


def _one_line(flat: Any, shape: tuple[int, ...], limit: int, show: Callable[[Any], str]) -> str:
    if not shape:
        return show(flat[0]) if limit else ""
    used = 0

    def dimension(depth: int) -> str:
        nonlocal used
        parts: list[str] = []
        if depth == len(shape) - 1:
            for _ in cancellable(range(shape[depth])):
                if used >= limit:
                    return " ".join(parts) + ("..." if depth else "")
                parts.append(show(flat[used]))
                used += 1
            return " ".join(parts)
        return "".join(f"[{dimension(depth + 1)}]" for _ in range(shape[depth]) if used < limit)

    return dimension(0)


def format_tensor(value: Value, ends: int) -> str:
    """Return the tensor as StringFormat prints it: `ends` elements at both ends of each axis."""
    array = np.asarray(value)
    if array.dtype == np.bool_ and not array.size:
        return ""  # TensorFlow prints no brackets for an empty tensor of bool
    ends = array.size if ends < 0 else min(ends, array.size)
    show = _element_printer(array.dtype, quoted=True)
    return _nested(array, array.ndim, ends, show)


def _nested(array: Any, rank: int, ends: int, show: Callable[[Any], str]) -> str:
    depth = rank - array.ndim
    if array.ndim == 0:
        return show(array[()] if array.dtype.kind != "O" else array.item())
    if array.ndim == 1:
        gap = " "
    else:
        gap = "\n" * (array.ndim - 1) + " " * (depth + 1)
    count = array.shape[0]

    def parts_of(indices: range) -> list[str]:
        return [
            _nested(array[index : index + 1].reshape(array.shape[1:]), rank, ends, show)
            for index in cancellable(indices)
        ]

    parts = parts_of(range(min(ends, count)))
    if count > 2 * ends:
        parts += ["..."] if parts else ["", "..."]
    parts += parts_of(range(max(ends, count - ends), count))
    return f"[{gap.join(parts)}]"
