"""`OperationNodes`: the nodes that each operation of a compiled program was traced from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from graphmill.spi.executors import MeasuredTime
from graphmill_plugins.jit.ir.node_scopes import paths_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODULE: Final = re.compile(r"HloModule ([\w.\-]+)")
_COMPUTATION: Final = re.compile(r"(?:ENTRY )?%?([\w.\-]+) .*\{$")
_OPERATION: Final = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = ")
_NAME: Final = re.compile(r'op_name="([^"]*)"')
_CALLED: Final = re.compile(r"(?:calls|to_apply|condition|body|_computations?)=(\{[^}]*\}|[^\s,]+)")
_FREE: Final = re.compile(r" (?:parameter|constant|get-tuple-element|tuple|bitcast)\(")


class OperationNodes:
    """The nodes of the operations of a compiled program.

    Args:
        text: the program in XLA's text form, whose operations have names of `node_scopes`.

    Attributes:
        module: the name of the program.
    """

    def __init__(self, text: str) -> None:
        self._paths: dict[str, list[tuple[str, ...]]] = {}
        self._called: dict[str, list[str]] = {}
        self._computations: dict[str, list[str]] = {}
        found = _MODULE.match(text)
        self.module = "" if found is None else found[1]
        inside: list[str] = []
        for line in text.splitlines():
            operation = _OPERATION.match(line)
            if operation is not None:
                inside.append(operation[1])
                self._add(operation[1], line[operation.end() :])
            elif (computation := _COMPUTATION.match(line)) is not None:
                inside = self._computations[computation[1]] = []

    def times(self, measured: Mapping[str, float]) -> dict[tuple[str, ...], MeasuredTime]:
        """Divide the times of operations among the nodes that they were traced from.

        Nodes that became one operation have equal shares; a node that calls functions has none
        beside the nodes in them.

        Args:
            measured: the nanoseconds of each operation that ran. Those of a loop or a call contain
                those of the operations in it, and are left out.
        """
        times: dict[tuple[str, ...], MeasuredTime] = {}
        for operation, nanoseconds in measured.items():
            inside = self._inside(operation)
            if any(one in measured for one in inside):
                continue
            paths = {path for one in (operation, *inside) for path in self._paths.get(one, ())}
            paths -= {path[:length] for path in paths for length in range(1, len(path))}
            for path in paths:
                before = times.get(path, MeasuredTime(0.0))
                share = before.nanoseconds + nanoseconds / len(paths)
                times[path] = MeasuredTime(share, max(before.num_nodes, len(paths)))
        return times

    def _add(self, operation: str, definition: str) -> None:
        name = _NAME.search(definition)
        if name is not None and _FREE.search(definition) is None:
            self._paths[operation] = paths_of(name[1])
        called = ",".join(_CALLED.findall(definition))
        if called:
            self._called[operation] = [one.strip("{} %") for one in called.split(",")]

    def _inside(self, operation: str) -> list[str]:
        """Return the operations of the computations that an operation calls."""
        found: dict[str, None] = {}
        left = list(self._called.get(operation, ()))
        seen = set(left)
        while left:
            for one in self._computations.get(left.pop(), ()):
                found[one] = None
                more = [name for name in self._called.get(one, ()) if name not in seen]
                seen.update(more)
                left += more
        return list(found)
