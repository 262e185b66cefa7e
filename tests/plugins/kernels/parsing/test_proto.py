"""Messages with descriptors in files, damaged messages, and round trips."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

import graphmill
from graphmill import errors
from graphmill.proto import VersionDef

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FLOATS = np.array([1.5, -2.0, 1e300])


def strings(*items: bytes) -> Any:
    return np.array(items, object)


def descriptor_set(*dependencies: str) -> bytes:
    """Return the descriptor of a message with fields x, y and z."""
    made = FileDescriptorSet()
    file = made.file.add(name="p.proto", package="p", dependency=dependencies)
    message = file.message_type.add(name="Point")
    for number, name in enumerate("xyz", 1):
        message.field.add(
            name=name,
            number=number,
            type=FieldDescriptorProto.TYPE_FLOAT,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
    return made.SerializeToString()


def round_trip(call: Callable[..., Any], source: str) -> Any:
    described = {"message_type": "p.Point", "field_names": ["x", "z"], "descriptor_source": source}
    values = [FLOATS.reshape(3, 1), FLOATS[::-1].reshape(3, 1)]
    encoded = call("EncodeProto", np.ones((3, 2), np.int32), values, **described)
    types = [np.float64, np.float32]
    sizes, x, z = call("DecodeProtoV2", encoded, **described, output_types=types)
    assert sizes.tolist() == [[1, 1]] * 3
    return x, z


def test_descriptors_come_from_a_file(call: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "descriptors.pb"
    file.write_bytes(descriptor_set())
    x, z = round_trip(call, str(file))
    assert x.ravel().tolist() == [1.5, -2, np.inf]  # as large as a float32 can be
    assert z.ravel().tolist() == [np.inf, -2, 1.5]


@pytest.mark.parametrize("content", [b"no descriptors", descriptor_set("missing.proto")])
def test_a_file_without_valid_descriptors_is_refused(
    call: Callable[..., Any], tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "descriptors.pb"
    file.write_bytes(content)
    with pytest.raises(errors.InvalidArgumentError, match="descriptor_source has"):
        round_trip(call, str(file))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\x0b" * 200, "nested more than 100 deep"),
        (b"\x0b\x08\x01\x14", "ends with the tag of group 2"),
        (b"\x1a\x7f", "bytes too short"),
        (b"\x1d\x00", "bytes too short"),
        (b"\x0e", "invalid tag"),
    ],
)
def test_a_damaged_message_is_refused(
    call: Callable[..., Any], message: bytes, reason: str
) -> None:
    with pytest.raises(errors.DataLossError, match=reason):
        call(
            "DecodeProtoV2",
            strings(message),
            message_type="tensorflow.VersionDef",
            field_names=["producer"],
            output_types=[np.int32],
        )


@pytest.mark.parametrize("package", ["tensorflow", "graphmill"])
def test_our_messages_have_the_names_of_both_packages(
    call: Callable[..., Any], package: str
) -> None:
    message = VersionDef(producer=7, bad_consumers=[1, 2])
    _, producer, bad = call(
        "DecodeProtoV2",
        strings(message.SerializeToString()),
        message_type=f"{package}.VersionDef",
        field_names=["producer", "bad_consumers"],
        output_types=[np.int64, np.int32],
    )
    assert (producer.tolist(), bad.tolist()) == ([[7]], [[1, 2]])


@pytest.mark.parametrize(
    ("count", "fields"),
    [(200_000, 50), (1, 10_000_000)],
    ids=["many messages", "one of many fields"],
)
def test_decoding_ends_with_its_step(count: int, fields: int) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        messages = graph.placeholder("string", [None])
        decoded = graphmill.ops.parsing.decode_proto_v2(
            messages,
            message_type="tensorflow.VersionDef",
            field_names=["bad_consumers"],
            output_types=["int32"],
        )
    content = strings(*[b"\x18\x01" * fields] * count)
    started = time.process_time()
    with (
        graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session,
        pytest.raises(errors.DeadlineExceededError),
    ):
        session.run(decoded[0], {messages: content}, options={"timeout_in_ms": 300})
    assert time.process_time() - started < 4
