"""Write floating-point numbers as TensorFlow Serving does.

Semantics: `WriteDecimal` of tensorflow_serving/util/json_tensor.cc: six digits if reading them
gives the same number, else enough digits for any number. The text of a float is that of a float,
not of the double next to it: 0.2, not 0.20000000298023224. Whole numbers end in ".0".
"""

from __future__ import annotations

from array import array
from math import isfinite
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ALL_DIGITS: Final = {4: "%.9g", 8: "%.17g"}
_CODES: Final = {4: "f", 8: "d"}
"""Type codes of `array.array`, which rounds to the type without overflow warnings."""
_NOT_FINITE: Final = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def decimals(values: NDArray[np.floating]) -> list[str]:
    """Return the texts of the elements of a vector of float32 or float64."""
    numbers = values.tolist()
    texts = ["%.6g" % number for number in numbers]  # noqa: UP031 - the fastest of the ways
    read_back = array(_CODES[values.dtype.itemsize], map(float, texts)).tolist()
    if read_back != numbers:
        all_digits = _ALL_DIGITS[values.dtype.itemsize]
        texts = [
            text if read == number else all_digits % number
            for text, read, number in zip(texts, read_back, numbers, strict=True)
        ]
    if not isfinite(sum(numbers)):
        texts = [_NOT_FINITE.get(text, text) for text in texts]
        return [_with_point(text) if text[-1] not in "Ny" else text for text in texts]
    return [text if "." in text or "e" in text else text + ".0" for text in texts]


def _with_point(text: str) -> str:
    return text if "." in text or "e" in text else f"{text}.0"
