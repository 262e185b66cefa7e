"""Lists of op names are sorted and wrapped by a tool, which changes nothing else."""

from __future__ import annotations

from typing import Any

import pytest

TABLE = '''"""A docstring."""

OPS = {
    "one": """
        Zeta _Add
        Abs
    """,
    "two": "Zeta Abs",
}
'''
TEXT = '''
def function():
    """
    Return something, which is no list.
    """
'''


@pytest.fixture
def wrap_op_lists(tool: Any) -> Any:
    return tool("wrap_op_lists")


def test_stored_lists_are_sorted_and_wrapped(wrap_op_lists: Any) -> None:
    assert wrap_op_lists.main(["--check"]) == 0, "run python tools/wrap_op_lists.py"


def test_a_list_is_sorted(wrap_op_lists: Any) -> None:
    expected = TABLE.replace("Zeta _Add\n        Abs", "Abs Zeta _Add")
    assert wrap_op_lists.wrapped(TABLE) == expected


def test_a_long_list_is_wrapped(wrap_op_lists: Any) -> None:
    names = " ".join(f"Op{number}" for number in range(10, 50))
    lines = wrap_op_lists.wrapped(f'OPS = """\n    {names}\n"""\n').splitlines()
    assert [line.strip() for line in lines] == [
        'OPS = """',
        " ".join(f"Op{number}" for number in range(10, 29)),
        " ".join(f"Op{number}" for number in range(29, 48)),
        "Op48 Op49",
        '"""',
    ]


def test_other_text_stays(wrap_op_lists: Any) -> None:
    assert wrap_op_lists.wrapped(TEXT) == TEXT


def test_a_check_names_the_file_and_the_command(
    wrap_op_lists: Any, tmp_path: Any, monkeypatch: Any, capsys: Any
) -> None:
    path = tmp_path / "table.py"
    path.write_text(TABLE, encoding="utf-8")
    monkeypatch.setattr(wrap_op_lists, "FILES", [path])
    assert wrap_op_lists.main(["--check"]) == 1
    assert f"{path} has" in (output := capsys.readouterr().out)
    assert "run python tools/wrap_op_lists.py" in output
    assert path.read_text(encoding="utf-8") == TABLE
    assert wrap_op_lists.main([]) == 0
    assert wrap_op_lists.main(["--check"]) == 0
