"""`graphmill explain`: report where each node of a model runs, and why."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from graphmill.cli.completion import complete_device, complete_file, complete_model_or_input
from graphmill.cli.options import (
    Settings,
    allow_option,
    common_options,
    pass_settings,
    pixels_option,
    queue_runners_option,
    signature_option,
    step_timeout_option,
    tags_option,
    trust_option,
)
from graphmill.cli.output.explain_summary import NOT_RUN, policy_text, summary_lines
from graphmill.cli.output.formatting import emit
from graphmill.cli.output.node_table import node_blocks
from graphmill.cli.output.progress import stage
from graphmill.cli.output.visible_text import say
from graphmill.errors import NotFoundError, suggest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphmill.cli.output.formatting import Block
    from graphmill.cli.reports.memory_usage import MemoryUsage
    from graphmill.explain.node_details import NodeDetails
    from graphmill.explain.step import NodeRecord, StepRecord
    from graphmill.graph.graph import Graph
    from graphmill.inputs.source import Source
    from graphmill.models.loaded_model import LoadedModel

# Three interpreted steps, one of straight-line code, and enough to compare the tiers.
_STEPS: Final = 20


@click.command()
@click.argument("model", shell_complete=complete_file)
@click.argument(
    "inputs",
    nargs=-1,
    metavar="[NAME=@FILE | NAME=VALUE]...",
    shell_complete=complete_model_or_input,
)
@click.option("--fetch", "fetches", multiple=True, help="Fetch this tensor instead, such as x:0.")
@click.option(
    "--node",
    "nodes",
    multiple=True,
    help="Show everything about this node: attrs, inputs, consumers, rejected kernels.",
)
@click.option(
    "--device",
    help="Prefer devices of this type, as `graphmill run` does.",
    shell_complete=complete_device,
)
@click.option("--executor", help="The executor_type of the session, such as INLINE.")
@allow_option
@trust_option
@click.option("--jit", is_flag=True, help="Run some steps; show clusters, tiers and compilations.")
@click.option(
    "--steps", type=click.IntRange(min=0), help="For --jit: how many steps (default: 20)."
)
@click.option(
    "--memory", is_flag=True, help="Forecast the memory of a step; with --jit, also measure it."
)
@click.option("--dot", is_flag=True, help="Write the graph in Graphviz's DOT language instead.")
@click.option("--source", is_flag=True, help="With --jit: the straight-line code of each cluster.")
@tags_option
@signature_option
@pixels_option
@queue_runners_option
@step_timeout_option
@common_options
@pass_settings
def explain(settings: Settings, /, *, model: str, inputs: tuple[str, ...], **given: Any) -> None:
    """Show the device, kernel and tier of each node of MODEL, with the reasons.

    Only --jit runs the model. Inputs are given as for `graphmill run`; --jit feeds zeros for the
    inputs that are not given.

    For example: graphmill explain MODEL --node dense/MatMul --device NPU
    """
    from graphmill.cli import input_args
    from graphmill.cli.output.added_nodes import added_nodes
    from graphmill.models.queue_runners import queue_runners_running

    options = _Options(**given)
    options.check(has_inputs=bool(inputs), as_json=settings.as_json)
    sources = input_args.unique(input_args.parse_short(inputs))
    loaded = _load(settings, model, options)
    with loaded.session, queue_runners_running(loaded, is_on=options.queue_runners):
        record, usage = _examine(loaded, loaded.named(sources), options)
        shown = _select_records(record.nodes, options.nodes)
        needs_graph = options.nodes or options.dot
        graph = loaded.session.step_graph(record.fetches, record.feeds) if needs_graph else None
    if options.dot and graph is not None:
        _write_dot(graph, record.nodes)
        return
    view = _View(
        record,
        shown,
        details=_details(graph, shown) if graph is not None else {},
        added=added_nodes((node.node for node in shown), loaded.graph_def),
        allowed=loaded.session.allowed,
        usage=usage,
    )
    blocks = view.blocks(is_node_chosen=bool(options.nodes), jit=options.jit, source=options.source)
    data = {"model": model} | view.data(jit=options.jit, source=options.source)
    emit(data, blocks, as_json=settings.as_json)


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of the command."""

    fetches: tuple[str, ...]
    nodes: tuple[str, ...]
    device: str | None
    executor: str | None
    allow: tuple[str, ...]
    trust: bool
    jit: bool
    steps: int | None
    memory: bool
    dot: bool
    source: bool
    tags: str | None
    signature: str | None
    pixels: str | None
    queue_runners: bool
    timeout: float | None

    def check(self, *, has_inputs: bool, as_json: bool) -> None:
        """Check that no option is given without the one that it belongs to.

        Raises:
            click.UsageError: one would have no effect.
        """
        is_only_for_jit = (
            self.steps is not None or self.source or self.queue_runners or self.timeout is not None
        )
        has_values = has_inputs or self.pixels is not None
        if not self.jit and (is_only_for_jit or (has_values and not self.memory)):
            raise click.UsageError(
                "Inputs, --pixels, --queue-runners, --timeout, --steps and --source need --jit: "
                "without it, the model is not run. --memory takes inputs, too, for their shapes."
            )
        if self.dot and (self.jit or self.nodes or self.memory or as_json):
            raise click.UsageError(
                "--dot writes the graph only: leave out --jit, --node, --memory and --json."
            )


