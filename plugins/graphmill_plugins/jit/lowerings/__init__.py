"""Lowerings that need more of the compiler than `graphmill.spi.TraceContext` offers.

`graphmill_plugins.lowerings` contains those that any plugin could declare: checks, value domains
and standalone ops. Here are the ops that need internals of the compiler: tensor arrays, lists and
stacks, rows of variables, slices with a traced start, and data-dependent sizes.
"""

from __future__ import annotations

from typing import Final

MODULES: Final[dict[str, str]] = {
    "control": "Assert ControlTrigger FakeParam NoOp",
    "data_dependent_shapes": "DynamicStitch ParallelDynamicStitch Range Unique",
    "dynamic_slice": "Add AddV2 Pack Slice StridedSlice StridedSliceGrad TensorStridedSliceUpdate",
    "stack": "StackCloseV2 StackPopV2 StackPushV2 StackV2",
    "tensor_array": (
        "TensorArrayCloseV3 TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayGradV3 "
        "TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3 TensorArraySplitV3 TensorArrayV3 "
        "TensorArrayWriteV3"
    ),
    "tensor_list": (
        "AddN EmptyTensorList TensorListElementShape TensorListFromTensor TensorListGather "
        "TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack "
        "TensorListReserve TensorListSetItem TensorListStack ZerosLike"
    ),
    "variable_gather_scatter": (
        "ResourceGather ResourceScatterAdd ResourceScatterSub ResourceScatterUpdate ScatterAdd "
        "ScatterSub ScatterUpdate"
    ),
}
"""The ops with lowerings in each module, which is imported when one of them is compiled."""
