"""Any value as data that JSON can hold."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from graphmill.json_data import dtype_name, json_data


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (np.float32(1.5), {"dtype": "float32", "shape": [], "value": 1.5}),
        (np.array([b"a"], object), {"dtype": "string", "shape": [1], "value": ["a"]}),
        (1 + 2j, [1.0, 2.0]),
        ({1: (2, None)}, {"1": [2, None]}),
        (np.array([1.5, np.nan, -np.inf]).tolist(), [1.5, "NaN", "-Infinity"]),
        (b"\xff", {"b64": "/w=="}),
        (range(2), "range(0, 2)"),
    ],
)
def test_values_become_data(value: Any, result: Any) -> None:
    assert json_data(value) == result
    json.dumps(json_data(value), allow_nan=False)


def test_arrays_of_bytes_have_strings() -> None:
    assert dtype_name(np.array([b"a"], object)) == "string"
    assert dtype_name(np.int32(1)) == "int32"
