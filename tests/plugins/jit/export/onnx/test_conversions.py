"""The conversion of each op to ONNX computes what the op's kernel computes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.export.onnx.onnx_runs import assert_same, needs_runtime

import graphmill
from graphmill import ops

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("onnx")
math, array, nn, image = ops.math, ops.array, ops.nn, ops.image

RNG = np.random.default_rng(7)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
IMAGE = RNG.normal(size=(2, 7, 6, 4)).astype(np.float32)
INTS = np.array([[7, -7, 5], [-5, 3, -1]], np.int32)
POSITIVE = np.abs(X) + np.float32(0.1)

UNARY = [
    "abs", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "neg",
    "reciprocal", "rint", "round", "sigmoid", "sign", "sin", "sinh", "square", "tan", "tanh",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_elements_are_converted(name: str) -> None:
    check(lambda x: getattr(math, name)(x), X)


@pytest.mark.parametrize("name", ["log", "log1p", "rsqrt", "sqrt"])
def test_functions_of_positive_elements_are_converted(name: str) -> None:
    check(lambda x: getattr(math, name)(x), POSITIVE)


@pytest.mark.parametrize("name", ["elu", "relu", "relu6", "selu", "softplus", "softsign"])
def test_activations_are_converted(name: str) -> None:
    check(lambda x: getattr(nn, name)(x), X * 5)


def test_small_numbers_keep_their_digits() -> None:
    small = np.float32([1e-6, -1e-6, 1e-3, 0, 2, -0.5])
    for function in (math.log1p, math.expm1):
        check(function, small, rtol=3e-6, atol=0)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "leaky_relu": (lambda x: nn.leaky_relu(x, alpha=0.3), (X,)),
    "softmax": (nn.softmax, (X,)),
    "log_softmax": (nn.log_softmax, (X,)),
    "add": (math.add_v2, (X, X[0])),
    "add_n": (lambda x, y: math.add_n([x, y, x]), (X, X * 2)),
    "sub": (math.sub, (X, X[0])),
    "div": (math.real_div, (X, POSITIVE)),
    "div_no_nan": (math.div_no_nan, (X, np.where(X > 0, X, np.float32(0)))),
    "floor_div_ints": (math.floor_div, (INTS, np.int32([2, 3, -2]))),
    "floor_mod_ints": (math.floor_mod, (INTS, np.int32([2, 3, -2]))),
    "floor_mod_floats": (math.floor_mod, (X, np.float32([0.7, -0.3, 0.5, -1]))),
    "floor_div_floats": (math.floor_div, (X, np.float32([0.7, -0.3, 0.5, -1]))),
    "truncate_div": (math.truncate_div, (INTS, np.int32([2, 3, -2]))),
    "truncate_mod": (math.truncate_mod, (INTS, np.int32([2, 3, -2]))),
    "maximum": (math.maximum, (X, X[0])),
    "minimum": (math.minimum, (X, X[0])),
    "pow": (math.pow, (POSITIVE, X)),
    "squared_difference": (math.squared_difference, (X, X[0])),
    "clip": (lambda x: math.clip_by_value(x, np.float32(-0.5), np.float32(0.5)), (X,)),
    "cumsum": (lambda x: math.cumsum(x, 1, exclusive=True, reverse=True), (X,)),
    "cast": (lambda x: math.cast(x, DstT="int32"), (X * 9,)),
    "cast_bool": (lambda x: math.cast(x, DstT="bool"), (INTS,)),
    "greater": (math.greater, (X, X[0])),
    "greater_equal": (math.greater_equal, (INTS, np.int32(3))),
    "less": (math.less, (X, X[0])),
    "less_equal": (math.less_equal, (INTS, np.int32(3))),
    "equal": (math.equal, (INTS, np.int32(3))),
    "not_equal": (math.not_equal, (INTS, np.int32(3))),
    "logical": (
        lambda x, y: math.logical_or(math.logical_and(x, y), math.logical_not(y)),
        (X > 0, X > 0.5),
    ),
    "is_finite": (math.is_finite, (np.float32([1, np.inf, np.nan, -np.inf]),)),
    "is_nan": (math.is_nan, (np.float32([1, np.inf, np.nan]),)),
    "select": (math.select, (X[:, 0, 0] > 0, X, X * 2)),
    "select_v2": (math.select_v2, (X > 0, X, X[0])),
    "mat_mul": (lambda x, y: math.mat_mul(x, y, transpose_b=True), (X[0], X[1])),
    "mat_mul_a": (lambda x, y: math.mat_mul(x, y, transpose_a=True), (X[0], X[1])),
    "batch_mat_mul": (lambda x, y: math.batch_mat_mul_v2(x, y, adj_y=True), (X, X[:1])),
    "einsum": (lambda x, y: ops.linalg.einsum([x, y], equation="bij,bkj->bik"), (X, X)),
    "sum": (lambda x: math.sum(x, [0, 2]), (X,)),
    "sum_keep": (lambda x: math.sum(x, 1, keep_dims=True), (X,)),
    "sum_nothing": (lambda x: math.sum(x, np.zeros([0], np.int32)), (X,)),
    "sum_axes_fed": (lambda x, axes: math.sum(x, axes, keep_dims=True), (X, np.int32([1]))),
    "mean": (lambda x: math.mean(x, [-1]), (X,)),
    "max": (lambda x: math.max(x, [1]), (X,)),
    "min": (lambda x: math.min(x, [1]), (X,)),
    "prod": (lambda x: math.prod(x, [1]), (X,)),
    "all": (lambda x: math.all(x, [1]), (X > -1,)),
    "any": (lambda x: math.any(x, [1]), (X > 1,)),
    "arg_max": (lambda x: math.arg_max(x, 1), (X,)),
    "arg_min": (lambda x: math.arg_min(x, -1, output_type="int32"), (X,)),
    "top_k": (lambda x: list(nn.top_kv2(x, 2)), (X,)),
    "l2_loss": (nn.l2_loss, (X,)),
    "reshape": (lambda x: array.reshape(x, [-1, 6]), (X,)),
    "reshape_fed": (array.reshape, (X, np.int32([4, -1]))),
    "transpose": (lambda x: array.transpose(x, [2, 0, 1]), (X,)),
    "expand_dims": (lambda x: array.expand_dims(x, -1), (X,)),
    "squeeze": (lambda x: array.squeeze(x, squeeze_dims=[1]), (X[:, :1],)),
    "concat": (lambda x, y: array.concat_v2([x, y], 1), (X, X)),
    "pack": (lambda x, y: array.pack([x, y], axis=1), (X, X)),
    "unpack": (lambda x: list(array.unpack(x, num=3, axis=1)), (X,)),
    "split": (lambda x: list(array.split(2, x, num_split=2)), (X,)),
    "split_v": (
        lambda x: list(array.split_v(x, np.int32([1, -1]), np.int32(1), num_split=2)),
        (X,),
    ),
    "shape": (array.shape, (X,)),
    "shape64": (lambda x: array.shape(x, out_type="int64"), (X,)),
    "size": (array.size, (X,)),
    "rank": (array.rank, (X,)),
    "fill": (array.fill, (np.int32([2, 3]), np.float32(4))),
    "broadcast_to": (array.broadcast_to, (X[0], np.int32([2, 3, 4]))),
    "zeros_like": (array.zeros_like, (X,)),
    "ones_like": (array.ones_like, (X,)),
    "tile": (lambda x: array.tile(x, [2, 1, 3]), (X,)),
    "range": (lambda n: math.range(np.int32(1), n, np.int32(2)), (np.int32(8),)),
    "slice": (lambda x: array.slice(x, [0, 1, 0], [-1, 2, 3]), (X,)),
    "slice_fed": (array.slice, (X, np.int32([0, 1, 0]), np.int32([-1, 2, 3]))),
    "slice_rest": (lambda x: array.slice(x, [1, 1, 0], [-1, -1, -1]), (X,)),
    "strided": (lambda x: x[:, ::-1, 1:3], (X,)),
    "strided_last": (lambda x: x[..., -1], (X,)),
    "strided_new": (lambda x: x[1, None, ..., 2:], (X,)),
    "strided_fed": (lambda x, n: x[:, n], (X, np.int32(-1))),
    "reverse": (lambda x: array.reverse_v2(x, [0, 2]), (X,)),
    "pad": (lambda x: array.pad(x, [[1, 0], [0, 2], [0, 0]]), (X,)),
    "pad_v2": (lambda x: array.pad_v2(x, [[1, 0], [0, 2], [0, 0]], np.float32(9)), (X,)),
    "pad_fed": (array.pad, (X, np.int32([[1, 0], [0, 2], [0, 0]]))),
    "mirror_pad": (
        lambda x: array.mirror_pad(x, [[0, 0], [1, 2], [0, 1]], mode="REFLECT"),
        (X,),
    ),
    "gather": (lambda x: array.gather_v2(x, np.int32([[2, 0], [1, 1]]), 1), (X,)),
    "gather_batch": (
        lambda x: array.gather_v2(x, np.int32([[2, 0], [1, 1]]), 1, batch_dims=1),
        (X,),
    ),
    "gather_nd": (lambda x: array.gather_nd(x, np.int32([[1, 2], [0, 0]])), (X,)),
    "scatter_nd": (
        lambda x: array.scatter_nd(np.int32([[2], [2]]), x, np.int32([4, 3, 4])),
        (X,),
    ),
    "tensor_scatter": (
        lambda x: array.tensor_scatter_update(x, np.int32([[1]]), np.zeros([1, 3, 4], np.float32)),
        (X,),
    ),
    "one_hot": (
        lambda i: array.one_hot(i, np.int32(4), np.float32(2), np.float32(-1)),
        (np.int32([[0, 3], [4, -1]]),),
    ),
    "where": (array.where, (X > 0,)),
    "band": (lambda x: array.matrix_band_part(x, np.int64(1), np.int64(0)), (X,)),
    "bias_add": (nn.bias_add, (X, X[0, 0])),
    "lrn": (lambda x: nn.lrn(x, depth_radius=1, bias=1.5, alpha=0.3, beta=0.6), (IMAGE,)),
    "depth_to_space": (lambda x: array.depth_to_space(x, block_size=2), (IMAGE,)),
    "space_to_depth": (lambda x: array.space_to_depth(x, block_size=2), (IMAGE[:, :6],)),
    "identity": (array.identity, (X,)),
    "identity_n": (lambda x, y: list(array.identity_n([x, y])), (X, X)),
    "contrast": (lambda x: image.adjust_contrastv2(x, np.float32(1.7)), (IMAGE,)),
}


def marked(name: str) -> Any:
    return pytest.param(name, marks=needs_runtime if name in ("lrn", "one_hot") else ())


@pytest.mark.parametrize("name", [marked(name) for name in CASES])
def test_op_is_converted(name: str) -> None:
    function, values = CASES[name]
    check(function, *values)


@needs_runtime
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("is_static", [True, False])
def test_convolutions_and_pools_are_converted(padding: str, strides: int, is_static: bool) -> None:
    kernel = RNG.normal(size=(3, 2, 4, 5)).astype(np.float32)
    depthwise = RNG.normal(size=(3, 3, 4, 2)).astype(np.float32)
    steps = [1, strides, strides, 1]
    sizes = [None, 7, 6, 4] if is_static else [None, None, None, 4]

    def all_of(x: Any) -> list[Any]:
        options: Any = {"strides": steps, "padding": padding}
        return [
            nn.conv2d(x, kernel, **options),
            nn.depthwise_conv2d_native(x, depthwise, **options),
            nn.max_pool(x, ksize=[1, 3, 2, 1], **options),
            nn.avg_pool(x, ksize=[1, 3, 2, 1], **options),
        ]

    check(all_of, IMAGE, shapes=[sizes], rtol=1e-4)


def test_dilated_and_explicitly_padded_convolutions_are_converted() -> None:
    kernel = RNG.normal(size=(3, 3, 2, 6)).astype(np.float32)

    def both(x: Any) -> list[Any]:
        same = nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 2, 1])
        pads = [0, 0, 1, 2, 0, 1, 0, 0]
        explicit = nn.conv2d(
            x, kernel, strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=pads
        )
        return [same, explicit]

    check(both, IMAGE, shapes=[[None, 7, 6, 4]], rtol=1e-4)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolutions_are_converted(padding: str) -> None:
    kernel = RNG.normal(size=(3, 3, 2, 4)).astype(np.float32)
    sizes = np.int32([2, 14, 12, 2] if padding == "SAME" else [2, 15, 13, 2])

    def transposed(x: Any) -> Any:
        return nn.conv2d_backprop_input(sizes, kernel, x, strides=[1, 2, 2, 1], padding=padding)

    check(transposed, IMAGE, shapes=[[2, 7, 6, 4]], rtol=1e-4)


def test_batch_normalization_of_inference_is_converted() -> None:
    moments = [RNG.uniform(0.5, 2, size=4).astype(np.float32) for _ in range(4)]

    def normalized(x: Any) -> Any:
        return nn.fused_batch_norm_v3(x, *moments, is_training=False, epsilon=0.01)[0]

    check(normalized, IMAGE, rtol=1e-4)


@pytest.mark.parametrize("name", ["resize_bilinear", "resize_nearest_neighbor"])
@pytest.mark.parametrize(
    "options", [{}, {"align_corners": True}, {"half_pixel_centers": True}], ids=str
)
@pytest.mark.parametrize("size", [[14, 12], [4, 3], [10, 9]], ids=str)
def test_resizing_is_converted(name: str, options: Any, size: list[int]) -> None:
    check(lambda x: getattr(image, name)(x, np.int32(size), **options), IMAGE)


def check(function: Any, *values: Any, shapes: Any = None, **tolerance: float) -> None:
    """Compare for inputs whose first size is unknown to the export."""
    graph = graphmill.Graph()
    with graph.as_default():
        inputs = {}
        for index, value in enumerate(values):
            array_value = np.asarray(value)
            sizes = [None, *array_value.shape[1:]] if array_value.ndim > 1 else array_value.shape
            shape = sizes if shapes is None else shapes[index]
            inputs[f"x{index}"] = graph.placeholder(array_value.dtype, shape, name=f"in_{index}")
        outputs = function(*inputs.values())
    feeds = {f"x{index}": np.asarray(value) for index, value in enumerate(values)}
    assert_same(graph, inputs, outputs, feeds, **tolerance)


def test_examples_are_exported(tmp_path: Path) -> None:
    from tests.plugins.jit.export.onnx.onnx_runs import run_onnx

    digits = Path(__file__).parents[5] / "examples" / "digits"
    pixels = np.linspace(0, 1, 192, dtype=np.float32).reshape(3, 8, 8, 1)
    with graphmill.saved_model.load(digits / "saved_model_tf1") as model:
        expected = model.signatures["serving_default"](pixels)
    for name in ("saved_model_tf1", "saved_model_tf2", "digits_frozen.pb"):
        exported = graphmill.export.convert_model(digits / name, "onnx")
        found = dict(
            zip(exported.outputs, run_onnx(exported.message, {"image": pixels}), strict=True)
        )
        np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=2e-3)
        assert found["classes"].tolist() == expected["classes"].tolist()
