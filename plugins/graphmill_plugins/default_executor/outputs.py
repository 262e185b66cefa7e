"""What goes into a kernel and comes out of it: references read, outputs checked (row E6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.dtypes import as_dtype
from graphmill.errors import FailedPreconditionError, InternalError
from graphmill.runtime.dead import DEAD

if TYPE_CHECKING:
    import numpy as np

    from graphmill_plugins.default_executor.graph_view import NodeItem


def dereference(item: NodeItem, taken: list[Any]) -> list[Any]:
    """Return the inputs of a node with the values of references in their place.

    Raises:
        FailedPreconditionError: a variable has no value yet, and the op needs one.
    """
    for position in item.ref_inputs:
        ref = taken[position]
        if ref is None:  # an input of a Merge that did not arrive
            continue
        if ref.value is None and not item.uninitialized_ok:
            raise FailedPreconditionError(
                f"Attempting to use uninitialized value {ref.name}; "
                "run the variables' initializer or restore a checkpoint first"
            )
        taken[position] = ref.value
    return taken


def check_output(item: NodeItem, index: int, value: Any, expected: np.dtype[Any]) -> None:
    """Check the dtype of an output.

    Raises:
        InternalError: it is not what the graph says; a fault of the kernel.
    """
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        raise InternalError(
            f"the kernel {_source(item)} returned {type(value).__name__} for output {index}, "
            f"expected a tensor of {as_dtype(expected).name}"
        )
    if dtype != expected:
        raise InternalError(
            f"the kernel {_source(item)} returned a tensor of {dtype} for output {index}, "
            f"expected {as_dtype(expected).name}"
        )


def check_outputs(item: NodeItem, result: Any) -> None:
    """Check the number and dtypes of several outputs.

    Raises:
        InternalError: they are not what the graph says; a fault of the kernel.
    """
    count = item.num_outputs
    if not count:
        return
    if not isinstance(result, (tuple, list)) or len(result) != count:
        given = len(result) if isinstance(result, (tuple, list)) else type(result).__name__
        raise InternalError(
            f"the kernel {_source(item)} returned {given} outputs, expected {count}"
        )
    for index, (value, dtype) in enumerate(zip(result, item.output_dtypes, strict=True)):
        if dtype is not None and getattr(value, "dtype", None) is not dtype and value is not DEAD:
            check_output(item, index, value, dtype)


def _source(item: NodeItem) -> str:
    return item.kernel.definition.source if item.kernel is not None else item.node.op
