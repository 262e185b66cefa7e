"""Gradients of loops: a second loop that runs the same number of iterations, backwards.

Tensor lists save the forward values that the body's gradients need. Each list is an additional
variable of the forward loop, to which every iteration pushes, and of the backward loop, from which
every iteration pops. Lists are values, so they nest, and the loops remain stateless.

Semantics: WhileContext and ControlFlowState of tensorflow/python/ops/control_flow_state.py, which
saves the values on stacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.backprop.control_flow_analysis import is_trainable
from graphmill.backprop.indexed_slices import IndexedSlices, dense
from graphmill.errors import InternalError
from graphmill.graph.control_flow.cond_context import switch
from graphmill.graph.control_flow.while_context import WhileContext, is_invariant
from graphmill.graph.node_roles import is_constant
from graphmill.graph.tensor import Tensor
from graphmill.ops import array, control_flow, math, tensor_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.backprop.backward_pass import BackwardPass
    from graphmill.backprop.control_flow_analysis import Branch, Loop, LoopVariable, Output
    from graphmill.backprop.indexed_slices import Gradient
    from graphmill.graph.builder import Graph
    from graphmill.graph.control_flow.control_flow_context import ControlFlowContext

_ANY_SHAPE = -1


class _Variable:
    """An added loop variable: `inside` is its value, `close` sets that of the next iteration."""

    def __init__(self, context: WhileContext, loop_cond: Tensor, initial: Tensor) -> None:
        self._graph = context.graph
        outer = context.outer
        captured = initial if outer is None else outer.capture(initial)
        enter = context.enter_variable(captured)
        with self._graph.control_flow.entered(context):
            self._merge = control_flow.merge([enter, enter]).output
            when_false, when_true = switch(self._merge, loop_cond)
            self.inside = array.identity(when_true)
        self.context = context
        self._when_false = when_false

    def close(self, following: Tensor) -> None:
        """Set the value of the next iteration."""
        with self._graph.control_flow.entered(self.context):
            back = control_flow.next_iteration(following)
        self._graph.replace_input(self._merge.op, 1, back.op, back.value_index)

    def exit(self) -> Tensor:
        """Return the final value, outside the loop."""
        with self._graph.control_flow.entered(self.context):
            return control_flow.exit(self._when_false)


class ForwardLoop:
    """A loop that counts its iterations and saves their values, for its gradient."""

    def __init__(self, backward: BackwardPass, loop: Loop) -> None:
        self.graph = backward.graph
        self.structure = backward.structure
        context = self.graph.control_flow.context_of(loop.loop_cond)
        if not isinstance(context, WhileContext):
            raise InternalError(
                "the LoopCond of a loop has no WhileContext", node=loop.loop_cond.name
            )
        self.context: WhileContext = context
        self._loop_cond = Tensor(loop.loop_cond)
        self._depth = len(self.structure.branches((loop.loop_cond, 0)))
        self._histories: dict[Tensor, Tensor] = {}

    def count(self) -> Tensor:
        """Add a counter of the iterations; return its final value, outside the loop."""
        with self.graph.control_dependencies(None):
            counter = self._variable(0, "count")
            with self.graph.control_flow.entered(self.context):
                following = counter.inside + 1
            counter.close(following)
            return counter.exit()

    def history(self, tensor: Tensor) -> Tensor:
        """Return the list of a tensor's values in all iterations, outside the loop."""
        if tensor not in self._histories:
            with self.graph.control_dependencies(None):
                self._histories[tensor] = self._saved(tensor)
        return self._histories[tensor]

    def branches(self, tensor: Tensor) -> tuple[Branch, ...]:
        """Return the branches within the loop's body that contain a tensor, outermost first."""
        return self.structure.branches((tensor.op, tensor.value_index))[self._depth :]

    def _saved(self, tensor: Tensor) -> Tensor:
        flow = self.graph.control_flow
        with flow.entered(self.context):
            live = self._live(tensor)
        with flow.entered(self.context.outer):
            empty = _empty_list(live.dtype.base_dtype)
        history = self._variable(empty, "history")
        with flow.entered(self.context):
            pushed = tensor_list.tensor_list_push_back(history.inside, live)
        history.close(pushed)
        return history.exit()

    def _variable(self, initial: Any, name: str) -> _Variable:
        with self.graph.control_flow.entered(self.context.outer):
            first = self.graph.convert(initial, name=name)
        return _Variable(self.context, self._loop_cond, first)

    def _live(self, tensor: Tensor) -> Tensor:
        """Return a tensor that is alive in every iteration, a dummy if its branch is not taken.

        So every iteration pushes one element, and the backward loop pops the matching one.
        """
        for predicate, branch in reversed(self.branches(tensor)):
            other = switch(self._placeholder_value(tensor), Tensor(*predicate))[1 - branch]
            tensor = control_flow.merge([other, tensor]).output
        return tensor

    def _placeholder_value(self, tensor: Tensor) -> Tensor:
        dtype = tensor.dtype.base_dtype
        if dtype.name == "variant":
            return _empty_list("float32")
        value = {"s": b"", "b": False}.get(dtype.kind, 0)
        return self.graph.constant(value, dtype)


