"""`Scaffold`: the nodes that initialize a new session.

Semantics: `Scaffold` in tensorflow/python/training/monitored_session.py, and
tensorflow/python/training/session_manager.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.graph.dependencies import group
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.variable import variables_initializer
from graphmill.saved.checkpoint import latest_checkpoint
from graphmill.train.checkpoints.saver import Saver

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
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
        local_init_op: runs in every new session, after the variables are initialized; by default
            the initializers of the graph's local variables and tables, which imported graphs have
            in the collections `local_variables` and `table_initializer`.
        saver: saves and restores; by default one for all variables, if there are any.
        graph: the graph; by default the default graph.

    Attributes:
        graph: the graph that the sessions run.
        saver: the saver; None if the graph has no variables.

    Raises:
        InvalidArgumentError: `init_fn` is not a function.
    """

    def __init__(
        self,
        init_op: Node | None = None,
        init_feed_dict: Mapping[Any, Any] | None = None,
        init_fn: Callable[[Scaffold, Session], object] | None = None,
        local_init_op: Node | None = None,
        saver: Saver | None = None,
        *,
        graph: Graph | None = None,
    ) -> None:
        if init_fn is not None and not callable(init_fn):
            raise InvalidArgumentError(
                f"init_fn={init_fn!r} is not a function of a scaffold and a session; pass a node "
                "as init_op or local_init_op"
            )
        self.graph = infer_graph() if graph is None else graph
        self.saver = saver
        self._init_op = init_op
        self._init_feed_dict = init_feed_dict
        self._init_fn = init_fn
        self._local_init_op = local_init_op
        self._is_set: dict[str, Any] = {}
        self._is_finalized = False

    def finalize(self) -> None:
        """Add the nodes that the caller did not provide; a second call does nothing."""
        if self._is_finalized:
            return
        self._is_finalized = True
        variables = list(self.graph.variables)
        with self.graph.as_default(), self.graph.control_dependencies(None):
            if self.saver is None and variables:
                self.saver = Saver(graph=self.graph)
            if self._init_op is None:
                self._init_op = variables_initializer(variables)
            if self._local_init_op is None:
                self._local_init_op = self._default_local_init_op()
            self._is_set = {v.variable_name: v.is_initialized() for v in variables}

    def _default_local_init_op(self) -> Node | None:
        """Return a node that initializes local variables and tables; None if there are none."""
        inits = [variable.initializer for variable in self.graph.get_collection("local_variables")]
        inits += self.graph.get_collection("table_initializer")
        return group(*inits, name="local_init") if inits else None

    def initialize(self, session: Session, checkpoint_dir: Path | None) -> str | None:
        """Initialize or restore the variables of a session; return the restored checkpoint or None.

        Raises:
            FailedPreconditionError: some variables have no value afterwards; the error names them.
            OpError: the session raised it.
        """
        checkpoint = None if checkpoint_dir is None else latest_checkpoint(checkpoint_dir)
        if checkpoint is not None and self.saver is not None:
            self.saver.restore(session, checkpoint)
        else:
            checkpoint = None
            session.run(self._init_op, self._init_feed_dict)
            if self._init_fn is not None:
                self._init_fn(self, session)
        if self._local_init_op is not None:
            session.run(self._local_init_op)
        left = self.unset_variables(session)
        if left:
            raise FailedPreconditionError(
                f"variables without a value: {', '.join(left)}; "
                + (
                    f"the checkpoint {checkpoint} lacks them"
                    if checkpoint
                    else "neither init_op nor init_fn initializes them"
                )
            )
        return checkpoint

    def unset_variables(self, session: Session) -> list[str]:
        """Return the names of the variables that have no value in a session."""
        states = session.run(self._is_set) if self._is_set else {}
        return [name for name, is_set in states.items() if not is_set]

    def run_local_init(self, session: Session) -> None:
        """Run the local initialization of a session whose variables the chief initializes."""
        if self._local_init_op is not None:
            session.run(self._local_init_op)
