"""Options that all commands share, and the settings that hold their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from graphmill.cli.completion import complete_file, complete_signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.plugin.host import Host

_F = TypeVar("_F", bound="Callable[..., Any]")


@dataclass(slots=True)
class Settings:
    """The common options of this invocation; click's `ctx.obj`.

    Attributes:
        as_json: whether results and errors are written as JSON.
        traceback: whether a typed error is shown with its traceback.
        host: the host to use instead of the default one (for tests).
    """

    as_json: bool = False
    traceback: bool = False
    host: Host | None = None

    def the_host(self) -> Host:
        """Return the host, creating the default one on first use."""
        if self.host is None:
            from graphmill.plugin.host import default_host

            self.host = default_host()
        return self.host


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def _set(name: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            setattr(context.ensure_object(Settings), name, True)

    return callback


def common_options(function: _F) -> _F:
    """Add `--json` and `--traceback` to a command."""
    for option in (
        click.option(
            "--traceback", is_flag=True, expose_value=False, callback=_set("traceback"),
            help="Show Python's traceback with an error (also GRAPHMILL_TRACEBACK=1).",
        ),
        click.option(
            "--json", is_flag=True, expose_value=False, callback=_set("as_json"),
            help="Write the result as JSON.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def take_model(arguments: tuple[str, ...], folder: str | None) -> tuple[str, tuple[str, ...]]:
    """Return MODEL and the remaining arguments.

    The model is the first argument, or the value of `--dir`, the spelling of saved_model_cli.
    """
    if folder is not None:
        return folder, arguments
    if not arguments:
        raise click.UsageError("Missing argument 'MODEL'.", click.get_current_context())
    return arguments[0], arguments[1:]


dir_option = click.option(
    "--dir",
    "folder",
    hidden=True,
    help="MODEL, as in saved_model_cli.",
    shell_complete=complete_file,
)
tags_option = click.option(
    "--tags", "--tag_set", "tags", help="The tags of the SavedModel's MetaGraph, such as serve,gpu."
)
"""Add `--tags` to a command."""
allow_option = click.option(
    "--allow",
    multiple=True,
    metavar="RULE",
    help="Let the model do this: fs.read:DIR, fs.list:DIR, fs.write:DIR, net, process or python; "
    "may be repeated.",
)
"""Add `--allow` to a command."""
trust_option = click.option(
    "--trust", is_flag=True, help="Let the model do everything that this process may do."
)
"""Add `--trust` to a command."""
signature_option = click.option(
    "--signature",
    "--signature_def",
    "signature",
    help="The key of the signature to use.",
    shell_complete=complete_signature,
)
inputs_option = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME",
    help="Keep this input, although it has a default, as an input of the result; may be repeated.",
)
"""Add `--input` to a command that converts a model."""
pixels_option = click.option(
    "--pixels",
    type=click.Choice(["0..1", "0..255", "-1..1"]),
    help="The range of the pixels of images for inputs of floats; default 0..1.",
)
"""Add `--pixels` to a command."""
queue_runners_option = click.option(
    "--queue-runners", is_flag=True, help="Fill the model's queues in threads."
)
"""Add `--queue-runners` to a command."""
step_timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0.001), help="End a step after N seconds."
)
"""Add `--timeout` to a command that runs several steps."""
