"""Compiled steps raise the interpreter's errors: code, node and op (clauses E8, S12).

Compiled code cannot raise. If an op refuses some values, a check reports them and the interpreter
runs the step again. Here, each op with such a check is compiled with the inputs of its first case,
and then called with invalid ones of the same shapes.
"""

from __future__ import annotations

import functools
import importlib
import warnings

import numpy as np
import pytest

from graphmill.errors import OpError
from graphmill.runtime.kernels.lowering import lowerings_of
from graphmill.session.session import Session
from graphmill.testing.case import load_cases
from graphmill.testing.case_graph import case_graph
from graphmill_plugins import lowerings
from graphmill_plugins.lowerings._ops import OPS

pytestmark = [pytest.mark.jax, pytest.mark.divided]


def checks_by_op():
    """Return a predicate of each op whose check names an error."""
    modules = [importlib.import_module(f"{lowerings.__name__}.{name}") for name in OPS]
    return {
        op: check.predicate
        for module in modules
        for declared in lowerings_of(module)
        for op in declared.ops
        for check in declared.checks
        if check.error is not None
    }


TABLE = checks_by_op()


@functools.cache
def cases_by_op():
    """Return the single-op cases of each op: one that succeeds, and all that fail."""
    answered, refused = {}, {}
    for case in load_cases():
        if case.program is None:
            if case.error:
                refused.setdefault(case.op, []).append(case)
            else:
                answered.setdefault(case.op, case)
    return answered, refused


def one_op_of_each_check():
    """Return one op for each check; ops that share a check are equivalent."""
    found = {}
    for op in sorted(TABLE, key=lambda op: (op.startswith("Batch"), op)):
        if op in cases_by_op()[0]:
            found.setdefault(TABLE[op], op)
    return sorted(found.values())


def moving_inputs(host, op):
    """Return the indices of the inputs that may be traced."""
    op_def = host.ops.get(op)
    kernels = host.kernels.registrations(op_def, ("jax",))
    static = {name for entry in kernels for name in entry.definition.static}
    return [i for i, arg in enumerate(op_def.input_args) if arg.name not in static]


def session(graph, host, mode):
    config = {"graphmill": {"jit": mode, "jitMinClusterSize": 1}}
    return Session(graph=graph.graph_def, host=host, config=config)


def outcome(running, graph, feeds):
    """Return the shapes of a step's results, or its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fetches, targets = graph.steps[0]
            values = running.run(list(fetches), feeds, targets=list(targets))
    except OpError as error:
        return type(error).__name__, error.node, error.op_type, error.message
    return [(np.shape(value), np.asarray(value).dtype) for value in values]


def worse(value):
    """Yield values of the same shape and type that ops may refuse."""
    if not isinstance(value, (np.ndarray, np.generic)) or not value.size:
        return
    yield np.zeros_like(value)
    if value.dtype.kind == "i":
        last = np.array(value)
        last.reshape(-1)[-1] = -1
        yield last
        last = np.array(value)
        last.reshape(-1)[-1] = 100
        yield last
        yield -1 - np.abs(value)
    elif value.dtype.kind in "fc":
        yield np.full_like(value, np.nan)


def test_each_op_that_refuses_values_has_a_check_s12(graphmill_host):
    """Each op that refuses values has a check, because compiled code cannot raise."""
    lacking = {
        case.op
        for case in load_cases()
        if case.error
        and case.program is None
        and "jax" in case.skip
        and case.op not in TABLE
        and compiled_kernel(graphmill_host, case.op)
    }
    assert not lacking


def compiled_kernel(host, op):
    kernels = host.kernels.registrations(host.ops.get(op), ("jax",))
    return any(entry.definition.is_traceable for entry in kernels)


@pytest.mark.parametrize("op", one_op_of_each_check())
def test_compiled_and_interpreted_ops_refuse_the_same_inputs_s12(op, graphmill_host):
    case = cases_by_op()[0][op]
    graph = case_graph(case, graphmill_host.ops)
    moving = tuple(f"in{number}" for number in moving_inputs(graphmill_host, op))
    cold = session(graph, graphmill_host, "off")
    hot = session(graph, graphmill_host, "eager")
    with cold, hot:
        assert outcome(hot, graph, graph.feeds) == outcome(cold, graph, graph.feeds)
        for name, value in graph.feeds.items():
            for other in worse(value) if name.startswith(moving) else ():
                feeds = {**graph.feeds, name: other}
                assert outcome(hot, graph, feeds) == outcome(cold, graph, feeds), (name, other)


@pytest.mark.parametrize("op", sorted(TABLE.keys() & cases_by_op()[1].keys()))
def test_a_refused_case_is_refused_in_every_step_e8(op, graphmill_host):
    case = cases_by_op()[1][op][0]
    graph = case_graph(case, graphmill_host.ops)
    cold = session(graph, graphmill_host, "off")
    hot = session(graph, graphmill_host, "eager")
    with cold, hot:
        expected = outcome(cold, graph, graph.feeds)
        for _ in range(3):
            assert outcome(hot, graph, graph.feeds) == expected
