"""RandomCrop: a part of an image at a random position.

Semantics: tensorflow/core/kernels/random_crop_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill import dtypes
from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.random._stream import numbers_of
from graphmill_plugins.kernels.random.stateful import GuardedPhilox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

_COUNTERS: Final = 1  # a counter yields four numbers; two positions need two of them


@kernel(
    "RandomCrop",
    stateful=True,
    host=True,
    effects=("rng",),
    variable="generator",
    types={"T": dtypes.REAL},
)
class RandomCropKernel:
    """Crop an image at a random position."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self.generator = GuardedPhilox(construction)

    def __call__(self, ctx: OpKernelContext, image: Value, size: Value) -> Value:
        """Return a part of `image` of `size` (height, width).

        Raises:
            FailedPreconditionError: the image is smaller than the part.
            InvalidArgumentError: shapes do not fit, or a size is negative.
        """
        del ctx
        if image.ndim != 3:
            raise InvalidArgumentError(
                f"image must be 3-dimensional, got shape {shape_text(image.shape)}"
            )
        if size.shape != (2,) or size.min() < 0:
            raise InvalidArgumentError(
                f"size must be a vector of two sizes of at least 0, got {size}"
            )
        height, width = size.tolist()
        if height > image.shape[0] or width > image.shape[1]:
            raise FailedPreconditionError(
                f"size {[height, width]} is larger than the image, which has {image.shape[0]} rows "
                f"and {image.shape[1]} columns"
            )
        numbers = numbers_of(self.generator.reserve(_COUNTERS))
        left = _start(numbers, image.shape[1] - width)
        top = _start(numbers, image.shape[0] - height)
        return image[top : top + height, left : left + width].copy()


def _start(numbers: Iterator[Any], rest: int) -> int:
    """Return a random start that leaves out `rest` elements; draw no number if `rest` is 0."""
    return next(numbers) % (rest + 1) if rest else 0
