"""Small graphs cannot allocate more than the session's memory budget."""

from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, memory_budget, ops, proto

if TYPE_CHECKING:
    from collections.abc import Callable

    Build = Callable[[Callable[..., Any]], Any]

BUDGET = 8 << 20
JIT = pytest.mark.parametrize("jit", ["off", "eager"])


def ints(value: Any) -> Any:
    return np.array(value, np.int32)


def repeated_value(count: int) -> bytes:
    """Return a message in which one value stands for all elements."""
    message = proto.TensorProto(dtype=1, float_val=[1.0])
    message.tensor_shape.dim.add(size=count)
    return message.SerializeToString()


def long_text() -> Any:
    return np.array(b"a" * 10**6, object)


def empty_list(const: Callable[[Any], Any], shape: list[int], length: int = 1) -> Any:
    reserve = ops.tensor_list.tensor_list_reserve
    return reserve(const(ints(shape)), const(ints(length)), element_dtype="float32")


# Each builds one node "big" from tensors that `const` makes: the values decide on the size.
GREEDY: dict[str, Build] = {
    "Fill": lambda const: ops.array.fill(const(ints([3000, 3000])), const(np.float32(1))),
    "Tile": lambda const: ops.array.tile(const(np.ones(4, np.float32)), const(ints([10**6]))),
    "BroadcastTo": lambda const: ops.array.broadcast_to(
        const(np.float32(1)), const(ints([3000, 3000]))
    ),
    "OneHot": lambda const: ops.array.one_hot(
        const(ints([1, 2])), const(ints(10**7)), const(np.float32(1)), const(np.float32(0))
    ),
    "Pad": lambda const: ops.array.pad(const(np.ones(4, np.float32)), const(ints([[0, 10**7]]))),
    "Dilation2D": lambda const: ops.nn.dilation2d(
        const(np.ones((1, 100, 100, 1), np.float32)),
        const(np.ones((6, 6, 1), np.float32)),
        strides=[1, 1, 1, 1],
        rates=[1, 400, 400, 1],
        padding="SAME",
    ),
    "Range": lambda const: ops.math.range(const(ints(0)), const(ints(10**7)), const(ints(1))),
    "LinSpace": lambda const: ops.math.lin_space(
        const(np.float32(0)), const(np.float32(1)), const(ints(10**7))
    ),
    "BandedTriangularSolve": lambda const: ops.linalg.banded_triangular_solve(
        const(np.ones((3000, 1, 1, 1), np.float32)), const(np.ones((1, 3000, 1, 1), np.float32))
    ),
    "MatrixDiagV3": lambda const: ops.array.matrix_diag_v3(
        const(np.ones(3000, np.float32)),
        const(ints(0)),
        const(ints(3000)),
        const(ints(3000)),
        const(np.float32(0)),
    ),
    "RandomUniform": lambda const: ops.random.random_uniform(
        const(ints([3000, 3000])), dtype="float32"
    ),
    "Bincount": lambda const: ops.math.bincount(
        const(ints([1])), const(ints(10**7)), const(np.ones(1, np.float32))
    ),
    "AsString": lambda const: ops.string.as_string(const(np.float32(1)), width=10**7),
    "AsString precision": lambda const: ops.string.as_string(const(np.float32(1)), precision=10**7),
    "DecodeCompressed": lambda const: ops.parsing.decode_compressed(
        const(np.array(gzip.compress(bytes(10**7)), object)), compression_type="GZIP"
    ),
    "DecodeCompressed truncated": lambda const: ops.parsing.decode_compressed(
        const(np.array(gzip.compress(bytes(10**7))[:-9], object)), compression_type="GZIP"
    ),
    "DecodeCompressed in sum": lambda const: ops.parsing.decode_compressed(
        const(np.array([gzip.compress(bytes(10**6))] * 10, object)), compression_type="GZIP"
    ),
    "DecodePaddedRaw": lambda const: ops.parsing.decode_padded_raw(
        const(np.array([b"a"], object)), const(ints(10**7)), out_type="uint8"
    ),
    "ParseTensor": lambda const: ops.parsing.parse_tensor(
        const(np.array(repeated_value(10**7), object)), out_type="float32"
    ),
    "StringJoin": lambda const: ops.string.string_join([const(long_text())] * 20),
    "StringJoin separator": lambda const: ops.string.string_join(
        [const(np.array(b"a", object))] * 100, separator="x" * 10**5
    ),
    "ReduceJoin": lambda const: ops.string.reduce_join(
        const(np.full(100, b"a", object)), const(ints(0)), separator="x" * 10**5
    ),
    "StringNGrams": lambda const: ops.string.string_n_grams(
        const(np.full(1000, b"a" * 1000, object)),
        const(np.array([0, 1000])),
        separator="",
        ngram_widths=[500],
        left_pad="",
        right_pad="",
        pad_width=0,
        preserve_short_sequences=False,
    )[0],
    "StaticRegexReplace": lambda const: ops.string.static_regex_replace(
        const(np.array(b"a" * 10**4, object)), pattern="a|bc", rewrite="x" * 10**4
    ),
    "ScatterNd": lambda const: ops.array.scatter_nd(
        const(ints([[0]])), const(np.ones(1, np.float32)), const(ints([10**7]))
    ),
    "GatherV2": lambda const: ops.array.gather_v2(
        const(np.ones((2, 3000), np.float32)), const(ints([0] * 1000)), const(ints(0))
    ),
    "GatherNd": lambda const: ops.array.gather_nd(
        const(np.ones((2, 3000), np.float32)), const(ints([[0]] * 1000))
    ),
    "MirrorPad": lambda const: ops.array.mirror_pad(
        const(np.ones((900, 900), np.float32)), const(ints([[900] * 2] * 2)), mode="SYMMETRIC"
    ),
    "AddV2": lambda const: ops.math.add_v2(
        const(np.ones((3000, 1), np.float32)), const(np.ones((1, 3000), np.float32))
    ),
    "Less": lambda const: ops.math.less(
        const(np.ones((9000, 1), np.float32)), const(np.ones((1, 9000), np.float32))
    ),
    "SelectV2": lambda const: ops.math.select_v2(
        const(np.ones((3000, 1), bool)), const(np.ones((1, 3000), np.float32)), const(np.float32(0))
    ),
    "MatMul": lambda const: ops.math.mat_mul(
        const(np.ones((3000, 1), np.float32)), const(np.ones((1, 3000), np.float32))
    ),
    "BatchMatMulV2": lambda const: ops.math.batch_mat_mul_v2(
        const(np.ones((3000, 1, 1, 1), np.float32)), const(np.ones((3000, 1, 1), np.float32))
    ),
    "Einsum": lambda const: ops.linalg.einsum(
        [const(np.ones(3000, np.float32)) for _ in range(2)], equation="a,b->ab"
    ),
    "Svd": lambda const: ops.linalg.svd(const(np.ones((3000, 1), np.float32)), full_matrices=True)[
        1
    ],
    "Qr": lambda const: ops.linalg.qr(const(np.ones((3000, 1), np.float32)), full_matrices=True)[0],
    "Conv2D channels": lambda const: ops.nn.conv2d(
        const(np.ones((1, 3000, 1, 1), np.float32)),
        const(np.ones((1, 1, 1, 3000), np.float32)),
        strides=[1] * 4,
        padding="SAME",
    ),
    "SparseMatMul": lambda const: ops.math.sparse_mat_mul(
        const(np.ones((3000, 1), np.float32)), const(np.ones((1, 3000), np.float32))
    ),
    "SoftmaxCrossEntropyWithLogits": lambda const: ops.nn.softmax_cross_entropy_with_logits(
        const(np.ones((3000, 1), np.float32)), const(np.ones((1, 3000), np.float32))
    )[1],
    "SquaredDifference": lambda const: ops.math.squared_difference(
        const(np.ones((3000, 1), np.float32)), const(np.ones((1, 3000), np.float32))
    ),
    "Cast": lambda const: ops.math.cast(const(np.ones(10**6, np.uint8)), DstT="complex128"),
    "XlaDot": lambda const: ops.xla.xla_dot(
        const(np.ones((3000, 1), np.float32)),
        const(np.ones((1, 3000), np.float32)),
        dimension_numbers=b"\n\1\1\x12\1\0",
        precision_config="",
    ),
    "XlaEinsum": lambda const: ops.xla.xla_einsum(
        const(np.ones(3000, np.float32)), const(np.ones(3000, np.float32)), equation="a,b->ab"
    ),
    "QuantizedAdd": lambda const: ops.quantized.quantized_add(
        *(
            ops.math.cast(const(np.ones(shape, np.uint8)), DstT="quint8")
            for shape in ((3000, 1), (1, 3000))
        ),
        *map(const, np.array([0, 1, 0, 1], np.float32)),
    )[0],
    "NearestNeighbors": lambda const: ops.math.nearest_neighbors(
        const(np.ones((3000, 2), np.float32)),
        const(np.ones((3000, 2), np.float32)),
        const(np.array(1)),
    )[0],
    "ExtractVolumePatches": lambda const: ops.array.extract_volume_patches(
        const(np.ones((1, 30, 30, 30, 1), np.float32)),
        ksizes=[1, 9, 9, 9, 1],
        strides=[1] * 5,
        padding="SAME",
    ),
    "MatrixDiag": lambda const: ops.array.matrix_diag(const(np.ones(3000, np.float32))),
    "Diag": lambda const: ops.array.diag(const(np.ones(3000, np.float32))),
    "ExtractImagePatches": lambda const: ops.array.extract_image_patches(
        const(np.ones((1, 100, 100, 1), np.float32)),
        ksizes=[1, 50, 50, 1],
        strides=[1] * 4,
        rates=[1] * 4,
        padding="SAME",
    ),
    "SegmentSum": lambda const: ops.math.segment_sum(
        const(np.ones(1, np.float32)), const(ints([10**7]))
    ),
    "SegmentMean": lambda const: ops.math.segment_mean(
        const(np.ones(1, np.float32)), const(ints([10**7]))
    ),
    "SparseSegmentSumWithNumSegments": lambda const: ops.math.sparse_segment_sum_with_num_segments(
        const(np.ones(1, np.float32)), const(ints([0])), const(ints([0])), const(ints(10**7))
    ),
    "HistogramFixedWidth": lambda const: ops.math.histogram_fixed_width(
        const(np.ones(1, np.float32)), const(np.array([0, 1], np.float32)), const(ints(10**7))
    ),
    "Multinomial": lambda const: ops.random.multinomial(
        const(np.ones((1, 2), np.float32)), const(ints(10**7))
    ),
    "SparseFillEmptyRows": lambda const: ops.sparse.sparse_fill_empty_rows(
        const(np.array([[0, 0]])),
        const(np.ones(1, np.float32)),
        const(np.array([10**7, 1])),
        const(np.float32(0)),
    )[0],
    "SparseReduceSum": lambda const: ops.sparse.sparse_reduce_sum(
        const(np.array([[0, 0]])),
        const(np.ones(1, np.float32)),
        const(np.array([10**7, 1])),
        const(ints([1])),
    ),
    "SparseTensorDenseMatMul": lambda const: ops.sparse.sparse_tensor_dense_mat_mul(
        const(np.array([[0, 0]])),
        const(np.ones(1, np.float32)),
        const(np.array([10**7, 1])),
        const(np.ones((1, 1), np.float32)),
    ),
    "CropAndResizeGradImage": lambda const: ops.image.crop_and_resize_grad_image(
        const(np.ones((1, 1, 1, 1), np.float32)),
        const(np.array([[0, 0, 1, 1]], np.float32)),
        const(ints([0])),
        const(ints([1, 3000, 3000, 1])),
        T="float32",
    ),
    "Conv2D": lambda const: ops.nn.conv2d(
        const(np.ones((1, 1, 1, 1), np.float32)),
        const(np.ones((1, 1, 1, 1), np.float32)),
        strides=[1] * 4,
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 1500, 1500, 1500, 1500, 0, 0],
    ),
    "AudioSpectrogram": lambda const: ops.audio.audio_spectrogram(
        const(np.ones((10**4, 1), np.float32)), window_size=1000, stride=1
    ),
    "Mfcc": lambda const: ops.audio.mfcc(
        const(np.ones((1, 1, 10), np.float32)),
        const(ints(16000)),
        dct_coefficient_count=10**4,
        filterbank_channel_count=10**4,
    ),
    "NonMaxSuppressionV4": lambda const: ops.image.non_max_suppression_v4(
        const(np.array([[0, 0, 1, 1]], np.float32)),
        const(np.ones(1, np.float32)),
        const(ints(10**7)),
        const(np.float32(0.5)),
        const(np.float32(0)),
        pad_to_max_output_size=True,
    )[0],
    "TensorListGetItem": lambda const: ops.tensor_list.tensor_list_get_item(
        empty_list(const, [3000, 3000]),
        const(ints(0)),
        const(ints([3000, 3000])),
        element_dtype="float32",
    ),
    "TensorListStack": lambda const: ops.tensor_list.tensor_list_stack(
        empty_list(const, [3000], 3000), const(ints([3000])), element_dtype="float32"
    ),
    "TensorListReserve": lambda const: ops.tensor_list.tensor_list_reserve(
        const(ints([])), const(ints(10**7)), element_dtype="float32"
    ),
}


