"""`PluginManager`: loads plugins, calls their hooks one by one, and isolates their faults."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import pluggy

from graphmill import errors
from graphmill.plugin import discovery, hookspecs
from graphmill.plugin.markers import HOOK_PREFIX, PROJECT
from graphmill.plugin.records import PluginRecord
from graphmill.plugin.spi_version import spi_problem, spi_problem_of_source
from graphmill.plugin.version_check import unmet_requirement
from graphmill.registry import OWN_DISTRIBUTION, PluginConflictError, PluginError, PluginWarning
from graphmill.runtime.process.event_log import INFO, log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from graphmill.plugin.discovery import Candidate
    from graphmill.plugin.records import Status

    HookArguments = Callable[[PluginRecord], dict[str, object]]


class PluginManager:
    """Load and call the plugins of one host.

    If a plugin of another distribution fails, the manager warns once, records the fault and
    continues without it. A fault of a built-in plugin, or of one that the program passed in,
    raises.

    Threads: the thread that assembles the host uses it; afterwards it is only read.
    """

    def __init__(self) -> None:
        self.records: list[PluginRecord] = []
        self._hooks = pluggy.PluginManager(PROJECT)
        self._hooks.add_hookspecs(hookspecs)
        self._loaded: dict[str, PluginRecord] = {}  # by pluggy's plugin name, in hook order
        self._notes: list[str] = []

    def load_installed(self) -> None:
        """Load plugins from entry points, except those that the environment disables."""
        candidates = discovery.entry_point_plugins()
        if not any(c.distribution == OWN_DISTRIBUTION for c in candidates):
            self._notes.append(
                "the built-in plugins were not found: the distribution 'graphmill' is not "
                "installed here (in a checkout: pip install -e .)"
            )
        self._load_all(candidates)

    def load_from_environment(self) -> None:
        """Load the modules that `GRAPHMILL_LOAD_PLUGINS` names."""
        self._load_all(discovery.environment_plugins())

    def load_objects(self, plugins: Iterable[object]) -> None:
        """Load plugins of the program itself: modules, instances or classes.

        Raises:
            PluginError: one of them is unusable.
        """
        for plugin in plugins:
            name = self._free_name(plugin)
            record = PluginRecord(name, _module_of(plugin), "argument", is_required=True)
            self.records.append(record)
            self._register(record, plugin)

    def call_each(self, hook: str, arguments: HookArguments) -> None:
        """Call each plugin's implementation of `hook` separately; refuse plugins that raise.

        Args:
            hook: name of the hook.
            arguments: returns the arguments by name for the plugin of a record.
        """
        for record, implementation in list(self.implementations(hook)):
            if record.status != "loaded":
                continue
            try:
                call_with(implementation, arguments(record))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - isolate the plugin's fault
                reason = f"{hook} raised {_one_line(error)}"
                self.refuse(record, "failed", reason, error)

    def implementations(self, hook: str) -> Iterator[tuple[PluginRecord, pluggy.HookImpl]]:
        """Yield the implementations of a hook, in the loading order of their plugins."""
        position = {name: index for index, name in enumerate(self._loaded)}
        hookimpls = getattr(self._hooks.hook, hook).get_hookimpls()
        for implementation in sorted(hookimpls, key=lambda impl: position[impl.plugin_name]):
            yield self._loaded[implementation.plugin_name], implementation

    def refuse(
        self, record: PluginRecord, status: Status, reason: str, cause: BaseException | None = None
    ) -> None:
        """Stop using a plugin: record the reason and warn, or raise if the plugin is required.

        Raises:
            PluginError: the plugin is required.
        """
        record.status, record.error, record.exception = status, reason, cause
        log_event("plugins", INFO, "plugin refused", plugin=str(record.owner), reason=reason)
        if self._hooks.has_plugin(_key(record)):
            self._hooks.unregister(name=_key(record))
        message = f"{record.owner} is not used: {reason}"
        if record.is_required:
            if isinstance(cause, PluginConflictError):
                raise cause
            raise PluginError(message, plugin=record.name) from cause
        advice = f"Silence this with {discovery.DISABLE_VARIABLE}={record.name}"
        warnings.warn(f"{message}\n{advice}", PluginWarning, stacklevel=2)

    def failures(self) -> list[str]:
        """Return a line for each plugin that failed, for "not found" messages."""
        notes = [record.failure_note() for record in self.records]
        return self._notes + [note for note in notes if note]

    def _load_all(self, candidates: Sequence[Candidate]) -> None:
        disabled = discovery.disabled_names()
        enabled = []
        for candidate in candidates:
            record = _record_of(candidate)
            self.records.append(record)
            if discovery.is_disabled(candidate, disabled):
                record.status = "disabled"
                log_event("plugins", INFO, "plugin disabled", plugin=str(record.owner))
            else:
                enabled.append((candidate, record))
        rivals = _rivals(enabled)
        own = _own_version(candidates)
        for candidate, record in enabled:
            if record.name in rivals and not record.is_required:
                self.refuse(record, "conflict", _name_conflict(rivals[record.name]))
            elif unmet := unmet_requirement(candidate.requires, OWN_DISTRIBUTION, own):
                self.refuse(record, "failed", f"it needs graphmill {unmet}, this is {own}")
            else:
                self._load(candidate, record)

    def _load(self, candidate: Candidate, record: PluginRecord) -> None:
        try:
            plugin = candidate.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as in call_each
            reason = f"importing it raised {_one_line(error)}"
            self.refuse(record, "failed", spi_problem_of_source(candidate.module) or reason, error)
            return
        self._register(record, plugin)

    def _register(self, record: PluginRecord, plugin: object) -> None:
        earlier = self._hooks.get_name(plugin)
        if earlier is not None:
            other = self._loaded[earlier]
            if record.source != "entry point":
                self.records.remove(record)  # loaded already, so a second request adds nothing
                return
            reason = f"{record.module} is already registered by {other.owner}"
            self.refuse(record, "conflict", reason)
            return
        self._loaded[_key(record)] = record
        if problem := spi_problem(plugin):
            self.refuse(record, "failed", problem)
            return
        try:
            self._hooks.register(plugin, name=_key(record))
        except pluggy.PluginValidationError as error:
            self.refuse(record, "failed", f"{error}{self._expected_signature(error)}", error)
            return
        if problem := self._problem_with(plugin):
            self.refuse(record, "failed", problem)
        elif ordered := self._ordered_hook(plugin):
            warnings.warn(
                f"{ordered} of {record.owner} asks for an order, which has no effect: the order of "
                "plugins never matters. Remove tryfirst and trylast",
                PluginWarning,
                stacklevel=2,
            )

    def _ordered_hook(self, plugin: object) -> str:
        """Return the first hook of a plugin with `tryfirst` or `trylast`, or ""."""
        for caller in self._hooks.get_hookcallers(plugin) or []:
            for implementation in caller.get_hookimpls():
                is_ordered = implementation.tryfirst or implementation.trylast
                if implementation.plugin is plugin and is_ordered:
                    return caller.name
        return ""

    def _problem_with(self, plugin: object) -> str:
        """Return the problem with a plugin that pluggy accepts but we do not, or ""."""
        callers = self._hooks.get_hookcallers(plugin) or []
        for caller in callers:
            if caller.has_spec():
                continue
            if not all(i.optionalhook for i in caller.get_hookimpls() if i.plugin is plugin):
                return f"there is no hook {caller.name!r}{errors.suggest(caller.name, HOOKS)}"
        for caller in callers:
            for implementation in caller.get_hookimpls():
                if implementation.plugin is plugin and _is_wrapper(implementation):
                    return (
                        f"its {caller.name} is a wrapper; graphmill calls each plugin "
                        f"separately, so remove wrapper=True"
                    )
        marked = {caller.name for caller in callers}
        forgotten = [name for name in HOOKS if name not in marked and _has_function(plugin, name)]
        if forgotten:
            return (
                f"its {forgotten[0]} is not marked as a hook: decorate it with @graphmill.hookimpl"
            )
        if not callers:
            return "it implements no hook; decorate at least one with @graphmill.hookimpl"
        return ""

    def _expected_signature(self, error: pluggy.PluginValidationError) -> str:
        named = [name for name in HOOKS if repr(name) in str(error)]
        return f"\nexpected: {named[0]}{_parameters(named[0])}" if named else ""

    def _free_name(self, plugin: object) -> str:
        base = getattr(plugin, "__name__", None) or type(plugin).__name__
        taken = {record.name for record in self.records}
        name, suffix = str(base), 1
        while name in taken:
            suffix += 1
            name = f"{base}#{suffix}"
        return name


HOOKS = tuple(sorted(name for name in vars(hookspecs) if name.startswith(HOOK_PREFIX)))
"""The names of all hooks."""


def call_with(implementation: pluggy.HookImpl, arguments: dict[str, object]) -> object:
    """Call a hook implementation with the subset of `arguments` that it declares."""
    return implementation.function(*[arguments[name] for name in implementation.argnames])


def _key(record: PluginRecord) -> str:
    return f"{record.distribution}:{record.name}"


def _record_of(candidate: Candidate) -> PluginRecord:
    return PluginRecord(
        candidate.name,
        candidate.module,
        candidate.source,
        candidate.distribution,
        candidate.version,
        is_required=candidate.distribution == OWN_DISTRIBUTION,
    )


def _own_version(candidates: Iterable[Candidate]) -> str:
    return next((c.version for c in candidates if c.distribution == OWN_DISTRIBUTION), "")


def _rivals(enabled: Iterable[tuple[Candidate, PluginRecord]]) -> dict[str, list[PluginRecord]]:
    """Return the records of each name that several plugins use."""
    by_name: dict[str, list[PluginRecord]] = {}
    for _, record in enabled:
        by_name.setdefault(record.name, []).append(record)
    return {name: records for name, records in by_name.items() if len(records) > 1}


def _name_conflict(rivals: Sequence[PluginRecord]) -> str:
    sides = " and ".join(f"{r.distribution} {r.version} ({r.module})" for r in rivals)
    return (
        f"the name {rivals[0].name!r} is used by {sides}. Uninstall one, or disable it with "
        f"{discovery.DISABLE_VARIABLE}={rivals[-1].distribution}"
    )


def _module_of(plugin: object) -> str:
    if inspect.ismodule(plugin):
        return plugin.__name__
    named: Any = plugin if inspect.isclass(plugin) else type(plugin)
    return f"{named.__module__}:{named.__qualname__}"


def _has_function(plugin: object, name: str) -> bool:
    if inspect.ismodule(plugin):  # the common case; `vars` takes a tenth of the time
        return inspect.isroutine(vars(plugin).get(name))
    return inspect.isroutine(inspect.getattr_static(plugin, name, None))


def _is_wrapper(implementation: pluggy.HookImpl) -> bool:
    return bool(implementation.hookwrapper or getattr(implementation, "wrapper", False))


def _parameters(hook: str) -> str:
    return f"({', '.join(inspect.signature(getattr(hookspecs, hook)).parameters)})"


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
