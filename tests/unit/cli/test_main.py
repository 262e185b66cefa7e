"""Commands are found, errors are reported, exit codes match docs/reference/cli.md."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import pytest

import graphmill
from graphmill import errors
from graphmill.cli import error_reporting
from graphmill.models.execution_errors import mark_as_execution
from graphmill.plugin.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable


def host_with(name: str, command: object) -> Host:
    """Return a host with one plugin that registers a command."""

    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_commands(self, commands: Any) -> None:
            commands.add(name, command)

    return Host(plugins=[Plugin()], load_entry_points=False)


def failing(error: BaseException) -> click.Command:
    """Return a command that raises."""

    @click.command()
    def fail() -> None:
        raise error

    return fail


def test_help_lists_our_commands_and_those_of_plugins(graphmill_cli: Callable[..., Any]) -> None:
    outcome = graphmill_cli(
        "--help", host=host_with("weigh", click.Command("weigh", help="Weigh."))
    )
    assert outcome.code == 0
    for name in ("run", "show", "ops", "devices", "plugins", "weigh"):
        assert f"\n  {name} " in outcome.out


def test_help_names_a_command_that_cannot_be_loaded(graphmill_cli: Callable[..., Any]) -> None:
    outcome = graphmill_cli("--help", host=host_with("weigh", "no_such_module:weigh"))
    assert outcome.code == 0
    assert "Cannot be loaded: " in outcome.out
    assert "no_such_module" in outcome.out
    assert "\n  run " in outcome.out


def test_a_command_of_a_plugin_runs(graphmill_cli: Callable[..., Any]) -> None:
    command = click.Command("weigh", callback=lambda: click.echo("12 kg"))
    assert graphmill_cli("weigh", host=host_with("weigh", command)).out == "12 kg\n"


def test_plugin_cannot_replace_built_in_command(graphmill_cli: Callable[..., Any]) -> None:
    command = click.Command("ops", callback=lambda: click.echo("mine"))
    assert "mine" not in graphmill_cli("ops", "NoOp", host=host_with("ops", command)).out


def test_invalid_plugin_command_names_its_owner(
    graphmill_cli: Callable[..., Any],
) -> None:
    outcome = graphmill_cli("weigh", host=host_with("weigh", SimpleNamespace()))
    assert outcome.code == error_reporting.INVALID
    assert "not a click command" in outcome.err
    assert "where: plugin 'Plugin'" in outcome.err


def test_unknown_command_gets_near_matches(graphmill_cli: Callable[..., Any]) -> None:
    outcome = graphmill_cli("shwo", host=Host(load_entry_points=False))
    assert outcome.code == error_reporting.USAGE
    assert "did you mean 'show'" in outcome.err


def test_help_shows_whole_sentences(graphmill_cli: Callable[..., Any]) -> None:
    long = "Weigh each of the parts of a model, then all parts together, and show both results."
    command = click.Command("weigh", help=f"{long} Not this.")
    words = graphmill_cli("--help", host=host_with("weigh", command)).out.split()
    assert long in " ".join(words)
    assert "Not this" not in " ".join(words)


def test_help_is_also_a_command(graphmill_cli: Callable[..., Any]) -> None:
    host = Host(load_entry_points=False)
    assert graphmill_cli("help", host=host).out == graphmill_cli("--help", host=host).out
    assert graphmill_cli("help", "ops").out == graphmill_cli("ops", "--help").out


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_is_printed(graphmill_cli: Callable[..., Any], option: str) -> None:
    assert graphmill_cli(option).out.startswith(f"graphmill {graphmill.__version__} (Python ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("ops", "--json", "--bad"),
        ("--json", "shwo"),
        ("ops", "--bad", "--json"),
        ("show", "--json"),
    ],
)
def test_wrong_usage_is_written_as_json(
    graphmill_cli: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    outcome = graphmill_cli(*arguments, host=Host(load_entry_points=False))
    error = json.loads(outcome.err)["error"]
    assert error["exit_code"] == outcome.code == error_reporting.USAGE
    assert error["message"]
    assert outcome.out == ""


def test_json_may_precede_the_command(graphmill_cli: Callable[..., Any]) -> None:
    host = Host(load_entry_points=False)
    assert (
        graphmill_cli("--json", "ops", "Relu", host=host).out
        == graphmill_cli("ops", "Relu", "--json", host=host).out
    )


@pytest.mark.parametrize("arguments", [("--bad",), ("ops", "--bad"), ("show",), ("run",)])
def test_wrong_usage_is_refused(
    graphmill_cli: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    outcome = graphmill_cli(*arguments, host=Host(load_entry_points=False))
    assert outcome.code == error_reporting.USAGE
    assert outcome.out == ""
    assert "Usage: graphmill" in outcome.err


def test_no_command_shows_the_help(graphmill_cli: Callable[..., Any]) -> None:
    outcome = graphmill_cli(host=Host(load_entry_points=False))
    assert "Commands:" in outcome.out + outcome.err  # it depends on the version of click


def test_error_report_has_cause_location_and_advice(graphmill_cli: Callable[..., Any]) -> None:
    error = errors.InvalidArgumentError(
        "bad thing", node="n", op_type="Add", device="CPU:0", plugin="p"
    )
    error.add_note("try: a good thing")
    outcome = graphmill_cli("fail", host=host_with("fail", failing(error)))
    assert outcome.code == error_reporting.INVALID
    assert outcome.err == (
        "error: InvalidArgumentError: bad thing\n"
        "  where: node n, op Add, device CPU:0, plugin p\n"
        "  try: a good thing\n"
    )


def test_error_is_written_as_json(graphmill_cli: Callable[..., Any]) -> None:
    outcome = graphmill_cli("ops", "Conv3", "--json", host=Host(load_entry_points=False))
    assert outcome.out == ""
    error = json.loads(outcome.err)["error"]
    assert error["type"] == "NotFoundError"
    assert error["code"] == errors.NOT_FOUND
    assert error["exit_code"] == outcome.code == error_reporting.INVALID


def test_unimplemented_has_its_own_exit_code(graphmill_cli: Callable[..., Any]) -> None:
    command = failing(errors.UnimplementedError("not here"))
    assert (
        graphmill_cli("fail", host=host_with("fail", command)).code == error_reporting.UNSUPPORTED
    )


def test_execution_errors_have_their_own_exit_code() -> None:
    error = errors.InvalidArgumentError("bad")
    mark_as_execution(error)
    assert error_reporting.exit_code(error) == error_reporting.EXECUTION


def test_interrupt_has_its_exit_code(graphmill_cli: Callable[..., Any]) -> None:
    outcome = graphmill_cli("fail", host=host_with("fail", failing(KeyboardInterrupt())))
    assert outcome.code == error_reporting.INTERRUPTED


def test_traceback_is_shown_on_request_only(
    graphmill_cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = host_with("fail", failing(errors.InvalidArgumentError("bad")))
    assert "Traceback" not in graphmill_cli("fail", host=host).err
    monkeypatch.setenv("GRAPHMILL_TRACEBACK", "1")
    assert "Traceback" in graphmill_cli("fail", host=host).err
    monkeypatch.delenv("GRAPHMILL_TRACEBACK")
    assert "Traceback" in graphmill_cli("ops", "Conv3", "--traceback", host=host).err


def test_a_fault_is_raised_not_hidden(graphmill_cli: Callable[..., Any]) -> None:
    with pytest.raises(ZeroDivisionError):
        graphmill_cli("fail", host=host_with("fail", failing(ZeroDivisionError())))


def test_python_m_is_the_same_command_with_plain_pipes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "graphmill", "ops", "Conv2D"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "strides" in done.stdout
    assert not {"\x1b", "─", "│"} & set(done.stdout)


def test_closed_pipe_is_not_a_fault() -> None:
    done = subprocess.run(
        f"{sys.executable} -m graphmill ops | head -n 1",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
