"""Find what is wrong with an installation, and how to fix it, for `graphmill doctor`.

The functions report a broken plugin as a finding; they do not raise its error.
"""

from __future__ import annotations

import re
from importlib import metadata
from typing import TYPE_CHECKING, Final

from graphmill import distribution, errors
from graphmill.plugin.version_check import normalized, unmet_clauses
from graphmill.registry import PluginError
from graphmill.runtime.kernels.lowering_registry import supplier_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphmill.ops.definition.op_def import OpDef
    from graphmill.plugin.host import Host
    from graphmill.plugin.records import PluginRecord

_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;@)]*)\)?\s*(;?)")
_RELEASE: Final = re.compile(r"\d+(?:\.\d+)*")
_LAZY: Final = ("devices", "executors", "passes", "transports", "commands")


def advice_on_plugins(host: Host) -> list[str]:
    """Return advice on unused plugins and on broken registrations."""
    advice = []
    for record in host.plugins:
        if record.status in ("failed", "conflict"):
            advice.append(_advice_on_unused(record))
        elif record.status == "loaded" and not record.owner.is_builtin:
            advice += _advice_on_payloads(host, record)
            if not advice_on_requirements([record.distribution]):  # else the requirement is why
                advice += _advice_on_devices(host, record)
            advice += _advice_on_undefined_ops(host, record, "kernels")
            advice += _advice_on_undefined_ops(host, record, "lowerings")
            advice += _advice_on_unused_lowerings(host, record)
    return advice


def advice_on_distributions() -> list[str]:
    """Return advice if both distributions of graphmill are installed: they have the same files."""
    installed = distribution.installed()
    if len(installed) < 2:
        return []
    both = " and ".join(f"{name} {version}" for name, version in installed.items())
    remedy = f"pip uninstall {' '.join(installed)}, then install one of them"
    return [f"{both} are both installed, and have the same files: {remedy}"]


def advice_on_requirements(distributions: Iterable[str]) -> list[str]:
    """Return advice on missing or mismatched requirements of distributions."""
    advice = []
    for name in dict.fromkeys(distributions):
        for needed, clauses in _requirements(name):
            installed, install = _installed(needed), f"pip install '{needed}{clauses}'"
            if installed is None:
                advice.append(f"{name} needs {needed}, which is not installed: {install}")
            elif not _is_met(clauses, installed):
                advice.append(
                    f"{name} needs {needed} {clauses}, but {installed} is installed: {install}"
                )
    return advice


def _installed(needed: str) -> str | None:
    """Return the installed version of a requirement; graphmill-lite counts as graphmill."""
    if normalized(needed) == distribution.FULL:
        return next(iter(distribution.installed().values()), None)
    return version_of(needed)


def version_of(distribution: str) -> str | None:
    """Return the version of an installed distribution; None if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _advice_on_unused(record: PluginRecord) -> str:
    lines = record.error.splitlines()
    cause = "; ".join(line for line in lines if line) if "hookimpl" in record.error else lines[0]
    off = f"or disable it with GRAPHMILL_DISABLE_PLUGINS={record.name}"
    who = _owner(record)
    if record.status == "conflict":
        return f"plugin {record.name!r} of {who} conflicts: {cause}"
    if "needs graphmill" in record.error:
        return f"plugin {record.name!r} of {who}: {cause}; upgrade {who.split()[0]} or graphmill"
    if f"No module named {record.module.partition(':')[0]!r}" in record.error:
        return (
            f"plugin {record.name!r} of {who}: its entry point names {record.module!r}, which does "
            f"not exist; reinstall {who.split()[0]}, report it to its author, {off}"
        )
    if "No module named" in record.error:
        return f"plugin {record.name!r} of {who}: {cause}; install the missing package, {off}"
    return f"plugin {record.name!r} of {who}: {cause}; report it to its author, {off}"


def _advice_on_payloads(host: Host, record: PluginRecord) -> Iterator[str]:
    """Yield advice on registered objects that cannot be imported."""
    for kind in _LAZY:
        registry = getattr(host, kind)
        for name in record.registered.get(kind, ()):
            if registry.provenance(name) != record.owner:
                continue  # another plugin's registration is used
            try:
                registry.get(name)
            except errors.OpError as error:
                yield (
                    f"plugin {record.name!r} of {_owner(record)}: {error.message}; report it "
                    "to its author"
                )


def _advice_on_devices(host: Host, record: PluginRecord) -> Iterator[str]:
    """Yield advice on device types whose devices cannot be created."""
    from graphmill.proto import ConfigProto
    from graphmill.session.session_devices import devices_of

    for name in record.registered.get("devices", ()):
        if host.devices.provenance(name) != record.owner:
            continue
        try:
            devices = devices_of(host, name, ConfigProto(device_count={name: 1}))
        except PluginError:
            continue  # `_advice_on_payloads` reports it
        except errors.OpError as error:
            cause = error.message.removeprefix(f"{record.owner} ")
            yield f"plugin {record.name!r} of {_owner(record)} {cause}; report it to its author"
            continue
        for device in devices:
            device.close()


def _advice_on_undefined_ops(host: Host, record: PluginRecord, kind: str) -> Iterator[str]:
    unknown = record.undefined_ops(kind, host.ops)
    if unknown:
        yield (
            f"plugin {record.name!r} of {_owner(record)} has {kind} for undefined ops, so they "
            f"are never used: {', '.join(unknown)}; install the plugin that defines the ops, or "
            "correct their names"
        )


def _advice_on_unused_lowerings(host: Host, record: PluginRecord) -> Iterator[str]:
    """Yield advice on lowerings for ops that the plugin's distribution has no kernel for."""
    named = dict.fromkeys(record.registered.get("lowerings", ()))
    defined = [op_def for op_def in map(host.ops.find, named) if op_def is not None]
    supplier = record.owner.supplier
    unused = [op_def.name for op_def in defined if supplier not in _suppliers(host, op_def)]
    if unused:
        yield (
            f"plugin {record.name!r} of {_owner(record)} has lowerings for ops that it has no "
            f"kernel for, so they are never used: {', '.join(unused)}; a lowering is only used "
            "with kernels of its own distribution, so register a kernel for each op"
        )


def _suppliers(host: Host, op_def: OpDef) -> set[object]:
    """Return the plugins that supply kernels of an op; if there are none, the one defining it."""
    entries = host.kernels.registrations(op_def)
    suppliers = {supplier_of(entry.owner) for entry in entries}
    return suppliers or {supplier_of(host.ops.provenance(op_def.name))}


def _owner(record: PluginRecord) -> str:
    """Return the distribution and version of a plugin; its module if it has none."""
    return f"{record.distribution} {record.version}".strip() or record.module


def _requirements(distribution: str) -> Iterator[tuple[str, str]]:
    """Yield the name and version specifier of a distribution's unconditional requirements."""
    if not distribution:
        return  # a plugin named by GRAPHMILL_LOAD_PLUGINS or the program has no distribution
    try:
        lines = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        match = _REQUIREMENT.match(line)
        if match is not None and not match[3]:  # pip resolves extras and markers
            yield match[1], match[2].strip()


def _is_met(clauses: str, version: str) -> bool:
    release = _RELEASE.match(version)
    return release is None or not unmet_clauses(clauses, release[0])
