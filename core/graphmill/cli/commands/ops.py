"""`graphmill ops`: list the registered ops, or describe one: inputs, outputs, attrs, kernels."""

from __future__ import annotations

import fnmatch
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from graphmill.cli.completion import complete_op
from graphmill.cli.diagnostics.op_coverage import survey
from graphmill.cli.options import Settings, common_options, pass_settings
from graphmill.cli.output.formatting import Block, Table, emit
from graphmill.cli.output.progress import stage
from graphmill.errors import NotFoundError, suggest
from graphmill.json_data import json_data
from graphmill.ops.definition.op_summaries import summary_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.ops.definition.op_def import ArgDef, OpDef
    from graphmill.plugin.host import Host
    from graphmill.runtime.kernels.kernel import KernelDef
    from graphmill.runtime.kernels.kernel_choice import Registration

_GLOB = "*?["
_NO_GRADIENT = "no gradient is registered; JAX differentiates the op where it is traceable"
_FEW_OPS = 3
"""A kernel's docstring describes its ops only if the kernel has at most this many."""


@click.command()
@click.argument("name", required=False, shell_complete=complete_op)
@click.option("--family", help="Only the ops of this family, such as math, nn or array.")
@click.option(
    "--kernels/--no-kernels",
    "has_kernel",
    default=None,
    help="Only the ops that have a kernel here, or only those that have none.",
)
@click.option(
    "--coverage",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help=(
        "Show how many ops of a survey of graphs have a kernel here, and how many of its "
        "graphs are covered."
    ),
)
@common_options
@pass_settings
def ops(
    settings: Settings,
    name: str | None,
    family: str | None,
    has_kernel: bool | None,
    coverage: Path | None,
) -> None:
    """List the ops, or show everything about the op NAME.

    NAME may be a pattern, such as 'Conv*'.
    """
    is_one = name is not None and not any(character in name for character in _GLOB)
    has_filters = family is not None or has_kernel is not None
    if coverage is not None and (name is not None or has_filters):
        raise click.UsageError("--coverage counts all ops: leave out NAME, --family and --kernels.")
    if is_one and has_filters:
        raise click.UsageError(
            f"--family and --kernels choose ops of a list: leave them out for {name!r}, or write a "
            "pattern."
        )
    host = settings.the_host()
    if coverage is not None:
        with stage("importing all kernels"):
            present = set(host.kernels.ops())
        report = survey(coverage, present)
        emit(report.data(), report.blocks(), as_json=settings.as_json)
    elif name is not None and is_one:
        _describe(settings, host, name)
    else:
        _list(settings, host, name or "*", family, has_kernel)


def _list(
    settings: Settings, host: Host, pattern: str, family: str | None, has_kernel: bool | None
) -> None:
    if family is not None and family not in host.ops.families():
        raise NotFoundError(
            f"there is no op family {family!r}{suggest(family, host.ops.families())}; "
            f"the families are {', '.join(sorted(host.ops.families()))}"
        )
    names = host.ops.names() if family is None else host.ops.ops_in(family)
    chosen = sorted(name for name in names if fnmatch.fnmatchcase(name, pattern))
    if has_kernel is not None:
        with stage("importing all kernels"):
            present = set(host.kernels.ops())
        chosen = [name for name in chosen if (name in present) is has_kernel]
    rows: list[Sequence[object]] = [
        (name, host.ops.family(name), summary_of(host.ops.get(name))) for name in chosen
    ]
    table = Table(("op", "family", "description"), rows)
    data = {"ops": [dict(zip(("name", "family", "summary"), row, strict=True)) for row in rows]}
    blocks: list[Block] = [table] if table.rows else ["no such op"]
    emit(data, blocks, as_json=settings.as_json)


def _describe(settings: Settings, host: Host, name: str) -> None:
    definition = host.ops.get(name)
    with stage(f"importing the kernels of {name}"):
        registrations = host.kernels.registrations(definition)
        gradients = _gradients(host, definition)
        lowerings = _lowerings(host, definition, registrations)
    data = {
        **_definition_data(definition),
        "summary": _summary(definition, registrations),
        "kernels": [_kernel_data(r) for r in registrations],
        "gradients": [one._asdict() for one in gradients],
        "lowerings": [one._asdict() for one in lowerings],
    }
    blocks = _blocks(definition, registrations)
    blocks += [_table("gradient", gradients) if gradients else _NO_GRADIENT]
    blocks += [_table("lowering", lowerings)] if lowerings else []
    emit(data, blocks, as_json=settings.as_json)


class _Declared(NamedTuple):
    """A declared gradient or lowering of an op, and the plugin that registered it."""

    source: str
    plugin: str


def _gradients(host: Host, definition: OpDef) -> list[_Declared]:
    """Return the gradient that is used for an op, if one is registered."""
    found = host.gradients.find(definition)
    if found is None:
        return []
    return [_Declared(found.source, str(host.gradients.owner_of(definition)))]


