"""Propagate gradients backwards through a graph.

Semantics: _GradientsHelper of tensorflow/python/ops/gradients_util.py. The pass works level by
level: a level is the nodes of one frame. A whole loop is a single `Item` of the level around it,
and the loop's body is a level of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphmill.backprop.branches import branch_gradient
from graphmill.backprop.calls import call_gradient, is_call
from graphmill.backprop.control_flow_analysis import (
    Loop,
    Structure,
    is_merge_of_loop,
    is_switch_of_loop,
    is_trainable,
)
from graphmill.backprop.forward_op import ForwardOp, ShapesOfForward
from graphmill.backprop.gated import gated
from graphmill.backprop.generic import generic_gradient
from graphmill.backprop.indexed_slices import dense, total
from graphmill.backprop.loops import LoopGradient
from graphmill.errors import InvalidArgumentError
from graphmill.graph.node_roles import is_enter, is_exit, is_merge, is_switch
from graphmill.graph.scopes.attr_scopes import GRADIENT_ATTR
from graphmill.plugin.gradient_registry import NoGradientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphmill.backprop.control_flow_analysis import Output
    from graphmill.backprop.gradient_options import GradientOptions
    from graphmill.backprop.indexed_slices import Gradient
    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.plugin.gradient_declaration import GradientDef
    from graphmill.plugin.host import Host


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A node or a whole loop: the unit of the backward pass."""

    node: Node | None
    loop: Loop | None
    inputs: Sequence[Output]
    outputs: Sequence[Output]