def run(build: Build, jit: str, *, fed: bool = False, budget: int = BUDGET) -> Any:
    graph, feeds = graphmill.Graph(), {}

    def const(value: Any) -> Any:
        if not fed:
            return graph.constant(value)
        made = graph.placeholder(graphmill.as_dtype(value.dtype), list(np.shape(value)))
        feeds[made] = value
        return made

    with graph.as_default():
        big = build(const)
    config = {"graphmill": {"jit": jit, "memory_budget_bytes": budget}}
    with graphmill.Session(graph=graph, config=config) as session:
        return session.run(big, feeds)


@JIT
@pytest.mark.parametrize("fed", [False, True], ids=["constants", "feeds"])
@pytest.mark.parametrize("build", GREEDY.values(), ids=GREEDY)
def test_node_asked_bytes_and_limit_are_named(build: Build, fed: bool, jit: str) -> None:
    if fed and jit == "eager":
        pytest.skip("sizes that are fed are not compiled")
    with pytest.raises(errors.ResourceExhaustedError, match=rf"the limit is {BUDGET}") as error:
        run(build, jit, fed=fed)
    assert error.value.node
    assert "bytes are requested" in error.value.message


@JIT
def test_fitting_step_runs(jit: str) -> None:
    result = run(GREEDY["Fill"], jit, budget=64 << 20)
    assert result.shape == (3000, 3000)


