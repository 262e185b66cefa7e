"""`graphmill explain MODEL --jit`: run some steps and report what the compiler did."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.cli.output.formatting import Table
from graphmill.errors import InvalidArgumentError, OpError
from graphmill.explain.compilation import SignatureRecord
from graphmill.explain.plain import as_plain, with_old_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphmill.cli.output.formatting import Block
    from graphmill.explain.compilation import ClusterRecord, Compilation
    from graphmill.explain.step import NodeRecord, StepRecord
    from graphmill.inputs.image_input import ImageOptions
    from graphmill.inputs.source import Source
    from graphmill.models.loaded_model import LoadedModel
    from graphmill.models.summary import Port
    from graphmill.runtime.state_machine import TransitionHistory

_GRAPH_STATES: Final = (
    "eligible: it may be compiled; hot: rebuilt with clusters; cold: not decided yet"
)
_TRIAL: Final = "trial: both tiers are timed"


def record_after(
    loaded: LoadedModel,
    sources: Mapping[str, Source],
    images: ImageOptions,
    steps: int,
    timeout: float | None = None,
) -> StepRecord:
    """Run some steps of a model, wait for compilation after each, and return its record.

    Args:
        loaded: the model.
        sources: the sources of inputs, by name. The other inputs are fed zeros, with 1 for unknown
            dimensions.
        images: how images are converted.
        steps: how many steps to run; with 0 the graph is only built for compilation.
        timeout: the seconds that each step may take; None for no limit.

    Raises:
        NotFoundError: the model has no such input, or a file does not exist.
        InvalidArgumentError: a value does not fit its input, or an input cannot be fed zeros.
        OpError: a step failed; the error is marked as one of execution.
    """
    ports = _ports_to_feed(loaded, sources)
    if steps:
        values = {name: _value(port, sources.get(name), images) for name, port in ports.items()}
        _run(loaded, values, steps, timeout, are_made_up=len(sources) < len(values))
    return loaded.session.explain(
        list(loaded.outputs.values()),
        [port.tensor for port in ports.values()],
        build=True,
    )


def step_values(
    loaded: LoadedModel, sources: Mapping[str, Source], images: ImageOptions
) -> tuple[dict[str, np.ndarray[Any, Any]], bool]:
    """Return the values of a step by tensor name, and whether some of them are made-up zeros.

    Args:
        loaded: the model.
        sources: the sources of inputs, by name.
        images: how images are converted.

    Raises:
        NotFoundError: the model has no such input, or a file does not exist.
        InvalidArgumentError: a value does not fit its input, or an input cannot be fed zeros.
    """
    ports = _ports_to_feed(loaded, sources)
    values = {port.tensor: _value(port, sources.get(name), images) for name, port in ports.items()}
    return values, len(sources) < len(values)


def note_zeros(error: OpError) -> None:
    """Add a note to a step's error that inputs without values are zeros."""
    error.add_note("inputs without a value are zeros; set one with NAME=VALUE or NAME=@FILE")


def jit_data(record: StepRecord, *, with_source: bool) -> dict[str, Any]:
    """Return the report of `--jit` as JSON data."""
    compilations = record.compilations.items()
    clusters = [
        {"device": device, "tier": cluster.tier, **as_plain(cluster)}
        for device, compilation in compilations
        for cluster in compilation.clusters
    ]
    for cluster in clusters if not with_source else ():
        del cluster["source"]
    data = {
        "mode": record.mode,
        "reason": record.reason,
        "num_steps": record.num_steps,
        "num_interpreted": record.num_interpreted,
        "history": as_plain(record.history),
        "clusters": clusters,
        "outside": [
            {"device": device, **as_plain(note)}
            for device, compilation in compilations
            for note in compilation.outside
        ],
        "regions": [
            {"device": device, **as_plain(note)}
            for device, compilation in compilations
            for note in compilation.regions
        ],
    }
    return with_old_keys(data)


def jit_blocks(record: StepRecord, *, with_source: bool) -> list[Block]:
    """Return the report of `--jit` as text."""
    blocks: list[Block] = [
        f"mode {record.mode}; {record.num_steps} steps, {record.num_interpreted} interpreted"
        + (f"; {record.reason}" if record.reason else "")
    ]
    blocks.extend(_history(f"events of the graph ({_GRAPH_STATES})", record.history))
    compilations = list(record.compilations.values())
    clusters = [cluster for compilation in compilations for cluster in compilation.clusters]
    shown = [one for cluster in clusters for one in (cluster, *cluster.loops)]
    if shown:
        blocks.append(_clusters(shown))
        blocks.extend(_reasons(shown))
        blocks.extend(_histories(shown))
    blocks.extend(_regions(compilations))
    blocks.extend(_nodes_in_clusters(record.nodes))
    blocks.extend(_nodes_outside(compilations))
    if with_source:
        blocks.extend(f"{cluster.name}\n{cluster.source}".rstrip() for cluster in clusters)
    return blocks


