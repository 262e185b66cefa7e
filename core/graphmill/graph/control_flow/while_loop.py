"""`while_loop`: build a loop from `Enter`, `Merge`, `Switch`, `NextIteration` and `Exit` nodes.

    i, total = graphmill.while_loop(
        lambda i, total: i < 10, lambda i, total: (i + 1, total + i), [0, 0]
    )

Semantics: tf.compat.v1.while_loop with control flow v2 disabled,
tensorflow/python/ops/while_loop.py, and WhileContext of control_flow_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.graph.control_flow.cond_context import switch
from graphmill.graph.control_flow.while_context import WhileContext
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.structures import check_same, flatten, flatten_with_paths, is_structure, pack
from graphmill.ops import array, control_flow, math
from graphmill.ops.inputs import values
from graphmill.ops.inputs.default_graph import SymbolicTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeat `body` while `cond` is true, when the graph runs.

        i, total = graphmill.while_loop(
            lambda i, total: i < 5, lambda i, total: (i + 1, total + i), [F.constant(0), 0]
        )
        print(session.run(total))  # 10

    Both functions are called once, now, with a tensor for each loop variable. They may use any
    tensor from outside.

    Args:
        cond: takes the loop variables, returns a scalar bool tensor.
        body: takes the loop variables, returns their next values, in the same number, structure and
            types, as a list or tuple. A single variable may be returned without a list.
        loop_vars: initial values: tensors, values, and structures of these.
        shape_invariants: accepted for compatibility with TensorFlow and ignored: any loop variable
            may change its shape.
        parallel_iterations: the maximum number of iterations in flight.
        back_prop: whether the loop must support gradients.
        swap_memory: whether values that gradients need may be swapped to host memory.
        name: name of the scope of the added nodes, by default `while`.
        maximum_iterations: the maximum number of iterations: an int, or a scalar integer tensor.
        return_same_structure: whether a single tensor stays in its list or tuple.

    Returns:
        The last values, in the structure that `body` returned; a single tensor without a list.

    Raises:
        InvalidArgumentError: there are no loop variables, `cond` does not return a bool tensor,
            `body` returns another structure or other types, or a tensor of another loop or branch
            is used.
        FailedPreconditionError: no loop variable is a tensor and there is no default graph.
    """
    del shape_invariants
    _check_arguments(cond, body, loop_vars, parallel_iterations)
    graph = infer_graph(loop_vars, maximum_iterations)
    with graph.as_default(), graph.name_scope(name or "while"):
        limit = None if maximum_iterations is None else _Limit(graph, maximum_iterations)
        context = WhileContext(graph, parallel_iterations, back_prop, swap_memory)
        loop = _Loop(context, cond, body, list(loop_vars), limit)
        exits = loop.build()
    packed = pack(loop.result, exits)
    is_alone = len(loop_vars) == 1 and (limit is not None or len(exits) == 1)
    return packed[0] if is_alone and not return_same_structure else packed


class _Limit:
    """The maximum number of iterations, and a counter, which becomes the first loop variable.

    Attributes:
        maximum: the maximum, a tensor outside of the loop.
        counter: the counter's initial value.
    """

    def __init__(self, graph: Graph, limit: Any) -> None:
        self.maximum = graph.convert(limit, name="maximum_iterations")
        if not self.maximum.dtype.base_dtype.is_integer:
            raise InvalidArgumentError(
                f"maximum_iterations is {self.maximum.dtype.name}, expected an integer"
            )
        self.counter = graph.constant(0, self.maximum.dtype.base_dtype, name="iteration_counter")


