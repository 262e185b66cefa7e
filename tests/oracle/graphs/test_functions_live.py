"""The same program, spelled the same way, computes the same with `tf.compat.v1` and graphmill.

Each case is called twice: with TensorFlow's modules and with ours. So names, order of arguments,
defaults, seeds and values are compared.
"""

from __future__ import annotations

import types

import numpy as np
import pytest

import graphmill

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")

X = np.array([[1.5, -2.0, 0.25], [4.0, 0.0, -1.0]], np.float32)
Y = np.array([[0.5, 1.0, 3.0], [-2.0, 0.0, 1.0]], np.float32)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
IMAGES = np.random.default_rng(0).standard_normal((2, 6, 5, 3)).astype(np.float32)
FILTERS = np.random.default_rng(1).standard_normal((3, 3, 3, 4)).astype(np.float32)
STRATEGIES = ("mod", "div")
STEPS = (0, 1, 3, 10, 11, 25, 100)


class Either:
    """Looks a name up in several modules of TensorFlow."""

    def __init__(self, *modules):
        self.modules = modules

    def __getattr__(self, name):
        for module in self.modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)


def namespaces():
    v1 = tf.compat.v1
    yield (
        "tensorflow",
        types.SimpleNamespace(
            F=Either(v1, v1.nn),
            train=Either(v1.train, v1),
            losses=v1.losses,
            initializers=v1.initializers,
            seed=v1.set_random_seed,
        ),
    )
    yield (
        "graphmill",
        types.SimpleNamespace(
            F=graphmill.functions,
            train=graphmill.train,
            losses=graphmill.losses,
            initializers=graphmill.initializers,
            seed=graphmill.set_random_seed,
        ),
    )


def results(program):
    for name, modules in namespaces():
        if name == "tensorflow":
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                yield session.run(program(modules))
        else:
            graph = graphmill.Graph()
            with graph.as_default():
                fetches = program(modules)
            with graphmill.Session(graph=graph) as session:
                yield session.run(fetches)


def check(program, rtol=2e-6):
    theirs, ours = results(program)
    theirs, ours = (
        list(item) if isinstance(item, (list, tuple)) else [item] for item in (theirs, ours)
    )
    assert len(theirs) == len(ours)
    for expected, actual in zip(theirs, ours, strict=True):
        assert np.asarray(actual).dtype == np.asarray(expected).dtype
        assert np.shape(actual) == np.shape(expected)
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-6)


