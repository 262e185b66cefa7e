"""`Region`: a loop or conditional that may become one functional node, and its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from graphmill.spi.graphs import is_result

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from graphmill.spi import Node

FUNCTIONALIZED: Final = "functionalized"
"""The outcome of a region that was rewritten."""


class NotProvenError(Exception):
    """The structure of a region could not be proven; the message is the reason."""


def check_removable(nodes: Iterable[Node], keep: Collection[Node]) -> None:
    """Check that a region contains none of the nodes to keep.

    Raises:
        NotProvenError: it contains one; the message is the reason.
    """
    for node in nodes:
        if node in keep:
            raise NotProvenError(_why_kept(node))


def _why_kept(node: Node) -> str:
    if not is_result(node):
        return f"{node.name} must stay in the outer graph"
    source, index = node.sources[0]
    return f"the output {source.name}:{index} is inside, so it may have no value"


class Region(NamedTuple):
    """A loop or conditional.

    Attributes:
        kind: "while" or "cond".
        name: the frame of a loop; the name scope of a conditional.
        nodes: the nodes that are replaced.
    """

    kind: Literal["while", "cond"]
    name: str
    nodes: tuple[Node, ...]


class RegionRecord(NamedTuple):
    """The outcome for one region, for reports.

    Attributes:
        kind, name: those of the region.
        nodes: names of its nodes; an inner region that was replaced is one functional node.
        outcome: `FUNCTIONALIZED`, or why it was not replaced.
        functional_nodes: names of the nodes that replace it; none if it was not replaced, and
            several if a path leaves a conditional and enters it again.
        functions: names of the functions that these nodes call, in the graph's library.
    """

    kind: Literal["while", "cond"]
    name: str
    nodes: tuple[str, ...]
    outcome: str
    functional_nodes: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()

    @property
    def is_functionalized(self) -> bool:
        """Whether the region was rewritten."""
        return self.outcome == FUNCTIONALIZED
