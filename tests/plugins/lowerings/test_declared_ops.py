"""Built-in lowerings declare the expected ops and checks."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from graphmill import dtypes
from graphmill.graph.graph import Graph
from graphmill.ops.definition.op_registry import bundled_ops
from graphmill.ops.inference.tensor_shape import TensorShape
from graphmill.plugin.host import Host
from graphmill.runtime.kernels.lowering import lowerings_of
from graphmill_plugins import lowerings
from graphmill_plugins.lowerings._ops import OPS

REFUSED = """
    ApplyProximalAdagrad BatchMatrixBandPart BatchMatrixSolveLs Bincount BlockLSTM BlockLSTMGrad
    BlockLSTMGradV2 BlockLSTMV2 CheckNumerics CheckNumericsV2 CropAndResize CropAndResizeGradBoxes
    CropAndResizeGradImage DataFormatDimMap DenseBincount Div DynamicStitch FloorDiv FloorMod Gather
    GatherNd GatherV2 HistogramFixedWidth InvertPermutation MatrixBandPart MatrixSolveLs
    MaxPoolGradWithArgmax Mod ParallelDynamicStitch Pow QuantizeAndDequantizeV2
    QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 ResourceApplyProximalAdagrad
    ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 ResourceSparseApplyProximalAdagrad
    ReverseSequence ScatterNd ScatterNdNonAliasingAdd SegmentMax SegmentMaxV2 SegmentMean SegmentMin
    SegmentMinV2 SegmentProd SegmentProdV2 SegmentSum SegmentSumV2 SparseApplyFtrl SparseApplyFtrlV2
    SparseApplyProximalAdagrad SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments
    SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad
    SparseSegmentSumWithNumSegments SparseSoftmaxCrossEntropyWithLogits SparseTensorDenseMatMul
    StatelessRandomUniformInt StatelessRandomUniformIntV2 TensorScatterAdd TensorScatterMax
    TensorScatterMin TensorScatterSub TensorScatterUpdate TruncateDiv TruncateMod UnravelIndex
    UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum _SegmentRows
"""
"""Ops with a check of inputs that names an error: the kernel refuses such inputs."""

REFUSED_BY_RESULT = """
    BatchMatrixInverse BatchMatrixSolve BatchMatrixSolveLs Lu MatrixInverse MatrixSolve
    MatrixSolveLs TridiagonalSolve
"""
"""Ops with a check of results that names an error."""

UNUSUAL = """
    AdjustHue Betainc CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage
    CumulativeLogsumexp FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient
    FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient Igamma IgammaGradA
    Igammac LowerBound Lu Polygamma Pow QuantizeAndDequantizeV2 QuantizeAndDequantizeV3
    QuantizeAndDequantizeV4 RandomGammaGrad ResizeArea ResizeBicubic ResizeBicubicGrad
    ScaleAndTranslate ScaleAndTranslateGrad SegmentMax SegmentMaxV2 SegmentMin SegmentMinV2
    UnsortedSegmentMax UnsortedSegmentMin UpperBound Zeta
"""
"""Ops with a check of inputs without an error: JAX computes some values unlike NumPy."""

UNUSUAL_BY_RESULT = """
    BandedTriangularSolve BatchCholeskyGrad BatchSelfAdjointEig BatchSelfAdjointEigV2 BatchSvd
    CholeskyGrad SelfAdjointEig SelfAdjointEigV2 Svd
