"""The control inputs of functional conditionals."""

from __future__ import annotations

import graphmill
from graphmill.ops import array
from graphmill_plugins.jit.functionalize.if_nodes import _waits_for_more


def test_a_chain_of_identities_is_followed_by_output() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        p, q = (graph.placeholder("bool", (), name) for name in "pq")
        with graph.control_dependencies([p]):
            later = array.identity(q)
        at_once = array.identity(p)
        both = array.identity_n([at_once, later])
    assert [_waits_for_more((both[0].op, index)) for index in (0, 1)] == [False, True]
    assert not _waits_for_more((at_once.op, 0))
