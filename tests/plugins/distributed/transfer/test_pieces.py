"""Tensors in pieces: the sender's offers and the receiver's requests."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import errors, proto
from graphmill.spi import VariantRegistry
from graphmill_plugins.distributed.transfer.piece_fetch import WINDOW, PieceFetch
from graphmill_plugins.distributed.transfer.piece_offers import PieceOffers
from graphmill_plugins.distributed.transfer.settings import EXPIRY_SECONDS
from graphmill_plugins.distributed.transfer.tensor_receiver import OfferedTensor
from graphmill_plugins.distributed.wire.tensor_messages import RECV_TENSOR_RESPONSE, NamedTensor

A = np.arange(100, dtype=np.int32).reshape(4, 25)
BYTES = A.reshape(-1).view(np.uint8)
OFFER = OfferedTensor(11, A.dtype, A.shape, A.nbytes, None)


def response(piece):
    return RECV_TENSOR_RESPONSE.encode(
        proto.RecvTensorResponse(), [NamedTensor("", piece)], VariantRegistry("variant")
    )


class Sender:
    """A sender whose answers the test triggers."""

    def __init__(self):
        self.calls = {}
        self.withdrawn = []
        self.outcomes = []
        self.fetch = PieceFetch(OFFER, self.ask, lambda *outcome: self.outcomes.append(outcome))

    def ask(self, offset, done):
        self.calls[offset] = done
        return lambda: self.withdrawn.append(offset)

    def answer(self, offset, piece=None):
        piece = BYTES[offset : offset + 64] if piece is None else piece
        self.calls.pop(offset)(response(piece), None)


def test_chunks_are_requested_concurrently_and_reassembled():
    sender = Sender()
    sender.fetch.start(BYTES[:64])
    assert list(sender.calls) == [64, 128, 192]
    assert len(sender.calls) == WINDOW
    for offset in (192, 64, 128, 320, 256, 384):
        sender.answer(offset)
    assert not sender.calls
    ((array, error),) = sender.outcomes
    assert error is None
    assert (array.dtype, array.tolist()) == (A.dtype, A.tolist())


def test_missing_first_chunk_is_requested_alone():
    sender = Sender()
    sender.fetch.start(None)
    assert list(sender.calls) == [0]
    sender.answer(0)
    assert list(sender.calls) == [64, 128, 192]


def test_early_responses_do_not_stop_the_fetch():
    outcomes = []

    def ask(offset, done):
        done(response(BYTES[offset : offset + 64]), None)
        return lambda: None

    PieceFetch(OFFER, ask, lambda *outcome: outcomes.append(outcome)).start(BYTES[:64])
    np.testing.assert_array_equal(outcomes[0][0], A)
    assert len(outcomes) == 1


def test_the_first_error_withdraws_the_other_pieces():
    sender = Sender()
    sender.fetch.start(BYTES[:64])
    sender.calls[128](None, errors.AbortedError("gone"))
    sender.calls[64](None, errors.CancelledError("withdrawn"))
    sender.answer(192)
    assert {64, 192} <= set(sender.withdrawn)
    ((array, error),) = sender.outcomes
    assert array is None
    assert str(error) == "gone"
    assert set(sender.calls) == {64, 128}


def test_a_fetch_that_is_withdrawn_ends_as_cancelled_once():
    sender = Sender()
    sender.fetch.start(BYTES[:64])
    sender.fetch.cancel()
    sender.fetch.cancel()
    assert set(sender.withdrawn) == {64, 128, 192}
    assert [type(error) for _, error in sender.outcomes] == [errors.CancelledError]


@pytest.mark.parametrize("piece", [BYTES[:63], BYTES[:65], BYTES[:0], BYTES[:64].view(np.int32)])
def test_pieces_of_another_size_or_type_are_refused(piece):
    sender = Sender()
    sender.fetch.start(BYTES[:64])
    sender.answer(64, piece)
    ((_, error),) = sender.outcomes
    assert isinstance(error, errors.InternalError)
    assert "the piece at byte 64 of 400 has" in str(error)


def test_offers_are_dropped_with_their_last_byte():
    offers = PieceOffers()
    offers.put(A, 1, 11)
    found = {offset: bytes(offers.take(11, offset, 64)) for offset in (384, *range(0, 384, 64))}
    assert b"".join(found[offset] for offset in sorted(found)) == A.tobytes()
    assert len(offers) == 0
    assert offers.take(11, 0, 64) is None


def test_offers_end_with_their_step_or_after_a_while():
    now = [0.0]
    offers = PieceOffers(lambda: now[0])
    offers.put(A, 1, 11)
    offers.put(A, 2, 12)
    offers.end_step(1)
    assert offers.take(11, 0, 64) is None
    assert offers.take(12, A.nbytes, 64) is None
    now[0] = EXPIRY_SECONDS + 1
    offers.put(A, 3, 13)
    assert offers.take(12, 0, 64) is None
    assert len(offers) == 1
