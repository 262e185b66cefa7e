"""Convert exceptions of a plugin while a step is built to errors that name the plugin."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphmill.errors import InternalError, OpError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.registry import Provenance


class PluginFaultError(InternalError):
    """The code of a plugin raised what is not an error of a step; names the plugin."""


@contextmanager
def faults_of(owner: Provenance, what: str) -> Iterator[None]:
    """Run code of a plugin.

    Args:
        owner: whose code it is.
        what: what it does, for the message: "the executor 'REPLAY'".

    Raises:
        OpError: the code raised it; it names the plugin now.
        PluginFaultError: the code raised anything else.
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
