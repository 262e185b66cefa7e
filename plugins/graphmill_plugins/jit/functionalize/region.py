"""`Region`: a loop or conditional that may become one functional node, and its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from graphmill.spi import Node

FUNCTIONALISED: Final = "functionalised"
"""The outcome of a region that was rewritten."""


class NotProvenError(Exception):
    """The shape of a region could not be proven; the text says why."""


class Region(NamedTuple):
    """A loop or conditional whose shape has been proven.

    Attributes:
        kind: which of both.
        name: the frame of a loop; the name scope of a conditional.
        nodes: the nodes that are replaced.
    """

    kind: Literal["while", "cond"]
    name: str
    nodes: tuple[Node, ...]


class RegionRecord(NamedTuple):
    """The outcome for one region, for reports.

    Attributes:
        kind, name: as of the region.
        nodes: names of its nodes; a node that stands for an inner region is named as such.
        outcome: `FUNCTIONALISED`, or why it stays as it is.
        functional_nodes: names of the nodes in its place: one, or none, or several where something
            between two parts of a conditional needs the first and is needed by the second.
        functions: names of the functions that these call, bodies of the graph's library.
    """

    kind: Literal["while", "cond"]
    name: str
    nodes: tuple[str, ...]
    outcome: str
    functional_nodes: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()

    @property
    def is_functionalised(self) -> bool:
        """Whether the region was rewritten."""
        return self.outcome == FUNCTIONALISED