"""
"""Ops with a check of results without an error."""

STANDALONE = """
    AdjustHue AdjustSaturation AudioSpectrogram AvgPool3D AvgPoolGrad BandedTriangularSolve BatchFFT
    BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D BatchMatMul BatchMatMulV2 BatchMatMulV3
    BatchToSpace BatchToSpaceND BesselI0 BesselI0e BesselI1 BesselI1e Bucketize ClipByValue Conv2D
    Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2
    Conv3DBackpropInput Conv3DBackpropInputV2 CropAndResize CropAndResizeGradBoxes
    CropAndResizeGradImage Cumprod Cumsum DenseBincount DepthToSpace DepthwiseConv2dNative
    DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Dilation2D
    Dilation2DBackpropFilter Dilation2DBackpropInput Einsum Elu EluGrad Erf Erfc Erfinv
    ExtractImagePatches FFT FFT2D FFT3D FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars
    FakeQuantWithMinMaxVarsPerChannel FusedBatchNormGradV3 HSVToRGB HistogramFixedWidth IFFT IFFT2D
    IFFT3D IRFFT IRFFT2D IRFFT3D ImageProjectiveTransformV2 ImageProjectiveTransformV3 LRN LRNGrad
    LeakyRelu LeftShift LogSoftmax LowerBound Lu MatMul MatrixBandPart MatrixTriangularSolve
    MaxPool3D MaxPoolGrad MaxPoolWithArgmax Ndtri NextAfter Polygamma Qr RFFT RFFT2D RFFT3D RGBToHSV
    RandomStandardNormal RandomUniform RandomUniformInt ResizeArea ResizeBicubic ResizeBicubicGrad
    ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad
    ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradV2
    ResourceApplyAdam ResourceApplyAdamWithAmsgrad ResourceApplyCenteredRMSProp ResourceApplyFtrl
    ResourceApplyFtrlV2 ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyRMSProp
    ReverseSequence RightShift ScatterNd SelfAdjointEigV2 Selu Sigmoid SoftmaxCrossEntropyWithLogits
    SpaceToBatch SpaceToBatchND SpaceToDepth SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments
    SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad
    SparseSegmentSumWithNumSegments SparseSoftmaxCrossEntropyWithLogits SparseTensorDenseMatMul
    SqrtGrad StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomUniform
    StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
    StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal
    StatelessTruncatedNormalV2 TensorScatterAdd TopK TopKV2 TridiagonalMatMul TridiagonalSolve
    TruncateDiv UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum
    UpperBound Xlogy Zeta
"""

STANDALONE_IF_NARROW = """
    Add AddV2 Maximum Minimum Mul RealDiv Sqrt Square SquaredDifference Sub
"""


def declared(module):
    return lowerings_of(importlib.import_module(f"{lowerings.__name__}.{module}"))


MODULES = [
    module.name
    for module in pkgutil.iter_modules(lowerings.__path__)
    if not module.name.startswith("_")
]
EVERYTHING = [one for module in MODULES for one in declared(module)]


@pytest.mark.parametrize("module", MODULES)
def test_each_module_is_registered_for_the_ops_that_it_declares(module):
    registered = OPS.get(module, "").split()
    expected = sorted({op for one in declared(module) for op in one.ops})
    assert registered == expected, "run python tools/make_kernel_index.py"


def test_only_modules_that_exist_are_registered():
    assert OPS.keys() <= set(MODULES), "run python tools/make_kernel_index.py"


@pytest.mark.parametrize(
    ("ops", "of", "refuses"),
    [
        (REFUSED, "inputs", True),
        (REFUSED_BY_RESULT, "results", True),
        (UNUSUAL, "inputs", False),
        (UNUSUAL_BY_RESULT, "results", False),
    ],
)
def test_each_op_has_the_checks_that_it_needs(ops, of, refuses):
    checked = {
        op
        for one in EVERYTHING
        for check in one.checks
        for op in one.ops
        if (check.of, check.error is not None) == (of, refuses)
    }
    assert checked == set(ops.split())


def test_no_op_has_the_same_check_twice():
    pairs = [(op, check.predicate) for one in EVERYTHING for op in one.ops for check in one.checks]
    assert len(pairs) == len(set(pairs))


def test_ops_worth_a_program_of_their_own_are_declared():
    assert {op for one in EVERYTHING if one.standalone is True for op in one.ops} == set(
        STANDALONE.split()
    )
    assert {op for one in EVERYTHING if callable(one.standalone) for op in one.ops} == set(
        STANDALONE_IF_NARROW.split()
    )


@pytest.mark.parametrize(
    ("type_", "expected"),
    [(dtypes.float16, True), (dtypes.bfloat16, True), (dtypes.float32, False)],
)
def test_arithmetic_is_worth_a_program_for_narrow_floats(type_, expected):
    graph, ops = Graph(), bundled_ops()
    x = graph.add_node(
        "x", ops.get("Placeholder"), attrs={"dtype": type_, "shape": TensorShape(())}
    )
    node = graph.add_node("y", ops.get("Mul"), [(x, 0), (x, 0)], attrs={"T": type_})
    (judge,) = [one.standalone for one in EVERYTHING if "Mul" in one.ops]
    assert judge(node) is expected


def test_the_plugin_registers_through_the_hook_and_imports_nothing_yet():
    host = Host([lowerings], load_entry_points=False)
    assert set(host.lowerings.ops()) == {op for ops in OPS.values() for op in ops.split()}
