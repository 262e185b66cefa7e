"""A server of a single task, and a client of its master."""

from __future__ import annotations

import pytest


@pytest.fixture
def server():
    pytest.importorskip("grpc")
    from graphmill import Server

    with Server() as made:
        yield made


@pytest.fixture
def client(server):
    from tests.plugins.distributed.served_master import MasterClient

    with MasterClient(server.target) as made:
        yield made
