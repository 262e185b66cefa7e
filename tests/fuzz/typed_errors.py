"""The errors that an input of a fuzz target may end with."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import graphmill
from graphmill import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNTIME = Path(graphmill.__file__).parent


@contextmanager
def typed_errors(*others: type[Exception]) -> Iterator[None]:
    """Accept each `OpError` that is not the report of a fault in graphmill.

    Args:
        others: further errors to accept.
    """
    try:
        yield
    except errors.InternalError as error:
        if _is_fault(error):
            raise
    except (errors.OpError, *others):
        pass


def _is_fault(error: errors.InternalError) -> bool:
    """Return whether the runtime raised it for a kernel's exception or wrong result.

    Some kernels raise an `InternalError` for invalid arguments, as TensorFlow's do.
    """
    places = traceback.extract_tb(error.__traceback__)
    return error.__cause__ is not None or _RUNTIME in Path(places[-1].filename).parents
