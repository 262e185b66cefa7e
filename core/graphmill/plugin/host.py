"""`Host`: an assembled set of plugins with the registries that they filled."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from graphmill import errors
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.plugin.fault_warnings import FaultWarnings
from graphmill.plugin.gradient_registry import GradientRegistry
from graphmill.plugin.live_sessions import LiveSessions
from graphmill.plugin.manager import PluginManager, call_with
from graphmill.plugin.pass_registry import PassRegistry
from graphmill.plugin.registrars import (
    GradientRegistrar,
    KernelRegistrar,
    LoweringRegistrar,
    OpRegistrar,
    PassRegistrar,
    Registrar,
)
from graphmill.registry import Registry, instance_of
from graphmill.runtime.devices.device import DeviceFactory
from graphmill.runtime.devices.transport import Transport
from graphmill.runtime.executor import ExecutorFactory
from graphmill.runtime.kernels.kernel_registry import KernelRegistry
from graphmill.runtime.kernels.lowering_registry import LoweringRegistry
from graphmill.runtime.process import fork
from graphmill.runtime.process.event_log import DEBUG, apply_environment, is_logged, log_event
from graphmill.runtime.threads.background_jobs import BackgroundWork
from graphmill.runtime.threads.thread_pool import SharedThreadPools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.plugin.records import PluginRecord
    from graphmill.plugin.step_observers import StepObservers
    from graphmill.registry import PluginConflictError, Provenance
    from graphmill.runtime.debug_sinks import WatchedTensor
    from graphmill.runtime.server_interface import ServerFactory
    from graphmill.runtime.session_interface import SessionFactory
    from graphmill.runtime.variants.variant_codec import VariantCodec, VariantRegistry


class Host:
    """Registries of everything that a set of plugins supplies; each session belongs to a host.

    Args:
        plugins: plugins of the program itself: modules, instances or classes with hooks.
        load_entry_points: whether to load the installed plugins, including the built-in ones, and
            those that `GRAPHMILL_LOAD_PLUGINS` names.

    Attributes:
        ops: the ops.
        kernels: the kernels.
        lowerings: how compilers compute ops whose kernels cannot simply be traced.
        gradients: gradient functions by op.
        devices: device factories by device type.
        executors: executor factories by executor type.
        passes: graph passes by name.
        transports: transports by name.
        variants: how values of variant types leave the process, by type name.
        session_factories: session factories by URL scheme of the target.
        servers: server factories by protocol name.
        commands: commands of the command line by name.
        exporters: exporters to other systems by target.
        plugins: the state of each plugin, including those that are not used.
        step_observers: the step hooks, or None if no plugin has any.
        sessions: the open sessions of this host.
        thread_pools: the thread pools that its sessions share.
        background: the background jobs of its sessions, such as compilations.
        fault_warnings: warns about plugin faults that do not fail the step.
        debug_callbacks: functions of a `WatchedTensor`, by the name in `callback://name`.

    Threads: one thread assembles the host; then any thread may read its registries.

    Raises:
        PluginError: a built-in plugin, or one of `plugins`, is broken.
        PluginConflictError: two of these conflict.
    """

    def __init__(
        self, plugins: Iterable[object] | None = None, load_entry_points: bool = True
    ) -> None:
        self._manager = PluginManager()
        failures = self._manager.failures
        self.sessions = LiveSessions()
        self.thread_pools = SharedThreadPools()
        self.background = BackgroundWork()
        self.fault_warnings = FaultWarnings()
        self.debug_callbacks: dict[str, Callable[[WatchedTensor], object]] = {}
        self.ops = OpRegistry(failures=failures)
        self.lowerings = LoweringRegistry()
        self.kernels = KernelRegistry(self.ops.find, self.lowerings)
        self.gradients = GradientRegistry()
        self.devices: Registry[DeviceFactory] = Registry(
            "device",
            hook="graphmill_register_devices",
            prepare=instance_of(DeviceFactory),
            failures=failures,
        )
        self.executors: Registry[ExecutorFactory] = Registry(
            "executor",
            hook="graphmill_register_executors",
            prepare=instance_of(ExecutorFactory),
            failures=failures,
        )
        self.passes = PassRegistry(failures=failures)
        self.transports: Registry[Transport] = Registry(
            "transport",
            hook="graphmill_register_transports",
            prepare=instance_of(Transport),
            failures=failures,
        )
        self.variants: VariantRegistry = Registry(
            "variant",
            hook="graphmill_register_variants",
            prepare=_variant_codec,
            failures=failures,
        )
        self.session_factories: Registry[SessionFactory] = Registry(
            "session factory",
            hook="graphmill_register_session_factories",
            prepare=_session_factory,
            failures=failures,
        )
        self.servers: Registry[ServerFactory] = Registry(
            "server",
            hook="graphmill_register_servers",
            prepare=_server_factory,
            failures=failures,
        )
        self.commands: Registry[object] = Registry(
            "command", hook="graphmill_register_commands", failures=failures
        )
        self.exporters: Registry[object] = Registry(
            "exporter", hook="graphmill_register_exporters", failures=failures
        )
        self._conversions: dict[str, Registry[object]] = {}
        apply_environment()
        if load_entry_points:
            self._manager.load_installed()
            self._manager.load_from_environment()
        self._manager.load_objects(plugins or ())
        self._assemble()

    @property
    def plugins(self) -> tuple[PluginRecord, ...]:
        """The state of each plugin, sorted by distribution and name; the program's own last."""
        return tuple(self._manager.records)

    def plugin_failures(self) -> list[str]:
        """Return a line for each plugin that is unused after a fault or conflict, for messages."""
        return self._manager.failures()

    def conversions(self, target: str) -> Registry[object]:
        """Return the conversions of ops to the form of a target, by op, as plugins register them.

        Args:
            target: the name of an exporter that converts one op at a time, such as `onnx`.
        """
        known = self._conversions.get(target)
        if known is None:  # two threads may both register; plugins are called without a lock
            known = self._conversions.setdefault(target, self._registered_conversions(target))
        return known

    def _registered_conversions(self, target: str) -> Registry[object]:
        registry: Registry[object] = Registry(
            f"conversion to {target}", hook="graphmill_register_conversions"
        )
        conflicts: list[PluginConflictError] = []
        kind = f"conversions to {target}"
        self._manager.call_each(
            "graphmill_register_conversions",
            lambda record: {
                "target": target,
                "conversions": Registrar(kind, registry, record, conflicts),
            },
        )
        if conflicts:
            raise conflicts[0]
        return registry

    def _assemble(self) -> None:
        conflicts: list[PluginConflictError] = []
        registrars: dict[str, Callable[..., object]] = {
            "ops": partial(OpRegistrar, "ops", self.ops),
            "kernels": partial(KernelRegistrar, "kernels", self.kernels),
            "lowerings": partial(LoweringRegistrar, "lowerings", self.lowerings),
            "gradients": partial(GradientRegistrar, "gradients", self.gradients),
            "devices": partial(Registrar, "devices", self.devices),
            "executors": partial(Registrar, "executors", self.executors),
            "passes": partial(PassRegistrar, "passes", self.passes),
            "transports": partial(Registrar, "transports", self.transports),
            "variants": partial(Registrar, "variants", self.variants),
            "session_factories": partial(Registrar, "session_factories", self.session_factories),
            "servers": partial(Registrar, "servers", self.servers),
            "commands": partial(Registrar, "commands", self.commands),
            "exporters": partial(Registrar, "exporters", self.exporters),
        }
        for kind, registrar in registrars.items():
            self._manager.call_each(
                f"graphmill_register_{kind}",
                lambda record, kind=kind, make=registrar: {kind: make(record, conflicts)},  # type: ignore[misc]
            )
        self._settle(conflicts)
        self._manager.call_each("graphmill_configure", lambda _: {"host": self})
        self._withdraw_refused()
        self.step_observers = self._collect_observers()
        self._note_hooks()
        for record in self.plugins if is_logged("plugins", DEBUG) else ():
            counts = {kind: len(names) for kind, names in record.registered.items()}
            fields = {"plugin": str(record.owner), "status": record.status, "registered": counts}
            log_event("plugins", DEBUG, "plugin in use", **fields)

    def _settle(self, conflicts: Iterable[PluginConflictError]) -> None:
        """Refuse both sides of each conflict; if one side is required, only the optional side."""
        in_use = {record.owner: record for record in self.plugins if record.status == "loaded"}
        refused = {record.owner for record in self.plugins} - set(in_use)
        for conflict in conflicts:
            if not refused.isdisjoint(conflict.owners):
                continue  # one side is already refused, so there is no conflict any more
            sides = [in_use[owner] for owner in conflict.owners if owner in in_use]
            optional = [record for record in sides if not record.is_required]
            for record in dict.fromkeys(optional or sides):
                if record.status == "loaded":  # not already refused for another conflict
                    self._manager.refuse(record, "conflict", str(conflict), conflict)
        self._withdraw_refused()

    def _withdraw_refused(self) -> None:
        for record in self.plugins:
            if record.status != "loaded" and record.registered:
                self._withdraw(record.owner)
                record.registered = {}

    def _withdraw(self, owner: Provenance) -> None:
        self.ops.withdraw(owner)
        self.kernels.withdraw(owner)
        self.lowerings.withdraw(owner)
        self.gradients.withdraw(owner)
        for registry in (
            self.devices,
            self.executors,
            self.passes,
            self.transports,
            self.variants,
            self.session_factories,
            self.servers,
            self.commands,
            self.exporters,
        ):
            registry.withdraw(owner)

    def _collect_observers(self) -> StepObservers | None:
        started, finished = (
            list(self._manager.implementations(f"graphmill_step_{event}"))
            for event in ("started", "finished")
        )
        if not started and not finished:
            return None
        from graphmill.plugin.step_observers import Observer, StepObservers  # few hosts have any

        return StepObservers(
            *(
                [Observer(record, partial(call_with, hook)) for record, hook in hooks]
                for hooks in (started, finished)
            )
        )

    def _note_hooks(self) -> None:
        """Record hooks that register nothing; some plugins implement only such hooks."""
        for name in ("configure", "step_started", "step_finished"):
            for record, _ in self._manager.implementations(f"graphmill_{name}"):
                record.registered.setdefault("hooks", []).append(name)


