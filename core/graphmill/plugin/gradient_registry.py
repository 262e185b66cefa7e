"""`GradientRegistry`: the gradient functions of a host, by op."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError, NotFoundError, suggest
from graphmill.plugin.gradient_declaration import GradientDef, gradients_of
from graphmill.registry import PluginConflictError, Provenance
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.ops.definition.op_def import OpDef
    from graphmill.ops.definition.op_registry import OpRegistry


class NoGradientError(NotFoundError, LookupError):
    """An op on the gradient's path has no gradient function, and none can be derived."""


class _Registration:
    __slots__ = ("definition", "owner", "priority")

    def __init__(self, definition: GradientDef, owner: object, priority: int) -> None:
        self.definition = definition
        self.owner = owner
        self.priority = priority


class GradientRegistry:
    """Map ops to gradient functions; import a family's modules on the first look-up of its ops.

    Of two functions for one op, the one with the higher priority wins; equal priorities conflict.

    Threads: `_lock` guards the tables; modules are imported outside it.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._by_op: dict[str, list[_Registration]] = {}
        self._modules: dict[str, list[tuple[str, object, int]]] = {}
        self._loaded: set[tuple[str, object, int]] = set()

    def add(self, gradients: object, owner: object = None, priority: int = 0) -> list[str]:
        """Register the gradients that a function, a `GradientTable` or a module declares.

        Returns:
            The names of the ops.

        Raises:
            InvalidArgumentError: the object declares no gradient.
            PluginConflictError: one of the ops is registered with the same priority.
        """
        declared = gradients_of(gradients)
        if not declared:
            raise InvalidArgumentError(
                f"{gradients!r} declares no gradient; decorate the function with "
                "@graphmill.gradient"
            )
        with self._lock:
            self._add_all([_Registration(definition, owner, priority) for definition in declared])
        return [op for definition in declared for op in definition.ops]

    def add_family(
        self, family: str, *modules: str, owner: object = None, priority: int = 0
    ) -> None:
        """Register modules by name; the first look-up of an op of `family` imports them."""
        with self._lock:
            entries = ((module, owner, priority) for module in modules)
            self._modules.setdefault(family, []).extend(entries)

    def withdraw(self, owner: object) -> None:
        """Remove everything that `owner` registered."""
        with self._lock:
            for registered in self._by_op.values():
                registered[:] = [entry for entry in registered if entry.owner != owner]
            for modules in self._modules.values():
                modules[:] = [entry for entry in modules if entry[1] != owner]

    def find(self, op_def: OpDef) -> GradientDef | None:
        """Return the gradient of an op, or None if none is registered."""
        registration = self._find(op_def)
        return None if registration is None else registration.definition

    def named(self, name: str, ops: OpRegistry) -> GradientDef | None:
        """Return the gradient that is registered under a name, or None.

        Args:
            name: the name of an op, or another one that a gradient function declares.
            ops: definitions of ops.
        """
        if name in ops:
            return self.find(ops.get(name))
        with self._lock:
            registered = self._by_op.get(name)
            if not registered:
                return None
            return max(registered, key=lambda entry: entry.priority).definition

    def owner_of(self, op_def: OpDef) -> object:
        """Return who registered the gradient of an op, or None if none is registered."""
        registration = self._find(op_def)
        return None if registration is None else registration.owner

    def _find(self, op_def: OpDef) -> _Registration | None:
        self._load(op_def.family)
        with self._lock:
            registered = self._by_op.get(op_def.name)
            if not registered:
                return None
            return max(registered, key=lambda entry: entry.priority)

    def ops(self) -> list[str]:
        """Return the names of all ops that have a gradient; imports every registered module."""
        for family in list(self._modules):
            self._load(family)
        with self._lock:
            return sorted(op for op, registered in self._by_op.items() if registered)

    def near(self, op: str) -> str:
        """Return a "did you mean" hint with similarly named ops that have a gradient."""
        return suggest(op, self._by_op)

    def _load(self, family: str) -> None:
        with self._lock:
            missing = [m for m in self._modules.get(family, ()) if m not in self._loaded]
        for entry in missing:
            module = importlib.import_module(entry[0])
            with self._lock:
                if entry in self._loaded:
                    continue
                declared = gradients_of(module)
                self._add_all([_Registration(definition, *entry[1:]) for definition in declared])
                self._loaded.add(entry)

    def _add_all(self, registrations: Sequence[_Registration]) -> None:
        """Add registrations, all of them or, if one conflicts with another plugin's, none."""
        for registration in registrations:
            self._check(registration)
        for registration in registrations:
            for op in registration.definition.ops:
                self._by_op.setdefault(op, []).append(registration)

    def _check(self, registration: _Registration) -> None:
        for op in registration.definition.ops:
            for other in self._by_op.get(op, ()):
                if other.priority == registration.priority and other.owner is not None:
                    raise PluginConflictError(
                        f"the gradient of op {op} is registered by both {other.owner} and "
                        f"{registration.owner} with priority {other.priority}; register the "
                        f"preferred one with a higher priority",
                        owners=tuple(
                            owner
                            for owner in (other.owner, registration.owner)
                            if isinstance(owner, Provenance)
                        ),
                    )
