"""The attr of a cluster: its nodes as a body, and how to compile it.

It is separate from `cluster_op`, which every host loads; the attr is needed only with clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from graphmill.spi import FuncAttr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.spi import ClusterRecord
    from graphmill.spi.compilers import ShapeSources
    from graphmill.spi.graphs import FunctionBody

CALLS: Final = 2
"""Calls of a signature before it is compiled; many shapes occur only once."""

INNER_CALLS: Final = 64
"""The same within a loop of generated code, which may call a signature often in one step."""

FunctionKey: TypeAlias = tuple[str, int]
"""Name of a function, and hash of the attr that calls it."""


class ClusterAttr(FuncAttr):
    """The body of a cluster and its settings; its `name` is not a function of the library.

    Attributes:
        body: its nodes, with an `_Arg` for each input and a `_Retval` for each output.
        mode: `"tiered"`, `"eager"` or `"straight-line"`, which is never compiled.
        cache_dir: folder of the persistent compilation cache; empty for none.
        cache_bytes: maximum size of that cache; 0 for the default.
        record: its record, for `explain`.
        functions: bodies of called functions that replace those of the library.
        calls: number of calls with inputs of the same shapes before it is compiled.
        owner: the library function that its nodes belong to; None for the session's graph.
        reason: why it cannot be compiled; empty if it can.
        measures_nodes: whether traced steps measure the times of its nodes.
        shapes: what the surrounding graph tells about the shapes of the body's arguments; None if
            nothing.
    """

    __slots__ = (
        *("body", "cache_bytes", "cache_dir", "calls", "functions", "mode", "owner", "reason"),
        *("measures_nodes", "record", "shapes"),
    )
    # Only the name and the attrs are frozen: a data class would cost a millisecond to create.
    __setattr__ = object.__setattr__

    def __init__(
        self,
        name: str,
        *,
        body: FunctionBody | None = None,
        mode: str = "tiered",
        cache_dir: str = "",
        cache_bytes: int = 0,
        record: ClusterRecord | None = None,
        functions: Mapping[FunctionKey, FunctionBody] | None = None,
        calls: int = CALLS,
        owner: FuncAttr | None = None,
        reason: str = "",
        measures_nodes: bool = False,
        shapes: ShapeSources | None = None,
    ) -> None:
        super().__init__(name)
        self.body = body
        self.mode = mode
        self.cache_dir = cache_dir
        self.cache_bytes = cache_bytes
        self.record = record
        self.functions = functions or {}
        self.calls = calls
        self.owner = owner
        self.reason = reason
        self.measures_nodes = measures_nodes
        self.shapes = shapes