class _Loop:
    """A loop that is being built.

    Attributes:
        result: the result of the user's body; a single variable is put into a list.
    """

    def __init__(
        self,
        context: WhileContext,
        cond: Callable[..., Any],
        body: Callable[..., Any],
        variables: list[Any],
        limit: _Limit | None,
    ) -> None:
        self.context = context
        self.graph = context.graph
        self.cond = cond
        self.body = body
        self.variables = variables
        self.limit = limit
        self.result: Any = None

    def build(self) -> list[Tensor]:
        """Add the loop; return the `Exit` tensors of the variables' leaves."""
        context = self.context
        initial = [self._initial(*leaf) for leaf in self._paths()]
        with self.graph.control_flow.entered(context):
            entered = self._enter(initial)
            merges = [control_flow.merge([enter, enter]).output for enter in entered]
            context.pivot = merges[0]
            condition = control_flow.loop_cond(self._test(merges), name="LoopCond")
            switches = [switch(merge, condition) for merge in merges]
            inside = [array.identity(when_true) for _, when_true in switches]
            context.pivot = inside[0]
            for merge, value in zip(merges, self._next_values(inside), strict=True):
                self.graph.replace_input(merge.op, 1, value.op, value.value_index)
            exits = [control_flow.exit(when_false) for when_false, _ in switches]
        return exits if self.limit is None else exits[1:]

    def _paths(self) -> list[tuple[str, Any]]:
        leaves = flatten_with_paths(self.variables, "loop_vars")
        if self.limit is not None:
            leaves.insert(0, ("the counter of maximum_iterations", self.limit.counter))
        return leaves

    def _initial(self, path: str, value: Any) -> Tensor:
        """Return a variable's initial value as a tensor of the enclosing context."""
        try:
            tensor = self.graph.convert(value)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{path}: {error.message}") from None
        self.graph.control_flow.check_use(tensor, path)
        # A loop variable is a value; an initial value that is a ref is read first.
        return array.identity(tensor, name="read") if tensor.dtype.is_ref else tensor

    def _enter(self, initial: list[Tensor]) -> list[Tensor]:
        outer = self.context.outer
        captured = initial if outer is None else [outer.capture(tensor) for tensor in initial]
        return [self.context.enter_variable(tensor) for tensor in captured]

    def _test(self, merges: list[Tensor]) -> Tensor:
        counter, packed = self._packed(merges)
        below = counter < self.limit.maximum if self.limit is not None else None
        condition = self.cond(*packed)
        try:
            test = self.graph.convert(condition, dtypes.bool)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"cond must return a scalar bool tensor: {error.message}"
            ) from None
        return test if below is None else math.logical_and(below, test)

    def _next_values(self, inside: list[Tensor]) -> list[Tensor]:
        """Build the body; return the `NextIteration` of each leaf."""
        counter, packed = self._packed(inside)
        following = [counter + 1] if self.limit is not None else []
        self.result = _in_list(self.body(*packed), len(self.variables))
        self._check_result()
        leaves = flatten_with_paths(self.result, "the result of body")
        expected = zip(self._paths()[len(following) :], inside[len(following) :], strict=True)
        for (path, value), ((variable, _), tensor) in zip(leaves, expected, strict=True):
            following.append(self._next_value(path, value, variable, tensor))
        return [control_flow.next_iteration(tensor) for tensor in following]

    def _next_value(self, path: str, value: Any, variable: str, inside: Tensor) -> Tensor:
        dtype = inside.dtype
        try:
            is_weak = not isinstance(value, SymbolicTensor) and values.is_weak(value)
            tensor = self.graph.convert(value, dtype if is_weak else None)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{path}, for {variable}: {error.message}") from None
        if tensor.dtype.base_dtype is not dtype:
            raise InvalidArgumentError(
                f"{variable} is {dtype.name} when it enters {self.context}, but {path} is "
                f"{tensor.dtype.base_dtype.name} ({tensor.name!r}); a loop variable keeps its "
                "type: cast one of the two with graphmill.ops.math.cast"
            )
        return tensor

    def _check_result(self) -> None:
        results = list(self.result)
        if len(results) != len(self.variables):
            raise InvalidArgumentError(
                f"body returned {len(results)} values, expected {len(self.variables)}, one for "
                "each loop variable"
            )
        for index, (variable, value) in enumerate(zip(self.variables, results, strict=True)):
            check_same(variable, value, f"the result of body[{index}]", f"loop_vars[{index}]")

    def _packed(self, leaves: list[Tensor]) -> tuple[Any, list[Any]]:
        """Return the counter, if there is one, and the variables for the user's functions."""
        if self.limit is None:
            return None, pack(self.variables, leaves)
        return leaves[0], pack(self.variables, leaves[1:])


def _in_list(result: Any, count: int) -> Any:
    """Return the result of a body as a list or tuple of loop variables.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if result is None:
        raise InvalidArgumentError(
            f"body returned None, expected the next values of {count} loop variables"
        )
    is_sequence = isinstance(result, (list, tuple))
    if count == 1 and not (is_sequence and len(result) == 1):
        return [result]
    if not is_sequence:
        kind = "structure" if is_structure(result) else "value"
        raise InvalidArgumentError(
            f"body returned one {kind}, {result!r}, expected a list or tuple of {count} loop "
            "variables"
        )
    return result


def _check_arguments(cond: object, body: object, loop_vars: Any, parallel_iterations: int) -> None:
    for name, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise InvalidArgumentError(
                f"{name} is {function!r}, expected a function of the loop variables"
            )
    if not isinstance(loop_vars, (list, tuple)):
        raise InvalidArgumentError(
            f"loop_vars is {type(loop_vars).__name__}, expected a list or tuple of loop variables"
        )
    if not flatten(loop_vars):
        raise InvalidArgumentError("loop_vars has no tensors; a loop needs at least one variable")
    if not isinstance(parallel_iterations, int) or parallel_iterations < 1:
        raise InvalidArgumentError(
            f"parallel_iterations is {parallel_iterations!r}, expected an int of at least 1"
        )
