"""List the element types that the cases cover, by op and type attr."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from graphmill.deprecations import renamed_name
from graphmill.dtypes import as_dtype
from graphmill.errors import OpError
from graphmill.testing.case_graph import case_graph

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.testing.case import Case

CoveredTypes = dict[str, dict[str, set[str]]]
"""Names of element types, by op and type attr."""


def covered_types(cases: Iterable[Case], ops: OpRegistry) -> CoveredTypes:
    """Return the dtypes of the nodes in all cases that expect a result."""
    types: CoveredTypes = defaultdict(lambda: defaultdict(set))
    for case in cases:
        if case.error:
            continue
        try:
            nodes = case_graph(case, ops).graph_def.node
        except OpError:  # a case with invalid attrs on purpose
            continue
        for node in nodes:
            for attr in ops.get(node.op).attrs:
                if attr.type == "type" and attr.name in node.attr:
                    name = as_dtype(node.attr[attr.name].type).base_dtype.name
                    types[node.op][attr.name].add(name)
    return types


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
