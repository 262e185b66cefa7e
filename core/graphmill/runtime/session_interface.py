"""`SessionInterface`: the implementation of a `Session`, here or on a server (clause W0).

Semantics: `tensorflow/core/public/session.h` and `session_factory.h`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from graphmill.errors import (
    ClosedSessionError,
    UnimplementedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from graphmill import proto
    from graphmill.access.rules import AccessRules
    from graphmill.explain.session_stats import SessionStats
    from graphmill.explain.step import StepRecord
    from graphmill.graph.graph import Graph
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import CallableOptions, ConfigProto, RunMetadata, RunOptions
    from graphmill.runtime.devices.device import DeviceAttributes
    from graphmill.runtime.stepping import StepDriver
    from graphmill.runtime.steps.waits import WaitRecord
    from graphmill.session.debugging.debug_step import DebugStep
    from graphmill.session.executors_cache import Signature
    from graphmill.typing import Value


class SessionInterface(ABC):
    """Runs the signatures of one session; `Session` translates users' calls into its methods.

    Tensors are named `node:output`, targets by their nodes. Fed values are passed as the user gave
    them; fetched values are NumPy arrays and scalars.

    Threads: all methods may be called from any number of threads.

    Attributes:
        host: where ops, kernels, devices and executors come from.
        config: the session's `ConfigProto`.
        is_closed: whether `close` was called.
        graph_object: returns the graph object of the `Session` that uses this, which it creates if
            there is none; None if the `Session` is gone.
    """

    host: Host
    config: ConfigProto
    is_closed: bool
    graph_object: Callable[[], Graph | None] | None = None

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """The session's full graph; do not change it."""

    @abstractmethod
    def extend(
        self,
        graph_def: proto.GraphDef,
        large_tensors: Mapping[tuple[str, str, str], Any] | None = None,
    ) -> None:
        """Add the nodes of a GraphDef (clause S3); on an error the session is unchanged.

        Args:
            graph_def: new nodes and functions.
            large_tensors: attr values that are too large for a message, by node (or function and
                node) and attr.

        Raises:
            OpError: the graph is malformed, or a name is taken.
        """

    @abstractmethod
    def follow(self, source: Graph, num_taken: int = 0) -> None:
        """Add the nodes of a graph object, now and whenever it has grown.

        Args:
            source: the graph object.
            num_taken: the number of its node ids that the session has already.
        """

    @abstractmethod
    def sync_graph(self) -> None:
        """Add the nodes that the followed graph object has gained; called before each run.

        Raises:
            FailedPreconditionError: a node that was there before has been changed since.
        """

    @abstractmethod
    def run(
        self,
        signature: Signature,
        values: Sequence[Any],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
    ) -> list[Value]:
        """Run one step; return the values of its fetches in the order of the signature.

        Args:
            signature: names of feeds, fetches and targets; a fetch may occur more than once.
            values: the values of the feeds.
            options: the `RunOptions` of the step.
            run_metadata: filled with the metadata of the step, if given.

        Raises:
            OpError: the first error of the step.
        """

    @abstractmethod
    def make_callable(
        self,
        signature: Signature,
        rebuild: Callable[[list[Value]], Any],
        options: RunOptions | None,
        callable_options: CallableOptions | None = None,
    ) -> Callable[..., Any]:
        """Return a function of the fed values, with `run_metadata` as keyword (clause S7).

        Args:
            signature: the signature that it runs.
            rebuild: builds the function's result from the values of the fetches.
            options: the `RunOptions` of each call.
            callable_options: further options: tensor connections, devices.

        Raises:
            OpError: the signature cannot be run.
        """

    @abstractmethod
    def partial_run_setup(self, signature: Signature, options: RunOptions | None) -> str:
        """Begin a run that is fed and fetched piece by piece; return its handle (clause S8)."""

    @abstractmethod
    def partial_run(
        self,
        handle: str,
        fetches: Sequence[str],
        feeds: Mapping[str, Any],
        run_metadata: RunMetadata | None,
    ) -> list[Value]:
        """Run one piece of a partial run.

        Raises:
            InvalidArgumentError: the handle, a feed or a fetch does not fit.
            OpError: the first error of a node, which ends the partial run.
        """

    @abstractmethod
    def partial_run_release(self, handle: str) -> None:
        """End a partial run that will not be finished.

        Raises:
            InvalidArgumentError: the handle is unknown or finished.
        """

    @abstractmethod
    def list_devices(self) -> list[DeviceAttributes]:
        """Return name, type, memory limit and incarnation of each device."""

    @abstractmethod
    def reset(self, containers: Iterable[str]) -> None:
        """Clear resource containers (clause S10)."""

    @abstractmethod
    def close(self) -> None:
        """Cancel running steps and free everything; a second call does nothing."""

    def explain(self, signature: Signature, *, build: bool) -> StepRecord:
        """Return for each node of a signature its device, kernel and tier, with reasons.

        Raises:
            UnimplementedError: the session is on a server, which does not report it.
        """
        del signature, build
        raise self._unexplained()

    def step_graph(self, signature: Signature) -> Graph:
        """Return the nodes that a signature needs, with calls of functions inlined.

        Raises:
            UnimplementedError: the session is on a server, which does not report it.
        """
        del signature
        raise self._unexplained()

    def debug_step(
        self,
        signature: Signature,
        values: Mapping[str, Any],
        driver: StepDriver,
        *,
        is_partial: bool = False,
    ) -> DebugStep:
        """Return a step that has not started, which `driver` drives node by node.

        Args:
            signature: the feeds, fetches and targets.
            values: the values of the feeds by name; in a partial run, none.
            driver: drives the step.
            is_partial: whether the step is fed and fetched piece by piece.

        Raises:
            UnimplementedError: the session is on a server.
            OpError: as for `run`, before the step starts.
        """
        del signature, values, driver, is_partial
        raise UnimplementedError(
            f"{type(self).__name__} cannot be debugged: its steps run on a server. Debug the graph "
            "in a session of this process (target '')"
        )

    def explain_all(self) -> list[StepRecord]:
        """Return the records of all signatures that have executors.

        Raises:
            UnimplementedError: the session is on a server, which does not report it.
        """
        raise self._unexplained()

    def stats(self) -> SessionStats:
        """Return counts of the session's work: steps, calls of tiers, compilations.

        Raises:
            UnimplementedError: the session is on a server.
        """
        raise self._unexplained()

    def waits(self) -> list[WaitRecord]:
        """Return what the steps of the session wait for now; nothing if they run on a server."""
        return []

    def allowing(self, rules: AccessRules) -> AbstractContextManager[None]:
        """Add rules in a `with` block.

        Raises:
            UnimplementedError: the session is on a server, which has its own policy.
        """
        del rules
        raise UnimplementedError(
            f"{type(self).__name__} cannot allow effects that its server refuses; start "
            "the server with the rules"
        )

    def loading_a_model(self) -> AbstractContextManager[None]:
        """Permit reading the files of a model in a `with` block, even if effects are forbidden.

        Raises:
            UnimplementedError: the session is on a server, which has its own policy.
        """
        raise UnimplementedError(
            f"{type(self).__name__} cannot allow effects that its server forbids; allow them there"
        )

    def check_open(self) -> None:
        """Raise ClosedSessionError if the session is closed."""
        if self.is_closed:
            raise ClosedSessionError("Session has been closed.")

    def _unexplained(self) -> UnimplementedError:
        return UnimplementedError(
            f"{type(self).__name__} cannot explain its steps: they run on a server. Explain the "
            "graph in a session of this process (target '')"
        )


class SessionFactory(ABC):
    """Creates the sessions for one kind of target; registered under the scheme of its targets.

    A factory for `grpc://HOST:PORT` is registered as `grpc`.
    """

    @abstractmethod
    def new_session(self, target: str, config: ConfigProto, host: Host) -> SessionInterface:
        """Return a new session.

        Args:
            target: the whole target, including its scheme.
            config: the session's configuration.
            host: where ops and kernels come from.

        Raises:
            InvalidArgumentError: the target is malformed.
            OpError: the session cannot be made.
        """

    @abstractmethod
    def reset(
        self, target: str, containers: Sequence[str], config: ConfigProto, host: Host
    ) -> None:
        """Clear resource containers behind a target and close its sessions (clause S10).

        Raises:
            OpError: the target cannot be reached, or refuses.
        """


def scheme_of(target: str) -> str:
    """Return the part of a target before `://`, or the whole target without it."""
    return target.partition("://")[0]
