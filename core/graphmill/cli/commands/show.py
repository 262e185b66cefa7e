"""`graphmill show`: summarize a model and report whether it can run here."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from graphmill.cli.completion import complete_file
from graphmill.cli.options import (
    Settings,
    common_options,
    dir_option,
    pass_settings,
    signature_option,
    tags_option,
    take_model,
)
from graphmill.cli.output.formatting import Block, Table, emit
from graphmill.cli.output.progress import stage
from graphmill.cli.output.visible_text import one_line
from graphmill.models.graph_sizes import static_outputs
from graphmill.models.meta_graphs import chosen_meta_graphs
from graphmill.models.summary import (
    ModelSummary,
    Port,
    Signature,
    choose_signature,
    show_port,
    summarize_graph,
    summarize_meta_graph,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.graph.formats.model_file import ModelFile
    from graphmill.plugin.host import Host


@click.command()
@click.argument("arguments", nargs=-1, metavar="MODEL", shell_complete=complete_file)
@dir_option
@tags_option
@signature_option
@click.option(
    "--ops", "--list_ops", "list_ops", is_flag=True, help="Also list the ops that it uses."
)
@click.option("--all", is_flag=True, expose_value=False, hidden=True)  # in saved_model_cli
@common_options
@pass_settings
def show(
    settings: Settings,
    arguments: tuple[str, ...],
    folder: str | None,
    tags: str | None,
    signature: str | None,
    list_ops: bool,
) -> None:
    """Summarize MODEL: signatures, inputs and outputs, size, ops without a kernel.

    MODEL is the folder of a SavedModel, or a GraphDef (.pb, .pbtxt, .json) or MetaGraph (.meta).
    Of a checkpoint (its prefix, .index file or folder) the variables are listed.
    """
    model, more = take_model(arguments, folder)
    if more:
        raise click.UsageError(f"Got unexpected extra argument {more[0]!r}.")
    from graphmill import files
    from graphmill.cli.reports.checkpoint_summary import find_checkpoint
    from graphmill.graph.formats.model_file import open_model

    prefix = find_checkpoint(files.as_path(model))
    if prefix is not None:
        _show_checkpoint(settings, model, prefix)
        return
    host = settings.the_host()
    with stage(f"reading {model}"):
        opened = open_model(model)
        graphs = _contents(opened, host, tags)
    if signature is not None:
        for graph in graphs:
            choose_signature(graph.signatures, signature, model)
    missing = {id(graph): _ops_without_kernel(graph, host) for graph in graphs}
    data = {
        "model": model,
        "file": opened.path,
        "kind": opened.kind.value,
        "graphs": [_data(graph, missing[id(graph)]) for graph in graphs],
    }
    blocks: list[Block] = [f"{model}: {opened.kind.value}"]
    for graph in graphs:
        blocks += _blocks(graph, missing[id(graph)], signature, list_ops=list_ops)
    emit(data, blocks, as_json=settings.as_json)


def _show_checkpoint(settings: Settings, model: str, prefix: str) -> None:
    from graphmill.cli.reports.checkpoint_summary import (
        checkpoint_blocks,
        checkpoint_data,
        read_checkpoint,
    )

    tensors = read_checkpoint(prefix)
    data = checkpoint_data(model, prefix, tensors)
    emit(data, checkpoint_blocks(model, prefix, tensors), as_json=settings.as_json)


def _contents(opened: ModelFile, host: Host, tags: str | None) -> list[ModelSummary]:
    from graphmill.graph.formats.model_format import Kind

    if opened.kind is Kind.GRAPH_DEF:
        loaded = opened.graph()
        summary = summarize_graph(loaded, host.ops)
        outputs = static_outputs(summary.outputs, loaded, host.ops)
        return [replace(summary, outputs=outputs)]
    return [
        summarize_meta_graph(opened.meta_graph(index), host.ops)
        for index in chosen_meta_graphs(opened, tags)
    ]


def _ops_without_kernel(graph: ModelSummary, host: Host) -> list[str]:
    """Return the ops of a graph without a NumPy kernel, including ops that are not registered."""
    missing = []
    with stage("looking for kernels"):
        for name in sorted(graph.ops):
            op_def = host.ops.find(name)
            registrations = [] if op_def is None else host.kernels.registrations(op_def, ("numpy",))
            if not any(entry.definition.backend in (None, "numpy") for entry in registrations):
                missing.append(name)
    return missing


def _blocks(
    graph: ModelSummary, missing: list[str], key: str | None, *, list_ops: bool
) -> Iterable[Block]:
    yield from _summary(graph)
    signatures = [chosen for chosen in graph.signatures.values() if key in (None, chosen.key)]
    for signature in signatures:
        yield _signature_table(signature)
    if not signatures:
        yield _ports_table("graph", graph.inputs, graph.outputs)
    if list_ops:
        by_use = sorted(graph.ops.items(), key=lambda item: (-item[1], item[0]))
        yield Table(("op", "nodes"), list(by_use), title="ops")
    if missing:
        yield one_line("no kernel here for: " + ", ".join(missing))


def _summary(graph: ModelSummary) -> Iterable[str]:
    parts = [f"{graph.nodes:,} nodes of {len(graph.ops)} ops"]
    if graph.functions:
        parts.append(f"{graph.functions} functions")
    if graph.producer:
        parts.append(f"written by TensorFlow {one_line(graph.producer)}")
    if graph.tags:
        parts.insert(0, one_line("tags " + ",".join(graph.tags)))
    yield "; ".join(parts)
    variables, used = graph.variables, graph.used_variables
    only = f" (of these, the signatures read {used})" if 0 < used.nodes < variables.nodes else ""
    sizes = {"variables": f"{variables}{only}"} if variables.nodes else {}
    sizes |= {"constants": str(graph.constants)} if graph.constants.nodes else {}
    held = [f"{kind}: {size}" for kind, size in sizes.items()]
    if held:
        yield "; ".join(held)


def _signature_table(signature: Signature) -> Table:
    method = f" ({signature.method})" if signature.method else ""
    return _ports_table(f"signature {signature.key}{method}", signature.inputs, signature.outputs)


def _ports_table(title: str, inputs: Iterable[Port], outputs: Iterable[Port]) -> Table:
    table = Table(("", "name", "dtype", "shape", "tensor"), title=title)
    table.rows += [
        ("input, default" if port.has_default else "input", *show_port(port)) for port in inputs
    ]
    table.rows += [("output", *show_port(port)) for port in outputs]
    return table


def _data(graph: ModelSummary, missing: list[str]) -> dict[str, Any]:
    return {
        "tags": graph.tags,
        "tensorflow_version": graph.producer,
        "nodes": graph.nodes,
        "functions": graph.functions,
        "variables": asdict(graph.variables),
        "variables_of_signatures": asdict(graph.used_variables),
        "constants": asdict(graph.constants),
        "ops": dict(sorted(graph.ops.items())),
        "ops_without_kernel": missing,
        "signatures": {
            key: {
                "method": signature.method,
                "inputs": [port.as_data() for port in signature.inputs],
                "outputs": [port.as_data() for port in signature.outputs],
            }
            for key, signature in graph.signatures.items()
        },
        "inputs": [port.as_data() for port in graph.inputs],
        "outputs": [port.as_data() for port in graph.outputs],
    }
