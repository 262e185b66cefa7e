"""The proof that rows of outputs depend on the same rows of inputs only."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

import graphmill
from graphmill import functions as F
from graphmill import ops, proto
from graphmill.graph.shapes.row_independence import why_rows_mix
from graphmill.ops.definition.tensorflow_traits import declared_fields

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
IMAGES = [None, 4, 4, 2]


def reason(shape, compute):
    """Return why rows mix in the graph that `compute` adds for an input `x` of a shape."""
    graph, host = graphmill.Graph(), graphmill.default_host()
    with graph.as_default():
        y = compute(graph.placeholder("float32", shape, name="x"))
    return why_rows_mix(graph, ["x:0"], [y.name], host.ops)


def filters(*shape):
    return F.constant(np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))


def normalized(x, *, is_training):
    one = F.constant(np.ones(2, np.float32))
    none = F.constant(np.zeros(0 if is_training else 2, np.float32))
    return ops.nn.fused_batch_norm_v3(x, one, one, none, none, is_training=is_training)


def batch_norm_v2(op, x):
    one = F.constant(np.ones(2, np.float32))
    return op(x, one, one, one, one, is_training=False).y


def gathered(x):
    table = graphmill.Variable(WEIGHTS, name="table")
    return ops.state.resource_gather(table.handle, F.cast(x, "int32"), dtype="float32")


# For each op with the trait: the shape of x, and the output for it.
CARRIES = {
    "MatMul": ([None, 3], lambda x: ops.math.mat_mul(x, WEIGHTS)),
    "BatchMatMulV2": ([None, 2, 3], lambda x: ops.math.batch_mat_mul_v2(x, WEIGHTS)),
    "BatchMatMulV3": (
        [None, 2, 3],
        lambda x: ops.math.batch_mat_mul_v3(x, WEIGHTS, Tout="float32"),
    ),
    "BiasAdd": ([None, 4], lambda x: ops.nn.bias_add(x, WEIGHTS[0])),
    "Softmax": ([None, 4], ops.nn.softmax),
    "LogSoftmax": ([None, 4], ops.nn.log_softmax),
    "Conv2D": (
        IMAGES,
        lambda x: ops.nn.conv2d(x, filters(3, 3, 2, 2), strides=[1, 1, 1, 1], padding="SAME"),
    ),
    "Conv3D": (
        [None, 3, 3, 3, 1],
        lambda x: ops.nn.conv3d(x, filters(2, 2, 2, 1, 2), strides=[1, 1, 1, 1, 1], padding="SAME"),
    ),
    "DepthwiseConv2dNative": (
        IMAGES,
        lambda x: ops.nn.depthwise_conv2d_native(
            x, filters(2, 2, 2, 1), strides=[1, 1, 1, 1], padding="SAME"
        ),
    ),
    "MaxPool": (
        IMAGES,
        lambda x: ops.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"),
    ),
    "AvgPool": (
        IMAGES,
        lambda x: ops.nn.avg_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"),
    ),
    "MaxPool3D": (
        [None, 4, 4, 4, 1],
        lambda x: ops.nn.max_pool3d(
            x, ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID"
        ),
    ),
    "AvgPool3D": (
        [None, 4, 4, 4, 1],
        lambda x: ops.nn.avg_pool3d(
            x, ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID"
        ),
    ),
    "LRN": (IMAGES, ops.nn.lrn),
    "DepthToSpace": ([None, 2, 2, 4], lambda x: ops.array.depth_to_space(x, block_size=2)),
    "SpaceToDepth": (IMAGES, lambda x: ops.array.space_to_depth(x, block_size=2)),
    "FusedBatchNorm": (IMAGES, lambda x: batch_norm_v2(ops.nn.fused_batch_norm, x)),
    "FusedBatchNormV2": (IMAGES, lambda x: batch_norm_v2(ops.nn.fused_batch_norm_v2, x)),
    "FusedBatchNormV3": (IMAGES, lambda x: batch_norm_v2(ops.nn.fused_batch_norm_v3, x)),
    "ResizeBilinear": (IMAGES, lambda x: ops.image.resize_bilinear(x, [3, 5])),
    "ResizeNearestNeighbor": (IMAGES, lambda x: ops.image.resize_nearest_neighbor(x, [3, 5])),
    "Mean": (IMAGES, lambda x: ops.math.mean(x, [1, 2])),
    "Sum": ([None, 4], lambda x: ops.math.sum(x, -1)),
    "Prod": ([None, 4], lambda x: ops.math.prod(x, 1)),
    "Max": ([None, 4], lambda x: ops.math.max(x, [1], keep_dims=True)),
    "Min": ([None, 4], lambda x: ops.math.min(x, [1])),
    "All": ([None, 4], lambda x: ops.math.all(x > 0.0, [1])),
    "Any": ([None, 4], lambda x: ops.math.any(x > 0.0, [1])),
    "ArgMax": ([None, 4], lambda x: ops.math.arg_max(x, 1)),
    "ArgMin": ([None, 4], lambda x: ops.math.arg_min(x, -1)),
    "ConcatV2": ([None, 4], lambda x: ops.array.concat_v2([x, x * 2.0], 1)),
    "AddN": ([None, 4], lambda x: ops.math.add_n([x, x])),
    "ResourceGather": ([None, 4], gathered),
    "Pad": ([None, 4], lambda x: ops.array.pad(x, [[0, 0], [1, 2]])),
    "PadV2": ([None, 4], lambda x: ops.array.pad_v2(x, [[0, 0], [1, 2]], 7.0)),
    "MirrorPad": ([None, 4], lambda x: ops.array.mirror_pad(x, [[0, 0], [1, 2]], mode="REFLECT")),
    "GatherV2": ([None, 4], lambda x: ops.array.gather_v2(WEIGHTS, F.cast(x, "int32"), 0)),
}


def test_each_op_that_carries_rows_is_tested():
    declared = declared_fields().items()
    assert CARRIES.keys() == {op for op, fields in declared if "rows" in fields}


@pytest.mark.parametrize("op", CARRIES)
def test_a_batch_has_the_rows_of_its_parts(op):
    shape, compute = CARRIES[op]
    graph, host = graphmill.Graph(), graphmill.default_host()
    with graph.as_default():
        x = graph.placeholder("float32", shape, name="x")
        y = compute(x)
        initialize = graphmill.global_variables_initializer()
    assert op in {node.op for node in graph}
    assert why_rows_mix(graph, ["x:0"], [y.name], host.ops) == ""
    batch = np.random.default_rng(0).random((5, *shape[1:]), np.float32) * 3
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session:
        session.run(initialize)
        together = session.run(y, {x: batch})
        parts = [session.run(y, {x: part}) for part in (batch[:2], batch[2:])]
    np.testing.assert_allclose(together, np.concatenate(parts), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "compute", "text"),
    [
        ([None, 3], lambda x: x - ops.math.mean(x, 0), "(Mean) may combine rows"),
        ([None, 3], lambda x: ops.math.cumsum(x, 0), "(Cumsum) may combine rows"),
        ([None, 3], lambda x: ops.math.mat_mul(x, x, transpose_a=True), "(MatMul) may combine"),
        ([None, 3], lambda x: ops.math.mat_mul(x, x, transpose_b=True), "(MatMul) may combine"),
        ([None, 3], lambda x: ops.array.reverse_v2(x, [0]), "(ReverseV2) may combine rows"),
        ([None], ops.array.identity, ""),
        ([None], lambda x: ops.nn.softmax(x), "(Softmax) may combine rows"),
        ([None, 4], lambda x: ops.array.reshape(x, [-1, 4]), ""),
        ([None, 4], lambda x: ops.array.reshape(x, [-1, 2]), "(Reshape) may combine rows"),
        ([None, 4], lambda x: ops.array.expand_dims(x, 1), ""),
        ([None, 4], lambda x: ops.array.expand_dims(x, 0), "(ExpandDims) may combine rows"),
        ([None, 4], lambda x: ops.array.concat_v2([x, x], 0), "(ConcatV2) may combine rows"),
        ([None, 4], lambda x: ops.array.pad(x, [[0, 1], [0, 0]]), "(Pad) may combine rows"),
        ([None, 4], lambda x: ops.array.gather_v2(x, [0], 0), "(GatherV2) may combine rows"),
        (
            [None, 4],
            lambda x: ops.array.gather_v2(WEIGHTS, F.cast(x, "int32"), 1),
            "(GatherV2) may combine rows",
        ),
        ([None, 3], lambda x: x + F.constant([[1.0], [2.0]]), "(AddV2) may combine rows"),
        ([None, 3], lambda x: x + F.constant([[1.0, 2.0, 3.0]]), ""),
        ([None, 1], lambda x: x + ops.array.reshape(x, [-1]), "(AddV2) may combine rows"),
        ([None, 3], lambda x: x + ops.random.random_uniform([3], dtype="float32"), "has an effect"),
        ([None, 3], lambda x: ops.array.shape(x), "(Shape) depends on the number of rows"),
        ([None, 3], lambda x: F.constant([1.0]), "has no row for each row"),
        ([2, 3], lambda x: x, "first dimension of input 'x:0' is not of any size"),
        (IMAGES, lambda x: normalized(x, is_training=True).y, "(FusedBatchNormV3) may combine"),
        (
            IMAGES,
            lambda x: x + normalized(x, is_training=False).batch_mean,
            "reads a value that depends on several rows",
        ),
    ],
)
def test_the_reason_names_the_node(shape, compute, text):
    found = reason(shape, compute)
    assert text in found
    assert bool(found) == bool(text)


def test_a_conditional_of_version_1_ends_the_proof():
    found = reason(
        [None, 3], lambda x: graphmill.cond(F.constant(True), lambda: x + 1.0, lambda: x)
    )
    assert "control flow" in found or "calls functions" in found


FUNCTIONS = """
    signature {{ name: "{name}"
      input_arg {{ name: "x" type: DT_FLOAT }} output_arg {{ name: "y" type: DT_FLOAT }} }}
    node_def {{ name: "n" op: "{op}" input: "x" attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
    ret {{ key: "y" value: "n:{output}:0" }}
"""


@pytest.mark.parametrize(
    ("name", "op", "output", "text"),
    [
        ("f", "Softmax", "softmax", ""),
        ("f", "L2Loss", "output", "node 'n' (L2Loss) may combine rows"),
        ("again", "again", "y", "node 'n' (again) is inside of 64 calls"),
    ],
)
def test_calls_of_functions_are_followed(name, op, output, text):
    graph, host = graphmill.Graph(), graphmill.default_host()
    function = FUNCTIONS.format(name=name, op=op, output=output)
    if op == name:  # an op that is a function has no attrs
        function = function.replace('attr { key: "T" value { type: DT_FLOAT } }', "")
    graph.library.add(text_format.Parse(function, proto.FunctionDef()))
    with graph.as_default():
        x = graph.placeholder("float32", [None, 3], name="x")
        (y,) = ops.functional.partitioned_call([x], Tout=["float32"], f=name)
    assert why_rows_mix(graph, ["x:0"], [y.name], host.ops) == text
