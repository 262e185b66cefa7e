"""`graphmill report`: write one HTML file that shows a model, and what ran."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from graphmill.cli.completion import complete_device, complete_model_or_input
from graphmill.cli.options import (
    Settings,
    allow_option,
    common_options,
    dir_option,
    pass_settings,
    pixels_option,
    queue_runners_option,
    signature_option,
    step_timeout_option,
    tags_option,
    take_model,
    trust_option,
)
from graphmill.cli.output.formatting import emit
from graphmill.cli.output.progress import stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.models.loaded_model import LoadedModel

_SHOWN: Final = 5  # of the things to try


@click.command()
@click.argument(
    "arguments",
    nargs=-1,
    metavar="MODEL [NAME=@FILE | NAME=VALUE]...",
    shell_complete=complete_model_or_input,
)
@click.option("--run", "is_run", is_flag=True, help="Run steps; inputs that are not given are 0.")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="With --run: how many steps; 20, or 2 for a graph of over 5,000 nodes.",
)
@click.option(
    "--out", type=click.Path(), default="report.html", show_default=True, help="The file to write."
)
@click.option("--title", help="The title of the page; by default the model.")
@click.option("--fetch", "fetches", multiple=True, help="Fetch this tensor instead, such as x:0.")
@click.option(
    "--device",
    help="Prefer devices of this type, as `graphmill run` does.",
    shell_complete=complete_device,
)
@click.option("--executor", help="The executor_type of the session, such as INLINE.")
@allow_option
@trust_option
@dir_option
@tags_option
@signature_option
@pixels_option
@queue_runners_option
@step_timeout_option
@common_options
@pass_settings
def report(
    settings: Settings,
    *,
    arguments: tuple[str, ...],
    is_run: bool,
    steps: int | None,
    out: str,
    title: str | None,
    fetches: tuple[str, ...],
    device: str | None,
    executor: str | None,
    allow: tuple[str, ...],
    trust: bool,
    folder: str | None,
    tags: str | None,
    signature: str | None,
    pixels: str | None,
    queue_runners: bool,
    timeout: float | None,
) -> None:
    """Write one HTML file with the graph of MODEL, what is compiled, what ran, and what to try.

    Inputs are given as for `graphmill run`, after --run, which runs the model. The file needs no
    network.

    For example: graphmill report MODEL --run image=@seven.png --out report.html
    """
    from graphmill import files
    from graphmill.cli import input_args
    from graphmill.cli.image_options import image_options
    from graphmill.cli.reports.jit_report import step_values
    from graphmill.models.loaded_model import load_model
    from graphmill.models.placement import session_placement
    from graphmill.models.queue_runners import queue_runners_running
    from graphmill.report.page import render
    from graphmill.report.report_data import collect, default_steps

    model, inputs = take_model(arguments, folder)
    if not is_run and (inputs or pixels or queue_runners or timeout or steps):
        raise click.UsageError(
            "Inputs, --pixels, --queue-runners, --timeout and --steps need --run: without it, "
            "the model is not run."
        )
    sources = input_args.unique(input_args.parse_short(inputs))
    with stage(f"loading {model}"):
        host, config = session_placement(
            settings.the_host(), device, executor, allow=allow, trust=trust
        )
        loaded = load_model(
            model, host, tags=tags, signature=signature, fetches=fetches, config=config
        )
    with loaded.session:
        feeds: dict[str, Any] = {port.tensor: None for port in loaded.inputs.values()}
        count = 0
        if is_run:
            feeds, is_made_up = step_values(loaded, loaded.named(sources), image_options(pixels))
            count = steps or default_steps(_num_nodes(loaded, feeds))
        with (
            stage("running" if is_run else "preparing", loaded.session.waits),
            queue_runners_running(loaded, is_on=queue_runners),
        ):
            prepared = partial(collect, steps=count, title=title or model, timeout=timeout)
            data = _collect(prepared, loaded, feeds, count, is_run and is_made_up)
    with stage(f"writing {out}"):
        page = render(data).encode()
        files.write(files.as_path(out), page)
    _emit(settings, model, out, len(page), data)


def _num_nodes(loaded: LoadedModel, feeds: dict[str, Any]) -> int:
    graph = loaded.session.step_graph(list(loaded.outputs.values()), list(feeds))
    return len(list(graph.nodes))


def _collect(
    collect: Any,
    loaded: LoadedModel,
    feeds: dict[str, Any],
    steps: int,
    is_made_up: bool,
) -> dict[str, Any]:
    from graphmill.cli.reports.jit_report import note_zeros
    from graphmill.errors import OpError
    from graphmill.models.execution_errors import mark_as_execution

    try:
        outputs = list(loaded.outputs.values())
        data: dict[str, Any] = collect(loaded.session, outputs, feeds)
    except OpError as error:
        if steps:
            mark_as_execution(error)
        if is_made_up:
            note_zeros(error)
        raise
    if is_made_up:
        data["notes"].append("Inputs that were not given are zeros, with size 1 where unknown.")
    return data


def _emit(settings: Settings, model: str, out: str, size: int, data: dict[str, Any]) -> None:
    advice: Sequence[dict[str, Any]] = data["advice"]
    blocks = [f"{out}: {data['graph']['num_nodes']:,} nodes, {size:,} bytes", *data["notes"]]
    if advice:
        titles = [f"  {one['title']}" for one in advice[:_SHOWN]]
        blocks.append("\n".join(["What to try (the report says more):", *titles]))
    emit({"model": model, "out": out, "bytes": size, **data}, blocks, as_json=settings.as_json)
