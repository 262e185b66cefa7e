"""Complete arguments in the shell: files, inputs of a model, names.

Each function is a `shell_complete` of click: it gets the context of the incomplete command line,
the parameter and the text before the cursor. A model that cannot be read has no names to offer. The
shell inserts a name as it is, so a name that it would interpret, perhaps as a command, is not
offered.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Final

from click.shell_completion import CompletionItem

from graphmill.errors import OpError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

    from graphmill.models.summary import Signature
    from graphmill.plugin.host import Host


_PLAIN: Final = re.compile(r"(?!-)[\w./:@%+,=-]+")
"""A word that needs no quotes in any shell, and is no option."""


def complete_file(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer files and folders."""
    del ctx, param
    return [CompletionItem(incomplete, type="file")]


def complete_model_or_input(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer files for MODEL, which is the first argument, then the inputs of the model."""
    given = [*_text_of(ctx.params.get("model")), *_text_of(ctx.params.get(param.name or ""))]
    if not given or "@" in incomplete:
        return complete_file(ctx, param, incomplete)
    known = {text.partition("=")[0] for text in given[1:]}
    signatures = _signatures(given[0])
    key = ctx.params.get("signature") or "serving_default"
    chosen = signatures.get(key) or next(iter(signatures.values()), None)
    names = [] if chosen is None else [port.name for port in chosen.inputs]
    return _starting_with(incomplete, (f"{name}=" for name in names if name not in known))


def complete_signature(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the signatures of the model."""
    del param
    # An option without its value ends click's parsing: the arguments before it are `ctx.args`.
    return _starting_with(incomplete, _signatures(ctx.args[0]) if ctx.args else ())


def complete_op(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the names of ops."""
    del param
    return _starting_with(incomplete, _host(ctx).ops.names())


def complete_device(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the types of devices."""
    del param
    return _starting_with(incomplete, _host(ctx).devices.keys())


def _host(ctx: click.Context) -> Host:
    host: Host = ctx.find_root().obj.the_host()  # the `Settings` of the command line
    return host


def _text_of(value: object) -> tuple[str, ...]:
    """Return the values that a parameter has so far, one or several."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, tuple) else ()


def _starting_with(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [
        CompletionItem(name)
        for name in sorted(names)
        if name.startswith(incomplete) and _PLAIN.fullmatch(name)
    ]


def _signatures(model: str) -> dict[str, Signature]:
    """Return the signatures of a model by key; none if it has none or cannot be read."""
    from graphmill.graph.formats.model_file import open_model
    from graphmill.graph.formats.model_format import Kind
    from graphmill.models.summary import signatures_of

    try:
        with closing(open_model(model)) as opened:
            if opened.kind is Kind.GRAPH_DEF:
                return {}
            meta_graphs = [opened.meta_graph(index) for index in range(len(opened.tag_sets()))]
    except OpError:
        return {}
    return {
        key: signature
        for loaded in meta_graphs
        for key, signature in signatures_of(loaded.meta_graph_def.signature_def).items()
    }
