"""Functions are named by where they are defined."""

from __future__ import annotations

from functools import partial

from graphmill.function_source import function_source


def test_functions_in_functions_are_named_without_python_s_marks() -> None:
    def inner() -> None: ...

    outer = test_functions_in_functions_are_named_without_python_s_marks
    assert function_source(inner) == f"{__name__}.{outer.__name__}.inner"
    assert function_source(function_source) == "graphmill.function_source.function_source"


def test_callables_without_a_name_are_shown() -> None:
    assert function_source(partial(int, base=2)).startswith("functools.functools.partial(<class")
