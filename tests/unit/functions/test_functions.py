"""`graphmill.functions`: values of tensors of unknown shape, and bad arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill import functions as F

if TYPE_CHECKING:
    from collections.abc import Callable

X = np.array([[1.5, -2.0, 0.25], [4.0, 0.0, -1.0]], np.float32)


def run(build: Callable[[Any], Any], shape: Any = None) -> Any:
    """Run nodes built from a placeholder that is fed X."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", shape)
        fetches = build(x)
    with graphmill.Session(graph=graph) as session:
        return session.run(fetches, {x: X})


@pytest.mark.parametrize("shape", [None, [None, 3], [2, 3]], ids=str)
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: F.reduce_mean(x), X.mean()),
        (lambda x: F.reduce_sum(x, [0], keepdims=True), X.sum(0, keepdims=True)),
        (lambda x: F.transpose(x), X.T),
        (lambda x: F.matmul(x, x, transpose_b=True), X @ X.T),
        (lambda x: F.matmul(X, x, True), X.T @ X),
        (lambda x: F.cast(x, "int32"), X.astype(np.int32)),
        (lambda x: F.reduce_logsumexp(x), np.log(np.exp(X).sum())),
        (lambda x: F.count_nonzero(x), 5),
        (lambda x: F.boolean_mask(x, [True, False]), X[:1]),
        (lambda x: F.gather(x, [2, 0], axis=1), X[:, [2, 0]]),
        (lambda x: F.where(x > 0, x, F.zeros_like(x)), np.maximum(X, 0)),
        (lambda x: F.softmax(x), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
        (lambda x: F.convert_to_tensor([x[0, 0], 2.0]), [1.5, 2.0]),
    ],
)
def test_functions_accept_known_and_unknown_shapes(
    function: Any, expected: Any, shape: Any
) -> None:
    np.testing.assert_allclose(run(function, shape), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: F.matmul(x, x, transpose_a=True, adjoint_a=True), "only one of"),
        (lambda x: F.unstack(x), "Cannot infer argument `num`"),
        (lambda x: F.pad(x, [[0, 0]], "mirror"), "'REFLECT'"),
        (lambda x: F.where(x > 0, x), "both be non-None"),
        (lambda x: F.dropout(x), "exactly one of rate and keep_prob"),
        (lambda x: F.dropout(x, rate=1.5), "in the range"),
        (lambda x: F.softmax(x, axis=0), "known rank"),
        (lambda x: F.boolean_mask(x, True), "rank of the mask"),
        (lambda x: F.tensordot(x, x, 1), "known ranks"),
        (lambda x: F.conv2d(x, x, [1, 2, 3]), "1, 2 or 4 numbers"),
        (lambda x: F.moments(x, [0], shift=1.0), "no shift"),
        (lambda x: F.random_uniform([2], dtype="int32") + x, "Must specify maxval"),
    ],
)
def test_function_refuses_bad_arguments(build: Any, message: str) -> None:
    graph = graphmill.Graph()
    with (
        graph.as_default(),
        pytest.raises(errors.InvalidArgumentError, match=message),
    ):
        build(graph.placeholder("float32"))


def test_random_shuffle_has_tensorflows_node_names() -> None:
    with graphmill.Graph().as_default():
        shuffled = [F.random_shuffle([1, 2]), F.random_shuffle([1, 2], name="mixed")]
    assert [tensor.name for tensor in shuffled] == ["RandomShuffle:0", "mixed:0"]


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda one: F.squeeze([[1, 2]], one - 1), (2,)),
        (lambda one: F.split([1, 2, 3], one * 3)[0], (1,)),
        (lambda one: F.tensordot(X, X.T, one), (2, 2)),
        (lambda one: F.max_pool(F.ones([1, 4, 4, 1]), one * 2, one * 2, "VALID"), (1, 2, 2, 1)),
    ],
)
def test_numpy_integers_are_accepted(build: Any, shape: tuple[int, ...]) -> None:
    with graphmill.Graph().as_default():
        assert build(np.int64(1)).shape == shape


@pytest.mark.parametrize(
    ("mask", "axis"), [([True], 0), ([True, False], 1), ([[True, False]], 1), ([True, True], -1)]
)
def test_boolean_mask_refuses_other_sizes(mask: Any, axis: int) -> None:
    with graphmill.Graph().as_default(), pytest.raises(ValueError, match="does not fit the axes"):
        F.boolean_mask(X, mask, axis=axis)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (3, "number from 0 to 2"),
        (-1, "number from 0 to 2"),
        ([[2], [0]], "axis 2 of a is out of range"),
        ([[0], [-3]], "axis -3 of b is out of range"),
    ],
)
def test_tensordot_refuses_axes_out_of_range(axes: Any, message: str) -> None:
    with graphmill.Graph().as_default(), pytest.raises(ValueError, match=message):
        F.tensordot(X, X, axes)