FUNCTIONS = {
    "matmul": lambda m: m.F.matmul(X, Y, False, True),
    "matmul_transposed": lambda m: m.F.matmul(X, Y, transpose_a=True),
    "matmul_batch": lambda m: m.F.matmul(CUBE, CUBE, transpose_b=True),
    "matmul_adjoint": lambda m: m.F.matmul(X + 1j * Y, Y + 1j * X, adjoint_b=True),
    "matmul_complex": lambda m: m.F.matmul(CUBE + 1j, CUBE * 2j, transpose_b=True),
    "cast": lambda m: m.F.cast(X, "int32"),
    "reduce_sum": lambda m: m.F.reduce_sum(CUBE, [0, 2]),
    "reduce_sum_all": lambda m: m.F.reduce_sum(CUBE),
    "reduce_mean": lambda m: m.F.reduce_mean(CUBE, 1, True),
    "reduce_max": lambda m: m.F.reduce_max(CUBE, axis=-1, keepdims=True),
    "reduce_min": lambda m: m.F.reduce_min(CUBE, axis=[]),
    "reduce_prod": lambda m: m.F.reduce_prod(X, 0),
    "reduce_all": lambda m: m.F.reduce_all(X > 0, 1),
    "reduce_any": lambda m: m.F.reduce_any(X > 0),
    "reduce_logsumexp": lambda m: m.F.reduce_logsumexp(X, 1),
    "reduce_logsumexp_inf": lambda m: m.F.reduce_logsumexp([-np.inf, -np.inf], keepdims=True),
    "argmax": lambda m: m.F.argmax(X, 1),
    "argmin": lambda m: m.F.argmin(X, output_type="int32"),
    "cumsum": lambda m: m.F.cumsum(X, 1, True, True),
    "count_nonzero": lambda m: m.F.count_nonzero(X, axis=0),
    "einsum": lambda m: m.F.einsum("ij, kj -> ik", X, Y),
    "tensordot": lambda m: m.F.tensordot(CUBE, CUBE, [[0, 1], [0, 1]]),
    "tensordot_count": lambda m: m.F.tensordot(CUBE, np.ones((4, 2), np.float32), 1),
    "norm": lambda m: m.F.norm(X, axis=1),
    "norm_1": lambda m: m.F.norm(X, ord=1),
    "range": lambda m: [m.F.range(5), m.F.range(1, 9, 2), m.F.range(1, 3, dtype="float32")],
    "div_no_nan": lambda m: m.F.div_no_nan(X, Y),
    "reshape": lambda m: [m.F.reshape(X, [-1]), m.F.reshape(X[:1, :1], [])],
    "transpose": lambda m: [m.F.transpose(CUBE), m.F.transpose(CUBE, [1, 0, 2])],
    "transpose_conjugate": lambda m: m.F.transpose(X + 1j, conjugate=True),
    "expand_dims": lambda m: m.F.expand_dims(X, -1),
    "squeeze": lambda m: [m.F.squeeze(X[:1]), m.F.squeeze(X[:1, :1], 0)],
    "concat": lambda m: [m.F.concat([X, Y], 1), m.F.concat([X], 0)],
    "stack": lambda m: m.F.stack([X, Y], 1),
    "unstack": lambda m: m.F.unstack(X, axis=1),
    "split": lambda m: m.F.split(CUBE, 2, 2),
    "split_sizes": lambda m: m.F.split(CUBE, [1, -1], axis=1),
    "gather": lambda m: m.F.gather(CUBE, [1, 0], axis=1),
    "gather_batch": lambda m: m.F.gather(CUBE, [[1], [2]], axis=1, batch_dims=1),
    "one_hot": lambda m: [m.F.one_hot([0, 2], 3), m.F.one_hot([[1]], 2, 5, 7, axis=0)],
    "one_hot_dtype": lambda m: m.F.one_hot([0, 2], 3, dtype="int64"),
    "pad": lambda m: [m.F.pad(X, [[1, 0], [0, 2]]), m.F.pad(X, [[1, 0], [0, 2]], "reflect")],
    "pad_value": lambda m: m.F.pad(X, [[1, 0], [0, 2]], constant_values=9.0),
    "tile": lambda m: m.F.tile(X, [2, 1]),
    "shape": lambda m: [m.F.shape(X), m.F.size(X), m.F.shape(X, out_type="int64")],
    "zeros": lambda m: [m.F.zeros([2]), m.F.zeros([], "int32"), m.F.ones([1], "bool")],
    "likes": lambda m: [m.F.zeros_like(X), m.F.ones_like(X, "int32"), m.F.fill([2], 3)],
    "eye": lambda m: [m.F.eye(3), m.F.eye(2, 4), m.F.eye(3, 2, dtype="float64")],
    "where": lambda m: [m.F.where(X > 0), m.F.where(X > 0, X, Y), m.F.where([True, False], X, Y)],
    "where_v2": lambda m: m.F.where_v2(X > 0, X, np.float32(7)),
    "boolean_mask": lambda m: [
        m.F.boolean_mask(CUBE, [True, False]),
        m.F.boolean_mask(CUBE, [True, False, True], axis=1),
        m.F.boolean_mask(X, X > 0),
    ],
    "softmax": lambda m: [m.F.softmax(X), m.F.softmax(CUBE, 1), m.F.log_softmax(CUBE, axis=0)],
    "cross_entropy": lambda m: m.F.softmax_cross_entropy_with_logits(labels=np.abs(X), logits=Y),
    "cross_entropy_v2": lambda m: [
        m.F.softmax_cross_entropy_with_logits_v2(CUBE / 276, CUBE),
        m.F.softmax_cross_entropy_with_logits_v2(CUBE / 276, CUBE, 1),
    ],
    "sparse_cross_entropy": lambda m: [
        m.F.sparse_softmax_cross_entropy_with_logits(labels=[1, 0], logits=X),
        m.F.sparse_softmax_cross_entropy_with_logits(labels=[[1, 0, 3]] * 2, logits=CUBE),
    ],
    "sigmoid_cross_entropy": lambda m: m.F.sigmoid_cross_entropy_with_logits(labels=X, logits=Y),
    "dropout": lambda m: [m.F.dropout(X, 0.6, seed=4), m.F.dropout(CUBE, rate=0.3, seed=4)],
    "conv2d": lambda m: [
        m.F.conv2d(IMAGES, FILTERS, [1, 2, 2, 1], "SAME"),
        m.F.conv2d(IMAGES, FILTERS, 1, "VALID", dilations=[1, 2, 2, 1]),
        m.F.conv2d(IMAGES, FILTERS, 2, [[0, 0], [1, 2], [0, 1], [0, 0]]),
    ],
    "pools": lambda m: [m.F.max_pool(IMAGES, 2, 2, "SAME"), m.F.avg_pool(IMAGES, 3, 1, "VALID")],
    "bias_add": lambda m: m.F.bias_add(IMAGES, [1.0, 2.0, 3.0]),
    "l2_normalize": lambda m: [m.F.l2_normalize(X, 1), m.F.l2_normalize(X)],
    "moments": lambda m: [*m.F.moments(IMAGES, [0, 1, 2]), *m.F.moments(X, [1], keepdims=True)],
    "batch_normalization": lambda m: m.F.batch_normalization(X, Y, np.abs(Y), X, Y, 1e-3),
    "batch_normalization_plain": lambda m: m.F.batch_normalization(X, Y, Y * Y, None, None, 0.1),
    "embedding_lookup": lambda m: m.F.embedding_lookup(X, [[1, 0]]),
    "embedding_lookup_in_parts": lambda m: [
        m.F.embedding_lookup([X, Y, X + Y], [[5, 0], [3, 4]], strategy) for strategy in STRATEGIES
    ],
    "embedding_lookup_of_uneven_parts": lambda m: m.F.embedding_lookup(
        [np.concatenate([X, Y[:1]]), Y, X], [6, 0, 3, 4, 2, 5], "div"
    ),
    "embedding_lookup_limited": lambda m: [
        m.F.embedding_lookup(X, [[1, 0]], max_norm=1.5),
        m.F.embedding_lookup([X, Y], [3, 0, 1], max_norm=1.5),
    ],
    "matmul_sparse": lambda m: m.F.matmul(X, Y, False, False, False, True, True, False),
    "top_k": lambda m: m.F.top_k(X, 2),
    "in_top_k": lambda m: m.F.in_top_k(X, [0, 2], 1),
    "random": lambda m: [
        m.F.random_uniform([3], seed=1),
        m.F.random_uniform([3], 2, 5, seed=1),
        m.F.random_uniform([3], -1.0, maxval=1.0, dtype="float64", seed=1),
        m.F.random_uniform([4], maxval=100, dtype="int32", seed=1),
        m.F.random_normal([3], 1.0, 2.0, seed=3),
        m.F.truncated_normal([3], seed=-3),
        m.F.random_shuffle(np.arange(9), 5),
    ],
}

