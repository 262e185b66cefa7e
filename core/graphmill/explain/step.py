"""The records of one signature of a session: a node each, with device, kernel and the reasons."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from graphmill.lowering.kernel_factory import BOUNDARY_OPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.node import Node
    from graphmill.lowering.partitions import PerPartition
    from graphmill.session.session import Session

_INTERPRETED: Final = "interpreted"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """Why one node runs as it does.

    Attributes:
        node, op: the node and its op type.
        device: full name of the device that runs it.
        placement: why that one.
        kernel: the kernel's function; "" for arguments, results and calls of functions.
        plugin: who supplied the kernel.
        backend: the array library that it computes with.
        rejected: the kernels that were passed over, each with the reason.
        tier: how it runs; "interpreted" means that the executor calls its kernel.
    """

    node: str
    op: str
    device: str
    placement: str
    kernel: str
    plugin: str
    backend: str
    rejected: tuple[tuple[str, str], ...]
    tier: str = _INTERPRETED

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        kernel = f"{self.kernel} ({self.backend}, {self.plugin})" if self.kernel else "no kernel"
        return f"{self.node} ({self.op}): {self.device}: {self.placement}; {kernel}; {self.tier}"


def explain(
    session: Session,
    *,
    fetches: Sequence[str],
    feeds: Sequence[str] = (),
    targets: Sequence[str] = (),
) -> list[NodeRecord]:
    """Return a record for each node that a step with these feeds and fetches runs.

    The step is prepared (pruned, placed, optimised, given kernels) but not run.

    Args:
        session: the session.
        fetches: names of tensors that are fetched.
        feeds: names of tensors that are fed.
        targets: names of nodes that are run for their effects.

    Raises:
        NotFoundError: a name does not exist, or an op has no kernel.
        OpError: the step cannot be prepared.
    """
    impl = session._impl  # noqa: SLF001 - looks into a session, as its friends may
    made = impl.executors((tuple(feeds), tuple(fetches), tuple(targets))).executors
    reasons = {record.node: record.reason for record in made.placements}
    return [
        _record(node, item, impl.host.kernels, reasons)
        for item in made.items
        for node in item.graph.nodes
    ]


def _record(node: Node, item: PerPartition, kernels: Any, reasons: dict[str, str]) -> NodeRecord:
    reason = reasons.get(node.name)
    if reason is None:
        reason = "added by graphmill" if reasons else "the session has one device"
    choice = None
    if node.op not in BOUNDARY_OPS and node.op not in item.graph.library:
        device = item.device
        choice = kernels.find(node.op_def, node.attrs, device.device_type, device.backends)
    return NodeRecord(
        node=node.name,
        op=node.op,
        device=item.device.name,
        placement=reason,
        kernel=choice.definition.source if choice else "",
        plugin=str(choice.owner) if choice else "",
        backend=choice.backend if choice else "",
        rejected=choice.rejected if choice else (),
    )
