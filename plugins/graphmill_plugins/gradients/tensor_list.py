"""Gradients of tensor lists, which are lists. Semantics: tensorflow/python/ops/list_ops.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, tensor_list
from graphmill.spi import gradient
from graphmill.spi.gradients import is_trainable, not_differentiable

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor

none = not_differentiable(
    "EmptyTensorList",
    "TensorListReserve",
    "TensorListLength",
    "TensorListElementShape",
    "TensorListConcatLists",
)
_ANY_SHAPE = -1


def _kind(op: ForwardOp) -> Any:
    return op.get_attr("element_dtype")


@gradient("TensorListPushBack")
def push_back(op: ForwardOp, dlist: Tensor) -> list[Any]:
    """Pop the element's gradient from the list's gradient."""
    shape = op.shape(op.inputs[1]) if _kind(op).name != "variant" else _ANY_SHAPE
    popped = tensor_list.tensor_list_pop_back(dlist, shape, element_dtype=_kind(op))
    return [popped.output_handle, popped.tensor]


@gradient("TensorListPopBack")
def pop_back(op: ForwardOp, dlist: Tensor | None, delement: Tensor | None) -> list[Any]:
    """Push the element's gradient, or zeros if it is None, so that list lengths stay equal."""
    if dlist is None:
        dlist = array.zeros_like(op.outputs[0])
    if delement is None:
        element = op.outputs[1]
        is_smooth = is_trainable(element.dtype)
        delement = op.zeros(element) if is_smooth else array.zeros_like(element)
    return [tensor_list.tensor_list_push_back(dlist, delement), None]


@gradient("TensorListStack")
def stack(_op: ForwardOp, dy: Tensor) -> list[Any]:
    """Unstack the tensor's gradient into a list."""
    shape = array.shape(dy)[1:]
    return [tensor_list.tensor_list_from_tensor(dy, shape), None]


@gradient("TensorListFromTensor")
def from_tensor(op: ForwardOp, dlist: Tensor) -> list[Any]:
    """Stack the list's gradient."""
    shape = op.shape(op.inputs[0])[1:]
    d_tensor = tensor_list.tensor_list_stack(dlist, shape, element_dtype=_kind(op))
    return [d_tensor, None]


@gradient("TensorListGetItem")
def get_item(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Set the item in a list whose other elements are unset, which counts as zero."""
    source, index = op.inputs[:2]
    count = tensor_list.tensor_list_length(source)
    shape = tensor_list.tensor_list_element_shape(source, shape_type="int32")
    blank = tensor_list.tensor_list_reserve(shape, count, element_dtype=_kind(op))
    return [tensor_list.tensor_list_set_item(blank, index, dy), None, None]


@gradient("TensorListSetItem")
def set_item(op: ForwardOp, dlist: Tensor) -> list[Any]:
    """Get the item; the replaced element gets zeros."""
    _, index, item = op.inputs
    zeros = op.zeros(item)
    d_item = tensor_list.tensor_list_get_item(dlist, index, op.shape(item), element_dtype=_kind(op))
    return [tensor_list.tensor_list_set_item(dlist, index, zeros), None, d_item]


@gradient("TensorListResize")
def resize(op: ForwardOp, dlist: Tensor) -> list[Any]:
    """Resize back."""
    count = tensor_list.tensor_list_length(op.inputs[0])
    return [tensor_list.tensor_list_resize(dlist, count), None]


@gradient("TensorListGather")
def gather(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Scatter the gradient into a list."""
    count = tensor_list.tensor_list_length(op.inputs[0])
    shape = array.shape(dy)[1:]
    return [tensor_list.tensor_list_scatter_v2(dy, op.inputs[1], shape, count), None, None]


@gradient("TensorListScatter", "TensorListScatterV2")
def scatter(op: ForwardOp, dlist: Tensor) -> list[Any]:
    """Gather the rows from the list's gradient."""
    tensor, indices = op.inputs[:2]
    shape = op.shape(tensor)[1:]
    d_tensor = tensor_list.tensor_list_gather(dlist, indices, shape, element_dtype=_kind(op))
    return [d_tensor, *[None] * (len(op.inputs) - 1)]


@gradient("TensorListScatterIntoExistingList")
def scatter_into(op: ForwardOp, dlist: Tensor) -> list[Any]:
    """Gather; overwritten elements of the list get no gradient."""
    _, tensor, indices = op.inputs
    shape = array.shape(tensor)[1:]
    d_tensor = tensor_list.tensor_list_gather(dlist, indices, shape, element_dtype=_kind(op))
    rest = tensor_list.tensor_list_scatter_into_existing_list(
        dlist, array.zeros_like(tensor), indices
    )
    return [rest, d_tensor, None]


@gradient("TensorListConcat", "TensorListConcatV2")
def concat(op: ForwardOp, dy: Tensor | None, _: Any) -> list[Any]:
    """Split the tensor's gradient into a list."""
    rest = [None] * (len(op.inputs) - 1)
    if dy is None:
        return [None, *rest]
    shape = array.concat_v2([op.graph.constant([-1]), array.shape(dy)[1:]], 0)
    return [tensor_list.tensor_list_split(dy, shape, op.outputs[1]), *rest]


@gradient("TensorListSplit")
def split(op: ForwardOp, dlist: Tensor) -> list[Any]:
    """Concatenate the list's gradient."""
    tensor, _, lengths = op.inputs
    shape = array.concat_v2([op.graph.constant([-1]), op.shape(tensor)[1:]], 0)
    gradients = tensor_list.tensor_list_concat_v2(dlist, shape, lengths, element_dtype=_kind(op))
    return [gradients.tensor, None, None]


@gradient("TensorListPushBackBatch")
def push_back_batch(op: ForwardOp, dlists: Tensor) -> list[Any]:
    """Return None: batches of lists have no gradient, as in TensorFlow."""
    del dlists
    return [None] * len(op.inputs)
