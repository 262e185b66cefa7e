"""`GraphView`: a graph as flat arrays of `NodeItem`s, the form in which it is executed (row E3).

Semantics: `tensorflow/core/common_runtime/graph_view.h`. Everything that can be known before a run
is put here once, so that a run touches no names, attrs or types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.dtypes import resource, variant
from graphmill.errors import OpError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.kernel import OpKernel

ARG_OPS: Final = frozenset({"_Arg", "_DeviceArg"})
RETVAL_OPS: Final = frozenset({"_Retval", "_DeviceRetval"})
CONTROL_FLOW_OPS: Final = frozenset(
    {
        "Switch",
        "RefSwitch",
        "_SwitchN",
        "Merge",
        "RefMerge",
        "Enter",
        "RefEnter",
        "Exit",
        "RefExit",
        "NextIteration",
        "RefNextIteration",
    }
)


class NodeItem:
    """One node, ready to run.

    Attributes:
        id: index in `GraphView.items`.
        node: the graph's node.
        kernel: its bound kernel; None for arguments and results, which need none.
        compute: the kernel's call.
        input_start, input_stop: its inputs in the flat array of input entries.
        cleared: what its input entries are set to once they are taken.
        pending: how many data and control edges must arrive before it is ready.
        num_outputs: how many outputs it has.
        output_dtype: the NumPy dtype of its sole output if that is an array, else None.
        output_dtypes: the same for each of several outputs.
        first_edges: (input entry, consumer) for each edge out of output 0.
        output_edges: the same for all outputs, by output.
        control_edges: the consumers of its control edges.
        is_plain: whether `compute` may be called with the input entries as they are.
        is_arg, is_retval: whether it stands for an argument or a result; `index` is which.
        takes_context, is_async: how the kernel is called.
        ref_inputs: inputs that are references and must be read before the kernel sees them.
        uninitialized_ok: whether such a reference may be without a value.
    """

    __slots__ = (
        "cleared",
        "compute",
        "control_edges",
        "first_edges",
        "id",
        "index",
        "input_start",
        "input_stop",
        "is_arg",
        "is_async",
        "is_plain",
        "is_retval",
        "kernel",
        "node",
        "num_outputs",
        "output_dtype",
        "output_dtypes",
        "output_edges",
        "pending",
        "ref_inputs",
        "takes_context",
        "uninitialized_ok",
    )

    def __init__(self, item_id: int, node: Node, input_start: int) -> None:
        self.id = item_id
        self.node = node
        self.input_start = input_start
        self.input_stop = input_start + len(node.in_edges)
        self.cleared = [None] * len(node.in_edges)
        self.pending = len(node.in_edges) + len(node.control_in_edges)
        self.num_outputs = node.num_outputs
        self.output_dtypes = tuple(map(_checked_dtype, node.output_types))
        self.output_dtype = self.output_dtypes[0] if self.num_outputs == 1 else None
        self.is_arg = node.op in ARG_OPS
        self.is_retval = node.op in RETVAL_OPS
        self.index: int = node.attrs["index"] if self.is_arg or self.is_retval else -1
        self.ref_inputs = _inputs_to_dereference(node)
        self.uninitialized_ok = node.op_def.allows_uninitialized_input
        self.kernel: OpKernel | None = None
        self.compute: Callable[..., Any] | None = None
        self.takes_context = self.is_async = False
        self.is_plain = False
        self.first_edges: tuple[tuple[int, NodeItem], ...] = ()
        self.output_edges: tuple[tuple[tuple[int, NodeItem], ...], ...] = ()
        self.control_edges: tuple[NodeItem, ...] = ()

    def set_kernel(self, kernel: OpKernel) -> None:
        """Give the node its kernel."""
        self.kernel = kernel
        self.compute = kernel.compute
        self.takes_context = kernel.definition.stateful
        self.is_async = kernel.definition.async_
        self.is_plain = not (self.takes_context or self.ref_inputs)

    def __repr__(self) -> str:
        return f"<NodeItem {self.id} {self.node.name!r}>"


class GraphView:
    """All nodes of one executor.

    Attributes:
        items: the nodes.
        args: the items of arguments.
        num_retvals: how many results there are.
        total_inputs: size of the flat array of input entries.
        initial_pending: for each item how many edges it waits for.
        roots: the items that wait for none; arguments not included.
    """

    __slots__ = ("args", "initial_pending", "items", "num_retvals", "roots", "total_inputs")

    def __init__(self, graph: Graph, create_kernel: Callable[[Node], OpKernel]) -> None:
        nodes = graph.nodes
        _refuse_control_flow(nodes)
        self.items: list[NodeItem] = []
        self.total_inputs = 0
        by_node: dict[Node, NodeItem] = {}
        for node in nodes:
            item = NodeItem(len(self.items), node, self.total_inputs)
            self.total_inputs = item.input_stop
            self.items.append(item)
            by_node[node] = item
        for item in self.items:
            _connect(item, by_node)
        _create_kernels(self.items, create_kernel)
        self.args = [item for item in self.items if item.is_arg]
        self.num_retvals = 1 + max((i.index for i in self.items if i.is_retval), default=-1)
        self.initial_pending = [item.pending for item in self.items]
        self.roots = [item for item in self.items if not item.pending and not item.is_arg]


def _connect(item: NodeItem, by_node: dict[Node, NodeItem]) -> None:
    by_output: list[list[tuple[int, NodeItem]]] = [[] for _ in range(item.num_outputs)]
    control = []
    for edge in item.node.out_edges:
        consumer = by_node.get(edge.dst)
        if consumer is None:  # _SINK
            continue
        if edge.is_control:
            control.append(consumer)
        else:
            by_output[edge.src_output].append((consumer.input_start + edge.dst_input, consumer))
    item.output_edges = tuple(map(tuple, by_output))
    item.first_edges = item.output_edges[0] if by_output else ()
    item.control_edges = tuple(control)
    item.pending -= sum(edge.src is item.node.graph.source for edge in item.node.control_in_edges)


def _create_kernels(items: Sequence[NodeItem], create_kernel: Callable[[Node], OpKernel]) -> None:
    for item in items:
        if not (item.is_arg or item.is_retval):
            try:
                item.set_kernel(create_kernel(item.node))
            except OpError as error:
                error.locate(node=item.node.name, op=item.node.op)
                raise


def _refuse_control_flow(nodes: Sequence[Node]) -> None:
    found = [node for node in nodes if node.op in CONTROL_FLOW_OPS]
    if found:
        names = ", ".join(f"{node.name} ({node.op})" for node in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise UnimplementedError(
            f"the graph has control flow of version 1, which the DEFAULT executor does not run "
            f"yet: {names}{more}. Functional control flow (If, While, Case) runs",
            node=found[0].name,
            op=found[0].op,
        )


def _inputs_to_dereference(node: Node) -> tuple[int, ...]:
    return tuple(
        position
        for position, edge in enumerate(node.in_edges)
        if edge.src.output_types[edge.src_output].is_ref and not node.input_types[position].is_ref
    )


def _checked_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype that an output's `dtype` must be; None where outputs are not arrays."""
    if dtype.is_ref or dtype in (resource, variant):
        return None
    return dtype.as_numpy_dtype  # type: ignore[no-any-return]
