"""`DebugShell`: the commands of `graphmill debug`, on a running step or on a recording."""

from __future__ import annotations

import cmd
import math
import shlex
from typing import TYPE_CHECKING, Any, Final

from graphmill.cli.output.visible_text import visible
from graphmill.debug.recording_file import save
from graphmill.errors import InvalidArgumentError, OpError, suggest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from graphmill.debug.player import Player, Stop
    from graphmill.debug.values import RecordedValue

_MAX_LINES: Final = 40
_ALIASES: Final = {
    "b": "break",
    "s": "step",
    "n": "next",
    "o": "out",
    "c": "continue",
    "p": "print",
    "w": "where",
    "q": "quit",
    "EOF": "quit",
}
_KINDS: Final = ("nan", "shape", "iteration")


class DebugShell(cmd.Cmd):
    """Reads commands, and runs them on a debugger.

    Args:
        debugger: the step, or the player of a recording.
        stdin, stdout: where commands come from, and where answers go.
        outputs: the names of the fetches.
        wait: how many seconds a command waits while no node is ready.
        is_interactive: whether a person types the commands: else there is no prompt, each command
            is repeated before its answer, and the first one that fails ends the shell.

    Attributes:
        failure: the error of the command that ended the shell; None if there was none.
    """

    prompt = "(graphmill) "

    def __init__(
        self,
        debugger: Player,
        stdin: TextIO,
        stdout: TextIO,
        *,
        outputs: Sequence[str],
        wait: float,
        is_interactive: bool,
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = is_interactive
        self.failure: OpError | None = None
        self._debugger = debugger
        self._outputs = outputs
        self._wait = wait
        self._is_interactive = is_interactive
        if not is_interactive:
            self.prompt = ""

    def preloop(self) -> None:
        """Show where the step is."""
        if not self._debugger.is_in_past:
            self._say("nothing is compiled while a step is debugged")
        if self._is_interactive:
            self._say("type help for the commands")
        self._say(self._debugger.where())

    def precmd(self, line: str) -> str:
        """Repeat a command that was read from a file, without its comment."""
        line = line.partition("#")[0].strip()
        if line and line != "EOF" and not self._is_interactive:
            self._say(f"> {line}")
        return line

    def onecmd(self, line: str) -> bool:
        """Run a command; return whether to end."""
        name, _, rest = line.partition(" ")
        line = f"{_ALIASES.get(name, name)} {rest}".strip()
        try:
            return bool(super().onecmd(line))
        except OpError as error:
            return self._failed(error)
        except ValueError as error:
            return self._failed(InvalidArgumentError(f"{line}: {error}"))

    def emptyline(self) -> bool:
        """Do nothing."""
        return False

    def default(self, line: str) -> None:
        """Refuse an unknown command."""
        name = line.split()[0]
        known = [command[3:] for command in self.get_names() if command.startswith("do_")]
        raise InvalidArgumentError(
            f"there is no command {name!r}{suggest(name, known)}; commands: "
            f"{', '.join(sorted(known))}"
        )

    def do_break(self, line: str) -> None:
        """Stop at a condition; without one, list the breakpoints.

        break NODE             before a node; a pattern such as 'encoder/*' matches several
        break nan [NODE]       after a node with a NaN or an infinity in an output
        break shape 2,?,3      after a node with an output of this shape
        break iteration LOOP N before the first node of iteration N of a loop
        """
        words = shlex.split(line)
        if not words:
            self._list_breakpoints()
            return
        added = self._break(words)
        self._say(f"breakpoint {added.number}: {added}")

    def do_delete(self, line: str) -> None:
        """Remove a breakpoint: delete NUMBER."""
        self._debugger.delete(_number(line, "the number of a breakpoint"))

    def do_step(self, line: str) -> None:
        """Process the next node, or N of them: step [N]."""
        self._show_stop(self._debugger.step(_count(line), wait=self._wait))

    def do_next(self, line: str) -> None:
        """Continue to the next iteration of the innermost loop, or N times: next [N]."""
        for _ in range(_count(line)):
            stop = self._debugger.next_iteration(wait=self._wait)
            if stop.reason != "step":
                break
        self._show_stop(stop)

    def do_out(self, line: str) -> None:
        """Continue until the innermost loop or function is left."""
        _check_no_argument(line)
        self._show_stop(self._debugger.out(wait=self._wait))

    def do_continue(self, line: str) -> None:
        """Continue to a breakpoint, an error or the end; wait N seconds at most: continue [N]."""
        wait = _seconds(line) if line else self._wait
        self._show_stop(self._debugger.resume(wait=wait))

    def do_back(self, line: str) -> None:
        """Go back one node, or N: back [N]. Effects are not undone."""
        self._debugger.back(_count(line))
        self._say(self._debugger.where())

    def do_goto(self, line: str) -> None:
        """Go to the position after the first N nodes: goto N."""
        self._debugger.go_to(_number(line, "a position"))
        self._say(self._debugger.where())

    def do_where(self, line: str) -> None:
        """Show the next node, its inputs, and the frames that are not done."""
        _check_no_argument(line)
        self._say(self._debugger.where())
        for frame in () if self._debugger.is_in_past else self._debugger.frames():
            running = ", ".join(map(str, frame.iterations)) or "none"
            more = f"; {frame.awaited_enters} inputs have not arrived" * bool(frame.awaited_enters)
            more += f"; deferred: {', '.join(frame.deferred)}" * bool(frame.deferred)
            self._say(f"frame {frame.name}: iterations in flight: {running}{more}")

    def do_print(self, line: str) -> None:
        """Show the latest value of a tensor, or that of one iteration: print NAME [ITERATION]."""
        name, iteration = _name_and_iteration(line)
        value, found_in = self._debugger.find(name, iteration)
        where = f" in {found_in}" if found_in else ""
        self._say(f"{name}{where} = {'dead' if value is None else value}")
        if value is not None and value.is_tensor:
            self._say(_details(value))

    def do_history(self, line: str) -> None:
        """Show all values of a node so far, oldest first: history NAME."""
        name = _one_argument(line, "history NAME")
        recording = self._debugger.recording
        events = recording.history(name, self._debugger.position)
        self._print_lines([recording.describe(index) for index in events], latest=True)

    def do_pending(self, line: str) -> None:
        """Show ready, running, waiting nodes, their counters and missing inputs: pending [all]."""
        if line not in ("", "all"):
            raise InvalidArgumentError("write pending, or pending all for nodes without any input")
        self._print_lines([str(node) for node in self._debugger.waiting(all_nodes=line == "all")])
        for wait in () if self._debugger.is_in_past else self._debugger.waits():
            self._say(str(wait))

    def do_dead(self, line: str) -> None:
        """Show the dead nodes so far, the latest last."""
        _check_no_argument(line)
        self._print_lines(self._debugger.dead(), latest=True)

    def do_results(self, line: str) -> None:
        """Show the fetches of a step that has ended."""
        _check_no_argument(line)
        values = self._debugger.results()
        for name, value in zip(self._outputs, values, strict=True):
            self._say(f"{name} = {value}")

    def do_save(self, line: str) -> None:
        """Write the recording to a file, which graphmill.debug.load reads: save FILE."""
        path = _one_argument(line, "save FILE")
        save(self._debugger.recording, path)
        self._say(f"{len(self._debugger.recording)} nodes written to {path}")

    def do_quit(self, line: str) -> bool:
        """End the step, and leave."""
        _check_no_argument(line)
        return True

    def completenames(self, text: str, *_: Any) -> list[str]:
        """Return the commands that begin with a text."""
        return [name for name in super().completenames(text) if name != "EOF"]

    def _break(self, words: list[str]) -> Any:
        debugger, kind = self._debugger, words[0]
        if kind == "nan" and len(words) <= 2:
            return debugger.break_on_nan(*words[1:])
        if kind == "shape" and len(words) == 2:
            return debugger.break_on_shape(_shape(words[1]))
        if kind == "iteration" and len(words) == 3:
            return debugger.break_at_iteration(words[1], _number(words[2], "an iteration"))
        if len(words) > 1 or kind in _KINDS:
            raise InvalidArgumentError(
                "write break NODE, break nan [NODE], break shape 2,?,3 or break iteration LOOP N"
            )
        return debugger.break_at(kind)

    def _list_breakpoints(self) -> None:
        lines = [
            f"{number}: {one}, {one.num_hits} hits"
            for number, one in self._debugger.breakpoints.items()
        ]
        self._print_lines(lines)

    def _show_stop(self, stop: Stop) -> None:
        """Show why the step stopped, and where it is."""
        if stop.reason != "step":
            self._say(stop.text)
        if stop.reason not in ("end", "error"):
            self._say(self._debugger.where())

    def _failed(self, error: OpError) -> bool:
        if self._is_interactive:
            self._say(f"error: {error}")
            return False
        self.failure = error
        return True

    def _print_lines(self, lines: list[str], *, latest: bool = False) -> None:
        """Show lines; of many, the first ones or the latest ones."""
        left = len(lines) - _MAX_LINES
        shown = lines[-_MAX_LINES:] if latest else lines[:_MAX_LINES]
        if left > 0 and latest:
            self._say(f"({left} earlier ones are not shown)")
        for line in shown or ["none"]:
            self._say(line)
        if left > 0 and not latest:
            self._say(f"({left} more)")

    def _say(self, text: str) -> None:
        print(visible(text), file=self.stdout)


def _details(value: RecordedValue) -> str:
    statistics = value.statistics
    counts = f"  {value.num_bytes} bytes, SHA-256 {value.digest[:12]}"
    return counts if statistics is None else f"{counts}\n  {statistics}"


def _number(text: str, what: str, lowest: int = 0) -> int:
    if not text.strip().isdecimal() or int(text) < lowest:
        raise InvalidArgumentError(f"{text!r} is not {what}; write a number of at least {lowest}")
    return int(text)


def _count(text: str) -> int:
    """Return how often to repeat a command; once if no number is given."""
    return _number(text or "1", "a count", lowest=1)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise InvalidArgumentError(
            f"{text!r} is not a number of seconds; write one of at least 0, such as 2.5"
        )
    return seconds


def _check_no_argument(line: str) -> None:
    if line:
        raise InvalidArgumentError(f"this command takes no arguments, not {line!r}; leave it out")


def _one_argument(line: str, usage: str) -> str:
    words = shlex.split(line)
    if len(words) != 1:
        raise InvalidArgumentError(f"write {usage}")
    return words[0]


def _name_and_iteration(line: str) -> tuple[str, str | None]:
    words = shlex.split(line)
    if not 1 <= len(words) <= 2:
        raise InvalidArgumentError("write print NAME, or print NAME ITERATION")
    return words[0], words[1] if len(words) == 2 else None


def _shape(text: str) -> list[int | None]:
    sizes = [size.strip() for size in text.strip("[]").split(",") if size.strip()]
    return [None if size == "?" else _number(size, "a size") for size in sizes]
