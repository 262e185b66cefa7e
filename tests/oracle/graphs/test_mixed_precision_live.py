"""`auto_mixed_precision*` converts the nodes that TensorFlow converts, with the same results."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import graphmill
from graphmill import ops, proto

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.oracle

TOLERANCES: Final = {
    "auto_mixed_precision": 1e-6,  # on a CPU it changes nothing
    "auto_mixed_precision_cpu": 2e-3,
    "auto_mixed_precision_onednn_bfloat16": 2e-2,  # TensorFlow fuses, and so rounds less often
    "auto_mixed_precision_mkl": 2e-2,
}
FIELDS: Final = tuple(TOLERANCES)
OUTPUTS: Final = ["out0:0", "out1:0"]
FEEDS: Final = {"x:0": np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)}
UNARY: Final = (
    *(ops.math.tanh, ops.math.sigmoid, ops.nn.softmax, ops.math.neg, ops.nn.relu, ops.math.abs),
    *(ops.math.square, ops.array.stop_gradient, ops.array.identity, ops.nn.elu, ops.math.erf),
    *(ops.math.cos, ops.math.sign, ops.array.snapshot, ops.nn.softplus, ops.math.expm1),
)
BINARY: Final = (ops.math.add_v2, ops.math.mul, ops.math.sub, ops.math.maximum)


class Maker:
    """Makes random graphs of 4 x 4 matrices; `values` are those made so far."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.graph = graphmill.Graph()
        with self.graph.as_default():
            self.values = [self.graph.placeholder("float32", [4, 4], name="x")]
            for _ in range(self.random.randrange(6, 20)):
                self.values.append(self.random.choice(MOVES)(self))
            for index, value in enumerate(self.values[-2:]):
                ops.array.identity(value, name=f"out{index}")

    def value(self) -> Any:
        return self.random.choice(self.values[-4:])

    def unary(self) -> Any:
        return self.random.choice(UNARY)(self.value())

    def binary(self) -> Any:
        return self.random.choice(BINARY)(self.value(), self.value())

    def product(self) -> Any:
        weights = np.random.default_rng(self.random.randrange(99)).normal(size=(4, 4)) / 2
        return ops.math.mat_mul(self.value(), self.graph.constant(weights.astype(np.float32)))

    def small_exp(self) -> Any:
        return ops.math.exp(ops.math.tanh(self.value()))

    def mean(self) -> Any:
        mean = ops.math.mean(self.value(), self.graph.constant([0]), keep_dims=True)
        return ops.math.add_v2(mean, self.value())

    def reshape(self) -> Any:
        flat = ops.array.reshape(self.value(), self.graph.constant([2, 8]))
        return ops.array.reshape(ops.nn.relu(flat), self.graph.constant([4, 4]))

    def joined(self) -> Any:
        both = ops.array.concat_v2([self.value(), self.value()], self.graph.constant(0))
        begin, size = self.graph.constant([2, 0]), self.graph.constant([4, 4])
        return ops.array.slice(both, begin, size)

    def casts(self) -> Any:
        return ops.math.cast(ops.math.cast(self.value(), DstT="float16"), DstT="float32")

    def chosen(self) -> Any:
        value = self.value()
        return ops.math.select_v2(ops.math.greater(value, self.value()), value, self.value())

    def variable(self) -> Any:
        seed = self.random.randrange(99)
        start = np.random.default_rng(seed).normal(size=(4, 4)).astype(np.float32)
        variable = ops.state.variable_v2(shape=[4, 4], dtype="float32")
        assigned = ops.state.assign(variable, self.graph.constant(start))
        with self.graph.control_dependencies([assigned.op]):
            return ops.array.identity(variable)


MOVES: Final[tuple[Callable[[Maker], Any], ...]] = (
    *([Maker.unary] * 6 + [Maker.product] * 4 + [Maker.binary] * 4),
    *(Maker.small_exp, Maker.mean, Maker.reshape, Maker.joined, Maker.casts),
    *(Maker.chosen, Maker.variable),
)


def loop_graph() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4, 4], name="x")
        weights = graph.constant(np.full((4, 4), 0.3, np.float32))
        _, product, total = graphmill.while_loop(
            lambda i, _product, _total: i < 3,
            lambda i, product, total: (
                i + 1,
                ops.math.mat_mul(product, weights, name="product"),
                ops.math.add_v2(total, ops.math.exp(ops.math.tanh(product)), name="sum"),
            ),
            [graph.constant(0), x, x],
        )
        ops.array.identity(product, name="out0")
        ops.array.identity(total, name="out1")
    return graph


def branch_graph() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4, 4], name="x")
        product = ops.math.mat_mul(x, x, name="product")
        chosen = graphmill.cond(
            graph.constant(True),
            lambda: ops.math.mat_mul(product, product, name="square"),
            lambda: ops.math.neg(product, name="negative"),
        )
        ops.array.identity(ops.nn.relu(chosen, name="relu"), name="out0")
        ops.array.identity(ops.math.exp(chosen, name="exp"), name="out1")
    return graph


