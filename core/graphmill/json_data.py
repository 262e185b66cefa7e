"""`json_data`: any value as data that JSON can hold."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np


def json_data(value: object) -> Any:
    """Return a value as JSON data.

    Arrays become `{"dtype", "shape", "value"}`. Bytes become text, or `{"b64": …}` if they are not
    UTF-8. Non-finite numbers become `"NaN"`, `"Infinity"`, `"-Infinity"`, as in protobuf.
    """
    if isinstance(value, dict):
        return {str(key): json_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_data(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return {
            "dtype": dtype_name(value),
            "shape": list(value.shape),
            "value": json_data(value.tolist()),
        }
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, complex):
        return [json_data(value.real), json_data(value.imag)]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def dtype_name(array: np.ndarray[Any, Any] | np.generic) -> str:
    """Return the name of an array's element type; `string` for an object array of bytes."""
    return "string" if array.dtype == object else str(array.dtype)
