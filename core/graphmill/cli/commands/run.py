"""`graphmill run`: feed a model from files and values, and print its outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphmill.cli.input import input_args
from graphmill.cli.options import (
    Settings,
    common_options,
    dir_option,
    pass_settings,
    signature_option,
    tags_option,
    take_model,
)
from graphmill.cli.output.formatting import emit
from graphmill.cli.output.progress import stage
from graphmill.errors import AlreadyExistsError, InvalidArgumentError
from graphmill.ops.definition.effects import EFFECTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from graphmill.cli.input.input_args import Source
    from graphmill.cli.model.loaded_model import LoadedModel


@click.command()
@click.argument("arguments", nargs=-1, metavar="MODEL [NAME=@FILE | NAME=VALUE]...")
@click.option(
    "--top", type=click.IntRange(min=1), help="Show only the N largest values of each output."
)
@click.option("--labels", help="For --top: a file with one class name per line.")
@click.option("--fetch", "fetches", multiple=True, help="Fetch this tensor instead, such as x:0.")
@click.option(
    "--device", help="Prefer devices of this type, such as NPU, where they have a kernel."
)
@click.option("--executor", help="The executor_type of the session, such as INLINE.")
@click.option(
    "--forbid",
    multiple=True,
    type=click.Choice(sorted(EFFECTS)),
    help="Refuse ops that may have this effect; may be repeated.",
)
@tags_option
@signature_option
@click.option("--resize", is_flag=True, help="Scale images to the size of the input.")
@click.option("--outdir", help="Also write each output to a .npy file in this folder.")
@click.option("--overwrite", is_flag=True, help="Let --outdir replace existing files.")
@dir_option
@click.option("--inputs", default="", help="Inputs as in saved_model_cli: 'x=f.npy;y=g.npz[k]'.")
@click.option("--input_exprs", default="", help="Inputs as expressions: 'x=np.ones((1, 3))'.")
@click.option("--input_examples", default="", help="tf.Examples: 'x=[{\"age\": [22]}]'.")
@common_options
@pass_settings
def run(
    settings: Settings,
    *,
    arguments: tuple[str, ...],
    folder: str | None,
    inputs: str,
    input_exprs: str,
    input_examples: str,
    fetches: tuple[str, ...],
    tags: str | None,
    signature: str | None,
    device: str | None,
    executor: str | None,
    forbid: tuple[str, ...],
    top: int | None,
    labels: str | None,
    resize: bool,
    outdir: str | None,
    overwrite: bool,
) -> None:
    """Run MODEL on inputs and print its outputs.

    MODEL is the folder of a SavedModel, or a GraphDef (.pb, .pbtxt, .json) or MetaGraph (.meta).
    NAME is an input of its signature; in a GraphDef, a tensor. FILE is a .npy, .npz (also
    FILE[KEY]), .json, .txt, .png or .jpg; VALUE a literal such as 0.5 or [[1, 2]].

    For example: graphmill run MODEL image=@seven.png --top 3 --device NPU
    """
    from graphmill.cli.model.loaded_model import load_model
    from graphmill.cli.model.placement import session_placement
    from graphmill.cli.output.results import answer_blocks, read_labels, top_entries

    model, short = take_model(arguments, folder)
    sources = input_args.unique([
        *input_args.parse_short(short),
        *input_args.parse_inputs(inputs),
        *input_args.parse_expressions(input_exprs),
        *input_args.parse_examples(input_examples),
    ])  # fmt: skip
    names = read_labels(labels) if labels is not None else None
    with stage(f"loading {model}"):
        host, config = session_placement(settings.the_host(), device, executor, forbid)
        loaded = load_model(
            model, host, tags=tags, signature=signature, fetches=fetches, config=config
        )
    targets = _targets(loaded.outputs, outdir, overwrite=overwrite)
    values = _values(loaded, sources, resize=resize)
    with stage("running"):
        results = loaded.run(values)
    _write(results, targets)
    largest = {} if top is None else top_entries(results, top, names)
    data = {"model": model, "outputs": results, **({} if top is None else {"top": largest})}
    emit(data, answer_blocks(results, largest), as_json=settings.as_json)


def _values(
    loaded: LoadedModel, sources: dict[str, Source], *, resize: bool
) -> dict[str, np.ndarray[Any, Any]]:
    from graphmill.cli.input.input_values import load

    return {
        name: load(sources[name], port.spec(), resize=resize)
        for name, port in loaded.ports(sources).items()
    }


def _targets(names: Iterable[str], outdir: str | None, *, overwrite: bool) -> dict[str, Path]:
    """Return the file for each output; raise before the run if one exists already."""
    if outdir is None:
        return {}
    targets = {
        name: Path(outdir) / (name.replace("/", "_").replace(":", "_") + ".npy") for name in names
    }
    for path in targets.values():
        if path.exists() and not overwrite:
            error = AlreadyExistsError(f"{path} exists already")
            error.add_note("try: --overwrite, or another --outdir")
            raise error
    return targets


def _write(results: dict[str, Any], targets: dict[str, Path]) -> None:
    import numpy as np

    for name, path in targets.items():
        array = np.asarray(results[name])
        if array.dtype == object:
            array = array.astype(bytes)  # fixed width: NumPy would pickle an array of objects
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, array, allow_pickle=False)
        except OSError as error:
            raise InvalidArgumentError(f"{path} cannot be written: {error}") from error
