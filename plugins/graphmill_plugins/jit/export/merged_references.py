"""Make consumers of a reference that a conditional returns read the variable itself.

    y = tf.cond(p, lambda: tf.assign_add(v, x), lambda: tf.assign_sub(v, x))

With a variable of TensorFlow 1, both branches return a reference to `v`, which a functional
conditional cannot return. A consumer reads `v` when it runs, after the branch. So it can take the
reference that entered the conditional instead, if it waits for the conditional.

    y = 3 * tf.cond(p, lambda: v, lambda: w)

A reference to one of several variables that is only read becomes the value of the branch, if
nothing can change the variables between the branch and the read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import Source
from graphmill.spi.graphs import ancestors, is_merge, is_switch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import Edge, Graph, Host, Node

    Tensor = tuple[Node, int]


def bypass_merged_references(graph: Graph, host: Host) -> None:
    """Replace each `Merge` of references to one variable by a `Merge` of its values.

    Consumers of the reference get that from before the conditional, and wait for the new node.
    Consumers of a reference to one of several variables get the value. Others are left as they
    are, such as a reference to one of two variables that is assigned.

    Args:
        graph: the graph, which is changed.
        host: provides the ops.
    """
    while (found := _next_to_bypass(graph)) is not None:
        _bypass(graph, host, *found)
    for merge in [node for node in graph.nodes if _is_of_references(node)]:
        if _is_only_read(graph, merge):
            joined = _joined_values(graph, host, merge)
            graph.redirect(merge, 0, joined, 0)
            _withdraw(graph, merge, joined)


def _is_of_references(node: Node) -> bool:
    return is_merge(node) and bool(node.output_types[0].is_ref)


def _next_to_bypass(graph: Graph) -> tuple[Node, Tensor] | None:
    """Return a `Merge` of one reference, and the reference; None if there is none left.

    Outer conditionals come first; after that they read a value of the inner ones.
    """
    for node in graph.nodes:
        if not _is_of_references(node):
            continue
        entered = _common_reference(node)
        if entered is not None and not any(is_merge(edge.dst) for edge in node.out_edges):
            return node, entered
    return None


def _common_reference(merge: Node) -> Tensor | None:
    """Return the reference from before a conditional that all its branches return; else None."""
    chains = [_chain(edge) for edge in merge.in_edges]
    shared = set(chains[0]).intersection(*chains[1:])
    return next((tensor for tensor in chains[0] if tensor in shared), None)


def _chain(edge: Edge) -> list[Tensor]:
    """Return a tensor and those before it that are the same reference, nearest first.

    Only the node of a variable creates a reference, so an op with one reference among its inputs
    returns that reference. An inner conditional returns the reference that entered it, if all its
    branches do. The chain ends where a frame is entered or left.
    """
    tensor = (edge.src, edge.src_output)
    chain = []
    while tensor[0].output_types[tensor[1]].is_ref:
        chain.append(tensor)
        node = tensor[0]
        if is_merge(node):
            before = _common_reference(node)
            if before is None:
                break
            tensor = before
            continue
        if node.op_def.traits.is_control_flow and not is_switch(node):
            break
        references = [e for e in node.in_edges if node.input_types[e.dst_input].is_ref]
        if len(references) != 1:
            break
        tensor = (references[0].src, references[0].src_output)
    return chain


def _is_only_read(graph: Graph, merge: Node) -> bool:
    """Return whether all consumers read the chosen variables as they are after the branches."""
    if any(_takes_reference(edge) for edge in merge.out_edges):
        return False
    before: dict[Node | None, set[Node]] = {}
    for edge in merge.in_edges:
        nodes, variable = ancestors([edge.src]), _variable(edge)
        before[variable] = before.get(variable, nodes) & nodes
    return None not in before and all(
        not _may_write(edge) or edge.dst in before.get(_variable(edge), (edge.dst,))
        for node in graph.nodes
        for edge in node.in_edges
    )


def _takes_reference(edge: Edge) -> bool:
    return not edge.is_control and bool(edge.dst.input_types[edge.dst_input].is_ref)


def _may_write(edge: Edge) -> bool:
    """Return whether a node may change the variable that it gets a reference to."""
    traits = edge.dst.op_def.traits
    return _takes_reference(edge) and not (
        traits.is_control_flow or traits.forwards or traits.only_reads
    )


def _variable(edge: Edge) -> Node | None:
    """Return the variable that an edge carries a reference to; None if it is not known."""
    chain = _chain(edge)
    found = chain[-1][0] if chain else None
    return found if found is not None and found.op_def.traits.source is Source.VARIABLE else None


def _bypass(graph: Graph, host: Host, merge: Node, entered: Tensor) -> None:
    joined = _joined_values(graph, host, merge)
    consumers = [edge.dst for edge in merge.out_edges if not edge.is_control]
    graph.redirect(merge, 0, *entered)
    _withdraw(graph, merge, joined, consumers)


def _joined_values(graph: Graph, host: Host, merge: Node) -> Node:
    """Add a `Merge` of the values that the branches' references have."""
    values = [
        (_added(graph, host, "Identity", f"{merge.name}/value", [(edge.src, edge.src_output)]), 0)
        for edge in merge.in_edges
    ]
    joined = _added(graph, host, "Merge", f"{merge.name}/joined", values, N=len(values))
    for node in (joined, *(value for value, _ in values)):
        node.device, node.assigned_device = merge.device, merge.assigned_device
    return joined


def _withdraw(graph: Graph, merge: Node, joined: Node, consumers: Iterable[Node] = ()) -> None:
    """Remove a `Merge` for which another one stands; `consumers` and its waiters wait for that."""
    waiting = [edge.dst for edge in merge.out_edges if edge.is_control]
    graph.redirect(merge, 1, joined, 1)
    for node in dict.fromkeys([*consumers, *waiting]):
        graph.add_control_edge(joined, node)
    graph.add_control_edges([edge.src for edge in merge.control_in_edges], joined)
    graph.withdraw([merge])


def _added(
    graph: Graph, host: Host, op: str, name: str, inputs: list[Tensor], **attrs: Any
) -> Node:
    """Add a node for values of the type of its first input."""
    while graph.has_node(name):
        name += "_"
    source, output = inputs[0]
    dtype = source.output_types[output].base_dtype
    op_def = host.ops.get(op)
    return graph.add_node(name, op_def, inputs, attrs=op_def.with_defaults({"T": dtype, **attrs}))
