"""The ops that each module has lowerings or checks for; made by tools/make_kernel_index.py."""

from __future__ import annotations

OPS: dict[str, str] = {
    "arithmetic": (
        "CheckNumerics CheckNumericsV2 Div FloorDiv FloorMod Mod Pow TruncateDiv TruncateMod"
    ),
    "binning": "Bincount DenseBincount HistogramFixedWidth LowerBound UpperBound",
    "images": (
        "AdjustHue CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage ResizeArea "
        "ResizeBicubic ResizeBicubicGrad ScaleAndTranslate ScaleAndTranslateGrad"
    ),
    "indices": (
        "DynamicStitch Gather GatherNd GatherV2 InvertPermutation ParallelDynamicStitch "
        "ReverseSequence ScatterNd ScatterNdNonAliasingAdd SparseSoftmaxCrossEntropyWithLogits "
        "TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate "
        "UnravelIndex"
    ),
    "linear_algebra": (
        "BandedTriangularSolve BatchCholeskyGrad BatchMatrixBandPart BatchMatrixInverse "
        "BatchMatrixSolve BatchMatrixSolveLs BatchSelfAdjointEig BatchSelfAdjointEigV2 BatchSvd "
        "CholeskyGrad Lu MatrixBandPart MatrixInverse MatrixSolve MatrixSolveLs SelfAdjointEig "
        "SelfAdjointEigV2 SparseTensorDenseMatMul Svd TridiagonalSolve"
    ),
    "neural_networks": (
        "BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 DataFormatDimMap MaxPoolGradWithArgmax"
    ),
    "optimizers": (
        "ApplyProximalAdagrad ResourceApplyProximalAdagrad ResourceSparseApplyFtrl "
        "ResourceSparseApplyFtrlV2 ResourceSparseApplyProximalAdagrad SparseApplyFtrl "
        "SparseApplyFtrlV2 SparseApplyProximalAdagrad"
    ),
    "quantization": (
        "FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel "
        "FakeQuantWithMinMaxVarsPerChannelGradient QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 "
        "QuantizeAndDequantizeV4"
    ),
    "random": "StatelessRandomUniformInt StatelessRandomUniformIntV2",
    "segments": (
        "SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2 "
        "SegmentSum SegmentSumV2 SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments "
        "SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad "
        "SparseSegmentSumWithNumSegments UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd "
        "UnsortedSegmentSum _SegmentRows"
    ),
    "special_functions": (
        "Betainc CumulativeLogsumexp Igamma IgammaGradA Igammac Polygamma RandomGammaGrad Zeta"
    ),
    "standalone": (
        "Add AddV2 AdjustHue AdjustSaturation AudioSpectrogram AvgPool3D AvgPoolGrad "
        "BandedTriangularSolve BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D "
        "BatchMatMul BatchMatMulV2 BatchMatMulV3 BatchToSpace BatchToSpaceND BesselI0 BesselI0e "
        "BesselI1 BesselI1e Bucketize ClipByValue Conv2D Conv2DBackpropFilter Conv2DBackpropInput "
        "Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2 Conv3DBackpropInput "
        "Conv3DBackpropInputV2 CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage Cumprod "
        "Cumsum DenseBincount DepthToSpace DepthwiseConv2dNative "
        "DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Dilation2D "
        "Dilation2DBackpropFilter Dilation2DBackpropInput Einsum Elu EluGrad Erf Erfc Erfinv "
        "ExtractImagePatches FFT FFT2D FFT3D FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars "
        "FakeQuantWithMinMaxVarsPerChannel FusedBatchNormGradV3 HSVToRGB HistogramFixedWidth IFFT "
        "IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D ImageProjectiveTransformV2 ImageProjectiveTransformV3 "
        "LRN LRNGrad LeakyRelu LeftShift LogSoftmax LowerBound Lu MatMul MatrixBandPart "
        "MatrixTriangularSolve MaxPool3D MaxPoolGrad MaxPoolWithArgmax Maximum Minimum Mul Ndtri "
        "NextAfter Polygamma Qr RFFT RFFT2D RFFT3D RGBToHSV RandomStandardNormal RandomUniform "
        "RandomUniformInt RealDiv ResizeArea ResizeBicubic ResizeBicubicGrad ResizeBilinear "
        "ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad ResourceApplyAdaMax "
        "ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradV2 ResourceApplyAdam "
        "ResourceApplyAdamWithAmsgrad ResourceApplyCenteredRMSProp ResourceApplyFtrl "
        "ResourceApplyFtrlV2 ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyRMSProp "
        "ReverseSequence RightShift ScatterNd SelfAdjointEigV2 Selu Sigmoid "
        "SoftmaxCrossEntropyWithLogits SpaceToBatch SpaceToBatchND SpaceToDepth "
        "SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments SparseSegmentSqrtNGrad "
        "SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad SparseSegmentSumWithNumSegments "
        "SparseSoftmaxCrossEntropyWithLogits SparseTensorDenseMatMul Sqrt SqrtGrad Square "
        "SquaredDifference StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomUniform "
        "StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt "
        "StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal "
        "StatelessTruncatedNormalV2 Sub TensorScatterAdd TopK TopKV2 TridiagonalMatMul "
        "TridiagonalSolve TruncateDiv UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd "
        "UnsortedSegmentSum UpperBound Xlogy Zeta"
    ),
}