def test_default_is_a_share_of_the_memory() -> None:
    with pytest.raises(errors.ResourceExhaustedError, match=str(memory_budget.default_limit())):
        run(
            lambda const: ops.array.fill(const(ints([2**30, 2**10])), const(np.float32(1))),
            "off",
            budget=0,
        )


def test_animation_counts_as_a_whole_against_the_budget() -> None:
    image = pytest.importorskip("PIL.Image")
    frames = [image.new("RGB", (600, 600), (shade, 0, 0)) for shade in range(10)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    contents = np.array(buffer.getvalue(), object)
    with pytest.raises(errors.ResourceExhaustedError, match="the animation"):
        run(lambda const: ops.image.decode_gif(const(contents)), "off")
    whole = run(lambda const: ops.image.decode_gif(const(contents)), "off", budget=64 << 20)
    assert whole.shape == (10, 600, 600, 3)


def test_padded_batches_of_datasets_are_limited_by_the_memory_budget() -> None:
    graph, shapes = graphmill.Graph(), [[None, 10**7]]
    with graph.as_default():
        source = ops.dataset.tensor_slice_dataset(
            [np.ones((2, 1), np.float32)], output_shapes=[[1]]
        )
        batches = ops.dataset.padded_batch_dataset_v2(
            source, 2, [np.array([10**7])], [np.float32(0)], False, output_shapes=shapes
        )
        iterator = ops.dataset.iterator(
            shared_name="", container="", output_types=["float32"], output_shapes=shapes
        )
        start = ops.dataset.make_iterator(batches, iterator)
        following = ops.dataset.iterator_get_next(
            iterator, output_types=["float32"], output_shapes=shapes
        )
    config = {"graphmill": {"memory_budget_bytes": BUDGET}}
    with graphmill.Session(graph=graph, config=config) as session:
        session.run(start)
        with pytest.raises(errors.ResourceExhaustedError, match="the padded batch"):
            session.run(following)


def test_negative_budget_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="memory_budget_bytes"):
        run(GREEDY["Fill"], "off", budget=-1)


