"""Lowerings that need more of the compiler than `graphmill.spi.TraceContext` offers.

What any plugin can declare (checks, value domains, ops worth a program of their own) stands in
`graphmill_plugins.lowerings`. Here are the ops on what only the compiler knows: tensor arrays,
lists and stacks as values, rows of variables, slices at traced places, sizes that values decide.
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
"""By module, the ops that it has lowerings for: it is imported when one of them is compiled."""
