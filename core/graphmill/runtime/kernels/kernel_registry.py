"""`KernelRegistry`: chooses the kernel of a node on a device, and explains the choice.

Kernels are registered in one of three ways: as declared functions (`add`); as a module that is
imported when one of the named ops is first looked up (`add_module`); as the modules of a family of
ops, imported when the first op of the family is looked up (`add_family`). Reasons why ops have no
kernel (`add_unsupported`) become part of the error.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.errors import InternalError, InvalidArgumentError, NotFoundError
from graphmill.registry import PluginWarning, Provenance, load_reference
from graphmill.runtime.kernels.kernel import LOWERINGS_ATTRIBUTE, KernelDef, kernels_of
from graphmill.runtime.kernels.kernel_choice import (
    LABEL_ATTR,
    KernelChoice,
    Registration,
    choose_kernel,
    is_of_same_supplier,
    no_kernel_message,
)
from graphmill.runtime.kernels.kernel_signature import check_signature
from graphmill.runtime.kernels.lowering_registry import supplier_of
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

    from graphmill.ops.definition.op_def import OpDef
    from graphmill.runtime.kernels.kernel_choice import Found
    from graphmill.runtime.kernels.lowering import Lowering
    from graphmill.runtime.kernels.lowering_registry import LoweringRegistry


class _LazyModule(NamedTuple):
    """A module that is not imported yet; `ops` are the ops of its kernels, if known."""

    name: str
    backend: str | None
    owner: object
    ops: frozenset[str] | None = None

    def is_for(self, op: str | None, backends: Sequence[str] | None) -> bool:
        """Return whether it may have a kernel of an op for one of the backends; None means any."""
        if backends is not None and self.backend is not None and self.backend not in backends:
            return False
        return op is None or self.ops is None or op in self.ops


_MAX_CACHED_CHOICES = 10_000  # that are cached; a choice depends on the op and the types of a node


class KernelRegistry:
    """The kernels of one host.

    Threads: `_lock` guards the tables; modules are imported outside it. Look-ups take it once for
    each node when an executor is built, never while a step runs.
    """

    def __init__(
        self,
        find_op: Callable[[str], OpDef | None] = lambda _: None,
        lowerings: LoweringRegistry | None = None,
    ) -> None:
        """Make a registry.

        Args:
            find_op: returns the definition of an op, against which the parameters of its kernels
                are checked.
            lowerings: receives the lowerings that kernel functions declare.
        """
        self._find_op = find_op
        self._lowerings = lowerings
        self._lock = fork_safe_lock()
        self._by_op: dict[str, list[Registration]] = {}
        self._modules_by_op: dict[str, list[_LazyModule]] = {}
        self._modules_by_family: dict[str, list[_LazyModule]] = {}
        self._loaded: set[_LazyModule] = set()
        self._broken: dict[_LazyModule, str] = {}
        # Kernels of modules are checked when one of their ops is looked up.
        self._unchecked: set[KernelDef] = set()
        self._refused: dict[KernelDef, str] = {}
        self._unsupported: list[tuple[Mapping[str, str] | str, object]] = []
        self._suppliers: set[object] = set()
        self._version = 0
        self._registrations_of: dict[tuple[Any, ...], tuple[list[Registration], int]] = {}
        self._choices: dict[tuple[Any, ...], Found] = {}
        # The value holds the chosen definition, so that its id in the key stays unique.
        self._forms: dict[tuple[Any, ...], tuple[KernelDef, KernelChoice | None, Any]] = {}

    def add(self, kernels: object, owner: object = None) -> None:
        """Register the kernels of a decorated function, `KernelTable`, `KernelDef` or module.

        Raises:
            InvalidArgumentError: `kernels` declares none, or one has a parameter that is neither an
                input nor an attr of its op.
        """
        declared = [kernels] if isinstance(kernels, KernelDef) else kernels_of(kernels)
        if not declared:
            raise InvalidArgumentError(
                f"{kernels!r} declares no kernel; decorate the function with @graphmill.kernel"
            )
        self._check(declared)
        with self._lock:
            for definition in declared:
                self._add_definition(definition, owner)
            self._suppliers.add(supplier_of(owner))
            self._changed()

    def add_module(
        self, module: str, ops: Iterable[str], owner: object = None, backend: str | None = None
    ) -> None:
        """Register a module, by name, that is imported when one of `ops` is first looked up.

        With `backend` it is imported only for a device that accepts that backend. If the import
        fails, the module is left out with a warning; for a required plugin, the error is raised.
        The same applies to a kernel whose parameters do not match its op, when that op is first
        looked up.
        """
        lazy = _LazyModule(module, backend, owner)
        with self._lock:
            for op in ops:
                self._modules_by_op.setdefault(op, []).append(lazy)
            self._suppliers.add(supplier_of(owner))
            self._changed()

    def add_family(
        self,
        family: str,
        *modules: str,
        backend: str | None = None,
        ops: Mapping[str, Iterable[str]] | None = None,
        owner: object = None,
    ) -> None:
        """Register modules that are imported when an op of `family` is first looked up.

        With `backend` they are imported only for a device that accepts that backend; a module whose
        ops `ops` lists, only for one of these.
        """
        listed = {} if ops is None else {module: frozenset(ops[module]) for module in ops}
        with self._lock:
            self._modules_by_family.setdefault(family, []).extend(
                _LazyModule(module, backend, owner, listed.get(module)) for module in modules
            )
            self._suppliers.add(supplier_of(owner))
            self._changed()

    def add_unsupported(self, reasons: Mapping[str, str] | str, owner: object = None) -> None:
        """Register the reasons why ops have no kernel: a mapping, or "module:NAME" of one.

        A kernel that is registered for such an op is used nevertheless.
        """
        with self._lock:
            self._unsupported.append((reasons, owner))

    def unsupported(self) -> dict[str, str]:
        """Return the registered reasons why ops have no kernel, by op."""
        with self._lock:
            registered = list(self._unsupported)
        missing: dict[str, str] = {}
        for reasons, owner in registered:
            missing.update(_loaded(reasons, owner))
        return missing

    def withdraw(self, owner: object) -> None:
        """Remove everything that `owner` registered."""
        with self._lock:
            self._unsupported[:] = [one for one in self._unsupported if one[1] != owner]
            for entries in self._by_op.values():
                entries[:] = [entry for entry in entries if entry.owner != owner]
            for table in (self._modules_by_op, self._modules_by_family):
                for modules in table.values():
                    modules[:] = [module for module in modules if module.owner != owner]
            self._changed()

    def ops(self) -> list[str]:
        """Return the names of all ops that have a kernel; imports every registered module."""
        for table in (self._modules_by_family, self._modules_by_op):
            for key in list(table):
                self._load(table, key, None, None)
        return sorted(op for op in list(self._by_op) if self._checked(op))

    def may_have(self, op_def: OpDef) -> bool:
        """Return whether an op may have a kernel; imports nothing, unlike `registrations`."""
        with self._lock:
            return bool(self._by_op.get(op_def.name)) or bool(self._modules_for(op_def))

    def _modules_for(self, op_def: OpDef) -> list[_LazyModule]:
        """Return the modules that may have kernels of an op and are not imported yet."""
        modules = (
            *self._modules_by_family.get(op_def.family, ()),
            *self._modules_by_op.get(op_def.name, ()),
        )
        return [
            module
            for module in modules
            if module not in self._loaded and module.is_for(op_def.name, None)
        ]

    @property
    def has_several_suppliers(self) -> bool:
        """Whether kernels of more than one supplier are registered."""
        return len(self._suppliers) > 1

    def suppliers_of(self, op_def: OpDef) -> set[object]:
        """Return the suppliers that may have a kernel for an op; imports nothing."""
        with self._lock:
            owners = [entry.owner for entry in self._by_op.get(op_def.name, ())]
            owners += [module.owner for module in self._modules_for(op_def)]
        return set(map(supplier_of, owners))

    def registrations(
        self, op_def: OpDef, backends: Sequence[str] | None = None
    ) -> list[Registration]:
        """Return the kernels of an op, importing modules for `backends` (None: for all)."""
        return list(self._registrations(op_def, backends)[0])

    def _registrations(
        self, op_def: OpDef, backends: Sequence[str] | None
    ) -> tuple[list[Registration], int]:
        """Return the kernels of an op, and the version of the tables that contain them."""
        query = (op_def.family, op_def.name, None if backends is None else tuple(backends))
        cached = self._registrations_of.get(query)
        if cached is not None:
            return cached
        version = self._version
        self._load(self._modules_by_family, op_def.family, op_def.name, backends)
        self._load(self._modules_by_op, op_def.name, op_def.name, backends)
        registrations = self._checked(op_def.name)
        with self._lock:
            if version == self._version:
                self._registrations_of[query] = registrations, version
            return registrations, self._version

    def _changed(self) -> None:
        """Invalidate cached lookups; call it under the lock."""
        self._version += 1
        self._registrations_of.clear()
        self._choices.clear()
        self._forms.clear()

    def find(
        self,
        op_def: OpDef,
        attrs: Mapping[str, Any],
        device_type: str,
        backends: Sequence[str],
    ) -> KernelChoice:
        """Return the kernel for a node on a device, and why the others were rejected.

        The device's first backend with a matching kernel is used. There the highest priority wins,
        then a kernel for that backend over a general one, then one for the device type.

        Raises:
            NotFoundError: no kernel matches; the message lists the registered ones and the reasons.
            PluginConflictError: two kernels match equally; names both and their plugins.
        """
        kernel, rejected = self._search(op_def, attrs, device_type, backends)
        if kernel is None:
            why = "" if rejected else self.unsupported().get(op_def.name, "")
            raise NotFoundError(no_kernel_message(op_def, attrs, device_type, rejected, why))
        return kernel

    def try_find(
        self,
        op_def: OpDef,
        attrs: Mapping[str, Any],
        device_type: str,
        backends: Sequence[str],
    ) -> KernelChoice | None:
        """Return the result of `find`, or None instead of raising `NotFoundError`."""
        return self._search(op_def, attrs, device_type, backends)[0]

    def find_form(
        self,
        choice: KernelChoice,
        op_def: OpDef,
        attrs: Mapping[str, Any],
        device_type: str,
        backend: str,
    ) -> KernelChoice | None:
        """Return the kernel that computes the same as the chosen one on another backend.

        It is a kernel of the same supplier for the same node and device type, of no lower priority:
        a kernel of another supplier may compute something else.

        Args:
            choice: the result of `find` for the node.
            op_def, attrs: the node's op and attrs.
            device_type: type of its device.
            backend: the other backend.
        """
        request = (id(choice.definition), op_def.name, device_type, backend, attrs.get(LABEL_ATTR))
        candidates, version = self._registrations(op_def, (backend,))
        rivals = [entry for entry in candidates if is_of_same_supplier(entry, choice)]
        types = [attrs.get(name) for entry in rivals for name in entry.definition.types]
        key = (*request, *types)
        form = self._forms.get(key)
        if form is None:
            best, reasons = choose_kernel(op_def, attrs, device_type, (backend,), rivals)
            form = choice.definition, best, reasons
            with self._lock:
                if version == self._version and len(self._forms) < _MAX_CACHED_CHOICES:
                    self._forms[key] = form
        return form[1]

    def _search(
        self,
        op_def: OpDef,
        attrs: Mapping[str, Any],
        device_type: str,
        backends: Sequence[str],
    ) -> Found:
        """Return the choice and why other kernels were rejected; equal nodes share both."""
        candidates, version = self._registrations(op_def, backends)
        types = [attrs.get(name) for entry in candidates for name in entry.definition.types]
        key = (op_def.name, device_type, tuple(backends), attrs.get(LABEL_ATTR), *types)
        cached = self._choices.get(key)
        if cached is None:
            choice, rejected = choose_kernel(op_def, attrs, device_type, backends, candidates)
            rejected = (*rejected, *self._broken_for(op_def))
            cached = choice and choice._replace(rejected=rejected), rejected
            with self._lock:
                if version == self._version and len(self._choices) < _MAX_CACHED_CHOICES:
                    self._choices[key] = cached
        return cached

    def _declared(self, lazy: _LazyModule, key: str) -> Sequence[KernelDef]:
        """Import a module; if that fails, leave its kernels out, unless its plugin is required."""
        try:
            return kernels_of(_import(lazy, key))
        except InternalError as error:
            if _is_required(lazy.owner):
                raise
            with self._lock:
                is_new = lazy not in self._broken
                self._broken[lazy] = error.message
            if is_new:
                text = f"{error.message}. Its kernels are left out"
                warnings.warn(text, PluginWarning, stacklevel=2)
            return ()

    def _check(self, declared: Iterable[KernelDef]) -> None:
        for definition in declared:
            op_defs = [op_def for op in definition.ops if (op_def := self._find_op(op)) is not None]
            check_signature(definition, op_defs)
            _check_compiled_form(definition, op_defs)

    def _checked(self, op: str) -> list[Registration]:
        """Return the kernels of an op whose parameters match it.

        Those of modules are checked here and not on import: that would read the definitions of all
        ops of a module, most of which are in no graph of the program.
        """
        with self._lock:
            registrations = list(self._by_op.get(op, ()))
            due = [entry for entry in registrations if entry.definition in self._unchecked]
        for entry in due:
            self._check_or_refuse(entry)
        return [entry for entry in registrations if entry.definition not in self._refused]

    def _check_or_refuse(self, entry: Registration) -> None:
        """Check a kernel; leave it out if it does not match, unless its plugin is required."""
        try:
            self._check((entry.definition,))
        except InvalidArgumentError as error:
            if _is_required(entry.owner):
                raise
            with self._lock:
                is_new = entry.definition not in self._refused
                self._refused[entry.definition] = error.message
            if is_new:
                text = f"{error.message}. It is left out ({entry.owner})"
                warnings.warn(text, PluginWarning, stacklevel=2)
        with self._lock:
            self._unchecked.discard(entry.definition)

    def _broken_for(self, op_def: OpDef) -> Iterator[tuple[str, str]]:
        """Yield the left-out kernels of an op, and modules with such kernels, with the reasons."""
        with self._lock:
            refused = list(self._refused.items())
        yield from ((one.source, why) for one, why in refused if op_def.name in one.ops)
        if not self._broken:
            return
        named = self._modules_by_op.get(op_def.name, ())
        for lazy in (*named, *self._modules_by_family.get(op_def.family, ())):
            if lazy in self._broken:
                yield f"the module {lazy.name} of {lazy.owner}", self._broken[lazy]

    def _add_definition(self, definition: KernelDef, owner: object) -> None:
        if self._lowerings is not None and hasattr(definition.function, LOWERINGS_ATTRIBUTE):
            self._lowerings.add(definition.function, owner)
        for op in definition.ops:
            entries = self._by_op.setdefault(op, [])
            if not any(entry.definition is definition for entry in entries):
                entries.append(Registration(definition, owner))

    def _load(
        self,
        table: dict[str, list[_LazyModule]],
        key: str,
        op: str | None,
        backends: Sequence[str] | None,
    ) -> None:
        with self._lock:
            due = [
                lazy
                for lazy in table.get(key, ())
                if lazy not in self._loaded and lazy.is_for(op, backends)
            ]
        for lazy in due:
            declared = self._declared(lazy, key)  # runs the plugin's code, so not under our lock
            with self._lock:
                self._loaded.add(lazy)
                self._unchecked.update(declared)
                for definition in declared:
                    self._add_definition(definition, lazy.owner)
                self._changed()


def _check_compiled_form(definition: KernelDef, op_defs: list[OpDef]) -> None:
    """Check the parameters of a kernel's `check=` and `lowering=` functions."""
    lowering = definition.lowering
    for check in (*definition.checks, *(lowering.checks if lowering is not None else ())):
        if check.of == "inputs":
            check_signature(KernelDef(definition.ops, check.predicate), op_defs, "check")
    if lowering is not None and lowering.function is not None:
        form = KernelDef(definition.ops, lowering.function, stateful=True)
        check_signature(form, op_defs, "lowering")
        _refuse_second_lowering(definition, lowering)


