"""Read numbers from strings: StringToNumber.

Semantics: tensorflow/core/kernels/string_to_number_op.cc.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels._strings import decode, map_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.typing import ArrayNamespace, Value

_FLOAT = re.compile(
    rb"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)\s*", re.IGNORECASE
)
_HEX_FLOAT = re.compile(
    rb"\s*[+-]?0x(?:[\da-f]+\.?[\da-f]*|\.[\da-f]+)(?:p[+-]?\d+)?\s*", re.IGNORECASE
)
_INTEGER = re.compile(rb"\s*[+-]?\d+\s*")


def _not_a_number(item: bytes) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"StringToNumberOp could not correctly convert string: {decode(item)[:200]}"
    )


def _to_float(item: bytes) -> float:
    if _FLOAT.fullmatch(item):
        return float(item)
    if _HEX_FLOAT.fullmatch(item):
        return float.fromhex(item.decode())
    raise _not_a_number(item)


@kernel("StringToNumber", make=True, host=True)
def string_to_number(xp: ArrayNamespace, out_type: np.dtype[Any]) -> Callable[[Value], Value]:
    """Read a number from each string, which may have white space around it."""
    del xp
    if out_type.kind == "f":

        def to_floats(value: Value) -> Value:
            items = value.ravel().tolist()
            if not any(b"_" in item for item in items):  # Python takes 1_000 for a number
                try:
                    numbers = np.fromiter(map(float, items), np.float64, len(items))
                    return numbers.astype(out_type).reshape(value.shape)
                except ValueError:
                    pass  # hexadecimal, or none: told below
            return map_numbers(_to_float, value, np.float64).astype(out_type)

        return to_floats
    low, high = int(np.iinfo(out_type).min), int(np.iinfo(out_type).max)

    def to_integer(item: bytes) -> int:
        if not _INTEGER.fullmatch(item) or (low == 0 and b"-" in item):
            raise _not_a_number(item)
        number = int(item)
        if not low <= number <= high:
            raise _not_a_number(item)
        return number

    return lambda value: map_numbers(to_integer, value, out_type)
