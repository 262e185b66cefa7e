"""`CompiledForms`: what the compiler traces for each node of a cluster, for `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from graphmill.spi import Source
from graphmill.spi.compilers import COPY_TO_DEVICE, COPY_TO_HOST
from graphmill_plugins.jit.ir.lowering_choices import followed_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.spi import Node
    from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies


class CompiledForms(Mapping[str, str]):
    """The form of each node of a cluster and of the functions that it calls, by its name.

    They are found at the first look-up, because most clusters are never explained.

    Args:
        bodies: the cluster; released after the first look-up.
    """

    def __init__(self, bodies: ScheduledBodies) -> None:
        self._bodies: ScheduledBodies | None = bodies
        self._forms: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> dict[str, str]:
        bodies = self._bodies
        if bodies is not None:  # two threads may find the same
            self._forms = _forms_in(bodies)
            self._bodies = None
        return self._forms


def _forms_in(bodies: ScheduledBodies) -> dict[str, str]:
    forms: dict[str, str] = {}
    pending, seen = [bodies.main], set()
    while pending:
        scheduled = pending.pop()
        if id(scheduled) in seen:
            continue
        seen.add(id(scheduled))
        for node in scheduled.nodes:
            if node.op_def not in (COPY_TO_DEVICE, COPY_TO_HOST):
                forms.setdefault(node.name, _form_of(node, bodies.choices))
            pending += map(bodies.function, followed_functions(node))
    return forms


def _form_of(node: Node, choices: LoweringChoices) -> str:
    source = node.op_def.traits.source
    if source in (Source.CONSTANT, Source.VARIABLE):
        return "constant" if source is Source.CONSTANT else "variable"
    choice = choices.of(node, refuses=False)
    if isinstance(choice, str):
        return f"none: {choice}"
    if choice.has_function and choice.lowering is not None:
        return f"lowering {choice.lowering.source}"
    if choice.is_call:
        names = dict.fromkeys(function.name for function in followed_functions(node))
        return f"body of {', '.join(names)}"
    return "" if choice.kernel is None else f"kernel {choice.kernel.definition.source}"
