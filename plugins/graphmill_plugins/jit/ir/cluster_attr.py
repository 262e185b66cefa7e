"""The attr of a cluster: its region of the graph, and how to compile it.

It is separate from `cluster_op`, which every host loads; the attr is needed only with clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from graphmill.spi import FuncAttr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.spi import ClusterRecord
    from graphmill.spi.graphs import FunctionBody

CALLS: Final = 2
"""Calls of a signature before it is compiled; many shapes occur only once."""

INNER_CALLS: Final = 64
"""The same in a loop of generated code, which may call it often in the first step."""

FunctionKey: TypeAlias = tuple[str, int]
"""Name of a function, and hash of the attr that calls it."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusterAttr(FuncAttr):
    """The region of a cluster; its `name` is not a function of the library.

    Attributes:
        body: its nodes, with an `_Arg` for each input and a `_Retval` for each output.
        mode: `"tiered"`, `"eager"` or `"straight-line"`, which is never compiled.
        cache_dir: folder of the persistent compilation cache; empty for none.
        cache_bytes: maximum size of that cache; 0 for the default.
        record: its record, for `explain`.
        functions: bodies of called functions that replace those of the library.
        calls: number of calls with inputs of the same shapes before it is compiled.
        owner: the library function that its nodes belong to; None for the session's graph.
    """

    body: FunctionBody | None = None
    mode: str = "tiered"
    cache_dir: str = ""
    cache_bytes: int = 0
    record: ClusterRecord | None = None
    functions: Mapping[FunctionKey, FunctionBody] = field(default_factory=dict)
    calls: int = CALLS
    owner: FuncAttr | None = None