class BackwardContext(WhileContext):
    """A backward loop, which pops values of the forward loop's body from lists."""

    def __init__(self, graph: Graph, forward: ForwardLoop) -> None:
        super().__init__(graph, forward.context.parallel_iterations)
        self._forward = forward
        self.loop_cond: Tensor | None = None

    def capture(self, tensor: Tensor) -> Tensor:
        """Return the tensor that stands for `tensor` inside the loop."""
        if self.holds(tensor) or tensor in self._captures:
            return super().capture(tensor)
        if not self._is_of_forward(tensor):
            return super().capture(tensor)
        if is_invariant(tensor):
            self._captures[tensor] = self.capture(_source_of(tensor))
        elif is_constant(tensor.op):
            self._captures[tensor] = self.capture(self._copied(tensor))
        else:
            self._captures[tensor] = self._popped(tensor)
        return self._captures[tensor]

    def variable(self, initial: Tensor) -> _Variable:
        """Add a loop variable."""
        if self.loop_cond is None:
            raise InternalError(f"{self} has no condition yet")
        return _Variable(self, self.loop_cond, initial)

    def _is_of_forward(self, tensor: Tensor) -> bool:
        context = self.graph.control_flow.home_of(tensor.op)
        return context is not None and context.is_within(self._forward.context)

    def _copied(self, tensor: Tensor) -> Tensor:
        with self.graph.control_dependencies(None):
            return Tensor(self.graph.create_op(tensor.op.op_def, (), tensor.op.attrs))

    def _popped(self, tensor: Tensor) -> Tensor:
        history = self._forward.history(tensor)
        with self.graph.control_dependencies(None):
            rest = self.variable(history)
            with self.graph.control_flow.entered(self):
                popped = tensor_list.tensor_list_pop_back(
                    rest.inside, _ANY_SHAPE, element_dtype=tensor.dtype.base_dtype
                )
            rest.close(popped.output_handle)
        return self._as_live(tensor, popped.tensor)

    def _as_live(self, tensor: Tensor, popped: Tensor) -> Tensor:
        """Restore the deadness of a popped value: make it alive only if its branches are taken."""
        for predicate, branch in self._forward.branches(tensor):
            taken = self.capture(Tensor(*predicate))
            with self.graph.control_dependencies(None), self.graph.control_flow.entered(self):
                popped = switch(popped, taken)[branch]
        return popped


def _source_of(tensor: Tensor) -> Tensor:
    """Return the input of the constant `Enter` whose output is a tensor."""
    return Tensor(*tensor.op.sources[0])


