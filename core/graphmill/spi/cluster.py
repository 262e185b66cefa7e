"""What makes sessions on servers, and servers: masters, workers, and their clients.

    from graphmill.spi.cluster import ServerFactory, SessionFactory

A plugin that brings another protocol than gRPC implements these, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.runtime.server_interface import ServerFactory as ServerFactory
    from graphmill.runtime.server_interface import ServerInterface as ServerInterface
    from graphmill.runtime.session_interface import SessionFactory as SessionFactory
    from graphmill.runtime.session_interface import SessionInterface as SessionInterface
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.runtime.server_interface": "ServerFactory ServerInterface",
            "graphmill.runtime.session_interface": "SessionFactory SessionInterface",
        },
    )
