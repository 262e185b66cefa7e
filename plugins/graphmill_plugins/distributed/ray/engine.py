"""`Engine`: the interface to Ray that this plugin needs, also implemented by a test fake."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from graphmill.errors import FailedPreconditionError
from graphmill.spi import install_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class PendingCall(Protocol):
    """An actor call in flight."""

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the method's result.

        Raises:
            DeadlineExceededError: there is no result after `timeout` seconds.
            CancelledError: the call was cancelled.
            UnavailableError: the actor has ended, or is being restarted.
            OpError: raised by the method.
        """

    def cancel(self) -> None:
        """Cancel the call and the wait for it."""


@dataclass(frozen=True, slots=True)
class ActorOptions:
    """The options with which an actor is started.

    Attributes:
        name, namespace: its name.
        placement: its placement group; None for any node.
        bundle: its bundle of the placement group.
        resources: its Ray resources, as `{"CPU": 1}`.
        max_concurrency: the maximum number of concurrent methods.
        repeats_calls: whether calls are repeated after a restart; only for idempotent methods.
        is_detached: whether it outlives the process that starts it.
        runtime_env: Ray's description of the environment of its process.
    """

    name: str
    namespace: str
    placement: Any = None
    bundle: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    max_concurrency: int = 4
    repeats_calls: bool = False
    is_detached: bool = False
    runtime_env: Mapping[str, Any] | None = None


class Engine(ABC):
    """Starts, finds, calls and restarts actors.

    An instance is sent to the actors, which use it too.
    """

    @abstractmethod
    def connect(self, *, may_start: bool) -> bool:
        """Connect this process; return whether it was not connected before.

        Args:
            may_start: whether to start Ray on this machine if none is running.

        Raises:
            UnavailableError: none is running.
        """

    @abstractmethod
    def disconnect(self) -> None:
        """Undo `connect`."""

    @abstractmethod
    def place(
        self,
        name: str,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        timeout: float,
        *,
        is_detached: bool,
    ) -> Any:
        """Reserve resources for all tasks at once; return the placement group.

        Raises:
            ResourceExhaustedError: they are not free within `timeout` seconds.
        """

    @abstractmethod
    def remove_placement(self, name: str) -> None:
        """Release the resources of a placement group, if it exists."""

    @abstractmethod
    def start_actor(self, kind: type, args: Sequence[Any], options: ActorOptions) -> Any:
        """Start a restartable actor of a class; return its handle.

        Raises:
            AlreadyExistsError: the name is taken.
        """

    @abstractmethod
    def find_actor(self, name: str, namespace: str) -> Any:
        """Return the handle of an actor.

        Raises:
            NotFoundError: there is none of that name.
        """

    @abstractmethod
    def call(
        self, actor: Any, method: str, *args: Any, outlives_restarts: bool = False
    ) -> PendingCall:
        """Start a call of an actor's method.

        Args:
            actor: its handle.
            method: the name of the method.
            args: its arguments.
            outlives_restarts: whether to repeat it when the actor has restarted; only for
                idempotent methods.
        """

    @abstractmethod
    def kill(self, actor: Any, *, restarts: bool) -> None:
        """Kill the process of an actor, and optionally restart it."""

    @abstractmethod
    def node_host(self) -> str:
        """Return the address at which other nodes reach this actor's node."""


def ray_engine() -> Engine:
    """Return the engine that uses Ray.

    Raises:
        FailedPreconditionError: ray is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise FailedPreconditionError(
            f"clusters on Ray need the package ray: {install_command('ray')}"
        ) from error
    del ray
    from graphmill_plugins.distributed.ray.ray_engine import RayEngine

    return RayEngine()
