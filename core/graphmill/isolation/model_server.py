"""`ModelServer`: loads one model, and runs its steps; it lives in the isolated process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from graphmill import proto
from graphmill.errors import InvalidArgumentError, ResourceExhaustedError
from graphmill.isolation import packets
from graphmill.isolation.packets import Packet
from graphmill.isolation.tensors import SharedArea, decode_tensors, encode_tensors

if TYPE_CHECKING:
    from graphmill.isolation.limits import IsolationLimits
    from graphmill.isolation.served_model import ServedModel


class ModelServer:
    """Answers the requests of the program.

    Args:
        area: file descriptor of the shared memory.
        limits: the limits of the process.
    """

    def __init__(self, area: int, limits: IsolationLimits) -> None:
        self._area = SharedArea(area, limits.transfer_bytes)
        self._model: ServedModel | None = None

    def answer(self, request: Packet) -> Packet:
        """Answer one request.

        Raises:
            OpError: it failed.
        """
        if request.kind == packets.LOAD:
            return self._load(json.loads(request.payload))
        if request.kind == packets.RUN:
            return self._run(proto.RunStepRequest.FromString(request.payload), request.regions)
        raise InvalidArgumentError(f"unknown request {request.kind}")

    def close(self) -> None:
        """Close the session, which flushes its summary writers."""
        if self._model is not None:
            self._model.close()

    def _load(self, arguments: dict[str, Any]) -> Packet:
        from graphmill.isolation.served_model import open_served_model

        config = proto.ConfigProto.FromString(bytes.fromhex(arguments["config"]))
        self._model = open_served_model(arguments["path"], arguments["tags"], config)
        return _packet(packets.MODEL, self._model.meta_graph)

    def _run(
        self, request: proto.RunStepRequest, regions: tuple[packets.MemoryRegion, ...]
    ) -> Packet:
        if self._model is None:
            raise InvalidArgumentError("no model is loaded")
        values = decode_tensors(request.feed, regions, self._area)
        feeds = {named.name: value for named, value in zip(request.feed, values, strict=True)}
        is_traced = request.options.trace_level != proto.RunOptions.NO_TRACE
        response = proto.RunStepResponse()
        fetched = self._model.session.run(
            list(request.fetch),
            feeds,
            options=request.options,
            run_metadata=response.metadata if is_traced else None,
            targets=list(request.target),
        )
        tensors, regions = encode_tensors(zip(request.fetch, fetched, strict=True), self._area)
        response.tensor.extend(tensors)
        return _packet(packets.RESULT, response, regions)


def _packet(kind: int, message: Any, regions: tuple[packets.MemoryRegion, ...] = ()) -> Packet:
    if message.ByteSize() > packets.MAX_REPLY_BYTES:
        raise ResourceExhaustedError(
            f"a reply of {message.ByteSize()} bytes is too large for an isolated model, whose "
            f"strings and small tensors may have at most {packets.MAX_REPLY_BYTES} bytes per step"
        )
    return Packet(kind, message.SerializeToString(), regions)
