"""`GraphView`: a graph as flat arrays of `NodeItem`s, as it is executed (clause E3).

Semantics: `tensorflow/core/common_runtime/graph_view.h`, `immutable_executor_state.cc`. Everything
static is computed here once, so that a run looks up no names, attrs or types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import OpError
from graphmill.spi import DEAD, Boundary, ControlFlow, checked_dtypes, refs_to_read
from graphmill.spi.graphs import (
    NEVER_DEAD_ATTR,
    FrameInfo,
    FramePath,
    analyse_frames,
    frame_name,
    is_constant,
    is_control_trigger,
    is_receive,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.spi import Graph, Node, OpKernel

_UNMATCHED_DTYPE: Final = np.dtype(np.void)  # no output has it, so each output is checked

# How the outputs of a node propagate: within its iteration, into a frame, out of it, or into the
# next iteration.
PLAIN: Final = 0
ENTER: Final = 1
EXIT: Final = 2
NEXT_ITERATION: Final = 3
_KINDS: Final = {
    ControlFlow.ENTER: ENTER,
    ControlFlow.EXIT: EXIT,
    ControlFlow.NEXT_ITERATION: NEXT_ITERATION,
}


class NodeItem:
    """One node, prepared for execution.

    Attributes:
        id: index in `GraphView.items`.
        id_in_frame: index among the nodes of its frame.
        node: the graph's node.
        kind: how its outputs propagate: `PLAIN`, `ENTER`, `EXIT` or `NEXT_ITERATION`.
        is_merge, is_control_trigger, is_constant_enter: roles that the propagator distinguishes.
        is_constant: whether its value is in the initial input entries, so that it never runs.
        is_simple: whether it is plain and no consumer is a `Merge` or `ControlTrigger`.
        child_frame: for an `Enter`, the frame that it enters.
        kernel: its bound kernel; None for arguments and results, which need none.
        compute: the kernel's call.
        input_start, input_stop: its inputs in the flat array of its frame's input entries.
        inputs: the same as a slice, created once because each run of the node needs it.
        cleared: the values that its input entries are set to when it takes its inputs.
        num_inputs: how many data inputs it has.
        pending: the initial count of what it waits for; see `IterationState.pending`.
        num_outputs: how many outputs it has.
        dead_outputs: the outputs of the node if it is dead.
        output_dtype: the NumPy dtype of its sole output if that is an array, else None.
        output_dtypes: the same for each output.
        forwards: whether its outputs are its inputs, whose count and dtypes need no check.
        first_edges: (input entry, consumer) for each edge out of output 0.
        output_edges: the same for all outputs, by output.
        control_edges: the consumers of its control edges.
        is_plain: whether `compute` may be called with the input entries as they are.
        is_transfer: whether it runs even if it is dead: it sends or receives.
        is_arg, is_retval: whether it stands for an argument or a result; `index` is which.
        takes_context, is_async, is_expensive: how the kernel is called.
        try_now: an asynchronous kernel's call for when nothing has to be waited for, or None.
        cost_ns: estimated cost of an expensive kernel; a statistic, so written without a lock.
        last_outputs: type, shape and size of its output in the last traced run, which the next one
            records again if they are the same; a new record costs more than the comparison.
        ref_inputs: inputs that are references and must be read before the kernel is called.
    """

    __slots__ = (
        "child_frame",
        "cleared",
        "compute",
        "control_edges",
        "cost_ns",
        "dead_outputs",
        "first_edges",
        "forwards",
        "id",
        "id_in_frame",
        "index",
        "input_start",
        "input_stop",
        "inputs",
        "is_arg",
        "is_async",
        "is_constant",
        "is_constant_enter",
        "is_control_trigger",
        "is_expensive",
        "is_merge",
        "is_plain",
        "is_retval",
        "is_simple",
        "is_transfer",
        "kernel",
        "kind",
        "last_outputs",
        "node",
        "num_inputs",
        "num_outputs",
        "output_dtype",
        "output_dtypes",
        "output_edges",
        "pending",
        "ref_inputs",
        "takes_context",
        "try_now",
    )

    def __init__(self, item_id: int, node: Node) -> None:
        self.id = item_id
        self.node = node
        self.num_inputs = len(node.in_edges)
        self.cleared = [None] * self.num_inputs
        self.num_outputs = node.num_outputs
        self.dead_outputs = (DEAD,) * node.num_outputs
        self.output_dtypes = checked_dtypes(node)
        self.output_dtype = self.output_dtypes[0] if self.num_outputs == 1 else None
        if node.op_def.traits.gives_dead and self.num_outputs == 1:
            self.output_dtype = _UNMATCHED_DTYPE
        boundary = node.op_def.traits.boundary
        self.is_arg = boundary is Boundary.ARGUMENT
        self.is_retval = boundary is Boundary.RESULT
        self.index: int = node.attrs["index"] if self.is_arg or self.is_retval else -1
        self.ref_inputs = refs_to_read(node)
        role = node.op_def.traits.control_flow
        self.kind = _KINDS.get(role, PLAIN)
        self.is_merge = role is ControlFlow.MERGE
        self.is_control_trigger = role is ControlFlow.TRIGGER
        self.is_transfer = boundary is Boundary.SEND or boundary is Boundary.RECEIVE
        self.is_constant_enter = self.kind == ENTER and bool(node.attrs["is_constant"])
        self.is_simple = self.is_constant = False
        self.pending = _initial_pending(node, is_merge=self.is_merge)
        self.kernel: OpKernel | None = None
        self.compute: Callable[..., Any] | None = None
        self.try_now: Callable[..., Any] | None = None
        self.takes_context = self.is_async = self.is_expensive = False
        self.cost_ns = 0
        self.last_outputs: tuple[Any, ...] = ((None, (), 0),)
        self.is_plain = self.forwards = False
        self.id_in_frame = 0
        self.place_inputs(0)
        self.child_frame: FrameView | None = None
        self.first_edges: tuple[tuple[int, NodeItem], ...] = ()
        self.output_edges: tuple[tuple[tuple[int, NodeItem], ...], ...] = ()
        self.control_edges: tuple[NodeItem, ...] = ()

    def place_inputs(self, start: int) -> None:
        """Set the position of the node's inputs in the flat array of its frame."""
        self.input_start, self.input_stop = start, start + self.num_inputs
        self.inputs = slice(self.input_start, self.input_stop)

    def set_kernel(self, kernel: OpKernel) -> None:
        """Set the node's kernel."""
        self.kernel = kernel
        self.compute = kernel.compute
        self.takes_context = kernel.definition.stateful
        self.is_async = kernel.definition.async_
        self.try_now = kernel.try_now
        self.is_expensive = kernel.definition.expensive
        self.is_plain = not (self.takes_context or self.ref_inputs or self.is_expensive)
        self.forwards = kernel.definition.forwards

    def __repr__(self) -> str:
        return f"<NodeItem {self.id} {self.node.name!r}>"


