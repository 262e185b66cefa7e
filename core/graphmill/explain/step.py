"""Records of one signature of a session: for each node its device, kernel, tier and reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphmill.explain.compilation import INTERPRETED
from graphmill.explain.plain import as_plain, with_old_keys
from graphmill.explain.tiers import Tiers, num_interpreted_steps
from graphmill.graph.node_roles import is_argument_or_result
from graphmill.lowering.kernel_lookup import find_kernel
from graphmill.runtime.state_machine import TransitionHistory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.explain.compilation import Compilation
    from graphmill.graph.node import Node
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.runtime.kernels.kernel_choice import KernelChoice
    from graphmill.session.direct_session import DirectSession
    from graphmill.session.executors_cache import ExecutorsAndKeys, Signature
    from graphmill.session.session import Session


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """How one node runs, and why.

    Attributes:
        node, op: the node and its op type.
        device: full name of the device that runs it.
        placement: the reason for that device.
        kernel: the kernel's function; "" for arguments, results and calls of functions.
        plugin: the plugin that supplied the kernel.
        backend: the array library that it computes with.
        rejected: the kernels that were not chosen, each with the reason.
        kernel_reason: the reason for the kernel, or for having none.
        tier: how it runs now: "interpreted" (the executor calls its kernel), "straight-line" or
            "compiled" (as a part of a cluster).
        tier_reason: the reason for the tier.
        cluster: its cluster; "" for none.
        form: what the compiler traces for it in its cluster: `lowering F` for a declared lowering,
            `kernel F`, which may be another than `kernel`, or `body of F`; "" outside of clusters.
    """

    node: str
    op: str
    device: str
    placement: str
    kernel: str
    plugin: str
    backend: str
    rejected: tuple[tuple[str, str], ...]
    tier: str = INTERPRETED
    tier_reason: str = ""
    cluster: str = ""
    kernel_reason: str = ""
    form: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        plain: dict[str, Any] = as_plain(self)
        return plain

    def __str__(self) -> str:
        kernel = f"{self.kernel} ({self.backend}, {self.plugin})" if self.kernel else "no kernel"
        tier = f"{self.tier} ({self.tier_reason})" if self.tier_reason else self.tier
        tier += f"; compiled form: {self.form}" if self.form else ""
        return f"{self.node} ({self.op}): {self.device}: {self.placement}; {kernel}; {tier}"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The record of one signature of a session: its nodes, and how they were compiled.

    `str` returns one line for each node: device, kernel, tier and the reasons. The counts continue
    while the session runs; create a new record for new tiers.

    Attributes:
        feeds, fetches, targets: the signature.
        num_steps: the number of its steps.
        num_interpreted: the number of steps on the first executors, which interpret every node.
        mode: the session's mode of compilation, as in its config.
        reason: why its graph was not built again for compilation, or why none of its nodes is in a
            cluster, if all have the same reason; else empty.
        nodes: its nodes, with their first placement and kernels.
        compilations: the compiler's record of each device's graph, by device name.
        history: the history of its hot graph.
    """

    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    num_steps: int
    num_interpreted: int
    mode: str
    reason: str
    nodes: tuple[NodeRecord, ...]
    compilations: dict[str, Compilation]
    history: TransitionHistory = field(default_factory=TransitionHistory)

    @property
    def story(self) -> TransitionHistory:
        """The old name of `history`."""
        from graphmill.deprecations import warn_renamed

        warn_renamed("StepRecord.story", "history")
        return self.history

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return with_old_keys(as_plain(self))

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        steps = f"{self.num_steps} steps, {self.num_interpreted} interpreted"
        return "\n".join((f"mode {self.mode}{reason}; {steps}", *map(str, self.nodes)))


