"""`graphmill freeze`: write a model whose variables are constants."""

from __future__ import annotations

import click

from graphmill.cli.completion import complete_file
from graphmill.cli.options import (
    Settings,
    allow_option,
    common_options,
    inputs_option,
    pass_settings,
    signature_option,
    tags_option,
    trust_option,
)
from graphmill.cli.output.formatting import emit
from graphmill.cli.output.progress import stage
from graphmill.errors import AlreadyExistsError

_GRAPH_SUFFIXES = (".pb", ".pbtxt")


@click.command()
@click.argument("model", shell_complete=complete_file)
@click.option(
    "--out",
    required=True,
    type=click.Path(),
    help="A GraphDef to write (.pb, .pbtxt), which may exist; or a new folder for a SavedModel.",
)
@click.option(
    "--fetch",
    "fetches",
    multiple=True,
    help="Keep this tensor and the nodes that compute it, such as x:0.",
)
@inputs_option
@allow_option
@trust_option
@tags_option
@signature_option
@common_options
@pass_settings
def freeze(
    settings: Settings,
    /,
    *,
    model: str,
    out: str,
    fetches: tuple[str, ...],
    inputs: tuple[str, ...],
    allow: tuple[str, ...],
    trust: bool,
    tags: str | None,
    signature: str | None,
) -> None:
    """Write MODEL with its variables as constants, and only what its signatures need.

    For example: graphmill freeze MODEL --out model.pb
    """
    from graphmill import files
    from graphmill.export import freeze_model
    from graphmill.models.placement import session_placement

    is_graph = out.endswith(_GRAPH_SUFFIXES)
    if files.is_dir(out) or (not is_graph and files.exists(out)):
        raise AlreadyExistsError(f"{out} exists already; choose a new folder, or a file NAME.pb")
    host, config = session_placement(settings.the_host(), None, None, allow=allow, trust=trust)
    with stage(f"freezing {model}"):
        frozen = freeze_model(
            model,
            signature=signature,
            tags=tags,
            fetches=fetches,
            inputs=inputs,
            host=host,
            config=config,
        )
        path = frozen.write(out) if is_graph else frozen.save(out)
    nodes = len(frozen.graph_def.node)
    data = {"model": model, "path": path, "nodes": nodes, "signatures": sorted(frozen.signatures)}
    emit(data, [f"{path}: {nodes} nodes"], as_json=settings.as_json)
