"""SampleDistortedBoundingBox: sample a random crop that covers enough of an object.

Semantics: tensorflow/core/kernels/image/sample_distorted_bounding_box_op.cc. With a seed, the crops
are the same as TensorFlow's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.random._stream import Numbers, numbers_of
from graphmill_plugins.kernels.random.stateful import GuardedPhilox
from graphmill_plugins.kernels.random.stateless import concrete, scrambled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, OpKernelConstruction, OpKernelContext, Value

_TYPES = {"T": dtypes.INTEGER}
_F = np.float32
_MAX_SIDE = (1 << 31) - 1
_EPSILON = 0.0000001


class _Box(NamedTuple):
    left: int
    top: int
    right: int
    bottom: int

    @property
    def area(self) -> int:
        return (self.right - self.left) * (self.bottom - self.top)

    def common_area(self, other: _Box) -> int:
        left, top = max(self.left, other.left), max(self.top, other.top)
        right, bottom = min(self.right, other.right), min(self.bottom, other.bottom)
        return 0 if left > right or top > bottom else (right - left) * (bottom - top)


class _CropConstraints(NamedTuple):
    """The constraints on a crop."""

    aspect_ratio: Sequence[float]
    area: Sequence[float]
    attempts: int
    whole_if_no_box: bool

    def check(self) -> None:
        """Raise InvalidArgumentError for constraints that no crop can satisfy."""
        for name, pair in (("aspect_ratio_range", self.aspect_ratio), ("area_range", self.area)):
            if len(pair) != 2 or not (pair[0] > 0 and pair[1] > 0):
                raise InvalidArgumentError(f"{name} must be two positive numbers, got {list(pair)}")
        if self.area[0] > 1 or self.area[1] > 1:
            raise InvalidArgumentError(f"area_range must be within (0, 1], got {list(self.area)}")
        if self.attempts <= 0:
            raise InvalidArgumentError(f"max_attempts must be positive, got {self.attempts}")


def _rounded(value: Any) -> int:
    return int(np.rint(_F(value)))


def _random_crop(
    width: int, height: int, area: Sequence[float], ratio: Any, numbers: Numbers
) -> _Box | None:
    """Return a random crop of the given aspect ratio and area range; None if this attempt fails."""
    if width <= 0 or height <= 0:
        return None
    smallest, largest = (_F(share) * _F(width) * _F(height) for share in area)
    rows = _rounded(np.sqrt(smallest / ratio))
    most_rows = _rounded(np.sqrt(largest / ratio))
    if _rounded(_F(most_rows) * ratio) > width:
        most_rows = int((width + 0.5 - _EPSILON) / float(ratio))
        if _rounded(_F(most_rows) * ratio) > width:
            most_rows -= 1
    most_rows = min(most_rows, height)
    rows = min(rows, most_rows)
    if rows < most_rows:
        rows += numbers.below(most_rows - rows + 1)
    columns = _rounded(_F(rows) * ratio)
    if _F(columns * rows) < smallest:  # possibly because of rounding
        rows += 1
        columns = _rounded(_F(rows) * ratio)
    if _F(columns * rows) > largest:
        rows -= 1
        columns = _rounded(_F(rows) * ratio)
    if not smallest <= _F(columns * rows) <= largest:
        return None
    if not (0 < columns <= width and 0 < rows <= height):
        return None
    top = numbers.below(height - rows) if rows < height else 0
    left = numbers.below(width - columns) if columns < width else 0
    return _Box(left, top, left + columns, top + rows)


def _covers(crop: _Box, objects: Sequence[_Box], min_covered: Any) -> bool:
    if crop.area < 1:
        return False
    return any(
        _F(crop.common_area(box)) / _F(box.area) >= min_covered for box in objects if box.area >= 1
    )


def _objects(boxes: Value, width: int, height: int, constraints: _CropConstraints) -> list[_Box]:
    """Return bounding boxes in pixels; if there are none and the attr allows it, the whole image.

    Raises:
        InvalidArgumentError: boxes are malformed or outside of the image, or there are none.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        raise InvalidArgumentError(
            f"input boxes must be 3-dimensional [batch, num_boxes, coords], got shape "
            f"{shape_text(boxes.shape)}"
        )
    objects = []
    for top, left, bottom, right in boxes.reshape(-1, 4):
        if not all(0 <= edge <= 1 for edge in (top, left, bottom, right)):
            raise InvalidArgumentError(
                "All bounding box coordinates must be in [0.0, 1.0]: "
                f"{[float(top), float(left), float(bottom), float(right)]}"
            )
        wide, high = _F(width), _F(height)
        objects.append(
            _Box(int(left * wide), int(top * high), int(right * wide), int(bottom * high))
        )
    if not objects:
        if not constraints.whole_if_no_box:
            raise InvalidArgumentError(
                "No bounding boxes provided as input. One must enable "
                "use_image_if_no_bounding_boxes if you wish to not provide any bounding boxes."
            )
        objects.append(_Box(0, 0, width, height))
    return objects


