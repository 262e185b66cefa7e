"""Accidental hits are masked within the program of a sampled loss (P4)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, fetch_unread, graph, graph_def

import graphmill
from graphmill.errors import InvalidArgumentError
from graphmill.lowering.passes import PassOptions
from graphmill_plugins.jit.idioms.sampled_softmax_mask import mark_accidental_hits
from graphmill_plugins.kernels.nn.sampling.accidental_hits import accidental_hits

SAMPLER = (
    "s = UniformCandidateSampler(y, num_true=2, num_sampled=6, unique=True, range_max=9, seed=3)"
)
HITS = "h = ComputeAccidentalHits(y, kept, num_true=2)"
DENSE = (
    "column = Const(dtype=int32, value='int32: [-1, 1]')",
    "rows = Reshape(h[0], column)",
    "cast = Cast(h[1], DstT=int32)",
    "places = Reshape(cast, column)",
    "axis = Const(dtype=int32, value='int32: 1')",
    "pairs = ConcatV2([rows, places], axis)",
    "shape = Const(dtype=int32, value='int32: [5, 6]')",
    "zero = Const(dtype=float32, value='float32: 0')",
    "marks = SparseToDense(pairs, shape, h[2], zero, validate_indices=False)",
    "out = AddV2(marks, x)",
)
NODES = (SAMPLER, "kept = StopGradient(s[0])", HITS, *DENSE)
INPUTS = {"y": "int64[5, 2]", "x": "float32[5, 6]"}


def ops_after(*nodes: str) -> set[str]:
    made = graph(*nodes, **INPUTS)
    fetch_unread(made)
    mark_accidental_hits(made, PassOptions(None, [], graphmill.default_host()))
    return {node.op for node in made.nodes} & {
        *("_AccidentalHits", "SparseToDense", "ComputeAccidentalHits")
    }


@pytest.mark.jax
def test_marks_are_those_of_the_hits() -> None:
    y = np.random.default_rng(2).integers(0, 9, (3, 5, 2))
    x = np.zeros((5, 6), np.float32)
    results = []
    for mode in ("off", "eager"):
        with HotSession(graph_def(*NODES, **INPUTS), mode) as hot:
            results.append([hot.run("out:0", {"y:0": rows, "x:0": x}) for rows in y])
            clusters = [cluster.nodes for cluster in hot.clusters]
    np.testing.assert_array_equal(*results)
    assert np.count_nonzero(results[0]) > 10
    assert clusters == [("marks", "out")]


def test_hits_and_their_matrix_are_one_node() -> None:
    assert ops_after(*NODES) == {"_AccidentalHits"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("unique=True", "unique=False"),
        ("float32: 0'", "float32: 1'"),
        ("[rows, places]", "[places, rows]"),
        ("int32: 1'", "int32: 0'"),
        ("[-1, 1]", "[1, -1]"),
        ("out = AddV2(marks, x)", "out = Neg(h[2])"),
    ],
)
def test_others_are_left(old: str, new: str) -> None:
    nodes = [node.replace(old, new) for node in NODES]
    assert ops_after(*nodes) == {"SparseToDense", "ComputeAccidentalHits"}


def test_the_output_may_be_larger_and_not_smaller() -> None:
    true_classes, candidates = np.array([[4], [7]]), np.array([7, 5])
    marks = accidental_hits(np, true_classes, candidates, np.array([3, 4]), 1)
    assert np.argwhere(marks).tolist() == [[1, 0]]
    assert marks.shape == (3, 4)
    with pytest.raises(InvalidArgumentError, match="do not fit"):
        accidental_hits(np, true_classes, candidates, np.array([2, 1]), 1)