class FrameView:
    """The static layout of a frame, shared by all its iterations.

    Attributes:
        name: the frame's own name; empty for the root frame.
        path: its name with those of the frames around it.
        input_count: how many `Enter`s enter it.
        parallel_iterations: how many of its iterations may be unfinished at once.
        items: its nodes, by `id_in_frame`.
        total_inputs: size of the flat array of input entries.
        initial_inputs: the initial input entries: constants, and None for the others.
        initial_pending: for each node what it waits for, without constants.
        no_dead: zeros, one for each node.
    """

    __slots__ = (
        "initial_inputs",
        "initial_pending",
        "input_count",
        "items",
        "name",
        "no_dead",
        "parallel_iterations",
        "path",
        "total_inputs",
    )

    def __init__(self, info: FrameInfo, items: Mapping[Node, NodeItem]) -> None:
        self.path = info.path
        self.name = info.path[-1] if info.path else ""
        self.input_count = info.input_count
        self.parallel_iterations = info.parallel_iterations
        self.items = [items[node] for node in info.nodes]
        self.total_inputs = 0
        for index, item in enumerate(self.items):
            item.id_in_frame = index
            item.place_inputs(self.total_inputs)
            self.total_inputs = item.input_stop
        self.initial_inputs: list[Any] = [None] * self.total_inputs
        self.initial_pending = [item.pending for item in self.items]
        self.no_dead = [0] * len(self.items)


