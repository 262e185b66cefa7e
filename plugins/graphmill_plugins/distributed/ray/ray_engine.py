"""`RayEngine`: the `Engine` that uses Ray."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import (
    ActorAlreadyExistsError,
    GetTimeoutError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskCancelledError,
)
from ray.util.placement_group import (
    get_placement_group,
    placement_group,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from graphmill.errors import (
    AlreadyExistsError,
    CancelledError,
    DeadlineExceededError,
    InternalError,
    NotFoundError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from graphmill_plugins.distributed.ray.engine import ActorOptions, Engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_BUILT_IN = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


class RayEngine(Engine):
    """Implements `Engine` with Ray."""

    def connect(self, *, may_start: bool) -> bool:
        """Connect to the running Ray cluster, or start one on this machine."""
        if ray.is_initialized():
            return False
        try:
            ray.init(**({} if may_start else {"address": "auto"}))
        except ConnectionError as error:
            raise UnavailableError(f"this process cannot join a Ray cluster: {error}") from error
        return True

    def disconnect(self) -> None:
        """Leave the Ray cluster; one that `connect` started ends."""
        ray.shutdown()

    def place(
        self,
        name: str,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        timeout: float,
        *,
        is_detached: bool,
    ) -> Any:
        """Reserve resources; see `Engine.place`."""
        group = placement_group(
            [dict(bundle) for bundle in bundles],
            strategy=strategy,
            name=name,
            lifetime="detached" if is_detached else None,
        )
        if group.wait(timeout):
            return group
        remove_placement_group(group)
        free = {key: ray.available_resources().get(key, 0) for key in sorted(set().union(*bundles))}
        raise ResourceExhaustedError(
            f"Ray has not reserved the resources of {len(bundles)} tasks within {timeout:g} s: "
            f"{strategy} {[dict(bundle) for bundle in bundles]}; free are {free}. Request less, "
            "add nodes, or wait longer"
        )

    def remove_placement(self, name: str) -> None:
        """Release resources; see `Engine.remove_placement`."""
        try:
            group = get_placement_group(name)
        except ValueError:  # how Ray says that it knows no such group
            return
        remove_placement_group(group)

    def start_actor(self, kind: type, args: Sequence[Any], options: ActorOptions) -> Any:
        """Start an actor; see `Engine.start_actor`."""
        actor_options: dict[str, Any] = {
            "name": options.name,
            "namespace": options.namespace,
            "max_restarts": -1,
            "max_task_retries": -1 if options.repeats_calls else 0,
            "max_concurrency": options.max_concurrency,
            "num_cpus": 0,
            "lifetime": "detached" if options.is_detached else None,
        }
        own = {key: n for key, n in options.resources.items() if key not in _BUILT_IN}
        actor_options |= {
            _BUILT_IN[key]: n for key, n in options.resources.items() if key in _BUILT_IN
        }
        if own:
            actor_options["resources"] = own
        if options.runtime_env is not None:
            actor_options["runtime_env"] = dict(options.runtime_env)
        if options.placement is not None:
            actor_options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                options.placement, placement_group_bundle_index=options.bundle
            )
        try:
            return ray.remote(kind).options(**actor_options).remote(*args)
        except ActorAlreadyExistsError as error:
            raise AlreadyExistsError(
                f"an actor {options.name!r} of {options.namespace!r} already exists"
            ) from error

    def find_actor(self, name: str, namespace: str) -> Any:
        """Return an actor; see `Engine.find_actor`."""
        try:
            return ray.get_actor(name, namespace=namespace)
        except ValueError as error:  # how Ray says that it knows no such actor
            raise NotFoundError(f"Ray has no actor {name!r} of {namespace!r}") from error

    def call(self, actor: Any, method: str, *args: Any, outlives_restarts: bool = False) -> RayCall:
        """Start a call; see `Engine.call`."""
        remote_method = getattr(actor, method)
        if outlives_restarts:
            remote_method = remote_method.options(max_task_retries=-1)
        return RayCall(remote_method.remote(*args), method)

    def kill(self, actor: Any, *, restarts: bool) -> None:
        """Kill an actor's process; see `Engine.kill`."""
        ray.kill(actor, no_restart=not restarts)

    def node_host(self) -> str:
        """Return the address at which Ray reaches the node."""
        own = ray.get_runtime_context().get_node_id()
        return next(
            str(node["NodeManagerAddress"]) for node in ray.nodes() if node["NodeID"] == own
        )


class RayCall:
    """An actor call in flight; see `PendingCall`.

    Args:
        reference: Ray's reference to the result.
        method: the method, for messages.
    """

    def __init__(self, reference: Any, method: str) -> None:
        self._reference = reference
        self._method = method

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the method's result; see `PendingCall.result`."""
        with _typed_errors(self._method):
            return ray.get(self._reference, timeout=timeout)

    def cancel(self) -> None:
        """Cancel the call."""
        ray.cancel(self._reference)


@contextmanager
def _typed_errors(method: str) -> Iterator[None]:
    try:
        yield
    except GetTimeoutError as error:
        raise DeadlineExceededError(f"the actor has not answered {method!r} in time") from error
    except TaskCancelledError as error:
        raise CancelledError(f"the call of {method!r} was cancelled") from error
    except RayActorError as error:
        raise UnavailableError(f"the actor has ended: {method!r} failed: {error}") from error
    except RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, OpError):
            raise cause from error
        raise InternalError(f"{method!r} of an actor failed: {error}") from error
    except RayError as error:
        raise InternalError(f"{method!r} of an actor failed: {error}") from error
