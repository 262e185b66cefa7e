"""Gradients of random programs equal TensorFlow's, of first and second order.

`GRAPHMILL_GRADIENT_PROGRAMS=1000` compares 1,000 programs, `GRAPHMILL_GRADIENT_PROGRAMS=700:800`
those of the seeds 700 to 799.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np
import pytest
from tests.oracle.graphs.gradient_programs import SIZE, gradient_program
from tests.oracle.modes import configs

import graphmill
from graphmill import proto
from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill.testing.oracle.tensorflow_oracle import session_config

pytestmark = pytest.mark.oracle

MAX_COMPILED_NODES = 1500
"""Nodes, those of functions included, beyond which a graph with its gradients is only interpreted.

XLA needs minutes for the largest ones.
"""

STEPS = 2
"""Steps of each program; compiled and interpreted steps must agree."""


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_GRADIENT_PROGRAMS", "60").rpartition(":")
    return range(int(first or 0), int(end))


def differentiate(api: Any, graph: Any, request: Any, options: dict[str, Any]) -> list[Any]:
    """Add the requested gradients to the graph; None where there is none."""

    def tensors(names: list[str] | None) -> Any:
        return names and [graph.get_tensor_by_name(name) for name in names]

    xs = tensors(request.xs)
    found = api(
        tensors(request.ys),
        xs,
        tensors(request.grad_ys),
        stop_gradients=tensors(request.stop_gradients),
        unconnected_gradients=request.unconnected,
        **options,
    )
    whole = list(found)
    if not request.again:
        return whole
    known = [getattr(one, "values", one) for one in whole if one is not None]
    if not known:
        return whole
    again = api(known, xs, unconnected_gradients="none", **options)
    return [*whole, *again]


def fetched(gradients: list[Any]) -> list[Any]:
    """Return the tensors to fetch for gradients."""
    return [
        (one.values, one.indices) if hasattr(one, "indices") else one
        for one in gradients
        if one is not None
    ]


def with_none(gradients: list[Any], values: list[Any]) -> list[Any]:
    """Return the values of gradients, and None for those that do not exist."""
    known = iter(values)
    return [None if one is None else next(known) for one in gradients]


def summed(value: Any) -> Any:
    """Return rows added up at their indices, a whole gradient with as many rows; zero if None."""
    if value is None:
        return np.zeros(SIZE)
    rows, indices = value if isinstance(value, tuple) else (value, range(len(value)))
    total = np.zeros((SIZE, *np.shape(rows)[1:]))
    np.add.at(total, np.asarray(indices, int), rows)
    return total if total.any() else np.zeros(SIZE)


def theirs(tf: Any, program: Any) -> Any:
    v1 = tf.compat.v1
    with program.graph.as_default():
        found = differentiate(tf.gradients, program.graph, program.request, {})
        with v1.Session(graph=program.graph, config=session_config()) as session:
            if program.start:
                session.run(program.start)
            values = session.run([*program.request.ys, *fetched(found)], program.feeds)
    count = len(program.request.ys)
    return values[:count] + with_none(found, values[count:])


def ours(program: Any, message: bytes, config: Any) -> Any:
    graph = graphmill.Graph.from_graph_def(proto.GraphDef.FromString(message))
    with graph.as_default():
        found = differentiate(graphmill.gradients, graph, program.request, {})
    if count_of_nodes(graph) > MAX_COMPILED_NODES:
        config = jit_config("off")
    with graphmill.Session(graph=graph, config=config) as session:
        if program.start:
            session.run([], targets=[program.start])
        for _ in range(STEPS):
            values = session.run([*program.request.ys, *fetched(found)], program.feeds)
    count = len(program.request.ys)
    return values[:count] + with_none(found, values[count:])


def count_of_nodes(graph: Any) -> int:
    """Return the number of nodes of a graph and its functions."""
    message = graph.as_graph_def()
    return len(message.node) + sum(len(one.node_def) for one in message.library.function)


@contextlib.contextmanager
def control_flow(tf, version):
    """Have TensorFlow build control flow from primitives (1), or from calls of functions (2)."""
    v1 = tf.compat.v1
    was_on = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if version == 2 else v1.disable_control_flow_v2)()
    try:
        yield
    finally:
        (v1.enable_control_flow_v2 if was_on else v1.disable_control_flow_v2)()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds())
def test_gradients_of_a_program_are_tensorflows(seed, version, tf):
    compare(tf, seed, version)


def compare(tf, seed, version):
    """Fail where gradients differ from TensorFlow's.

    TensorFlow does not differentiate loops of primitives twice: it refuses them, or ignores the
    values that are saved for the backward loop. So their second derivatives are compared with those
    of the same program with loops of functions. Where TensorFlow fails there as well, first
    derivatives are compared.
    """
    with control_flow(tf, version):
        program = gradient_program(tf, seed)
    if version == 1 and "TensorArrayV3" in {node.type for node in program.graph.get_operations()}:
        program.request.again = False  # a gradient array has no gradient, in both
    message = program.graph.as_graph_def().SerializeToString()
    expected = None
    if program.request.again:
        with control_flow(tf, 2), contextlib.suppress(TypeError, LookupError, RecursionError):
            expected = theirs(tf, gradient_program(tf, seed))
    if expected is None:
        program.request.again = False
        with control_flow(tf, version):
            expected = theirs(tf, program)
    for mode, config in configs(seed).items():
        found = ours(program, message, config)
        for number, (value, wanted) in enumerate(zip(found, expected, strict=True)):
            np.testing.assert_allclose(
                summed(value),
                summed(wanted),
                1e-6,
                1e-8,
                err_msg=f"{mode}, number {number} of {program.request}",
            )
