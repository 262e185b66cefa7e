"""`SparseDedupAnalysis`: find the ops that deduplicate the rows of sparse gradients.

An optimizer that updates rows of a variable deduplicates them: `Unique` finds the distinct row
indices, `UnsortedSegmentSum` sums the updates of each row, and the sums are written to the rows.
The number of distinct rows depends on values, which XLA cannot compile. But only the updated rows
matter: the program can keep one index and sum per update, and give duplicates an out-of-range index
that the update drops.

This is correct if all consumers of the `Unique` follow this pattern, which is checked here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from graphmill.spi.passes import is_switched_off

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from graphmill.spi import Edge, Graph, Node
    from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices

Tensor: TypeAlias = "tuple[Node, int]"

# The roles of tensors: the distinct indices, for each update the position of its index among them,
# their number, or a tensor with one row for each of them.
_INDICES, _POSITIONS, _SIZE, _ROWS = "indices", "positions", "size", "rows"
UNIQUE: Final = "Unique"
NAME: Final = "jit_sparse_dedup"
"""A name for `GRAPHMILL_DISABLE_PASSES`, which keeps such updates outside of programs."""
_SUM: Final = "UnsortedSegmentSum"
REASON: Final = "other nodes depend on the number of its distinct values"
USED_OUTSIDE: Final = "its distinct values are used by a node outside of its cluster"
NOT_DISTINCT: Final = "its row indices may contain duplicates"


def is_elementwise(node: Node) -> bool:
    """Return whether each output row of a node depends only on the same input row."""
    traits = node.op_def.traits
    return traits.elementwise or traits.forwards


class SparseDedupAnalysis:
    """Determines which deduplicating ops of one graph can be compiled.

    Args:
        graph: the graph; it is not changed.
        choices: how its nodes are compiled.

    Attributes:
        members: for each `Unique` that only deduplicates updates, the nodes of the pattern,
            including itself.
        exclusive_inputs: for a sum, the nodes that only it depends on: the `Unique` and the nodes
            that compute the number of distinct indices. They can be in the cluster of the sum.
        uniform_inputs: for each node that computes rows from rows, the positions of its other
            inputs, which must be the same for all rows.
        unique_of: for each node that updates or reads rows by the indices of a `Unique`, the
            `Unique`.
    """

    def __init__(self, graph: Graph, choices: LoweringChoices) -> None:
        self._choices = choices
        self.members: dict[Node, frozenset[Node]] = {}
        self.unique_of: dict[Node, Node] = {}
        self.exclusive_inputs: dict[Node, tuple[Node, ...]] = {}
        self.uniform_inputs: dict[Node, tuple[int, ...]] = {}
        is_on = not is_switched_off(NAME)
        for node in graph.nodes:
            if is_on and node.op == UNIQUE and self._has_role(node):
                self._analyse(node)
        self._inside = frozenset().union(*self.members.values())

    def __contains__(self, node: Node) -> bool:
        return node in self._inside

    def concerns(self, node: Node) -> bool:
        """Return whether `why_not` may reject a node."""
        return node.op == UNIQUE or self._choices.needs_distinct_rows(node)

    def why_not(self, node: Node) -> str | None:
        """Return why a `Unique` or a sparse update cannot be in a cluster, or None."""
        if node.op == UNIQUE:
            return None if node in self.members else REASON
        return None if node in self.unique_of else NOT_DISTINCT

    def incomplete(self, clusters: Sequence[Collection[Node]]) -> dict[Node, str]:
        """Return the nodes to remove from clusters because their pattern is not complete."""
        reasons: dict[Node, str] = {}
        for unique, members in self.members.items():
            homes = [cluster for cluster in clusters if unique in cluster]
            if not homes or members.issubset(homes[0]):
                continue
            updates = (node for node in members if self._choices.needs_distinct_rows(node))
            reasons |= dict.fromkeys((unique, *updates), USED_OUTSIDE)
        return reasons

    def _analyse(self, unique: Node) -> None:
        kinds = self._kinds_of(unique)
        if kinds is None:
            return
        readers = {
            edge.dst
            for node, output in kinds
            for edge in node.out_edges
            if not edge.is_control and edge.src_output == output
        }
        if not readers or not all(self._fits(node, kinds) for node in readers):
            return
        self.members[unique] = frozenset({unique, *readers})
        for node in readers:
            if self._position(node, "indices") is not None:
                self.unique_of[node] = unique
            if is_elementwise(node) and (node, 0) in kinds and kinds[node, 0] is _ROWS:
                edges = enumerate(node.in_edges)
                self.uniform_inputs[node] = tuple(
                    position for position, edge in edges if (edge.src, edge.src_output) not in kinds
                )
        sums = [node for node in readers if node.op == _SUM]
        early = {unique, *(node for (node, _), kind in kinds.items() if kind is _SIZE)}
        if len(sums) == 1 and not any(edge.is_control for n in early for edge in n.out_edges):
            self.exclusive_inputs[sums[0]] = tuple(early)

    def _kinds_of(self, unique: Node) -> dict[Tensor, str] | None:
        """Return the roles of the tensors derived from a `Unique`; None if one has another use."""
        kinds: dict[Tensor, str] = {(unique, 0): _INDICES, (unique, 1): _POSITIONS}
        pending = list(kinds)
        while pending:
            tensor = pending.pop()
            for edge in tensor[0].out_edges:
                if edge.is_control or edge.src_output != tensor[1]:
                    continue
                kind = self._kind_after(edge, kinds[tensor])
                if kind is None:
                    return None
                result = (edge.dst, 0)
                if kind and kinds.get(result) != kind:
                    if result in kinds:
                        return None
                    kinds[result] = kind
                    pending.append(result)
        return kinds

    def _kind_after(self, edge: Edge, kind: str) -> str | None:
        """Return the role of a consumer's output: "" if it has none, None if it is not allowed."""
        node, position = edge.dst, edge.dst_input
        if not (self._has_role(node) or self._choices.takes_distinct_rows(node)):
            return None
        if kind is not _POSITIONS and node.op_def.traits.forwards:
            return kind
        if kind is _ROWS:
            if is_elementwise(node):
                return _ROWS
            return "" if position == self._position(node, "values") else None
        if node.op == _SUM:
            expected = {_POSITIONS: 1, _SIZE: 2}.get(kind)
            return _ROWS if position == expected else None
        if kind is _SIZE:
            return _SIZE if node.op == "StridedSlice" and position == 0 else None
        if kind is _INDICES:
            if node.op == "Shape":
                return _SIZE
            if position == self._position(node, "indices"):
                return "" if node.op_def.traits.writes else _ROWS
        return None

    def _has_role(self, node: Node) -> bool:
        """Return whether a node computes what its op says."""
        return not self._choices.why_role_may_not_hold(node)

    def _position(self, node: Node, role: str) -> int | None:
        """Return the input of a row op that holds the row indices or the rows."""
        if node.attrs.get("batch_dims") or not self._choices.takes_distinct_rows(node):
            return None
        uses = [use for use in node.op_def.traits.resources or () if use.rows]
        name = uses[0].rows if role == "indices" else uses[0].updates
        names = [arg.name for arg in node.op_def.input_args]
        return names.index(name) if name else None

    def _fits(self, node: Node, kinds: dict[Tensor, str]) -> bool:
        """Return whether all related inputs of a consumer derive from the same `Unique`."""

        def kind(position: int) -> str | None:
            edge = node.in_edges[position]
            return kinds.get((edge.src, edge.src_output))

        if node.op == _SUM:
            return (kind(0), kind(1), kind(2)) == (None, _POSITIONS, _SIZE)
        indices, values = self._position(node, "indices"), self._position(node, "values")
        if values is None or indices is None:
            return True
        return (kind(indices), kind(values)) == (_INDICES, _ROWS)
