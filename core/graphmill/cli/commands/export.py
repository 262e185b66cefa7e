"""`graphmill export`: convert a model to the form of another system."""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any

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
from graphmill.errors import AlreadyExistsError, InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command()
@click.argument("model", shell_complete=complete_file)
@click.option(
    "--to",
    "target",
    required=True,
    help="The target: jax, stablehlo, onnx, saved_model, or a plugin's.",
)
@click.option(
    "--out", required=True, type=click.Path(), help="The folder to write; it must not exist."
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=1,8",
    help="The shape of an input with unknown sizes; may be repeated.",
)
@click.option(
    "--platform", "platforms", multiple=True, help="A platform it can run on (default: cpu)."
)
@click.option(
    "--max-iterations",
    type=click.IntRange(min=1),
    help="The maximum trip count of loops whose trip count is unknown; gives them gradients.",
)
@click.option("--fetch", "fetches", multiple=True, help="Export this tensor instead, such as x:0.")
@inputs_option
@allow_option
@trust_option
@tags_option
@signature_option
@common_options
@pass_settings
def export(
    settings: Settings,
    /,
    *,
    model: str,
    target: str,
    out: str,
    shapes: tuple[str, ...],
    platforms: tuple[str, ...],
    max_iterations: int | None,
    fetches: tuple[str, ...],
    inputs: tuple[str, ...],
    allow: tuple[str, ...],
    trust: bool,
    tags: str | None,
    signature: str | None,
) -> None:
    """Convert MODEL to the form of another system.

    For example: graphmill export MODEL --to stablehlo --shape image=1,8,8,1 --out program
    """
    from graphmill import files
    from graphmill.export import convert_model
    from graphmill.models.placement import session_placement

    if files.exists(out):
        raise AlreadyExistsError(f"{out} exists already; remove it, or choose another name")
    host, config = session_placement(settings.the_host(), None, None, allow=allow, trust=trust)
    sizes = dict(_shape(text) for text in shapes)
    options: dict[str, Any] = {
        "shapes": sizes or None,
        "platforms": platforms or None,
        "max_iterations": max_iterations,
    }
    given = {name: value for name, value in options.items() if value is not None}
    of_exporter = _accepted_options(host.exporters.get(target), given)
    with stage(f"exporting {model}"):
        converted = convert_model(
            model,
            target,
            signature=signature,
            tags=tags,
            fetches=fetches,
            inputs=inputs,
            host=host,
            config=config,
            **of_exporter,
        )
        save = getattr(converted, "save", None)
        if save is None:
            raise UnimplementedError(
                f"the exporter {target!r} returns a {type(converted).__name__}, which has no "
                "method save; use graphmill.export.convert_model, which returns it"
            )
        rest = {name: value for name, value in given.items() if name not in of_exporter}
        _check_accepted(target, rest, _accepted_options(save, rest))
        with _new_folder(out):
            paths = save(out, **rest)
    emit({"model": model, "target": target, "files": paths}, paths, as_json=settings.as_json)


@contextlib.contextmanager
def _new_folder(path: str) -> Iterator[None]:
    """Delete an empty folder that a failure leaves, so that the command can be repeated."""
    from graphmill import files

    try:
        yield
    except BaseException:
        if files.is_dir(path) and not files.list_dir(path):
            files.remove_empty_dir(path)
        raise


def _accepted_options(function: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that a function has parameters for."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in parameters}


def _check_accepted(target: str, options: dict[str, Any], accepted: dict[str, Any]) -> None:
    for name in options.keys() - accepted.keys():
        spelling = {"shapes": "shape", "platforms": "platform"}.get(name, name.replace("_", "-"))
        raise InvalidArgumentError(
            f"the exporter {target!r} has no option --{spelling}; leave it out"
        )


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, sizes = text.rpartition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(",") if size.strip())
    except ValueError:
        equals = ""
        shape = ()
    if not equals or not name:
        raise InvalidArgumentError(f"--shape {text!r} is not of the form NAME=1,8")
    return name, shape