CLIPS = {
    "clip_by_value": lambda m: m.train.clip_by_value(X, -1.0, 2.0),
    "clip_by_norm": lambda m: [m.train.clip_by_norm(X, 2.0), m.train.clip_by_norm(X, 1.0, [1])],
    "clip_by_norm_negative": lambda m: m.train.clip_by_norm(X, -1),
    "clip_by_average_norm": lambda m: m.train.clip_by_average_norm(X, 0.1),
    "global_norm": lambda m: m.train.global_norm([X, None, CUBE]),
    "clip_by_global_norm": lambda m: [
        *m.train.clip_by_global_norm([X, CUBE], 5.0)[0],
        m.train.clip_by_global_norm([X], 50)[1],
    ],
    "clip_by_global_norm_inf": lambda m: m.train.clip_by_global_norm([X, IMAGES * np.inf], 5.0)[0],
}

DECAYS = {
    "exponential": lambda m, s: m.train.exponential_decay(0.1, s, 10, 0.9),
    "exponential_staircase": lambda m, s: m.train.exponential_decay(0.1, s, 10, 0.9, True),
    "natural_exp": lambda m, s: m.train.natural_exp_decay(0.1, s, 10, 0.5),
    "inverse_time": lambda m, s: m.train.inverse_time_decay(0.1, s, 10, 0.5, staircase=True),
    "polynomial": lambda m, s: m.train.polynomial_decay(0.1, s, 10, 0.01, 0.5),
    "polynomial_cycle": lambda m, s: m.train.polynomial_decay(0.1, s, 10, 0.01, 2.0, True),
    "piecewise": lambda m, s: m.train.piecewise_constant(s, [3, 10], [0.1, 0.01, 0.001]),
    "cosine": lambda m, s: m.train.cosine_decay(0.1, s, 10, 0.1),
    "cosine_restarts": lambda m, s: m.train.cosine_decay_restarts(0.1, s, 4, 2.0, 0.9, 0.1),
    "cosine_restarts_even": lambda m, s: m.train.cosine_decay_restarts(0.1, s, 4, t_mul=1.0),
    "linear_cosine": lambda m, s: m.train.linear_cosine_decay(0.1, s, 10, 1.5, 0.1, 0.01),
}

