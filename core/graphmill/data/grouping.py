"""Steps that group elements by a key: group_by_window and bucket_by_sequence_length.

Semantics: tensorflow/python/data/ops/{group_by_window_op,dataset_ops}.py.
"""

from __future__ import annotations

from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.data.components import scalar
from graphmill.data.dataset import Dataset
from graphmill.data.element_spec import DatasetSpec, TensorSpec, output_attrs
from graphmill.data.padding import padded
from graphmill.data.traced_function import TracedFunction, trace
from graphmill.errors import InvalidValueError
from graphmill.functions import (
    cast,
    control_dependencies,
    convert_to_tensor,
    gather,
    reduce_sum,
)
from graphmill.graph.tensor import Tensor
from graphmill.ops import array
from graphmill.ops import dataset as ops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.builder import Graph

_NUMBER = TensorSpec([], "int64")


def grouped(
    source: Dataset,
    key_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    window_size: Any,
    window_size_func: Callable[..., Any] | None,
) -> Dataset:
    """Group elements by a key, and reduce the groups; see `Dataset.group_by_window`."""
    if (window_size is None) == (window_size_func is None):
        raise InvalidValueError(
            "group_by_window takes either `window_size` or `window_size_func`, and needs one"
        )
    if window_size is not None:
        scalar(window_size, "int64", "group_by_window: window_size")
    size_func = window_size_func or (lambda _: window_size)
    key = _number(key_func, source.element_spec, "key_func")
    size = _number(size_func, _NUMBER, "window_size_func" if window_size_func else "window_size")
    group = trace(reduce_func, (_NUMBER, DatasetSpec(source.element_spec)), "group_by_window")
    if not isinstance(group.output_spec, DatasetSpec):
        raise InvalidValueError(
            f"group_by_window: `reduce_func` must return a Dataset, not {group.output_spec}"
        )
    element_spec = group.output_spec.element_spec

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        return ops.group_by_window_dataset(
            inputs[0],
            [],
            [],
            [],
            key_func=key.add_to(graph),
            reduce_func=group.add_to(graph),
            window_size_func=size.add_to(graph),
            **output_attrs(element_spec),
        )

    return Dataset(build, element_spec, [source])


def bucketed(
    source: Dataset,
    length_func: Callable[..., Any],
    boundaries: Sequence[int],
    batch_sizes: Sequence[int],
    padded_shapes: Any,
    padding_values: Any,
    *,
    pad_to_bucket_boundary: bool,
    no_padding: bool,
    drop_remainder: bool,
) -> Dataset:
    """Batch elements of similar lengths; see `Dataset.bucket_by_sequence_length`."""
    _check_buckets(boundaries, batch_sizes)
    limits, sizes = np.array(boundaries, np.int64), np.array(batch_sizes, np.int64)

    @wraps(length_func)
    def bucket_of(*element: Any) -> Tensor:
        length = cast(convert_to_tensor(length_func(*element)), "int64")
        return reduce_sum(cast(length >= limits, "int64"))

    def batch_of(bucket: Tensor, group: Dataset) -> Dataset:
        size = gather(sizes, bucket)
        if no_padding:
            return group.batch(size, drop_remainder)
        longest = _longest(limits, bucket) if pad_to_bucket_boundary else None
        return padded(group, size, padded_shapes, padding_values, drop_remainder, longest)

    return grouped(source, bucket_of, batch_of, None, lambda bucket: gather(sizes, bucket))


def _longest(limits: Any, bucket: Tensor) -> Tensor:
    """Return the maximum length of the elements of a bucket; the last bucket has none."""
    from graphmill.graph.assertion import Assert

    message = (
        "bucket_by_sequence_length: with pad_to_bucket_boundary, elements must be shorter than the "
        "last of bucket_boundaries; add a boundary, or filter longer elements"
    )
    with control_dependencies([Assert(bucket < len(limits), [message])]):
        bucket = array.identity(bucket)
    return gather(limits, bucket) - 1


def _check_buckets(boundaries: Sequence[int], batch_sizes: Sequence[int]) -> None:
    if len(batch_sizes) != len(boundaries) + 1:
        raise InvalidValueError(
            f"bucket_by_sequence_length: {len(boundaries)} bucket_boundaries make "
            f"{len(boundaries) + 1} buckets, but there are {len(batch_sizes)} bucket_batch_sizes"
        )
    if not boundaries or any(one >= other for one, other in pairwise(boundaries)):
        raise InvalidValueError(
            "bucket_by_sequence_length: bucket_boundaries must be in ascending order, got "
            f"{list(boundaries)}"
        )


def _number(function: Callable[..., Any], element_spec: Any, name: str) -> TracedFunction:
    """Trace a function that returns a scalar int64."""

    @wraps(function)
    def converted(*element: Any) -> Any:
        result = function(*element)
        return result if isinstance(result, Tensor) else convert_to_tensor(result, dtype="int64")

    traced = trace(converted, element_spec, "group_by_window")
    spec = traced.output_spec
    if not isinstance(spec, TensorSpec) or not spec.is_compatible_with(_NUMBER):
        raise InvalidValueError(
            f"group_by_window: `{name}` must give a scalar int64, not {spec}; cast it"
        )
    return traced
