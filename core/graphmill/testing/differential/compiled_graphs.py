"""Compare compiled steps with interpreted ones, on random graphs of all kinds.

    difference = find_jit_difference("structured", 7, host)

Each graph runs in two sessions: one compiles nothing, the other compiles everything that it can
before the first step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import proto
from graphmill.errors import OpError
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.session.session import Session
from graphmill.testing.generators.control_flow_graphs import structured_graph
from graphmill.testing.generators.dataflow_graphs import random_graph
from graphmill.testing.generators.variable_graphs import variable_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.plugin.host import Host

KINDS: Final = ("flat", "structured", "references", "variables")
"""Kinds of random graphs: dataflow, control flow, control flow with references, variables."""

_RTOL: Final = 1e-5
_ATOL: Final = 1e-5
_STEPS: Final = 3  # steps of a graph with variables


def jit_config(mode: str, device_type: str = "") -> proto.ConfigProto:
    """Return a config that compiles clusters of any size in `mode`.

    Args:
        mode: a value of `config.graphmill.jit`, or `"deterministic"`.
        device_type: the type of an additional device of the session; empty for none.
    """
    config = proto.ConfigProto()
    if device_type:
        config.device_count[device_type] = 1
        config.allow_soft_placement = True
    if mode == "deterministic":
        config.graphmill.deterministic = True
    else:
        config.graphmill.jit = mode
    config.graphmill.jit_min_cluster_size = 1
    return config


def find_jit_difference(
    kind: str, seed: int, host: Host, *, deterministic: bool = False, device_type: str = ""
) -> str:
    """Run the graph of a seed compiled and interpreted; return the difference, or "".

    Args:
        kind: one of `KINDS`.
        seed: the seed of the graph.
        host: the host of the sessions.
        deterministic: run clusters only as straight-line code; results must be equal bit for bit.
        device_type: the device type to place nodes on, if it has kernels; empty for no request.
    """
    name, graph_def, feeds, start, steps = _generate(kind, seed, host)
    if device_type:
        for node in graph_def.node:
            node.device = f"/device:{device_type}:0"

    def results(mode: str) -> list[Any]:
        return _results(graph_def, feeds, start, steps, host, jit_config(mode, device_type))

    expected = results("off")
    if kind in ("structured", "references"):
        steps = _without_dead(steps, expected)
        expected = results("off")
    actual = results("deterministic" if deterministic else "eager")
    for step, expected_value, actual_value in zip(steps, expected, actual, strict=True):
        if not _same(expected_value, actual_value, _is_equal if deterministic else _is_close):
            return f"{name}, {step}: {actual_value!r}, not {expected_value!r}"
    return ""


_Steps = list[tuple[list[str], list[str]]]


def _generate(kind: str, seed: int, host: Host) -> tuple[str, Any, dict[str, Any], str, _Steps]:
    """Return name, graph, feeds, the initial node, and the fetches and targets of the steps."""
    if kind == "flat":
        flat = random_graph(seed, host.ops, nodes=12)
        return flat.name, flat.graph_def, flat.feeds, "", [(list(flat.fetches), [])]
    if kind == "variables":
        variables = variable_graph(seed, host.ops)
        steps = [(list(variables.fetches), list(variables.targets))] * _STEPS
        return variables.name, variables.graph_def, variables.feeds, variables.start, steps
    graph = structured_graph(seed, host.ops, depth=2, references=kind == "references")
    graph_def = graph_to_graph_def(graph.graph)
    return graph.name, graph_def, graph.feeds, graph.start, [([f], []) for f in graph.fetches]


def _without_dead(steps: _Steps, results: Sequence[Any]) -> _Steps:
    """Return one step for all live fetches, and one step for each dead fetch."""
    alive: list[str] = []
    dead: _Steps = []
    for step, result in zip(steps, results, strict=True):
        if isinstance(result, str):
            dead.append(step)
        else:
            alive += step[0]
    return [*([(alive, [])] if alive else []), *dead]


def _results(
    graph_def: Any,
    feeds: dict[str, Any],
    start: str,
    steps: _Steps,
    host: Host,
    config: proto.ConfigProto,
) -> list[Any]:
    """Return the values of each step, or the class and message of its error."""
    results: list[Any] = []
    with Session(graph=graph_def, config=config, host=host) as session:
        if start:
            session.run([], targets=[start])
        for fetches, targets in steps:
            try:
                results.append(session.run(fetches, feeds, targets=targets))
            except OpError as error:
                results.append(f"{type(error).__name__}: {error.message}")
    return results


def _same(expected: Any, actual: Any, is_same: Callable[[Any, Any], bool]) -> bool:
    if isinstance(expected, str) or isinstance(actual, str):
        return bool(expected == actual)
    return all(map(is_same, expected, actual))


def _is_equal(expected: Any, actual: Any) -> bool:
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return False
    return bool(expected.tobytes() == actual.tobytes())


def _is_close(expected: Any, actual: Any) -> bool:
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return False
    if expected.dtype.kind not in "fc":
        return np.array_equal(expected, actual)
    return np.allclose(actual, expected, rtol=_RTOL, atol=_ATOL, equal_nan=True)
