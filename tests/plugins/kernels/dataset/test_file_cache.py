"""Caches in files hold variants, and restore them in another session."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph

NODES = r"""
[[CacheDataset]]
feed = { x = "float32[2]" }
nodes = [
  "o = OptionalFromValue([x], Toutput_types=[float32])",
  "t = TensorDataset([o], Toutput_types=[variant], output_shapes=[[]])",
  "p = Const(dtype=string, value='string: \"cache\"')",
  "c = CacheDataset(t, p, output_types=[variant], output_shapes=[[]])",
  "h = IteratorV2(shared_name='', container='', output_types=[variant], output_shapes=[[]])",
  "m = MakeIterator(c, h)",
  "n = IteratorGetNext(h, output_types=[variant], output_shapes=[[]])",
  "y = OptionalGetValue(n, output_types=[float32], output_shapes=[[2]])",
]
run = ["m"]
"""


def test_variants_are_read_from_the_files(graphmill_host, tmp_path, monkeypatch):
    pytest.importorskip("google_crc32c")
    monkeypatch.chdir(tmp_path)
    (case,) = parse_cases(NODES, "t")
    graph = case_graph(case, graphmill_host.ops)
    (feed,) = graph.feeds
    found = []
    for value in ([1, 2], [3, 4]):  # the second session reads what the first one wrote
        with graphmill.Session(graph=graph.graph_def, host=graphmill_host) as session:
            session.run([], {feed: np.float32(value)}, targets=["m"])
            found.append(session.run("y:0").tolist())
            with pytest.raises(graphmill.errors.OutOfRangeError):
                session.run("y:0")
    assert found == [[1, 2], [1, 2]]