def _sample(
    image_size: Value,
    boxes: Value,
    min_covered: Value,
    constraints: _CropConstraints,
    numbers: Numbers,
) -> tuple[Value, Value, Value]:
    constraints.check()
    if image_size.shape != (3,):
        raise InvalidArgumentError(
            f"image_size must contain 3 elements, got shape {shape_text(image_size.shape)}"
        )
    if np.ndim(min_covered):
        raise InvalidArgumentError("min_object_covered must be 0-D")
    if not min_covered >= 0:
        raise InvalidArgumentError(f"Min object covered must be non-negative: {float(min_covered)}")
    height, width = (int(side) for side in image_size[:2])
    for name, side in (("height", height), ("width", width)):
        if not 0 <= side < _MAX_SIDE:
            raise InvalidArgumentError(
                f"image {name} must not be negative, and below {_MAX_SIDE}: {side}"
            )
    objects = _objects(boxes, width, height, constraints)
    lowest, highest = (_F(ratio) for ratio in constraints.aspect_ratio)
    chosen = _Box(0, 0, width, height)
    for _ in cancellable(range(constraints.attempts), 64):
        ratio = _F(numbers.unit()) * (highest - lowest) + lowest
        crop = _random_crop(width, height, constraints.area, ratio, numbers)
        if crop is not None and _covers(crop, objects, min_covered):
            chosen = crop
            break
    return _outputs(chosen, height, width, image_size.dtype)


def _outputs(crop: _Box, height: int, width: int, dtype: Any) -> tuple[Value, Value, Value]:
    begin = np.array([crop.top, crop.left, 0], np.int64).astype(dtype)
    size = np.array([crop.bottom - crop.top, crop.right - crop.left, -1], np.int64).astype(dtype)
    sides = np.array([height, width, height, width], np.float32)
    edges = np.array([crop.top, crop.left, crop.bottom, crop.right], np.float32)
    return begin, size, (edges / sides).reshape(1, 1, 4)


@kernel(
    "SampleDistortedBoundingBox",
    "SampleDistortedBoundingBoxV2",
    types=_TYPES,
    stateful=True,
    host=True,
    effects=("rng",),
)
class SampleDistortedBoundingBoxKernel:
    """Sample a crop; the required coverage is an attr, or in V2 an input."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._source = GuardedPhilox(construction)
        self._constraints = _CropConstraints(
            construction.attr("aspect_ratio_range"),
            construction.attr("area_range"),
            construction.attr("max_attempts"),
            construction.attr("use_image_if_no_bounding_boxes"),
        )
        self._least = construction.attrs.get("min_object_covered")

    def __call__(
        self,
        ctx: OpKernelContext,
        image_size: Value,
        boxes: Value,
        min_covered: Value | None = None,
    ) -> tuple[Value, Value, Value]:
        """Return the first pixel, the size and the box of the crop."""
        del ctx
        covered = _F(self._least) if min_covered is None else min_covered
        self._constraints.check()
        numbers = Numbers(numbers_of(self._source.reserve(self._constraints.attempts)))
        return _sample(image_size, boxes, covered, self._constraints, numbers)


@kernel("StatelessSampleDistortedBoundingBox", types=_TYPES, host=True)
def stateless_sample_distorted_bounding_box(
    xp: ArrayNamespace,
    image_size: Value,
    bounding_boxes: Value,
    min_object_covered: Value,
    seed: Value,
    aspect_ratio_range: tuple[float, ...],
    area_range: tuple[float, ...],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
) -> tuple[Value, Value, Value]:
    """Sample a crop from a seed; return its first pixel, size and box."""
    constraints = _CropConstraints(
        aspect_ratio_range, area_range, max_attempts, use_image_if_no_bounding_boxes
    )
    numbers = Numbers(numbers_of(concrete(scrambled(xp, seed))))
    return _sample(image_size, bounding_boxes, min_object_covered, constraints, numbers)
