"""Hooks that show the speed of training: `StepCounterHook`, `ProgressBarHook`.

Semantics of the first: tensorflow/python/training/basic_session_run_hooks.py.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.train.hooks import SecondOrStepTimer, find_global_step
from graphmill.train.session_run_hook import SessionRunArgs, SessionRunHook

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from graphmill.session.session import Session
    from graphmill.summary import FileWriter
    from graphmill.train.session_run_hook import SessionRunContext, SessionRunValues

    Path = str | os.PathLike[str]

_logger = logging.getLogger(__name__)


class StepCounterHook(SessionRunHook):
    """Logs the number of steps per second, and writes it for TensorBoard.

    Args:
        every_n_steps, every_n_secs: the interval, in steps or in seconds; give one of them.
        output_dir: the folder of an event file, shared with other hooks; None to write none.
        summary_writer: a writer, which the caller closes, instead of `output_dir`.
        clock: returns the time in seconds.

    Raises:
        InvalidArgumentError: not exactly one interval is given, or `output_dir` and
            `summary_writer` are.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: Path | None = None,
        summary_writer: FileWriter | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if output_dir is not None and summary_writer is not None:
            raise InvalidArgumentError("pass output_dir or summary_writer, not both")
        self._timer = SecondOrStepTimer(every_n_secs, every_n_steps, clock)
        self._clock = clock
        self._folder, self._writer = output_dir, summary_writer
        self._last: tuple[int, float] | None = None
        self._last_seen: int | None = None
        self._has_warned = False

    def begin(self) -> None:
        """Find the global step, and open the writer."""
        self._global_step = find_global_step("StepCounterHook")
        self._tag = f"{self._global_step.variable_name}/sec"
        if self._folder is not None and self._writer is None:
            from graphmill.summary import FileWriterCache

            self._writer = FileWriterCache.get(self._folder)

    def after_create_session(self, session: Session) -> None:
        """Forget the steps of the previous session, which a new one may repeat."""
        del session
        self._last = self._last_seen = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the global step."""
        del run_context
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the rate if it is due; warn once if the global step does not increase."""
        before = int(run_values.results)
        if self._timer.is_due(before + 1):
            step = int(run_context.session.run(self._global_step))
            if self._timer.is_due(step):
                self._record(step)
        if before == self._last_seen and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "the global step is still %d: pass it to the optimizer's minimize", before
            )
        self._last_seen = before

    def end(self, session: Session) -> None:
        """Write what is buffered; the last hook of a folder closes its writer."""
        from graphmill.summary import FileWriterCache

        del session
        if self._folder is not None and self._writer is not None:
            FileWriterCache.release(self._writer)
            self._writer = None

    def _record(self, step: int) -> None:
        self._timer.done_at(step)
        now = self._clock()
        if self._last is not None and now > self._last[1]:
            rate = (step - self._last[0]) / (now - self._last[1])
            _logger.info("%s: %g", self._tag, rate)
            if self._writer is not None:
                self._writer.add_scalar(self._tag, rate, step)
        self._last = step, now


class ProgressBarHook(SessionRunHook):
    """Writes a line with the step, the rate, the time left, and values.

    On a terminal the line is rewritten in place; elsewhere each is a line of its own.

    Args:
        last_step: the global step at the end, by which the time left is known; or None.
        tensors: values to show, by name.
        every_secs: the interval in seconds; by default half a second on a terminal, else ten.
        stream: the stream, by default stderr.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        last_step: int | None = None,
        tensors: Mapping[str, Any] | None = None,
        every_secs: float | None = None,
        stream: IO[str] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if tensors is not None and not isinstance(tensors, Mapping):
            raise InvalidArgumentError(
                f"tensors must be a dict from names to tensors, got {type(tensors).__name__}"
            )
        self._stream = sys.stderr if stream is None else stream
        self._in_place = self._stream.isatty()
        default = 0.5 if self._in_place else 10.0
        self._timer = SecondOrStepTimer(default if every_secs is None else every_secs, None, clock)
        self._last_step, self._tensors, self._clock = last_step, dict(tensors or {}), clock
        self._start: tuple[int, float] | None = None
        self._width = 0

    def begin(self) -> None:
        """Find the global step."""
        self._global_step = find_global_step("ProgressBarHook")

    def after_create_session(self, session: Session) -> None:
        """Measure the rate from the start of the new session."""
        self._start = int(session.run(self._global_step)), self._clock()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the global step and the values."""
        del run_context
        return SessionRunArgs({"step": self._global_step, "values": self._tensors})

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the line if it is due."""
        if self._timer.is_due(int(run_values.results["step"]) + 1):
            self._write(run_context.session, run_values.results["values"])

    def end(self, session: Session) -> None:
        """Write the last line."""
        self._write(session, session.run(self._tensors) if self._tensors else {})
        if self._in_place:
            self._stream.write("\n")
            self._stream.flush()

    def _write(self, session: Session, values: Mapping[str, Any]) -> None:
        step = int(session.run(self._global_step))
        self._timer.done_at(step)
        line = self._line(step, values)
        if self._in_place:
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def _line(self, step: int, values: Mapping[str, Any]) -> str:
        assert self._start is not None
        steps, seconds = step - self._start[0], self._clock() - self._start[1]
        rate = steps / seconds if seconds > 0 else 0.0
        parts = [f"step {step}"]
        if self._last_step is not None:
            parts[0] += f"/{self._last_step}"
            parts.append(f"{100 * step / max(self._last_step, 1):.0f}%")
        parts.append(f"{rate:.1f} steps/s")
        if self._last_step is not None and rate:
            parts.append(f"{max(self._last_step - step, 0) / rate:.0f} s left")
        parts += [
            f"{name} = {value:.4g}" if _is_number(value) else f"{name} = {value}"
            for name, value in values.items()
        ]
        return "  ".join(parts)


def _is_number(value: Any) -> bool:
    return getattr(value, "ndim", None) == 0 and value.dtype.kind in "fiu"
