"""A barrier collects the components of elements by key."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from graphmill import dtypes, errors
from graphmill.runtime.steps.step_runner import running
from graphmill_plugins.kernels.data_flow.barrier import Barrier


def test_insertion_of_many_keys_ends_when_the_step_is_cancelled() -> None:
    barrier = Barrier("b", (dtypes.int64, dtypes.int64), None)
    keys = [str(number).encode() for number in range(5000)]
    with running(SimpleNamespace(is_cancelled=True)), pytest.raises(errors.CancelledError):
        barrier.insert(keys, 0, list(range(5000)))
    assert not barrier.incomplete
    barrier.insert(keys, 0, list(range(5000)))
    assert len(barrier.incomplete) == 5000
