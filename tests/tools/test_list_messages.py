"""The list of user texts (`tools/list_messages.py`) has each kind, with holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCE = '''"""A docstring of the module is no message."""
import warnings

REASON = "its output is not numeric"
"""What an attribute is for is no message."""

def check(node, log, parser):
    """Raise an error: a docstring is no message."""
    parser.add_argument("--level", help="how much to write")
    log.warning("node %s is slow", node)
    warnings.warn("this option is deprecated", DeprecationWarning)
    print("two words", f"checked {node.name} of all")
    refuse(reason="an input is dynamic")
    raise ValueError(f"node {node.name!r} has no input; " "add one " + advice(node))
'''


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "checks.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_list_messages_finds_each_kind_and_no_docstring(
    tool: Callable[[str], Any], source: Path
) -> None:
    found = [message[1:] for message in tool("list_messages").messages_of(source)]
    assert found == [
        (4, "text", "its output is not numeric"),
        (9, "help", "how much to write"),
        (10, "log", "node %s is slow"),
        (11, "warning", "this option is deprecated"),
        (12, "output", "checked {node.name} of all"),
        (13, "reason", "an input is dynamic"),
        (14, "error", "node {node.name} has no input; add one {advice(node)}"),
    ]


def test_list_messages_prints_one_kind_with_file_and_line(
    tool: Callable[[str], Any], source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool("list_messages").main([str(source.parent), "--kind", "log"])
    assert capsys.readouterr().out == f"{source}:10: log: node %s is slow\n"


def test_list_messages_reads_every_folder_of_the_project(tool: Callable[[str], Any]) -> None:
    messages = tool("list_messages")
    found = set(messages.sources(messages.ROOT / name for name in messages.FOLDERS))
    for name in messages.FOLDERS:
        assert any(path.is_relative_to(messages.ROOT / name) for path in found), name
