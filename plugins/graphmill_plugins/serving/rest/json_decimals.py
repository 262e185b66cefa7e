"""Write floating-point numbers as TensorFlow Serving does.

Semantics: `WriteDecimal` of tensorflow_serving/util/json_tensor.cc: six digits if reading them
gives the same number, else enough digits for any number. The text of a float is that of a float,
not of the double next to it: 0.2, not 0.20000000298023224. Whole numbers end in ".0".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALL_DIGITS: Final = {4: "%.9g", 8: "%.17g"}
_NOT_FINITE: Final = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def decimals(values: NDArray[np.floating]) -> list[str]:
    """Return the texts of the elements of a vector of float32 or float64."""
    numbers = values.tolist()
    texts = ["%.6g" % number for number in numbers]  # noqa: UP031 - the fastest of the ways
    with np.errstate(over="ignore"):
        again = np.array([*map(float, texts)]).astype(values.dtype)
    for index in np.flatnonzero(again != values).tolist():
        texts[index] = _ALL_DIGITS[values.dtype.itemsize] % numbers[index]
    if not np.isfinite(values).all():
        texts = [_NOT_FINITE.get(text, text) for text in texts]
        return [_with_point(text) if text[-1] not in "Ny" else text for text in texts]
    return [text if "." in text or "e" in text else text + ".0" for text in texts]


def _with_point(text: str) -> str:
    return text if "." in text or "e" in text else f"{text}.0"
