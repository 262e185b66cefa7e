"""`MonitoredTrainingSession`: a `MonitoredSession` with the hooks of a chief or a worker.

Semantics: tensorflow/python/training/monitored_session.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.train.hooks import CheckpointSaverHook
from graphmill.train.monitored_session import MonitoredSession
from graphmill.train.session_creator import ChiefSessionCreator, WorkerSessionCreator
from graphmill.train.summary_saver_hook import SummarySaverHook

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from graphmill.plugin.host import Host
    from graphmill.train.scaffold import Scaffold
    from graphmill.train.session_creator import SessionCreator
    from graphmill.train.session_run_hook import SessionRunHook

    Path = str | os.PathLike[str]

_CHECKPOINT_SECS: Final = 600
"""The interval of checkpoints if none is given, in seconds."""
_SUMMARY_STEPS: Final = 100
"""The interval of summaries if none is given, in steps."""


def MonitoredTrainingSession(  # noqa: N802 - TensorFlow's name
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Path | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: float | None = None,
    save_summaries_steps: int | None = None,
    save_summaries_secs: float | None = None,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: int | None = None,
    summary_dir: Path | None = None,
    save_graph_def: bool = True,
    *,
    max_recovery_secs: float | None = None,
    recovery_wait_secs: float = 1.0,
    host: Host | None = None,
) -> MonitoredSession:
    """Return a `MonitoredSession` for the chief, which saves checkpoints, or for a worker.

        w = graphmill.Variable(3.0)
        global_step = graphmill.train.get_or_create_global_step()
        train_step = graphmill.train.AdamOptimizer(0.1).minimize(w * w, global_step)
        hooks = [graphmill.train.StopAtStepHook(last_step=5)]
        with graphmill.train.MonitoredTrainingSession(checkpoint_dir="run", hooks=hooks) as session:
            while not session.should_stop():
                session.run(train_step)
        print(graphmill.train.latest_checkpoint("run"))  # run/model.ckpt-5

    Args:
        master: the target of the sessions; empty for this process.
        is_chief: whether this process initializes and saves the variables.
        checkpoint_dir: the folder of the checkpoints.
        scaffold: the graph and its initialization.
        hooks, chief_only_hooks: called around each step.
        save_checkpoint_secs, save_checkpoint_steps: the interval at which the chief saves, in
            seconds or in steps; give at most one. The default is 600 seconds.
        save_summaries_steps, save_summaries_secs: the interval at which the chief writes the
            summaries of the graph, if it has any; give at most one. The default is 100 steps.
        config: the `ConfigProto` of the sessions.
        stop_grace_period_secs: as in `MonitoredSession`.
        log_step_count_steps: the interval at which the chief logs the steps per second; None or 0
            for never.
        max_wait_secs: how many seconds a worker waits for the chief.
        summary_dir: the folder of summaries and step counts, by default `checkpoint_dir`; if both
            are None there are neither.
        save_graph_def: whether the checkpoints come with the graph.
        max_recovery_secs, recovery_wait_secs: as in `MonitoredSession`.
        host: supplies kernels and devices; by default the default host.

    Raises:
        InvalidArgumentError: both intervals are given.
        OpError: the first session cannot be created.
    """
    every_hook = list(hooks or ())
    creator: SessionCreator
    if is_chief:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, host=host)
        every_hook += chief_only_hooks or ()
        folder = checkpoint_dir if summary_dir is None else summary_dir
        if folder is not None:
            intervals = save_summaries_steps, save_summaries_secs
            every_hook += _summary_hooks(creator, folder, intervals, log_step_count_steps)
        if checkpoint_dir is not None:
            if save_checkpoint_secs is None and save_checkpoint_steps is None:
                save_checkpoint_secs = _CHECKPOINT_SECS
            every_hook.append(
                CheckpointSaverHook(
                    checkpoint_dir,
                    save_checkpoint_secs,
                    save_checkpoint_steps,
                    scaffold=creator.scaffold,
                    save_graph_def=save_graph_def,
                )
            )
    else:
        creator = WorkerSessionCreator(
            scaffold, master, config, max_wait_secs, recovery_wait_secs, host=host
        )
    return MonitoredSession(
        creator,
        every_hook,
        max_recovery_secs=max_recovery_secs,
        recovery_wait_secs=recovery_wait_secs,
        stop_grace_period_secs=stop_grace_period_secs,
    )


def _summary_hooks(
    creator: SessionCreator,
    folder: Path,
    intervals: tuple[int | None, float | None],
    log_step_count_steps: int | None,
) -> list[SessionRunHook]:
    """Return the chief's hooks that count steps and write the summaries of the graph."""
    from graphmill.train.progress_hooks import StepCounterHook

    hooks: list[SessionRunHook] = []
    if log_step_count_steps:
        hooks.append(StepCounterHook(log_step_count_steps, output_dir=folder))
    if creator.scaffold.summary_op is not None or creator.scaffold.graph.summaries:
        steps, secs = (_SUMMARY_STEPS, None) if intervals == (None, None) else intervals
        hooks.append(SummarySaverHook(steps, secs, output_dir=folder, scaffold=creator.scaffold))
    return hooks
