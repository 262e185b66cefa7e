"""The kernel of `_AccidentalHits`: it marks candidates that are true classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.nn.sampling.candidates import check_classes

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_LOWEST = np.finfo(np.float32).min


@kernel("_AccidentalHits", static=("output_shape",))
def accidental_hits(
    xp: ArrayNamespace,
    true_classes: Value,
    sampled_candidates: Value,
    output_shape: Value,
    num_true: int,
) -> Value:
    """Return the lowest float for each candidate that is a true class of an example, else 0.

    Raises:
        InvalidArgumentError: ranks or sizes do not fit, or the output is smaller.
    """
    check_classes(true_classes, sampled_candidates, num_true)
    is_hit = (true_classes[:, :, None] == sampled_candidates).any(axis=1)
    marks = xp.where(is_hit, _LOWEST, np.float32(0))
    shape = tuple(output_shape.tolist())
    if shape == marks.shape:
        return marks
    if len(shape) != 2 or shape[0] < marks.shape[0] or shape[1] < marks.shape[1]:
        raise InvalidArgumentError(
            f"accidental hits of shape {shape_text(marks.shape)} do not fit into "
            f"{shape_text(shape)}"
        )
    return xp.pad(
        marks, [(0, size - length) for size, length in zip(shape, marks.shape, strict=True)]
    )
