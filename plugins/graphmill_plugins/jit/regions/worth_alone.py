"""Which nodes are worth a program of their own, as nothing that could be in it is beside them.

The call of a program costs some microseconds more than that of a kernel, so a cluster has two nodes
at least. An op that takes NumPy many passes over its arrays, or a step of Python for each row, wins
that back alone: those of this table were at least one and a half times as fast, most of them three
to thirty times, on a million elements (`tests/bench/ops/run.py`, with `--jit eager` and `off`).
Where one is slower all the same, on a few elements say, its cluster stays straight-line code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill import dtypes

if TYPE_CHECKING:
    from graphmill.graph.node import Node

_TABLE: Final = {
    "products": (
        "BatchMatMul BatchMatMulV2 BatchMatMulV3 Conv2D Conv2DBackpropFilter "
        "Conv2DBackpropInput Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2 "
        "Conv3DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNative "
        "DepthwiseConv2dNativeBackpropInput Einsum MatMul "
    ),
    "functions": (
        "BesselI0 BesselI0e BesselI1 BesselI1e ClipByValue Elu EluGrad Erf Erfc Erfinv "
        "LeakyRelu LeftShift Ndtri NextAfter Polygamma RightShift Selu Sigmoid SqrtGrad "
        "TruncateDiv Xlogy Zeta "
    ),
    "windows": (
        "AvgPool3D AvgPoolGrad Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput "
        "ExtractImagePatches LRN LRNGrad MaxPool3D MaxPoolGrad MaxPoolWithArgmax "
    ),
    "rows": (
        "Bucketize Cumprod Cumsum DenseBincount FusedBatchNormGradV3 HistogramFixedWidth "
        "LogSoftmax LowerBound Qr ReverseSequence ScatterNd SoftmaxCrossEntropyWithLogits "
        "SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments SparseSegmentSqrtNGrad "
        "SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad SparseSegmentSumWithNumSegments "
        "SparseSoftmaxCrossEntropyWithLogits SparseTensorDenseMatMul TensorScatterAdd TopK TopKV2 "
        "UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum UpperBound "
    ),
    "layouts": (
        "BatchToSpace BatchToSpaceND DepthToSpace MatrixBandPart SpaceToBatch SpaceToBatchND "
        "SpaceToDepth "
    ),
    "images": (
        "AdjustHue AdjustSaturation CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage "
        "HSVToRGB ImageProjectiveTransformV2 ImageProjectiveTransformV3 RGBToHSV ResizeArea "
        "ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad "
        "ResizeNearestNeighbor ResizeNearestNeighborGrad "
    ),
    "signals": (
        "AudioSpectrogram BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D FFT "
        "FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D "
    ),
    "matrices": (
        "BandedTriangularSolve Lu MatrixTriangularSolve SelfAdjointEigV2 TridiagonalMatMul "
        "TridiagonalSolve "
    ),
    "training": (
        "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel "
        "ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradV2 "
        "ResourceApplyAdam ResourceApplyAdamWithAmsgrad ResourceApplyCenteredRMSProp "
        "ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyKerasMomentum ResourceApplyMomentum "
        "ResourceApplyRMSProp "
    ),
    "random numbers": (
        "RandomStandardNormal RandomUniform RandomUniformInt StatelessRandomNormal "
        "StatelessRandomNormalV2 StatelessRandomUniform StatelessRandomUniformFullInt "
        "StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2 "
        "StatelessRandomUniformV2 "
    ),
}
_OPS: Final = frozenset(op for family in _TABLE.values() for op in family.split())
_ARITHMETIC: Final = frozenset({
    *("Add", "AddV2", "Maximum", "Minimum", "Mul", "RealDiv", "Sqrt", "Square", "Sub"),
    "SquaredDifference",
})  # fmt: skip
_NARROW: Final = (dtypes.float16, dtypes.bfloat16)  # computed number by number by NumPy


def is_worth_it_alone(node: Node) -> bool:
    """Return whether a node alone may be a cluster."""
    if node.op in _ARITHMETIC:
        return node.output_types[0].base_dtype in _NARROW
    return node.op in _OPS