def test_unsupported_norm_is_named() -> None:
    with (
        graphmill.Graph().as_default(),
        pytest.raises(errors.UnimplementedError, match="ord=3"),
    ):
        F.norm(X, 3)


def test_embedding_lookup_reads_rows_of_a_variable() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        variable = graphmill.Variable(X)
        rows = F.embedding_lookup(variable, [1, 1])
        slices = graphmill.gradients(rows, variable)[0]
        start = graphmill.global_variables_initializer()
    assert isinstance(slices, graphmill.IndexedSlices)
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        np.testing.assert_array_equal(session.run(rows), X[[1, 1]])


def test_scopes_and_collections_belong_to_the_default_graph() -> None:
    graph = graphmill.Graph()
    with graph.as_default(), F.name_scope("layer"), F.device("/cpu:0"):
        x = F.placeholder("float32", [2], name="x")
        with F.control_dependencies([x.op]), F.colocate_with(x):
            y = F.constant([1.0], name="y")
        F.add_to_collections(["a", "b"], y)
        assert F.get_collection("a") == [y]
    assert (x.name, y.name) == ("layer/x:0", "layer/y:0")
    assert y.op.control_inputs == [x.op] or list(y.op.control_inputs) == [x.op]


def test_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(AttributeError, match="did you mean 'reduce_mean'"):
        F.reduce_meen  # noqa: B018


def test_seeds_are_those_of_tensorflow() -> None:
    """Values of tf.compat.v1.get_seed."""
    graph = graphmill.Graph()
    with graph.as_default():
        assert graphmill.get_seed(None) == (0, 0)
        assert graphmill.get_seed(3) == (87654321, 3)
        graphmill.set_random_seed(7)
        assert [graphmill.get_seed(None), graphmill.get_seed(None)] == [(7, 0), (7, 1)]
        assert graphmill.get_seed(-1) == (7, 2**31 - 2)
        graphmill.set_random_seed(0)
        assert graphmill.get_seed(0) == (0, 2**31 - 1)
        graphmill.set_random_seed(None)
        assert graphmill.get_seed(None) == (0, 0)


def test_equal_seeds_give_equal_numbers() -> None:
    def numbers(seed: int | None) -> Any:
        graph = graphmill.Graph()
        with graph.as_default():
            graphmill.set_random_seed(seed)
            noise = F.random_normal([4])
        with graphmill.Session(graph=graph) as session:
            return session.run(noise)

    np.testing.assert_array_equal(numbers(1), numbers(1))
    assert (numbers(1) != numbers(2)).any()


def test_name_scope_takes_a_default_name_and_the_graph_of_values() -> None:
    graph = graphmill.Graph()
    x = graph.placeholder("float32", [], name="x")
    with F.name_scope(None, "layer", [x, 1.0]) as scope:
        assert (scope, F.constant(1.0).name) == ("layer/", "layer/Const:0")
    with graph.as_default(), F.name_scope("own", "layer") as scope:
        assert scope == "own/"
    with pytest.raises(errors.InvalidArgumentError, match="needs name or default_name"):
        F.name_scope(None, values=[x])


