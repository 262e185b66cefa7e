"""`graphmill debug`: run a step of a model node by node."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, TextIO

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
    tags_option,
    take_model,
    trust_option,
)
from graphmill.cli.output.progress import stage
from graphmill.cli.output.visible_text import say

if TYPE_CHECKING:
    from graphmill.debug.player import Player
    from graphmill.models.loaded_model import LoadedModel


@click.command()
@click.argument(
    "arguments",
    nargs=-1,
    metavar="MODEL [NAME=@FILE | NAME=VALUE]...",
    shell_complete=complete_model_or_input,
)
@click.option(
    "--commands",
    type=click.File(encoding="utf-8"),
    help="Read the debugger's commands from a file; - is stdin.",
)
@click.option(
    "-x",
    "--execute",
    "lines",
    multiple=True,
    metavar="COMMAND",
    help="Run a command of the debugger instead of reading commands; may be repeated.",
)
@click.option(
    "--replay",
    "recorded",
    metavar="FILE",
    help="Run the step of a recording again, with its feeds and without effects.",
)
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="The seconds that a command waits while no node is ready.",
)
@click.option("--fetch", "fetches", multiple=True, help="Fetch this tensor instead, such as x:0.")
@click.option(
    "--device",
    help="Prefer devices of this type, as `graphmill run` does.",
    shell_complete=complete_device,
)
@allow_option
@trust_option
@dir_option
@tags_option
@signature_option
@pixels_option
@queue_runners_option
@common_options
@pass_settings
def debug(
    settings: Settings,
    *,
    arguments: tuple[str, ...],
    commands: TextIO | None,
    lines: tuple[str, ...],
    recorded: str | None,
    wait: float,
    fetches: tuple[str, ...],
    device: str | None,
    allow: tuple[str, ...],
    trust: bool,
    folder: str | None,
    tags: str | None,
    signature: str | None,
    pixels: str | None,
    queue_runners: bool,
) -> None:
    """Run a step of MODEL node by node, stop at breakpoints, and inspect values.

    MODEL may also be a recording, which the debugger's command save wrote.

    Inputs are given as for `graphmill run`. Commands: break, delete, step, next, out, continue,
    back, goto, where, print, history, pending, dead, results, save, quit; `help COMMAND` explains
    one. Nothing is compiled while a step is debugged.

    For example: graphmill debug MODEL image=@seven.png
    """
    if settings.as_json:
        raise click.UsageError("graphmill debug has no --json; its command save writes a file.")
    if lines and commands is not None:
        raise click.UsageError("Give the commands either by --execute or by --commands.")
    model, inputs = take_model(arguments, folder)
    from graphmill.debug.recording_file import is_recording

    stream = (io.StringIO("\n".join(lines)) if lines else commands) or sys.stdin
    if recorded is not None and (inputs or fetches or pixels or is_recording(model)):
        raise click.UsageError(
            "--replay needs a MODEL; inputs and fetches come from the recording."
        )
    if queue_runners and (recorded is not None or is_recording(model)):
        raise click.UsageError("--queue-runners needs a MODEL, and cannot be used with --replay.")
    if is_recording(model):
        if inputs or pixels:
            raise click.UsageError(f"{model} is a recording, which takes no inputs.")
        _debug_recording(model, stream, wait)
        return
    from graphmill.models.loaded_model import load_model
    from graphmill.models.placement import session_placement
    from graphmill.models.queue_runners import queue_runners_running

    with stage(f"loading {model}"):
        host, config = session_placement(
            settings.the_host(), device, None, allow=allow, trust=trust
        )
        loaded = load_model(
            model, host, tags=tags, signature=signature, fetches=fetches, config=config
        )
    with loaded.session, queue_runners_running(loaded, is_on=queue_runners):
        if recorded is None:
            _debug_step(loaded, inputs, pixels, stream, wait)
        else:
            _debug_replay(loaded, recorded, stream, wait)


def _debug_step(
    loaded: LoadedModel, inputs: tuple[str, ...], pixels: str | None, stream: TextIO, wait: float
) -> None:
    """Run the commands of a stream on a step of a model."""
    from graphmill.cli import input_args
    from graphmill.cli.image_options import image_options
    from graphmill.debug.debugger import Debugger

    sources = input_args.unique(input_args.parse_short(inputs))
    values = loaded.read(sources, image_options(pixels))
    ports = loaded.ports(values)
    feeds = {ports[name].tensor: value for name, value in values.items()}
    with Debugger(loaded.session, list(loaded.outputs.values()), feeds) as debugger:
        _run_shell(debugger, list(loaded.outputs), stream, wait)


def _debug_replay(loaded: LoadedModel, path: str, stream: TextIO, wait: float) -> None:
    """Run the commands of a stream on the replay of a recording."""
    from graphmill.debug.recording_file import load
    from graphmill.debug.step_replay import Replay

    recording = load(path)
    with Replay(loaded.session, recording) as replay:
        _run_shell(replay, list(recording.fetches), stream, wait)
    for difference in replay.differences:
        say(f"differs: {difference}")
    say(f"{replay.num_compared} outputs compared, {len(replay.differences)} differ")


def _debug_recording(path: str, stream: TextIO, wait: float) -> None:
    """Run the commands of a stream on a recording."""
    from graphmill.debug.player import Player
    from graphmill.debug.recording_file import load

    recording = load(path)
    _run_shell(Player(recording), list(recording.fetches), stream, wait)


def _run_shell(player: Player, outputs: list[str], stream: TextIO, wait: float) -> None:
    from graphmill.cli.debugging.shell import DebugShell

    is_interactive = stream.isatty()
    shell = DebugShell(
        player, stream, sys.stdout, outputs=outputs, wait=wait, is_interactive=is_interactive
    )
    shell.cmdloop()
    if shell.failure is not None:
        raise shell.failure
