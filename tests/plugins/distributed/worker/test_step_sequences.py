"""Step ids by graph key, at the leader of collective groups."""

from __future__ import annotations

from graphmill import proto
from graphmill_plugins.distributed.worker.step_sequences import StepSequences


def test_each_graph_key_keeps_its_number() -> None:
    sequences = StepSequences()
    first = sequences.get(proto.GetStepSequenceRequest(graph_key=[7, 7, 8])).step_sequence
    assert [found.graph_key for found in first] == [7, 7, 8]
    assert first[0].next_step_id == first[1].next_step_id != first[2].next_step_id
    assert all(1 << 56 <= found.next_step_id < 1 << 57 for found in first)
    (again,) = sequences.get(proto.GetStepSequenceRequest(graph_key=[8])).step_sequence
    assert again.next_step_id == first[2].next_step_id
    assert not sequences.get(proto.GetStepSequenceRequest()).step_sequence
