"""Hooks for `MonitoredSession`: stop, save checkpoints, log, check for NaN.

Semantics: tensorflow/python/training/basic_session_run_hooks.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.graph.infer_graph import infer_graph
from graphmill.train.global_step import get_global_step
from graphmill.train.meta_graph import write_graph
from graphmill.train.session_run_hook import SessionRunArgs, SessionRunHook

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from graphmill.graph.variable import Variable
    from graphmill.session.session import Session
    from graphmill.train.checkpoint_listener import CheckpointSaverListener
    from graphmill.train.checkpoints.saver import Saver
    from graphmill.train.scaffold import Scaffold
    from graphmill.train.session_run_hook import SessionRunContext, SessionRunValues

    Path = str | os.PathLike[str]

_logger = logging.getLogger(__name__)


class SecondOrStepTimer:
    """Decides when an action is due: every N seconds or every N steps.

    Args:
        every_secs: the number of seconds between two actions.
        every_steps: the number of steps between two actions.
        clock: returns the time in seconds.

    Raises:
        InvalidArgumentError: not exactly one of `every_secs` and `every_steps` is given.
    """

    def __init__(
        self,
        every_secs: float | None = None,
        every_steps: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if (every_secs is None) == (every_steps is None):
            raise InvalidArgumentError(
                f"pass exactly one interval, got {every_secs} seconds and {every_steps} steps"
            )
        self._every_secs, self._every_steps, self._clock = every_secs, every_steps, clock
        self.reset()

    def reset(self) -> None:
        """Make the next step due."""
        self._last_step: int | None = None
        self._last_time = 0.0

    def is_due(self, step: int) -> bool:
        """Return whether the action is due at a step; at most once per step."""
        if self._last_step is None:
            return True
        if step == self._last_step:
            return False
        if self._every_steps is not None:
            return step >= self._last_step + self._every_steps
        assert self._every_secs is not None
        return self._clock() >= self._last_time + self._every_secs

    def done_at(self, step: int) -> None:
        """Record that the action was done at a step."""
        self._last_step, self._last_time = step, self._clock()


class StopAtStepHook(SessionRunHook):
    """Stops after N steps, or at a given global step.

    Args:
        num_steps: the number of steps to run after the first session's global step.
        last_step: the global step after which training stops.

    Raises:
        InvalidArgumentError: not exactly one of `num_steps` and `last_step` is given.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if (num_steps is None) == (last_step is None):
            raise InvalidArgumentError("pass exactly one of num_steps and last_step")
        self._num_steps, self._last_step = num_steps, last_step

    def begin(self) -> None:
        """Find the global step."""
        self._global_step = find_global_step("StopAtStepHook")

    def after_create_session(self, session: Session) -> None:
        """Count from the global step of the first session."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(session.run(self._global_step)) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the global step."""
        del run_context
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Request a stop after the last step.

        The fetched value may be the one before the step's own increment, so the variable is read
        again if the fetched value is one less than the last step.
        """
        assert self._last_step is not None
        step = int(run_values.results) + 1
        if step >= self._last_step:
            step = int(run_context.session.run(self._global_step))
            if step >= self._last_step:
                run_context.request_stop()


class CheckpointSaverHook(SessionRunHook):
    """Saves the variables: at the first step, periodically, and at the end.

    The graph and each checkpoint also become events, for TensorBoard.

    Args:
        checkpoint_dir: the folder of the checkpoints.
        save_secs, save_steps: the interval, in seconds or in steps; give one of them.
        saver: the saver; by default that of the scaffold.
        checkpoint_basename: the prefix of the file names.
        scaffold: its saver is used if `saver` is None.
        listeners: called around each checkpoint; each may stop training.
        save_graph_def: whether to write the graph, as `graph.pbtxt` and in `.meta` files.
        clock: returns the time in seconds.

    Raises:
        InvalidArgumentError: not exactly one of `save_secs` and `save_steps` is given.
    """

    def __init__(
        self,
        checkpoint_dir: Path,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Saver | None = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Scaffold | None = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timer = SecondOrStepTimer(save_secs, save_steps, clock)
        self._saver, self._scaffold = saver, scaffold
        self._listeners, self._saves_graph = tuple(listeners or ()), save_graph_def
        self._folder = checkpoint_dir
        self._path = f"{checkpoint_dir}/{checkpoint_basename}"

    def begin(self) -> None:
        """Find the global step, and open an event file."""
        from graphmill.summary import FileWriterCache

        self._global_step = find_global_step("CheckpointSaverHook")
        self._graph = infer_graph()
        self._writer = FileWriterCache.get(self._folder)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Session) -> None:
        """Save the initial state of a new session for recovery."""
        if self._saves_graph:
            write_graph(self._graph, self._folder, "graph.pbtxt")
        self._writer.add_graph(self._graph)
        self._writer.add_meta_graph(self._the_saver().export_meta_graph())
        self._save(session, int(session.run(self._global_step)))

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the global step."""
        del run_context
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save if it is due, under the current value of the global step."""
        if self._timer.is_due(int(run_values.results) + 1):
            step = int(run_context.session.run(self._global_step))
            if self._timer.is_due(step) and self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: Session) -> None:
        """Save the final state, unless it is saved already."""
        from graphmill.summary import FileWriterCache

        step = int(session.run(self._global_step))
        if step != self._last_saved:
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)
        FileWriterCache.release(self._writer)

    def _save(self, session: Session, step: int) -> bool:
        """Save; return whether a listener wants to stop."""
        from graphmill.proto.event_pb2 import SessionLog

        saver = self._the_saver()
        for listener in self._listeners:
            listener.before_save(session, step)
        saver.save(session, self._path, step, write_meta_graph=self._saves_graph)
        log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._path)
        self._writer.add_session_log(log, step)
        self._timer.done_at(step)
        self._last_saved = step
        requests = [listener.after_save(session, step) for listener in self._listeners]
        return any(requests)

    def _the_saver(self) -> Saver:
        saver = self._saver or (self._scaffold.saver if self._scaffold is not None else None)
        if saver is None:
            raise FailedPreconditionError(
                "CheckpointSaverHook has no saver; pass one, or a Scaffold with variables"
            )
        return saver


class LoggingTensorHook(SessionRunHook):
    """Logs tensor values periodically, at the end, or both.

    Args:
        tensors: tensors or their names: a list, or a mapping from the names in the log.
        every_n_iter: the interval in calls of `run`.
        every_n_secs: the interval in seconds. Give one interval, or only `at_end`.
        at_end: whether to log the values at the end.
        formatter: returns the log line for the values by name.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        tensors: Mapping[str, Any] | Sequence[Any],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        is_named = isinstance(tensors, Mapping)
        self._tensors = dict(tensors) if is_named else {getattr(t, "name", t): t for t in tensors}
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        self._timer = None if only_at_end else SecondOrStepTimer(every_n_secs, every_n_iter, clock)
        self._at_end = at_end
        self._formatter = formatter or _as_line
        self._iteration = 0

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Request the values if logging is due."""
        del run_context
        is_due = self._timer is not None and self._timer.is_due(self._iteration)
        return SessionRunArgs(self._tensors) if is_due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the requested values."""
        del run_context
        if run_values.results is not None and self._timer is not None:
            self._timer.done_at(self._iteration)
            _logger.info("%s", self._formatter(run_values.results))
        self._iteration += 1

    def end(self, session: Session) -> None:
        """Log the values at the end, if enabled."""
        if self._at_end:
            _logger.info("%s", self._formatter(session.run(self._tensors)))


