"""Registrars: the arguments of registration hooks, each bound to the called plugin.

The registrar adds the plugin as the owner, and lists the name in the plugin's record. It collects
conflicts for the host, which resolves all of them at once, so the order of plugins does not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from graphmill.registry import PluginConflictError
from graphmill.runtime.kernels.kernel import KernelDef, kernels_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.ops.definition.op_traits import OpTraits
    from graphmill.ops.inference.shape_inference import ShapeFunction
    from graphmill.ops.inference.value_inference import ValueFunction
    from graphmill.plugin.gradient_registry import GradientRegistry
    from graphmill.plugin.pass_registry import Condition, Pass, PassRegistry
    from graphmill.plugin.records import PluginRecord
    from graphmill.registry import Provenance, Registry
    from graphmill.runtime.kernels.kernel_registry import KernelRegistry
    from graphmill.runtime.kernels.lowering_registry import LoweringRegistry

T = TypeVar("T")


class _Registrar:
    """Common base of registrars: the owner, and the lists of names and conflicts."""

    def __init__(self, kind: str, record: PluginRecord, conflicts: list[PluginConflictError]):
        self._kind = kind
        self._record = record
        self._conflicts = conflicts

    @property
    def owner(self) -> Provenance:
        """The plugin that registers."""
        return self._record.owner

    def _file(self, *names: str) -> None:
        self._record.registered.setdefault(self._kind, []).extend(names)


class Registrar(_Registrar, Generic[T]):
    """Register named things of one kind: devices, executors, transports, commands, exporters."""

    def __init__(
        self,
        kind: str,
        registry: Registry[T],
        record: PluginRecord,
        conflicts: list[PluginConflictError],
    ) -> None:
        super().__init__(kind, record, conflicts)
        self._registry = registry

    def add(self, key: str, value: object, *, priority: int = 0, replace: bool = False) -> None:
        """Register `value` under `key`.

        Args:
            key: the name; letter case matters.
            value: the object, or "package.module:Attribute", imported on first use. Prefer the
                latter: then the plugin costs nothing until it is needed.
            priority: the highest wins; two plugins with the same key and priority conflict.
            replace: win over every registration without `replace`.

        Raises:
            InvalidArgumentError: the key is not a string, or the reference is malformed.
        """
        try:
            self._registry.add(key, value, owner=self.owner, priority=priority, replace=replace)
        except PluginConflictError as conflict:
            self._conflicts.append(conflict)
        else:
            self._file(key)


class PassRegistrar(_Registrar):
    """Register graph passes."""

    def __init__(
        self,
        kind: str,
        registry: PassRegistry,
        record: PluginRecord,
        conflicts: list[PluginConflictError],
    ) -> None:
        super().__init__(kind, record, conflicts)
        self._registry = registry

    def add(
        self,
        name: str,
        value: Pass | str,
        *,
        phase: str,
        order: int = 0,
        applies: Condition | None = None,
        priority: int = 0,
        replace: bool = False,
    ) -> None:
        """Register a pass.

        Args:
            name: its name.
            value: the pass, or "package.module:Attribute", imported on first use.
            phase: `PRE_PLACEMENT`, `POST_PLACEMENT`, `POST_REWRITE_FOR_EXEC`,
                `HOT_PLACEMENT`, `POST_PARTITIONING` or `HOT`.
            order: lower runs earlier in the phase; equal ones run in the order of names.
            applies: called with each graph of the phase and its `PassOptions`; returns whether the
                pass may have something to do. Where it returns False the pass is neither imported
                nor run. By default it runs for every graph. `graphmill.spi.has_ops` makes such a
                condition from names of ops.
            priority, replace: which of two passes of one name wins, as in `Registrar.add`.

        Raises:
            InvalidArgumentError: the phase does not exist, `applies` is not callable, or the
                reference is malformed.
        """
        try:
            self._registry.add_pass(
                name,
                value,
                phase=phase,
                order=order,
                applies=applies,
                owner=self.owner,
                priority=priority,
                replace=replace,
            )
        except PluginConflictError as conflict:
            self._conflicts.append(conflict)
        else:
            self._file(name)


class OpRegistrar(_Registrar):
    """Register ops."""

    def __init__(
        self,
        kind: str,
        registry: OpRegistry,
        record: PluginRecord,
        conflicts: list[PluginConflictError],
    ) -> None:
        super().__init__(kind, record, conflicts)
        self._registry = registry

    def add(
        self,
        op: object,
        *,
        replace: bool = False,
        shape: ShapeFunction | None = None,
        value: ValueFunction | None = None,
        traits: OpTraits | None = None,
    ) -> None:
        """Register an op.

        Args:
            op: an `OpDef`, an `OpDef` message, or a function decorated with
                `graphmill.ops.definition.define.op`.
            replace: replace an op of the same name, even one of TensorFlow's.
            shape: infers the shapes of its outputs, if `op` does not carry its shape function.
            value: infers static values of its outputs, if `op` does not carry its value function.
            traits: its traits, if `op` does not carry them. Undeclared traits are derived from the
                definition: an op that is stateful or takes resources has the effect `state`, and
                the variables that it reads and writes are unknown.

        Raises:
            InvalidArgumentError: `op` has another type, the definition is invalid, or the traits do
                not fit it.
        """
        try:
            op_def = self._registry.add(
                op, owner=self.owner, replace=replace, shape=shape, value=value, traits=traits
            )
        except PluginConflictError as conflict:
            self._conflicts.append(conflict)
        else:
            self._file(op_def.name)


class KernelRegistrar(_Registrar):
    """Register kernels: at once, or as modules that are imported when one of their ops is used."""

    def __init__(
        self,
        kind: str,
        registry: KernelRegistry,
        record: PluginRecord,
        conflicts: list[PluginConflictError],
    ) -> None:
        super().__init__(kind, record, conflicts)
        self._registry = registry

    def add(self, kernels: object) -> None:
        """Register a function or class decorated with `@kernel`, a `KernelDef`, table or module.

        Raises:
            InvalidArgumentError: the object declares no kernel.
        """
        self._registry.add(kernels, owner=self.owner)
        declared = [kernels] if isinstance(kernels, KernelDef) else kernels_of(kernels)
        self._file(*(op for definition in declared for op in definition.ops))
        lowered = [op for one in declared if one.lowering is not None for op in one.ops]
        if lowered:
            self._record.registered.setdefault("lowerings", []).extend(lowered)

    def add_module(self, module: str, ops: Iterable[str], *, backend: str | None = None) -> None:
        """Register a module by name; it is imported when one of `ops` is first used.

        Args:
            module: name of the module.
            ops: names of the ops that it has kernels for.
            backend: import the module only for devices that accept this backend.
        """
        names = tuple(ops)
        self._registry.add_module(module, names, owner=self.owner, backend=backend)
        self._file(*names)

    def add_family(
        self,
        family: str,
        *modules: str,
        backend: str | None = None,
        ops: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """Register modules by name for a family of ops, imported when one of its ops is used.

        Args:
            family: family of the ops, as in `OpDef.family`.
            modules: names of the modules.
            backend: import the modules only for devices that accept this backend.
            ops: maps a module to the ops that it has kernels for; the module is imported when one
                of them is first used. Modules without an entry are imported with the first op of
                the family.
        """
        registry = self._registry
        registry.add_family(family, *modules, backend=backend, ops=ops, owner=self.owner)
        suffix = f" [{backend}]" if backend else ""
        self._file(*(f"family {family}: {module}{suffix}" for module in modules))

    def add_unsupported(self, reasons: Mapping[str, str] | str) -> None:
        """Register the reasons why ops have no kernel; the error for a missing kernel gives them.

        Args:
            reasons: maps the name of an op to a clause that follows "because"; or names such a
                mapping as "module:NAME", which is imported when it is first needed.
        """
        self._registry.add_unsupported(reasons, owner=self.owner)


class GradientRegistrar(_Registrar):
    """Register gradients of ops: at once, or as modules that are imported on first use."""

    def __init__(
        self,
        kind: str,
        registry: GradientRegistry,
        record: PluginRecord,
        conflicts: list[PluginConflictError],
    ) -> None:
        super().__init__(kind, record, conflicts)
        self._registry = registry

    def add(self, gradients: object, *, priority: int = 0) -> None:
        """Register a function decorated with `@gradient`, a `GradientTable`, or a module.

        Args:
            gradients: the object that declares them.
            priority: the highest wins if an op has several functions; built-in ones have -1.

        Raises:
            InvalidArgumentError: the object declares no gradient.
        """
        try:
            names = self._registry.add(gradients, owner=self.owner, priority=priority)
        except PluginConflictError as conflict:
            self._conflicts.append(conflict)
        else:
            self._file(*names)

    def add_family(self, family: str, *modules: str, priority: int = 0) -> None:
        """Register modules by name, imported when an op of the family is first differentiated."""
        self._registry.add_family(family, *modules, owner=self.owner, priority=priority)
        self._file(*(f"family {family}: {module}" for module in modules))


class LoweringRegistrar(_Registrar):
    """Register lowerings: at once, or as modules that are imported when an op is compiled."""

    def __init__(
        self,
        kind: str,
        registry: LoweringRegistry,
        record: PluginRecord,
        conflicts: list[PluginConflictError],
    ) -> None:
        super().__init__(kind, record, conflicts)
        self._registry = registry

    def add(self, lowerings: object) -> None:
        """Register a function decorated with `@lowering`, a `Lowering`, a table, or a module.

        Raises:
            InvalidArgumentError: the object declares no lowering.
        """
        self._file(*self._registry.add(lowerings, owner=self.owner))

    def add_module(self, module: str, ops: Iterable[str]) -> None:
        """Register a module by name; it is imported when one of `ops` is first compiled.

        Args:
            module: name of the module.
            ops: names of the ops that it has lowerings for.
        """
        names = tuple(ops)
        self._registry.add_module(module, names, owner=self.owner)
        self._file(*names)
