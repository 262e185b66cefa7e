"""Replace Ray by a fake engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.distributed.ray.fake_engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def engine(monkeypatch: Any) -> Iterator[FakeEngine]:
    from graphmill_plugins.distributed.ray import resolver

    made = FakeEngine()
    monkeypatch.setattr(resolver, "ray_engine", lambda: made)
    yield made
    made.close()
