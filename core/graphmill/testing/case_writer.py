"""Write op cases as the TOML that `graphmill.testing.case` reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.testing.case import Case, InputTree
    from graphmill.testing.case_inputs import Values

Table = dict[str, Any]
"""The keys of a table, without sweeps."""


def table_of(case: Case) -> Table:
    """Return the table of one case with its sweeps resolved and its keys for the comparison."""
    table: Table = {}
    if case.program is None:
        table["in"] = [input_text(tree) for tree in case.inputs]
    else:
        table["feed"] = {name: one.text for name, one in case.program.feed.items()}
        table["nodes"] = list(case.program.nodes)
        table["run"] = list(case.program.run)
        if case.program.functions:
            table["functions"] = list(case.program.functions)
    table.update(case.attrs)
    if case.compare != "close":
        table["compare"] = case.compare
    if case.unspecified:
        table["unspecified"] = list(case.unspecified)
    if case.close is not None:
        table["close"] = {"rtol": case.close.rtol, "atol": case.close.atol, "why": case.close.why}
    return table


def input_text(tree: InputTree) -> Any:
    """Return the `in` text of an input or list input."""
    return [one.text for one in tree] if isinstance(tree, tuple) else tree.text


def literal_text(values: Values, dtype: str) -> str:
    """Return values as the text of an input; for an empty tensor, only its shape."""
    if values.size == 0:
        return f"{dtype}[{','.join(map(str, values.shape))}]"
    return f"{dtype}: {values.tolist()!r}"


def case_text(op: str, table: Mapping[str, Any]) -> str:
    """Write a table under the header of an op."""
    lines = [f"[[{op}]]"]
    for key, value in table.items():
        if key == "each":
            lines += [f"each.{name} = {toml(values)}" for name, values in value.items()]
        else:
            lines.append(f"{key} = {toml(value)}")
    return "\n".join(lines)


def toml(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    return repr(value)
