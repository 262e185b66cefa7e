"""Steps of a pipeline that call no functions: shuffle, batch, repeat, take and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.data.components import Component, scalar
from graphmill.data.dataset import Dataset
from graphmill.data.element_spec import (
    DatasetSpec,
    TensorSpec,
    check_same_structure,
    flatten,
    map_spec,
    most_general,
    output_attrs,
    pack,
)
from graphmill.errors import InvalidArgumentError, InvalidValueError
from graphmill.graph.random_seed import DEFAULT_GRAPH_SEED, get_seed
from graphmill.ops import dataset as ops
from graphmill.ops.inference.tensor_shape import TensorShape
from graphmill.ops.inputs.default_graph import has_default_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor


def step(
    op: Callable[..., Tensor],
    sources: Dataset | Sequence[Dataset],
    components: Sequence[Component],
    element_spec: Any,
    **attrs: Any,
) -> Dataset:
    """Return the dataset of an op of datasets, scalars and attrs."""
    datasets = [sources] if isinstance(sources, Dataset) else list(sources)

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        arguments = [part.add_to(graph) for part in components]
        return op(*inputs, *arguments, **output_attrs(element_spec), **attrs)

    return Dataset(build, element_spec, datasets, components)


def shuffled(source: Dataset, buffer_size: Any, seed: int | None, reshuffles: bool) -> Dataset:
    """Return the elements in random order; see `Dataset.shuffle`."""
    size = scalar(buffer_size, "int64", "shuffle: buffer_size")
    if size.value is not None and size.value < 1 and size.value != -2:
        raise InvalidArgumentError(
            f"shuffle: buffer_size must be greater than zero, got {size.value}"
        )
    seeds = [scalar(part, "int64", "shuffle: seed") for part in seeds_of(seed)]
    return step(
        ops.shuffle_dataset,
        source,
        [size, *seeds],
        source.element_spec,
        reshuffle_each_iteration=reshuffles,
    )


def seeds_of(seed: int | None) -> tuple[int, int]:
    """Return the two seeds of a dataset op, by the default graph if there is one."""
    if has_default_graph():
        return get_seed(seed)
    return (0, 0) if seed is None else (DEFAULT_GRAPH_SEED, seed % (2**31 - 1))


def batched(
    source: Dataset,
    batch_size: Any,
    drop_remainder: Any,
    num_parallel_calls: int | None,
    deterministic: bool | None,
) -> Dataset:
    """Stack consecutive elements; see `Dataset.batch`."""
    size, drop = batch_arguments(batch_size, drop_remainder, "batch")
    first = known_batch(size, drop)
    spec = map_spec(lambda part: _with_axis(part, first, "batch"), source.element_spec)
    if num_parallel_calls is None:
        return step(ops.batch_dataset_v2, source, [size, drop], spec)
    calls = scalar(num_parallel_calls, "int64", "batch: num_parallel_calls")
    return step(
        ops.parallel_batch_dataset,
        source,
        [size, calls, drop],
        spec,
        deterministic=determinism(deterministic),
    )


def batch_arguments(batch_size: Any, drop_remainder: Any, what: str) -> list[Component]:
    """Return the batch size and whether the remainder is dropped, checked."""
    size = scalar(batch_size, "int64", f"{what}: batch_size")
    if size.value is not None and size.value < 1:
        raise InvalidArgumentError(
            f"{what}: batch_size must be greater than zero, got {size.value}"
        )
    return [size, scalar(drop_remainder, "bool", f"{what}: drop_remainder")]


def known_batch(size: Component, drop: Component) -> int | None:
    """Return the size of all batches, if it is known."""
    is_exact = drop.value is not None and bool(drop.value) and size.value is not None
    return int(size.value) if is_exact else None


def unbatched(source: Dataset) -> Dataset:
    """Split each element along its first axis; see `Dataset.unbatch`."""
    spec = map_spec(lambda part: _without_axis(part, "unbatch"), source.element_spec)
    return step(ops.unbatch_dataset, source, [], spec)


def windows(source: Dataset, size: Any, shift: Any, stride: Any, drop_remainder: Any) -> Dataset:
    """Return datasets of consecutive elements; see `Dataset.window`."""
    arguments = [
        scalar(value, "int64", f"window: {name}")
        for name, value in (
            ("size", size),
            ("shift", size if shift is None else shift),
            ("stride", stride),
        )
    ]
    for part, name in zip(arguments, ("size", "shift", "stride"), strict=True):
        if part.value is not None and part.value < 1:
            raise InvalidArgumentError(
                f"window: {name} must be greater than zero, got {part.value}"
            )
    drop = scalar(drop_remainder, "bool", "window: drop_remainder")
    spec = map_spec(DatasetSpec, source.element_spec)
    return step(ops.window_dataset, source, [*arguments, drop], spec)


def repeated(source: Dataset, count: Any) -> Dataset:
    """Return the elements several times; see `Dataset.repeat`."""
    times = scalar(-1 if count is None else count, "int64", "repeat: count")
    return step(ops.repeat_dataset, source, [times], source.element_spec)


def counted(method: str, source: Dataset, count: Any) -> Dataset:
    """Return the first elements, or those after them; see `Dataset.take` and `Dataset.skip`."""
    op = {"take": ops.take_dataset, "skip": ops.skip_dataset}[method]
    return step(op, source, [scalar(count, "int64", f"{method}: count")], source.element_spec)


def sharded(source: Dataset, num_shards: Any, index: Any) -> Dataset:
    """Return every n-th element; see `Dataset.shard`."""
    count = scalar(num_shards, "int64", "shard: num_shards")
    position = scalar(index, "int64", "shard: index")
    if count.value is not None and count.value < 1:
        raise InvalidArgumentError(f"shard: num_shards must be >= 1; got {count.value}")
    is_known = count.value is not None and position.value is not None
    if is_known and not 0 <= position.value < count.value:
        raise InvalidArgumentError(
            f"shard: index must be from 0 to {count.value - 1}, below num_shards; got "
            f"{position.value}"
        )
    return step(ops.shard_dataset, source, [count, position], source.element_spec)


def concatenated(source: Dataset, other: Any) -> Dataset:
    """Return the elements of two datasets; see `Dataset.concatenate`."""
    if not isinstance(other, Dataset):
        raise InvalidArgumentError(f"concatenate: expected a Dataset, got {type(other).__name__}")
    check_same_structure(source.element_spec, other.element_spec, "the element of the other one")
    spec = most_general(source.element_spec, other.element_spec)
    return step(ops.concatenate_dataset, [source, other], [], spec)


def prefetched(source: Dataset, buffer_size: Any) -> Dataset:
    """Compute elements ahead; see `Dataset.prefetch`."""
    size = scalar(-1 if buffer_size is None else buffer_size, "int64", "prefetch: buffer_size")
    return step(ops.prefetch_dataset, source, [size], source.element_spec)


def cached(source: Dataset, filename: Any) -> Dataset:
    """Store the elements of the first pass; see `Dataset.cache`."""
    path = filename if isinstance(filename, (str, bytes)) else getattr(filename, "__fspath__", None)
    path = path() if callable(path) else filename
    return step(
        ops.cache_dataset, source, [scalar(path, "string", "cache: filename")], source.element_spec
    )


def distinct(source: Dataset) -> Dataset:
    """Return each of the distinct elements once; see `Dataset.unique`."""
    spec = source.element_spec
    leaves = flatten(spec)
    if len(leaves) != 1 or leaves[0].dtype.name not in ("int32", "int64", "string"):
        raise InvalidValueError(
            f"unique: elements must be one tensor, int32, int64 or string, not {spec}"
        )
    return step(ops.unique_dataset, source, [], spec)


def without_errors(source: Dataset, log_warning: bool) -> Dataset:
    """Skip elements that cannot be computed; see `Dataset.ignore_errors`."""
    return step(
        ops.ignore_errors_dataset, source, [], source.element_spec, log_warning=bool(log_warning)
    )


def rebatched(source: Dataset, batch_size: Any, drop_remainder: Any) -> Dataset:
    """Regroup batches into other sizes; see `Dataset.rebatch`."""
    sizes = Component(batch_size, "int64")
    drop = scalar(drop_remainder, "bool", "rebatch: drop_remainder")
    if sizes.shape is not None and len(sizes.shape) > 1:
        raise InvalidValueError(
            f"rebatch: batch_size must be a scalar or a vector, its shape is {sizes.shape}"
        )
    if sizes.value is not None and (sizes.value.size == 0 or (sizes.value < 0).any()):
        raise InvalidValueError(
            f"rebatch: batch_size must have sizes that are not negative, got {batch_size}"
        )
    inner = [_without_axis(part, "rebatch") for part in flatten(source.element_spec)]
    first = _known_rebatch(sizes, drop, flatten(source.element_spec))
    spec = pack(source.element_spec, [_with_axis(part, first, "rebatch") for part in inner])
    return step(ops.rebatch_dataset_v2, source, [sizes, drop], spec)


def _known_rebatch(sizes: Component, drop: Component, parts: list[TensorSpec]) -> int | None:
    """Return the size of all batches that are regrouped, if it is known."""
    if sizes.value is None or (sizes.value != sizes.value.flat[0]).any():
        return None
    size = int(sizes.value.flat[0])
    if drop.value is not None and bool(drop.value):
        return size
    axes = (part.shape[0] for part in parts if part.shape.rank is not None)
    before = {axis for axis in axes if axis is not None}
    if len(before) > 1:
        raise InvalidValueError(f"rebatch: parts of an element are batches of {sorted(before)}")
    return size if size and before and before.pop() % size == 0 else None


def determinism(deterministic: bool | None) -> str:
    """Return the attr `deterministic` of a parallel op."""
    return "default" if deterministic is None else str(bool(deterministic)).lower()


def _with_axis(part: Any, size: int | None, what: str) -> TensorSpec:
    shape = _tensor_spec(part, what).shape
    return TensorSpec(TensorShape([size]).concatenate(shape), part.dtype)


def _without_axis(part: Any, what: str) -> TensorSpec:
    shape = _tensor_spec(part, what).shape
    if shape.rank == 0:
        raise InvalidArgumentError(f"{what}: an element is a scalar, which cannot be split")
    return TensorSpec(shape if shape.rank is None else shape[1:], part.dtype)


def _tensor_spec(part: Any, what: str) -> TensorSpec:
    if not isinstance(part, TensorSpec):
        raise InvalidArgumentError(
            f"{what}: the elements are datasets, which cannot be stacked or split; flatten them "
            "with flat_map first"
        )
    return part
