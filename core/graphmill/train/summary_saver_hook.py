"""`SummarySaverHook`: writes the summaries of a graph for TensorBoard.

Semantics: tensorflow/python/training/basic_session_run_hooks.py.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from graphmill.deprecations import warn_renamed
from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.train.hooks import SecondOrStepTimer, find_global_step
from graphmill.train.scaffold import Scaffold
from graphmill.train.session_run_hook import SessionRunArgs, SessionRunHook

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from graphmill.session.session import Session
    from graphmill.summary import FileWriter
    from graphmill.train.session_run_hook import SessionRunContext, SessionRunValues

    Path = str | os.PathLike[str]


class SummarySaverHook(SessionRunHook):
    """Writes summaries for TensorBoard periodically.

    Args:
        save_steps, save_secs: the interval, in steps or in seconds; give one of them.
        output_dir: the folder of the event file, shared with other hooks; or give `summary_writer`.
        summary_writer: the writer, which the caller closes.
        scaffold: its `summary_op` is written if `summary_op` is None. A tensor is taken as
            `summary_op`, with a warning for one version.
        summary_op: a serialized summary, or several; by default all summaries of the graph.
        clock: returns the time in seconds.

    Raises:
        InvalidArgumentError: not exactly one of `save_steps` and `save_secs`, or of `output_dir`
            and `summary_writer`, is given; or both `scaffold` and `summary_op` are.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: Path | None = None,
        summary_writer: FileWriter | None = None,
        scaffold: Scaffold | None = None,
        summary_op: Any = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(scaffold, Scaffold | None):
            warn_renamed("the fifth argument of SummarySaverHook, a tensor,", "summary_op")
            scaffold, summary_op = None, scaffold
        if scaffold is not None and summary_op is not None:
            raise InvalidArgumentError("pass either scaffold or summary_op")
        if (output_dir is None) == (summary_writer is None):
            raise InvalidArgumentError("pass exactly one of output_dir and summary_writer")
        self._timer = SecondOrStepTimer(save_secs, save_steps, clock)
        self._folder, self._writer = output_dir, summary_writer
        self._summaries = summary_op if scaffold is None else scaffold.summary_op
        self._next_step = 0

    def begin(self) -> None:
        """Find the global step and the summaries, and open the writer."""
        from graphmill.summary import FileWriterCache, merge_all

        self._global_step = find_global_step("SummarySaverHook")
        self._has_started = False
        if self._summaries is None:
            self._summaries = merge_all()
        if self._summaries is None:
            raise FailedPreconditionError(
                "SummarySaverHook has nothing to write: add nodes with graphmill.summary, or pass "
                "summary_op"
            )
        if self._writer is None:
            assert self._folder is not None
            self._writer = FileWriterCache.get(self._folder)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the global step, and the summaries if they are due."""
        del run_context
        self._is_due = self._timer.is_due(self._next_step)
        summaries = {"summaries": self._summaries} if self._is_due else {}
        return SessionRunArgs({"step": self._global_step, **summaries})

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the summaries, under the current value of the global step."""
        from graphmill.proto.event_pb2 import SessionLog

        assert self._writer is not None
        step = int(run_values.results["step"]) + 1
        if not self._has_started:
            self._writer.add_session_log(SessionLog(status=SessionLog.START), step)
            self._has_started = True
        if self._is_due:
            step = int(run_context.session.run(self._global_step))
            summaries = run_values.results["summaries"]
            for summary in summaries if isinstance(summaries, (list, tuple)) else [summaries]:
                self._writer.add_summary(summary, step)
            self._timer.done_at(step)
        self._next_step = step + 1

    def end(self, session: Session) -> None:
        """Write what is buffered; the last hook of a folder closes its writer."""
        from graphmill.summary import FileWriterCache

        del session
        assert self._writer is not None
        if self._folder is None:
            self._writer.flush()
        else:
            FileWriterCache.release(self._writer)
            self._writer = None
