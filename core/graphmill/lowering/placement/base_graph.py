"""`BaseGraphCheck`: check that a session's whole graph can be placed, as TensorFlow does.

TensorFlow places the whole graph of a session before the first step, unless `place_pruned_graph` is
set: so a step fails because of a node that it does not need. Here only the graph of a step is
placed, and the rest is checked.

Semantics: `GraphExecutionState::InitBaseGraph` in
`tensorflow/core/common_runtime/graph_execution_state.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.graph.functions.function_calls import BY_NAME, calls_of
from graphmill.lowering.functions.function_bodies import placement_options
from graphmill.lowering.kernel_lookup import find_kernel
from graphmill.lowering.placement.placer import check_groups, check_requests
from graphmill.ops.definition.op_registry import same_bundled
from graphmill.ops.definition.op_traits import CallKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.lowering.passes import PassOptions

_ADVICE = (
    ". If no step needs the node, graph_options.place_pruned_graph makes sessions check only the "
    "nodes that a step needs"
)


class BaseGraphCheck:
    """The checks of one session's graph; each node is checked once.

    Threads: the session calls it under its graph lock.

    Args:
        options: the session's devices, kernels and configuration.
        knows_kernels: whether the kernels of this process are those that will run the nodes.
    """

    def __init__(self, options: PassOptions, *, knows_kernels: bool) -> None:
        self._options = options
        self._placement = placement_options(options, None, log=False)
        self._knows_kernels = knows_kernels
        self._num_checked: int | None = None  # node ids; None until a step is built
        self._unsupported: list[Node] = []

    def check_requests(self, nodes: Sequence[Node]) -> None:
        """Check the requested devices of nodes that will be added.

        Nothing is checked before the first step is built.

        Raises:
            InvalidArgumentError: a request is malformed, or no device matches it.
        """
        if self._num_checked is not None:
            self._check_requests(nodes)

    def check(self, graph: Graph, needed: Graph) -> None:
        """Check the nodes that are new since the last call.

        Args:
            graph: the session's graph.
            needed: the pruned graph of a step. Of its nodes, the missing kernels and functions are
                left to those who choose kernels, and report all of them at once.

        Raises:
            InvalidArgumentError: a node cannot be placed, or has no kernel or no function.
        """
        if self._num_checked != graph.num_node_ids:
            new = graph.nodes_since(self._num_checked or 0)
            self._check_requests(new)
            if self._knows_kernels:
                check_groups(graph, self._placement)
                self._unsupported += self._without_kernel(new)
            self._num_checked = graph.num_node_ids
        for node in self._unsupported:
            if not needed.has_node(node.name):
                raise self._unsupported_error(node)

    def _check_requests(self, nodes: Sequence[Node]) -> None:
        soft = self._placement.allow_soft_placement
        try:
            check_requests(nodes, self._options.devices, allow_soft_placement=soft)
        except InvalidArgumentError as error:
            error.message += _ADVICE
            raise

    def _without_kernel(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes whose function is missing, or whose op has no kernel.

        Kernels are not imported, so their element types and devices are not compared.
        """
        found = []
        supported: dict[str, bool] = {}  # large graphs have few ops
        for node in nodes:
            name = node.op_def.name
            is_supported = supported.get(name)
            if is_supported is None:
                is_supported = supported[name] = self._is_supported(node)
            is_call = bool(node.op_def.calls) and name not in node.graph.library
            if not is_supported or (is_call and _missing_function(node) is not None):
                found.append(node)
        return found

    def _is_supported(self, node: Node) -> bool:
        """Return whether the op of a node is a function or may have a kernel."""
        # A pass may replace an op that a plugin defines without a kernel.
        is_plugins = node.op in node.graph.library or same_bundled(node.op_def) is None
        return is_plugins or self._placement.kernels.may_have(node.op_def)

    def _unsupported_error(self, node: Node) -> InvalidArgumentError:
        message = f"Cannot place operation {node.name}: {self._reason(node)}{_ADVICE}"
        return InvalidArgumentError(message, node=node.name, op_type=node.op)

    def _reason(self, node: Node) -> str:
        function = _missing_function(node)
        if function is not None:
            return f"it calls the function {function!r}, which the graph does not have"
        try:
            find_kernel(self._placement.kernels, node, self._placement.devices.host)
        except NotFoundError as error:
            return error.message
        return "it has no kernel"  # a plugin has registered one since


def _missing_function(node: Node) -> str | None:
    """Return the name of a function that a node calls once and that the graph does not have."""
    if not node.op_def.calls:
        return None
    library = node.graph.library
    for called in calls_of(node):
        is_call = called.kind is CallKind.ONCE and called.call is not BY_NAME
        if is_call and called.name not in library and library.body(called.name) is None:
            return called.name
    return None
