"""`Registry`: maps names to objects that plugins supply, with their owners; loads them lazily.

The order in which plugins register does not matter. Two registrations of one key with the same
rank raise `PluginConflictError`; otherwise the one with `replace=True` or the higher priority wins.
Executors resolve what they need once per graph, so no registry is on a per-node path.
"""

from __future__ import annotations

import importlib
import re
import threading
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, cast

from graphmill import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

OWN_DISTRIBUTION = "graphmill"
LITE_DISTRIBUTION = "graphmill-lite"
"""graphmill without JAX among its requirements; see `graphmill.distribution`."""


class Provenance(NamedTuple):
    """The supplier of a registered object: a plugin and its distribution.

    Attributes:
        plugin: the plugin's name, as in its entry point.
        distribution: name of the installed distribution; "" if the plugin has no entry point.
        version: version of that distribution; "" if there is none.
        module: the module or object that implements the plugin's hooks.
        is_required: whether a fault of the plugin is an error. A fault of an optional plugin is a
            warning, and the host continues without what it cannot supply. How the plugin was loaded
            determines this, see `PluginRecord`.
    """

    plugin: str
    distribution: str = ""
    version: str = ""
    module: str = ""
    is_required: bool = False

    @property
    def supplier(self) -> str:
        """The unit of installation, upgrade and trust: the distribution, else the plugin."""
        return self.distribution or f"plugin:{self.plugin}"

    @property
    def is_builtin(self) -> bool:
        """Whether graphmill's own distribution supplied it; used in messages and tests only."""
        return self.distribution == OWN_DISTRIBUTION

    @property
    def error_plugin(self) -> str | None:
        """The plugin name that errors carry; None for built-in plugins."""
        return None if self.is_builtin else self.plugin

    def __str__(self) -> str:
        source = f"{self.distribution} {self.version}".strip() or f"module {self.module}"
        return f"plugin {self.plugin!r} ({source})"


CORE = Provenance("core", OWN_DISTRIBUTION, module="graphmill", is_required=True)
"""The owner of everything that core itself registers."""


class PluginWarning(UserWarning):
    """A plugin or a part of it is not used, because of a fault or a conflict with another one."""


class PluginError(errors.FailedPreconditionError):
    """A plugin, or something that it registered by name, could not be loaded or used."""


class PluginConflictError(errors.AlreadyExistsError):
    """Two plugins claim the same thing with the same rank.

    Attributes:
        owners: the `Provenance` of both sides.
    """

    def __init__(self, message: str, *, owners: tuple[Provenance, ...] = ()) -> None:
        super().__init__(message)
        self.owners = owners


class _Entry:
    """One registration. `value` is as registered until `is_ready`, then the result of `get`."""

    __slots__ = ("is_ready", "owner", "priority", "reference", "replace", "value")

    def __init__(self, value: object, owner: Provenance, priority: int, replace: bool) -> None:
        self.value = value
        self.is_ready = False
        self.reference = value if isinstance(value, str) else _describe(value)
        self.owner = owner
        self.priority = priority
        self.replace = replace

    @property
    def rank(self) -> tuple[bool, int]:
        return (self.replace, self.priority)


