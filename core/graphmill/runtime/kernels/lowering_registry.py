"""`LoweringRegistry`: chooses the lowering of a node after its kernel has been chosen."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.registry import PluginConflictError, Provenance
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.runtime.kernels.lowering import Lowering


class _Registered(NamedTuple):
    lowering: Lowering
    owner: object


class _LazyModule(NamedTuple):
    name: str
    owner: object


class LoweringRegistry:
    """The lowerings of one host.

    Threads: `_lock` guards the tables; modules are imported outside it.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._by_op: dict[str, list[_Registered]] = {}
        self._modules: dict[str, list[_LazyModule]] = {}
        self._loaded: set[_LazyModule] = set()
        self._found: dict[tuple[str, object, int], tuple[Lowering | None, Lowering | None]] = {}

    def add(self, lowerings: object, owner: object = None) -> list[str]:
        """Register the lowerings of a decorated function, `Lowering`, table or module.

        Returns:
            The ops of the lowerings.

        Raises:
            InvalidArgumentError: it declares no lowering, or one without an op.
        """
        declared = _declared_by(lowerings)
        if not declared or not all(one.ops for one in declared):
            raise InvalidArgumentError(
                f"{lowerings!r} declares no lowering; decorate a function with "
                "@graphmill.spi.lowering, or name the ops of a Lowering"
            )
        with self._lock:
            self._add(declared, owner)
        return [op for one in declared for op in one.ops]

    def add_module(self, module: str, ops: Iterable[str], owner: object = None) -> None:
        """Register a module, by name, that is imported when one of `ops` is first compiled."""
        lazy = _LazyModule(module, owner)
        with self._lock:
            for op in ops:
                self._modules.setdefault(op, []).append(lazy)
            self._found.clear()

    def withdraw(self, owner: object) -> None:
        """Remove everything that `owner` registered."""
        with self._lock:
            for entries in self._by_op.values():
                entries[:] = [entry for entry in entries if entry.owner != owner]
            for modules in self._modules.values():
                modules[:] = [module for module in modules if module.owner != owner]
            self._found.clear()

    def find(
        self, op: str, kernel_owner: object, declared: Lowering | None = None
    ) -> Lowering | None:
        """Return the lowering of an op whose kernel `kernel_owner` supplied, or None.

        Declarations of the supplier in several places (checks here, the traceable form there) are
        merged; of different priorities only the highest is used.

        Args:
            op: the op.
            kernel_owner: who supplied the kernel that is chosen.
            declared: the `lowering=` of that kernel. It is merged with what is registered for the
                op; of equal priority, its traceable form wins.

        Raises:
            PluginConflictError: the supplier registered two traceable forms of the same priority.
            InternalError: a module with lowerings of the op cannot be imported.
        """
        key = (op, supplier_of(kernel_owner), id(declared))
        if key not in self._found:
            self._load(op)
            with self._lock:
                entries = [e for e in self._by_op.get(op, ()) if supplier_of(e.owner) == key[1]]
            if declared is not None:
                entries = _without_rivals(_Registered(declared, kernel_owner), entries)
            # The value holds `declared`, so that its id in the key stays unique.
            self._found[key] = (_merged(op, entries), declared)
        return self._found[key][0]

    def registrations(self, op: str) -> list[tuple[Lowering, object]]:
        """Return the lowerings that are registered for an op, each with its owner.

        Those that kernels name by `lowering=` are in the kernels' definitions.

        Raises:
            InternalError: a module with lowerings of the op cannot be imported.
        """
        self._load(op)
        with self._lock:
            return [(entry.lowering, entry.owner) for entry in self._by_op.get(op, ())]

    def ops(self) -> list[str]:
        """Return the names of all ops that have a lowering; imports nothing."""
        with self._lock:
            registered = (op for op, entries in self._by_op.items() if entries)
            return sorted({*registered, *self._modules})

    def _add(self, declared: Iterable[Lowering], owner: object) -> None:
        for one in declared:
            for op in one.ops:
                entries = self._by_op.setdefault(op, [])
                if not any(entry.lowering is one for entry in entries):
                    entries.append(_Registered(one, owner))
        self._found.clear()

    def _load(self, op: str) -> None:
        due = [lazy for lazy in self._modules.get(op, ()) if lazy not in self._loaded]
        for lazy in due:
            try:
                declared = _declared_by(importlib.import_module(lazy.name))
            except Exception as error:
                raise InternalError(
                    f"the module {lazy.name!r} with the lowering of {op!r} cannot be imported: "
                    f"{type(error).__name__}: {error}. It was registered by {lazy.owner}",
                    plugin=str(lazy.owner),
                ) from error
            with self._lock:
                self._loaded.add(lazy)
                self._add(declared, lazy.owner)


def _declared_by(owner: object) -> list[Lowering]:
    """Return the lowerings of an object or module; called only where something is compiled."""
    from graphmill.runtime.kernels.lowering import lowerings_of  # here: it takes a while to import

    return lowerings_of(owner)


def supplier_of(owner: object) -> object:
    """Return the supplier of a registration: its distribution, else its plugin."""
    return owner.supplier if isinstance(owner, Provenance) else owner


def _without_rivals(own: _Registered, others: list[_Registered]) -> list[_Registered]:
    """Return a kernel's declaration and the registered ones that do not contradict it."""
    rest = []
    for entry in others:
        if entry.lowering is own.lowering:
            continue
        is_rival = entry.lowering.priority == own.lowering.priority
        if is_rival and own.lowering.function is not None and entry.lowering.function is not None:
            continue
        if is_rival and own.lowering.refuse is not None:
            entry = entry._replace(lowering=entry.lowering._replace(refuse=None))
        rest.append(entry)
    return [own, *rest]


def _merged(op: str, entries: list[_Registered]) -> Lowering | None:
    """Merge the declarations of a supplier for an op into one lowering."""
    highest = max((entry.lowering.priority for entry in entries), default=0)
    entries = [entry for entry in entries if entry.lowering.priority == highest]
    if len(entries) < 2:
        return entries[0].lowering if entries else None
    for field in ("function", "refuse"):
        _refuse_rivals(op, [e for e in entries if getattr(e.lowering, field) is not None])
    declared = [entry.lowering for entry in entries]
    return declared[0]._replace(
        ops=(op,),
        function=next((one.function for one in declared if one.function is not None), None),
        checks=tuple(check for one in declared for check in one.checks),
        static=tuple(dict.fromkeys(name for one in declared for name in one.static)),
        standalone=next((one.standalone for one in declared if one.standalone), False),
        refuse=next((one.refuse for one in declared if one.refuse is not None), None),
        distinct_rows=any(one.distinct_rows for one in declared),
    )


def _refuse_rivals(op: str, rivals: list[_Registered]) -> None:
    if len(rivals) < 2:
        return
    sources = " and ".join(f"{rival.lowering.source} of {rival.owner}" for rival in rivals)
    raise PluginConflictError(
        f"op {op!r} has two lowerings of equal priority: {sources}. Give one a higher priority",
        owners=tuple(r.owner for r in rivals if isinstance(r.owner, Provenance)),
    )