def _lowerings(
    host: Host, definition: OpDef, registrations: Sequence[Registration]
) -> list[_Declared]:
    """Return the traceable forms of an op: those that its kernels name, and all others."""
    declared = [(one.definition.lowering, one.owner) for one in registrations]
    declared += host.lowerings.registrations(definition.name)
    found = {
        _Declared(lowering.source, str(owner)): None
        for lowering, owner in declared
        if lowering is not None and lowering.function is not None
    }
    return list(found)


def _table(kind: str, declared: Sequence[_Declared]) -> Table:
    table = Table((kind, "plugin"))
    table.rows += [(one.source, one.plugin.removeprefix("plugin ")) for one in declared]
    return table


def _blocks(definition: OpDef, registrations: list[Registration]) -> list[Block]:
    head = f"{definition.name} ({definition.family})" if definition.family else definition.name
    traits = [
        text
        for applies, text in (
            (definition.is_stateful, "stateful"),
            (definition.is_commutative, "commutative"),
            (definition.is_aggregate, "aggregate"),
            (definition.deprecated_version > 0, f"deprecated: {definition.deprecated_reason}"),
        )
        if applies
    ]
    blocks: list[Block] = [", ".join([head, *traits])]
    if summary := _summary(definition, registrations):
        blocks.append(summary)
    arguments = Table(("", "name", "type"))
    arguments.rows += [("input", arg.name, _arg_type(arg)) for arg in definition.input_args]
    arguments.rows += [("output", arg.name, _arg_type(arg)) for arg in definition.output_args]
    if arguments.rows:
        blocks.append(arguments)
    attrs = Table(("attr", "type", "default", "allowed"))
    for attr in definition.attrs:
        default = str(json_data(_readable(attr.default))) if attr.has_default else "-"
        allowed = ", ".join(str(json_data(_readable(value))) for value in attr.allowed)
        minimum = f">= {attr.minimum}" if attr.minimum is not None else ""
        attrs.rows.append((attr.name, attr.type, default, allowed or minimum or "any"))
    if attrs.rows:
        blocks.append(attrs)
    blocks.append(_kernel_table(registrations) if registrations else "no kernel here")
    return blocks


def _summary(definition: OpDef, registrations: Iterable[Registration]) -> str:
    """Return what an op does: its summary, or the first sentence about one of its kernels.

    A kernel for many ops is described in general terms, which say nothing about one of them.
    """
    if summary := summary_of(definition):
        return summary
    for registration in registrations:
        kernel = registration.definition
        if len(kernel.ops) <= _FEW_OPS:
            documented = inspect.getdoc(kernel.function) if kernel.function.__doc__ else ""
            if first := (documented or "").partition("\n\n")[0].replace("\n", " "):
                return first
    return ""


def _kernel_table(registrations: Iterable[Registration]) -> Table:
    table = Table(("kernel", "device", "backend", "types", "plugin"))
    for registration in registrations:
        kernel = registration.definition
        table.rows.append((
            kernel.source,
            ", ".join(kernel.device) or "any",
            kernel.backend or ("host" if kernel.host else "any"),
            _types(kernel),
            str(registration.owner).removeprefix("plugin "),
        ))  # fmt: skip
    return table


def _types(kernel: KernelDef) -> str:
    return (
        "; ".join(
            f"{attr}: {', '.join(dtype.name for dtype in allowed)}"
            for attr, allowed in kernel.types.items()
        )
        or "any"
    )


def _arg_type(arg: ArgDef) -> str:
    """Return an argument's type as TensorFlow writes it: `T`, `N * float32`, `Ref(T)`."""
    base = arg.type.name if arg.type is not None else arg.type_attr or arg.type_list_attr
    text = f"{arg.number_attr} * {base}" if arg.number_attr else base
    return f"Ref({text})" if arg.is_ref else text


def _readable(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_readable(item) for item in value]
    return getattr(value, "name", value)


def _definition_data(definition: OpDef) -> dict[str, Any]:
    return {
        "name": definition.name,
        "family": definition.family,
        "is_stateful": definition.is_stateful,
        "inputs": [{"name": arg.name, "type": _arg_type(arg)} for arg in definition.input_args],
        "outputs": [{"name": arg.name, "type": _arg_type(arg)} for arg in definition.output_args],
        "attrs": [
            {
                "name": attr.name,
                "type": attr.type,
                "default": _readable(attr.default) if attr.has_default else None,
                "has_default": attr.has_default,
                "allowed": _readable(attr.allowed),
                "minimum": attr.minimum,
            }
            for attr in definition.attrs
        ],
    }


def _kernel_data(registration: Registration) -> dict[str, Any]:
    kernel = registration.definition
    return {
        "source": kernel.source,
        "device_types": list(kernel.device),
        "backend": kernel.backend,
        "host": kernel.host,
        "types": {name: [dtype.name for dtype in types] for name, types in kernel.types.items()},
        "label": kernel.label,
        "priority": kernel.priority,
        "plugin": str(registration.owner),
    }
