"""`TensorReceiver`: the receiving side of large tensor transfers."""

from __future__ import annotations

import itertools
import math
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InternalError, OpError, ResourceExhaustedError
from graphmill.spi.protos import proto
from graphmill_plugins.distributed.transfer.host_identity import host_identity
from graphmill_plugins.distributed.wire.tensor_messages import parse_message

if TYPE_CHECKING:
    from graphmill.spi import VariantRegistry
    from graphmill_plugins.distributed.transfer.settings import TransferSettings


@dataclass(frozen=True, slots=True)
class OfferedTensor:
    """A tensor offered by a sender.

    Attributes:
        transfer_id: identifies the transfer.
        dtype: its element type.
        shape: its shape.
        num_bytes: its size.
        shared_memory: the location of its memory, if it is shared.
    """

    transfer_id: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    num_bytes: int
    shared_memory: proto.SharedMemory | None


class TensorReceiver:
    """Announces the transfers that this task supports, and receives tensors.

    Args:
        settings: the settings of this task.
        variants: the codecs of variants.

    Threads: any may call anything.

    Attributes:
        variants: the codecs of variants.
    """

    def __init__(self, settings: TransferSettings, variants: VariantRegistry) -> None:
        self._settings = settings
        self.variants = variants
        self._mapped: set[int] = set()
        self._mapping_numbers = itertools.count()
        pieces = settings.piece_bytes if settings.pieces else 0
        identity = host_identity() if settings.shared_memory else b""
        self._options = _options(identity, pieces)
        self._options_without_sharing = _options(b"", pieces)

    @property
    def num_mapped(self) -> int:
        """The number of received tensors in other tasks' memory."""
        return len(self._mapped)

    def options(self, *, is_near: bool = True) -> bytes:
        """Return the options to append to a serialized RecvTensorRequest; may be empty.

        Args:
            is_near: whether memory may be shared with the sender.
        """
        is_full = self.num_mapped >= self._settings.max_mapped
        return self._options_without_sharing if is_full or not is_near else self._options

    def piece_request(self, transfer_id: int, offset: int) -> bytes:
        """Return a serialized RecvTensorRequest for a piece of a tensor."""
        transfer = proto.TensorTransferRequest(
            max_piece_bytes=self._settings.piece_bytes, transfer_id=transfer_id, offset=offset
        )
        request = proto.RecvTensorRequest()
        request.transport_options.Pack(transfer)
        return request.SerializeToString()

    def offered(self, response: proto.RecvTensorResponse) -> OfferedTensor | None:
        """Return the tensor that a response offers; None if the response contains the tensor.

        Raises:
            InvalidArgumentError: the offer is malformed.
            InternalError: it contradicts itself.
            ResourceExhaustedError: the tensor is larger than this task accepts.
        """
        options = response.transport_options
        if not options.Is(proto.TensorTransferResponse.DESCRIPTOR):
            return None
        offer = parse_message(proto.TensorTransferResponse, options.value)
        dtype = _element_type(offer)
        shape = tuple(dim.size for dim in offer.tensor_shape.dim)
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != offer.num_bytes:
            raise InternalError(
                f"a tensor of {dtype} with shape {list(shape)} was offered with "
                f"{offer.num_bytes} bytes"
            )
        if offer.num_bytes > self._settings.max_tensor_bytes:
            raise ResourceExhaustedError(
                f"a tensor of {offer.num_bytes} bytes was offered; this task accepts at most "
                f"{self._settings.max_tensor_bytes} (transfer_max_tensor_bytes)"
            )
        memory = offer.shared_memory if offer.HasField("shared_memory") else None
        return OfferedTensor(offer.transfer_id, dtype, shape, offer.num_bytes, memory)

    def map(self, offer: OfferedTensor) -> np.ndarray[Any, Any]:
        """Return a read-only tensor in the sender's memory, which is released with the tensor.

        Raises:
            OSError: the memory cannot be opened here.
            AbortedError: the sender has withdrawn the tensor.
        """
        memory = offer.shared_memory
        if memory is None or not host_identity():
            raise OSError("the memory of the sender is not shared with this process")
        # It needs Linux, which `host_identity` has checked.
        from graphmill_plugins.distributed.transfer.shared_block import DATA, map_block

        mapping = map_block(memory.pid, memory.fd, memory.name, offer.transfer_id, offer.num_bytes)
        # The garbage collector may call the finalizer at any place, so it must need no lock.
        number = next(self._mapping_numbers)
        self._mapped.add(number)
        weakref.finalize(mapping, self._mapped.discard, number).atexit = False
        flat = np.frombuffer(mapping, np.uint8, offer.num_bytes, DATA)
        return flat.view(offer.dtype).reshape(offer.shape)


def _options(identity: bytes, piece_bytes: int) -> bytes:
    if not identity and not piece_bytes:
        return b""
    transfer = proto.TensorTransferRequest(shares_memory_with=identity, max_piece_bytes=piece_bytes)
    request = proto.RecvTensorRequest()
    request.transport_options.Pack(transfer)
    return request.SerializeToString()


def _element_type(offer: proto.TensorTransferResponse) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(as_dtype(offer.dtype).as_numpy_dtype)
    except (OpError, TypeError) as error:
        raise InternalError(f"a tensor of unknown type {offer.dtype} was offered") from error
    if dtype.hasobject or not dtype.itemsize:
        raise InternalError(f"a tensor of {dtype} was offered; expected numbers")
    return dtype
