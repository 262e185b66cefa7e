"""Results whose size is a product: neither of two inputs is large, and no attr is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from tests.security.test_hostile_values import graph_of

import graphmill
from graphmill import errors

if TYPE_CHECKING:
    from collections.abc import Callable

N: Final = 40_000
"""As many rows of as many values are 6 GB."""
MOST: Final = 2**31 - 1
BUDGET: Final = 64 << 20

_KEYS: Final = (
    "e = Const(dtype=int64, value='int64: -1'); d = Const(dtype=int64, value='int64: -2'); "
    "t = MutableDenseHashTableV2(e, d, key_dtype=int64, value_dtype=float32, "
)
_SIZE: Final = "s = Cast(f, DstT=int32); "
_STARTS: Final = "s = Cast(g, DstT=int32); "
_LINE: Final = (lambda: np.array([1, N]), lambda: np.zeros((1, 1, N, 1)))
_SCALES: Final = (
    "a = Const(dtype=float32, value='float32: [1.0, 1.0]'); "
    "b = Const(dtype=float32, value='float32: [0.0, 0.0]'); "
)
_ONE_VALUE: Final = "v = Const(dtype=float32, value='float32: [1.0]'); "
_BINS: Final = (
    f"k = Const(dtype=int64, value='int64: {N}'); v = Const(dtype=int64, value='int64: [0]'); "
)
_NO_WEIGHTS: Final = "w = Const(dtype=float32, value='float32[0]'); "

SIZES: Final[dict[str, tuple[str, Callable[[], Any], Callable[[], Any]]]] = {
    "LookupTableFindV2": (
        (
            "t = MutableHashTableOfTensorsV2(key_dtype=int64, value_dtype=float32, "
            f"value_shape=[{N}]); y = LookupTableFindV2(t, f, g)"
        ),
        lambda: np.zeros(N),
        lambda: np.zeros(N),
    ),
    "LookupTableFindV2 of a dense table": (
        f"{_KEYS}value_shape=[{N}]); y = LookupTableFindV2(t, f, g)",
        lambda: np.zeros(N),
        lambda: np.zeros(N),
    ),
    "LookupTableExportV2 of a dense table": (
        (
            f"{_KEYS}value_shape=[], initial_num_buckets=1073741824); "
            "x = LookupTableExportV2(t, Tkeys=int64, Tvalues=float32, after=[f, g]); "
            "y = Identity(x[1])"
        ),
        lambda: np.zeros(1),
        lambda: np.zeros(1),
    ),
    "ResizeBicubic": (f"{_SIZE}y = ResizeBicubic(g, s)", *_LINE),
    "ResizeArea": (f"{_SIZE}y = ResizeArea(g, s)", *_LINE),
    "ScaleAndTranslate": (f"{_SIZE}{_SCALES}y = ScaleAndTranslate(g, s, a, b)", *_LINE),
    "SparseTensorToCSRSparseMatrix": (
        (
            f"{_ONE_VALUE}x = Const(dtype=int64, value='int64: [[0, 0]]'); "
            "m = SparseTensorToCSRSparseMatrix(x, v, f); z = SparseMatrixNNZ(m); "
            "y = Identity(z, after=[g])"
        ),
        lambda: np.array([2**31 - 2, 1]),
        lambda: np.zeros(1),
    ),
    "ResourceGather": (
        (
            f"v = VarHandleOp(dtype=float32, shape=[1, {N}]); a = AssignVariableOp(v, g); "
            "y = ResourceGather(v, f, dtype=float32, after=[a])"
        ),
        lambda: np.zeros(N),
        lambda: np.zeros((1, N)),
    ),
    "ResourceGatherNd": (
        (
            f"v = VarHandleOp(dtype=float32, shape=[1, {N}]); a = AssignVariableOp(v, g); "
            "y = ResourceGatherNd(v, f, dtype=float32, after=[a])"
        ),
        lambda: np.zeros((N, 1)),
        lambda: np.zeros((1, N)),
    ),
    "TensorListGather": (
        (
            f"z = Const(dtype=int32, value='int32: [{N}]'); "
            "l = TensorListFromTensor(g, z, element_dtype=float32, shape_type=int32); "
            f"{_SIZE}y = TensorListGather(l, s, z, element_dtype=float32)"
        ),
        lambda: np.zeros(N),
        lambda: np.zeros((1, N)),
    ),
    "TensorArrayGatherV3": (
        (
            "n = Const(dtype=int32, value='int32: 1'); i = Const(dtype=int32, value='int32: 0'); "
            "t = TensorArrayV3(n, dtype=float32, clear_after_read=False); "
            f"w = TensorArrayWriteV3(t[0], i, g, t[1]); {_SIZE}"
            "y = TensorArrayGatherV3(t[0], s, w, dtype=float32)"
        ),
        lambda: np.zeros(N),
        lambda: np.zeros(N),
    ),
    "Substr": (
        f"t = AsString(f); {_STARTS}y = Substr(t, s, s)",
        lambda: np.zeros(N),
        lambda: np.zeros((N, 1)),
    ),
    "XlaConv": (
        (
            "h = Cast(f, DstT=float32); o = Const(dtype=int32, value='int32: [1]'); "
            "p = Const(dtype=int32, value='int32: [[0, 0]]'); "
            "n = Const(dtype=int32, value='int32: 1'); "
            "y = XlaConv(h, g, o, p, o, o, n, precision_config='', dimension_numbers="
            "'\\x18\\x01 \\x022\\x01\\x00@\\x02P\\x02Z\\x01\\x01b\\x01\\x01')"
        ),
        lambda: np.zeros((N, 1, 1)),
        lambda: np.zeros((1, 1, N)),
    ),
    "CropAndResize": (
        (
            "i = Const(dtype=float32, value='float32: [[[[1.0]]]]'); z = Cast(f, DstT=int32); "
            "c = Const(dtype=int32, value='int32: [300, 300]'); y = CropAndResize(i, g, z, c)"
        ),
        lambda: np.zeros(N),
        lambda: np.zeros((N, 4)),
    ),
    "MatrixDiagV2": (
        (
            "d = Cast(g, DstT=uint8); k = Const(dtype=int32, value='int32: [-1, 0]'); "
            "r = Const(dtype=int32, value='int32: 2'); c = Cast(f, DstT=int32); "
            "p = Const(dtype=uint8, value='uint8: 0'); y = MatrixDiagV2(d, k, r, c, p)"
        ),
        lambda: np.array(20_000_000),
        lambda: np.zeros((2, 2)),
    ),
    "QuantizedConv2DAndRelu": (
        (
            "x = Const(dtype=float32, value='float32: [[[[1.0]]]]'); "
            "a = Const(dtype=float32, value='float32: 0.0'); "
            "b = Const(dtype=float32, value='float32: 1.0', after=[f, g]); "
            "q = QuantizeV2(x, a, b, T=quint8); w = QuantizeV2(x, a, b, T=qint8); "
            "c = QuantizedConv2DAndRelu(q[0], w[0], a, b, a, b, out_type=qint32, "
            f"strides=[1, 1, 1, 1], padding='VALID', padding_list=[0, 0, 0, {10**9}, 0, 0, 0, 0]); "
            "y = Dequantize(c[0], c[1], c[2])"
        ),
        lambda: np.zeros(1),
        lambda: np.zeros(1),
    ),
    "SparseSegmentMeanGrad": (
        f"{_SIZE}n = Const(dtype=int32, value='int32: 1'); y = SparseSegmentMeanGrad(g, s, s, n)",
        lambda: np.zeros(N),
        lambda: np.zeros((1, N)),
    ),
    "SparseBincount": (
        (
            f"{_BINS}{_NO_WEIGHTS}i = Const(dtype=int64, value='int64: [[0, 0]]'); "
            "y = SparseBincount(i, v, f, k, w, after=[g])"
        ),
        lambda: np.array([N, 1]),
        lambda: np.zeros(1),
    ),
    "RaggedBincount": (
        f"{_BINS}{_NO_WEIGHTS}y = RaggedBincount(f, v, k, w, after=[g])",
        lambda: np.minimum(np.arange(N), 1),
        lambda: np.zeros(1),
    ),
}


def limited_session(nodes: str, **inputs: str) -> graphmill.Session:
    """Return a session with a small memory budget, over nodes whose inputs have unknown shapes."""
    graph = graph_of(nodes, **inputs)
    for node in graph.node:
        if node.op == "Placeholder":
            node.attr["shape"].shape.Clear()
            node.attr["shape"].shape.unknown_rank = True
    config = {"graphmill": {"jit": "off", "memory_budget_bytes": BUDGET}}
    return graphmill.Session(graph=graph, config=config, trust=False)


@pytest.mark.parametrize("name", SIZES)
def test_product_of_sizes_is_bounded(name: str) -> None:
    nodes, first, second = SIZES[name]
    feeds = {"f:0": first().astype(np.int64), "g:0": second().astype(np.float32)}
    with (
        limited_session(nodes, f="int64: [0]", g="float32: [0.0]") as session,
        pytest.raises(errors.ResourceExhaustedError, match="memory budget") as caught,
    ):
        session.run("y:0", feeds)
    assert caught.value.op_type == name.partition(" ")[0]


_WINDOW: Final = "strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding='VALID'"
EMPTY: Final[dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]]] = {
    "Cholesky": ("y = Cholesky(f, after=[g])", (MOST, 0, 0), ()),
    "CholeskyGrad": ("y = CholeskyGrad(f, f, after=[g])", (0, N, N), ()),
    "MatrixInverse": ("y = MatrixInverse(f, after=[g])", (MOST, 0, 0), ()),
    "MatrixDeterminant": ("y = MatrixDeterminant(f, after=[g])", (MOST, 0, 0), ()),
    "MatrixSolve": ("y = MatrixSolve(f, g)", (0, 0), (0, MOST)),
    "MatrixSolveLs": (
        "l = Const(dtype=float64, value='float64: 0.0'); y = MatrixSolveLs(f, g, l)",
        (0, N),
        (0, N),
    ),
    "MatrixTriangularSolve": ("y = MatrixTriangularSolve(f, g)", (0, N, N), (0, N, 1)),
    "SelfAdjointEigV2": ("e = SelfAdjointEigV2(f, after=[g]); y = Identity(e[0])", (0, N, N), ()),
    "MatrixBandPart": (
        "k = Const(dtype=int64, value='int64: 0'); y = MatrixBandPart(f, k, k, after=[g])",
        (0, MOST),
        (),
    ),
    "DenseCountSparseOutput": (
        (
            "i = Cast(f, DstT=int32); w = Const(dtype=float32, value='float32[0]'); "
            "c = DenseCountSparseOutput(i, w, binary_output=True, after=[g]); y = Identity(c[1])"
        ),
        (MOST, 0),
        (),
    ),
    "Fingerprint": (
        (
            "m = Const(dtype=string, value=\"string: 'farmhash64'\"); "
            "y = Fingerprint(f, m, after=[g])"
        ),
        (MOST, 0),
        (),
    ),
    "KmeansPlusPlusInitialization": (
        (
            "n = Const(dtype=int64, value='int64: 1'); "
            "y = KmeansPlusPlusInitialization(f, n, n, n, after=[g])"
        ),
        (MOST, 0),
        (),
    ),
    "ReverseSequence": (
        "i = Cast(g, DstT=int64); y = ReverseSequence(f, i, seq_dim=1)",
        (0, MOST),
        (0,),
    ),
    "MirrorPad": (
        (
            "p = Const(dtype=int32, value='int32: [[0, 0], [1, 1]]'); "
            "y = MirrorPad(f, p, mode='SYMMETRIC', after=[g])"
        ),
        (0, MOST),
        (),
    ),
    "ResizeNearestNeighborGrad": (
        (
            "s = Const(dtype=int32, value='int32: [2, 2]'); "
            "y = ResizeNearestNeighborGrad(f, s, after=[g])"
        ),
        (N, 0, 2, N),
        (),
    ),
    "SparseSliceGrad": (
        (
            "i = Cast(f, DstT=int64); s = Const(dtype=int64, value='int64[0]'); "
            "o = Const(dtype=int64, value='int64[1,0]'); y = SparseSliceGrad(g, i, s, o)"
        ),
        (MOST, 0),
        (1,),
    ),
    "Dilation2D": (f"y = Dilation2D(f, g, {_WINDOW})", (1, MOST, 1, 0), (MOST, 1, 0)),
    "Dilation2DBackpropInput": (
        f"d = Dilation2D(f, g, {_WINDOW}); y = Dilation2DBackpropInput(f, g, d, {_WINDOW})",
        (1, MOST, 1, 0),
        (MOST, 1, 0),
    ),
    "Dilation2DBackpropFilter": (
        f"d = Dilation2D(f, g, {_WINDOW}); y = Dilation2DBackpropFilter(f, g, d, {_WINDOW})",
        (1, MOST, 1, 0),
        (MOST, 1, 0),
    ),
    "Eig": (
        "c = Cast(f, DstT=complex64); e = Eig(c, Tout=complex64, after=[g]); y = Identity(e[0])",
        (0, N, N),
        (),
    ),
    "AudioSpectrogram": (
        "y = AudioSpectrogram(f, window_size=2, stride=1, after=[g])",
        (MOST, 0),
        (),
    ),
    "QuantizedAvgPool": (
        (
            "q = Cast(f, DstT=int32); z = Const(dtype=float32, value='float32: 0.0'); "
            "p = QuantizeV2(f, z, z, T=quint8); r = QuantizedAvgPool(p[0], z, z, "
            "ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding='SAME', after=[g, q]); "
            "y = Dequantize(r[0], r[1], r[2])"
        ),
        (0, N, N, 1),
        (),
    ),
}


REFUSED: Final = (
    "DenseCountSparseOutput",
    "Eig",
    "MatrixDeterminant",
    "MatrixSolveLs",
    "ResizeNearestNeighborGrad",
    "SelfAdjointEigV2",
    "Fingerprint",
    "KmeansPlusPlusInitialization",
    "MirrorPad",
    "SparseSliceGrad",
)
"""The ops of `EMPTY` whose results or temporaries have elements."""


def run_empty(op: str) -> Any:
    nodes, first, second = EMPTY[op]
    feeds = {"f:0": np.zeros(first, np.float32), "g:0": np.zeros(second, np.float32)}
    with limited_session(nodes, f="float32: [0.0]", g="float32: [0.0]") as session:
        return session.run("y:0", feeds)


@pytest.mark.parametrize("op", sorted(EMPTY.keys() - set(REFUSED)))
def test_input_without_elements_stands_for_no_work(op: str) -> None:
    """A tensor of no bytes may have large sizes."""
    started = time.process_time()
    assert run_empty(op).nbytes < 1000
    assert time.process_time() - started < 5


@pytest.mark.parametrize("op", REFUSED)
def test_many_results_of_an_input_without_elements_are_refused(op: str) -> None:
    started = time.process_time()
    with pytest.raises(errors.ResourceExhaustedError, match="memory budget") as caught:
        run_empty(op)
    assert caught.value.op_type == op
    assert time.process_time() - started < 5
