"""Compute nodes with constant inputs before the graph runs.

Semantics: `tensorflow/core/common_runtime/constant_folding.cc`. A node whose kernel raises is not
folded: the step reports the error if it runs the node.

A node is computed on the host with NumPy, whatever its device. To get the same value, this is done
only if the node's own kernel is the host's or comes from the same supplier, whose kernels of one op
are assumed to agree. A node with a kernel of another plugin is not folded, and a
constant with a kernel of another plugin does not count as known.

No deadline applies yet, so kernels that can take long are cancelled after some seconds, and those
that ask for much memory are refused. Their nodes are left to the step.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.spi import Provenance, TensorAttr, topological_order
from graphmill.spi.graphs import is_constant
from graphmill.spi.passes import EffectsPolicy, bind_node, is_overridden, kernels_of_node
from graphmill_plugins.passes.options import is_enabled
from graphmill_plugins.passes.purity import has_pure_op, is_forwarding

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node
    from graphmill.spi.compilers import KernelChoice
    from graphmill.spi.passes import PassOptions

_MAX_BYTES: Final = 10 << 20  # TensorFlow's default of max_folded_constant_in_bytes
_MAX_SECONDS: Final = 5.0
"""The total seconds that the kernels of a graph may take."""
_TEMPORARIES: Final = 4
"""How many times the size of the largest folded result a kernel may allocate at once."""
_HOST_TYPE: Final = "CPU"
_HOST_BACKENDS: Final = ("numpy",)


def fold(graph: Graph, options: PassOptions) -> None:
    """Replace nodes whose inputs are all constants by constants."""
    if not is_enabled("constant_folding", options.config):
        return
    limit = options.config.graph_options.optimizer_options.max_folded_constant_in_bytes
    folder = _Folder(graph, options, limit if limit > 0 else _MAX_BYTES)
    for node in topological_order(graph):
        if folder.allowance.is_cancelled:
            break
        if folder.is_foldable(node):
            folder.fold(node)
    if folder.folded:
        graph.withdraw(folder.folded)
        graph.withdraw(n for n in graph.nodes if folder.is_known(n) and not n.out_edges)


class _Allowance:
    """A substitute for a step that is cancelled after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def is_cancelled(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() > self._end


class _Folder:
    """Folds nodes one by one; `values` holds the arrays of constants."""

    def __init__(self, graph: Graph, options: PassOptions, limit: int) -> None:
        self.graph = graph
        self.options = options
        self.limit = limit
        self.values: dict[Node, Any] = {}
        self._known: dict[Node, bool] = {}
        self.folded: set[Node] = set()
        self.const = options.host.ops.get("Const")
        self.allowance = _Allowance(_MAX_SECONDS)
        policy = options.effects
        own = EffectsPolicy(memory_limit=_TEMPORARIES * limit)
        self._memory_limit = policy.within(own).memory_limit
        # A session without a limit checks fewer nodes, which takes less time.
        self._policy = policy.within(own) if policy.memory_limit else policy

    def is_known(self, node: Node) -> bool:
        """Return whether a node is a constant whose value its attr states."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = _has_value(node) and not is_overridden(node, self.options)
        return known and not node.control_in_edges

    def is_foldable(self, node: Node) -> bool:
        return bool(
            node.in_edges
            and not node.control_in_edges
            and node.output_types
            and all(self.is_known(edge.src) for edge in node.in_edges)
            and all(dtype.is_numpy_compatible for dtype in node.output_types)
            and has_pure_op(node)
        )

    def fold(self, node: Node) -> None:
        source = node.in_edges[0].src
        if source.assigned_device == node.assigned_device and is_forwarding(node, self.options):
            # These are half of the nodes of a frozen graph; consumers can use the source itself.
            self.graph.redirect(node, 0, source, 0)
            self.folded.add(node)
            return
        choice = self._kernel(node)
        if choice is None:
            return
        # Few graphs have constants to fold.
        from graphmill.spi.executors import running
        from graphmill.spi.kernels import with_memory_limit

        try:
            with np.errstate(all="ignore"), running(self.allowance):
                inputs = [self._value(edge.src) for edge in node.in_edges]
                if sum(value.nbytes for value in inputs if 0 in value.strides) > self.limit:
                    return  # one stored value stands for all elements
                kernel = bind_node(node, choice, self._policy, np)
                result = with_memory_limit(self._memory_limit, kernel.compute)(*inputs)
        except Exception:  # noqa: BLE001 - the step reports the kernel's error
            return
        outputs = (result,) if node.num_outputs == 1 else tuple(result)
        if sum(_num_bytes(np.asarray(output)) for output in outputs) > self.limit:
            return
        for index, output in enumerate(outputs):
            self._replace(node, index, np.asarray(output))
        self.folded.add(node)

    def _kernel(self, node: Node) -> KernelChoice | None:
        """Return the host kernel that may fold a node; None if it must not be folded."""
        kernels = self.options.host.kernels
        choice = kernels.try_find(node.op_def, node.attrs, _HOST_TYPE, _HOST_BACKENDS)
        if choice is None:
            return None
        for own in kernels_of_node(node, self.options):
            if own is None or own.definition.effects or not _is_of_one_supplier(own, choice):
                return None
        definition = choice.definition
        return None if definition.stateful or definition.effects else choice

    def _replace(self, node: Node, index: int, value: np.ndarray[Any, Any]) -> None:
        if not any(edge.src_output == index for edge in node.out_edges):
            return
        dtype = node.output_types[index]
        name = f"{node.name}/folded" + (f"_{index}" if index else "")
        while self.graph.has_node(name):
            name += "_"
        attrs = self.const.with_defaults({"dtype": dtype, "value": TensorAttr(value, dtype)})
        constant = self.graph.add_node(name, self.const, attrs=attrs, device=node.device)
        constant.assigned_device = node.assigned_device
        self.graph.redirect(node, index, constant, 0)
        self.values[constant] = value

    def _value(self, node: Node) -> Any:
        value = self.values.get(node)
        if value is None:
            value = self.values[node] = node.attrs["value"].numpy()
        return value


def _has_value(node: Node) -> bool:
    is_value = is_constant(node) and node.output_types[0] is not dtypes.resource
    return is_value and has_pure_op(node)


def _num_bytes(value: np.ndarray[Any, Any]) -> int:
    """Return the size of a value, including the strings that it refers to."""
    if not value.dtype.hasobject:
        return value.nbytes
    texts = (len(item) for item in value.ravel().tolist() if isinstance(item, bytes))
    return value.nbytes + sum(texts)


def _is_of_one_supplier(one: KernelChoice, other: KernelChoice) -> bool:
    if one.definition is other.definition:
        return True
    owners = one.owner, other.owner
    suppliers = {owner.supplier for owner in owners if isinstance(owner, Provenance)}
    return len(suppliers) == 1 and all(isinstance(owner, Provenance) for owner in owners)