WEIGHTS = {
    "none": (),
    "scalar": (0.5,),
    "zero": (0.0,),
    "rows": ([[1.0], [0.0]],),
    "all": (np.abs(Y),),
}
REDUCTIONS = (
    "none",
    "weighted_sum",
    "weighted_sum_over_batch_size",
    "weighted_mean",
    "weighted_sum_by_nonzero_weights",
)
LOSSES = (
    ("absolute_difference", Y, X, {}),
    ("mean_squared_error", Y, X, {}),
    ("huber_loss", Y, X, {"delta": 0.7}),
    ("log_loss", X > 0, np.abs(X) / 5, {}),
    ("hinge_loss", X > 0, Y, {}),
    ("sigmoid_cross_entropy", X > 0, Y, {"label_smoothing": 0.2}),
)

INITIALIZERS = {
    "zeros": lambda i: i.zeros()([2, 3]),
    "ones": lambda i: i.ones("int32")([2]),
    "constant": lambda i: i.constant(2.5)([2, 2]),
    "constant_list": lambda i: i.constant([1, 2, 3])([2, 2]),
    "random_uniform": lambda i: i.random_uniform(-1.0, 1.0, 3)([2, 3]),
    "random_normal": lambda i: i.random_normal(1.0, 2.0, seed=3)([2, 3]),
    "truncated_normal": lambda i: i.truncated_normal(seed=3, stddev=0.1)([2, 3]),
    "uniform_unit_scaling": lambda i: i.uniform_unit_scaling(2.0, 3)([2, 3]),
    "variance_scaling": lambda i: i.variance_scaling(2.0, "fan_out", "uniform", 3)([2, 3]),
    "variance_scaling_un": lambda i: i.variance_scaling(distribution="untruncated_normal", seed=3)(
        [4]
    ),
    "glorot_uniform": lambda i: i.glorot_uniform(3)([3, 3, 2, 4]),
    "glorot_normal": lambda i: i.glorot_normal(3)([2, 3], "float64"),
    "he_normal": lambda i: i.he_normal(3)([2, 3]),
    "he_uniform": lambda i: i.he_uniform(3)([2, 3]),
    "lecun_normal": lambda i: i.lecun_normal(3)([5]),
    "lecun_uniform": lambda i: i.lecun_uniform(3)([2, 3]),
    "orthogonal": lambda i: i.orthogonal(2.0, 3)([2, 2, 3]),
    "orthogonal_wide": lambda i: i.orthogonal(seed=3)([2, 5]),
    "identity": lambda i: i.identity(3.0)([2, 3]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_computes_tensorflows_values(name):
    check(FUNCTIONS[name])


@pytest.mark.parametrize("name", CLIPS)
def test_clipping_gives_tensorflows_values(name):
    check(CLIPS[name])


@pytest.mark.parametrize("name", DECAYS)
def test_decays_give_tensorflows_values(name):
    check(lambda m: [DECAYS[name](m, m.F.constant(step, "int64")) for step in STEPS], 1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("name", "labels", "values", "others"), LOSSES, ids=lambda x: str(x)[:12])
def test_a_loss_has_tensorflows_value(name, labels, values, others, weights, reduction):
    def program(m):
        args = (labels, values, *WEIGHTS[weights])
        loss = getattr(m.losses, name)(*args, reduction=reduction, **others)
        return loss if reduction == "none" else [loss, m.losses.get_total_loss()]

    check(program, 1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses_of_rows_have_tensorflows_values(reduction):
    rows = [1.0, 0.5]
    check(
        lambda m: [
            m.losses.softmax_cross_entropy(np.abs(X), Y, rows, 0.1, reduction=reduction),
            m.losses.sparse_softmax_cross_entropy([1, 2], Y, rows, reduction=reduction),
            m.losses.sparse_softmax_cross_entropy([[1], [2]], Y, [[1.0], [0.0]]),
            m.losses.cosine_distance(X, Y, 1, reduction=reduction),
            m.losses.mean_pairwise_squared_error(X, Y),
            m.losses.mean_pairwise_squared_error(X, Y, [[1.0], [0.0]]),
        ],
        1e-5,
    )


@pytest.mark.parametrize("name", INITIALIZERS)
def test_an_initializer_gives_tensorflows_values(name):
    check(lambda m: INITIALIZERS[name](m.initializers), 1e-5)


@pytest.mark.parametrize("seed", [0, 7, -1, 2**40])
def test_graph_seeds_give_tensorflows_op_seeds(seed):
    """The op seeds that a graph with a seed derives: for ops with and without one."""

    def program(m):
        m.seed(seed)
        return [
            m.F.random_uniform([2]),
            m.F.random_normal([2], seed=0),
            m.F.random_normal([2], seed=5),
            m.initializers.glorot_uniform()([2, 2]),
            m.F.random_shuffle(np.arange(20)),
            m.F.dropout(X, 0.5),
        ]

    check(program)
