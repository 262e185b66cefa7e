"""Examples of requests: their sizes multiply, and there may be millions of them."""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import pytest
from tests.security.test_hostile_values import graph_of

import graphmill
from graphmill import errors, proto

BUDGET: Final = 64 << 20
COUNT: Final = 50_000
"""As many examples with as many values are 10 GB."""

_KEY: Final = (
    "n = Const(dtype=string, value='string[0]'); k = Const(dtype=string, value=\"string: 'k'\"); "
)
_DENSE: Final = (
    f"{_KEY}p = ParseExample(f, n, [], [k], [g], Tdense=[float32], dense_shapes=[[{{size}}]], "
    "sparse_types=[]); y = Identity(p)"
)
_LISTS: Final = (
    f"{_KEY}p = ParseSequenceExample(f, n, [], feature_list_dense_missing_assumed_empty=['k'], "
    "context_sparse_keys=[], context_dense_keys=[], feature_list_sparse_keys=[], "
    "feature_list_dense_keys=['k'], feature_list_dense_types=[float32], "
    "Nfeature_list_dense=1, feature_list_dense_shapes=[[]]); y = Identity(p[0], after=[g])"
)


def example(count: int) -> bytes:
    """Return an example with a number of values."""
    found = proto.Example()
    found.features.feature["k"].float_list.value.extend([1.0] * count)
    return found.SerializeToString()


def sequence(count: int) -> bytes:
    """Return a sequence example with a number of steps."""
    found = proto.SequenceExample()
    for _ in range(count):
        found.feature_lists.feature_list["k"].feature.add().float_list.value.append(1.0)
    return found.SerializeToString()


def run(nodes: str, examples: list[bytes], default: Any, timeout_ms: int = 0) -> Any:
    graph = graph_of(nodes, f="string: ['']", g="float32: [1.0]")
    for node in graph.node:
        if node.op == "Placeholder":
            node.attr["shape"].shape.Clear()
            node.attr["shape"].shape.unknown_rank = True
    config = {
        "graphmill": {"jit": "off", "memory_budget_bytes": BUDGET},
        "operation_timeout_in_ms": timeout_ms,
    }
    values = np.empty(len(examples), object)
    values[:] = examples
    with graphmill.Session(graph=graph, config=config, trust=False) as session:
        return session.run("y:0", {"f:0": values, "g:0": np.asarray(default, np.float32)})


def test_long_example_among_many_is_bounded() -> None:
    with pytest.raises(errors.ResourceExhaustedError, match="the dense feature"):
        run(_DENSE.format(size=-1), [example(COUNT)] + [b""] * COUNT, [0.0])
    assert run(_DENSE.format(size=-1), [example(2), b""], [0.0]).tolist() == [[1, 1], [0, 0]]


def test_long_default_of_many_examples_is_bounded() -> None:
    with pytest.raises(errors.ResourceExhaustedError, match="the dense feature"):
        run(_DENSE.format(size=COUNT), [b""] * COUNT, np.zeros(COUNT))
    assert run(_DENSE.format(size=2), [example(2), b""], [0, 3]).tolist() == [[1, 1], [0, 3]]


def test_long_list_among_many_is_bounded() -> None:
    with pytest.raises(errors.ResourceExhaustedError, match="padded feature list"):
        run(_LISTS, [sequence(COUNT)] + [b""] * COUNT, [0.0])
    assert run(_LISTS, [sequence(2), b""], [0.0]).tolist() == [[1, 1], [0, 0]]


MANY: Final = {
    "equal examples": (_DENSE.format(size=1), [example(1)]),
    "examples of many lengths": (_DENSE.format(size=-1), [example(n) for n in range(9)]),
    "sequences": (_LISTS, [sequence(1)]),
    "sequences of many lengths": (_LISTS, [sequence(n) for n in range(9)]),
}


@pytest.mark.parametrize("name", MANY)
def test_parsing_of_many_examples_ends_with_its_step(name: str) -> None:
    nodes, examples = MANY[name]
    many = examples * (2_000_000 // len(examples))
    started = time.process_time()
    with pytest.raises(errors.DeadlineExceededError):
        run(nodes, many, [0.0], timeout_ms=300)
    assert time.process_time() - started < 10
