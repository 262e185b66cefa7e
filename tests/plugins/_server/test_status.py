"""Errors keep their class, node and message on the wire, and fit into a gRPC status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill import errors
from graphmill_plugins._server.status import (
    MAX_MESSAGE_BYTES,
    error_from_code,
    error_from_receive,
    error_from_rpc,
    error_message,
    grpc_status,
    metadata_of,
    worker_error_message,
)

if TYPE_CHECKING:
    import grpc


class Failure:
    def __init__(
        self,
        code: grpc.StatusCode | None,
        details: str | None,
        metadata: tuple[tuple[str, str | bytes], ...] = (),
    ) -> None:
        self._code = code
        self._details = details
        self._metadata = metadata

    def code(self) -> grpc.StatusCode | None:
        return self._code

    def details(self) -> str | None:
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return self._metadata


@pytest.mark.parametrize("code", range(1, 17))
def test_every_code_survives_both_ways(code: int) -> None:
    error = errors.error_class(code)("it failed", node="scope/y")
    status, text = grpc_status(error)
    assert status.value[0] == code
    assert text == "it failed\n\t [[{{node scope/y}}]]"
    again = error_from_code(code, text)
    assert type(again) is type(error)
    assert (again.message, again.node) == ("it failed", "scope/y")
    from_rpc = error_from_rpc(Failure(status, text), "RunStep of localhost:1")
    assert type(from_rpc) is type(error)
    assert from_rpc.message == "it failed (RunStep of localhost:1)"
    assert from_rpc.node == "scope/y"


def test_location_precedes_the_node() -> None:
    error = errors.InternalError("bad", node="y", op_type="MatMul", device="/cpu:0", plugin="mine")
    assert error_message(error) == (
        "bad (op MatMul, device /cpu:0, plugin mine)\n\t [[{{node y}}]]"
    )


@pytest.mark.parametrize("letter", ["x", "\N{SNOWMAN}", "\udc80"])
def test_long_messages_are_cut_and_keep_their_end(letter: str) -> None:
    error = errors.InvalidArgumentError(letter * 200_000 + " at last", node="scope/y")
    text = error_message(error)
    assert len(text.encode()) <= MAX_MESSAGE_BYTES
    assert text.endswith(" at last\n\t [[{{node scope/y}}]]")
    assert "bytes in all" in text
    assert error_from_code(3, text).node == "scope/y"


def test_a_long_node_name_does_not_exceed_the_limit() -> None:
    error = errors.InternalError("short", node="n" * 10_000)
    assert len(error_message(error).encode()) <= MAX_MESSAGE_BYTES


def test_short_messages_are_unchanged() -> None:
    assert error_message(errors.NotFoundError("no such file: \N{SNOWMAN}")) == (
        "no such file: \N{SNOWMAN}"
    )


def test_derived_errors_are_marked_for_masters_only() -> None:
    error = errors.CancelledError("another task failed")
    error.is_derived = True
    assert error_message(error) == "another task failed"
    text = worker_error_message(error)
    assert text == "[_Derived_]another task failed"
    again = error_from_code(1, text)
    assert again.is_derived
    assert again.message == "another task failed"
    assert not error_from_code(1, "another task failed").is_derived


@pytest.mark.parametrize("is_derived", [False, True])
@pytest.mark.parametrize("read", [error_from_rpc, error_from_receive])
def test_status_marks_derived_errors(read: Any, is_derived: bool) -> None:
    error = errors.OutOfRangeError("all is read")
    error.is_derived = is_derived
    status, text = grpc_status(error)
    again = read(Failure(status, text, metadata_of(error)), "RecvTensor")
    assert (type(again), again.is_derived) == (errors.OutOfRangeError, is_derived)


def test_a_derived_status_has_tensorflows_payload() -> None:
    error = errors.OutOfRangeError("all is read")
    error.is_derived = True
    found = dict(metadata_of(error))["grpc-status-details-bin"]
    # The fields of tensorflow.distributed_runtime.GrpcPayloadContainer, as its servers send them.
    payload = b"type.googleapis.com/tensorflow.DerivedStatus"
    assert found == b"\n\x30\n\x2c" + payload + b"\x12\x00"


def test_receives_that_fail_at_tensorflows_worker_follow_from_its_step() -> None:
    for kind, is_derived in (
        (errors.InvalidArgumentError, True),
        (errors.AbortedError, False),
        (errors.UnavailableError, False),
    ):
        status, text = grpc_status(kind("no number"))
        assert error_from_receive(Failure(status, text), "RecvTensor").is_derived is is_derived
        assert not error_from_rpc(Failure(status, text), "RunGraph").is_derived


def test_tensorflow_worker_error_from_peer_is_derived() -> None:
    text = (
        "no number\nAdditional GRPC error information from remote target "
        "/job:worker/replica:0/task:0 while calling /tensorflow.WorkerService/RecvTensor:\n"
        ":UNKNOWN:Error received from peer\n\t [[{{node a/_recv_G4}}]]"
    )
    assert error_from_code(3, text).is_derived
    assert not error_from_code(3, "no number").is_derived


def test_an_unknown_code_is_an_unknown_error() -> None:
    assert type(error_from_code(77, "what")) is errors.UnknownError


def test_tensorflow_messages_name_the_node() -> None:
    error = error_from_code(3, "Incompatible shapes: [2] vs. [3]\n\t [[{{node add}}]]")
    assert (error.node, error.message) == ("add", "Incompatible shapes: [2] vs. [3]")


def test_a_call_without_status_is_an_unknown_error() -> None:
    error = error_from_rpc(Failure(None, None), "RunStep of localhost:1")
    assert type(error) is errors.UnknownError
    assert error.message == "the call failed (RunStep of localhost:1)"
