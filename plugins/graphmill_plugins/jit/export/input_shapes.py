"""The static shape of an input, chosen by the user or its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi.compilers import ExportInput


def input_shape(port: ExportInput, chosen: Sequence[int] | None) -> tuple[int, ...]:
    """Return a static shape of an input.

    Args:
        port: the input.
        chosen: the shape to use; None for its own.

    Raises:
        InvalidArgumentError: its own shape is not static, or the chosen one does not fit it.
    """
    if chosen is None:
        if port.shape is None or min(port.shape, default=0) < 0:
            error = InvalidArgumentError(
                f"an exported program has static shapes, but input {port.name!r} has an unknown "
                "size"
            )
            example = (1, 8) if port.shape is None else tuple(abs(size) for size in port.shape)
            sizes = ",".join(map(str, example))
            error.add_note(
                f"try: shapes={{{port.name!r}: {example}}}, or --shape {port.name}={sizes}"
            )
            raise error
        return tuple(port.shape)
    shape = tuple(chosen)
    fits = port.shape is None or (
        len(shape) == len(port.shape)
        and all(size in (-1, own) for own, size in zip(shape, port.shape, strict=True))
    )
    if not fits or min(shape, default=0) < 0:
        raise InvalidArgumentError(
            f"shape {list(shape)} does not fit input {port.name!r} of shape "
            f"{'any' if port.shape is None else list(port.shape)}"
        )
    return shape
