"""Statistics of pipelines: times, and histograms that go to a summary writer."""

from __future__ import annotations

import graphmill
from graphmill import tf_record
from graphmill.spi.protos import Event, Summary
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph

LATENCY = """
[[LatencyStatsDataset]]
feed = { x = "int64[5]" }
nodes = [
  "name = Const(dtype=string, value='string: \\"latency\\"')",
  "tag = Const(dtype=string, value='string: \\"tag\\"')",
  "s = TensorSliceDataset([x], Toutput_types=[int64], output_shapes=[[]])",
  "one = Const(dtype=int64, value='int64: 1')",
  "h = StatsAggregatorHandle()",
  "b = OP(s, name, output_types=[int64], output_shapes=[[]])",
  "a = SetStatsAggregatorDataset(b, h, tag, tag, output_types=[int64], output_shapes=[[]])",
  "t = TakeDataset(a, one, output_types=[int64], output_shapes=[[]])",
  "y = DatasetToSingleElement(t, output_types=[int64], output_shapes=[[]])",
  "z = StatsAggregatorSummary(h)",
]
run = ["y", "z"]
"""
WRITER = """
[[StatsAggregatorHandleV2]]
feed = { d = "string: ''" }
nodes = [
  "e = Const(dtype=string, value='string: \\"\\"')",
  "name = Const(dtype=string, value='string: \\"bytes\\"')",
  "ten = Const(dtype=int32, value='int32: 10')",
  "k = Const(dtype=int64, value='int64: 9')",
  "f = Const(dtype=bool, value='bool: False')",
  "x = Const(dtype=int64, value='int64: [5, 6]')",
  "w = SummaryWriter()",
  "c = CreateSummaryFileWriter(w, d, ten, ten, e)",
  "s = TensorSliceDataset([x], Toutput_types=[int64], output_shapes=[[]])",
  "h = OP()",
  "g = StatsAggregatorSetSummaryWriter(h, w)",
  "b = BytesProducedStatsDataset(s, name, output_types=[int64], output_shapes=[[]])",
  "a = SetStatsAggregatorDataset(b, h, e, e, output_types=[int64], output_shapes=[[]])",
  "all = BatchDatasetV2(a, k, f, output_types=[int64], output_shapes=[[-1]])",
  "y = DatasetToSingleElement(all, output_types=[int64], output_shapes=[[-1]])",
  "n = CloseSummaryWriter(w)",
]
run = ["y"]
"""


def session_of(text, host):
    (case,) = parse_cases(text, "t")
    graph = case_graph(case, host.ops)
    (feed,) = graph.feeds
    return graphmill.Session(graph=graph.graph_def, host=host), feed


def test_times_are_recorded_under_the_tag(graphmill_host):
    session, feed = session_of(LATENCY, graphmill_host)
    with session:
        session.run("y:0", {feed: [1, 2, 3, 4, 5]})
        found = Summary.FromString(session.run("z:0"))
    (value,) = found.value
    assert value.tag == "tag::latency"
    assert value.histo.num == 1
    assert value.histo.min >= 0


def test_histograms_go_to_a_summary_writer(graphmill_host, tmp_path):
    session, feed = session_of(WRITER, graphmill_host)
    with session:
        session.run([], {feed: str(tmp_path).encode()}, targets=["c"])
        for target in ("g", "y", "n"):
            session.run([], targets=[target])
    (path,) = tmp_path.iterdir()
    events = [Event.FromString(record) for record in tf_record.tf_record_iterator(path)]
    found = [
        (event.step, value.tag, value.histo.num, value.histo.sum)
        for event in events
        for value in event.summary.value
    ]
    assert found == [(0, "bytes", 1, 8), (1, "bytes", 2, 16)]
