"""Tensors of a graph that must not be fed, and nodes that must not be fetched.

Semantics: Graph.prevent_feeding and Graph.prevent_fetching of tensorflow/python/framework/ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidValueError
from graphmill.graph.node import Node, parse_tensor_name
from graphmill.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable


class ProtectedTensors:
    """The tensors that sessions refuse to feed, and the nodes that they refuse to fetch.

    Attributes:
        has_protected: whether there is any.
    """

    def __init__(self) -> None:
        self.has_protected = False
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Node] = set()
        super().__init__()

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Make sessions refuse to feed a tensor."""
        self._unfeedable.add(tensor)
        self.has_protected = True

    def is_feedable(self, tensor: Tensor) -> bool:
        """Return whether sessions may feed a tensor."""
        return tensor not in self._unfeedable

    def prevent_fetching(self, op: Node) -> None:
        """Make sessions refuse to fetch the outputs of a node, or to run it as a target."""
        self._unfetchable.add(op)
        self.has_protected = True

    def is_fetchable(self, tensor_or_op: Tensor | Node) -> bool:
        """Return whether sessions may fetch a tensor or run a node."""
        node = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return node not in self._unfetchable

    def check_protected(self, feeds: Iterable[str], fetches: Iterable[str]) -> None:
        """Check that the feeds and fetches of a step are not protected.

        Args:
            feeds: names of the fed tensors.
            fetches: names of the fetched tensors, and of the nodes to run.

        Raises:
            InvalidArgumentError: one is protected.
        """
        unfeedable = {tensor.name for tensor in self._unfeedable}
        unfetchable = {node.name for node in self._unfetchable}
        for name in feeds:
            if name in unfeedable:
                raise InvalidValueError(
                    f"Tensor {name} may not be fed: graph.prevent_feeding protects it"
                )
        for name in fetches:
            node_name: Any = parse_tensor_name(name)[0]
            if node_name in unfetchable:
                raise InvalidValueError(
                    f"Operation {node_name!r} has been marked as not fetchable by "
                    "graph.prevent_fetching"
                )