def step_record(impl: DirectSession, key: Signature, *, build: bool = False) -> StepRecord:
    """Return the record of a signature, which is prepared if it has not run yet.

    Args:
        impl: the session.
        key: the signature.
        build: whether to build its graph for compilation now, if that has not happened.

    Raises:
        NotFoundError: a name does not exist, or an op has no kernel.
        OpError: the step cannot be prepared.
    """
    executors = impl.executors(key).executors
    if build:
        impl.hot_steps.build_for(executors)
    return _step_record(impl, executors)


def _step_record(impl: DirectSession, executors: ExecutorsAndKeys) -> StepRecord:
    reasons = {record.node: record.reason for record in executors.placements}
    tiers = Tiers(executors, impl.hot_steps)
    nodes = tuple(
        _record(node, item, impl.host.kernels, reasons, tiers)
        for item in executors.items
        for node in item.graph.nodes
    )
    return StepRecord(
        executors.feeds,
        executors.fetches,
        executors.targets,
        executors.step_count,
        num_interpreted_steps(executors),
        impl.hot_steps.mode,
        tiers.reason,
        nodes,
        tiers.compilations,
        executors.hot.history,
    )


def explain(
    session: Session,
    *,
    fetches: Sequence[str],
    feeds: Sequence[str] = (),
    targets: Sequence[str] = (),
) -> list[NodeRecord]:
    """Return a record for each node that a step with these feeds and fetches runs.

    The step is prepared (pruned, placed, optimized, given kernels) but not run. `Session.explain`
    shows clusters and counts as well.

    Args:
        session: the session.
        fetches: names of tensors that are fetched.
        feeds: names of tensors that are fed.
        targets: names of nodes that are run for their effects.

    Raises:
        NotFoundError: a name does not exist, or an op has no kernel.
        OpError: the step cannot be prepared.
    """
    impl = session._impl  # noqa: SLF001 - the public session has no access to it
    signature = tuple(feeds), tuple(fetches), tuple(targets)
    return list(impl.explain(signature, build=False).nodes)


def explain_all(session: Session) -> list[StepRecord]:
    """Return the records of all signatures that have executors.

    Callables that were made with their own options come last.
    """
    return session._impl.explain_all()  # noqa: SLF001 - see `explain`


def step_records(session: DirectSession) -> list[StepRecord]:
    """Return the records of all signatures in a session's executor caches."""
    return [_step_record(session, executors) for executors in session.cached_executors()]


def _record(
    node: Node, item: PerPartition, kernels: Any, reasons: dict[str, str], tiers: Tiers
) -> NodeRecord:
    reason = reasons.get(node.name)
    if reason is None:
        reason = "added by graphmill" if reasons else "the session has one device"
    choice: KernelChoice | None = None
    if not is_argument_or_result(node) and node.op not in item.graph.library:
        choice = find_kernel(kernels, node, item.device)
    found = tiers.of(node.name)
    return NodeRecord(
        node=node.name,
        op=node.op,
        device=item.device.name,
        placement=reason,
        kernel=choice.definition.source if choice else "",
        plugin=str(choice.owner) if choice else "",
        backend=choice.backend if choice else "",
        rejected=choice.rejected if choice else (),
        tier=found.tier,
        tier_reason=found.reason,
        cluster=found.cluster,
        kernel_reason=_kernel_reason(node, choice),
        form=found.form,
    )


def _kernel_reason(node: Node, choice: KernelChoice | None) -> str:
    if choice is None:
        if is_argument_or_result(node):
            return "the executor computes it without a kernel"
        return "it calls a function, whose nodes have kernels"
    if not choice.rejected:
        return "it is the only matching kernel"
    lower = sum(reason == "ranks lower" for _, reason in choice.rejected)
    others = len(choice.rejected) - lower
    reasons = []
    if lower:
        reasons.append(f"{lower} rank lower" if lower > 1 else "1 ranks lower")
    if others:
        reasons.append(f"{others} do not match" if others > 1 else "1 does not match")
    return f"it matches and ranks first; of the others {', '.join(reasons)}"
