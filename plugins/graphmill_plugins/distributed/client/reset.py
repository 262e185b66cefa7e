"""Reset: close all sessions of a master and clear resource containers on its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.spi.protos import proto

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .channel import MasterChannel

_DEFAULT_SECONDS: Final = 60.0


def reset(channel: MasterChannel, containers: Iterable[str], config: proto.ConfigProto) -> None:
    """Reset a master.

    Args:
        channel: to the master.
        containers: names of resource containers; none for the default one.
        config: its `device_filters` select workers.

    Raises:
        OpError: the master cannot be reached, or refuses.
    """
    request = proto.ResetRequest(container=containers, device_filters=config.device_filters)
    timeout = config.operation_timeout_in_ms / 1000 or _DEFAULT_SECONDS
    channel.call("Reset", request.SerializeToString(), timeout)