def normalized_graph(version: str) -> graphmill.Graph:
    """Return a small convolutional network with batch normalization."""
    random = np.random.default_rng(1)
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4, 4], name="x")
        value = ops.array.reshape(x, graph.constant([1, 4, 4, 1]))
        for channels in ((1, 3), (3, 2)):
            weights = random.normal(size=(3, 3, *channels)).astype(np.float32) / 3
            value = ops.nn.conv2d(
                value, graph.constant(weights), strides=[1, 1, 1, 1], padding="SAME"
            )
            numbers = [graph.constant(random.uniform(0.5, 1, channels[1:]).astype(np.float32))] * 4
            normalize = getattr(ops.nn, f"fused_batch_norm{version}")
            value = ops.nn.relu(normalize(value, *numbers, is_training=False)[0])
        value = ops.nn.max_pool(value, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        flat = ops.array.reshape(value, graph.constant([4, 2]))
        ops.array.identity(flat, name="out0")
        ops.array.identity(ops.math.sum(flat, graph.constant([1])), name="out1")
    return graph


GRAPHS: Final[dict[str, Callable[[], graphmill.Graph]]] = {
    **{f"normalized{one}": (lambda one=one: normalized_graph(one)) for one in ("", "_v2", "_v3")},
    "loop": loop_graph,
    "branch": branch_graph,
    **{f"random {seed}": (lambda seed=seed: Maker(seed).graph) for seed in range(60)},
}


CASES: Final = [(name, field) for name in GRAPHS for field in FIELDS]
CASES.remove(("loop", "auto_mixed_precision_cpu"))  # TensorFlow 2.21 crashes: SIGSEGV


def casts_of(graph_def: Any) -> dict[tuple[str, int], str]:
    """Return the types through which each float32 input of each node is cast."""
    nodes = {node.name: node for node in graph_def.node}
    found = {}
    for node in graph_def.node:
        if "AutoMixedPrecision" in node.name:
            continue
        for index, name in enumerate(node.input):
            steps = []
            source = name.partition(":")[0]
            while "AutoMixedPrecision" in source:
                steps.append(nodes[source].attr["DstT"].type)
                source = nodes[source].input[0].partition(":")[0]
            types = [node.attr[key].type for key in ("T", "DstT", "SrcT") if key in node.attr]
            found[node.name, index] = f"{source} {sorted(set(steps))} {types}"
    return found


def ours(graph: graphmill.Graph, field: str) -> tuple[Any, list[Any]]:
    """Return our graph after the pass, and the values of its outputs."""
    rewrite = {"optimizers": [field]}
    config = {"graph_options": {"rewrite_options": rewrite}, "graphmill": {"jit": "off"}}
    options = proto.RunOptions(output_partition_graphs=True)
    metadata = proto.RunMetadata()
    with graphmill.Session(graph=graph, config=config) as session:
        values = session.run(OUTPUTS, FEEDS, options, metadata)
    (part,) = metadata.partition_graphs
    return part, values


def renamed(casts: dict[tuple[str, int], str]) -> dict[tuple[str, int], str]:
    """Name arguments and results of a step as the nodes that they stand for."""
    return {
        key: text.replace("_arg_x_0_0", "x")
        for key, text in casts.items()
        if not key[0].startswith("_retval")
    }


@pytest.fixture(scope="module")
def tensorflows() -> dict[tuple[str, str], tuple[Any, list[Any]]]:
    """Return TensorFlow's optimized graph, and its values of the outputs, of each case."""
    pytest.importorskip("tensorflow")
    tasks = [
        (GRAPHS[name]().as_graph_def().SerializeToString(), field, OUTPUTS, FEEDS)
        for name, field in CASES
    ]
    child = Path(__file__).with_name("mixed_precision_child.py")
    done = subprocess.run(
        [sys.executable, str(child)], input=pickle.dumps(tasks), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    answers = pickle.loads(done.stdout)
    return {
        case: (proto.GraphDef.FromString(graph), values)
        for case, (graph, values) in zip(CASES, answers, strict=True)
    }


@pytest.mark.parametrize(("name", "field"), CASES)
def test_same_nodes_are_converted(tensorflows: Any, name: str, field: str, monkeypatch) -> None:
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")
    optimized, expected_values = tensorflows[name, field]
    part, values = ours(GRAPHS[name](), field)
    expected, found = casts_of(optimized), renamed(casts_of(part))
    common = expected.keys() & found.keys()
    assert {key: found[key] for key in common} == {key: expected[key] for key in common}
    assert len(common) > len(expected) / 2
    tolerance = TOLERANCES[field]
    for value, expected_value in zip(values, expected_values, strict=True):
        scale = max(1.0, float(np.abs(expected_value).max()))
        np.testing.assert_allclose(value, expected_value, rtol=tolerance, atol=tolerance * scale)
