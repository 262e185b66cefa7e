"""A server of SavedModels: TensorFlow Serving's APIs and the Open Inference Protocol.

uvicorn (the extra `graphmill[serve]`) and grpcio (`graphmill[grpc]`) are imported when a server
starts, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import Registrar


@hookimpl
def graphmill_register_commands(commands: Registrar[object]) -> None:
    """Register the command that serves models."""
    commands.add("serve-model", "graphmill_plugins.serving.serve_command:serve_model")