class BackwardPass(ShapesOfForward):
    """The backward pass of one call of `gradients`.

    Attributes:
        graph: the graph.
        host: supplies gradient functions and kernels.
        structure: loops and branches of the graph before gradients are added.
        name: name of this call, unique in the graph.
        stops: outputs to treat as constants.
        options: how gradients are summed, gated and placed.
    """

    def __init__(
        self,
        graph: Graph,
        host: Host,
        name: str,
        stops: Iterable[Output],
        options: GradientOptions,
    ) -> None:
        super().__init__(graph)
        self.host = host
        self.structure = Structure(graph)
        self.name = name
        self.stops = set(stops)
        self.options = options
        self._items: dict[Any, Item] = {}
        self._definitions: dict[str, GradientDef | None] = {}

    def propagate(
        self, grads: Mapping[Output, Sequence[Gradient]], targets: Sequence[Output]
    ) -> list[Gradient | None]:
        """Return the gradients of `targets`, given those of other outputs of this graph or body.

        The gradient of a target is None if none of these outputs depends on it.
        """
        order = self.order(grads)
        reached = self.reached(order, targets)
        sums: dict[Output, list[Gradient]] = {key: list(value) for key, value in grads.items()}
        for item in reversed(order):
            output_grads = self._output_gradients(item, sums)
            has_gradient = any(value is not None for value in output_grads.values())
            if has_gradient and any(source in reached for source in item.inputs):
                for source, grad in self._input_gradients(item, output_grads, reached):
                    sums.setdefault(source, []).append(grad)
        return [self._summed(sums, target) for target in targets]

    def _output_gradients(
        self, item: Item, sums: dict[Output, list[Gradient]]
    ) -> dict[Output, Gradient | None]:
        return {
            output: None if output in self.stops else self._summed(sums, output)
            for output in item.outputs
        }

    def _input_gradients(
        self, item: Item, output_grads: dict[Output, Gradient | None], reached: set[Output]
    ) -> Sequence[tuple[Output, Gradient]]:
        """Return the gradients of those inputs of an item that are in `reached`."""
        if item.loop is not None:
            return LoopGradient(self, item.loop).build(output_grads, reached)
        node = item.node
        assert node is not None
        function = self._function(node)
        if function is None:
            return []
        required = [
            source in reached and is_trainable(source[0].output_types[source[1]])
            for source in item.inputs
        ]
        grads = [output_grads[output] for output in item.outputs]
        with self.graph.name_scope(node.name.rpartition("/")[2] + "_grad"):
            if self.options.colocate:
                with self.graph.colocate_with(node):
                    gradients = function(ForwardOp(node, self), grads, required)
            else:
                gradients = function(ForwardOp(node, self), grads, required)
            if self.options.gate:
                gradients = gated(gradients)
        return [
            (source, value)
            for source, value, is_wanted in zip(item.inputs, gradients, required, strict=True)
            if value is not None and is_wanted
        ]

    def _summed(self, sums: dict[Output, list[Gradient]], output: Output) -> Gradient | None:
        terms = sums.get(output)
        if not terms:
            return None
        if len(terms) > 1 and self.options.sequential:
            with self.graph.name_scope(f"{output[0].name}_gradient_sum"):
                sums[output] = terms = [total(terms, sequential=True)]
        elif len(terms) > 1:
            sums[output] = terms = [total(terms)]
        return terms[0]

    def _function(self, node: Node) -> Callable[..., Sequence[Any]] | None:
        """Return the function that builds a node's gradients: (op, grads, required) to a list."""
        if _is_branch(node):
            return branch_gradient
        definition = self.definition(node)
        if definition is None and is_call(node):
            return call_gradient
        if definition is None:
            return generic_gradient
        if definition.function is None:
            return None
        build, takes_slices = definition.function, definition.slices
        return lambda op, grads, _: _listed(
            op, build(op, *(grads if takes_slices else map(_dense, grads)))
        )

    def definition(self, node: Node) -> GradientDef | None:
        """Return the registered gradient of a node's op."""
        other = node.attrs.get(GRADIENT_ATTR, b"").decode()
        if other and not _has_process_local_name(other):
            return self._definition_named(other, node)
        if node.op not in self._definitions:
            self._definitions[node.op] = self.host.gradients.find(node.op_def)
        return self._definitions[node.op]

    def _definition_named(self, name: str, node: Node) -> GradientDef:
        """Return the gradient that `gradient_override_map` named for a node."""
        definition = self.host.gradients.named(name, self.graph.ops)
        if definition is None:
            raise NoGradientError(
                f"no gradient is registered as {name!r}, which the graph's gradient_override_map "
                f"named{self.host.gradients.near(name)}; declare one with "
                f"@graphmill.gradient({name!r}) and add it with host.gradients.add",
                node=node.name,
                op_type=node.op,
            )
        return definition

    # Levels.

    def order(self, ends: Iterable[Output]) -> list[Item]:
        """Return the ancestors of `ends` at their level, in topological order."""
        order: list[Item] = []
        done: set[Item] = set()
        pending: list[tuple[Item, bool]] = [
            (item, False) for end in ends if (item := self.item(end)) is not None
        ]
        while pending:
            item, is_expanded = pending.pop()
            if is_expanded:
                order.append(item)
            elif item not in done:
                done.add(item)
                pending.append((item, True))
                for source in item.inputs:
                    before = self.item(source)
                    if before is not None and before not in done:
                        pending.append((before, False))
        return order

    def item(self, output: Output) -> Item | None:
        """Return the item that computes an output at its level; None for inputs of a loop body."""
        node = output[0]
        if is_enter(node) or is_switch_of_loop(node):
            return None
        key: Any = self.structure.loop_of(node) if is_exit(node) else node
        if key not in self._items:
            if isinstance(key, Loop):
                self._items[key] = Item(None, key, key.inputs, key.outputs)
            else:
                outputs = [(node, index) for index in range(node.num_outputs)]
                self._items[key] = Item(node, None, self._inputs(node), outputs)
        return self._items[key]

    def _inputs(self, node: Node) -> list[Output]:
        if is_merge_of_loop(node):
            raise InvalidArgumentError(
                "the body of a loop uses a value that the loop's condition computes; gradients "
                "only flow through inputs of the body",
                node=node.name,
                op_type=node.op,
            )
        return node.sources

    def reached(self, order: Sequence[Item], sources: Iterable[Output]) -> set[Output]:
        """Return the outputs of a level that depend on `sources`, including `sources`."""
        visited = set(sources)
        for item in order:
            if not any(source in visited for source in item.inputs):
                continue
            if item.loop is not None:
                visited.update(self._reached_of_loop(item.loop, visited))
            elif item.node is not None and not self._is_end(item.node):
                visited.update(
                    output
                    for output in item.outputs
                    if output not in self.stops and is_trainable(item.node.output_types[output[1]])
                )
        return visited

    def _is_end(self, node: Node) -> bool:
        if _is_branch(node):
            return False
        definition = self.definition(node)
        return definition is not None and definition.function is None

    def _reached_of_loop(self, loop: Loop, reached: set[Output]) -> list[Output]:
        """Return the loop's outputs that depend on `reached`; set `loop.dependent`."""
        order = self.order(variable.result for variable in loop.variables)
        inside: set[Output] = {
            (enter, 0) for enter in loop.invariants if enter.sources[0] in reached
        }
        inside.update(v.inside for v in loop.variables if v.initial in reached)
        while True:
            visited = self.reached(order, inside)
            further = {
                v.inside
                for v in loop.variables
                if v.result in visited
                and v.inside not in visited
                and is_trainable(v.switch.output_types[1])
            }
            if not further:
                break
            inside |= visited | further
        loop.dependent = visited
        return [(v.exit, 0) for v in loop.variables if v.exit is not None and v.inside in visited]

    def needed_inside(self, ends: Iterable[Output]) -> set[Output]:
        """Return the inputs of a loop's body on which `ends` depend."""
        ends = list(ends)
        sources = {source for item in self.order(ends) for source in item.inputs}
        return {source for source in sources.union(ends) if self.item(source) is None}


def _is_branch(node: Node) -> bool:
    return is_switch(node) or is_merge(node)


def _has_process_local_name(name: str) -> bool:
    """Return whether a gradient's name ends with TensorFlow's process-local function counter.

    Only the process that wrote the graph knows what `PartitionedCall-12` refers to.
    """
    return name.rpartition("-")[2].isdecimal()


def _dense(grad: Gradient | None) -> Tensor | None:
    return None if grad is None else dense(grad)


def _listed(op: ForwardOp, gradients: Any) -> Sequence[Any]:
    """Return the result of a gradient function as a list with a gradient for each input."""
    listed = list(gradients) if type(gradients) in (list, tuple) else [gradients]
    if len(listed) != len(op.inputs):
        raise InvalidArgumentError(
            f"the gradient function of {op.type} returned {len(listed)} gradients, expected "
            f"{len(op.inputs)}, one for each input",
            node=op.name,
            op_type=op.type,
        )
    return listed
