"""String handles of iterators: resource handles as serialized messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.spi.protos import ResourceHandleProto
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.dataset.pipeline.dataset import scalar

if TYPE_CHECKING:
    from graphmill.spi import Value


def handle_text(handle: Any) -> Value:
    """Return a resource handle as a string tensor."""
    message = ResourceHandleProto(
        device=handle.device,
        container=handle.container,
        name=handle.name,
        maybe_type_name=handle.type_name,
    )
    return string_scalar(message.SerializeToString())


def named_handle(string_handle: Value) -> ResourceHandleProto:
    """Parse a string handle into a resource handle.

    Raises:
        InvalidArgumentError: it is not a scalar, or not a serialized handle.
    """
    from google.protobuf.message import DecodeError

    try:
        message = ResourceHandleProto.FromString(scalar(string_handle, "string_handle"))
    except DecodeError as error:
        raise InvalidArgumentError(
            "Could not parse string_handle as a valid ResourceHandle"
        ) from error
    return message
