"""`Recorder`: builds the recording of a step from its executors' reports."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphmill.debug.recorded_graph import (
    RESULT_PREFIX,
    RecordedGraph,
    has_effects,
    iteration_numbers,
    recorded_nodes,
)
from graphmill.debug.recording import Instance, RecordedRun, Recording
from graphmill.debug.values import DEAD_VALUE, ValueStore
from graphmill.graph.node_roles import is_argument, is_result
from graphmill.ops.definition.op_traits import CallKind
from graphmill.runtime.dead import DEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.debug.recording import Event
    from graphmill.graph.node import Node
    from graphmill.runtime.stepping import NodeInstance, SteppableRun


class Recorder:
    """Records the runs and nodes of one step.

    Args:
        recording: the recording to fill.
        store: stores the values; `recording.values` are its values.

    Threads: belongs to the thread that drives the step.
    """

    def __init__(self, recording: Recording, store: ValueStore) -> None:
        self.recording = recording
        self._store = store
        recording.values = store.values
        self._runs: dict[int, int] = {}
        self._live: list[SteppableRun] = []  # so that the ids of runs and graphs are not reused
        self._graphs: dict[tuple[int, str], int] = {}
        self._indices: list[dict[Node, int]] = []
        self._calls: Counter[tuple[Instance, int]] = Counter()

    def run_started(self, run: SteppableRun) -> int:
        """Record a run; return its index."""
        caller = run.caller
        called_by = None
        if caller is not None:
            called_by = self._instance(caller.run, caller.node, caller.iteration)
        graph = self._graph_index(run)
        call, is_loop = 0, False
        if called_by is not None and caller is not None:
            call = self._calls[called_by, graph]
            self._calls[called_by, graph] += 1
            kinds = {one.kind for one in caller.node.op_def.calls}
            is_loop = CallKind.LOOP_BODY in kinds
        self._runs[id(run)] = index = len(self.recording.runs)
        self._live.append(run)
        self.recording.runs.append(RecordedRun(graph, called_by, call, is_loop))
        return index

    def node_done(self, run: SteppableRun, instance: NodeInstance, outputs: Sequence[Any]) -> Event:
        """Record a node that is done; return the event."""
        node = instance.node
        is_needed = is_argument(node) or has_effects(node)
        values = tuple(
            DEAD_VALUE
            if output is DEAD
            else self._store.add(output, dtype, run.device.to_host, is_needed=is_needed)
            for output, dtype in zip(outputs, node.output_types, strict=True)
        )
        recorded = self.instance(run, instance)
        return self.recording.add(recorded, is_dead=instance.is_dead, outputs=values)

    def instance(self, run: SteppableRun, instance: NodeInstance) -> Instance:
        """Return a node of a run as the recording names it."""
        return self._instance(run, instance.node, instance.iteration)

    def _instance(self, run: SteppableRun, node: Node, iteration: str) -> Instance:
        run_index = self._runs[id(run)]
        graph = self.recording.runs[run_index].graph
        index = self._indices[graph][node]
        frame = self.recording.graphs[graph].nodes[index].frame
        return Instance(run_index, index, iteration_numbers(frame, iteration))

    def _graph_index(self, run: SteppableRun) -> int:
        key = id(run.graph), run.device.name
        index = self._graphs.get(key)
        if index is not None:
            return index
        is_step = run.caller is None

        def name_of(node: Node) -> str:
            return self._name_in_step(node) if is_step else node.name

        nodes, indices = recorded_nodes(run.graph, name_of)
        constants = {
            indices[node]: self._store.add(
                value, node.output_types[0], run.device.to_host, is_needed=False
            )
            for node, value in run.constants().items()
        }
        self._indices.append(indices)
        self.recording.graphs.append(RecordedGraph(nodes, run.device.name, constants))
        self._graphs[key] = index = len(self.recording.graphs) - 1
        return index

    def _name_in_step(self, node: Node) -> str:
        """Return the name of a node of the step; that of an argument is the tensor that is fed."""
        recording = self.recording
        if is_argument(node) and node.attrs["index"] < len(recording.feeds):
            name: str = recording.feeds[node.attrs["index"]]
            return name.removesuffix(":0")
        if is_result(node) and node.attrs["index"] < len(recording.fetches):
            return f"{RESULT_PREFIX}{recording.fetches[node.attrs['index']]}"
        return node.name