class LoopGradient:
    """Build the backward loop of one loop."""

    def __init__(self, backward: BackwardPass, loop: Loop) -> None:
        self._backward = backward
        self._loop = loop
        self._graph = backward.graph

    def build(
        self, exit_grads: Mapping[Output, Gradient | None], reached: set[Output]
    ) -> list[tuple[Output, Gradient]]:
        """Return the gradients of the loop's inputs from outside, given those of its exits."""
        loop, backward = self._loop, self._backward
        active = self._active(exit_grads)
        if not active:
            return []
        forward = ForwardLoop(backward, loop)
        with self._graph.name_scope("while_grad"):
            count = forward.count()
            firsts = [self._first(variable, exit_grads) for variable in active]
            context = BackwardContext(self._graph, forward)
            counter = self._begin(context, count)
            variables = [context.variable(first) for first in firsts]
            invariants = [
                enter
                for enter in loop.invariants
                if (enter, 0) in loop.dependent and is_trainable(enter.output_types[0])
            ]
            with self._graph.control_flow.entered(context):
                ends: dict[Output, list[Gradient]] = {}
                for variable, inner in zip(active, variables, strict=True):
                    ends.setdefault(variable.result, []).append(inner.inside)
                targets = [variable.inside for variable in active]
                targets += [(enter, 0) for enter in invariants]
                gradients = backward.propagate(ends, targets)
                counter.close(counter.inside - 1)
            self._close(variables, gradients)
            sums = self._sums(context, invariants, gradients[len(active) :])
        results: list[tuple[Output, Gradient]] = [
            (variable.initial, inner.exit())
            for variable, inner in zip(active, variables, strict=True)
            if variable.initial in reached
        ]
        return results + sums

    def _active(self, exit_grads: Mapping[Output, Gradient | None]) -> list[LoopVariable]:
        """Return the variables between the exits' gradients and the tensors to differentiate by."""
        loop = self._loop
        active = {
            v.inside for v in loop.variables if v.exit and exit_grads.get((v.exit, 0)) is not None
        }
        while True:
            ends = [v.result for v in loop.variables if v.inside in active]
            further = self._backward.needed_inside(ends) - active
            if not further:
                break
            active |= further
        return [
            v
            for v in loop.variables
            if v.inside in active
            and v.inside in loop.dependent
            and is_trainable(v.switch.output_types[1])
        ]

    def _first(
        self, variable: LoopVariable, exit_grads: Mapping[Output, Gradient | None]
    ) -> Tensor:
        """Return the gradient of a variable's final value; zeros if nothing uses it."""
        exit_ = variable.exit
        grad = exit_grads.get((exit_, 0)) if exit_ is not None else None
        if grad is not None:
            return dense(grad)
        if exit_ is None:
            flow = self._graph.control_flow
            context = flow.context_of(variable.switch)
            with self._graph.control_dependencies(None), flow.entered(context):
                exit_ = control_flow.exit(Tensor(variable.switch, 0)).op
        return self._backward.zeros(Tensor(exit_))

    def _begin(self, context: BackwardContext, count: Tensor) -> _Variable:
        graph = self._graph
        outer = context.outer
        captured = count if outer is None else outer.capture(count)
        with graph.control_flow.entered(context):
            enter = context.enter_variable(captured)
            merge = control_flow.merge([enter, enter]).output
            context.pivot = merge
            context.loop_cond = control_flow.loop_cond(merge > 0)
            counter = _Counter(context, merge, context.loop_cond)
            context.pivot = counter.inside
        return counter

    def _close(self, variables: list[_Variable], gradients: list[Gradient | None]) -> None:
        for inner, value in zip(variables, gradients, strict=False):
            with self._graph.control_flow.entered(inner.context):
                following = array.zeros_like(inner.inside) if value is None else dense(value)
            inner.close(following)

    def _sums(
        self, context: BackwardContext, invariants: list[Any], gradients: list[Gradient | None]
    ) -> list[tuple[Output, Gradient]]:
        """Return the sums of the gradients of invariants over all iterations."""
        sums: list[tuple[Output, Gradient]] = []
        for enter, value in zip(invariants, gradients, strict=True):
            if isinstance(value, IndexedSlices):
                sums.append((enter.sources[0], self._all_rows(context, enter, value)))
            elif value is not None:
                sums.append((enter.sources[0], self._sum(context, enter, value)))
        return sums

    def _sum(self, context: BackwardContext, enter: Any, value: Tensor) -> Tensor:
        flow = self._graph.control_flow
        with flow.entered(context.outer):
            zeros = self._backward.zeros(Tensor(*enter.sources[0]), value.dtype.base_dtype)
        total = context.variable(zeros)
        with flow.entered(context):
            following = math.add_n([total.inside, value])
        total.close(following)
        return total.exit()

    def _all_rows(
        self, context: BackwardContext, enter: Any, value: IndexedSlices
    ) -> IndexedSlices:
        """Collect the rows of each iteration in lists, and concatenate them after the loop."""
        flow, graph = self._graph.control_flow, self._graph
        with flow.entered(context.outer):
            shape = self._backward.shape(Tensor(*enter.sources[0]))
            inner = shape[1:]
            none = array.concat_v2([graph.constant([0]), inner], 0)
        joined = []
        for part, size, rest in (
            (value.values, none, inner),
            (value.indices, graph.constant([0]), graph.constant([], "int32")),
        ):
            dtype = part.dtype.base_dtype
            with flow.entered(context.outer):
                # An initial element without rows defines the shape if there are no iterations.
                first = array.fill(size, graph.constant(0, dtype))
                begun = tensor_list.tensor_list_push_back(_empty_list(dtype), first)
            rows = context.variable(begun)
            with flow.entered(context):
                pushed = tensor_list.tensor_list_push_back(rows.inside, part)
            rows.close(pushed)
            whole = rows.exit()
            with flow.entered(context.outer):
                shape_of_part = array.concat_v2([graph.constant([-1]), rest], 0)
                joined.append(
                    tensor_list.tensor_list_concat_v2(
                        whole, shape_of_part, graph.constant([], "int64"), element_dtype=dtype
                    ).tensor
                )
        return IndexedSlices(joined[0], joined[1], shape)