@pytest.mark.parametrize(
    ("build", "same"),
    [
        (lambda x: F.softmax(x, axis=None), F.softmax),
        (lambda x: F.log_softmax(x, axis=None), lambda x: F.log_softmax(x, -1)),
        (lambda x: F.reduce_sum(x, keepdims=None), F.reduce_sum),
        (lambda x: F.reduce_logsumexp(x, 1, keepdims=None), lambda x: F.reduce_logsumexp(x, 1)),
        (lambda x: F.count_nonzero(x, keepdims=None), F.count_nonzero),
        (lambda x: F.norm(x, axis=1, keepdims=None), lambda x: F.norm(x, axis=1)),
        (lambda x: F.one_hot([1], 3, axis=None), lambda x: F.one_hot([1], 3, axis=-1)),
        (lambda x: F.shape(x, out_type=None), lambda x: F.shape(x, out_type="int32")),
        (lambda x: F.size(x, out_type=None), lambda x: F.size(x, out_type="int32")),
        (
            lambda x: F.boolean_mask(x, [True, False], axis=None),
            lambda x: F.boolean_mask(x, [True, False], axis=0),
        ),
        (lambda x: F.gather(x, [0], axis=None), lambda x: F.gather(x, [0], axis=0)),
        (
            lambda x: F.gather(x, [[2, 0], [0, 1]], batch_dims=1),
            lambda x: F.gather(x, [[2, 0], [0, 1]], axis=1, batch_dims=1),
        ),
        (
            lambda x: F.bias_add(x, [1.0, 2.0, 3.0], data_format=None),
            lambda x: F.bias_add(x, [1.0, 2.0, 3.0], "NHWC"),
        ),
        (
            lambda x: F.softmax_cross_entropy_with_logits_v2(x, x, axis=None),
            lambda x: F.softmax_cross_entropy_with_logits_v2(x, x, -1),
        ),
    ],
)
def test_none_is_the_default_of_tensorflow(
    build: Callable[[Any], Any], same: Callable[[Any], Any]
) -> None:
    value, expected = run(build, [2, 3]), run(same, [2, 3])
    assert (value.dtype, value.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(value, expected)


def test_eye_has_a_batch_of_matrices() -> None:
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        matrices = session.run(F.eye(2, 3, [2, 1], "int32"))
        assert matrices.shape == (2, 1, 2, 3)
        assert (matrices == np.eye(2, 3, dtype=np.int32)).all()
        with pytest.warns(DeprecationWarning, match="third argument of eye"):
            assert F.eye(2, None, "int32").dtype == graphmill.int32


def test_gather_takes_the_arguments_in_tensorflows_order() -> None:
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        rows = F.gather([[1, 2], [3, 4]], [1], True, "rows", 1)
        assert rows.op.name == "rows"
        assert session.run(rows).tolist() == [[2], [4]]
        with pytest.warns(DeprecationWarning, match="third argument of gather") as caught:
            rows = F.gather([[1, 2], [3, 4]], [1], 1)
        assert caught[0].filename == __file__
        assert session.run(rows).tolist() == [[2], [4]]


def test_old_order_of_arguments_of_gather_is_taken_with_a_warning() -> None:
    table, picked = [[1, 2], [3, 4]], [[1], [0]]
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1, 1, "rows"), {}),
        ((1,), {"batch_dims": 1, "name": "rows"}),
        ((None, 1, "rows"), {}),
    ]
    for positional, named in calls:
        with graphmill.Graph().as_default(), graphmill.Session() as session:
            with pytest.warns(DeprecationWarning, match="third argument of gather"):
                rows = F.gather(table, picked, *positional, **named)
            assert rows.op.name == "rows"
            assert session.run(rows).tolist() == [[2], [3]]


def test_conv2d_takes_the_arguments_in_tensorflows_order() -> None:
    images, filters = np.ones((1, 3, 3, 1), np.float32), np.ones((2, 2, 1, 1), np.float32)
    with graphmill.Graph().as_default():
        new = F.conv2d(images, filters, 1, "VALID", False, "NHWC", 2, "new")
        named = F.conv2d(images, filters=filters)
        with pytest.warns(DeprecationWarning, match="fifth argument of conv2d"):
            old = F.conv2d(images, filters, 1, "VALID", "NHWC", 2, "old")  # type: ignore[arg-type]
        with pytest.warns(DeprecationWarning, match="fifth argument of conv2d"):
            mixed = F.conv2d(images, filters, 1, "VALID", "NHWC", dilations=2)  # type: ignore[arg-type]
    assert not new.op.get_attr("use_cudnn_on_gpu")
    assert new.shape == old.shape == mixed.shape == (1, 1, 1, 1)
    assert (new.op.name, old.op.name) == ("new", "old")
    assert named.shape == (1, 2, 2, 1)


def test_pools_take_images_as_input_or_value() -> None:
    images: Any = np.ones((1, 4, 4, 1), np.float32)
    with graphmill.Graph().as_default():
        for pool in (F.max_pool, F.avg_pool):
            by_input: Any = pool
            assert by_input(input=images, ksize=2, strides=2, padding="VALID").shape[1] == 2
            with pytest.raises(TypeError, match="same argument"):
                by_input(input=images, value=images + 1, ksize=2, strides=2, padding="VALID")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sparse_matrices_are_multiplied_as_dense_ones(dtype: str) -> None:
    a, b = [[1.0, 0.0], [0.0, 2.0]], [[3.0, 0.0, 1.0], [0.0, 4.0, 0.0]]
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        a, b = F.constant(a, dtype), F.constant(b, dtype)
        product = F.matmul(a, b, adjoint_a=True, b_is_sparse=True, name="product")
        assert product.dtype.name == dtype
        assert any(node.op == "SparseMatMul" for node in product.graph.nodes)
        assert session.run(product).tolist() == [[3, 0, 1], [0, 8, 0]]


def test_sparse_batches_and_integers_are_multiplied_as_usual() -> None:
    with graphmill.Graph().as_default() as graph:
        F.matmul([[[1.0]]], [[[2.0]]], a_is_sparse=True)
        F.matmul([[1]], [[2]], b_is_sparse=True)
        with pytest.warns(DeprecationWarning, match="seventh argument of matmul"):
            named = F.matmul([[1]], [[2]], False, False, False, False, "mine")  # type: ignore[arg-type]
    assert named.op.name == "mine"
    assert not [node for node in graph.nodes if node.op == "SparseMatMul"]
