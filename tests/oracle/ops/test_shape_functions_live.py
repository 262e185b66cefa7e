"""Shape functions contradict TensorFlow's in no random node, and refuse what it refuses.

A node is a stored case of its op with a few changes. Its inputs are constants, or placeholders of
which some sizes are unknown or wrong. `GRAPHMILL_SHAPES=30:40` compares the nodes of these seeds.
Then each input of a stored case gets another rank or another size, one at a time.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict

import numpy as np
import pytest

import graphmill
from graphmill import errors, proto
from graphmill.ops.attrs.attr_types import ShapeAttr
from graphmill.ops.attrs.attr_value import attr_to_proto
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.ops.inference.input_shapes import input_patterns
from graphmill.ops.inference.shape_inference import shape_function
from graphmill.testing.case import load_cases, parse_cases
from graphmill.testing.case_graph import NODE, case_graph, make_constant
from graphmill.testing.case_inputs import SpecError
from graphmill.testing.generators.op_instances import Sweep, is_swept

pytestmark = pytest.mark.oracle

OPS = OpRegistry()
ABORTS = {"GatherV2", "ParseSingleSequenceExample", "SplitV", "XlaDotV2", "Zeta"}
"""Ops for some of whose invalid constants TensorFlow ends the process, or raises other errors."""
STRICTER = {
    *("AccumulateNV2", "Slice", "StridedSlice", "TensorScatterAdd", "TensorScatterMax"),
    *("TensorScatterMin", "TensorScatterSub", "TensorScatterUpdate"),
}
"""Ops that refuse a few wrong shapes when the node is added, TensorFlow when it runs."""
MISTAKEN = {"DenseBincount", "ExtractVolumePatches"}
"""Ops of whose values TensorFlow infers another shape than they have."""
EARLY = {"BatchSvd", "OneHot", "SparseReduceMax", "SparseReduceSum", "Substr", "UniqueWithCounts"}
"""Ops whose inputs graphmill refuses when the node is added, TensorFlow when it runs."""
LENIENT = {
    *("BatchToSpaceND", "EnsureShape", "FusedPadConv2D", "FusedResizeAndPadConv2D"),
    *("MatrixDiagV3", "MatrixSetDiagV2", "MatrixSetDiagV3", "RaggedTensorToTensor"),
    *("RandomIndexShuffle", "SpaceToBatchND", "TensorListScatterV2"),
}
"""Ops of which TensorFlow refuses some nodes because a shape or a value is unknown.

