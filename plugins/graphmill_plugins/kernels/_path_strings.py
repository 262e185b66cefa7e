"""Convert string tensors to paths and names, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.spi import files

if TYPE_CHECKING:
    from graphmill.spi import Value


def texts(value: Value) -> list[str]:
    """Return the elements of a string tensor as text; any bytes survive a round trip."""
    items = np.asarray(value, object).ravel().tolist()
    return [item.decode("utf-8", "surrogateescape") for item in items]


def sole_text(value: Value, what: str) -> str:
    """Return the only element of a string tensor.

    Raises:
        InvalidArgumentError: it has none, or several.
    """
    strings = texts(value)
    if len(strings) != 1:
        raise errors.InvalidArgumentError(
            f"{what} should have a single element, got {len(strings)} instead"
        )
    return strings[0]


def scalar_path(value: Value, what: str) -> str:
    """Return the path in a string scalar.

    Raises:
        InvalidArgumentError: it is not a scalar, or not a valid path.
    """
    array = np.asarray(value, object)
    if array.ndim:
        raise errors.InvalidArgumentError(
            f"Input {what} tensor must be scalar, but had shape: {list(array.shape)}"
        )
    return files.as_path(array.item())


def path_scalar(path: str) -> Any:
    """Return a path as a scalar string tensor."""
    out = np.empty((), object)
    out[()] = path.encode("utf-8", "surrogateescape")
    return out
