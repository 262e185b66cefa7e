"""`Scaffold`: the nodes that initialize a new session.

Semantics: `Scaffold` in tensorflow/python/training/monitored_session.py, and
tensorflow/python/training/session_manager.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import files
from graphmill.deprecations import warn_renamed
from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.graph.dependencies import group
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.node import Node
from graphmill.graph.variable import variables_initializer
from graphmill.saved.checkpoint import latest_checkpoint
from graphmill.train.checkpoints.saver import Saver

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from graphmill.graph.builder import Graph
    from graphmill.session.session import Session

    Path = str | os.PathLike[str]


class Scaffold:
    """The nodes that initialize a session of a training program.

    Args:
        init_op: initializes the variables if there is no checkpoint; by default runs all
            initializers.
        init_feed_dict: the feeds of `init_op`.
        init_fn: called with the scaffold and the session after `init_op`, if there is no
            checkpoint; it may restore variables from elsewhere.
        ready_op: returns the names of what has no value yet after the initialization, as a vector
            of strings; by default all variables are checked. An operation without outputs is taken
            as `local_init_op`, and a saver after it as `saver`, with a warning for one version.
        ready_for_local_init_op: the same, before `local_init_op` runs. A worker waits until it
            returns nothing.
        local_init_op: runs in every new session, after the variables are initialized; by default
            the initializers of the graph's local variables and tables, which imported graphs have
            in the collections `local_variables` and `table_initializer`.
        summary_op: the summaries that a `SummarySaverHook` writes; by default all of the graph.
        saver: saves and restores; by default one for all variables, if there are any.
        copy_from_scaffold: has the values of arguments that are None.
        local_init_feed_dict: the feeds of `local_init_op`.
        graph: the graph; by default that of `copy_from_scaffold`, else the default graph.

    Attributes:
        graph: the graph that the sessions run.
        saver: the saver; None if the graph has no variables.
        init_op, init_feed_dict, init_fn, ready_op, ready_for_local_init_op, local_init_op,
            summary_op, local_init_feed_dict: the arguments; `finalize` sets the two `init_op`s that
            are None.

    Raises:
        InvalidArgumentError: `init_fn` is not a function, or `copy_from_scaffold` no scaffold.
    """

    def __init__(
        self,
        init_op: Node | None = None,
        init_feed_dict: Mapping[Any, Any] | None = None,
        init_fn: Callable[[Scaffold, Session], object] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Node | None = None,
        summary_op: Any = None,
        saver: Saver | None = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Mapping[Any, Any] | None = None,
        *,
        graph: Graph | None = None,
    ) -> None:
        if isinstance(ready_op, Node):
            warn_renamed("the fourth argument of Scaffold, an operation,", "local_init_op")
            ready_op, local_init_op = None, ready_op
        if isinstance(ready_for_local_init_op, Saver):
            warn_renamed("the fifth argument of Scaffold, a saver,", "saver")
            ready_for_local_init_op, saver = None, ready_for_local_init_op
        if init_fn is not None and not callable(init_fn):
            raise InvalidArgumentError(
                f"init_fn={init_fn!r} is not a function of a scaffold and a session; pass a node "
                "as init_op or local_init_op"
            )
        if not isinstance(copy_from_scaffold, Scaffold | None):
            raise InvalidArgumentError(
                f"copy_from_scaffold is a {type(copy_from_scaffold).__name__}, expected a Scaffold"
            )
        source = copy_from_scaffold
        if graph is None:
            graph = infer_graph() if source is None else source.graph
        self.graph: Graph = graph
        self.init_op = _coalesced(init_op, source, "init_op")
        self.init_feed_dict = _coalesced(init_feed_dict, source, "init_feed_dict")
        self.init_fn = _coalesced(init_fn, source, "init_fn")
        self.ready_op = _coalesced(ready_op, source, "ready_op")
        self.ready_for_local_init_op = _coalesced(
            ready_for_local_init_op, source, "ready_for_local_init_op"
        )
        self.local_init_op = _coalesced(local_init_op, source, "local_init_op")
        self.summary_op = _coalesced(summary_op, source, "summary_op")
        self.saver: Saver | None = _coalesced(saver, source, "saver")
        self.local_init_feed_dict = _coalesced(local_init_feed_dict, source, "local_init_feed_dict")
        self._is_set: dict[str, Any] = {}
        self._is_finalized = False

    def finalize(self) -> Scaffold:
        """Add the nodes that the caller did not provide; return the scaffold.

        A second call does nothing.
        """
        if self._is_finalized:
            return self
        self._is_finalized = True
        variables = list(self.graph.variables)
        with self.graph.as_default(), self.graph.control_dependencies(None):
            if self.saver is None and variables:
                self.saver = Saver(graph=self.graph)
            if self.saver is not None:
                self.saver.build()
            if self.init_op is None:
                self.init_op = variables_initializer(variables)
            if self.local_init_op is None:
                self.local_init_op = self._default_local_init_op()
            self._is_set = {v.variable_name: v.is_initialized() for v in variables}
        return self

    def _default_local_init_op(self) -> Node | None:
        """Return a node that initializes local variables and tables; None if there are none."""
        inits = [variable.initializer for variable in self.graph.get_collection("local_variables")]
        inits += self.graph.get_collection("table_initializer")
        return group(*inits, name="local_init") if inits else None

    def initialize(
        self,
        session: Session,
        checkpoint_dir: Path | None,
        checkpoint_filename_with_path: Path | None = None,
    ) -> str | None:
        """Initialize or restore the variables of a session; return the restored checkpoint or None.

        Args:
            session: the session.
            checkpoint_dir: the folder whose latest checkpoint is restored, if there is one.
            checkpoint_filename_with_path: the prefix of the checkpoint to restore instead.

        Raises:
            FailedPreconditionError: something has no value afterwards; the error names it.
            OpError: the session raised it.
        """
        checkpoint = None
        if checkpoint_filename_with_path is not None:
            checkpoint = files.as_path(checkpoint_filename_with_path)
        elif checkpoint_dir is not None:
            checkpoint = latest_checkpoint(checkpoint_dir)
        if checkpoint is not None and self.saver is not None:
            self.saver.restore(session, checkpoint)
        else:
            checkpoint = None
            session.run(self.init_op, self.init_feed_dict)
            if self.init_fn is not None:
                self.init_fn(self, session)
        if self.ready_for_local_init_op is not None:
            _check_ready(self.unset_before_local_init(session), checkpoint)
        self.run_local_init(session)
        _check_ready(self.unset_variables(session), checkpoint)
        return checkpoint

    def unset_variables(self, session: Session) -> list[str]:
        """Return the names of what has no value in a session: variables, or those of `ready_op`."""
        if self.ready_op is not None:
            return _reported(session, self.ready_op)
        return self._unset(session)

    def unset_before_local_init(self, session: Session) -> list[str]:
        """Return the names of what the local initialization needs and has no value yet."""
        if self.ready_for_local_init_op is not None:
            return _reported(session, self.ready_for_local_init_op)
        return self._unset(session)

    def run_local_init(self, session: Session) -> None:
        """Run the local initialization of a session whose variables are initialized."""
        if self.local_init_op is not None:
            session.run(self.local_init_op, self.local_init_feed_dict)

    def _unset(self, session: Session) -> list[str]:
        states = session.run(self._is_set) if self._is_set else {}
        return [name for name, is_set in states.items() if not is_set]


def _coalesced(value: Any, source: Scaffold | None, name: str) -> Any:
    """Return a value, or the attribute of another scaffold if it is None."""
    return getattr(source, name) if value is None and source is not None else value


def _reported(session: Session, op: Any) -> list[str]:
    """Return the names that a step reports; a node without outputs reports none."""
    names = session.run(op)
    return [] if names is None else [name.decode() for name in names.reshape(-1).tolist()]


def _check_ready(left: list[str], checkpoint: str | None) -> None:
    if left:
        raise FailedPreconditionError(
            f"variables without a value: {', '.join(left)}; "
            + (
                f"the checkpoint {checkpoint} lacks them"
                if checkpoint
                else "neither init_op nor init_fn initializes them"
            )
        )