class Registry(Generic[T]):
    """Map names to objects of one kind, with provenance, priorities and lazy loading.

    Threads: any thread may call any method. `_lock` guards `_entries`; imports of lazy references
    run outside it.

    Args:
        kind: the kind of the values, for messages: "device", "executor".
        hook: the hook that adds to this registry, for messages.
        prepare: converts a registered object to what `get` returns; called once for each object,
            on first use. It raises `TypeError` for an unsuitable object.
        failures: returns a line for each plugin that failed to load, for "not found" messages.
    """

    def __init__(
        self,
        kind: str,
        *,
        hook: str = "",
        prepare: Callable[[Any], T] | None = None,
        failures: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.kind = kind
        self.hook = hook
        self._prepare = prepare
        self._failures = failures
        self._lock = threading.Lock()
        self._entries: dict[str, list[_Entry]] = {}  # each list: highest rank first

    def add(
        self,
        key: str,
        value: object,
        *,
        owner: Provenance,
        priority: int = 0,
        replace: bool = False,
    ) -> None:
        """Register `value` under `key`.

        Args:
            key: the name; letter case matters.
            value: the object, or "package.module:Attribute" to import it on first use.
            owner: the plugin that registers it.
            priority: the highest wins; equal priorities are a conflict.
            replace: win over every registration without `replace`.

        Raises:
            InvalidArgumentError: the key is not a string, or the reference is malformed.
            PluginConflictError: the key is already registered with the same rank.
        """
        self._check_arguments(key, value, owner)
        entry = _Entry(value, owner, priority, replace)
        with self._lock:
            ranked = self._entries.setdefault(key, [])
            twin = next((other for other in ranked if other.rank == entry.rank), None)
            if twin is None:
                ranked.append(entry)
                ranked.sort(key=lambda other: other.rank, reverse=True)
        if twin is not None:
            raise self._conflict(key, twin, entry)

    def get(self, key: str) -> T:
        """Return the winning value for `key`, importing it on first use.

        Raises:
            NotFoundError: the key is not registered; the message lists the registered ones.
            PluginError: the registered value cannot be imported or used.
        """
        with self._lock:
            ranked = self._entries.get(key)
            entry = ranked[0] if ranked else None
        if entry is None:
            raise self._not_found(key)
        if not entry.is_ready:
            self._make_ready(key, entry)
        return cast("T", entry.value)

    def find(self, key: str) -> T | None:
        """Return the value as `get` does, but None if `key` is not registered."""
        return self.get(key) if key in self else None

    def keys(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        with self._lock:
            return tuple(sorted(self._entries))

    def items(self) -> tuple[tuple[str, T], ...]:
        """Return all names and winning values, sorted by name; imports every value (see `get`)."""
        return tuple((key, self.get(key)) for key in self.keys())

    def provenance(self, key: str) -> Provenance:
        """Return the owner of the winner for `key` (`NotFoundError` if it is not registered)."""
        return self._winner(key).owner

    def priority(self, key: str) -> int:
        """Return the priority of the winner for `key` (`NotFoundError` if it is not registered)."""
        return self._winner(key).priority

    def reference(self, key: str) -> str:
        """Return the winner's origin as "package.module:Attribute", without importing it.

        Raises:
            NotFoundError: the key is not registered.
        """
        return self._winner(key).reference

    def suppliers(self, key: str) -> tuple[Provenance, ...]:
        """Return the owners of all registrations of `key`, the winner first; may be empty."""
        with self._lock:
            return tuple(entry.owner for entry in self._entries.get(key, ()))

    def withdraw(self, owner: Provenance) -> None:
        """Remove everything that `owner` registered."""
        with self._lock:
            for key in list(self._entries):
                remaining = [entry for entry in self._entries[key] if entry.owner != owner]
                if remaining:
                    self._entries[key] = remaining
                else:
                    del self._entries[key]

    def preferring(self, key: str) -> Registry[T]:
        """Return a copy of this registry in which the winner for `key` has the highest priority.

        Raises:
            NotFoundError: the key is not registered.
        """
        winner = self._winner(key)
        copied: Registry[T] = Registry(
            self.kind, hook=self.hook, prepare=self._prepare, failures=self._failures
        )
        with self._lock:
            copied._entries = {name: list(ranked) for name, ranked in self._entries.items()}
            highest = max(entry.priority for ranked in self._entries.values() for entry in ranked)
        first = _Entry(winner.value, winner.owner, highest + 1, winner.replace)
        first.is_ready, first.reference = winner.is_ready, winner.reference
        copied._entries[key].insert(0, first)
        return copied

    def __contains__(self, key: object) -> bool:
        with self._lock:
            return key in self._entries

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    def __repr__(self) -> str:
        return f"<Registry of {self.kind}s: {', '.join(self.keys()) or 'empty'}>"

    def _winner(self, key: str) -> _Entry:
        with self._lock:
            ranked = self._entries.get(key)
            if ranked:
                return ranked[0]
        raise self._not_found(key)

    def _check_arguments(self, key: str, value: object, owner: Provenance) -> None:
        if not isinstance(key, str):
            raise errors.InvalidArgumentError(
                f"{self.kind} name {key!r} from {owner} is not a string", plugin=owner.plugin
            )
        if isinstance(value, str) and not _REFERENCE.fullmatch(value):
            raise errors.InvalidArgumentError(
                f"reference {value!r} for {self.kind} {key!r} from {owner} is malformed: "
                "expected 'package.module:Attribute'",
                plugin=owner.plugin,
            )

    def _make_ready(self, key: str, entry: _Entry) -> None:
        registered = entry.value
        try:
            value = load_reference(registered) if isinstance(registered, str) else registered
            if self._prepare is not None:
                value = self._prepare(value)
        except Exception as error:
            raise PluginError(
                f"cannot load {self.kind} {key!r} from {entry.reference!r}, registered by "
                f"{entry.owner}: {type(error).__name__}: {error}",
                plugin=entry.owner.plugin,
            ) from error
        with self._lock:
            if not entry.is_ready:  # if another thread was first, all threads get its object
                entry.value, entry.is_ready = value, True

    def _conflict(self, key: str, old: _Entry, new: _Entry) -> PluginConflictError:
        if old.owner == new.owner:
            return PluginConflictError(
                f"{self.kind} {key!r} is registered twice by {new.owner}; remove one registration, "
                "or give them different priorities",
                owners=(old.owner, new.owner),
            )
        return PluginConflictError(
            f"{self.kind} {key!r} is registered both by {old.owner} and by {new.owner} with "
            f"priority {new.priority}. To win, one must register with a higher priority or with "
            "replace=True; or disable one with GRAPHMILL_DISABLE_PLUGINS="
            f"{(old if new.owner.is_builtin else new).owner.plugin}",
            owners=(old.owner, new.owner),
        )

    def _not_found(self, key: str) -> errors.NotFoundError:
        keys = self.keys()
        near = errors.suggest(key, keys) or "."
        message = f"no {self.kind} {key!r} is registered{near}"
        message += f" Registered: {', '.join(map(repr, keys)) or 'none'}."
        failures = list(self._failures())
        if failures:
            message += f" Plugins that failed to load: {'; '.join(failures)}."
        if self.hook:
            message += f" A plugin registers one in {self.hook}."
        return errors.NotFoundError(message)


def load_reference(reference: str) -> Any:
    """Import and return the object that "package.module:Attribute" names."""
    module_name, _, path = reference.partition(":")
    value: Any = importlib.import_module(module_name)
    for name in path.split("."):
        value = getattr(value, name)
    return value


def instance_of(base: type) -> Callable[[Any], Any]:
    """Return a `prepare` function that accepts instances of `base` and instantiates subclasses."""

    def prepare(value: Any) -> Any:
        instance = value() if isinstance(value, type) and issubclass(value, base) else value
        if not isinstance(instance, base):
            raise TypeError(f"{value!r} is not a {base.__name__}")
        return instance

    return prepare


def _describe(value: object) -> str:
    """Return "module:name" of a class or function, or of the class of another object."""
    named: Any = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}"


PLAIN_FUNCTION: Final = "__graphmill_function__"
"""The attribute of a wrapper that explains wrong arguments: the function that it calls."""


def function_source(function: Callable[..., Any]) -> str:
    """Return where a function is defined, as `module.function` or `module.outer.inner`."""
    name: str = getattr(function, "__qualname__", str(function))
    return f"{function.__module__}.{name.replace('.<locals>', '')}"
