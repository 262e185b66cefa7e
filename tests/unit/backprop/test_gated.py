"""A single gradient needs no gate."""

from __future__ import annotations

import graphmill
from graphmill.backprop.gated import gated


def test_single_gradient_needs_no_gate():
    with graphmill.Graph().as_default() as graph:
        x = graph.constant(1.0)
        before = len(graph)
        assert gated([None, x]) == [None, x]
        assert len(graph) == before
