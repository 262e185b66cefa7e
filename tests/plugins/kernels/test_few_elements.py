"""Kernels that treat few elements in another way than many return the same for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill_plugins.kernels.array import edit_distance
from graphmill_plugins.kernels.data_flow import partition_stitch
from graphmill_plugins.kernels.ragged import ops as ragged
from graphmill_plugins.kernels.ragged import to_tensor
from graphmill_plugins.kernels.sparse import cross
from graphmill_plugins.kernels.string import reduce

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

INT64 = np.dtype(np.int64)


def _outcome(call: Callable[[], Any]) -> Any:
    """Return the arrays of a call as types and lists, or its error as text."""
    try:
        result = call()
    except errors.OpError as error:
        return type(error), str(error)
    arrays = result if isinstance(result, (tuple, list)) else [result]
    return [(array.dtype, array.shape, array.tolist()) for array in arrays]


@pytest.fixture
def same_for_many(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that asserts that a call returns the same if few elements are none."""

    def check(module: ModuleType, limit: str, call: Callable[[], Any]) -> Any:
        few = _outcome(call)
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, -1)
            assert few == _outcome(call)
        return few

    return check


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("deltas", [1, [1, 3, -2], [2, 0, 1], -(2**31), 2**30])
@pytest.mark.parametrize("limits", [9, [9, 2, -7]])
def test_ranges(same_for_many, dtype, deltas, limits) -> None:
    parts = [np.array(part, dtype) for part in ([0, 3, -1], limits, deltas)]
    same_for_many(ragged, "_FEW", lambda: ragged.ragged_range(*parts, INT64))


def test_ranges_to_the_largest_integer(same_for_many) -> None:
    parts = [np.array(part, np.int32) for part in ([0, 5], 2**31 - 1, 2**30)]
    same_for_many(ragged, "_FEW", lambda: ragged.ragged_range(*parts, INT64))


def test_ranges_of_scalars(same_for_many) -> None:
    parts = [np.array(part, np.int32) for part in (2, 8, 4)]
    found = same_for_many(ragged, "_FEW", lambda: ragged.ragged_range(*parts, np.dtype("int32")))
    assert [array for *_, array in found] == [[0, 2], [2, 6]]


@pytest.mark.parametrize("splits", [[0, 2, 2, 5], [0, 5], [1, 5], [0, 4], [0, 3, 2, 5], [0]])
@pytest.mark.parametrize("shape", [-1, [-1, -1], [2, 2], [5, 4], [3, 0], [3], [-2, 1]])
@pytest.mark.parametrize("inner", [(), (2,)])
def test_padded_rows(same_for_many, splits, shape, inner) -> None:
    values = np.arange(5 * (inner[0] if inner else 1)).reshape(5, *inner)
    wanted = np.array(shape, np.int64)
    if len(inner) and wanted.ndim and len(shape) > 1:
        wanted = np.array([*shape, -1], np.int64)
    same_for_many(
        to_tensor,
        "_FEW",
        lambda: to_tensor.ragged_tensor_to_tensor(
            wanted, values, np.int64(-1), [np.array(splits)], ("ROW_SPLITS",)
        ),
    )


def test_padded_strings(same_for_many) -> None:
    values = np.array([b"a", b"b", b"c"], object)
    found = same_for_many(
        to_tensor,
        "_FEW",
        lambda: to_tensor.ragged_tensor_to_tensor(
            np.array(-1), values, np.array(b"-", object), [np.array([0, 1, 3])], ("ROW_SPLITS",)
        ),
    )
    assert found[0][2] == [[b"a", b"-"], [b"b", b"c"]]


@pytest.mark.parametrize("dtype", [np.float32, object])
@pytest.mark.parametrize("targets", [[0, 2, 2, 0, 1, 2], [[0, 1], [1, 0], [0, 0]], [0, -1, 3], []])
def test_partitions(same_for_many, dtype, targets) -> None:
    partitions = np.array(targets, np.int32)
    data = np.arange(partitions.size * 2).reshape(*partitions.shape, 2).astype(dtype)
    same_for_many(
        partition_stitch,
        "_FEW",
        lambda: partition_stitch.dynamic_partition(np, data, partitions, 3),
    )


@pytest.mark.parametrize("count", [0, 1, 300])
def test_sorted_partitions(same_for_many, monkeypatch, count) -> None:
    monkeypatch.setattr(partition_stitch, "_FEW", -1)
    partitions = np.random.default_rng(count).integers(0, 9, count, np.int32)
    data = np.arange(2.0 * count).reshape(count, 2)
    same_for_many(
        partition_stitch,
        "_SORTED",
        lambda: partition_stitch.dynamic_partition(np, data, partitions, 12),
    )


@pytest.mark.parametrize(
    "indices", [[[0, 2], [2, 1]], [[[3, 0]], 1], [[0], [-1]], [[], []], [[1], [2**31 - 1]]]
)
@pytest.mark.parametrize("row", [(), (2,), (0,)])
def test_stitched_rows(same_for_many, indices, row) -> None:
    parts = [np.array(part, np.int32) for part in indices]
    data = [
        np.arange(part.size * int(np.prod(row))).reshape((*part.shape, *row)) * (number + 1)
        for number, part in enumerate(parts)
    ]
    same_for_many(
        partition_stitch,
        "_FEW_INDICES",
        lambda: partition_stitch.dynamic_stitch(np, parts, data),
    )


@pytest.mark.parametrize("ids", [[0, 2, 0, 2], [1, 1, 1, 1], [0, 1, 2, 3]])
def test_joined_segments(same_for_many, ids) -> None:
    texts = np.array([b"", b"a", b"b", b"c"], object)
    same_for_many(
        reduce,
        "_FEW",
        lambda: reduce.unsorted_segment_join(texts, np.array(ids), np.int32(4), ";"),
    )


def _sparse(rows: list[int], height: int) -> tuple[Any, Any, Any]:
    columns = [rows[:place].count(row) for place, row in enumerate(rows)]
    indices = np.stack([rows, columns], axis=1).astype(np.int64).reshape(-1, 2)
    values = np.array([b"v%d" % place for place in range(len(rows))], object)
    return indices, values, np.array([height, 9])


@pytest.mark.parametrize("left", [[0, 0, 1, 3], [2], []])
@pytest.mark.parametrize("right", [[0, 1, 1, 3, 3], [0, 0, 0, 0, 0, 0, 0, 0, 0]])
@pytest.mark.parametrize("heights", [(4, 4), (4, 5)])
def test_crossed_features(same_for_many, left, right, heights) -> None:
    sides = [_sparse(*side) for side in zip((left, right), heights, strict=True)]
    inputs = [list(part) for part in zip(*sides, strict=True)]
    sep = np.array(b"_", object)
    same_for_many(cross, "_FEW", lambda: cross.sparse_cross_v2(*inputs, [], sep))


@pytest.mark.parametrize("size", [1, 9, 70])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, object])
def test_edit_distances(same_for_many, size, dtype) -> None:
    random = np.random.default_rng(size)
    texts = [random.integers(0, 3, (3, size + more)) for more in (0, 2)]
    values = [
        np.array([b"%d" % number for number in text.ravel()], object)
        if dtype is object
        else text.ravel().astype(dtype)
        for text in texts
    ]
    places = [np.argwhere(np.ones_like(text)) for text in texts]
    shapes = [np.array(text.shape) for text in texts]
    parts = [part for side in zip(places, values, shapes, strict=True) for part in side]
    same_for_many(
        edit_distance,
        "_ELEMENTS_A_ROUND",
        lambda: edit_distance.edit_distance(*parts, normalize=True),
    )
