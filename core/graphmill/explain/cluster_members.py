"""The nodes in a cluster, with those of the functions that they call, and their shares of its time.

A cluster runs as one call, so the time of a node in it is an estimate, unless it was measured
(`measured_members`): each node that calls no function gets an equal share, and each node in a loop
as many shares as the loop has iterations, if their number is known.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.explain.unit_text import time_text
from graphmill.graph.functions.function_body import instantiate_function
from graphmill.graph.functions.function_calls import called_functions, calls_of
from graphmill.graph.node_roles import is_argument_or_result, is_constant
from graphmill.ops.definition.op_traits import CallKind
from graphmill.runtime.steps.step_stats import NodeStats, label_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.runtime.steps.step_stats import TimedRun

_MAX_MEMBERS: Final = 10_000
"""Maximum number of nodes of functions that are shown in one cluster."""


class Member(NamedTuple):
    """A node in a cluster.

    Attributes:
        name, op, label: as in statistics.
        loop: the function that is the body of a loop; empty for other nodes.
        inside: the nodes of the functions that it calls.
    """

    name: str
    op: str
    label: str
    loop: str = ""
    inside: tuple[Member, ...] = ()


class Members:
    """Finds the nodes in the clusters of a graph.

    Args:
        graph: the graph of the clusters' nodes.
        originals: the nodes that clusters replaced, by name; labels are made of them.
        ops: the ops of the nodes of functions.
    """

    def __init__(self, graph: Graph, originals: Mapping[str, Node], ops: OpRegistry) -> None:
        self._graph = graph
        self._originals = originals
        self._ops = ops
        self._num_left = 0

    def of(self, cluster: str, names: Sequence[str]) -> tuple[Member, ...]:
        """Return the members of a cluster."""
        self._num_left = _MAX_MEMBERS
        nodes = self._nodes_in(cluster)
        return tuple(self._member(cluster, name, nodes.get(name)) for name in names)

    def _nodes_in(self, cluster: str) -> dict[str, Node]:
        """Return the nodes that a cluster runs; none if it is in a function."""
        if not self._graph.has_node(cluster):
            return {}
        bodies = [getattr(v, "body", None) for v in self._graph.node(cluster).attrs.values()]
        return {node.name: node for body in bodies if body for node in body.graph.nodes}

    def _member(self, cluster: str, name: str, node: Node | None) -> Member:
        original = self._originals.get(name)
        if node is None:
            op, label = "", f"{name} = in {cluster}()"
            return Member(name, op, label) if original is None else _member_of(original)
        label = f"{name} = {node.op}()" if original is None else label_of(original)
        return Member(name, node.op, label, _loop_body(node), self._inside(node))

    def _inside(self, node: Node) -> tuple[Member, ...]:
        """Return the nodes of the functions that a node calls."""
        found: list[Member] = []
        library = node.graph.library
        for function in called_functions(node):
            body = instantiate_function(function.name, function.attrs, library, self._ops)
            inner = [one for one in body.graph.nodes if _computes(one)]
            self._num_left -= len(inner)
            if self._num_left < 0:
                return ()
            found += [_member_of(one, self._inside(one)) for one in inner]
        return tuple(found)


def _member_of(node: Node, inside: tuple[Member, ...] = ()) -> Member:
    return Member(node.name, node.op, label_of(node), _loop_body(node), inside)


def _computes(node: Node) -> bool:
    does_nothing = is_argument_or_result(node) or is_constant(node) or node.op_def.traits.forwards
    has_result = bool(node.output_types) or node.op_def.is_stateful  # else it only orders others
    return has_result and not does_nothing


def _loop_body(node: Node) -> str:
    """Return the function that is the body of a loop; empty if the node is none."""
    kinds = {called.kind: called.name for called in calls_of(node)}
    return kinds.get(CallKind.LOOP_BODY, "")


def shares(
    whole: TimedRun | NodeStats,
    members: Sequence[Member],
    note: str,
    iterations: Mapping[str, float],
) -> Iterator[NodeStats]:
    """Yield the statistics of the nodes in a cluster, each with its share of the time.

    Args:
        whole: the run of the cluster.
        members: its nodes.
        note: ends each label, in parentheses.
        iterations: the mean number of iterations of a run, by the body of the loop.
    """
    times = whole.started, max(whole.ended, whole.started)
    yield from Shares(whole, note, iterations).of(members, *times, 1.0)


class Shares:
    """Divides the time of a cluster among its nodes; the arguments are those of `shares`."""

    def __init__(
        self, whole: TimedRun | NodeStats, note: str, iterations: Mapping[str, float]
    ) -> None:
        self._whole = whole
        self._note = note
        self._iterations = iterations

    def of(
        self,
        members: Sequence[Member],
        begin: int,
        end: int,
        runs: float | None,
        path: tuple[str, ...] = (),
    ) -> Iterator[NodeStats]:
        """Divide a time span among members.

        Args:
            members: the members.
            begin, end: the time span.
            runs: how often they ran in it; None if unknown.
            path: the names of the members around them, from the outside in.
        """
        start = begin
        for member, until in zip(members, self.ends(members, begin, end, path), strict=True):
            inner, inside = self._runs_inside(member, runs), (*path, member.name)
            yield self._stats(member, start, until, inner, self.note_of(inside))
            yield from self.of(member.inside, start, until, inner, inside)
            start = until

    def ends(
        self, members: Sequence[Member], begin: int, end: int, path: tuple[str, ...]
    ) -> list[int]:
        """Return when each member ends; the next one begins then. The arguments are as in `of`."""
        del path
        sums = list(accumulate(map(self._weight, members)))
        return [begin + int((end - begin) * (weights / sums[-1])) for weights in sums]

    def note_of(self, path: tuple[str, ...]) -> str:
        """Return the note of a member; its path ends with its name."""
        del path
        return self._note

    def _weight(self, member: Member) -> float:
        inside = sum(map(self._weight, member.inside)) or 1.0
        return inside * (self._iterations.get(member.loop, 1.0) or 1.0)

    def _runs_inside(self, member: Member, runs: float | None) -> float | None:
        """Return the number of runs of the nodes inside a member; None if unknown."""
        if not member.loop or runs is None:
            return runs
        mean = self._iterations.get(member.loop)
        return None if mean is None else runs * mean

    def _stats(
        self, member: Member, start: int, end: int, count: float | None, note: str
    ) -> NodeStats:
        if member.loop:
            note += f"; {_iterations_text(count, end - start)}"
        times = (self._whole.thread_id, self._whole.scheduled, start, end)
        return NodeStats(member.name, member.op, *times, (), f"{member.label} ({note})")


def _iterations_text(count: float | None, nanoseconds: float) -> str:
    if count is None:
        return "its iterations are not counted"
    if not count:
        return "no iteration"
    return f"{count:,.0f} iterations, mean {time_text(nanoseconds / count)}"
