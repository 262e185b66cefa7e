"""`Recording`: what happened in a step: nodes, order, values, dead outputs, and what waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill.debug.known_names import matches, near_nodes
from graphmill.debug.recorded_graph import (
    CONSTANT_ENTER,
    ENTER,
    EXIT,
    MERGE,
    NEXT_ITERATION,
    RESULT_PREFIX,
    RecordedGraph,
    iteration_text,
)
from graphmill.debug.value_lookup import find_value
from graphmill.debug.values import DEAD_VALUE, RecordedValue
from graphmill.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.debug.recorded_graph import Numbers, RecordedEdge, RecordedNode

NO_SOURCE = -1
"""The source of an input that no event produced: a constant, or a `Merge`'s other input."""


class Instance(NamedTuple):
    """A node in one iteration of one run.

    Attributes:
        run: the index of the run.
        node: the index of the node in the run's graph.
        numbers: the iteration number of each enclosing frame, outermost first.
    """

    run: int
    node: int
    numbers: Numbers


class RecordedRun(NamedTuple):
    """A run of a partition or function.

    Attributes:
        graph: the index of its graph.
        caller: the node that called the function; None for a partition.
        call: how many times the node called the function before, so the iteration of a loop.
        is_loop: whether the caller is a loop over functions.
    """

    graph: int
    caller: Instance | None = None
    call: int = 0
    is_loop: bool = False


class Event(NamedTuple):
    """A node that is done.

    Attributes:
        instance: the node in its iteration and run.
        is_dead: whether it was dead, so that it did not run.
        outputs: the indices of its outputs in `Recording.values`; `DEAD_VALUE` for a dead one.
        sources: for each data input the event that produced it, or `NO_SOURCE`.
    """

    instance: Instance
    is_dead: bool
    outputs: tuple[int, ...]
    sources: tuple[int, ...]


class WaitingNode(NamedTuple):
    """A node that has received some of its inputs, and is not done.

    Attributes:
        name, op: the node.
        iteration: frames and iterations around it; "" outside of loops.
        pending: how many edges it waits for, as the executor counts them.
        dead: how many dead edges have arrived.
        missing: the tensors and control inputs that have not arrived.
        state: "pending", "ready" or "running".
    """

    name: str
    op: str
    iteration: str
    pending: int
    dead: int
    missing: tuple[str, ...]
    state: str = "pending"

    def __str__(self) -> str:
        where = f" in {self.iteration}" if self.iteration else ""
        dead = f", {self.dead} dead" if self.dead else ""
        if self.state != "pending":
            return f"{self.name} ({self.op}){where} is {self.state}{dead}"
        missing = ", ".join(self.missing) or "the end of a frame"
        return f"{self.name} ({self.op}){where} waits for {missing} [pending {self.pending}{dead}]"


