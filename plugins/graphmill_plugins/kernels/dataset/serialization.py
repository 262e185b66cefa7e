"""Kernels that write datasets as graphs, and create datasets from such graphs.

Semantics: tensorflow/core/kernels/data/dataset_ops.cc.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.spi.graphs import FunctionBody, graph_from_graph_def
from graphmill.spi.protos import GraphDef
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.dataset._graph_of_dataset import (
    FAIL,
    check_state,
    fingerprint,
    graph_of_dataset,
)
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    dataset_kernel,
    dataset_of,
    scalar,
)

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


@dataset_kernel("DatasetToGraph")
def dataset_to_graph(
    ctx: OpKernelContext,
    input_dataset: Value,
    allow_stateful: bool,
    strip_device_assignment: bool,
) -> Value:
    """Return the graph of a dataset as a serialized message."""
    policy = 0 if allow_stateful else FAIL
    return _serialized(ctx, input_dataset, policy, strips_devices=strip_device_assignment)


@dataset_kernel("DatasetToGraphV2")
def dataset_to_graph_v2(
    ctx: OpKernelContext,
    input_dataset: Value,
    external_state_policy: int,
    strip_device_assignment: bool,
) -> Value:
    """Return the graph of a dataset as a serialized message."""
    strips = strip_device_assignment
    return _serialized(ctx, input_dataset, external_state_policy, strips_devices=strips)


def _serialized(
    ctx: OpKernelContext, dataset: Value, policy: int, *, strips_devices: bool
) -> Value:
    graph = graph_of_dataset(dataset_of(dataset), functions=ctx.functions)
    if policy == FAIL:
        check_state(graph, ctx.functions)
    if strips_devices:
        for function in graph.library.function:
            for node in function.node_def:
                node.device = ""
    return string_scalar(graph.SerializeToString(deterministic=True))


@dataset_kernel("DatasetFingerprint")
def dataset_fingerprint(ctx: OpKernelContext, input_dataset: Value) -> Value:
    """Return a hash of the dataset's graph."""
    return np.uint64(fingerprint(dataset_of(input_dataset), functions=ctx.functions))


@dataset_kernel("DatasetFromGraph", effects=("state",))
def dataset_from_graph(ctx: OpKernelContext, graph_def: Value) -> Dataset:
    """Run the nodes of a graph in its string form; return the dataset that it returns.

    Raises:
        InvalidArgumentError: the string is no graph.
        NotFoundError: the graph returns nothing.
    """
    content: bytes = scalar(graph_def, "graph_def")
    name = "_dataset_" + hashlib.blake2b(content, digest_size=16).hexdigest()
    library = ctx.functions.library
    if library.body(name) is None:
        library.add_body(name, _body(name, content, ctx.functions))
    results = ctx.functions.run(ctx.functions.instantiate(name), [], ctx)
    return dataset_of(results[0])


def _body(name: str, content: bytes, functions: Any) -> FunctionBody:
    from google.protobuf.message import DecodeError

    try:
        message = GraphDef.FromString(content)
    except DecodeError as error:
        raise InvalidArgumentError("Could not parse graph_def as a GraphDef") from error
    if not any(node.op == "_Retval" for node in message.node):
        raise NotFoundError("the graph_def has no _Retval node, whose input is the dataset")
    functions.library.add_library(message.library)
    graph = graph_from_graph_def(message, functions.host.ops)
    graph.library = functions.library
    return FunctionBody(name, graph, (), (dtypes.variant,), ())
