"""AsString and StringFormat: convert values to strings.

Semantics: tensorflow/core/kernels/as_string_op.cc, string_format_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._strings import encode, map_strings, string_array, string_scalar
from graphmill_plugins.kernels._support import check_size, refuse_objects
from graphmill_plugins.kernels._tensor_text import format_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_PIECE: Final = 1 << 14
"""Elements that are formatted between two checks of the step's cancellation: 10 to 30 ms."""


@kernel("AsString", make=True, host=True)
def as_string(
    T: np.dtype[Any],
    precision: int,
    scientific: bool,
    shortest: bool,
    width: int,
    fill: str,
) -> Callable[[Value], Value]:
    """Format each element like C's printf."""
    kind = dtypes.as_dtype(T)
    refuse_objects(kind, "formatted")
    _check_as_string(kind, precision, scientific, shortest, fill)
    flags = fill + str(width) if width > -1 else ""
    digits = f".{precision}" if precision > -1 else ""
    letter = "d"
    if kind.is_bool:
        format_item: Callable[[Any], str] = {True: "true", False: "false"}.__getitem__
    elif kind is dtypes.string and width < 0:
        return lambda value: value
    elif kind is dtypes.string:
        # On bytes, which C's printf counts; it ignores the flags 0 and + for strings.
        pattern = b"%" + f"{flags.lstrip('0+')}{digits}s".encode()

        def pad(value: Value) -> Value:
            check_size((value.size, width), "the text")
            return map_strings(lambda item: pattern % item, value)

        return pad
    elif kind.is_integer:
        flags = flags.replace("+", "") if kind.is_unsigned else flags
        format_item = f"%{flags}d".__mod__
    else:
        letter = "e" if scientific else "g" if shortest else "f"
        format_item = _float_printer(flags, digits + letter, kind.is_complex)

    batch_pattern = "" if kind.is_bool or kind.is_complex else f"%{flags}{digits}{letter}"

    def run(value: Value) -> Value:
        check_size((value.size, max(width, precision, 1)), "the text")
        flat = value.ravel()
        starts = range(0, flat.size, _PIECE)
        pieces = starts if flat.size <= _PIECE else cancellable(starts, 1)
        texts: list[bytes] = []
        for start in pieces:
            texts += format_all(flat[start : start + _PIECE])
        return string_array(texts, value.shape)

    def format_all(values: Value) -> list[bytes]:
        items = values.tolist()
        if len(items) > 1 and batch_pattern and bool(np.isfinite(values).all()):
            text = "\n".join([batch_pattern] * len(items)) % tuple(items)
        else:
            text = "\n".join(map(format_item, items))
        return text.encode().split(b"\n")

    return run


def _check_as_string(
    kind: dtypes.DType, precision: int, scientific: bool, shortest: bool, fill: str
) -> None:
    if fill not in ("", " ", "-", "0", "+"):
        raise errors.InvalidArgumentError(f'Fill argument not supported: "{fill}"')
    if scientific and shortest:
        raise errors.InvalidArgumentError("Cannot select both scientific and shortest notation")
    is_text = kind.is_floating or kind.is_complex or kind is dtypes.string
    if not is_text and precision > -1:
        raise errors.InvalidArgumentError(f"precision not supported for datatype {kind.tf_name}")
    if not is_text and (scientific or shortest):
        raise errors.InvalidArgumentError(
            f"scientific and shortest format not supported for datatype {kind.tf_name}"
        )


def _float_printer(flags: str, conversion: str, is_complex: bool) -> Callable[[Any], str]:
    pattern = f"%{flags}{conversion}"
    # C pads NaN and infinity with spaces.
    nonfinite_pattern = f"%{flags.lstrip('0')}{conversion}"

    def format_item(item: float) -> str:
        return (pattern if abs(item) < np.inf else nonfinite_pattern) % item

    return (
        (lambda item: f"({format_item(item.real)},{format_item(item.imag)})")
        if is_complex
        else format_item
    )


@kernel("StringFormat", host=True)
def string_format(inputs: list[Value], template: str, placeholder: str, summarize: int) -> Value:
    """Replace the placeholders in `template` by the formatted inputs."""
    parts = template.split(placeholder) if placeholder else [template]
    if len(parts) - 1 != len(inputs):
        raise errors.InvalidArgumentError(
            "num placeholders in template and num inputs must match: "
            f"{len(parts) - 1} vs. {len(inputs)}"
        )
    text = parts[0]
    for value, part in zip(inputs, parts[1:], strict=True):
        text += format_tensor(value, summarize) + part
    return string_scalar(encode(text))
