"""Check the results of functions whose types are known only when they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import dtype_of_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from graphmill.spi import Value


def check_results(name: str, results: Sequence[Value], expected: Sequence[np.dtype[Any]]) -> None:
    """Check that a function has returned the outputs that a node declares.

    Args:
        name: the name of the function.
        results: what it has returned.
        expected: the element types of the node's outputs.

    Raises:
        InvalidArgumentError: their number or types differ.
    """
    actual = [dtype_of_value(value) for value in results]
    if actual != list(expected):
        raise InvalidArgumentError(
            f"the function {name!r} returns {_text(actual)}, expected {_text(expected)}"
        )


def _text(types: Sequence[np.dtype[Any]]) -> str:
    return f"({', '.join(dtypes.as_dtype(one).name for one in types)})"