def _refuse_second_lowering(definition: KernelDef, lowering: Lowering) -> None:
    """Refuse a kernel function with two traceable forms of equal priority."""
    for other in getattr(definition.function, LOWERINGS_ATTRIBUTE, ()):
        ops = [op for op in definition.ops if op in other.ops]
        if ops and other.function is not None and other.priority == lowering.priority:
            raise InvalidArgumentError(
                f"the kernel {definition.source} of {', '.join(map(repr, ops))} has two lowerings "
                f"of equal priority: {lowering.source}, which its lowering= names, and "
                f"{other.source}, which @lowering declares; leave one out, or give one a higher "
                "priority"
            )


def _import(lazy: _LazyModule, key: str) -> ModuleType:
    try:
        return importlib.import_module(lazy.name)
    except Exception as error:
        text = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise InternalError(
            f"the kernel module {lazy.name!r} for {key!r} cannot be imported: {text}. "
            f"It was registered by {lazy.owner}; install what it needs or disable that plugin "
            "(GRAPHMILL_DISABLE_PLUGINS)",
            plugin=str(lazy.owner),
        ) from error


def _loaded(reasons: Mapping[str, str] | str, owner: object) -> Mapping[str, str]:
    """Return reasons, imported if necessary; if the import fails, warn and return none."""
    if not isinstance(reasons, str):
        return reasons
    try:
        return dict(load_reference(reasons))
    except Exception as error:  # noqa: BLE001 - the code of a plugin may raise anything
        text = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"the reasons {reasons!r} of {owner} cannot be loaded: {text}",
            PluginWarning,
            stacklevel=2,
        )
        return {}


def _is_required(owner: object) -> bool:
    return not isinstance(owner, Provenance) or owner.is_required
