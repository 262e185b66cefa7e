"""Math kernels for variants."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels._variant import addable, mapped

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


@kernel("AddN", types={"T": (dtypes.variant,)}, host=True)
def add_n_variant(xp: ArrayNamespace, inputs: list[Value]) -> Value:
    """Add the objects. Semantics: tensorflow/core/kernels/aggregate_ops.cc."""

    def total(first: Any, *others: Any) -> Any:
        return reduce(lambda sum_, other: addable(sum_).add(xp, other), others, first)

    shapes = [shape_of_value(value, dtypes.variant) for value in inputs]
    for index, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise InvalidArgumentError(
                f"Inputs must have the same shape. Input 0: {shape_text(shapes[0])} != "
                f"input {index}: {shape_text(shape)}"
            )
    return mapped(total, *inputs)
