"""Reasons why the kernels of a cluster cannot be traced."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import graphmill
from graphmill.spi import Check, errors, hookimpl, kernel, op
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.tracing.traced_kernels import attempted


def looks_at_values(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def test_a_function_that_looks_at_traced_values_is_named() -> None:
    def trace(x: Any) -> Any:
        return attempted(looks_at_values, [x], "mine.looks_at_values", None)

    with pytest.raises(NotTraceable, match=r"mine\.looks_at_values needs the values of traced"):
        jax.make_jaxpr(trace)(np.ones(2, np.float32))


def any_positive(xp: Any, x: Any) -> bool:
    return bool(xp.any(x > 0))


@op("Mine>Same")
@kernel("Mine>Same", check=Check(any_positive, errors.InvalidArgumentError))
def same(xp: Any, x: np.float32) -> np.float32:
    return x


class Plugin:
    @hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        ops.add(same)

    @hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        kernels.add(same)


def test_a_predicate_that_looks_at_traced_values_is_refused_with_advice_on_predicates() -> None:
    host = graphmill.Host(plugins=[Plugin()])
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        y = graphmill.op_function(same)(x * 2.0, name="y")
    config = {"graphmill": {"jit": "eager"}}
    with graphmill.Session(graph=graph, host=host, config=config) as session:
        session.run(y, {x: [1.0]})
        (compilation,) = session.explain(y, [x]).compilations.values()
    (signature,) = compilation.clusters[0].signatures
    assert "any_positive needs the values of traced arrays" in signature.reason
    assert "A predicate of check= is traced" in signature.reason
    assert ".." not in signature.reason
