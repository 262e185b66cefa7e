"""The reasons why some ops of TensorFlow's CPU build have no kernel.

Each reason is a clause that follows "because" in the error for a missing kernel, and an entry of
docs/explanation/differences.md. A test compares the ops with TensorFlow's registrations.
"""

from __future__ import annotations

from typing import Final

_GROUPS: Final = (
    (
        (
            "it is oneDNN's own version of another op, which TensorFlow's runtime creates for "
            "the memory layout of one processor; it is never in a saved graph"
        ),
        (
            "_MklAvgPool _MklAvgPool3D _MklAvgPool3DGrad _MklAvgPoolGrad _MklBatchMatMul "
            "_MklBatchMatMulV2 _MklConcat _MklConcatV2 _MklConjugateTranspose _MklConv2D "
            "_MklConv2DBackpropFilter _MklConv2DBackpropFilterWithBias "
            "_MklConv2DBackpropInput _MklConv2DWithBias _MklConv3D _MklConv3DBackpropFilterV2 "
            "_MklConv3DBackpropInputV2 _MklDepthwiseConv2dNative "
            "_MklDepthwiseConv2dNativeBackpropFilter _MklDepthwiseConv2dNativeBackpropInput "
            "_MklDequantize _MklEinsum _MklFusedBatchMatMulV2 _MklFusedBatchNorm "
            "_MklFusedBatchNormEx _MklFusedBatchNormGrad _MklFusedBatchNormGradV2 "
            "_MklFusedBatchNormGradV3 _MklFusedBatchNormV2 _MklFusedBatchNormV3 "
            "_MklFusedConv2D _MklFusedDepthwiseConv2dNative _MklFusedInstanceNorm "
            "_MklFusedMatMul _MklFusedMish _MklLayerNorm _MklMatMul _MklMaxPool _MklMaxPool3D "
            "_MklMaxPool3DGrad _MklMaxPoolGrad _MklNativeAvgPool _MklNativeAvgPool3D "
            "_MklNativeAvgPool3DGrad _MklNativeAvgPoolGrad _MklNativeConv2D "
            "_MklNativeConv2DBackpropFilter _MklNativeConv2DBackpropFilterWithBias "
            "_MklNativeConv2DBackpropInput _MklNativeConv2DWithBias _MklNativeConv3D "
            "_MklNativeConv3DBackpropFilterV2 _MklNativeConv3DBackpropInputV2 "
            "_MklNativeDepthwiseConv2dNative _MklNativeDepthwiseConv2dNativeBackpropFilter "
            "_MklNativeDepthwiseConv2dNativeBackpropInput _MklNativeFusedBatchNorm "
            "_MklNativeFusedBatchNormEx _MklNativeFusedBatchNormGrad "
            "_MklNativeFusedBatchNormGradV2 _MklNativeFusedBatchNormGradV3 "
            "_MklNativeFusedBatchNormV2 _MklNativeFusedBatchNormV3 _MklNativeFusedConv2D "
            "_MklNativeFusedConv3D _MklNativeFusedDepthwiseConv2dNative _MklNativeFusedMatMul "
            "_MklNativeMaxPool _MklNativeMaxPool3D _MklNativeMaxPool3DGrad "
            "_MklNativeMaxPoolGrad _MklNativePadWithConv2D _MklNativePadWithFusedConv2D "
            "_MklNativeSparseMatrixMatMul _MklPadWithConv2D _MklPadWithFusedConv2D "
            "_MklQuantizeV2 _MklQuantizedAvgPool _MklQuantizedConcatV2 _MklQuantizedConv2D "
            "_MklQuantizedConv2DAndRelu _MklQuantizedConv2DAndReluAndRequantize "
            "_MklQuantizedConv2DAndRequantize _MklQuantizedConv2DPerChannel "
            "_MklQuantizedConv2DWithBias _MklQuantizedConv2DWithBiasAndRelu "
            "_MklQuantizedConv2DWithBiasAndReluAndRequantize "
            "_MklQuantizedConv2DWithBiasAndRequantize "
            "_MklQuantizedConv2DWithBiasSignedSumAndReluAndRequantize "
            "_MklQuantizedConv2DWithBiasSumAndRelu "
            "_MklQuantizedConv2DWithBiasSumAndReluAndRequantize _MklQuantizedDepthwiseConv2D "
            "_MklQuantizedDepthwiseConv2DWithBias _MklQuantizedDepthwiseConv2DWithBiasAndRelu "
            "_MklQuantizedDepthwiseConv2DWithBiasAndReluAndRequantize "
            "_MklQuantizedMatMulWithBias _MklQuantizedMatMulWithBiasAndDequantize "
            "_MklQuantizedMatMulWithBiasAndRelu "
            "_MklQuantizedMatMulWithBiasAndReluAndRequantize "
            "_MklQuantizedMatMulWithBiasAndRequantize _MklQuantizedMaxPool _MklSoftmax "
            "_MklSwish _MklTranspose __MklDummyConv2DBackpropFilterWithBias "
            "__MklDummyConv2DWithBias __MklDummyPadWithConv2D __MklDummyPadWithFusedConv2D"
        ),
    ),
    (
        ("it needs a server that speaks TensorFlow's internal protocol for remote functions"),
        (
            "DeleteRpcFutureResource RpcCall RpcCheckStatus RpcClient RpcGetValue RpcServer "
            "RpcServerRegister RpcServerStart"
        ),
    ),
    (
        (
            "it has a meaning only in a program with several replicas; elsewhere TensorFlow "
            "fails, too"
        ),
        "XlaRecv XlaReplicaId XlaSend XlaSpmdShardToFullShape",
    ),
    (
        (
            "it is created by TensorFlow's own compiler at run time, and is never in a saved "
            'graph; jit="tiered" compiles the original graph'
        ),
        "XlaLaunch XlaLaunchV2 _XlaCompile _XlaMerge _XlaRun",
    ),
    (
        (
            "it writes into memory that several tensors share, and is created only by "
            "TensorFlow's runtime; use the original op, such as ParallelConcat"
        ),
        (
            "_ParallelConcatStart _ParallelConcatUpdate _ScopedAllocator "
            "_ScopedAllocatorConcat _ScopedAllocatorSplit"
        ),
    ),
    (
        "it exists for TensorFlow's own tests",
        (
            "ConstructionFails DevicePlacementOp DtypeWithDefaultOp Fact GetDeadline "
            "GraphDefVersion IsResourceHandleRefCounting IsTensorFloat32Enabled KernelLabel "
            "MakeWeakResourceHandle Old ResourceCreateOp ResourceInitializedOp "
            "ResourceUsingOp SleepIdentityOp SleepOp StubResourceHandleOp TestAttr"
        ),
    ),
    (
        "it checks memory that is pinned for a GPU",
        "CheckPinned",
    ),
    (
        ("it writes a debug dump that only TensorFlow's internal tools read; use DebugIdentity"),
        "DumpTensor",
    ),
    (
        ("it writes a database that TensorBoard no longer reads; use CreateSummaryFileWriter"),
        "CreateSummaryDbWriter",
    ),
    (
        "it configures TensorFlow's own clients of file systems",
        "FileSystemSetConfiguration",
    ),
    (
        "Pillow, which decodes the other image formats here, has no decoder for JPEG XL",
        "DecodeJxl",
    ),
)
REASONS: Final = {op: reason for reason, ops in _GROUPS for op in ops.split()}
"""The reason why an op has no kernel, by op."""