def test_limit_of_one_call_ends_with_it() -> None:
    def greedy() -> None:
        memory_budget.request_memory(100, "it has 100 elements")

    with pytest.raises(errors.ResourceExhaustedError, match="the limit is 10 "):
        memory_budget.with_memory_limit(10, greedy)()
    greedy()
    assert (
        memory_budget.with_memory_limit(
            10, lambda: memory_budget.with_memory_limit(1000, greedy)()
        )()
        is None
    )


@pytest.mark.jax
def test_program_beyond_the_budget_is_not_run_compiled() -> None:
    """Three outputs of a third of the budget and temporaries: each node alone is within it."""
    pytest.importorskip("jax")
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [800_000], name="x")
        fetches = [ops.math.mul(ops.math.sin(x), np.float32(k), name=f"y{k}") for k in range(1, 4)]
    config = {"graphmill": {"jit": "eager", "memory_budget_bytes": BUDGET}}
    with graphmill.Session(graph=graph, config=config) as session:
        answers = session.run(fetches, {x: np.ones(800_000, np.float32)})
        report = str(session.explain(fetches, {x: np.ones(800_000, np.float32)}))
    assert [answer[0] for answer in answers] == pytest.approx(np.sin(1) * np.array([1, 2, 3]))
    assert "the program needs memory for results and temporaries" in report
    assert f"the limit is {BUDGET}" in report


def test_output_within_the_budget_is_computed_again_and_again() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        rows, columns = (graph.placeholder("float32", [None, None]) for _ in range(2))
        total = rows + columns
    config = {"graphmill": {"jit": "off", "memory_budget_bytes": BUDGET}}
    with graphmill.Session(graph=graph, config=config) as session:
        for size in (10, 1000, 3000, 1000):
            feeds = {rows: np.ones((size, 1), np.float32), columns: np.ones((1, size), np.float32)}
            if size < 3000:
                assert session.run(total, feeds).shape == (size, size)
                continue
            with pytest.raises(errors.ResourceExhaustedError, match=r"of shape \[3000, 3000\]"):
                session.run(total, feeds)
