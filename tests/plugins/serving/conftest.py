"""A server of models, for tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def serve():
    """Return a function that starts a server with options; it returns the server and a client."""
    pytest.importorskip("uvicorn")
    from tests.plugins.serving.served_models import Client

    from graphmill_plugins.serving.model_server import ModelServer

    started = []

    def start(options):
        server = ModelServer(options)
        started.append(server)
        client = Client(server)
        started.insert(0, client)
        return server, client

    yield start
    for one in started:
        getattr(one, "stop", getattr(one, "close", None))()
