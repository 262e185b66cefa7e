"""`advice_for`: suggest improvements, from the measurements and compilation of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.explain.compilation import COMPILED, INTERPRETED
from graphmill.explain.unit_text import bytes_text, time_text
from graphmill.report.traced_steps import short_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.explain.step import StepRecord
    from graphmill.report.traced_steps import TracedStep

_MANY_SIGNATURES: Final = 3
_LARGE_SHARE: Final = 0.1
_MOST_OF_THE_TIME: Final = 0.5
_MAX_LISTED: Final = 3
_FEW_STEPS: Final = 6
_NO_SLOT: Final = "no slot"  # the state of a signature, as the compiler names it


class Advice(NamedTuple):
    """A suggestion.

    Attributes:
        title: what was seen, in one line.
        text: what to do about it.
        nodes: nodes that show it.
    """

    title: str
    text: str
    nodes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {"title": self.title, "text": self.text, "nodes": list(self.nodes)}


def advice_for(record: StepRecord, traced: Sequence[TracedStep]) -> list[Advice]:
    """Return the suggestions, the most important first.

    Args:
        record: how the nodes run.
        traced: the steps that were traced; none if the report ran none.
    """
    return [
        *_without_steps(record, traced),
        *_whole_graph(record),
        *_signatures(record),
        *_without_slot(record),
        *_refused(record),
        *_loops(record),
        *_slow_clusters(record, traced),
        *_interpreted(record, traced),
        *_slow_nodes(record, traced),
        *_memory(traced),
    ]


def _without_steps(record: StepRecord, traced: Sequence[TracedStep]) -> Iterator[Advice]:
    if not traced:
        count = record.num_steps
        yield Advice(
            f"No step was traced, of {count} that were run" if count else "No step was run",
            "The page has the graph, the devices and the groups of nodes to compile. Times, "
            "memory, and advice on what is slow or cannot be compiled come from steps: add --run "
            "to the command, with NAME=VALUE for the inputs (those not given are zeros), or pass "
            "steps= to report.collect.",
        )
    elif 0 < record.num_steps < _FEW_STEPS and not record.reason:
        steps = "step was" if record.num_steps == 1 else "steps were"
        yield Advice(
            f"Only {record.num_steps} {steps} run",
            "A graph is compiled after some steps. Run more (--steps 20) to see the final tiers.",
        )


def _whole_graph(record: StepRecord) -> Iterator[Advice]:
    if record.reason and record.num_steps:
        yield Advice(
            "The graph was not built for compilation",
            f"The reason: {record.reason}. To compile before the first step, set "
            "config.graphmill.jit = 'eager'.",
        )


def _signatures(record: StepRecord) -> Iterator[Advice]:
    for compilation in record.compilations.values():
        for cluster in compilation.clusters:
            compiled = [one for one in cluster.signatures if one.tier == COMPILED]
            if len(compiled) >= _MANY_SIGNATURES:
                seconds = sum(one.seconds for one in compiled)
                yield Advice(
                    f"{cluster.name} was compiled {len(compiled)} times, in {seconds:.1f} s",
                    "Each new shape of its inputs needs another program. Pad the inputs to a few "
                    "sizes, or batch them by size, so that shapes repeat.",
                    (cluster.name,),
                )


def _without_slot(record: StepRecord) -> Iterator[Advice]:
    for compilation in record.compilations.values():
        for cluster in compilation.clusters:
            for signature in cluster.signatures:
                if signature.state == _NO_SLOT:
                    calls = "call" if signature.num_straight == 1 else "calls"
                    yield Advice(
                        f"{signature.num_straight} {calls} of {cluster.name} had new signatures",
                        f"They are not compiled: {signature.reason}.",
                        (cluster.name,),
                    )


def _refused(record: StepRecord) -> Iterator[Advice]:
    for compilation in record.compilations.values():
        for cluster in compilation.clusters:
            for signature in cluster.signatures:
                refused = [one for one in signature.compiles if one.outcome == "refused"]
                if refused:
                    yield Advice(
                        f"{cluster.name} could not be compiled",
                        f"The reason: {refused[-1].reason}. It runs as straight-line code.",
                        (cluster.name,),
                    )


def _loops(record: StepRecord) -> Iterator[Advice]:
    for compilation in record.compilations.values():
        for region in compilation.regions:
            if not region.is_functional:
                kind = "loop" if region.kind == "while" else "conditional"
                yield Advice(
                    f"The {kind} {region.name} runs node by node",
                    f"The reason: {region.reason}. The executor then handles each node of each "
                    "iteration, which costs more than most nodes compute.",
                    region.nodes[:_MAX_LISTED],
                )


def _slow_clusters(record: StepRecord, traced: Sequence[TracedStep]) -> Iterator[Advice]:
    """Yield the clusters that take much of the time as straight-line code, with the reason."""
    totals = traced[-1].totals if traced else {}
    whole = traced[-1].node_nanoseconds if traced else 0
    for compilation in record.compilations.values():
        for cluster in compilation.clusters:
            total = totals.get(cluster.name)
            reasons = [one.reason for one in cluster.signatures if one.reason]
            if total is None or cluster.tier == COMPILED or not reasons:
                continue
            share = total.nanoseconds / whole if whole else 0.0
            if share >= _LARGE_SHARE:
                yield Advice(
                    f"{share:.0%} of the time is in {cluster.name}, which is not compiled",
                    f"The reason: {reasons[-1]}. Python calls its kernels one after the other, in "
                    "each iteration of a loop. Move what cannot be compiled, such as strings and "
                    "queues, out of the loop; `graphmill explain MODEL --jit --source` shows its "
                    "code.",
                    cluster.nodes[:_MAX_LISTED],
                )


def _interpreted(record: StepRecord, traced: Sequence[TracedStep]) -> Iterator[Advice]:
    """Yield the reasons for which nodes that take much of the time are interpreted."""
    if not traced or record.reason:
        return
    totals, whole = traced[-1].totals, traced[-1].node_nanoseconds
    by_reason: dict[str, list[tuple[int, str, str]]] = {}
    for node in record.nodes:
        total = totals.get(node.node)
        if node.tier == INTERPRETED and total is not None:
            times = by_reason.setdefault(node.tier_reason, [])
            times.append((total.nanoseconds, node.node, node.op))
    ranked = sorted(by_reason.items(), key=lambda item: -sum(time for time, _, _ in item[1]))
    for reason, times in ranked[:_MAX_LISTED]:
        spent = sum(time for time, _, _ in times)
        if whole and spent / whole >= _LARGE_SHARE:
            times.sort(reverse=True)
            ops = ", ".join(dict.fromkeys(op for _, _, op in times[:_MAX_LISTED]))
            yield Advice(
                f"{spent / whole:.0%} of the time is in interpreted nodes: {reason}",
                f"They take {time_text(spent)}; the slowest are of {ops}. `graphmill explain MODEL "
                "--jit` lists each of them.",
                tuple(name for _, name, _ in times[:_MAX_LISTED]),
            )


def _slow_nodes(record: StepRecord, traced: Sequence[TracedStep]) -> Iterator[Advice]:
    if not traced:
        return
    step = traced[-1]
    whole = step.node_nanoseconds
    clusters = {one.cluster for one in record.nodes}
    for total in step.top_by_time(_MAX_LISTED):
        share = total.nanoseconds / whole if whole else 0.0
        if share < _MOST_OF_THE_TIME or total.node in clusters:
            continue  # a slow cluster is fine: its nodes run together, as they should
        times = "once" if total.runs == 1 else f"{total.runs} times"
        text = (
            f"It runs {times} in a step. Check whether its inputs can be smaller, or "
            "whether it can be moved out of a loop."
        )
        yield Advice(f"{total.node} takes {share:.0%} of the time", text, (total.node,))


def _memory(traced: Sequence[TracedStep]) -> Iterator[Advice]:
    if not traced:
        return
    for device, peak in traced[-1].peaks.items():
        largest = peak.holders[0]
        if largest.num_bytes >= 2**20 and largest.num_bytes >= peak.num_bytes / 2:
            yield Advice(
                f"{largest.node} holds {bytes_text(largest.num_bytes)} of the "
                f"{bytes_text(peak.num_bytes)} at the peak on {short_device(device)}",
                "A smaller batch, or a reduction that comes earlier, lowers the peak.",
                (largest.node,),
            )