def _variant_codec(value: object) -> VariantCodec:
    from graphmill.runtime.variants.variant_codec import VariantCodec

    codec: VariantCodec = instance_of(VariantCodec)(value)
    return codec


def _session_factory(value: object) -> SessionFactory:
    from graphmill.runtime.session_interface import SessionFactory

    factory: SessionFactory = instance_of(SessionFactory)(value)
    return factory


def _server_factory(value: object) -> ServerFactory:
    from graphmill.runtime.server_interface import ServerFactory

    factory: ServerFactory = instance_of(ServerFactory)(value)
    return factory


class _Assembly:
    """The default host while it is assembled: a minimal Future, whose module is slow to import."""

    def __init__(self) -> None:
        self.builder = threading.get_ident()
        self.done = threading.Event()
        self.host: Host
        self.error: BaseException | None = None
        fork.track_forks(self)

    @property
    def is_made_by_this_thread(self) -> bool:
        return not self.done.is_set() and self.builder == threading.get_ident()

    def after_fork_in_child(self) -> None:
        """Reset the default host if the thread that assembled it did not survive the fork."""
        global _default
        if not self.done.is_set() and self is _default and not self.is_made_by_this_thread:
            _default = None

    def result(self) -> Host:
        self.done.wait()
        if self.error is not None:
            raise self.error
        return self.host


_default_lock = fork.fork_safe_lock()  # guards _default, never held in plugin code
_default: _Assembly | None = None


def default_host() -> Host:
    """Return the host of sessions without an explicit one; the first call assembles it.

    Threads: any. While one thread assembles the host, the others wait. If that fails, all of them
    get the error, and the next call tries again.

    Raises:
        FailedPreconditionError: a plugin calls this while the host is being assembled.
    """
    global _default
    with _default_lock:
        assembly, is_ours = _default, _default is None
        if assembly is None:
            assembly = _default = _Assembly()
    if is_ours:
        _assemble_default(assembly)
    elif assembly.is_made_by_this_thread:
        raise errors.FailedPreconditionError(
            "a plugin called default_host() while the default host is being assembled; use the "
            "arguments of the hook, or implement graphmill_configure(host)"
        )
    return assembly.result()


def _assemble_default(assembly: _Assembly) -> None:
    global _default
    try:
        assembly.host = Host()
    except BaseException as error:
        with _default_lock:
            _default = None
        assembly.error = error
        raise
    finally:
        assembly.done.set()