class GraphView:
    """All nodes of one executor.

    Attributes:
        items: the nodes.
        args: the items of arguments.
        root_frame: the frame of all nodes outside of loops.
        roots: the items that wait for nothing, without arguments.
        has_control_flow: whether any node can be dead or run more than once.
    """

    __slots__ = ("args", "has_control_flow", "items", "root_frame", "roots")

    def __init__(self, graph: Graph, create_kernel: Callable[[Node], OpKernel]) -> None:
        nodes = graph.nodes
        self.has_control_flow = any(_is_control_flow(node) for node in nodes)
        by_node = {node: NodeItem(index, node) for index, node in enumerate(nodes)}
        self.items = list(by_node.values())
        self.root_frame = self._lay_out_frames(graph, by_node)
        for item in self.items:
            _connect(item, by_node)
        _create_kernels(self.items, create_kernel)
        self._place_constants()
        self.args = [item for item in self.items if item.is_arg]
        self.roots = [
            item
            for item in self.root_frame.items
            if not (
                item.is_arg or item.is_constant or self.root_frame.initial_pending[item.id_in_frame]
            )
        ]

    def _place_constants(self) -> None:
        """Put constant values into the input entries of their consumers, so that they never run.

        Half of the nodes of a typical graph are constants. A constant stays a node if it waits for
        a control edge, or if a `Merge` or `ControlTrigger` consumes it.
        """
        root = self.root_frame
        for item in self.items:
            if item.pending or not item.is_simple or not is_constant(item.node):
                continue
            if item.is_async or not item.is_plain:
                continue
            value = item.compute()  # type: ignore[misc]
            for entry, consumer in item.first_edges:
                root.initial_inputs[entry] = value
                root.initial_pending[consumer.id_in_frame] -= 1
            for consumer in item.control_edges:
                root.initial_pending[consumer.id_in_frame] -= 1
            item.is_constant = True

    def _lay_out_frames(self, graph: Graph, by_node: Mapping[Node, NodeItem]) -> FrameView:
        if not self.has_control_flow:
            return FrameView(FrameInfo((), nodes=by_node), by_node)
        frames, infos = analyse_frames(graph)
        views: dict[FramePath, FrameView] = {
            path: FrameView(info, by_node) for path, info in infos.items()
        }
        for node, item in by_node.items():
            if item.kind == ENTER:
                item.child_frame = views[(*frames[node], frame_name(node))]
        return views[()]


def _is_control_flow(node: Node) -> bool:
    """Return whether a node can make outputs dead, or handles dead inputs."""
    if is_receive(node):
        return NEVER_DEAD_ATTR not in node.attrs
    return node.op_def.traits.may_be_dead or is_control_trigger(node)


def _initial_pending(node: Node, *, is_merge: bool) -> int:
    control = 0
    if node.control_in_edges:
        source = node.graph.source
        control = sum(edge.src is not source for edge in node.control_in_edges)
    # A Merge starts at its first live input, for which bit 0 stands; control edges count double.
    return 1 + 2 * control if is_merge else len(node.in_edges) + control


def _connect(item: NodeItem, by_node: Mapping[Node, NodeItem]) -> None:
    by_output: list[list[tuple[int, NodeItem]]] = [[] for _ in range(item.num_outputs)]
    control = []
    is_simple = item.kind == PLAIN
    for edge in item.node.out_edges:
        consumer = by_node.get(edge.dst)
        if consumer is None:  # _SINK
            continue
        if consumer.is_merge or consumer.is_control_trigger:
            is_simple = False
        if edge.is_control:
            control.append(consumer)
        else:
            by_output[edge.src_output].append((consumer.input_start + edge.dst_input, consumer))
    item.output_edges = tuple(map(tuple, by_output))
    item.first_edges = item.output_edges[0] if by_output else ()
    item.control_edges = tuple(control)
    item.is_simple = is_simple


def _create_kernels(items: Sequence[NodeItem], create_kernel: Callable[[Node], OpKernel]) -> None:
    for item in items:
        if not (item.is_arg or item.is_retval):
            try:
                item.set_kernel(create_kernel(item.node))
            except OpError as error:
                error.locate(node=item.node.name, op_type=item.node.op)
                raise
