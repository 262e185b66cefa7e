"""The lines below the table of nodes of `graphmill explain`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from graphmill.graph.device_name import local_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.explain.step import NodeRecord

NOT_RUN: Final = "not run yet"
"""The tier that is shown for nodes before the first step."""
_FILES: Final = {
    "fs.read": "read files",
    "fs.list": "list folders",
    "fs.write": "write files",
}
_WHOLE: Final = {
    "net": "communicate with other machines",
    "process": "start and end processes",
    "python": "call Python functions",
}


def policy_text(allowed: Sequence[str] | None) -> str:
    """Return a line about what a model may do.

    Args:
        allowed: the rules of its session; None if it may do everything.
    """
    if allowed is None:
        return "The model may do everything that this process may do."
    if not allowed:
        return "The model may compute; it may do nothing else."
    permitted = [_permission(rule) for rule in allowed]
    last = permitted.pop()
    text = f"{', '.join(permitted)} and {last}" if permitted else last
    return f"The model may {text}; it may do nothing else but compute."


def _permission(rule: str) -> str:
    """Return a rule as a phrase: `read files in /data` for `fs.read:/data`."""
    effect, _, path = rule.partition(":")
    action = _FILES.get(effect) or _WHOLE.get(effect, effect)
    if effect not in _FILES:
        return action
    return f"{action} in {path}" if path else f"{action} everywhere"


def summary_lines(records: Sequence[NodeRecord], *, has_run: bool) -> list[str]:
    """Return the number of nodes on each device and in each tier, and the reasons.

    Args:
        records: the nodes.
        has_run: whether a step has run them.
    """
    reasons = Counter(record.tier_reason for record in records)
    parts = [_on_devices(records)]
    if has_run:
        parts.append(_counted(record.tier for record in records))
    else:
        parts.append(NOT_RUN)
    if len(reasons) == 1:
        return ["; ".join(filter(None, [*parts, *reasons]))]
    return ["; ".join(parts), *(f"{count} nodes: {why}" for why, count in reasons.items())]


def _on_devices(records: Sequence[NodeRecord]) -> str:
    devices = Counter(local_name(record.device) for record in records)
    total = f"{len(records)} nodes"
    if len(devices) == 1:
        return f"{total} on {next(iter(devices))}"
    return f"{total}: " + ", ".join(f"{count} on {name}" for name, count in devices.items())


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(names).items())
