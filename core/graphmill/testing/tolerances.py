"""Say how far a result may be from TensorFlow's, and why.

A tolerance is counted in units of the dtype's machine epsilon: a value is right if it differs from TensorFlow's by at most
`rtol * eps * |expected| + atol * eps * scale`, where `scale` is 1, or the largest finite |expected| of that output if
`by_scale`. Integers, bools and strings are always exact. The numbers are what two correct implementations may differ by, not
what a failing case needed: whoever widens one says why in the table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Bound a difference; see the module for the formula."""

    rtol: float
    atol: float
    why: str
    by_scale: bool = False


DEFAULT = Tolerance(
    4,
    0.5,
    "Correctly rounded operations agree to half a unit; compositions of a few of them, evaluated by different "
    "formulas, to a few.",
)

_LIBM = Tolerance(
    16,
    1,
    "Polynomial approximations of Eigen, NumPy's SIMD loops and XLA each err by several units in the last place; near "
    "a zero of the function the error is that of the reduced argument.",
)
_SUM = Tolerance(
    16,
    16,
    "The order of additions differs (vector lanes, pairwise or blocked sums), and cancellation leaves an error in "
    "proportion to the summands, not to the sum.",
    by_scale=True,
)
_SPECIAL = Tolerance(
    256,
    64,
    "Continued fractions and asymptotic series are cut at different places; TensorFlow's own error is of this size.",
)
_LINALG = Tolerance(
    512,
    512,
    "Backward stable algorithms agree up to the condition number of the matrix; the cases keep it small.",
    by_scale=True,
)

_FAMILIES: dict[str, tuple[Tolerance, str]] = {
    "elementary functions": (
        _LIBM,
        "Acos Acosh Asin Asinh Atan Atan2 Atanh Cos Cosh Erf Erfc Exp Expm1 Log Log1p Pow Rsqrt Sigmoid Sin Sinh Sqrt "
        "Tan Tanh SigmoidGrad TanhGrad RsqrtGrad SqrtGrad Elu EluGrad Selu SeluGrad Softplus SoftplusGrad Xlogy Xlog1py "
        "Xdivy Reciprocal Inv InvGrad ReciprocalGrad Angle ComplexAbs Div RealDiv DivNoNan",
    ),
    "sums and products": (
        _SUM,
        "Sum Mean Prod Cumsum Cumprod CumulativeLogsumexp MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum AddN "
        "AccumulateNV2 SegmentSum SegmentMean SegmentProd SegmentSumV2 SegmentProdV2 UnsortedSegmentSum "
        "UnsortedSegmentProd SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN SparseSegmentSumGrad "
        "SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumWithNumSegments "
        "SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments SparseMatMul SparseTensorDenseMatMul Cross "
        "EuclideanNorm Bincount DenseBincount SparseBincount RaggedBincount L2Loss BiasAddGrad LinSpace Range "
        "SparseReduceSum StridedSliceGrad ScatterNd TensorScatterAdd TensorScatterSub ResourceScatterAdd",
    ),
    "neural networks": (
        _SUM,
        "Conv2D Conv3D Conv DepthwiseConv2dNative Conv2DBackpropInput Conv2DBackpropFilter Conv2DBackpropInputV2 "
        "Conv2DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputV2 Conv3DBackpropFilter Conv3DBackpropFilterV2 "
        "DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter Dilation2D Dilation2DBackpropInput "
        "Dilation2DBackpropFilter AvgPool AvgPool3D AvgPoolGrad AvgPool3DGrad MaxPoolGrad MaxPoolGradGrad MaxPool3DGrad "
        "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 "
        "BatchNormWithGlobalNormalization BatchNormWithGlobalNormalizationGrad LRN LRNGrad Softmax LogSoftmax "
        "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits LSTMBlockCell LSTMBlockCellGrad BlockLSTM "
        "BlockLSTMV2 BlockLSTMGrad BlockLSTMGradV2 GRUBlockCell GRUBlockCellGrad CTCLoss CTCLossV2 FractionalAvgPool "
        "FractionalAvgPoolGrad _FusedConv2D _FusedMatMul FusedPadConv2D FusedResizeAndPadConv2D",
    ),
    "images": (
        _SUM,
        "ResizeBilinear ResizeBilinearGrad ResizeBicubic ResizeBicubicGrad ResizeArea ScaleAndTranslate "
        "ScaleAndTranslateGrad CropAndResize CropAndResizeGradImage CropAndResizeGradBoxes AdjustContrast "
        "AdjustContrastv2 AdjustHue AdjustSaturation RGBToHSV HSVToRGB ImageProjectiveTransformV2 "
        "ImageProjectiveTransformV3",
    ),
    "special functions": (
        _SPECIAL,
        "Lgamma Digamma Igamma Igammac IgammaGradA Zeta Polygamma Betainc Erfinv Ndtri BesselI0 BesselI1 BesselI0e "
        "BesselI1e BesselJ0 BesselJ1 BesselY0 BesselY1 BesselK0 BesselK1 BesselK0e BesselK1e Dawsn Expint FresnelCos "
        "FresnelSin Spence RandomGammaGrad",
    ),
    "linear algebra and transforms": (
        _LINALG,
        "Cholesky CholeskyGrad MatrixInverse MatrixDeterminant LogMatrixDeterminant MatrixSolve MatrixSolveLs "
        "MatrixTriangularSolve MatrixExponential MatrixLogarithm MatrixSquareRoot Lu Qr Svd SelfAdjointEig SelfAdjointEigV2 "
        "Eig TridiagonalSolve TridiagonalMatMul BandedTriangularSolve FFT FFT2D FFT3D FFTND IFFT IFFT2D IFFT3D IFFTND "
        "RFFT RFFT2D RFFT3D RFFTND IRFFT IRFFT2D IRFFT3D IRFFTND BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D "
        "BatchIFFT3D BatchMatrixInverse BatchMatrixDeterminant BatchMatrixSolve BatchMatrixSolveLs BatchCholesky "
        "BatchCholeskyGrad BatchMatrixTriangularSolve BatchSelfAdjointEig BatchSelfAdjointEigV2 BatchSvd",
    ),
}

BY_OP: dict[str, Tolerance] = {
    op: tolerance for tolerance, ops in _FAMILIES.values() for op in ops.split()
}

# XLA contracts multiply-adds, reassociates and uses approximations of its own for exp, log, tanh and the like.
BACKEND_FACTOR = {"numpy": 1.0, "session": 1.0, "jax": 2.0}


def tolerance_of(op: str) -> Tolerance:
    """Give the tolerance of an op."""
    return BY_OP.get(op, DEFAULT)
