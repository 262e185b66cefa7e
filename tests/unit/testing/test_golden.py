"""Golden results round-trip."""

from __future__ import annotations

import numpy as np

from graphmill.testing.case_inputs import numpy_dtype
from graphmill.testing.golden import CaseResult, Stored, read_results, write_results


def test_results_round_trip(tmp_path):
    strings = np.array([[b"a", b"\xff\0"]], dtype=object)
    bfloat = np.array([1.5, np.nan], numpy_dtype("bfloat16"))
    values = (np.array(3, np.int64), np.zeros((0, 2), np.float32), strings, bfloat)
    dtypes = ("int64", "float32", "string", "bfloat16")
    stored = {
        "a": Stored("1", CaseResult(values, dtypes)),
        "b": Stored("2", CaseResult(error="InvalidArgument", message="not kept")),
    }
    write_results(tmp_path / "x.npz", stored, "a test")
    back = read_results(tmp_path / "x.npz")
    assert back["b"] == Stored("2", CaseResult(error="InvalidArgument"))
    assert back["a"].result.dtypes == dtypes
    for value, expected in zip(back["a"].result.outputs, values, strict=True):
        assert value.dtype == expected.dtype
        assert value.shape == expected.shape
        assert value.tolist() == expected.tolist() or np.isnan(expected.astype(float)).any()


def test_equal_results_make_equal_files(tmp_path):
    stored = {"a": Stored("1", CaseResult((np.arange(3),), ("int64",)))}
    for name in ("x", "y"):
        write_results(tmp_path / f"{name}.npz", stored, "a test")
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()


def test_missing_file_has_no_results(tmp_path):
    assert read_results(tmp_path / "none.npz") == {}
