"""`KnownNames`: check the names of nodes and loops that a breakpoint waits for."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from graphmill.errors import NotFoundError, suggest

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphmill.debug.recording import Recording
    from graphmill.graph.graph import Graph

_WILDCARDS = frozenset("*?[")


def matches(name: str, pattern: str) -> bool:
    """Return whether a name is the pattern itself, or fits it, such as `encoder/*`."""
    return name == pattern or fnmatchcase(name, pattern)


def near_nodes(name: str, names: Collection[str]) -> str:
    """Return the end of a message: names that are near or contain `name`, or else a few nodes."""
    near = suggest(name, names)
    if near:
        return near
    containing = sorted(known for known in names if name and name.lower() in known.lower())
    if containing:
        return f"; did you mean {' or '.join(map(repr, containing[:3]))}?"
    some = ", ".join(map(repr, sorted(names)[:3]))
    return f"; it has {len(names)} nodes, such as {some}" if some else ""


class KnownNames:
    """The names that a step may reach.

    Nodes inside functions are known once the function has been called, so a name that begins with
    the name of a node that calls functions is accepted.

    Args:
        graph: the session's graph; None for a recording, in which every function has been called.
        recording: the step so far.
    """

    def __init__(self, graph: Graph | None, recording: Recording) -> None:
        self._graph = graph
        self._recording = recording

    def check_node(self, pattern: str) -> None:
        """Check that a name or pattern may match a node of the step.

        Raises:
            NotFoundError: it cannot; the message names similar ones.
        """
        names = self._recording.names()
        if any(matches(name, pattern) for name in names):
            return
        if self._may_be_in_function(pattern):
            return
        if self._graph is not None and self._graph.has_node(pattern):
            raise NotFoundError(
                f"node '{pattern}' does not run in this step: no fetch needs it, or it is fed, a "
                "constant was computed for it, or another node computes the same",
                node=pattern,
            )
        kind = "pattern matches no node" if _WILDCARDS & set(pattern) else "step has no node"
        raise NotFoundError(f"the {kind} {pattern!r}{near_nodes(pattern, names)}")

    def check_frame(self, pattern: str) -> None:
        """Check that a name or pattern may match a loop of the step.

        Raises:
            NotFoundError: it cannot; the message names similar ones.
        """
        frames = {
            name for graph in self._recording.graphs for node in graph.nodes for name in node.frame
        }
        loops = frames | self._callers()
        loops |= {name for name, _ in self._recording.function_loops()}
        if any(matches(name, pattern) for name in loops):
            return
        if self._callers():  # its functions may have loops that have not been reached
            return
        listed = ", ".join(sorted(loops)) or "it has none"
        raise NotFoundError(
            f"the step has no loop {pattern!r}{suggest(pattern, loops)}; loops: {listed}"
        )

    def _may_be_in_function(self, pattern: str) -> bool:
        prefix = pattern[: min((pattern.find(c) for c in _WILDCARDS if c in pattern), default=None)]
        return any(
            prefix.startswith(f"{caller}/") or (prefix != pattern and caller.startswith(prefix))
            for caller in self._callers()
        )

    def _callers(self) -> set[str]:
        """Return the nodes that call functions."""
        if self._graph is None:
            return set()
        callers = {node.name for node in self._graph.nodes if node.op_def.calls}
        return {
            node.name
            for graph in self._recording.graphs
            for node in graph.nodes
            if node.name in callers or node.op in self._graph.library
        }
