"""`SessionRunHook`: callbacks around the steps of a `MonitoredSession`.

Semantics: tensorflow/python/training/session_run_hook.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphmill import proto

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.proto.config_pb2 import RunMetadata, RunOptions
    from graphmill.session.session import Session


@dataclass(frozen=True)
class SessionRunArgs:
    """Fetches and feeds that a hook adds to a step.

    Attributes:
        fetches: the hook's fetches, in any structure; None for nothing.
        feed_dict: additional feeds; feeding what the caller or another hook feeds is an error.
        options: `RunOptions` that are merged into the caller's.
    """

    fetches: Any = None
    feed_dict: Mapping[Any, Any] = field(default_factory=dict)
    options: RunOptions | None = None


@dataclass(frozen=True)
class SessionRunValues:
    """Results of a step.

    Attributes:
        results: the values of the hook's own fetches; None if it requested none.
        options: the `RunOptions` of the step.
        run_metadata: the `RunMetadata` of the step.
    """

    results: Any
    options: RunOptions
    run_metadata: RunMetadata


class SessionRunContext:
    """The step before and after which a hook is called.

    Attributes:
        session: the session that runs it.
        original_args: the caller's fetches, feeds and options.
        stop_requested: whether a hook has called `request_stop`.
    """

    def __init__(self, original_args: SessionRunArgs, session: Session) -> None:
        self.original_args = original_args
        self.session = session
        self.stop_requested = False

    def request_stop(self) -> None:
        """Make `MonitoredSession.should_stop` return True after this step."""
        self.stop_requested = True


class SessionRunHook:
    """Callbacks around the steps of a `MonitoredSession`; no-ops by default.

    Threads: called in the thread that calls the session.
    """

    def begin(self) -> None:
        """Change the graph; called once, before the first session is created."""

    def after_create_session(self, session: Session) -> None:
        """Handle a new session with initialized variables: the first, or one after a recovery.

        A hook may take the `Coordinator` of the session as a second argument, as in TensorFlow.
        """
        del session

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Return fetches and feeds to add to a step, or None."""
        del run_context
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Handle a successful step, with the values that `before_run` requested."""
        del run_context, run_values

    def end(self, session: Session) -> None:
        """Handle the end of training; not called when a step failed."""
        del session


def merged_options(base: RunOptions | None, added: RunOptions | None) -> RunOptions:
    """Merge the options of a step; take the higher trace level and the longer timeout."""
    merged: RunOptions = proto.RunOptions()
    if base is not None:
        merged.CopyFrom(base)
    if added is None:
        return merged
    level = max(merged.trace_level, added.trace_level)
    timeout = max(merged.timeout_in_ms, added.timeout_in_ms)
    merged.MergeFrom(added)
    merged.trace_level, merged.timeout_in_ms = level, timeout
    return merged
