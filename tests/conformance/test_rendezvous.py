"""The built-in rendezvous passes the public conformance suite."""

from __future__ import annotations

import pytest

from graphmill.runtime.rendezvous import IntraProcessRendezvous
from graphmill.testing.conformance import RendezvousTests


class TestIntraProcess(RendezvousTests):
    @pytest.fixture
    def rendezvous(self):
        return IntraProcessRendezvous()