class _Counter(_Variable):
    """The variable of a backward loop that counts the remaining iterations, for the condition."""

    def __init__(self, context: WhileContext, merge: Tensor, loop_cond: Tensor) -> None:
        self._graph = context.graph
        self.context = context
        self._merge = merge
        self._when_false, when_true = switch(merge, loop_cond)
        self.inside = array.identity(when_true)


def _empty_list(dtype: Any) -> Tensor:
    empty_list: Tensor = tensor_list.empty_tensor_list(_ANY_SHAPE, -1, element_dtype=dtype)
    return empty_list


def restore_contexts(backward: BackwardPass) -> None:
    """Restore the control flow contexts of loops in an imported graph."""
    flow = backward.graph.control_flow
    contexts: dict[Any, ControlFlowContext] = {}
    for path in backward.structure.paths:
        loop = backward.structure.loop(path)
        context = flow.context_of(loop.loop_cond)
        if context is None:
            context = _restored(backward, loop, contexts.get(path[:-1]))
        contexts[path] = context


def _restored(backward: BackwardPass, loop: Loop, outer: ControlFlowContext | None) -> WhileContext:
    graph = backward.graph
    with graph.control_dependencies(None), graph.control_flow.entered(outer):
        enter = (loop.invariants + [v.enter for v in loop.variables])[0]
        context = WhileContext(graph, enter.attrs["parallel_iterations"])
    context.name = loop.path[-1]
    flow = graph.control_flow
    for node in backward.structure.members(loop.path) + backward.structure.enters(loop.path):
        flow.put(node, context)
    with graph.control_dependencies(None):
        pivot = array.identity(Tensor(loop.variables[0].switch, 1))
    flow.put(pivot.op, context)
    context.pivot = pivot
    return context
