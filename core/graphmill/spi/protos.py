"""Protocol buffers: TensorFlow's messages, tensors in them, and the wire format.

from graphmill.spi.protos import Example, tensor_proto_to_numpy

`proto` has all messages by name, for example `proto.RunStepRequest`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill import proto as proto
    from graphmill.ops.attrs.attr_check import canonical as canonical
    from graphmill.ops.attrs.attr_value import attr_to_proto as attr_to_proto
    from graphmill.ops.attrs.attr_value import shape_from_proto as shape_from_proto
    from graphmill.ops.attrs.attr_value import shape_to_proto as shape_to_proto
    from graphmill.ops.tensor_proto import numpy_to_tensor_proto as numpy_to_tensor_proto
    from graphmill.ops.tensor_proto import tensor_content_to_numpy as tensor_content_to_numpy
    from graphmill.ops.tensor_proto import tensor_proto_dtype as tensor_proto_dtype
    from graphmill.ops.tensor_proto import tensor_proto_shape as tensor_proto_shape
    from graphmill.ops.tensor_proto import tensor_proto_to_numpy as tensor_proto_to_numpy
    from graphmill.proto.event_pb2 import Event as Event
    from graphmill.proto.example_pb2 import Example as Example
    from graphmill.proto.graph_pb2 import GraphDef as GraphDef
    from graphmill.proto.histogram_pb2 import HistogramProto as HistogramProto
    from graphmill.proto.resource_handle_pb2 import ResourceHandleProto as ResourceHandleProto
    from graphmill.proto.summary_pb2 import Summary as Summary
    from graphmill.proto.summary_pb2 import SummaryMetadata as SummaryMetadata
    from graphmill.proto.tensor_pb2 import TensorProto as TensorProto
    from graphmill.proto.wire import FIXED32 as FIXED32
    from graphmill.proto.wire import LENGTH as LENGTH
    from graphmill.proto.wire import VARINT as VARINT
    from graphmill.proto.wire import Field as Field
    from graphmill.proto.wire import iterate_fields as iterate_fields
    from graphmill.proto.wire import length_delimited as length_delimited
    from graphmill.proto.wire import read_varint as read_varint
    from graphmill.proto.wire import write_varint as write_varint
    from graphmill.runtime.variants.object_tensors import (
        handles_from_tensor_proto as handles_from_tensor_proto,
    )
    from graphmill.runtime.variants.object_tensors import (
        handles_to_tensor_proto as handles_to_tensor_proto,
    )
    from graphmill.runtime.variants.object_tensors import is_variant as is_variant
    from graphmill.runtime.variants.object_tensors import (
        variants_from_tensor_proto as variants_from_tensor_proto,
    )
    from graphmill.runtime.variants.object_tensors import (
        variants_to_tensor_proto as variants_to_tensor_proto,
    )
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.ops.attrs.attr_check": "canonical",
            "graphmill.ops.attrs.attr_value": "attr_to_proto shape_from_proto shape_to_proto",
            "graphmill.ops.tensor_proto": (
                "numpy_to_tensor_proto tensor_content_to_numpy tensor_proto_dtype "
                "tensor_proto_shape tensor_proto_to_numpy"
            ),
            "graphmill.proto": "",
            "graphmill.proto.event_pb2": "Event",
            "graphmill.proto.example_pb2": "Example",
            "graphmill.proto.graph_pb2": "GraphDef",
            "graphmill.proto.histogram_pb2": "HistogramProto",
            "graphmill.proto.resource_handle_pb2": "ResourceHandleProto",
            "graphmill.proto.summary_pb2": "Summary SummaryMetadata",
            "graphmill.proto.tensor_pb2": "TensorProto",
            "graphmill.proto.wire": (
                "FIXED32 Field LENGTH VARINT iterate_fields length_delimited read_varint "
                "write_varint"
            ),
            "graphmill.runtime.variants.object_tensors": (
                "handles_from_tensor_proto handles_to_tensor_proto is_variant "
                "variants_from_tensor_proto variants_to_tensor_proto"
            ),
        },
    )
