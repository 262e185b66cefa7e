"""Int attrs that TensorFlow's kernels read as int32, although attrs have 64 bits.

The table is the data for the trait `int32_attrs` of TensorFlow's ops; ops of plugins declare the
trait.

Semantics: GetAttr with an int32 (tensorflow/core/framework/node_def_util.cc). The OpDef does not
show which attrs kernels and shape functions read as int32, so this table records the attrs for
which TensorFlow rejected the value 2^40.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.ops.definition.op_def import OpDef

_OPS_OF = {
    "axis": (
        "Dequantize OneHot Pack QuantizeAndDequantizeV3 QuantizeAndDequantizeV4Grad QuantizeV2 "
        "Unpack"
    ),
    "axis num_bits": "QuantizeAndDequantizeV2 QuantizeAndDequantizeV4",
    "batch_dim seq_dim": "ReverseSequence",
    "batch_dims": "GatherV2 ResourceGather",
    "batch_dims groups": "Conv",
    "batch_timeout_micros low_priority_batch_timeout_micros": "BatchFunction",
    "low_priority_max_batch_size low_priority_max_enqueued_batches": "BatchFunction",
    "max_batch_size max_enqueued_batches num_batch_threads": "BatchFunction",
    "beam_width": "CTCBeamSearchDecoder",
    "begin_mask ellipsis_mask end_mask new_axis_mask shrink_axis_mask": (
        "ResourceStridedSliceAssign StridedSlice StridedSliceAssign StridedSliceGrad "
        "TensorStridedSliceUpdate"
    ),
    "blank_index": "CTCGreedyDecoder",
    "block_size": "BatchToSpace DepthToSpace SpaceToBatch SpaceToDepth",
    "capacity": (
        "Barrier FIFOQueue FIFOQueueV2 PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue "
        "PriorityQueueV2"
    ),
    "capacity min_after_dequeue": "RandomShuffleQueue RandomShuffleQueueV2",
    "channels": "DecodeBmp DecodeImage DecodePng",
    "channels ratio": "DecodeAndCropJpeg DecodeJpeg",
    "component_index": "BarrierInsertMany",
    "compression": "EncodePng",
    "concat_dim": "SparseConcat",
    "dct_coefficient_count filterbank_channel_count": "Mfcc",
    "desired_channels desired_samples": "DecodeWav",
    "dilations strides": (
        "Conv Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilter "
        "Conv3DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNative "
        "QuantizedConv2D"
    ),
    "k": "InTopK",
    "ksize strides": (
        "AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad MaxPool MaxPool3D MaxPool3DGrad "
        "MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad MaxPoolGradWithArgmax MaxPoolWithArgmax "
        "QuantizedAvgPool QuantizedMaxPool"
    ),
    "ksizes rates strides": "ExtractImagePatches",
    "ksizes strides": "ExtractVolumePatches",
    "limit": "CountUpTo",
    "max_attempts": (
        "SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 "
        "StatelessSampleDistortedBoundingBox"
    ),
    "max_outputs": "AudioSummary AudioSummaryV2",
    "maxsplit": "StringSplitV2",
    "ngram_widths pad_width": "StringNGrams",
    "num_bits": (
        "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars "
        "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel "
        "FakeQuantWithMinMaxVarsPerChannelGradient"
    ),
    "num_elements": "TensorListStack",
    "num_sampled num_true": (
        "AllCandidateSampler FixedUnigramCandidateSampler LearnedUnigramCandidateSampler "
        "LogUniformCandidateSampler ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler"
    ),
    "parallel_iterations": "Enter RefEnter",
    "precision width": "AsString",
    "preferred_shard": "Restore RestoreSlice",
    "quality x_density y_density": "EncodeJpeg",
    "rates strides": "Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput",
    "replacement_char": "UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeTranscode",
    "skip_header_lines": "TextLineReader TextLineReaderV2",
    "squeeze_dims": "Squeeze",
    "stride window_size": "AudioSpectrogram",
    "strides": "DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput",
    "summarize": "Assert Print StringFormat",
}
"""Maps names of attrs to the ops that have these attrs."""


@cache
def listed_int32_attrs() -> dict[str, tuple[str, ...]]:
    """Return the int32 attrs of each of TensorFlow's ops that has any."""
    attrs_by_op: dict[str, tuple[str, ...]] = {}
    for names, ops in _OPS_OF.items():
        for op in ops.split():
            attrs_by_op[op] = (*attrs_by_op.get(op, ()), *names.split())
    return attrs_by_op


def check_attr_widths(op_def: OpDef, attrs: Mapping[str, Any], node: str = "") -> None:
    """Check the attrs of a node (in canonical form) that its op declares as int32.

    Raises:
        InvalidArgumentError: a number is out of range.
    """
    for name in op_def.traits.int32_attrs:
        value = attrs.get(name, 0)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and not -(1 << 31) <= number < 1 << 31:
                raise InvalidArgumentError(
                    f"Attr {name} has value {number} out of range for an int32",
                    node=node,
                    op_type=op_def.name,
                )