It takes an unknown size of their inputs, or of the attr of `EnsureShape`, for a size of -1.
"""


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_SHAPES", "2").rpartition(":")
    return range(int(first or 0), int(end))


def cases_by_op():
    found = defaultdict(list)
    for case in load_cases():
        op_def = OPS.get(case.op)
        is_used = case.program is None and is_swept(op_def) and case.op not in ABORTS
        if is_used and (shape_function(op_def) is not None or input_patterns(op_def)):
            found[case.op].append(case)
    return found


def vary(message, feeds, draw):
    """Make the inputs of a node constants, or placeholders that are known in part or wrong."""
    for node in message.node:
        if node.op != "Placeholder" or node.name == NODE:
            continue
        kind = draw.choice(["constant"] * 4 + ["unknown"] + ["known"] * 2 + ["partly"] * 2)
        value = feeds[f"{node.name}:0"]
        if kind == "constant":
            make_constant(node, value)
        elif kind != "unknown":
            sizes = list(np.shape(value))
            if kind == "partly":
                sizes = [-1 if draw.random() < 0.4 else size for size in sizes]
                if sizes and draw.random() < 0.2:
                    sizes[draw.randrange(len(sizes))] = draw.choice([0, 1, 2, 5])
            node.attr["shape"].Clear()
            attr_to_proto(ShapeAttr(sizes), node.attr["shape"])


def graphs(op, cases, seed):
    """Yield graphs of an op as bytes."""
    draw = random.Random(f"{op}|{seed}")
    for text in Sweep(OPS.get(op), cases, seed).texts(1):
        try:
            (case,) = parse_cases(text, "sweep")
            made = case_graph(case, OPS)
            message = made.graph_def
            vary(message, made.feeds, draw)
        except (SpecError, errors.OpError, ValueError):  # what was drawn is no node
            continue
        yield message.SerializeToString()


def theirs(tf, content):
    """Return the shapes of the outputs, or the error; a negative size is one, too."""
    try:
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(tf.compat.v1.GraphDef.FromString(content), name="")
        found = [one.shape for one in graph.get_operation_by_name(NODE).outputs]
    except (ValueError, tf.errors.OpError) as error:
        return str(error)
    return [None if shape.rank is None else tuple(shape.as_list()) for shape in found]


def ours(content):
    """Return the same of graphmill, which infers the shapes of an imported node when asked."""
    try:
        graph = graphmill.Graph.from_graph_def(proto.GraphDef.FromString(content))
        return list(graph.shapes_of(graph.get_operation_by_name(NODE)))
    except errors.OpError as error:
        return str(error)


def is_partly_unknown(content):
    """Return whether an input of the node is no constant, or its attr `shape` is unknown."""
    nodes = proto.GraphDef.FromString(content).node
    return any(
        node.attr["shape"].shape.unknown_rank if node.name == NODE else node.op == "Placeholder"
        for node in nodes
    )


def difference(op, content, expected, actual):
    """Return what is wrong, or nothing."""
    if isinstance(expected, str):
        is_missed = not isinstance(actual, str) and not (
            op in LENIENT and is_partly_unknown(content)
        )
        return f"refused by TensorFlow: {expected}" if is_missed else ""
    if isinstance(actual, str):
        return "" if op in EARLY else f"refused: {actual}"
    pairs = zip(expected, actual, strict=True)
    is_same = op in MISTAKEN or all(found.is_compatible_with(shape) for shape, found in pairs)
    return "" if is_same else f"{actual}, not {expected}"


@pytest.mark.parametrize("seed", seeds())
def test_shapes_do_not_contradict_tensorflows(seed, tf):
    wrong = []
    for op, cases in cases_by_op().items():
        for content in graphs(op, cases, seed):
            found = difference(op, content, theirs(tf, content), ours(content))
            if found:
                wrong.append(f"{op}: {found}\n{proto.GraphDef.FromString(content)}")
    assert not wrong, "\n".join(wrong)


def wrong_shapes(case):
    """Yield graphs of a case in which one input has another rank, or one size is another one."""
    made = case_graph(case, OPS)
    shapes = {name[:-2]: list(np.shape(value)) for name, value in made.feeds.items()}
    for name, sizes in shapes.items():
        changed = [[*sizes, 2], *([sizes[:-1]] if sizes else [])]
        for axis, size in enumerate(sizes):
            changed += [[*sizes[:axis], other, *sizes[axis + 1 :]] for other in {0, size + 1}]
        for one in changed:
            message = proto.GraphDef()
            message.CopyFrom(made.graph_def)
            for node in message.node:
                if node.name in shapes and node.op == "Placeholder":
                    shape = ShapeAttr(one if node.name == name else shapes[node.name])
                    node.attr["shape"].Clear()
                    attr_to_proto(shape, node.attr["shape"])
            yield message.SerializeToString()


def test_wrong_shapes_are_refused_as_in_tensorflow(tf):
    wrong = []
    for op, (case, *_) in cases_by_op().items():
        for content in wrong_shapes(case):
            found = difference(op, content, theirs(tf, content), ours(content))
            if found and not (op in STRICTER and found.startswith("refused:")):
                wrong.append(f"{op}: {found}\n{proto.GraphDef.FromString(content)}")
    assert not wrong, "\n".join(wrong)
