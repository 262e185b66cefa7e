"""Look up rows of a matrix, which may be divided into parts: `embedding_lookup`.

Semantics: tensorflow/python/ops/embedding_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.deprecations import warn_renamed
from graphmill.errors import InvalidArgumentError, InvalidValueError
from graphmill.functions._inputs import scope
from graphmill.functions.array import concat, reshape
from graphmill.functions.building import convert_to_tensor
from graphmill.functions.clipping import clip_by_norm
from graphmill.functions.math import cast, reduce_sum
from graphmill.functions.math import range as indices_up_to
from graphmill.ops import array, data_flow, math, state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import TensorLike

_STRATEGIES: Final = ("mod", "div")


def embedding_lookup(
    params: Any,
    ids: TensorLike,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: TensorLike | None = None,
) -> Tensor:
    """Return the rows of a matrix or variable with the given indices.

        table = F.constant([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
        print(session.run(F.embedding_lookup(table, [2, 0])).tolist())  # [[2.0, 2.0], [0.0, 0.0]]

    Args:
        params: a tensor or variable, or a list of those that hold the rows of one matrix.
        ids: indices, int32 or int64 of any shape.
        partition_strategy: where a row is if there are several parts. "mod": row `i` is in part
            `i % len(params)`. "div": the parts follow one another; all have the same number of
            rows, or the first ones have one row more. Another name is taken as `name`, with a
            warning for one version.
        name: name of the node.
        validate_indices: has no effect, as in TensorFlow. A step fails if an index is out of range.
        max_norm: the largest Euclidean norm of a row of the result; longer rows are scaled. By
            default there is none.

    Raises:
        InvalidArgumentError: `params` is an empty list, or of unknown rank with `max_norm`.
        InvalidValueError: there is no such strategy.
    """
    del validate_indices
    if partition_strategy not in _STRATEGIES:
        if name is not None:
            raise InvalidValueError(
                f"partition_strategy={partition_strategy!r}; expected 'mod' or 'div'"
            )
        warn_renamed("the third argument of embedding_lookup, a name,", "name")
        partition_strategy, name = "mod", partition_strategy
    parts = list(params) if isinstance(params, (list, tuple)) else [params]
    if not parts:
        raise InvalidArgumentError("embedding_lookup needs at least one matrix, got an empty list")
    if len(parts) == 1 and max_norm is None:
        return _rows(parts[0], ids, name)
    with scope(name, "embedding_lookup", *parts, ids) as (_, prefix):
        indices = convert_to_tensor(ids)
        if len(parts) == 1:
            rows = _rows(parts[0], indices, None)
        else:
            parts = [part if hasattr(part, "op") else convert_to_tensor(part) for part in parts]
            rows = _from_parts(parts, indices, partition_strategy)
        return array.identity(_clipped(rows, indices, max_norm), name=prefix)


def _rows(part: Any, ids: TensorLike, name: str | None) -> Tensor:
    handle = getattr(part, "handle", None)
    if handle is not None and part.is_resource:
        return state.resource_gather(handle, ids, dtype=part.value_dtype, name=name)
    return array.gather_v2(part if handle is None else handle, ids, 0, name=name)


def _from_parts(parts: Sequence[Any], ids: Tensor, strategy: str) -> Tensor:
    """Return rows of a matrix in several parts, each read on the device of its part."""
    flat = reshape(ids, [-1])
    part_of, row_of = _mod(flat, len(parts)) if strategy == "mod" else _div(flat, parts)
    part_of = cast(part_of, "int32")
    rows = data_flow.dynamic_partition(row_of, part_of, num_partitions=len(parts))
    positions = data_flow.dynamic_partition(
        indices_up_to(array.size(flat)), part_of, num_partitions=len(parts)
    )
    found = []
    graph: Any = flat.graph
    for part, own_rows in zip(parts, rows, strict=True):
        with graph.colocate_with(getattr(part, "handle", part), ignore_existing=True):
            found.append(_rows(part, own_rows, None))
    stitched = data_flow.parallel_dynamic_stitch(positions, found)
    return reshape(stitched, concat([array.shape(ids), array.shape(stitched)[1:]], 0))


def _mod(ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
    return math.floor_mod(ids, count), math.floor_div(ids, count)


def _div(ids: Tensor, parts: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Return the part and the row in it of each index; the first parts have one row more."""
    counts = array.pack([array.shape(part)[0] for part in parts])
    total = cast(reduce_sum(counts), ids.dtype)
    rows, longer = math.floor_div(total, len(parts)), math.floor_mod(total, len(parts))
    part_of = math.maximum(math.floor_div(ids, rows + 1), math.floor_div(ids - longer, rows))
    row_of = math.select(
        math.less(part_of, longer),
        math.floor_mod(ids, rows + 1),
        math.floor_mod(ids - longer, rows),
    )
    return part_of, row_of


def _clipped(rows: Tensor, ids: Tensor, max_norm: TensorLike | None) -> Tensor:
    if max_norm is None:
        return rows
    if rows.shape.rank is None or ids.shape.rank is None:
        raise InvalidArgumentError("embedding_lookup with max_norm needs tensors of known rank")
    clipped: Tensor = clip_by_norm(
        rows, max_norm, axes=list(range(ids.shape.rank, rows.shape.rank))
    )
    return clipped
