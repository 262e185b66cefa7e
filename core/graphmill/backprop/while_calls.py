"""Gradients of functional `While`: a second `While` with as many iterations, backwards.

A copy of the forward loop saves the variables of each iteration in lists. The backward loop pops
them from the lists and calls the gradient of the body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.backprop.control_flow_analysis import is_trainable
from graphmill.backprop.function_gradient import FunctionGradient
from graphmill.graph.builder import Graph
from graphmill.graph.functions.function_body import instantiate_function
from graphmill.graph.functions.function_calls import calls_of
from graphmill.graph.functions.function_def import function_def
from graphmill.graph.node_roles import is_argument, is_result
from graphmill.ops import array, functional, math, tensor_list
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.ops.definition.op_traits import CallKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.dtypes import DType
    from graphmill.graph.tensor import Tensor

_ANY_SHAPE = -1


def while_gradient(
    op: ForwardOp, grads: Sequence[Tensor | None], required: Sequence[bool]
) -> list[Any]:
    """Return the gradients of the initial values of a loop's variables."""
    return _WhileGradient(op).build(grads, required)


@dataclass(slots=True)
class _FunctionBuilder:
    """A function under construction: its graph and its arguments."""

    graph: Graph
    args: list[Tensor]


class _WhileGradient:
    """The gradient of one `While` node; variables are referred to by their indices."""

    def __init__(self, op: ForwardOp) -> None:
        self._op = op
        self._graph = op.graph
        self._types: list[DType] = [tensor.dtype.base_dtype for tensor in op.inputs]
        functions = {one.kind: one.function for one in calls_of(op.node)}
        self._cond = functions[CallKind.LOOP_CONDITION]
        self._body = functions[CallKind.LOOP_BODY]
        body = instantiate_function(
            self._body.name, self._body.attrs, self._graph.library, op.backward_pass.host.ops
        )
        rets = sorted(filter(is_result, body.graph), key=lambda node: node.attrs["index"])
        self._is_invariant = [
            is_argument(source := ret.sources[0][0]) and source.attrs["index"] == index
            for index, ret in enumerate(rets)
        ]

    def build(self, grads: Sequence[Tensor | None], required: Sequence[bool]) -> list[Any]:
        """Return the gradients of all inputs; None for inputs without a gradient."""
        op, count = self._op, len(self._types)
        trainable = [is_trainable(dtype) for dtype in self._types]
        gradient = FunctionGradient.build(op, [self._body], trainable)
        sums = [p for p in gradient.indices if self._is_invariant[p]]
        # `flows` includes variables that the body's gradient does not reach: these get zeros.
        flows = [
            p
            for p in range(count)
            if trainable[p] and not self._is_invariant[p] and self._types[p] is not dtypes.resource
        ]
        saved = [p for p in range(count) if not self._is_invariant[p]]
        trip_count, histories = self._forward(saved)
        types = dict(zip(gradient.indices, gradient.types, strict=True))
        firsts = [op.zeros(op.outputs[p]) if (value := grads[p]) is None else value for p in flows]
        firsts += [op.zeros(op.inputs[p], types[p]) for p in sums]
        fixed = [p for p in range(count) if self._is_invariant[p]]
        variables = [trip_count, *histories, *firsts]
        results = self._backward(gradient, saved, fixed, flows, sums, variables)
        gradients: list[Any] = [None] * count
        for index, value in zip([*flows, *sums], results, strict=True):
            gradients[index] = value
        for index in fixed:  # an invariant's output is its input: add the output's gradient
            direct = grads[index]
            if direct is not None:
                summed = gradients[index]
                gradients[index] = direct if summed is None else math.add_n([summed, direct])
        return [value if use else None for value, use in zip(gradients, required, strict=True)]

    def _forward(self, saved: list[int]) -> tuple[Tensor, list[Tensor]]:
        """Repeat the loop; return the trip count and the lists of the variables `saved`."""
        op, count = self._op, len(self._types)
        lists = [
            tensor_list.empty_tensor_list(_ANY_SHAPE, -1, element_dtype=self._types[p])
            for p in saved
        ]
        inputs = [self._graph.constant(0), *op.inputs, *lists]
        types = [tensor.dtype.base_dtype for tensor in inputs]

        def cond(part: _FunctionBuilder) -> list[Tensor]:
            return _call(self._cond, part.args[1 : 1 + count], [dtypes.bool])

        def body(part: _FunctionBuilder) -> list[Tensor]:
            values = part.args[1 : 1 + count]
            pushed = [
                tensor_list.tensor_list_push_back(saved_list, values[p])
                for p, saved_list in zip(saved, part.args[1 + count :], strict=True)
            ]
            return [part.args[0] + 1, *_call(self._body, values, self._types), *pushed]

        results = functional.while_(
            inputs,
            cond=self._function("cond_forward", types, cond),
            body=self._function("body_forward", types, body),
        )
        return results[0], results[1 + count :]

    def _backward(
        self,
        gradient: FunctionGradient,
        saved: list[int],
        fixed: list[int],
        flows: list[int],
        sums: list[int],
        variables: list[Tensor],
    ) -> list[Tensor]:
        op = self._op
        inputs = [*variables, *(op.inputs[p] for p in fixed)]
        types = [tensor.dtype.base_dtype for tensor in inputs]
        ends = [1, 1 + len(saved), 1 + len(saved) + len(flows)]
        ends.append(ends[-1] + len(sums))

        def cond(part: _FunctionBuilder) -> list[Tensor]:
            return [part.args[0] > 0]

        def body(part: _FunctionBuilder) -> list[Tensor]:
            values: dict[int, Tensor] = dict(zip(fixed, part.args[ends[3] :], strict=True))
            rests = []
            for p, total in zip(saved, part.args[ends[0] : ends[1]], strict=True):
                popped = tensor_list.tensor_list_pop_back(
                    total, _ANY_SHAPE, element_dtype=self._types[p]
                )
                values[p] = popped.tensor
                rests.append(popped.output_handle)
            grads = dict(zip(flows, part.args[ends[1] : ends[2]], strict=True))
            args = [values[p] for p in range(len(self._types))]
            args += [
                grads[p] if p in grads else array.zeros_like(values[p])
                for p, dtype in enumerate(self._types)
                if is_trainable(dtype) and dtype is not dtypes.resource
            ]
            gradients = gradient.spread(
                _call(FuncAttr(gradient.names[0], {}), args, gradient.types)
            )
            following = [
                array.zeros_like(grads[p]) if gradients[p] is None else gradients[p] for p in flows
            ]
            added = [
                math.add_n([total, gradients[p]])
                for p, total in zip(sums, part.args[ends[2] : ends[3]], strict=True)
            ]
            return [part.args[0] - 1, *rests, *following, *added, *part.args[ends[3] :]]

        results: list[Tensor] = functional.while_(
            inputs,
            cond=self._function("cond_gradient", types, cond),
            body=self._function("body_gradient", types, body),
        )
        return results[ends[1] : ends[3]]

    def _function(
        self, suffix: str, types: Sequence[DType], build: Callable[[_FunctionBuilder], list[Tensor]]
    ) -> FuncAttr:
        """Add a function to the library; `build` adds its nodes and returns its results."""
        graph = Graph(self._graph.ops)
        graph.library = self._graph.library
        with graph.as_default():
            args = [graph.placeholder(dtype, name="arg") for dtype in types]
            results = build(_FunctionBuilder(graph, args))
        name = f"{self._body.name}_{suffix}_{len(self._graph.library)}"
        definition = function_def(
            name, graph, [arg.op for arg in args], [(r.op, r.value_index) for r in results]
        )
        self._graph.library.add(definition)
        return FuncAttr(name, {})


def _call(function: FuncAttr, args: Sequence[Tensor], types: Sequence[DType]) -> list[Tensor]:
    outputs: list[Tensor] = functional.stateful_partitioned_call(args, Tout=list(types), f=function)
    return outputs
