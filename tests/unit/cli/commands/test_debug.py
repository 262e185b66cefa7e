"""`graphmill debug` runs the commands of a debugger on a step of a model."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import debug, ops
from graphmill.cli.debugging.shell import DebugShell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., Any]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A loop whose `root` is NaN in iteration 2 for x=2."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")

        def body(i: Any, a: Any) -> list[Any]:
            return [i + 1, ops.math.sqrt(a - 1.0, name="root")]

        loop = graphmill.while_loop(lambda i, _: i < 5, body, [0, x], name="loop")
        ops.math.neg(loop[1], name="y")
    path = tmp_path / "model.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return str(path)


@pytest.fixture
def debugged(graphmill_cli: Cli, model: str) -> Cli:
    """Return a function that runs commands on the model."""

    def run(*lines: str, options: tuple[str, ...] = ()) -> Any:
        executes = [part for line in lines for part in ("-x", line)]
        return graphmill_cli("debug", model, "x=2", "--fetch", "y", *executes, *options)

    return run


def test_a_nan_is_found_and_inspected(debugged: Cli) -> None:
    result = debugged("break nan", "c", "print loop/root", "back 2", "pending", "dead", "w")
    assert result.code == 0, result.err
    assert "nothing is compiled while a step is debugged" in result.out
    assert "breakpoint 1 (nan *) after" in result.out
    assert "loop/root (Sqrt) in loop/while_context:2 -> float32[] nan" in result.out
    assert "1 NaN" in result.out
    assert "(in the past)" in result.out


def test_a_loop_is_run_iteration_by_iteration_and_left(debugged: Cli) -> None:
    lines = ("break iteration loop/while_context 1", "continue", "next 2", "out", "c", "results")
    result = debugged(*lines)
    assert result.code == 0, result.err
    assert "before loop/Merge" in result.out
    assert ") in loop/while_context:3" in result.out
    assert "the step has ended after" in result.out
    assert "y = nan" in result.out


def test_commands_come_from_a_file_with_comments(
    graphmill_cli: Cli, model: str, tmp_path: Path
) -> None:
    script = tmp_path / "commands"
    script.write_text("break loop/root  # the node\n\n# go\ncontinue\nbreak\nquit\nnonsense\n")
    result = graphmill_cli("debug", model, "x=2", "--fetch", "y", "--commands", str(script))
    assert result.code == 0, result.err
    assert "> break loop/root\nbreakpoint 1: node loop/root" in result.out
    assert "1: node loop/root, 1 hits" in result.out


def test_a_recording_is_saved(debugged: Cli, tmp_path: Path) -> None:
    path = tmp_path / "step.gmrec"
    result = debugged("continue", f"save {path}", "history loop/root", "goto 0")
    assert result.code == 0, result.err
    assert f"nodes written to {path}" in result.out
    assert len(debug.load(path).history("loop/root")) == 6


def test_a_recording_is_replayed(
    debugged: Cli, graphmill_cli: Cli, model: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "step.gmrec")
    assert debugged("continue", f"save {path}").code == 0
    result = graphmill_cli("debug", model, "--replay", path, "-x", "break nan", "-x", "c")
    assert result.code == 0, result.err
    assert "breakpoint 1 (nan *) after" in result.out
    assert result.out.endswith("outputs compared, 0 differ\n")
    refused = graphmill_cli("debug", model, "x=2", "--replay", path)
    assert "inputs and fetches come from the recording" in refused.err


def test_a_recording_is_debugged_without_its_model(
    debugged: Cli, graphmill_cli: Cli, model: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "step.gmrec")
    assert debugged("continue", f"save {path}").code == 0
    lines = ("break nan", "continue", "back", "where", "delete 1", "continue", "results")
    result = graphmill_cli("debug", path, *(part for line in lines for part in ("-x", line)))
    assert result.code == 0, result.err
    assert "loop/root (Sqrt) in loop/while_context:2 -> float32[] nan" in result.out
    assert "the step has ended after" in result.out
    assert "y:0 = float32[] nan" in result.out
    assert "takes no inputs" in graphmill_cli("debug", path, "x=2").err
    with (tmp_path / "cut").open("wb") as file:
        file.write((tmp_path / "step.gmrec").read_bytes()[:-99])
    damaged = graphmill_cli("debug", str(tmp_path / "cut"))
    assert "is damaged or truncated" in damaged.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("brake x", "there is no command 'brake'; did you mean 'break'"),
        ("break loop/rot", "no node 'loop/rot'; did you mean 'loop/root'"),
        ("break shape", "write break NODE, break nan"),
        ("break shape 2,x", "'x' is not a size"),
        ("break iteration lop 1", "loops: loop/while_context"),
        ("break a b", "write break NODE, break nan"),
        ("delete 3", "there is no breakpoint 3"),
        ("delete x", "'x' is not the number of a breakpoint"),
        ("print loop/rot", "no node 'loop/rot'; did you mean"),
        ("print loop/root", "node 'loop/root' has not run"),
        ("print", "write print NAME, or print NAME ITERATION"),
        ("print 'x", "No closing quotation"),
        ("history", "write history NAME"),
        ("history a b", "write history NAME"),
        ("save", "write save FILE"),
        ("goto 9999", "position 9999 is not recorded"),
        ("results", "the step has not ended"),
        ("pending some", "write pending, or pending all"),
        ("where now", "takes no arguments, not 'now'; leave it out"),
        ("next 0", "'0' is not a count; write a number of at least 1"),
        ("step 0", "'0' is not a count; write a number of at least 1"),
        ("back x", "'x' is not a count"),
        ("continue soon", "'soon' is not a number of seconds; write one of at least 0"),
        ("continue -1", "'-1' is not a number of seconds"),
        ("print loop/rot:0 loop:1", "no node 'loop/rot'"),
    ],
)
def test_a_wrong_command_ends_a_script(debugged: Cli, line: str, message: str) -> None:
    result = debugged(line, "quit")
    assert result.code not in (0, 1), result.out
    assert message in result.err
    assert "> quit" not in result.out


def test_an_empty_queue_is_explained(graphmill_cli: Cli, tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], name="queue")
        ops.data_flow.queue_enqueue_v2(queue, [graph.constant(1.0)], name="put")
        ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="take")
    path = tmp_path / "model.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    lines = ("-x", "continue", "-x", "pending")
    result = graphmill_cli("debug", str(path), "--fetch", "take", "--wait", "0", *lines)
    assert result.code == 0, result.err
    assert "no node is ready: node 'take' (QueueDequeueV2) waits for an element" in result.out
    assert "also used by 'put' (QueueEnqueueV2)" in result.out
    assert "take (QueueDequeueV2) is running" in result.out


def test_an_error_of_a_node_stops_the_step(graphmill_cli: Cli, tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        ops.array.reshape(x, [3], name="y")
    path = tmp_path / "model.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    result = graphmill_cli("debug", str(path), "x=[1, 2]", "-x", "c", "-x", "p x")
    assert result.code == 0, result.err
    assert "node 'y' failed: InvalidArgumentError" in result.out
    assert "x = float32[2] [1.0, 2.0]" in result.out
    shown = graphmill_cli("debug", str(path), "x=[1, 2]", "-x", "c", "-x", "where").out
    assert "failed: y (Reshape)" in shown
    assert "  input x:0 = float32[2] [1.0, 2.0]" in shown


def test_options_that_contradict_each_other_are_refused(debugged: Cli, tmp_path: Path) -> None:
    script = tmp_path / "commands"
    script.write_text("")
    both = debugged("c", options=("--commands", str(script)))
    assert "either by --execute or by --commands" in both.err
    assert "has no --json" in debugged("c", options=("--json",)).err


def test_the_shell_continues_after_a_wrong_command(model: str) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    answers = io.StringIO()
    with (
        graphmill.Session(graph=model) as session,
        debug.Debugger(session, "y:0", {"x:0": 2.0}) as debugger,
    ):
        shell = DebugShell(
            debugger,
            Terminal("nonsense\nstep\n\nhelp break\nquit\n"),
            answers,
            outputs=["y"],
            wait=0,
            is_interactive=True,
        )
        shell.use_rawinput = False
        shell.cmdloop()
    assert shell.failure is None
    text = answers.getvalue()
    assert "error: there is no command 'nonsense'" in text
    assert "position 2 of 2" in text
    assert "break shape 2,?,3" in text
    assert shell.completenames("br") == ["break"]
