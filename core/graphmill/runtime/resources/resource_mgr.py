"""`ResourceMgr`: named objects that outlive a step (variables, tables, queues), by container.

Semantics: `tensorflow/core/framework/resource_mgr.h`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from graphmill.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, suggest
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable

_Resource = TypeVar("_Resource")

DEFAULT_CONTAINER = "localhost"


class ResourceMgr:
    """The resources of one device.

    Threads: `_lock` guards the table. Factories run under it, so that two steps that race to create
    one resource get the same object; a factory must not use the manager.
    """

    def __init__(self, default_container: str = DEFAULT_CONTAINER) -> None:
        self.default_container = default_container
        self.generation = 0
        self._lock = fork_safe_lock()
        self._containers: dict[str, dict[tuple[type[Any], str], Any]] = {}

    def lookup(self, container: str, name: str, kind: type[_Resource]) -> _Resource:
        """Return a resource.

        Raises:
            NotFoundError: there is no resource of that container, name and type.
        """
        with self._lock:
            resources = self._containers.get(container or self.default_container, {})
            resource = resources.get((kind, name))
            if resource is None:
                raise NotFoundError(self._missing(container, name, kind))
            return resource  # type: ignore[no-any-return]

    def find(self, container: str, name: str, kind: type[_Resource]) -> _Resource | None:
        """Return a resource, or None if there is none of that container, name and type."""
        with self._lock:
            return self._containers.get(container or self.default_container, {}).get((kind, name))

    def create(
        self, container: str, name: str, resource: Any, kind: type[Any] | None = None
    ) -> None:
        """Add a resource.

        Raises:
            AlreadyExistsError: a resource of the same container, name and type exists.
        """
        key = (kind or type(resource), name)
        with self._lock:
            resources = self._containers.setdefault(container or self.default_container, {})
            if key in resources:
                raise AlreadyExistsError(
                    f"resource {container or self.default_container}/{name} "
                    f"({key[0].__name__}) already exists"
                )
            resources[key] = resource

    def lookup_or_create(
        self, container: str, name: str, kind: type[_Resource], factory: Callable[[], _Resource]
    ) -> _Resource:
        """Return a resource, created by `factory` if it does not exist.

        Raises:
            InvalidArgumentError: the factory did not return a `kind`.
        """
        with self._lock:
            resources = self._containers.setdefault(container or self.default_container, {})
            resource: _Resource | None = resources.get((kind, name))
            if resource is not None:
                return resource
            created = factory()
            if not isinstance(created, kind):
                raise InvalidArgumentError(
                    f"the factory of {name!r} created a {type(created).__name__}, "
                    f"not a {kind.__name__}"
                )
            resources[kind, name] = created
            return created

    def delete(self, container: str, name: str, kind: type[Any]) -> None:
        """Remove a resource.

        Raises:
            NotFoundError: there is no resource of that container, name and type.
        """
        with self._lock:
            resources = self._containers.get(container or self.default_container, {})
            if (kind, name) not in resources:
                raise NotFoundError(self._missing(container, name, kind))
            del resources[kind, name]
            self.generation += 1

    def clear_container(self, container: str) -> None:
        """Remove all resources of a container; a container that does not exist counts as empty."""
        with self._lock:
            resources = self._containers.pop(container or self.default_container, None)
            self.generation += 1
        del resources  # outside of the lock: the destructor of a resource may look up others

    def clear(self) -> None:
        """Remove all resources of all containers."""
        with self._lock:
            containers = dict(self._containers)
            self._containers.clear()
            self.generation += 1
        del containers

    def names(self, container: str = "") -> list[tuple[str, str]]:
        """Return (type name, resource name) of everything in a container, sorted."""
        with self._lock:
            resources = self._containers.get(container or self.default_container, {})
            return sorted((kind.__name__, name) for kind, name in resources)

    def containers(self) -> list[str]:
        """Return the names of the containers that are not empty."""
        with self._lock:
            return sorted(name for name, resources in self._containers.items() if resources)

    def _missing(self, container: str, name: str, kind: type[Any]) -> str:
        container = container or self.default_container
        resources = self._containers.get(container)
        if not resources:
            return (
                f"Container {container} does not exist. "
                f"(Could not find resource: {container}/{name})"
            )
        near = suggest(name, [other_name for other, other_name in resources if other is kind])
        return f"Resource {container}/{name}/{kind.__name__} does not exist{near}"
