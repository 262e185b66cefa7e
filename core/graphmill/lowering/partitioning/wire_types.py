"""The element types in which tensors are sent between tasks (`GraphOptions`).

Semantics: `should_cast` of BuildAndRegisterPartitions in
`tensorflow/core/distributed_runtime/master_session.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.dtypes import bfloat16, float32
from graphmill.graph.device_name import task_of
from graphmill.lowering.partitioning.partition import base_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.dtypes import DType
    from graphmill.graph.node import Edge, Node
    from graphmill.proto.config_pb2 import GraphOptions


def wire_type_of(options: GraphOptions) -> Callable[[Edge], DType] | None:
    """Return the function from edges to wire types, or None if tensors keep their types."""
    return _bfloat16_between_tasks if options.enable_bfloat16_sendrecv else None


def _bfloat16_between_tasks(edge: Edge) -> DType:
    dtype = base_type(edge)
    return bfloat16 if dtype is float32 and _task(edge.src) != _task(edge.dst) else dtype


def _task(node: Node) -> str:
    return task_of(node.assigned_device)
