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
"""Of one signature after which a cluster is compiled: many shapes come once only."""

INNER_CALLS: Final = 64
"""The same in a loop that is generated code, where it may be called often in the first step."""

FunctionKey: TypeAlias = tuple[str, int]
"""Name of a function, and hash of the attr that calls it."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusterAttr(FuncAttr):
    """The region of a cluster; its `name` is not a function of the library.

    Attributes:
        body: its nodes, with an `_Arg` for each input and a `_Retval` for each output.
        mode: `"tiered"`, `"eager"` or `"straight-line"`, which is never compiled.
        cache_dir: folder of the persistent compilation cache; empty for none.
        cache_bytes: how large that may become; 0 for the default.
        record: what becomes of it, for `explain`.
        functions: bodies of functions that it calls, where these are not the library's.
        calls: after how many calls with inputs of the same shapes it is compiled.
        owner: the function of the library that its nodes are of; None for the session's graph.
    """

    body: FunctionBody | None = None
    mode: str = "tiered"
    cache_dir: str = ""
    cache_bytes: int = 0
    record: ClusterRecord | None = None
    functions: Mapping[FunctionKey, FunctionBody] = field(default_factory=dict)
    calls: int = CALLS
    owner: FuncAttr | None = None
