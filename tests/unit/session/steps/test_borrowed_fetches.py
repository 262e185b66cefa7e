"""Fetched arrays are owned by the caller, or borrowed for reading only."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import proto
from graphmill.session.direct_session import DirectSession

VALUE = np.arange(1000, dtype=np.float32)


@pytest.mark.parametrize("may_alias", [False, True])
def test_fetches_are_copied_unless_the_caller_only_reads_them(may_alias):
    graph = graphmill.Graph()
    with graph.as_default():
        v = graphmill.Variable(VALUE, name="v")
        init, value = v.initializer.name, graphmill.ops.array.identity(v).name
    session = DirectSession(
        graphmill.default_host(), proto.ConfigProto(), fetches_may_alias=may_alias
    )
    session.follow(graph)
    try:
        session.run(((), (), (init,)), (), None, None)
        first, second = (session.run(((), (value,), ()), (), None, None)[0] for _ in range(2))
    finally:
        session.close()
    np.testing.assert_array_equal(first, VALUE)
    assert np.shares_memory(first, second) is may_alias
