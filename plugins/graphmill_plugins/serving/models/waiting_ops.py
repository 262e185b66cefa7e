"""Find out whether a signature may wait: for a queue that is empty, or for another step.

Such a signature could hold its thread for ever. So its steps have a timeout, which prevents the
fastest ways to run them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphmill.spi import Host
    from graphmill.spi.protos import proto

_BACKENDS: Final = ("numpy",)
"""The only backend that is looked up: all kernels of an op agree on whether they may wait."""


def may_wait(meta_graph: proto.MetaGraphDef, outputs: Iterable[str], host: Host) -> bool:
    """Return whether a kernel that computes the outputs may wait for something else.

    A node that calls functions counts as what is in them.

    Args:
        meta_graph: the graph.
        outputs: the names of tensors.
        host: has the kernels.
    """
    return any(_op_may_wait(op, host) for op in set(_ops_of(meta_graph.graph_def, outputs)))


def _op_may_wait(op: str, host: Host) -> bool:
    op_def = host.ops.find(op)
    if op_def is None:  # running it will say so
        return True
    kernels = host.kernels.registrations(op_def, _BACKENDS)
    return any(kernel.definition.may_wait for kernel in kernels)


def _ops_of(graph_def: proto.GraphDef, outputs: Iterable[str]) -> Iterator[str]:
    """Yield the op of each node that the outputs need, and of all nodes of functions called."""
    nodes = {node.name: node for node in graph_def.node}
    bodies = {body.signature.name: body.node_def for body in graph_def.library.function}
    waiting = [_node_of(name) for name in outputs]
    reached = set(waiting)
    functions: list[str] = []
    while waiting:
        node = nodes.get(waiting.pop())
        if node is None:
            continue
        yield from _op_or_functions(node, functions)
        inputs = {_node_of(name) for name in node.input} - reached
        reached |= inputs
        waiting.extend(inputs)
    called: set[str] = set()
    while functions:
        name = functions.pop()
        if name not in called:
            called.add(name)
            for node in bodies.get(name, ()):
                yield from _op_or_functions(node, functions)


def _op_or_functions(node: proto.NodeDef, functions: list[str]) -> Iterator[str]:
    called = [attr.func.name for attr in node.attr.values() if attr.HasField("func")]
    called += [func.name for attr in node.attr.values() for func in attr.list.func]
    functions.extend(called)
    if not called:
        yield node.op


def _node_of(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]
