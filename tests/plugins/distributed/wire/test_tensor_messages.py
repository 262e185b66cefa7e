"""The fast parser of tensor messages agrees with protobuf."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors, proto
from graphmill.ops.tensor_proto import numpy_to_tensor_proto, tensor_proto_to_numpy
from graphmill.spi import VariantRegistry
from graphmill_plugins.distributed.wire import tensor_messages
from graphmill_plugins.distributed.wire.tensor_messages import NamedTensor, TensorMessage

VARIANTS = VariantRegistry("variant")

pytestmark = pytest.mark.divided

KINDS = [kind for kind in vars(tensor_messages).values() if isinstance(kind, TensorMessage)]
UNKNOWN = b"\xc2\x3e\x03new"  # field 1000, bytes
GROUP = b"\xc3\x3e\x08\x01\xc4\x3e"  # field 1000, a group
TYPED = (errors.InvalidArgumentError, errors.UnimplementedError, errors.ResourceExhaustedError)
SMALL = 16
"""A content from this size on is large, in these tests."""


def name_of(kind: TensorMessage) -> str:
    return kind.message_class.DESCRIPTOR.name


def entries(kind: TensorMessage, message) -> list:
    field = kind.message_class.DESCRIPTOR.fields_by_number[kind.field.number].name
    if kind.field.is_repeated:
        return list(getattr(message, field))
    return [getattr(message, field)] if message.HasField(field) else []


def reference(kind: TensorMessage, data: bytes) -> list[tuple[str, np.ndarray]]:
    """Read the tensors of a message with protobuf alone."""
    found = entries(kind, kind.message_class.FromString(data))
    if kind.field.is_named:
        return [(entry.name, tensor_proto_to_numpy(entry.tensor)) for entry in found]
    return [("", tensor_proto_to_numpy(entry)) for entry in found]


def same(found: list[NamedTensor], expected: list[tuple[str, np.ndarray]]) -> bool:
    return len(found) == len(expected) and all(
        one.name == name
        and np.asarray(one.value).dtype == value.dtype
        and np.asarray(one.value).tolist() == value.tolist()
        and np.shape(one.value) == value.shape
        for one, (name, value) in zip(found, expected, strict=True)
    )


def other_fields(kind: TensorMessage, message) -> bytes:
    """Return the fields of a message other than its tensors, unknown ones included."""
    message.ClearField(kind.message_class.DESCRIPTOR.fields_by_number[kind.field.number].name)
    return message.SerializeToString()


def outcome(kind: TensorMessage, data: bytes, large: int) -> list[NamedTensor] | errors.OpError:
    """Return the tensors of a message, or the parse error."""
    try:
        return kind.decode(data, VARIANTS, large)[1]
    except TYPED as error:
        return error


ARRAYS = st.one_of(
    st.builds(
        lambda dtype, shape: np.arange(int(np.prod(shape))).astype(dtype).reshape(shape),
        st.sampled_from(["float32", "int64", "bool", "complex64", "uint8", "float16"]),
        st.lists(st.integers(0, 4), max_size=3),
    ),
    st.lists(st.binary(max_size=12), max_size=4).map(lambda items: np.array(items, object)),
)
TENSOR_BYTES = st.one_of(
    ARRAYS.map(lambda array: numpy_to_tensor_proto(array).SerializeToString()),
    # Twice the same field, fields that nobody knows, values one by one, no shape.
    ARRAYS.map(lambda array: numpy_to_tensor_proto(array).SerializeToString() * 2),
    ARRAYS.map(lambda array: UNKNOWN + numpy_to_tensor_proto(array).SerializeToString() + GROUP),
    st.just(proto.TensorProto(dtype=3, int_val=range(9)).SerializeToString()),
    st.just(proto.TensorProto(dtype=1).SerializeToString()),
)


def field(number: int, data: bytes) -> bytes:
    """Return a field of up to 16383 bytes."""
    size = bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7])
    return bytes([number << 3 | 2]) + size + data


@st.composite
def messages(draw) -> tuple[TensorMessage, bytes]:
    """Return a kind of message and the bytes of one, with tensors among other fields."""
    kind = draw(st.sampled_from(KINDS))
    parts = draw(st.lists(st.sampled_from([b"", UNKNOWN, GROUP]), max_size=2))
    for tensor in draw(st.lists(TENSOR_BYTES, max_size=4)):
        entry = tensor
        if kind.field.is_named:
            name = field(1, draw(st.text("ab:0", max_size=5)).encode())
            again = field(2, tensor) if draw(st.booleans()) else b""
            entry = (
                draw(st.sampled_from([name + field(2, tensor), field(2, tensor) + name])) + again
            )
        parts.append(field(kind.field.number, entry))
    order = draw(st.permutations(parts))
    return kind, b"".join(order)


@given(messages())
def test_both_routes_read_the_same(made: tuple[TensorMessage, bytes]) -> None:
    kind, data = made
    try:
        expected = reference(kind, data)
    except errors.OpError as error:  # such as a shape that is given twice
        for large in (1, SMALL, 1 << 30):
            with pytest.raises(type(error)):
                kind.decode(data, VARIANTS, large)
        return
    for large in (1, SMALL, 1 << 30):
        message, found = kind.decode(data, VARIANTS, large)
        assert same(found, expected)
        assert other_fields(kind, message) == other_fields(
            kind, kind.message_class.FromString(data)
        )


@given(messages(), st.data())
def test_damaged_bytes_are_typed_errors(made: tuple[TensorMessage, bytes], data) -> None:
    kind, content = made
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    try:
        expected = reference(kind, bytes(damaged))
    except (DecodeError, errors.OpError):
        expected = None
    for large in (1, SMALL, 1 << 30):
        found = outcome(kind, bytes(damaged), large)
        assert expected is None or isinstance(found, TYPED) or len(found) == len(expected)


@given(st.binary(max_size=60), st.sampled_from(KINDS))
def test_any_bytes_are_a_message_or_a_typed_error(data: bytes, kind: TensorMessage) -> None:
    found = [outcome(kind, data, large) for large in (1, 1 << 30)]
    assert isinstance(found[0], list) == isinstance(found[1], list)


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
@pytest.mark.parametrize("shape", [(), (3,), (100, 200)], ids=str)
def test_protobuf_reads_written_bytes(kind: TensorMessage, shape: tuple[int, ...]) -> None:
    count = 3 if kind.field.is_repeated else 1
    values = [np.full(shape, i, np.float32) for i in range(count)]
    names = [f"scope/t{i}:0" if kind.field.is_named else "" for i in range(count)]
    empty = kind.message_class()
    data = kind.encode(
        empty, [NamedTensor(*pair) for pair in zip(names, values, strict=True)], VARIANTS
    )
    assert same(
        [NamedTensor(*pair) for pair in zip(names, values, strict=True)], reference(kind, data)
    )
    assert same(kind.decode(data, VARIANTS)[1], reference(kind, data))


def test_other_fields_are_written_too() -> None:
    kind = tensor_messages.RUN_STEP_REQUEST
    request = proto.RunStepRequest(session_handle="h", fetch=["y:0"], request_id=-5)
    request.options.timeout_in_ms = 7
    data = kind.encode(request, [NamedTensor("x:0", np.float32(2))], VARIANTS)
    again = proto.RunStepRequest.FromString(data)
    assert (again.session_handle, list(again.fetch), again.request_id) == ("h", ["y:0"], -5)
    assert again.options.timeout_in_ms == 7
    assert [feed.name for feed in again.feed] == ["x:0"]


def test_large_tensors_are_views_of_the_request() -> None:
    kind = tensor_messages.RUN_STEP_REQUEST
    large, small = np.arange(10_000.0), np.float32(2)
    data = kind.encode(
        proto.RunStepRequest(session_handle="h", fetch=["y:0"]),
        [NamedTensor("small:0", small), NamedTensor("large:0", large), NamedTensor("s:0", small)],
        VARIANTS,
    )
    message, found = kind.decode(data, VARIANTS)
    assert np.shares_memory(found[1].value, np.frombuffer(data, np.uint8))
    assert np.array_equal(found[1].value, large)
    assert [tensor.name for tensor in found] == ["small:0", "large:0", "s:0"]
    assert message.session_handle == "h"
    assert message.ByteSize() < 200


def test_name_that_is_not_a_string_is_refused() -> None:
    data = field(1, b"\xff")
    for large in (1, 1 << 30):
        with pytest.raises(errors.InvalidArgumentError, match="RunStepRequest"):
            tensor_messages.RUN_STEP_REQUEST.decode(data, VARIANTS, large)


def test_a_message_above_2_gib_is_refused() -> None:
    large = np.broadcast_to(np.uint8(1), (1 << 30,))  # takes no memory by itself
    with pytest.raises(errors.InvalidArgumentError, match="2 GiB"):
        tensor_messages.RECV_TENSOR_RESPONSE.encode(
            proto.RecvTensorResponse(),
            [NamedTensor("", np.broadcast_to(large, (3, 1 << 30)))],
            VARIANTS,
        )
