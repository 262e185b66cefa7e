"""Entry point of the command line: find the command, run it, report errors, set the exit code."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING, NoReturn

import click

from graphmill.cli import error_reporting
from graphmill.cli.options import Settings, common_options
from graphmill.cli.output.visible_text import say
from graphmill.errors import FailedPreconditionError, OpError, suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

_BUILT_IN = (
    "run",
    "show",
    "scan",
    "explain",
    "compare",
    "debug",
    "report",
    "export",
    "freeze",
    "ops",
    "devices",
    "plugins",
    "doctor",
    "new-plugin",
)
"""Each is a module of `graphmill.cli.commands` with a click command of the same name."""
_WHOLE_SENTENCE = 1000


class Commands(click.Group):
    """The group of all commands: the built-in ones, imported on use, and those of plugins.

    Plugins are searched only for `--help`, or if the requested command is not built in, so that
    they do not slow down the start of the built-in commands.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the built-in commands, then those of plugins."""
        registered = ctx.ensure_object(Settings).the_host().commands.keys()
        return [*_BUILT_IN, *sorted(set(registered) - set(_BUILT_IN))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name, or None."""
        if cmd_name in _BUILT_IN:
            name = cmd_name.replace("-", "_")
            module = importlib.import_module(f"graphmill.cli.commands.{name}")
            command: click.Command = getattr(module, name)
            return command
        commands = ctx.ensure_object(Settings).the_host().commands
        if cmd_name not in commands:
            return None
        registered = commands.get(cmd_name)
        if not isinstance(registered, click.Command):
            raise FailedPreconditionError(
                f"the command {cmd_name!r} is not a click command but {type(registered).__name__}",
                plugin=str(commands.provenance(cmd_name)),
            )
        return registered

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name; the error suggests near matches."""
        name = click.utils.make_str(args[0])
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            names = self.list_commands(ctx)
            ctx.fail(f"there is no command {name!r}{suggest(name, names)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command, on as many lines as it needs."""
        found = ((name, self._summary(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, text) for name, text in found if text is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _summary(self, ctx: click.Context, name: str) -> str | None:
        """Return what a command does, or why a plugin's cannot be loaded; None for a hidden one."""
        try:
            command = self.get_command(ctx, name)
        except OpError as error:
            return f"Cannot be loaded: {error.message}"
        if command is None or command.hidden:
            return None
        return command.get_short_help_str(_WHOLE_SENTENCE)


def _show_warning(message: Warning | str, *_: object) -> None:
    say(f"warning: {message}", err=True)


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from graphmill import __version__

    click.echo(f"graphmill {__version__} (Python {sys.version.split()[0]})")
    context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@common_options
@click.option(
    "--version", "-V", is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
    help="Show the version and exit.",
)  # fmt: skip
def cli() -> None:
    """Run TensorFlow graphs without TensorFlow."""


def run_command_line(arguments: Sequence[str], settings: Settings | None = None) -> int:
    """Run the command line, report errors on stderr and return the exit code.

    An exception that is not an `OpError` is a bug in graphmill or in a plugin, and is raised.
    """
    settings = settings or Settings()
    arguments = list(arguments)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        try:
            result = cli.main(arguments, prog_name="graphmill", standalone_mode=False, obj=settings)
        except click.ClickException as error:
            # A wrong option ends the parsing, perhaps before `--json` is seen.
            as_json = settings.as_json or "--json" in arguments
            error_reporting.report_usage(error, as_json=as_json)
            return error.exit_code
        except click.exceptions.Abort as abort:
            click.echo("interrupted", err=True)
            for note in getattr(abort.__cause__, "__notes__", ()):
                say(f"  {note}", err=True)
            return error_reporting.INTERRUPTED
        except OpError as error:
            wants_traceback = error_reporting.wants_traceback(asked=settings.traceback)
            error_reporting.report(error, as_json=settings.as_json, with_traceback=wants_traceback)
            return error_reporting.exit_code(error)
    return result if isinstance(result, int) else error_reporting.OK


def main() -> NoReturn:
    """Run the command line of this process and exit with its exit code."""
    sys.exit(run_command_line(sys.argv[1:]))
