"""Convert exceptions that a plugin raises during lowering to errors that name the plugin."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphmill.errors import InternalError, OpError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.registry import Provenance


class PluginFaultError(InternalError):
    """The code of a plugin raised an exception other than `OpError`; names the plugin."""


@contextmanager
def faults_of(owner: Provenance, what: str) -> Iterator[None]:
    """Convert exceptions in the `with` block to errors that name a plugin.

    Args:
        owner: the plugin whose code runs in the block.
        what: description of the code for the message: "the executor 'REPLAY'".

    Raises:
        OpError: the code raised it; the plugin's name is added.
        PluginFaultError: the code raised another exception.
    """
    try:
        yield
    except OpError as error:
        error.locate(plugin=owner.error_plugin)
        raise
    except Exception as error:
        raise PluginFaultError(
            f"{what} of {owner} failed: {type(error).__name__}: {error}", plugin=owner.plugin
        ) from error
