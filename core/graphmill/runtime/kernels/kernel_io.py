"""Dereference inputs of kernels, and check outputs (clause E6).

Executors call `refs_to_read` and `checked_dtypes` once for each node, and the other functions only
for nodes that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.dtypes import as_dtype, resource, variant
from graphmill.errors import FailedPreconditionError, InternalError
from graphmill.runtime.dead import DEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from graphmill.dtypes import DType
    from graphmill.graph.node import Node
    from graphmill.runtime.kernels.op_kernel import OpKernel


def refs_to_read(node: Node) -> tuple[int, ...]:
    """Return the inputs of a node that are references and must be replaced by their values."""
    found: tuple[int, ...] = ()
    for index, edge in enumerate(node.in_edges):
        if edge.src.output_types[edge.src_output].is_ref and not node.input_types[index].is_ref:
            found += (index,)
    return found


def read_refs(node: Node, positions: Sequence[int], inputs: list[Any]) -> None:
    """Replace references by their values.

    Raises:
        FailedPreconditionError: a variable has no value yet, and the op needs one.
    """
    for position in positions:
        ref = inputs[position]
        if ref is None or ref is DEAD:  # an absent input of a Merge, or a dead value to send
            continue
        if ref.value is None and not node.op_def.allows_uninitialized_input:
            raise FailedPreconditionError(
                f"Attempting to use uninitialized value {ref.name}; "
                "run the variables' initializer or restore a checkpoint first"
            )
        inputs[position] = ref.value


def checked_dtypes(node: Node) -> tuple[np.dtype[Any] | None, ...]:
    """Return the dtype that each output must have; None where it is not an array."""
    return tuple(map(_checked_dtype, node.output_types))


def check_output(kernel: OpKernel, index: int, value: Any, expected: np.dtype[Any] | None) -> None:
    """Check the dtype of an output.

    Raises:
        InternalError: it differs from the graph's; a bug of the kernel.
    """
    dtype = getattr(value, "dtype", None)
    if value is DEAD:
        raise InternalError(
            f"the kernel {kernel.definition.source} returned DEAD for output {index}, but op "
            f"{kernel.op} does not declare that its outputs may be dead; define the op with "
            "traits=OpTraits(gives_dead=True)"
        )
    if dtype is None or expected is None:
        needed = "another type" if expected is None else f"a tensor of {as_dtype(expected).name}"
        raise InternalError(
            f"the kernel {kernel.definition.source} returned {type(value).__name__} for output "
            f"{index}, expected {needed}"
        )
    if dtype != expected:
        raise InternalError(
            f"the kernel {kernel.definition.source} returned a tensor of {dtype} for output "
            f"{index}, expected {as_dtype(expected).name}"
        )


def check_outputs(kernel: OpKernel, expected: Sequence[np.dtype[Any] | None], result: Any) -> None:
    """Check the number and dtypes of several outputs.

    Raises:
        InternalError: they differ from the graph's; a bug of the kernel.
    """
    count = len(expected)
    if not count:
        return
    if not isinstance(result, (tuple, list)) or len(result) != count:
        actual = len(result) if isinstance(result, (tuple, list)) else type(result).__name__
        raise InternalError(
            f"the kernel {kernel.definition.source} returned {actual} outputs, expected {count}"
        )
    for index, (value, dtype) in enumerate(zip(result, expected, strict=True)):
        if value is DEAD:
            if not kernel.gives_dead:
                check_output(kernel, index, value, dtype)
        elif dtype is not None and getattr(value, "dtype", None) is not dtype:
            check_output(kernel, index, value, dtype)


def _checked_dtype(dtype: DType) -> np.dtype[Any] | None:
    if dtype.is_ref or dtype in (resource, variant):
        return None
    return dtype.as_numpy_dtype
