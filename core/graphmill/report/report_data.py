"""`collect`: everything that a report shows, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill.explain.compilation import COMPILED, INTERPRETED, STRAIGHT_LINE
from graphmill.explain.plain import as_plain
from graphmill.explain.step_trace import StepTrace
from graphmill.explain.unit_text import bytes_text, time_text
from graphmill.report.advice import advice_for
from graphmill.report.graph_data import graph_data
from graphmill.report.graph_nodes import graph_nodes
from graphmill.report.traced_steps import short_device, step_data, traced_step
from graphmill.session.session import Session
from graphmill.session.timeouts import timeout_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.explain.step import NodeRecord, StepRecord
    from graphmill.report.traced_steps import NodeTotal, TracedStep
    from graphmill.saved.saved_model import SavedModel

VERSION: Final = 1
"""Version of the format of the data."""
MAX_NODES: Final = 100_000
"""With more nodes, only the groups of a graph are drawn."""
LARGE: Final = 5_000
"""Compiling a graph of more nodes may take minutes."""
_STEPS: Final = 20
_STEPS_OF_LARGE: Final = 2


def collect(
    model: Session | SavedModel,
    fetches: Any = None,
    feed_dict: Mapping[Any, Any] | None = None,
    *,
    steps: int = 0,
    title: str = "",
    timeout: float | None = None,
) -> dict[str, Any]:
    """Return the contents of a signature's report, ready for JSON.

    Args:
        model: a session, or a SavedModel that was loaded.
        fetches: what a step fetches, as for `Session.run`. By default the outputs of the default
            signature of a SavedModel; of a session, the signature that has run most often.
        feed_dict: the values that a step is fed. Only the names matter if no step is run.
        steps: how many steps to run; after each, the report waits for compilation in the
            background. The first and the last one are traced.
        title: the title of the page.
        timeout: the seconds that each step may take; None for no limit.

    Returns:
        A dict with the keys `version`, `title`, `summary`, `advice`, `graph`, `steps`, `by_time`,
        `by_bytes`, `not_compiled`, `clusters`, `regions`, `devices` and `notes`.

    Raises:
        InvalidArgumentError: there is nothing to fetch, or steps are to run without values.
        NotFoundError: a name does not exist, or an op has no kernel.
        OpError: a step cannot be prepared, or fails.
    """
    session = model if isinstance(model, Session) else model.session
    fetches, feeds = _signature(model, session, fetches, feed_dict, steps)
    traced = _run(session, fetches, feed_dict or {}, steps, timeout)
    record = session.explain(fetches, feeds)
    nodes = graph_nodes(session.step_graph(fetches, feeds), session.host.ops)
    graph, positions = graph_data(nodes, record, traced[-1] if traced else None, MAX_NODES)
    notes: list[str] = []
    if graph["is_reduced"]:
        notes.append(
            f"The graph has {len(nodes):,} nodes, more than the {MAX_NODES:,} that are drawn one "
            "by one. The drawing shows name scopes only."
        )
    return {
        "version": VERSION,
        "title": title or "graphmill report",
        "summary": _summary(len(nodes), record, traced),
        "advice": [advice.as_dict() for advice in advice_for(record, traced)],
        "graph": graph,
        "steps": [step_data(step, positions) for step in traced],
        "by_time": _table(traced, "by_time"),
        "by_bytes": _table(traced, "by_bytes"),
        "not_compiled": _not_compiled(record, traced),
        "clusters": _clusters(record),
        "regions": _regions(record),
        "devices": _devices(session, record),
        "notes": notes,
    }


def default_steps(num_nodes: int) -> int:
    """Return the default number of steps to run: a large graph is not run until it is compiled."""
    return _STEPS if num_nodes <= LARGE else _STEPS_OF_LARGE


def _signature(
    model: Any, session: Session, fetches: Any, feed_dict: Any, steps: int
) -> tuple[Any, list[Any]]:
    """Return fetches and feeds, those of the default signature where none are given."""
    if fetches is not None:
        return fetches, list(feed_dict or ())
    signatures = getattr(model, "signatures", None)
    if signatures:
        name = "serving_default" if "serving_default" in signatures else next(iter(signatures))
        chosen = signatures[name]
        fetches = [part.tensor for port in chosen.outputs.values() for part in port.parts]
        feeds: Any = [part.tensor for port in chosen.inputs.values() for part in port.parts]
    else:
        from graphmill.explain.step import explain_all

        records = explain_all(session)
        if not records:
            raise InvalidArgumentError(
                "the session has not run a step, so there is nothing to report; pass fetches="
            )
        most = max(records, key=lambda record: record.num_steps)
        fetches, feeds = [*most.fetches, *most.targets], list(most.feeds)
    if steps and feeds and not feed_dict:
        raise InvalidArgumentError(
            f"the report is to run {steps} steps, which need values; pass feed_dict= with "
            + ", ".join(map(repr, feeds))
        )
    return fetches, list(feed_dict) if feed_dict else feeds


def _run(
    session: Session,
    fetches: Any,
    feed_dict: Mapping[Any, Any],
    steps: int,
    timeout: float | None,
) -> list[TracedStep]:
    """Run steps, wait for compilation after each, and return the first and the last one, traced."""
    traced = []
    options = timeout_options(timeout)
    for number in range(steps):
        if number in (0, steps - 1):
            trace = StepTrace()
            session.run(fetches, feed_dict, options, trace)
            traced.append(traced_step(f"step {number + 1} of {steps}", trace))
        else:
            session.run(fetches, feed_dict, options)
        session.host.background.wait_idle()
    return traced


def _summary(num_nodes: int, record: StepRecord, traced: Sequence[TracedStep]) -> list[list[str]]:
    """Return the lines of the summary, each a label and an amount."""
    tiers = _count(record.nodes, lambda node: node.tier)
    devices = _count(record.nodes, lambda node: short_device(node.device))
    lines = [
        ["Nodes in the graph", f"{num_nodes:,}"],
        ["Nodes that a step runs", f"{len(record.nodes):,}"],
        ["Devices", ", ".join(f"{name}: {count:,}" for name, count in devices.items())],
        *(
            [f"Nodes {name}", f"{tiers[name]:,}"]
            for name in (COMPILED, STRAIGHT_LINE, INTERPRETED)
            if name in tiers
        ),
        ["Fetches", _names(record.fetches or record.targets)],
        ["Feeds", _names(record.feeds) or "none"],
        ["Compilation mode", record.mode],
    ]
    lines += [[f"Time of {step.name}", time_text(step.nanoseconds)] for step in traced]
    if traced:
        for device, peak in traced[-1].peaks.items():
            label = f"Most bytes of outputs alive on {short_device(device)}"
            lines.append([label, bytes_text(peak.num_bytes)])
    return lines


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


def _count(items: Sequence[NodeRecord], key: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for item in items:
        counts[key(item)] = counts.get(key(item), 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: -pair[1]))


def _table(traced: Sequence[TracedStep], kind: str) -> list[dict[str, Any]]:
    """Return the nodes of the last step with the most time or bytes."""
    if not traced:
        return []
    step = traced[-1]
    whole = step.node_nanoseconds or 1
    totals = step.top_by_time() if kind == "by_time" else step.top_by_bytes()
    return [_total_data(total, whole) for total in totals]


def _total_data(total: NodeTotal, whole: int) -> dict[str, Any]:
    return {
        "node": total.node,
        "op": total.op,
        "device": short_device(total.device),
        "runs": total.runs,
        "nanoseconds": total.nanoseconds,
        "share": total.nanoseconds / whole,
        "bytes": total.num_bytes,
        "outputs": list(total.outputs),
    }


def _not_compiled(record: StepRecord, traced: Sequence[TracedStep]) -> list[dict[str, Any]]:
    """Return the reasons for nodes that are interpreted, with their number, ops and time."""
    totals = traced[-1].totals if traced else {}
    by_reason: dict[str, dict[str, Any]] = {}
    for node in record.nodes:
        if node.tier != INTERPRETED:
            continue
        row = by_reason.setdefault(
            node.tier_reason,
            {"reason": node.tier_reason, "count": 0, "ops": {}, "nanoseconds": 0, "example": ""},
        )
        row["count"] += 1
        row["ops"][node.op] = row["ops"].get(node.op, 0) + 1
        row["example"] = row["example"] or node.node
        total = totals.get(node.node)
        row["nanoseconds"] += total.nanoseconds if total else 0
    return sorted(by_reason.values(), key=lambda one: (-one["nanoseconds"], -one["count"]))


def _clusters(record: StepRecord) -> list[dict[str, Any]]:
    return [
        {
            "device": short_device(device),
            "name": cluster.name,
            "num_nodes": len(cluster.nodes),
            "tier": cluster.tier,
            "signatures": as_plain(cluster.signatures),
        }
        for device, compilation in record.compilations.items()
        for cluster in compilation.clusters
    ]


def _regions(record: StepRecord) -> list[dict[str, Any]]:
    return [
        {
            "device": short_device(device),
            "kind": region.kind,
            "name": region.name,
            "num_nodes": len(region.nodes),
            "is_functional": region.is_functional,
            "reason": region.reason,
        }
        for device, compilation in record.compilations.items()
        for region in compilation.regions
    ]


def _devices(session: Session, record: StepRecord) -> list[dict[str, Any]]:
    nodes = _count(record.nodes, lambda node: node.device)
    return [
        {
            "name": device.name,
            "type": device.device_type,
            "memory_limit": device.memory_limit,
            "num_nodes": nodes.get(device.name, 0),
        }
        for device in session.list_devices()
    ]
