"""A protobuf client over gRPC, and a few graphs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest

from graphmill import dtypes, proto
from graphmill.ops.attrs.attr_types import ShapeAttr, TensorAttr
from graphmill.ops.attrs.attr_value import attr_to_proto
from graphmill.ops.tensor_proto import numpy_to_tensor_proto, tensor_proto_to_numpy

grpc = pytest.importorskip("grpc")

TIMEOUT = 60.0
F = dtypes.float32


def graph_def(*nodes: tuple[str, str, list[str], dict[str, Any]]) -> Any:
    """Return a GraphDef of nodes: name, op, inputs, attrs."""
    made = proto.GraphDef()
    made.versions.producer = 2474
    for name, op, inputs, attrs in nodes:
        node = made.node.add(name=name, op=op, input=inputs)
        for key, value in attrs.items():
            attr_to_proto(value, node.attr[key])
    return made


def const(name: str, value: Any) -> tuple[str, str, list[str], dict[str, Any]]:
    attr = TensorAttr(np.asarray(value))
    return name, "Const", [], {"dtype": attr.dtype, "value": attr}


def queue(name: str) -> tuple[str, str, list[str], dict[str, Any]]:
    attrs = {"component_types": (F,), "shared_name": name.encode(), "capacity": 100}
    return name, "FIFOQueueV2", [], attrs


X = ("x", "Placeholder", [], {"dtype": F, "shape": ShapeAttr((2,))})
ARITHMETIC = graph_def(X, ("y", "Mul", ["x", "x"], {"T": F}))
QUEUES = graph_def(
    queue("started"),
    queue("waiting"),
    const("one", np.float32(1)),
    ("start", "QueueEnqueueV2", ["started", "one"], {"Tcomponents": (F,)}),
    ("wait", "QueueDequeueV2", ["waiting", "^start"], {"component_types": (F,)}),
    ("has_started", "QueueDequeueV2", ["started"], {"component_types": (F,)}),
    ("go_on", "QueueEnqueueV2", ["waiting", "one"], {"Tcomponents": (F,)}),
)
"""A step that fetches `wait` begins with `start`, so `has_started` is true while it runs."""
COUNTER = graph_def(
    ("v", "VarHandleOp", [], {"dtype": F, "shape": ShapeAttr(()), "shared_name": b"count"}),
    const("zero", np.float32(0)),
    const("one", np.float32(1)),
    ("init", "AssignVariableOp", ["v", "zero"], {"dtype": F}),
    ("add", "AssignAddVariableOp", ["v", "one"], {"dtype": F}),
    ("read", "ReadVariableOp", ["v", "^add"], {"dtype": F}),
    ("value", "ReadVariableOp", ["v"], {"dtype": F}),
)


class MasterClient:
    """Calls methods of a MasterService with messages."""

    def __init__(self, target: str) -> None:
        self.channel = grpc.insecure_channel(target.removeprefix("grpc://"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def call(self, name: str, request: Any) -> Any:
        return self.future(name, request).result()

    def future(self, name: str, request: Any) -> Any:
        response = getattr(proto, f"{name}Response")
        method = self.channel.unary_unary(
            f"/tensorflow.MasterService/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        return method.future(request, timeout=TIMEOUT)

    def raw(self, path: str, data: bytes) -> bytes:
        return self.channel.unary_unary(path)(data, timeout=TIMEOUT)

    def create(self, graph: Any, **config: Any) -> str:
        request = proto.CreateSessionRequest(graph_def=graph, config=proto.ConfigProto(**config))
        return self.call("CreateSession", request).session_handle

    def run_request(
        self, handle: str, fetches: Any = (), feeds: Any = (), targets: Any = (), **fields: Any
    ) -> Any:
        request = proto.RunStepRequest(
            session_handle=handle, fetch=fetches, target=targets, **fields
        )
        for name, value in dict(feeds).items():
            request.feed.add(name=name, tensor=numpy_to_tensor_proto(value))
        return request

    def run(self, *arguments: Any, **fields: Any) -> list[Any]:
        response = self.call("RunStep", self.run_request(*arguments, **fields))
        return [tensor_proto_to_numpy(tensor.tensor).tolist() for tensor in response.tensor]


def status_of(action: Any) -> tuple[str, str]:
    """Return the status code and message of a failing action."""
    with pytest.raises(grpc.RpcError) as caught:
        action()
    return caught.value.code().name, caught.value.details()
