"""`TransferSettings`: the server settings for large tensors."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill.spi import plugin_settings

if TYPE_CHECKING:
    from graphmill.spi.protos import proto

PLUGIN: Final = "distributed"
EXPIRY_SECONDS: Final = 60.0
"""Seconds after which a tensor that its receiver has not taken is dropped."""
MIN_PIECE: Final = 64 << 10
"""The minimum size of a piece in bytes; smaller requests are rounded up to it."""

_PREFIX: Final = "transfer_"
_MAX_PIECE: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class TransferSettings:
    """The settings for transfers of large tensors between tasks.

    Attributes:
        shared_memory: whether tensors of tasks on one machine may be in shared memory.
        shared_memory_min_bytes: the minimum size of such tensors.
        shared_memory_max_bytes: the maximum amount of shared memory of this task.
        max_mapped: the maximum number of received tensors in other tasks' memory.
        pieces: whether large tensors are sent in pieces where memory is not shared.
        pieces_min_bytes: the minimum size of such tensors.
        piece_bytes: the size of a piece.
        max_tensor_bytes: the maximum size of such a tensor; a bound against faulty peers.
        local_socket: whether calls between tasks on one machine may go over a Unix domain socket
            instead of gRPC.
    """

    shared_memory: bool = True
    shared_memory_min_bytes: int = 256 << 10
    shared_memory_max_bytes: int = 1 << 30
    max_mapped: int = 256
    pieces: bool = True
    pieces_min_bytes: int = 32 << 20
    piece_bytes: int = 8 << 20
    max_tensor_bytes: int = 16 << 30
    local_socket: bool = True

    def __post_init__(self) -> None:
        for name in ("shared_memory_max_bytes", "max_mapped", "pieces_min_bytes"):
            _check_range(name, getattr(self, name), 0, 1 << 62)
        _check_range("shared_memory_min_bytes", self.shared_memory_min_bytes, 1, 1 << 62)
        _check_range("piece_bytes", self.piece_bytes, MIN_PIECE, _MAX_PIECE)
        _check_range("max_tensor_bytes", self.max_tensor_bytes, 1, 1 << 62)

    @classmethod
    def of(cls, config: proto.ConfigProto | None) -> TransferSettings:
        """Return the settings of a server's configuration: `transfer_NAME` of `distributed`.

        Raises:
            InvalidArgumentError: a setting is unknown, of a wrong kind, or out of range.
        """
        known = {field.name: type(field.default) for field in fields(cls)}
        values: dict[str, Any] = {}
        for key, value in plugin_settings(config, PLUGIN).items():
            if not key.startswith(_PREFIX):
                continue
            name = key.removeprefix(_PREFIX)
            if type(value) is not known.get(name):
                expected = ", ".join(f"{_PREFIX}{n} ({k.__name__})" for n, k in known.items())
                raise InvalidArgumentError(
                    f"{key} = {value!r} is not a setting of {PLUGIN}; expected one of {expected}"
                )
            values[name] = value
        return cls(**values)


def _check_range(name: str, value: int, minimum: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        raise InvalidArgumentError(
            f"{_PREFIX}{name} of plugin {PLUGIN} is {value}; expected {minimum} to {maximum}"
        )
