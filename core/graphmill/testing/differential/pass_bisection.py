"""Find by bisection the graph pass that changes a result (clause P4).

    culprit = bisect(graph, fetches=["y:0"], feeds={"x:0": x})

`bisect` runs the graph in sessions on copies of a host that lack some of its passes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.plugin.host import Host, default_host
from graphmill.plugin.pass_registry import PHASES
from graphmill.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Same = Callable[[Any, Any], bool]


def without_passes(host: Host, names: Iterable[str]) -> Host:
    """Return a copy of `host` without the passes of `names`."""
    other = copy.copy(host)
    other.passes = host.passes.without(names)
    return other


def pass_names(host: Host) -> list[str]:
    """Return the names of all passes of a host in the order in which they run."""
    return [name for phase in PHASES for name, _ in host.passes.scheduled_in(phase)]


def bisect(
    graph: Any,
    fetches: Sequence[str],
    feeds: Mapping[str, Any] | None = None,
    *,
    host: Host | None = None,
    config: Any = None,
    same: Same | None = None,
) -> str | None:
    """Return the name of the first pass that changes a result, or None.

    Passes are added one by one in the order in which they run, and the results are compared with
    those without passes.

    Args:
        graph: a graph in any form that `Session` accepts.
        fetches: names of tensors.
        feeds: values by tensor name.
        host: the host with the passes; by default the default host.
        config: the session's config.
        same: compares two results; by default dtype, shape and values within rounding.

    Raises:
        OpError: the graph fails without passes.
    """
    host = host or default_host()
    names = pass_names(host)
    is_same = same or _is_same

    def run(active: Sequence[str]) -> list[Any]:
        left_out = [name for name in names if name not in active]
        with Session(graph=graph, config=config, host=without_passes(host, left_out)) as session:
            results: list[Any] = session.run(list(fetches), dict(feeds or {}))
            return results

    expected = run(())
    for count in range(1, len(names) + 1):
        results = run(names[:count])
        if not all(is_same(a, b) for a, b in zip(expected, results, strict=True)):
            return names[count - 1]
    return None


def _is_same(expected: Any, actual: Any) -> bool:
    a, b = np.asarray(expected), np.asarray(actual)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "fc":
        return bool(np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True))
    return bool(np.array_equal(a, b))
