"""Ops that may form a single-node cluster.

The call of a program costs some microseconds more than that of a kernel, so a cluster normally has
at least two nodes. But an op for which NumPy needs many passes over its arrays, or a Python
iteration for each row, is worth compiling alone. The ops below were at least one and a half times
as fast on a million elements, most of them three to thirty times (`tests/bench/ops/run.py`, with
`--jit eager` and `off`). If a program is slower, for example on a few elements, its cluster stays
straight-line code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.spi import Lowering, LoweringTable, dtypes

if TYPE_CHECKING:
    from graphmill.spi import Node


def _standalone(*lines: str) -> Lowering:
    return Lowering(tuple(" ".join(lines).split()), standalone=True)


def is_narrow_float(node: Node) -> bool:
    """Return whether a node computes 16-bit floats, which are slow in NumPy."""
    return node.op_def.traits.elementwise and node.output_types[0].base_dtype in (
        dtypes.float16,
        dtypes.bfloat16,
    )


LOWERINGS: Final = LoweringTable(
    (
        # Products: XLA blocks them for the cache and uses several threads.
        _standalone(
            "BatchMatMul BatchMatMulV2 BatchMatMulV3 Conv2D Conv2DBackpropFilter",
            "Conv2DBackpropInput Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2",
            "Conv3DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNative",
            "DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Einsum MatMul",
        ),
        # Elementwise functions for which NumPy needs several passes.
        _standalone(
            "BesselI0 BesselI0e BesselI1 BesselI1e ClipByValue Elu EluGrad Erf Erfc Erfinv",
            "LeakyRelu LeftShift Ndtri NextAfter Polygamma RightShift Selu Sigmoid SqrtGrad",
            "TruncateDiv Xlogy Zeta",
        ),
        # Sliding windows: NumPy needs a pass for each position in the window.
        _standalone(
            "AvgPool3D AvgPoolGrad Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput",
            "ExtractImagePatches LRN LRNGrad MaxPool3D MaxPoolGrad MaxPoolWithArgmax",
        ),
        # Rows: scans, searches, sorts, sums by row.
        _standalone(
            "Bucketize Cumprod Cumsum DenseBincount FusedBatchNormGradV3 HistogramFixedWidth",
            "LogSoftmax LowerBound Qr ReverseSequence ScatterNd SoftmaxCrossEntropyWithLogits",
            "SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments SparseSegmentSqrtNGrad",
            "SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad",
            "SparseSegmentSumWithNumSegments SparseSoftmaxCrossEntropyWithLogits",
            "SparseTensorDenseMatMul TensorScatterAdd TopK TopKV2 UnsortedSegmentMax",
            "UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum UpperBound",
        ),
        # Layouts: transpositions that NumPy copies element by element.
        _standalone(
            "BatchToSpace BatchToSpaceND DepthToSpace MatrixBandPart SpaceToBatch SpaceToBatchND",
            "SpaceToDepth",
        ),
        # Images: colors, and pixels gathered by position.
        _standalone(
            "AdjustHue AdjustSaturation CropAndResize CropAndResizeGradBoxes",
            "CropAndResizeGradImage HSVToRGB ImageProjectiveTransformV2",
            "ImageProjectiveTransformV3 RGBToHSV ResizeArea ResizeBicubic ResizeBicubicGrad",
            "ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad",
        ),
        # Signals: Fourier transforms.
        _standalone(
            "AudioSpectrogram BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D",
            "FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D",
        ),
        # Matrices: factorizations and systems with few diagonals.
        _standalone(
            "BandedTriangularSolve Lu MatrixTriangularSolve SelfAdjointEigV2 TridiagonalMatMul",
            "TridiagonalSolve",
        ),
        # Training: updates that take several passes over each variable.
        _standalone(
            "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel",
            "ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad",
            "ResourceApplyAdagradV2 ResourceApplyAdam ResourceApplyAdamWithAmsgrad",
            "ResourceApplyCenteredRMSProp ResourceApplyFtrl ResourceApplyFtrlV2",
            "ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyRMSProp",
        ),
        # Random numbers: the generator takes several operations for each number.
        _standalone(
            "RandomStandardNormal RandomUniform RandomUniformInt StatelessRandomNormal",
            "StatelessRandomNormalV2 StatelessRandomUniform StatelessRandomUniformFullInt",
            "StatelessRandomUniformFullIntV2 StatelessRandomUniformInt",
            "StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal",
            "StatelessTruncatedNormalV2",
        ),
        # Arithmetic, which is worth compiling alone only for narrow floats.
        Lowering(
            (
                "Add",
                "AddV2",
                "Maximum",
                "Minimum",
                "Mul",
                "RealDiv",
                "Sqrt",
                "Square",
                "SquaredDifference",
                "Sub",
            ),
            standalone=is_narrow_float,
        ),
    )
)