def _load(settings: Settings, model: str, options: _Options) -> LoadedModel:
    from graphmill.models.loaded_model import load_model
    from graphmill.models.placement import session_placement

    with stage(f"preparing {model}"):
        host, config = session_placement(
            settings.the_host(),
            options.device,
            options.executor,
            allow=options.allow,
            trust=options.trust,
        )
        return load_model(
            model,
            host,
            tags=options.tags,
            signature=options.signature,
            fetches=options.fetches,
            config=config,
        )


def _examine(
    loaded: LoadedModel, sources: Mapping[str, Source], options: _Options
) -> tuple[StepRecord, MemoryUsage | None]:
    """Return the record of a step, which runs with `--jit`, and with `--memory` its memory."""
    from graphmill.cli.image_options import image_options
    from graphmill.cli.reports.jit_report import record_after
    from graphmill.cli.reports.memory_usage import memory_usage

    images, timeout = image_options(options.pixels), options.timeout
    if options.jit:
        steps = _STEPS if options.steps is None else options.steps
        with stage("running", loaded.session.waits):
            record = record_after(loaded, sources, images, steps, timeout)
    else:
        feeds = [port.tensor for port in loaded.inputs.values()]
        record = loaded.session.explain(list(loaded.outputs.values()), feeds)
    if not options.memory:
        return record, None
    usage = memory_usage(loaded, sources, images, record, is_run=options.jit, timeout=timeout)
    return record, usage


class _View(NamedTuple):
    """The parts of a record that the command shows, as text or as JSON data."""

    record: StepRecord
    shown: Sequence[NodeRecord]
    details: Mapping[str, NodeDetails]
    added: Collection[str]
    allowed: Sequence[str] | None
    usage: MemoryUsage | None

    def blocks(self, *, is_node_chosen: bool, jit: bool, source: bool) -> list[Block]:
        """Return blocks of text and tables."""
        from graphmill.cli.reports.jit_report import jit_blocks
        from graphmill.cli.reports.memory_usage import memory_blocks

        has_run = self.record.num_steps > 0
        blocks: list[Block] = []
        if is_node_chosen:
            for node in self.shown:
                tier = node.tier if has_run else NOT_RUN
                lines = _all_fields(node, self.details.get(node.node), tier)
                blocks.append("\n".join(lines))
        elif not jit and self.usage is None:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            blocks += node_blocks(self.shown, width, self.added, has_run=has_run)
            blocks += [policy_text(self.allowed), *summary_lines(self.shown, has_run=has_run)]
        if self.usage is not None:
            blocks.extend(memory_blocks(self.usage))
        if jit:
            blocks.extend(jit_blocks(self.record, with_source=source))
        return blocks

    def data(self, *, jit: bool, source: bool) -> dict[str, Any]:
        """Return JSON data."""
        from graphmill.cli.reports.jit_report import jit_data

        data: dict[str, Any] = {
            "allowed": None if self.allowed is None else list(self.allowed),
            "nodes": [
                node.as_dict()
                | {"is_added": node.node in self.added}
                | (self.details[node.node].as_dict() if node.node in self.details else {})
                for node in self.shown
            ],
        }
        if self.usage is not None:
            data["memory"] = self.usage.as_dict()
        if jit:
            data["jit"] = jit_data(self.record, with_source=source)
        return data


def _select_records(records: Sequence[NodeRecord], chosen: Sequence[str]) -> Sequence[NodeRecord]:
    """Return the records of the requested nodes, or all records if none is requested.

    Raises:
        NotFoundError: a requested node does not run in a step of the model.
    """
    if not chosen:
        return records
    names = [record.node for record in records]
    for name in chosen:
        if name not in names:
            error = NotFoundError(f"the step runs no node {name!r}{suggest(name, names)}")
            error.add_note("nodes that were folded, merged or pruned are not run")
            raise error
    return [record for record in records if record.node in chosen]


def _details(graph: Graph, records: Sequence[NodeRecord]) -> dict[str, NodeDetails]:
    """Return attrs, inputs and consumers of those nodes that are in the session's graph."""
    from graphmill.explain.node_details import node_details

    names = [record.node for record in records if graph.has_node(record.node)]
    return {name: node_details(graph.node(name)) for name in names}


def _write_dot(graph: Graph, records: Sequence[NodeRecord]) -> None:
    from graphmill.explain.node_details import dot_lines

    for line in dot_lines(graph, records):
        say(line)


def _connections(details: NodeDetails) -> list[str]:
    """Return lines with the attrs, inputs and consumers of a node."""
    return [
        *(f"  attr     {name}={value}" for name, value in details.attrs.items()),
        *(f"  input    {name}" for name in details.inputs),
        f"  outputs  {', '.join(details.outputs) or '-'}",
        *(f"  used by  {name}" for name in details.consumers),
    ]


def _all_fields(record: NodeRecord, details: NodeDetails | None, tier: str) -> list[str]:
    lines = [
        f"{record.node} ({record.op})",
        f"  device   {record.device}: {record.placement}",
        f"  kernel   {record.kernel or 'none'}: {record.kernel_reason}",
        f"  plugin   {record.plugin or '-'}",
        f"  backend  {record.backend or '-'}",
        f"  tier     {tier}: {record.tier_reason}",
        f"  cluster  {record.cluster or '-'}",
        *([f"  form     {record.form}"] if record.form else []),
    ]
    lines += _connections(details) if details else []
    return [*lines, *(f"  rejected: {source}: {why}" for source, why in record.rejected)]