class Recording:
    """A recorded step, or the part of it that has run.

    A position is a number of events: at position 3, the first three nodes are done.

    Attributes:
        feeds, fetches, targets: the signature of the step.
        graphs: the graphs that ran.
        runs: their runs, in the order in which they started.
        events: the nodes that are done, in order.
        values: the values, each once.
        error: the message of the error that ended the step; "" for none.
        failed: the node that failed; None for none.
        waiting: what waited when the step ended or the recording was taken.
        is_complete: whether the step has ended.
    """

    def __init__(
        self,
        feeds: Sequence[str] = (),
        fetches: Sequence[str] = (),
        targets: Sequence[str] = (),
    ) -> None:
        self.feeds, self.fetches, self.targets = tuple(feeds), tuple(fetches), tuple(targets)
        self.graphs: list[RecordedGraph] = []
        self.runs: list[RecordedRun] = []
        self.events: list[Event] = []
        self.values: list[RecordedValue] = []
        self.error = ""
        self.failed: Instance | None = None
        self.waiting: tuple[str, ...] = ()
        self.is_complete = False
        self._produced: dict[Instance, int] = {}

    def __len__(self) -> int:
        return len(self.events)

    def add(self, instance: Instance, *, is_dead: bool, outputs: tuple[int, ...]) -> Event:
        """Add an event; return it."""
        node = self.node_of(instance)
        data = [edge for edge in node.inputs if not edge.is_control]
        event = Event(
            instance, is_dead, outputs, tuple(self.source(instance, edge) for edge in data)
        )
        self.append(event)
        return event

    def append(self, event: Event) -> None:
        """Add an event whose sources are known."""
        instance = event.instance
        index, node = len(self.events), self.node_of(instance)
        self.events.append(event)
        if node.role == NEXT_ITERATION and event.is_dead:
            return  # deadness does not go around a loop
        key = instance._replace(numbers=_target(node, instance.numbers))
        if not (node.role == EXIT and event.is_dead and self._is_live(key)):
            self._produced[key] = index

    def source(self, instance: Instance, edge: RecordedEdge) -> int:
        """Return the event that produced an input of a node; `NO_SOURCE` if none has."""
        graph = self.graphs[self.runs[instance.run].graph]
        role, numbers = graph.nodes[edge.node].role, instance.numbers
        if role == CONSTANT_ENTER:
            numbers = numbers[:-1]
        elif role == ENTER and numbers[-1]:
            return NO_SOURCE
        return self._produced.get(Instance(instance.run, edge.node, numbers), NO_SOURCE)

    def node_of(self, instance: Instance) -> RecordedNode:
        """Return the node of an instance."""
        return self.graphs[self.runs[instance.run].graph].nodes[instance.node]

    def name(self, instance: Instance) -> str:
        """Return the name of a node; inside a function it begins with the caller's name."""
        return self.scope(instance.run) + self.node_of(instance).name

    def scope(self, run: int) -> str:
        """Return the prefix of the names of a run's nodes; "" for a partition."""
        caller = self.runs[run].caller
        return "" if caller is None else f"{self.name(caller)}/"

    def iteration(self, instance: Instance) -> str:
        """Return the frames and iterations around a node; "" outside of loops."""
        run = self.runs[instance.run]
        parts = []
        if run.caller is not None:
            parts.append(self.iteration(run.caller))
            if run.is_loop:
                parts.append(f"{self.node_of(run.caller).name}:{run.call}")
        parts.append(iteration_text(self.node_of(instance).frame, instance.numbers))
        return "/".join(filter(None, parts))

    def levels(self, instance: Instance) -> tuple[tuple[str, int], ...]:
        """Return the loops around a node, from the outside in, each with its iteration."""
        run = self.runs[instance.run]
        outer: tuple[tuple[str, int], ...] = ()
        if run.caller is not None:
            outer = self.levels(run.caller)
            if run.is_loop:
                outer = (*outer, (self.name(run.caller), run.call))
        own = zip(self.node_of(instance).frame, instance.numbers, strict=True)
        return (*outer, *own)

    def describe(self, index: int) -> str:
        """Return an event on one line: node, iteration and outputs."""
        event = self.events[index]
        iteration = self.iteration(event.instance)
        where = f" in {iteration}" if iteration else ""
        op = self.node_of(event.instance).op
        outputs = "dead" if event.is_dead else "; ".join(self.value_texts(event))
        arrow = f" -> {outputs}" if outputs else ""
        return f"{index}: {self.name(event.instance)} ({op}){where}{arrow}"

    def value_texts(self, event: Event) -> list[str]:
        """Return each output of an event as text."""
        return ["dead" if v == DEAD_VALUE else str(self.values[v]) for v in event.outputs]

    def inputs(self, instance: Instance) -> list[tuple[str, RecordedValue | None]]:
        """Return the inputs of a node that have arrived: names, and values or None for dead."""
        graph = self.graphs[self.runs[instance.run].graph]
        found = []
        for edge in graph.nodes[instance.node].inputs:
            if edge.is_control:
                continue
            name = self.scope(instance.run) + graph.nodes[edge.node].tensor(edge.output)
            source = self.source(instance, edge)
            if source != NO_SOURCE:
                value = self.events[source].outputs[edge.output]
                found.append((name, None if value == DEAD_VALUE else self.values[value]))
            elif edge.node in graph.constants:
                found.append((name, self.values[graph.constants[edge.node]]))
        return found

    def scopes(self) -> list[tuple[RecordedGraph, str]]:
        """Return each graph with each scope in which it ran; a loop runs its body many times."""
        found = {(run.graph, self.scope(index)): None for index, run in enumerate(self.runs)}
        return [(self.graphs[graph], scope) for graph, scope in found]

    def names(self) -> set[str]:
        """Return the names of all nodes of the graphs that ran."""
        return {scope + node.name for graph, scope in self.scopes() for node in graph.nodes}

    def history(self, name: str, stop: int | None = None) -> list[int]:
        """Return the events of a node, in order.

        Args:
            name: the node, or a pattern such as `loop/*`.
            stop: only events before this position.

        Raises:
            NotFoundError: no graph of the step has such a node.
        """
        matching = {known for known in self.names() if matches(known, name)}
        if not matching:
            raise NotFoundError(
                f"the step has no node {name!r}{near_nodes(name, self.names())}", node=name
            )
        events = self.events[:stop]
        return [i for i, event in enumerate(events) if self.name(event.instance) in matching]

    def value(
        self, tensor: str, iteration: str | None = None, *, stop: int | None = None
    ) -> RecordedValue | None:
        """Return the latest value of a tensor; None if it is dead.

        Args:
            tensor: such as `loop/add:0`; without an output, output 0.
            iteration: its frames and iterations, such as `loop:3`; None for the latest.
            stop: the position up to which events count; None for the end.

        Raises:
            NotFoundError: the step has no such node, or it has not run by then.
            InvalidArgumentError: the node has no such output.
        """
        return find_value(self, tensor, iteration, stop).value

    def waiting_at(self, position: int) -> list[WaitingNode]:
        """Return the nodes that had received some inputs at a position, and were not done."""
        done = {event.instance for event in self.events[:position]}
        touched: dict[Instance, None] = {}
        for event in self.events[:position]:
            for instance in self._consumers(event):
                if instance not in done:
                    touched[instance] = None
        return [self.waiting_node(instance, position) for instance in touched]

    def waiting_node(self, instance: Instance, position: int) -> WaitingNode:
        """Return what a node that is not done waited for at a position."""
        graph = self.graphs[self.runs[instance.run].graph]
        node = graph.nodes[instance.node]
        missing, dead, has_live = [], 0, False
        for edge in node.inputs:
            if edge.node in graph.constants:
                continue
            source = self.source(instance, edge)
            if NO_SOURCE < source < position and not self._is_dead_exit(source):
                is_dead = self._is_edge_dead(source, edge)
                dead += is_dead
                has_live |= not is_dead and not edge.is_control
            else:
                missing.append(edge)
        if node.role == MERGE:
            control = sum(edge.is_control for edge in missing)
            pending = 2 * control + (not has_live)
            missing = [edge for edge in missing if edge.is_control or not has_live]
        else:
            pending = len(missing)
        names = tuple(self._edge_name(instance.run, edge) for edge in missing)
        return WaitingNode(
            self.name(instance),
            node.op,
            self.iteration(instance),
            pending,
            dead,
            names,
            "pending" if pending else "ready",
        )

    def function_loops(self) -> set[tuple[str, int]]:
        """Return the nodes that looped over functions, each with its iterations."""
        return {
            (self.name(run.caller), run.call)
            for run in self.runs
            if run.is_loop and run.caller is not None
        }

    def results(self) -> list[RecordedValue | None]:
        """Return the values of the fetches, in order; None for one that was not computed."""
        found: dict[str, RecordedValue | None] = {}
        for event in self.events:
            node = self.node_of(event.instance)
            if self.runs[event.instance.run].caller is None and node.is_result:
                ((_, value),) = self.inputs(event.instance)
                found[node.name.removeprefix(RESULT_PREFIX)] = value
        return [found.get(name) for name in self.fetches]

    def non_finite(self) -> Iterator[int]:
        """Yield the events with a NaN or an infinity in an output."""
        for index, event in enumerate(self.events):
            if any(v != DEAD_VALUE and not self.values[v].is_finite for v in event.outputs):
                yield index

    def _consumers(self, event: Event) -> Iterator[Instance]:
        run, node, numbers = event.instance
        graph = self.graphs[self.runs[run].graph]
        role = graph.nodes[node].role
        if event.is_dead and role in (NEXT_ITERATION, EXIT):
            return
        target = _target(graph.nodes[node], numbers)
        if role == CONSTANT_ENTER:
            target = (*numbers, 0)
        for consumer in graph.consumers[node]:
            yield Instance(run, consumer, target)

    def _is_live(self, key: Instance) -> bool:
        index = self._produced.get(key)
        return index is not None and not self.events[index].is_dead

    def _is_dead_exit(self, source: int) -> bool:
        """Return whether an event is a dead exit: it arrives only when its frame is done."""
        event = self.events[source]
        return event.is_dead and self.node_of(event.instance).role == EXIT

    def _is_edge_dead(self, source: int, edge: RecordedEdge) -> bool:
        event = self.events[source]
        if edge.is_control or event.is_dead:
            return event.is_dead
        return event.outputs[edge.output] == DEAD_VALUE

    def _edge_name(self, run: int, edge: RecordedEdge) -> str:
        node = self.graphs[self.runs[run].graph].nodes[edge.node]
        scope = self.scope(run)
        return f"{scope}^{node.name}" if edge.is_control else scope + node.tensor(edge.output)


def _target(node: RecordedNode, numbers: Numbers) -> Numbers:
    """Return the iteration in which the consumers of a node's outputs run."""
    if node.role == ENTER:
        return (*numbers, 0)
    if node.role == EXIT:
        return numbers[:-1]
    if node.role == NEXT_ITERATION:
        return (*numbers[:-1], numbers[-1] + 1)
    return numbers  # of a constant enter, the consumers in all iterations look it up here
