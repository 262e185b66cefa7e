"""Choose the kernel of a node on a device among the registered ones, with reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphmill.registry import PluginConflictError, Provenance
from graphmill.runtime.kernels.lowering_registry import supplier_of
from graphmill.runtime.kernels.op_kernel import python_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill.dtypes import DType
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.runtime.kernels.kernel import KernelDef

LABEL_ATTR = "_kernel"


class Registration(NamedTuple):
    """A kernel and the plugin that supplied it."""

    definition: KernelDef
    owner: object


class KernelChoice(NamedTuple):
    """The result of a lookup.

    Attributes:
        definition: the kernel that was chosen.
        owner: the plugin that supplied it.
        backend: the backend of the device that it runs on.
        rejected: the source of each other kernel and the reason against it, for `explain`.
    """

    definition: KernelDef
    owner: object
    backend: str
    rejected: tuple[tuple[str, str], ...]


Found: TypeAlias = tuple[KernelChoice | None, tuple[tuple[str, str], ...]]
"""The chosen kernel of a node, and the rejected kernels with their reasons."""


def choose_kernel(
    op_def: OpDef,
    attrs: Mapping[str, Any],
    device_type: str,
    backends: Sequence[str],
    candidates: Sequence[Registration],
) -> Found:
    """Return the kernel of a node on a device, and why the others were rejected.

    Args:
        op_def, attrs: the node's op and attrs.
        device_type: the type of its device.
        backends: the backends that the device accepts, most preferred first.
        candidates: the kernels of the op.

    Raises:
        PluginConflictError: two kernels match equally.
    """
    rejected: list[tuple[str, str]] = []
    for backend in backends:
        fitting = []
        for candidate in candidates:
            reason = _misfit(candidate.definition, attrs, device_type, backend)
            if reason is None:
                fitting.append(candidate)
            else:
                rejected.append((_describe(candidate), reason))
        if fitting:
            best = _best(op_def.name, fitting)
            rejected.extend((_describe(c), "ranks lower") for c in fitting if c is not best)
            choice = KernelChoice(best.definition, best.owner, backend, tuple(rejected))
            return choice, choice.rejected
    return None, tuple(rejected)


def _misfit(
    definition: KernelDef, attrs: Mapping[str, Any], device_type: str, backend: str
) -> str | None:
    """Return why a kernel does not match a node on a device, or None if it does."""
    if definition.device and device_type not in definition.device:
        return f"is for device types {', '.join(definition.device)}"
    if definition.backend is not None and definition.backend != backend:
        return f"is for backend {definition.backend}, the device runs {backend}"
    label = attrs.get(LABEL_ATTR, b"")
    if definition.label.encode() != label:
        return f"has label {definition.label!r}, the node asks for {python_value(label)!r}"
    for name, allowed in definition.types.items():
        value: DType | tuple[DType, ...] | None = attrs.get(name)
        for dtype in value if isinstance(value, tuple) else (value,):
            if dtype is not None and dtype not in allowed:
                return f"takes {name} in {', '.join(d.name for d in allowed)}, not {dtype.name}"
    return None


def _rank(entry: Registration) -> tuple[int, bool, bool]:
    definition = entry.definition
    return definition.priority, definition.backend is not None, bool(definition.device)


def _best(op: str, fitting: Sequence[Registration]) -> Registration:
    best = max(fitting, key=_rank)
    equal = [entry for entry in fitting if _rank(entry) == _rank(best)]
    if len(equal) > 1:
        raise PluginConflictError(
            f"op {op!r} has kernels that fit equally: {' and '.join(map(_describe, equal))}. "
            "Give one a higher priority, or disable one of the plugins (GRAPHMILL_DISABLE_PLUGINS)",
            owners=tuple(e.owner for e in equal if isinstance(e.owner, Provenance)),
        )
    return best


def _describe(entry: Registration) -> str:
    supplied = f" of {entry.owner}" if entry.owner is not None else ""
    return f"{entry.definition.source}{supplied}"


def is_of_same_supplier(entry: Registration, choice: KernelChoice) -> bool:
    """Return whether a kernel has the supplier of the chosen one, and no lower priority."""
    if entry.definition.priority < choice.definition.priority:
        return False
    return supplier_of(entry.owner) == supplier_of(choice.owner)


def no_kernel_message(
    op_def: OpDef,
    attrs: Mapping[str, Any],
    device_type: str,
    rejected: Iterable[tuple[str, str]],
    unsupported: str = "",
) -> str:
    """Return the message for an op that no kernel matches.

    Args:
        op_def: the op.
        attrs: those of the node.
        device_type: that of the device.
        rejected: the registered kernels, each with the reason against it.
        unsupported: why there is none, "" if that is unknown.
    """
    types = ", ".join(
        f"{name}={_type_name(attrs[name])}"
        for name in (attr.name for attr in op_def.attrs if attr.type == "type")
        if name in attrs
    )
    message = f"no kernel for op {op_def.name!r} on device type {device_type!r}"
    if types:
        message += f" ({types})"
    reasons = [f"{source}: {reason}" for source, reason in rejected]
    if not reasons:
        if unsupported:
            return (
                f"{message}. None is registered, because {unsupported}; "
                "a plugin may supply one (graphmill_register_kernels)"
            )
        return (
            f"{message}. None is registered; a plugin may supply one (graphmill_register_kernels). "
            "A kernel in a module that is imported on first use counts only if the module's list "
            "of ops names this one"
        )
    return message + ". Registered: " + "; ".join(reasons)


def _type_name(value: Any) -> str:
    return str(getattr(value, "name", value))
