"""`graphmill scan`: list what a model may do besides computing, without running it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from graphmill.access.rules import AccessRules
from graphmill.cli.completion import complete_file
from graphmill.cli.options import (
    Settings,
    common_options,
    dir_option,
    pass_settings,
    tags_option,
    take_model,
)
from graphmill.cli.output.formatting import Block, Table, emit
from graphmill.cli.output.progress import stage
from graphmill.files import is_url

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.saved.model_effects import NodeEffects

_HARMLESS = frozenset({"clock", "log", "rng", "state"})
_FINDINGS = 1
_MAX_PATHS = 3  # of a node in the table


@click.command()
@click.argument("arguments", nargs=-1, metavar="MODEL", shell_complete=complete_file)
@click.option(
    "--allow",
    multiple=True,
    metavar="RULE",
    help="Accept this, as `graphmill run` does: an effect, or fs.read:DIR or fs.write:DIR for "
    "files whose paths are known; may be repeated.",
)
@click.option("--all", "show_all", is_flag=True, help="Also list harmless effects.")
@dir_option
@tags_option
@common_options
@pass_settings
@click.pass_context
def scan(
    context: click.Context,
    settings: Settings,
    arguments: tuple[str, ...],
    allow: tuple[str, ...],
    show_all: bool,
    folder: str | None,
    tags: str | None,
) -> None:
    """List the nodes of MODEL that may use files, the network, processes or Python.

    MODEL is the folder of a SavedModel, or a GraphDef (.pb, .pbtxt, .json) or MetaGraph (.meta).
    Nothing is run. The exit code is 1 if a signature or loading the model reaches such a node;
    variables, random numbers, the clock, printing, and reading the model's own files are accepted.
    """
    model, more = take_model(arguments, folder)
    if more:
        raise click.UsageError(f"Got unexpected extra argument {more[0]!r}.")
    host = settings.the_host()
    with stage(f"scanning {model}"):
        effects = _effects(model, tags, host)
    rules = AccessRules.parse(rule for rule in allow if rule not in _HARMLESS)
    accepted = [*sorted(_HARMLESS), *rules.texts()]
    findings = [node for node in effects if node.reached_by and _refused(node, rules)]
    shown = effects if show_all else [node for node in effects if _refused(node, rules)]
    data = {
        "model": model,
        "accepted": accepted,
        "findings": len(findings),
        "nodes": [_data(node, rules) for node in shown],
    }
    emit(data, _blocks(model, shown, findings, accepted), as_json=settings.as_json)
    if findings:
        context.exit(_FINDINGS)


def _effects(model: str, tags: str | None, host: Host) -> list[NodeEffects]:
    from graphmill.graph.formats.model_file import open_model
    from graphmill.graph.formats.model_format import Kind
    from graphmill.models.meta_graphs import chosen_meta_graphs
    from graphmill.saved.model_effects import effects_of_graph, effects_of_meta_graph

    opened = open_model(model)
    if opened.kind is Kind.GRAPH_DEF:
        return effects_of_graph(opened.graph().graph_def, host.ops, host.kernels)
    return [
        node
        for index in chosen_meta_graphs(opened, tags)
        for node in effects_of_meta_graph(
            opened.meta_graph(index).meta_graph_def, host.ops, host.kernels
        )
    ]


def _refused(node: NodeEffects, rules: AccessRules) -> set[str]:
    """Return the effects of a node that are not accepted."""
    own_files = (
        all(path.startswith("assets/") for path in node.paths) if node.paths else node.is_restore
    )
    left = set(node.effects) - _HARMLESS - ({"fs.read"} if own_files else set())
    return {effect for effect in left if not _allows(rules, effect, node.paths)}


def _allows(rules: AccessRules, effect: str, paths: tuple[str, ...]) -> bool:
    """Return whether rules allow an effect on all paths of a node; False if a path is unknown."""
    if rules.allows(effect):
        return True
    canonical = [path if is_url(path) else os.path.realpath(path) for path in paths]
    return bool(canonical) and all(rules.covers(effect, path) for path in canonical)


def _data(node: NodeEffects, rules: AccessRules) -> dict[str, Any]:
    return {
        "node": node.node,
        "function": node.function or None,
        "op": node.op,
        "effects": list(node.effects),
        "paths": list(node.paths),
        "reached_by": list(node.reached_by),
        "is_finding": bool(node.reached_by and _refused(node, rules)),
    }


def _shortened(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - _MAX_PATHS} more" if len(paths) > _MAX_PATHS else ""
    return ", ".join(paths[:_MAX_PATHS]) + more


def _blocks(
    model: str,
    shown: list[NodeEffects],
    findings: list[NodeEffects],
    accepted: list[str],
) -> list[Block]:
    table = Table(
        ["node", "op", "effects", "paths", "reached by"],
        [
            [
                f"{node.function}: {node.node}" if node.function else node.node,
                node.op,
                " ".join(node.effects),
                _shortened(node.paths) or "-",
                ", ".join(node.reached_by) or "only by name",
            ]
            for node in shown
        ],
    )
    verdict = (
        f"{model}: {len(findings)} reachable nodes may have effects other than "
        f"{', '.join(accepted)}"
        if findings
        else f"{model}: no signature reaches effects other than {', '.join(accepted)}"
    )
    return [*([table] if shown else []), verdict]
