"""Frames survive any division of the stream; malformed ones are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("grpc")

import grpc

from graphmill import errors
from graphmill_plugins._server.status import error_from_rpc
from graphmill_plugins.distributed.local_socket import frames
from graphmill_plugins.distributed.local_socket.frames import CallFailure, Frame, FrameReader

FRAMES = st.builds(
    Frame,
    st.sampled_from([frames.REQUEST, frames.RESPONSE, frames.FAILURE, frames.CANCEL]),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=300),
)


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(1, 60), min_size=1, max_size=20))
def test_frames_do_not_depend_on_how_the_stream_is_divided(sent, sizes):
    stream = b"".join(frames.frame(*one) for one in sent)
    reader, received, start = FrameReader(), [], 0
    for number in range(len(stream)):
        if start >= len(stream):
            break
        size = sizes[number % len(sizes)]
        received += reader.feed(stream[start : start + size])
        start += size
    assert received == sent


@given(st.lists(FRAMES, max_size=8))
def test_a_whole_stream_is_read_at_once(sent):
    assert FrameReader().feed(b"".join(frames.frame(*one) for one in sent)) == sent


@given(st.binary(min_size=13, max_size=64))
def test_any_bytes_are_frames_or_refused(data):
    try:
        received = FrameReader().feed(data)
    except errors.InvalidArgumentError:
        return
    assert all(frames.REQUEST <= one.kind <= frames.CANCEL for one in received)


@given(st.binary(min_size=1, max_size=255), st.binary(max_size=50))
def test_requests_round_trip(path, data):
    (received,) = FrameReader().feed(frames.request(7, path, data))
    assert (received.kind, received.call_id) == (frames.REQUEST, 7)
    assert frames.read_request(received.content) == (path, data)


@given(st.binary(max_size=5))
def test_any_content_of_a_request_is_read(content):
    frames.read_request(content)


@given(st.integers(1, 16), st.text(max_size=50), st.booleans())
def test_failures_become_typed_errors(code, text, is_derived):
    (received,) = FrameReader().feed(frames.failure(3, CallFailure(code, text, is_derived)))
    status = frames.read_failure(received.content)
    assert (status.number, status.is_derived) == (code, is_derived)
    error = error_from_rpc(status, "RunGraph of a task")
    assert (error.code, error.is_derived) == (code, is_derived)
    assert error.message.endswith("(RunGraph of a task)")


def test_a_failure_without_status_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match="expected at least 2"):
        frames.read_failure(b"\1")


def test_an_unknown_code_is_unknown():
    assert CallFailure(200, "").code() is grpc.StatusCode.UNKNOWN
