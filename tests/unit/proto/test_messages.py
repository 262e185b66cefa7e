"""The messages equal TensorFlow's: field numbers, encodings, unknown fields."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import descriptor_pool, unknown_fields
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from graphmill import proto
from graphmill.proto._index import MODULE_OF

DATA = Path(__file__).parent / "data"
SAMPLES = {
    "graph_def": "GraphDef",
    "config_proto": "ConfigProto",
    "run_metadata": "RunMetadata",
    "saved_model": "SavedModel",
    "meta_graph_v1": "MetaGraphDef",
}
# What every file of a model is made of, written down apart from the .proto files.
FIELD_NUMBERS = {
    "GraphDef": {"node": 1, "library": 2, "version": 3, "versions": 4, "debug_info": 5},
    "NodeDef": {
        "name": 1,
        "op": 2,
        "input": 3,
        "device": 4,
        "attr": 5,
        "experimental_debug_info": 6,
        "experimental_type": 7,
    },
    "AttrValue": {
        "list": 1,
        "s": 2,
        "i": 3,
        "f": 4,
        "b": 5,
        "type": 6,
        "shape": 7,
        "tensor": 8,
        "placeholder": 9,
        "func": 10,
    },
    "TensorProto": {
        "dtype": 1,
        "tensor_shape": 2,
        "version_number": 3,
        "tensor_content": 4,
        "float_val": 5,
        "double_val": 6,
        "int_val": 7,
        "string_val": 8,
        "scomplex_val": 9,
        "int64_val": 10,
        "bool_val": 11,
        "dcomplex_val": 12,
        "half_val": 13,
        "resource_handle_val": 14,
        "variant_val": 15,
        "uint32_val": 16,
        "uint64_val": 17,
        "float8_val": 18,
    },
    "TensorShapeProto": {"dim": 2, "unknown_rank": 3},
    "FunctionDef": {
        "signature": 1,
        "node_def": 3,
        "ret": 4,
        "attr": 5,
        "control_ret": 6,
        "arg_attr": 7,
        "resource_arg_unique_id": 8,
    },
    "SavedModel": {"saved_model_schema_version": 1, "meta_graphs": 2},
    "MetaGraphDef": {
        "meta_info_def": 1,
        "graph_def": 2,
        "saver_def": 3,
        "collection_def": 4,
        "signature_def": 5,
        "asset_file_def": 6,
        "object_graph_def": 7,
    },
    "BundleHeaderProto": {"num_shards": 1, "endianness": 2, "version": 3},
    "BundleEntryProto": {
        "dtype": 1,
        "shape": 2,
        "shard_id": 3,
        "offset": 4,
        "size": 5,
        "crc32c": 6,
        "slices": 7,
    },
    "RunStepRequest": {
        "session_handle": 1,
        "feed": 2,
        "fetch": 3,
        "target": 4,
        "options": 5,
        "partial_run_handle": 6,
        "store_errors_in_response_body": 7,
        "request_id": 8,
    },
    "RunStepResponse": {"tensor": 1, "metadata": 2, "status_code": 3, "status_error_message": 4},
    "ExtendSessionResponse": {"new_graph_version": 4},
    "RegisterGraphRequest": {
        "session_handle": 1,
        "graph_def": 2,
        "has_control_flow": 3,
        "graph_options": 4,
        "debug_options": 5,
        "create_worker_session_called": 6,
        "collective_graph_key": 7,
        "config_proto": 8,
    },
    "RunGraphRequest": {
        "graph_handle": 1,
        "step_id": 2,
        "send": 3,
        "recv_key": 4,
        "exec_opts": 5,
        "is_partial": 6,
        "is_last_partial_run": 7,
        "session_handle": 8,
        "store_errors_in_response_body": 9,
        "create_worker_session_called": 10,
        "request_id": 11,
    },
    "RunGraphResponse": {
        "recv": 1,
        "step_stats": 2,
        "cost_graph": 3,
        "partition_graph": 4,
        "status_code": 5,
        "status_error_message": 6,
    },
    "RecvTensorResponse": {
        "tensor": 1,
        "is_dead": 2,
        "send_start_micros": 3,
        "transport_options": 4,
        "require_ack": 5,
    },
    "RecvBufRespExtra": {"tensor_content": 1},
    "VersionDef": {"producer": 1, "min_consumer": 2, "bad_consumers": 3},
}


def sample(name: str) -> tuple[Message, bytes]:
    """Return the parsed sample `name` and its bytes."""
    data = (DATA / f"{name}.pb").read_bytes()
    return getattr(proto, SAMPLES[name]).FromString(data), data


def messages_in(message: Message):
    """Yield `message` and all messages that are reachable from it."""
    waiting = [message]
    while waiting:
        message = waiting.pop()
        yield message
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                if field.message_type.fields_by_name["value"].message_type is not None:
                    waiting.extend(value.values())
            elif field.is_repeated:
                waiting.extend(value)
            else:
                waiting.append(value)


@pytest.mark.parametrize("name", FIELD_NUMBERS)
def test_field_numbers_are_tensorflows(name):
    fields = getattr(proto, name).DESCRIPTOR.fields
    assert {field.name: field.number for field in fields} == FIELD_NUMBERS[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_tensorflow_bytes_round_trip(name):
    message, data = sample(name)
    assert message.SerializeToString(deterministic=True) == data


@pytest.mark.parametrize("name", SAMPLES)
def test_no_field_of_tensorflows_bytes_is_unknown(name):
    message, _ = sample(name)
    unknown = [type(m).__name__ for m in messages_in(message) if unknown_fields.UnknownFieldSet(m)]
    assert unknown == []


def test_a_graph_reads_as_tensorflow_wrote_it():
    graph, _ = sample("graph_def")
    node = {node.name: node for node in graph.node}
    assert list(node["y"].input) == ["x", "w", "^unknown_rank"]
    assert node["w"].device == "/job:worker/task:1/device:CPU:0"
    assert node["unknown_rank"].attr["shape"].shape.unknown_rank
    assert [dim.size for dim in node["x"].attr["shape"].shape.dim] == [-1, 3]
    assert list(node["words"].attr["value"].tensor.string_val) == [b"one", b"two"]
    assert list(node["pool"].attr["ksize"].list.i) == [1, 2, 2, 1]
    assert list(node["queue"].attr["component_types"].list.type) == [3, 7]
    called = node["StatefulPartitionedCall"].attr["f"].func.name
    assert called in {function.signature.name for function in graph.library.function}
    assert graph.versions.producer > 1000


def test_a_config_reads_as_tensorflow_wrote_it():
    config, _ = sample("config_proto")
    assert dict(config.device_count) == {"CPU": 2, "GPU": 0}
    assert config.graph_options.optimizer_options.opt_level == proto.OptimizerOptions.L0
    assert config.graph_options.rewrite_options.constant_folding == proto.RewriterConfig.OFF
    assert config.experimental.executor_type == "SINGLE_THREADED_EXECUTOR"
    assert list(config.gpu_options.experimental.virtual_devices[0].memory_limit_mb) == [100.5, 200]


def test_a_saved_model_reads_as_tensorflow_wrote_it():
    model, _ = sample("saved_model")
    (meta_graph,) = model.meta_graphs
    assert list(meta_graph.meta_info_def.tags) == ["serve"]
    assert meta_graph.signature_def["serve"].inputs["inputs"].name == "serve_inputs:0"
    assert meta_graph.asset_file_def[0].filename == "words.txt"
    kinds = {node.WhichOneof("kind") for node in meta_graph.object_graph_def.nodes}
    assert {"user_object", "variable", "asset", "function", "constant"} <= kinds


def test_collections_of_tensorflow_1_hold_messages_that_we_have():
    meta_graph, _ = sample("meta_graph_v1")
    collections = meta_graph.collection_def
    (loop,) = collections["while_context"].bytes_list.value
    assert proto.WhileContextDef.FromString(loop).loop_exit_names == ["loop/Exit:0"]
    (queue,) = collections["queue_runners"].bytes_list.value
    assert proto.QueueRunnerDef.FromString(queue).queue_name == "queue"
    slices = [
        proto.VariableDef.FromString(data).save_slice_info_def
        for data in collections["variables"].bytes_list.value
    ]
    assert [list(part.var_offset) for part in slices] == [[0, 0], [2, 0]]
    assert meta_graph.saver_def.version == proto.SaverDef.V2


def test_unknown_fields_survive():
    known = proto.NodeDef(name="n", op="NoOp").SerializeToString()
    extended = known + b"\xc2\x3e\x03new"  # field 1000, bytes
    assert proto.NodeDef.FromString(extended).SerializeToString() == extended
    inside = b"\x0a" + bytes([len(extended)]) + extended
    assert proto.GraphDef.FromString(inside).SerializeToString() == inside


def test_unknown_enum_values_survive():
    value = proto.AttrValue.FromString(b"\x30\xe7\x07")  # type: 999
    assert value.type == 999
    assert value.SerializeToString() == b"\x30\xe7\x07"


@pytest.mark.parametrize(
    "data", [b"\x2a\x08\0\0\x80?\0\0\0@", b"\x2d\0\0\x80?\x2d\0\0\0@"], ids=["packed", "unpacked"]
)
def test_both_encodings_of_repeated_numbers_are_read(data):
    assert list(proto.TensorProto.FromString(data).float_val) == [1.0, 2.0]


def test_lists_of_attributes_are_packed_as_tensorflow_packs_them():
    value = proto.AttrValue()
    value.list.i.extend([1, 300])
    assert value.SerializeToString() == b"\x0a\x05\x1a\x03\x01\xac\x02"


def test_field_presence_matches_tensorflow():
    assert not proto.GraphDebugInfo.FileLineCol().HasField("line")  # proto2
    assert not proto.ChunkedMessage().HasField("chunk_index")  # proto3 optional
    with pytest.raises(ValueError, match="presence"):
        proto.NodeDef().HasField("name")


def test_truncated_bytes_are_refused():
    _, data = sample("graph_def")
    with pytest.raises(DecodeError):
        proto.GraphDef.FromString(data[:-1])


def test_every_name_belongs_to_us():
    pool = descriptor_pool.Default()
    for module in set(MODULE_OF.values()):
        file = getattr(proto, module).DESCRIPTOR
        assert file.name == f"graphmill/proto/{module.removesuffix('_pb2')}.proto"
        assert file.package.partition(".")[0] == "graphmill"
        assert pool.FindFileByName(file.name) is file


DIMENSIONS = st.lists(
    st.tuples(st.integers(-1, 2**63 - 1), st.text(max_size=5)).map(
        lambda pair: proto.TensorShapeProto.Dim(size=pair[0], name=pair[1])
    ),
    max_size=6,
)
SHAPES = st.one_of(
    st.builds(proto.TensorShapeProto, dim=DIMENSIONS),
    st.builds(proto.TensorShapeProto, unknown_rank=st.just(True)),
)
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(width=32, allow_nan=False)
TYPES = st.sampled_from(proto.DataType.values())
PLAIN_ATTRS = st.one_of(
    st.builds(proto.AttrValue, s=st.binary(max_size=20)),
    st.builds(proto.AttrValue, i=INT64),
    st.builds(proto.AttrValue, f=FLOAT),
    st.builds(proto.AttrValue, b=st.booleans()),
    st.builds(proto.AttrValue, type=TYPES),
    st.builds(proto.AttrValue, shape=SHAPES),
    st.builds(proto.AttrValue, placeholder=st.text(max_size=10)),
    st.builds(
        lambda **lists: proto.AttrValue(list=proto.AttrValue.ListValue(**lists)),
        s=st.lists(st.binary(max_size=5), max_size=3),
        i=st.lists(INT64, max_size=3),
        f=st.lists(FLOAT, max_size=3),
        b=st.lists(st.booleans(), max_size=3),
        type=st.lists(TYPES, max_size=3),
        shape=st.lists(SHAPES, max_size=2),
    ),
)
ATTRS = st.recursive(
    PLAIN_ATTRS,
    lambda attrs: st.builds(
        lambda name, attr: proto.AttrValue(func=proto.NameAttrList(name=name, attr=attr)),
        st.text(max_size=10),
        st.dictionaries(st.text(max_size=5), attrs, max_size=3),
    ),
    max_leaves=5,
)


@given(SHAPES)
def test_shapes_round_trip(shape):
    assert proto.TensorShapeProto.FromString(shape.SerializeToString()) == shape


@given(ATTRS)
def test_attributes_round_trip(attr):
    again = proto.AttrValue.FromString(attr.SerializeToString())
    assert again == attr
    assert again.WhichOneof("value") == attr.WhichOneof("value")
