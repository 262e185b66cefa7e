"""Built-in cases: graphs from graphmill's builder, with results computed by NumPy."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import graphmill
from benchmark.case_folder import write_case
from graphmill import ops

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Built = tuple[Any, dict[str, Any], list[Any], dict[str, Any]]
    """The graph, feeds by name, results of `y`, and more entries of the specification."""


def write_own_cases(root: Path) -> None:
    """Write each case to its own folder below `root`."""
    for name, build in OWN_CASES.items():
        graph, feeds, expected, more = build()
        folder = root / name
        folder.mkdir(parents=True)
        (folder / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
        one = [value[0] if more.get("batches", 1) > 1 else value for value in feeds.values()]
        spec = {
            "name": name,
            "description": build.__doc__,
            "kind": "graph",
            "feeds": [
                {"name": f"{key}:0", "dtype": _type_name(value), "shape": list(value.shape)}
                for key, value in zip(feeds, one, strict=True)
            ],
            "fetches": ["y:0"],
            **more,
        }
        write_case(folder, spec, list(feeds.values()), expected)


def one_node() -> Built:
    """Build one Neg of four numbers, for the overhead of a step."""
    x = _numbers((4,))
    graph = graphmill.Graph()
    with graph.as_default():
        ops.math.neg(graph.placeholder("float32", (4,), name="x"), name="y")
    return graph, {"x": x}, [-x], {}


def chain() -> Built:
    """Build 300 dependent products and sums of eight numbers, for the overhead of a node."""
    x = _numbers((8,))
    graph = graphmill.Graph()
    with graph.as_default():
        fed = y = graph.placeholder("float32", (8,), name="x")
        for _ in range(150):
            y = y * 0.5 + fed
        ops.array.identity(y, name="y")
    expected = x
    for _ in range(150):
        expected = expected * np.float32(0.5) + x
    return graph, {"x": x}, [expected], {}


def loop() -> Built:
    """Build a `while_loop` of 2,000 iterations over scalars."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", (), name="x")
        _, y = graphmill.while_loop(
            lambda i, y: i < 2000, lambda i, y: (i + 1, y * 0.999 + x), [0, x]
        )
        ops.array.identity(y, name="y")
    expected = np.float32(1.5)
    for _ in range(2000):
        expected = expected * np.float32(0.999) + np.float32(1.5)
    return graph, {"x": np.float32(1.5)}, [expected], {}


def perceptron() -> Built:
    """Build three dense layers and a softmax for a batch of 32."""
    sizes = (128, 256, 256, 10)
    weights = [_numbers((a, b), seed=a + b) / np.float32(a**0.5) for a, b in pairwise(sizes)]
    x = _numbers((32, sizes[0]))
    graph = graphmill.Graph()
    with graph.as_default():
        y = graph.placeholder("float32", (None, sizes[0]), name="x")
        for index, weight in enumerate(weights):
            y = y @ graph.constant(weight)
            if index < len(weights) - 1:
                y = ops.nn.relu(y)
        ops.nn.softmax(y, name="y")
    expected = x
    for index, weight in enumerate(weights):
        expected = expected @ weight
        if index < len(weights) - 1:
            expected = np.maximum(expected, 0)
    exponents = np.exp(expected - expected.max(1, keepdims=True))
    return graph, {"x": x}, [exponents / exponents.sum(1, keepdims=True)], {}


def shapes() -> Built:
    """Build a selection of rows by a mask; their number differs from step to step."""
    x = _numbers((4, 1000))
    graph = graphmill.Graph()
    with graph.as_default():
        fed = graph.placeholder("float32", (None,), name="x")
        rows = ops.array.where(fed > 0.5)
        chosen = ops.array.gather_nd(fed, rows)
        ops.math.sum(chosen * 2.0, [0], name="y")
    expected = np.array([(row[row > 0.5] * 2).sum() for row in x], np.float32)
    return graph, {"x": x}, [expected], {"batches": 4, "steps": 4}


def strings() -> Built:
    """Build the concatenation of a thousand words with a suffix."""
    words = np.array([b"word%d" % number for number in range(1000)], object)
    graph = graphmill.Graph()
    with graph.as_default():
        fed = graph.placeholder("string", (None,), name="x")
        ops.string.string_join([fed, "suffix"], separator="-", name="y")
    expected = np.array([word + b"-suffix" for word in words], object)
    return graph, {"x": words}, [expected], {}


OWN_CASES: dict[str, Callable[[], Built]] = {
    f"own_{build.__name__}": build for build in (one_node, chain, loop, perceptron, shapes, strings)
}


def _numbers(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _type_name(value: Any) -> str:
    return "string" if value.dtype == object else value.dtype.name
