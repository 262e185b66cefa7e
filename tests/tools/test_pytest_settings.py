"""The settings of pytest in `pyproject.toml`."""

from __future__ import annotations

import warnings

import pytest


def test_folder_removed_by_another_run_is_not_an_error() -> None:
    """pytest warns at the end of a run, where an error would hide the outcome of all tests."""
    text = "(rm_rf) error removing /tmp/pytest-of-root/garbage-1\nOSError: Directory not empty"
    warnings.warn(pytest.PytestWarning(text), stacklevel=1)


def test_other_warnings_of_pytest_are_errors() -> None:
    with pytest.raises(pytest.PytestWarning, match="another warning"):
        warnings.warn(pytest.PytestWarning("another warning"), stacklevel=1)
