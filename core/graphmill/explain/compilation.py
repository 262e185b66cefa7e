"""Records of how a compiler handled a graph, which any compiler plugin can write.

A pass that groups nodes attaches a record to the graph (`compilation_of`), which lives as long as
the graph does. Records only observe: a compiler writes them and never reads them to decide. Counts
are statistics, updated without a lock: concurrent updates may lose one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from graphmill.explain.plain import Record, as_plain, with_old_keys
from graphmill.runtime.state_machine import TransitionHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.graph.graph import Graph

INTERPRETED: Final = "interpreted"
"""Tier: the executor calls the kernel of each node."""
STRAIGHT_LINE: Final = "straight-line"
"""Tier: generated code calls the kernels of a cluster, one after the other."""
COMPILED: Final = "compiled"
"""Tier: one program of a compiler is called for a cluster."""

_NOTE: Final = "compilation"


class CompileRecord(NamedTuple):
    """One attempt to compile a cluster for a signature.

    Attributes:
        seconds: how long tracing and compiling took.
        outcome: `"compiled"`, `"loaded"` from the persistent cache, `"shared"` with an equal
            cluster, or `"refused"`.
        cause: why it was compiled.
        reason: why it was refused; empty otherwise.
        cache: the result of the persistent cache, as text; empty without a cache.
        ended: when it ended, in nanoseconds since the epoch; 0 if that is unknown.
    """

    seconds: float
    outcome: str
    cause: str
    reason: str = ""
    cache: str = ""
    ended: int = 0


class CallCounts(Record):
    """The number of calls that each tier has served; updated by the tiers, read through records.

    Attributes:
        num_straight, num_compiled: the number of calls that each tier has served.
        num_checks_failed: the number of calls of the compiled program that the interpreter
            repeated, to report what is wrong with the values.
    """

    __slots__ = ("num_checks_failed", "num_compiled", "num_straight")

    def __init__(self) -> None:
        self.num_straight = 0
        self.num_compiled = 0
        self.num_checks_failed = 0


class SignatureRecord(Record):
    """One signature of a cluster, or several that share a record.

    Attributes:
        signature: element types and shapes of the inputs, and static values, as text.
        tier: the tier that serves its calls now, `STRAIGHT_LINE` or `COMPILED`.
        is_wanted: whether it was to be compiled.
        reason: why it is not compiled, or not yet; empty if it is.
        seconds: how long tracing and compiling took.
        compiles: each attempt to compile it.
        straight_ns, compiled_ns: the shortest call in each tier, in nanoseconds, measured when the
            faster tier was chosen; 0 before.
        state: its state in the compiler's state machine; empty where the compiler has none.
        counts: the number of calls that each tier has served; also as `num_straight`,
            `num_compiled` and `num_checks_failed`.
        difference: how it differs from the signature before it, such as another shape; empty for
            the first one.
    """

    __slots__ = (
        *("signature", "tier", "is_wanted", "reason", "seconds", "compiles", "difference"),
        *("straight_ns", "compiled_ns", "state", "counts"),
    )
    inlined: ClassVar[frozenset[str]] = frozenset({"counts"})

    def __init__(
        self,
        signature: str,
        tier: str = STRAIGHT_LINE,
        *,
        is_wanted: bool = False,
        reason: str = "",
        seconds: float = 0.0,
        compiled_ns: int = 0,
        counts: CallCounts | None = None,
    ) -> None:
        self.signature = signature
        self.tier = tier
        self.is_wanted = is_wanted
        self.reason = reason
        self.seconds = seconds
        self.compiles: list[CompileRecord] = []
        self.straight_ns = 0
        self.compiled_ns = compiled_ns
        self.state = ""
        self.difference = ""
        self.counts = counts or CallCounts()

    @property
    def num_straight(self) -> int:
        """The number of calls that straight-line code has served."""
        return self.counts.num_straight

    @num_straight.setter
    def num_straight(self, count: int) -> None:
        self.counts.num_straight = count

    @property
    def num_compiled(self) -> int:
        """The number of calls that the compiled program has served."""
        return self.counts.num_compiled

    @num_compiled.setter
    def num_compiled(self, count: int) -> None:
        self.counts.num_compiled = count

    @property
    def num_checks_failed(self) -> int:
        """The number of calls of the compiled program that the interpreter repeated."""
        return self.counts.num_checks_failed

    @num_checks_failed.setter
    def num_checks_failed(self, count: int) -> None:
        self.counts.num_checks_failed = count


class ClusterRecord(Record):
    """A cluster: nodes of a graph that were replaced by one node.

    Attributes:
        name: the name of the node that replaces it.
        nodes: names of the nodes in it.
        source: its straight-line code.
        signatures: the signatures of its calls; a bounded number.
        history: the latest changes of state of its signatures, with their causes.
        loops: the loops in it that ran so long that they were compiled by themselves, to be used
            within the step.
        forms: what is compiled for each node of it and of the functions that it calls, by name:
            `lowering F` for a declared lowering, `kernel F`, or `body of F`; empty for clusters
            that are never compiled.
    """

    __slots__ = ("name", "nodes", "source", "signatures", "history", "loops", "forms")  # noqa: RUF023

    def __init__(
        self, name: str, nodes: tuple[str, ...], *, signatures: Iterable[SignatureRecord] = ()
    ) -> None:
        self.name = name
        self.nodes = nodes
        self.source = ""
        self.signatures = list(signatures)
        self.history = TransitionHistory(owner=name)
        self.loops: list[ClusterRecord] = []
        self.forms: Mapping[str, str] = {}

    @property
    def story(self) -> TransitionHistory:
        """The old name of `history`."""
        from graphmill.deprecations import warn_renamed

        warn_renamed("ClusterRecord.story", "history")
        return self.history

    @property
    def tier(self) -> str:
        """The best tier of any of its signatures."""
        tiers = {record.tier for record in self.signatures}
        return COMPILED if COMPILED in tiers else STRAIGHT_LINE


class RegionNote(NamedTuple):
    """A loop or conditional of control flow v1, and whether it was converted.

    Attributes:
        kind: `"while"` or `"cond"`.
        name: the frame of a loop; the name scope of a conditional.
        nodes: names of its nodes.
        is_functional: whether functional nodes replaced it.
        reason: why it was not replaced; empty otherwise.
        became: names of the nodes that replaced it.
    """

    kind: str
    name: str
    nodes: tuple[str, ...]
    is_functional: bool
    reason: str = ""
    became: tuple[str, ...] = ()


class OutsideNote(NamedTuple):
    """A node that is in no cluster.

    Attributes:
        node, op: the node and its op.
        reason: why it is in no cluster.
    """

    node: str
    op: str
    reason: str


class Compilation(Record):
    """How a compiler handled the graph of one device.

    Attributes:
        clusters: the groups of nodes that were replaced by one node each.
        outside: the nodes that are in no cluster.
        regions: the loops and conditionals of control flow v1.
    """

    __slots__ = ("clusters", "outside", "regions")

    def __init__(self) -> None:
        self.clusters: list[ClusterRecord] = []
        self.outside: list[OutsideNote] = []
        self.regions: list[RegionNote] = []

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return with_old_keys(as_plain(self))


def compilation_of(graph: Graph) -> Compilation:
    """Return the record attached to a graph, for a compiling pass to write; create it if needed."""
    compilation: Compilation = graph.notes.setdefault(_NOTE, Compilation())
    return compilation


def find_compilation(graph: Graph) -> Compilation | None:
    """Return the record attached to a graph, or None if no compiler has seen the graph."""
    return graph.notes.get(_NOTE)