def _ports_to_feed(loaded: LoadedModel, sources: Mapping[str, Source]) -> dict[str, Port]:
    """Return the inputs to feed: all except those for which the default is used."""
    defaults = {
        f"{node.name}:0"
        for node in loaded.graph_def.node
        if node.op == "PlaceholderWithDefault" and not loaded.is_closed
    }
    names = [
        name
        for name, port in loaded.inputs.items()
        if name in sources or port.tensor not in defaults
    ]
    return loaded.ports(dict.fromkeys([*names, *sources]))


def _value(port: Port, source: Source | None, images: ImageOptions) -> np.ndarray[Any, Any]:
    spec = port.spec()
    if source is not None:
        from graphmill.inputs.input_values import load

        return load(source, spec, images)
    if spec.dtype is None or spec.shape is None or spec.is_text:
        error = InvalidArgumentError(f"cannot make zeros for {spec}")
        error.add_note(f"try: {port.name}=@FILE, or {port.name}=VALUE")
        raise error
    shape = [max(size, 1) if size < 0 else size for size in spec.shape]
    return np.zeros(shape, spec.dtype.as_numpy_dtype)


def _run(
    loaded: LoadedModel,
    values: dict[str, np.ndarray[Any, Any]],
    steps: int,
    timeout: float | None,
    *,
    are_made_up: bool,
) -> None:
    background = loaded.host.background
    try:
        for _ in range(steps):
            loaded.run(values, timeout)
            background.wait_idle()
    except OpError as error:
        if are_made_up:
            note_zeros(error)
        raise


def _clusters(clusters: Sequence[ClusterRecord]) -> Table:
    columns = ("cluster", "nodes", "signature", "tier", "compile s", "straight µs", "compiled µs",
               "straight calls", "compiled calls", "failed checks")  # fmt: skip
    table = Table(columns)
    for cluster in clusters:
        table.rows.extend(
            (
                cluster.name, len(cluster.nodes), row.signature, row.tier, f"{row.seconds:.3f}",
                _microseconds(row.straight_ns), _microseconds(row.compiled_ns),
                row.num_straight, row.num_compiled, row.num_checks_failed,
            )
            for row in cluster.signatures or [SignatureRecord("not called")]
        )  # fmt: skip
    return table


def _microseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1000:.1f}" if nanoseconds else "-"


def _reasons(clusters: Sequence[ClusterRecord]) -> Iterator[str]:
    for cluster in clusters:
        for signature in cluster.signatures:
            notes = _reason(signature)
            if notes:
                yield f"{cluster.name}, {signature.signature}: {notes}"


def _histories(clusters: Sequence[ClusterRecord]) -> Iterator[str]:
    for cluster in clusters:
        yield from _history(f"{cluster.name}, events of its signatures ({_TRIAL})", cluster.history)


def _history(title: str, history: TransitionHistory) -> Iterator[str]:
    lines = history.lines()
    if lines:
        yield "\n  ".join([f"{title}:", *lines])


def _reason(signature: SignatureRecord) -> str:
    """Return the reason or note of a signature."""
    notes = [signature.reason] if signature.reason else []
    notes.extend(f"cache: {compiled.cache}" for compiled in signature.compiles if compiled.cache)
    return "; ".join(notes)


def _regions(compilations: Sequence[Compilation]) -> Iterator[Table]:
    regions = [region for compilation in compilations for region in compilation.regions]
    if regions:
        table = Table(("loop or conditional", "nodes", "outcome"))
        for region in regions:
            outcome = f"as {', '.join(region.became)}" if region.is_functional else region.reason
            table.rows.append((f"{region.kind} {region.name}", len(region.nodes), outcome))
        yield table


def _nodes_in_clusters(nodes: Sequence[NodeRecord]) -> Iterator[Table]:
    counts = Counter((node.op, node.form) for node in nodes if node.form)
    if counts:
        table = Table(("in a cluster", "nodes", "compiled form"))
        table.rows.extend((op, count, form) for (op, form), count in counts.items())
        yield table


def _nodes_outside(compilations: Sequence[Compilation]) -> Iterator[Table]:
    notes = [note for compilation in compilations for note in compilation.outside]
    if notes:
        counts = Counter((note.op, note.reason) for note in notes)
        table = Table(("in no cluster", "nodes", "why"))
        table.rows.extend((op, count, reason) for (op, reason), count in counts.items())
        yield table
