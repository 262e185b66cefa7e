"""Declare the segment reductions with a given number of segments, and create their kernels.

A backend provides functions of arrays. Their shapes are checked here; the backend itself checks
their values, or ignores invalid ones.

Semantics: tensorflow/core/kernels/segment_reduction_ops_impl.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels._support import scalar_int, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

    Shape = tuple[int, ...]
    Segments = Callable[[Value, Value, int], Value]
    SparseSegments = Callable[[Value, Value, Value, int], Value]

COMBINED: Final = {"Sum": "add", "Prod": "multiply", "Max": "max", "Min": "min"}
"""The operation that combines the rows of a segment, by the suffix of an op's name."""
SCALES: Final = {"Sum": "sum", "Mean": "mean", "SqrtN": "sqrtn"}
"""The divisor of a segment's sum, by the suffix of a sparse op's name."""


def check_vectors(indices: Shape, ids: Shape) -> None:
    """Check that indices and segment ids are vectors of one length.

    Raises:
        InvalidArgumentError: they are not.
    """
    for name, shape in (("indices", indices), ("segment_ids", ids)):
        if len(shape) != 1:
            raise InvalidArgumentError(f"{name} should be a vector, got shape {shape_text(shape)}")
    if ids != indices:
        raise InvalidArgumentError("segment_ids and indices should have same size.")


def check_prefix(data: Shape, ids: Shape) -> None:
    """Raise InvalidArgumentError unless there is an id for each row of data."""
    if data[: len(ids)] != ids:
        raise InvalidArgumentError(
            f"data.shape = {shape_text(data)} does not start with segment_ids.shape = "
            f"{shape_text(ids)}"
        )


def segment_count(num_segments: Value) -> int:
    """Return the number of segments in an input.

    Raises:
        InvalidArgumentError: it is not a scalar, or negative.
    """
    count = scalar_int("num_segments", num_segments)
    if count < 0:
        raise InvalidArgumentError(f"Input num_segments == {count} must not be negative.")
    return count


def segment_kernels(
    backend: str, *, unsorted: Callable[[str], Segments], ordered: Callable[[str], Segments]
) -> KernelTable:
    """Return a backend's kernels that combine all rows.

    Args:
        backend: name of the backend.
        unsorted: called with the operation; returns a function that combines rows by ids in any
            order.
        ordered: the same, for ascending ids.
    """

    def of_any_order(how: str) -> Callable[[], Segments]:
        def make() -> Callable[[Value, Value, Value], Value]:
            combine = unsorted(how)

            def run(data: Value, ids: Value, num_segments: Value) -> Value:
                count = segment_count(num_segments)
                check_prefix(data.shape, ids.shape)
                return combine(data, ids, count)

            return run

        return make

    def in_order(how: str) -> Callable[[], Segments]:
        def make() -> Callable[[Value, Value, Value], Value]:
            combine = ordered(how)
            return lambda data, ids, num_segments: combine(
                data, ids, scalar_int("num_segments", num_segments)
            )

        return make

    static = ("num_segments",)
    return KernelTable(
        KernelDef((pattern.format(name),), make(how), backend, static=static, make=True)
        for pattern, make in (("UnsortedSegment{}", of_any_order), ("Segment{}V2", in_order))
        for name, how in COMBINED.items()
    )


def sparse_segment_kernels(
    backend: str,
    *,
    combine: Callable[[str], SparseSegments],
    gradient: Callable[[str], SparseSegments],
) -> KernelTable:
    """Return a backend's kernels that combine selected rows, and their gradients.

    Args:
        backend: name of the backend.
        combine: called with the scale; returns a function that combines the rows at indices by ids.
        gradient: called with the scale; returns a function that computes the gradient of all rows.
    """

    def forward(scale: str) -> Callable[[], Callable[..., Value]]:
        def make() -> Callable[..., Value]:
            of_rows = combine(scale)

            def run(data: Value, indices: Value, ids: Value, num_segments: Value) -> Value:
                count = segment_count(num_segments)
                check_vectors(indices.shape, ids.shape)
                return of_rows(data, indices, ids, count)

            return run

        return make

    def backward(scale: str) -> Callable[[], Callable[..., Value]]:
        def make() -> Callable[..., Value]:
            of_rows = gradient(scale)

            def run(grad: Value, indices: Value, ids: Value, output_dim0: Value) -> Value:
                check_vectors(indices.shape, ids.shape)
                return of_rows(grad, indices, ids, scalar_int("output_dim0", output_dim0))

            return run

        return make

    return KernelTable(
        definition
        for name, scale in SCALES.items()
        for definition in (
            KernelDef(
                (f"SparseSegment{name}WithNumSegments",),
                forward(scale),
                backend,
                static=("num_segments",),
                make=True,
            ),
            KernelDef(
                (f"SparseSegment{name}Grad",),
                backward(scale),
                backend,
                types={"T": dtypes.FLOATING},
                static=("output_dim0",),
                make=True,
            ),
        )
    )
