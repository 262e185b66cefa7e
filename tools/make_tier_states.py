"""Write the tables of docs/explanation/tier-states.md from the state machines of the code.

python tools/make_tier_states.py            write them
python tools/make_tier_states.py --check    fail if they differ from what would be written
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graphmill.session.hot_states import HOT_TRANSITIONS, HotState
from graphmill_plugins.jit.tiers.states import HAS_PROGRAM, TRANSITIONS, Event, State

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import Enum
    from typing import Any

    Table = Mapping[tuple[Enum, Enum], tuple[Enum, Enum]]

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "tier-states.md"
_END: Final = "<!-- end -->"
_FROM_EVERY_PROGRAM: Final = (Event.PROGRAM_RAISED, Event.SLOT_LOST, Event.REPLACED)


def page() -> str:
    """Return the page with the diagrams and tables generated from the code."""
    drawn = {
        (state, event): row
        for (state, event), row in TRANSITIONS.items()
        if event not in _FROM_EVERY_PROGRAM or state not in HAS_PROGRAM
    }
    text = PAGE.read_text("utf-8")
    for name, part in {
        "graph diagram": diagram(HOT_TRANSITIONS),
        "graph states": states(HotState),
        "graph transitions": transitions(HOT_TRANSITIONS),
        "signature diagram": diagram(drawn),
        "signature states": states(State),
        "signature transitions": transitions(TRANSITIONS),
    }.items():
        before, mark, after = text.partition(f"<!-- {name} -->\n")
        if not mark:
            raise ValueError(f"{PAGE} has no part {name!r}")
        text = f"{before}{mark}{part}\n{_END}{after.partition(_END)[2]}"
    return text


def diagram(table: Table) -> str:
    """Return the table as a Mermaid state diagram."""
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
    """Return a row for each state, with the docstring of its member."""
    texts = _texts(kind)
    lines = ["| state | meaning |", "|---|---|"]
    lines += [f"| {state.value} | {_plain(texts[state.name])} |" for state in kind]
    return "\n".join(lines)


def transitions(table: Table) -> str:
    """Return a row for each transition; those that differ only in the first state share a row."""
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
    """Return the string below each member of an enum."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for member, text in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr):
            (target,) = member.targets
            assert isinstance(target, ast.Name)
            texts[target.id] = str(ast.literal_eval(text.value))
    return texts


def main(args: list[str]) -> int:
    """Write or check the page; return the exit status."""
    text = page()
    if args == ["--check"]:
        if PAGE.read_text("utf-8") != text:
            print(f"{PAGE} is out of date; run python tools/make_tier_states.py")
            return 1
        return 0
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
