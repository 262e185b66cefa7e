"""`TensorSender`: the sending side of large tensor transfers."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import AbortedError, InvalidArgumentError
from graphmill.spi.protos import proto
from graphmill_plugins.distributed.transfer.counters import MESSAGE, PIECES, SHARED_MEMORY
from graphmill_plugins.distributed.transfer.host_identity import host_identity
from graphmill_plugins.distributed.transfer.piece_offers import PieceOffers
from graphmill_plugins.distributed.transfer.settings import MIN_PIECE
from graphmill_plugins.distributed.wire.tensor_messages import (
    RECV_TENSOR_RESPONSE,
    NamedTensor,
    parse_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value, VariantRegistry
    from graphmill_plugins.distributed.transfer.block_pool import BlockPool
    from graphmill_plugins.distributed.transfer.counters import TransferCounters
    from graphmill_plugins.distributed.transfer.settings import TransferSettings

_DEAD: Final = np.zeros((0,), np.float32)  # the value in the message of a dead tensor


class TensorSender:
    """Responds to RecvTensor with the tensor or its location.

    Args:
        settings: the settings of this task.
        variants: the codecs of variants.
        counters: count transfers.
        has_ended: returns whether a step has ended on this worker.

    Threads: any may call anything.

    Attributes:
        pool: the shared memory; None if there is none.
        offers: the tensors that receivers fetch in pieces.
    """

    def __init__(
        self,
        settings: TransferSettings,
        variants: VariantRegistry,
        counters: TransferCounters,
        has_ended: Callable[[int], bool],
    ) -> None:
        self._settings = settings
        self._variants = variants
        self._counters = counters
        self._has_ended = has_ended
        self.pool = _new_pool(settings)
        self.offers = PieceOffers()
        self._identity = host_identity()

    def answer(self, request: proto.RecvTensorRequest, value: Value, is_dead: bool) -> bytes:
        """Return the response with a tensor, or with its location.

        Raises:
            InvalidArgumentError: it is too large for a message, and the receiver does not support
                pieces.
            AbortedError: the step has ended meanwhile.
        """
        if is_dead:
            response = proto.RecvTensorResponse(is_dead=True)
            return RECV_TENSOR_RESPONSE.encode(response, [NamedTensor("", _DEAD)], self._variants)
        array = self._large(value)
        transfer = transfer_request(request) if array is not None else None
        if array is not None and transfer is not None:
            offer = self._offered(request.step_id, transfer, array)
            if offer is not None:
                return offer
        self._counters.sent(MESSAGE, int(getattr(value, "nbytes", 0)))
        tensor = NamedTensor("", value)
        return RECV_TENSOR_RESPONSE.encode(proto.RecvTensorResponse(), [tensor], self._variants)

    def piece(self, transfer: proto.TensorTransferRequest) -> bytes:
        """Return the response with a piece of a tensor that was offered.

        Raises:
            AbortedError: it is no longer offered.
            InvalidArgumentError: the piece begins outside of the tensor.
        """
        limit = min(max(transfer.max_piece_bytes, MIN_PIECE), self._settings.piece_bytes)
        piece = self.offers.take(transfer.transfer_id, transfer.offset, limit)
        if piece is None:
            piece = self._from_block(transfer)
        return self._with_piece(proto.RecvTensorResponse(), piece)

    def end_step(self, step_id: int) -> None:
        """Withdraw the untaken tensors of a step."""
        self.offers.end_step(step_id)
        if self.pool is not None:
            self.pool.end_step(step_id)

    def close(self) -> None:
        """Release everything."""
        self.offers.close()
        if self.pool is not None:
            self.pool.close()

    def _large(self, value: Value) -> np.ndarray[Any, Any] | None:
        """Return a value as an array if it is large and numeric."""
        threshold = min(self._settings.shared_memory_min_bytes, self._settings.pieces_min_bytes)
        if not isinstance(value, np.ndarray) or value.nbytes < threshold or value.dtype.hasobject:
            return None
        return value

    def _offered(
        self, step_id: int, transfer: proto.TensorTransferRequest, array: np.ndarray[Any, Any]
    ) -> bytes | None:
        transfer_id = secrets.randbits(63) | 1
        offer = self._in_shared_memory(step_id, transfer_id, transfer, array)
        if offer is None:
            offer = self._in_pieces(step_id, transfer_id, transfer, array)
        if offer is not None and self._has_ended(step_id):  # its end has not met the offer
            self.end_step(step_id)
            raise AbortedError(f"step {step_id} has ended on this worker")
        return offer

    def _in_shared_memory(
        self,
        step_id: int,
        transfer_id: int,
        transfer: proto.TensorTransferRequest,
        array: np.ndarray[Any, Any],
    ) -> bytes | None:
        is_near = transfer.shares_memory_with == self._identity
        is_small = array.nbytes < self._settings.shared_memory_min_bytes
        if self.pool is None or not is_near or is_small:
            return None
        block = self.pool.put(array, step_id, transfer_id)
        if block is None:
            self._counters.fell_back()
            return None
        offer = _offer(transfer_id, array)
        offer.shared_memory.pid = os.getpid()
        offer.shared_memory.fd = block.fd
        offer.shared_memory.name = block.name
        response = proto.RecvTensorResponse()
        response.transport_options.Pack(offer)
        self._counters.sent(SHARED_MEMORY, array.nbytes)
        return response.SerializeToString()

    def _in_pieces(
        self,
        step_id: int,
        transfer_id: int,
        transfer: proto.TensorTransferRequest,
        array: np.ndarray[Any, Any],
    ) -> bytes | None:
        piece_limit = min(transfer.max_piece_bytes, self._settings.piece_bytes)
        threshold = max(piece_limit, self._settings.pieces_min_bytes)
        if not self._settings.pieces or piece_limit < MIN_PIECE or array.nbytes <= threshold:
            return None
        self.offers.put(array, step_id, transfer_id)
        response = proto.RecvTensorResponse()
        response.transport_options.Pack(_offer(transfer_id, array))
        piece = self.offers.take(transfer_id, 0, piece_limit)
        self._counters.sent(PIECES, array.nbytes)
        return self._with_piece(response, piece)

    def _from_block(self, transfer: proto.TensorTransferRequest) -> memoryview:
        """Return a piece of a tensor in shared memory that its receiver could not map."""
        block = None if self.pool is None else self.pool.find(transfer.transfer_id)
        if block is None or self.pool is None:
            raise AbortedError(
                f"transfer {transfer.transfer_id} is unknown on this worker: its step has ended, "
                "or this worker was restarted"
            )
        if not 0 <= transfer.offset < block.num_bytes:
            raise InvalidArgumentError(
                f"a piece begins at byte {transfer.offset}; expected 0 to {block.num_bytes - 1}"
            )
        limit = min(max(transfer.max_piece_bytes, MIN_PIECE), self._settings.piece_bytes)
        return block.view(transfer.offset, min(transfer.offset + limit, block.num_bytes))

    def _with_piece(self, response: proto.RecvTensorResponse, piece: memoryview | None) -> bytes:
        data = np.frombuffer(b"" if piece is None else piece, np.uint8)
        return RECV_TENSOR_RESPONSE.encode(response, [NamedTensor("", data)], self._variants)


def transfer_request(request: proto.RecvTensorRequest) -> proto.TensorTransferRequest | None:
    """Return the transfers that a graphmill receiver supports; None for another receiver.

    Raises:
        InvalidArgumentError: the message is malformed.
    """
    options = request.transport_options
    if not options.Is(proto.TensorTransferRequest.DESCRIPTOR):
        return None
    return parse_message(proto.TensorTransferRequest, options.value)


def _offer(transfer_id: int, array: np.ndarray[Any, Any]) -> proto.TensorTransferResponse:
    offer = proto.TensorTransferResponse(
        transfer_id=transfer_id,
        dtype=as_dtype(array.dtype).enum,  # type: ignore[arg-type]
        num_bytes=array.nbytes,
    )
    for size in array.shape:
        offer.tensor_shape.dim.add(size=size)
    return offer


def _new_pool(settings: TransferSettings) -> BlockPool | None:
    if not settings.shared_memory or not host_identity():
        return None
    # It needs Linux, which `host_identity` has checked.
    from graphmill_plugins.distributed.transfer.block_pool import BlockPool

    return BlockPool(settings.shared_memory_max_bytes)
