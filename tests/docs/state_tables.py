"""Tables of state machines as Markdown: a diagram, a list of states, a list of transitions."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import Enum
    from typing import Any

    Table = Mapping[tuple[Enum, Enum], tuple[Enum, Enum]]


def diagram(table: Table) -> str:
    """Return the table as a state diagram for Mermaid."""
    first, _ = next(iter(table))
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {_id(first)}"]
    names = dict.fromkeys(
        state for (before, _), (after, _) in table.items() for state in (before, after)
    )
    lines += [f"    {_id(state)}: {state.value}" for state in names if _id(state) != state.value]
    lines += [
        f"    {_id(before)} --> {_id(after)}: {event.value}"
        for (before, event), (after, _) in table.items()
    ]
    return "\n".join([*lines, "```"])


def states(kind: type[Enum]) -> str:
    """Return a row for each state, with the text below it in the code."""
    told = _texts(kind)
    lines = ["| state | meaning |", "|---|---|"]
    lines += [f"| {state.value} | {_plain(told[state.name])} |" for state in kind]
    return "\n".join(lines)


def transitions(table: Table) -> str:
    """Return a row for each transition; those that differ in the first state only are one."""
    rows: dict[tuple[Any, ...], list[str]] = {}
    for (before, event), (after, action) in table.items():
        rows.setdefault((event.value, after.value, action.value), []).append(before.value)
    lines = ["| in state | event | to state | action |", "|---|---|---|---|"]
    lines += [
        f"| {', '.join(befores)} | {event} | {after} | {action} |"
        for (event, after, action), befores in rows.items()
    ]
    return "\n".join(lines)


def _id(state: Enum) -> str:
    return state.value.replace(" ", "_")


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("`", "")


def _texts(kind: type[Enum]) -> dict[str, str]:
    """Return the string that stands below each member."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for member, text in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr):
            (target,) = member.targets
            assert isinstance(target, ast.Name)
            found[target.id] = str(ast.literal_eval(text.value))
    return found
