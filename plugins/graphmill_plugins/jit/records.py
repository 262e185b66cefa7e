"""What became of clusters, for `explain`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class SignatureRecord:
    """One signature of a cluster.

    Attributes:
        signature: shapes of the inputs, as text.
        tier: `"straight-line"` or `"compiled"`.
        is_wanted: whether it was to be compiled.
        reason: why it is not compiled; empty if it is, or is about to be.
        seconds: how long tracing and compiling took.
        straight_ns, compiled_ns: the shortest call in each tier, in nanoseconds.
        num_checks_failed: how many calls the interpreter had to do again.
    """

    signature: str
    tier: str = "straight-line"
    is_wanted: bool = False
    reason: str = ""
    seconds: float = 0.0
    straight_ns: int = 0
    compiled_ns: int = 0
    num_checks_failed: int = 0


@dataclass(slots=True)
class ClusterRecord:
    """One cluster.

    Attributes:
        name: its name.
        nodes: names of its nodes.
        source: its straight-line code.
        signatures: what it was called with.
    """

    name: str
    nodes: tuple[str, ...]
    source: str
    signatures: list[SignatureRecord] = field(default_factory=list)
