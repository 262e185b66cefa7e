"""`StepCall` and `StepResult`: the call of a master to a worker in one step, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphmill.runtime.value_shape import num_bytes_of_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.proto.cost_graph_pb2 import CostGraphDef
    from graphmill.proto.graph_pb2 import GraphDef
    from graphmill.proto.step_stats_pb2 import StepStats
    from graphmill.typing import Value


@dataclass(frozen=True, slots=True)
class StepCall:
    """One call of RunGraph.

    Attributes:
        graph_handle: handle of the registered graph.
        step_id: id of the step, the same on all tasks.
        inputs: fed values by rendezvous key.
        outputs: the rendezvous keys of the fetches.
        record_costs, record_timeline, record_partition_graphs: requested measurements.
        is_partial, is_last_partial_run: whether the step is run piece by piece.
        request_id: identifies repetitions of a request; 0 for none.
    """

    graph_handle: str
    step_id: int
    inputs: Mapping[str, Value] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    record_costs: bool = False
    record_timeline: bool = False
    record_partition_graphs: bool = False
    is_partial: bool = False
    is_last_partial_run: bool = False
    request_id: int = 0


@dataclass(slots=True)
class StepResult:
    """The result of a call of RunGraph.

    Attributes:
        outputs: fetched values by rendezvous key, in host memory.
        step_stats, cost_graph: the measurements, if requested.
        partition_graphs: the graphs that ran, if requested.
    """

    outputs: dict[str, Value] = field(default_factory=dict)
    step_stats: StepStats | None = None
    cost_graph: CostGraphDef | None = None
    partition_graphs: list[GraphDef] = field(default_factory=list)

    @property
    def num_bytes(self) -> int:
        """The total size of the fetched values in bytes."""
        return sum(map(num_bytes_of_value, self.outputs.values()))
