"""Functions of TensorFlow 2 from many areas, with their gradients: one training signature each.

The function of an area returns tensors; the graph has them, and the gradients of the sum of their
squares with respect to all inputs of floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import tensorflow as tf

from population.layers import images, integers, numbers, placeholder
from population.registry import Built, case, each

if TYPE_CHECKING:
    from collections.abc import Callable


def _structural_similarity(a: Any, b: Any) -> Any:
    return [tf.image.ssim(a, b, 1.0)]


def _edges(x: Any) -> Any:
    return [tf.image.sobel_edges(x), tf.image.total_variation(x) / 1e4]


def _spectrogram(x: Any) -> Any:
    spectrum = tf.signal.stft(x, 256, 128)
    return [tf.abs(spectrum), tf.signal.inverse_stft(spectrum, 256, 128)]


def _solve(x: Any) -> Any:
    a = tf.matmul(x, x, transpose_b=True) + 70 * tf.eye(32)
    return [tf.linalg.cholesky(a), tf.linalg.inv(a), tf.linalg.solve(a, x), tf.linalg.logdet(a)]


def _segments(x: Any, ids: Any) -> Any:
    return [
        tf.math.segment_sum(x, ids),
        tf.math.unsorted_segment_max(x, ids, 500),
        tf.math.unsorted_segment_mean(x, ids, 500),
    ]


def _gated_units(x: Any, lengths: Any, gates: Any, candidates: Any) -> Any:
    def step(t: Any, state: Any) -> Any:
        joined = tf.concat([x[:, t], state], 1)
        update, reset = tf.split(tf.sigmoid(tf.matmul(joined, gates)), 2, 1)
        new = tf.tanh(tf.matmul(tf.concat([x[:, t], reset * state], 1), candidates))
        new = update * state + (1 - update) * new
        return t + 1, tf.where((t < lengths)[:, None], new, state)

    return [tf.while_loop(lambda t, _: t < 50, step, [0, tf.zeros([32, 32])])[1]]


def _rows(x: Any) -> Any:
    mapped = tf.map_fn(lambda row: tf.reduce_sum(row * row) * row, x)
    return [mapped, tf.scan(lambda state, row: state * 0.5 + row, x)]


def _einsum(a: Any, b: Any) -> Any:
    return [tf.einsum("bij,bjk->ik", a, b), tf.einsum("bij,bjk->bik", a, b)]


def _convolutions(x: Any, kernel: Any) -> Any:
    depthwise = tf.nn.depthwise_conv2d(x, kernel[..., :2], [1, 1, 1, 1], "SAME")
    return [tf.nn.conv2d(x, kernel, 2, "SAME"), depthwise]


def _transposed(x: Any, kernel: Any) -> Any:
    return [tf.nn.conv2d_transpose(x, kernel, [4, 64, 64, 24], 2)]


def _volumes(x: Any, kernel: Any) -> Any:
    convolved = tf.nn.conv3d(x, kernel, [1, 1, 1, 1, 1], "SAME")
    return [convolved, tf.nn.max_pool3d(x, 2, 2, "VALID")]


def _normalization(x: Any) -> Any:
    return [tf.nn.lrn(x, 2), *tf.nn.moments(x, [1, 2]), tf.nn.l2_normalize(x, 3)]


def _dilation(x: Any, kernel: Any) -> Any:
    return [tf.nn.dilation2d(x, kernel, [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1])]


def _ctc(logits: Any, labels: Any) -> Any:
    return [tf.nn.ctc_loss(labels, logits, [12] * 8, [60] * 8, blank_index=0)]


def _embeddings(table: Any, ids: Any) -> Any:
    return [
        tf.reduce_mean(tf.nn.embedding_lookup(table, ids), 1),
        tf.nn.embedding_lookup_sparse(table, tf.sparse.from_dense(ids), None, "mean"),
    ]


def _sparse(a: Any, b: Any) -> Any:
    matrix = tf.sparse.from_dense(a)
    return [
        tf.sparse.sparse_dense_matmul(matrix, b),
        tf.sparse.reduce_sum(matrix, 1),
        tf.sparse.to_dense(tf.sparse.softmax(matrix)),
        tf.sparse.to_dense(tf.sparse.transpose(matrix)),
    ]


def _ragged(x: Any) -> Any:
    rows = tf.RaggedTensor.from_row_lengths(x, [20] * 100)
    return [
        rows.to_tensor(),
        tf.reduce_mean(rows, 1),
        tf.reduce_max(rows, 1),
        tf.gather(rows, [5, 2, 7]).to_tensor(),
    ]


def _sequences(x: Any, lengths: Any) -> Any:
    return [
        tf.reverse_sequence(x, lengths, 1),
        tf.math.top_k(x, 5)[0],
        tf.sort(x, 1),
        tf.cumsum(x, 1),
    ]


def _special(x: Any) -> Any:
    positive = tf.abs(x) + 0.3
    return [
        tf.math.lgamma(positive),
        tf.math.digamma(positive),
        tf.math.erf(x),
        tf.math.igamma(positive, positive + 1),
        tf.math.bessel_i0e(x),
    ]


def _complex(a: Any, b: Any) -> Any:
    z = tf.complex(a, b)
    return [
        tf.abs(z * tf.exp(z * 0.1)),
        tf.math.real(tf.sqrt(z)),
        tf.abs(tf.signal.fft2d(z)),
        tf.math.real(tf.linalg.matmul(z, z, adjoint_b=True)),
    ]


def _scattered(x: Any, rows: Any) -> Any:
    return [
        tf.tensor_scatter_nd_add(x, rows, x[:500]),
        tf.scatter_nd(rows, x[:500], [2000, 30]),
        tf.gather_nd(x, rows),
    ]


def _attention(query: Any, key: Any) -> Any:
    def heads(x: Any) -> Any:
        return tf.transpose(tf.reshape(x, [8, -1, 4, 16]), [0, 2, 1, 3])

    shares = tf.nn.softmax(tf.matmul(heads(query), heads(key), transpose_b=True) / 4.0)
    mixed = tf.transpose(tf.matmul(shares, heads(key)), [0, 2, 1, 3])
    return [tf.reshape(mixed, [8, 32, 64]), tf.nn.gelu(query), tf.nn.silu(query)]


def _experts(x: Any) -> Any:
    chosen = tf.argmax(x[:, :4], 1, tf.int32)
    parts = tf.dynamic_partition(x, chosen, 4)
    places = tf.dynamic_partition(tf.range(64), chosen, 4)
    results = [tf.tanh(part * (1.0 + index)) for index, part in enumerate(parts)]
    return [tf.dynamic_stitch(places, results)]


def _iterated_scaling(x: Any) -> Any:
    kernel = tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1))
    scale = tf.ones([100])
    for _ in range(20):
        inner = tf.linalg.matvec(kernel, scale, transpose_a=True)
        scale = 1 / tf.linalg.matvec(kernel, 1 / inner)
    return [scale]


AREAS: Final[dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]]] = {
    "ssim": (_structural_similarity, lambda: (images(4, 64, 64, 3), images(4, 64, 64, 3))),
    "edges": (_edges, lambda: (numbers(4, 64, 64, 3),)),
    "spectrogram": (_spectrogram, lambda: (numbers(8, 8000),)),
    "solve": (_solve, lambda: (numbers(16, 32, 32),)),
    "segments": (_segments, lambda: (numbers(20000, 16), np.sort(integers(500, 20000)))),
    "gated_units": (
        _gated_units,
        lambda: (
            numbers(32, 50, 32),
            integers(50, 32),
            numbers(64, 64) * np.float32(0.1),
            numbers(64, 32) * np.float32(0.1),
        ),
    ),
    "rows": (_rows, lambda: (numbers(64, 100),)),
    "einsum": (_einsum, lambda: (numbers(32, 24, 16), numbers(32, 16, 20))),
    "convolutions": (_convolutions, lambda: (numbers(4, 32, 32, 16), numbers(3, 3, 16, 32))),
    "transposed": (_transposed, lambda: (numbers(4, 32, 32, 16), numbers(3, 3, 24, 16))),
    "volumes": (_volumes, lambda: (numbers(2, 12, 16, 16, 8), numbers(3, 3, 3, 8, 8))),
    "normalization": (_normalization, lambda: (numbers(8, 32, 32, 16),)),
    "dilation": (_dilation, lambda: (numbers(4, 32, 32, 8), numbers(3, 3, 8))),
    "ctc": (_ctc, lambda: (numbers(60, 8, 30), 1 + integers(29, 8, 12))),
    "embeddings": (_embeddings, lambda: (numbers(5000, 32), 1 + integers(4999, 64, 20))),
    "sparse": (
        _sparse,
        lambda: (numbers(200, 300) * (integers(20, 200, 300) == 0), numbers(300, 32)),
    ),
    "ragged": (_ragged, lambda: (numbers(2000, 8),)),
    "sequences": (_sequences, lambda: (numbers(32, 60, 20), 1 + integers(60, 32))),
    "special": (_special, lambda: (numbers(100, 50),)),
    "complex": (_complex, lambda: (numbers(64, 64), numbers(64, 64))),
    "scattered": (_scattered, lambda: (numbers(2000, 30), integers(2000, 500, 1))),
    "attention": (_attention, lambda: (numbers(8, 32, 64), numbers(8, 40, 64))),
    "experts": (_experts, lambda: (numbers(64, 256),)),
    "iterated_scaling": (_iterated_scaling, lambda: (numbers(100, 16),)),
}


@case("gradient_of_{area}", each(area=AREAS), rtol=1e-3, atol=1e-3)
def gradient_of(area: str) -> Built:
    function, make = AREAS[area]
    values = {f"x{index}": value for index, value in enumerate(make())}

    @tf.function
    def differentiated(*inputs: Any) -> Any:
        floats = [one for one in inputs if one.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            outputs = function(*inputs)
            loss = tf.add_n([tf.reduce_sum(tf.square(output)) for output in outputs])
        return outputs, tape.gradient(loss, floats)

    outputs, gradients = differentiated(*(placeholder(*item) for item in values.items()))
    fetched = [*outputs, *(tf.convert_to_tensor(one) for one in gradients if one is not None)]
    return Built(values, fetched)