class NanTensorHook(SessionRunHook):
    """Stops training when a loss is NaN.

    Args:
        loss_tensor: the loss.
        fail_on_nan_loss: whether to raise an error; otherwise training stops without one.
    """

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss_tensor, self._fails = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the loss."""
        del run_context
        return SessionRunArgs(self._loss_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Check the loss for NaN.

        Raises:
            NanLossDuringTrainingError: the loss is NaN, and `fail_on_nan_loss` is true.
        """
        if not np.isnan(run_values.results).any():
            return
        if self._fails:
            name = getattr(self._loss_tensor, "name", self._loss_tensor)
            raise NanLossDuringTrainingError(f"NaN loss during training: {name}")
        _logger.warning("the loss is NaN: training stops")
        run_context.request_stop()


class NanLossDuringTrainingError(RuntimeError):
    """A loss is NaN."""


def find_global_step(asker: str) -> Variable:
    """Return the global step of the default graph.

    Raises:
        FailedPreconditionError: there is none; `asker` needs it.
    """
    global_step = get_global_step(infer_graph())
    if global_step is None:
        raise FailedPreconditionError(
            f"{asker} needs a global step; call graphmill.train.get_or_create_global_step() and "
            "pass it to the optimizer's minimize"
        )
    return global_step


def _as_line(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
