"""Datasets in files: save, load and snapshot.

Semantics: tensorflow/python/data/ops/{save,load,snapshot}_op.py.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import files, proto
from graphmill.data.components import scalar
from graphmill.data.dataset import AUTOTUNE, Dataset
from graphmill.data.element_spec import DatasetSpec, TensorSpec, output_attrs
from graphmill.data.folds import graph_of_result
from graphmill.data.spec_message import of_message, to_message
from graphmill.data.traced_function import TracedFunction, trace
from graphmill.errors import DataLossError, InvalidValueError
from graphmill.ops import dataset as ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor

SPEC_FILE: Final = "dataset_spec.pb"
"""The file of a saved dataset that holds the spec of its elements."""


def save(
    source: Dataset, path: Any, compression: str | None, shard_func: Callable[..., Any] | None
) -> Node | None:
    """Write the elements to files; see `Dataset.save`."""
    folder = files.as_path(path)
    content = to_message(source.element_spec).SerializeToString(deterministic=True)
    shard = _shard(shard_func or _one_shard, source.element_spec, "save")
    files.make_dirs(folder)
    files.write(files.join(folder, SPEC_FILE), content)

    def add(graph: Graph, variant: Tensor) -> Node:
        return ops.save_dataset(
            variant,
            scalar(folder, "string", "save: path").add_to(graph),
            [],
            shard_func=shard.add_to(graph),
            compression=compression or "",
            use_shard_func=shard_func is not None,
        )

    graph = graph_of_result([source])
    if graph is None:
        from graphmill.data.dataset_value import run

        run(source, add)
        return None
    with graph.as_default():
        return add(graph, source.add_to(graph))


def load(
    path: Any,
    element_spec: Any,
    compression: str | None,
    reader_func: Callable[[Dataset], Dataset] | None,
) -> Dataset:
    """Return a dataset of elements in files; see `Dataset.load`."""
    folder = files.as_path(path)
    spec = _saved_spec(folder) if element_spec is None else element_spec
    reader = _reader(reader_func, spec, "load")

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        del inputs
        return ops.load_dataset(
            scalar(folder, "string", "load: path").add_to(graph),
            [],
            reader_func=reader.add_to(graph),
            compression=compression or "",
            **output_attrs(spec),
        )

    return Dataset(build, spec)


def snapshot(
    source: Dataset,
    path: Any,
    compression: str | None,
    reader_func: Callable[[Dataset], Dataset] | None,
    shard_func: Callable[..., Any] | None,
) -> Dataset:
    """Write the elements to files, or read them; see `Dataset.snapshot`."""
    if shard_func is None:
        shards = _processors()
        numbered = _snapshot(
            source.enumerate(), path, compression, reader_func, lambda index, _: index % shards
        )
        return numbered.map(lambda _, element: element)
    return _snapshot(source, path, compression, reader_func, shard_func)


def _snapshot(
    source: Dataset,
    path: Any,
    compression: str | None,
    reader_func: Callable[[Dataset], Dataset] | None,
    shard_func: Callable[..., Any],
) -> Dataset:
    folder, spec = files.as_path(path), source.element_spec
    reader = _reader(reader_func, spec, "snapshot")
    shard = _shard(shard_func, spec, "snapshot")

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        return ops.snapshot_dataset_v2(
            inputs[0],
            scalar(folder, "string", "snapshot: path").add_to(graph),
            [],
            [],
            reader_func=reader.add_to(graph),
            shard_func=shard.add_to(graph),
            compression=compression or "",
            **output_attrs(spec),
        )

    return Dataset(build, spec, [source])


def _saved_spec(folder: str) -> Any:
    """Return the spec of the elements of a saved dataset.

    Raises:
        NotFoundError: there is none.
        DataLossError: the file is damaged.
    """
    from google.protobuf.message import DecodeError

    path = files.join(folder, SPEC_FILE)
    content = files.read_bytes(path)
    try:
        message = proto.StructuredValue.FromString(content)
    except DecodeError as error:
        raise DataLossError(f"load: {path} is damaged; pass element_spec: {error}") from error
    return of_message(message)


def _reader(
    reader_func: Callable[[Dataset], Dataset] | None, element_spec: Any, what: str
) -> TracedFunction:
    traced = trace(reader_func or _interleaved, DatasetSpec(DatasetSpec(element_spec)), what)
    if traced.output_spec != DatasetSpec(element_spec):
        raise InvalidValueError(
            f"{what}: `reader_func` must return a Dataset of the elements, not {traced.output_spec}"
        )
    return traced


def _shard(shard_func: Callable[..., Any], element_spec: Any, what: str) -> TracedFunction:
    traced = trace(shard_func, element_spec, what)
    spec = traced.output_spec
    kinds = [TensorSpec([], "int64"), TensorSpec([], "int32")]
    if not isinstance(spec, TensorSpec) or not any(map(spec.is_compatible_with, kinds)):
        raise InvalidValueError(
            f"{what}: `shard_func` must return the number of a file, a scalar int64, not {spec}"
        )
    return traced


def _one_shard(*element: Any) -> Any:
    del element
    return np.int64(0)


def _interleaved(shards: Dataset) -> Dataset:
    return shards.interleave(
        lambda shard: shard, cycle_length=_processors(), num_parallel_calls=AUTOTUNE
    )


def _processors() -> int:
    return os.cpu_count() or 1
