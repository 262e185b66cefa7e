"""Lower `If`, `Case` and `While` to v1 control flow in graphs that run on several tasks.

A function runs on one task, but the nodes of a branch or of a loop's body may be placed on several.
So their nodes become nodes of the graph, which is partitioned by task. Calls of functions with
nodes that request tasks, or that are lowered themselves, are inlined for the same reason. In a
single process functions are called, and nothing is lowered. Nor is a node whose kernel is of
another supplier than its op's: the kernel may do more than call the functions.

Semantics: `lower_functional_ops.cc`, `lower_if_op.cc`, `lower_case_op.cc` and `lower_while_op.cc`
in tensorflow/core/common_runtime; the attr `_lower_using_switch_merge` requests the lowering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill import dtypes
from graphmill.errors import OpError
from graphmill.spi import CallKind
from graphmill.spi.graphs import NEVER_DEAD_ATTR, ancestors, calls_of, requested_executor
from graphmill.spi.passes import BodyCopy, free_name_in, function_with_effects, is_overridden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill.spi import FuncAttr, Graph, Node
    from graphmill.spi.graphs import FunctionBody
    from graphmill.spi.passes import PassOptions

    Value = tuple[Node, int]

_ATTR: Final = "_lower_using_switch_merge"
_MAX_NODES: Final = 1_000_000
_MAX_DEPTH: Final = 50
_BRANCHES: Final = {CallKind.BRANCH}
_LOOP: Final = {CallKind.LOOP_CONDITION, CallKind.LOOP_BODY}


def lower_functional_ops(graph: Graph, options: PassOptions) -> None:
    """Lower the functional ops that need it, at any depth, in a graph for several tasks."""
    # Each node with the functions that it was copied from; recursive calls are not inlined.
    pending: list[tuple[Node, tuple[str, ...]]] = [(node, ()) for node in graph.nodes]
    while pending:
        node, chain = pending.pop()
        if len(graph) > _MAX_NODES or len(chain) >= _MAX_DEPTH:
            return
        lower = _lowering_of(node, options)
        names = tuple(called.name for called in calls_of(node))
        if lower is None or set(names) & set(chain):
            continue
        try:
            copies = lower(_Call(graph, node, options))
        except OpError:
            continue  # a function is missing or malformed: the node reports that when it is run
        pending.extend((copy, (*chain, *names)) for one in copies for copy in one.nodes.values())


def _lowering_of(node: Node, options: PassOptions) -> Callable[[_Call], list[BodyCopy]] | None:
    """Return the lowering of a node; None if it is not lowered."""
    called = calls_of(node)
    kinds = {one.kind for one in called}
    if node.op not in node.graph.library and kinds and is_overridden(node, options):
        return None
    if node.attrs.get(_ATTR):
        if kinds == _BRANCHES:
            return _lower_branches
        return _lower_loop if kinds == _LOOP and _is_plain_loop(node) else None
    is_call = kinds == {CallKind.ONCE} and len(called) == 1 and not called[0].call.first_input
    is_call = is_call and not requested_executor(node)
    return _inline if is_call and _asks_for_tasks(called[0].function, node, options, ()) else None


def _is_plain_loop(node: Node) -> bool:
    """Return whether a loop returns its inputs, at least one of them changed."""
    first = {one.call.first_input for one in calls_of(node)}
    is_counted = any(one.call.counted for one in calls_of(node))
    changes = any(dtype.base_dtype is not dtypes.resource for dtype in node.input_types)
    return first == {0} and not is_counted and changes


def _asks_for_tasks(
    function: FuncAttr, node: Node, options: PassOptions, chain: tuple[str, ...]
) -> bool:
    """Return whether a function has, at any depth, nodes that name tasks or are lowered."""
    if function.name in chain or len(chain) >= _MAX_DEPTH:
        return False
    try:
        body = function_with_effects(function.name, function.attrs, node.graph.library, options)
    except OpError:
        return False
    chain = (*chain, function.name)
    return any(
        "/task:" in inner.device
        or inner.attrs.get(_ATTR)
        or any(
            one.kind is CallKind.ONCE and _asks_for_tasks(one.function, node, options, chain)
            for one in calls_of(inner)
        )
        for inner in body.graph.nodes
    )


class _Call:
    """A node that calls functions, and its replacement in the graph."""

    def __init__(self, graph: Graph, node: Node, options: PassOptions) -> None:
        self.graph = graph
        self.node = node
        self.options = options
        self.inputs: list[Value] = node.sources
        self.control = [e.src for e in node.control_in_edges if e.src is not graph.source]
        self.bodies = [self._body(one.function) for one in calls_of(node)]

    def add(
        self,
        op: str,
        name: str,
        inputs: Sequence[Value] = (),
        control: Iterable[Node] = (),
        **attrs: Any,
    ) -> Node:
        """Add a node on the call's requested device."""
        op_def = self.options.host.ops.get(op)
        return self.graph.add_node(
            free_name_in(self.graph, self.node.name, name),
            op_def,
            inputs,
            control,
            op_def.with_defaults(attrs),
            self.node.device,
        )

    def forward(self, name: str, value: Value, control: Iterable[Node] = ()) -> Node:
        """Add an `Identity` of a value."""
        return self.add("Identity", name, [value], control, T=dtype_of(value))

    def copy(
        self, body: FunctionBody, scope: str, args: Sequence[Value], before: Node | None
    ) -> BodyCopy:
        """Copy a body; nodes without a requested device get that of the call."""

        def request(node: Node) -> str:
            is_elsewhere = any(t.base_dtype is dtypes.resource for t in node.input_types)
            return node.device or ("" if is_elsewhere else self.node.device)

        name = f"{self.node.name}/{scope}" if scope else self.node.name
        return BodyCopy(self.graph, name, body, args, before, request)

    def replace(self, results: Sequence[Value], executed: Node) -> None:
        """Redirect the consumers of the node to `results`, and its waiters to `executed`."""
        followers = [edge.dst for edge in self.node.out_edges if edge.is_control]
        for output, (src, src_output) in enumerate(results):
            self.graph.redirect(self.node, output, src, src_output)
        for follower in followers:
            if follower is not self.graph.sink:
                self.graph.add_control_edge(executed, follower)
        self.graph.withdraw([self.node])

    def _body(self, function: FuncAttr) -> FunctionBody:
        library = self.node.graph.library
        return function_with_effects(function.name, function.attrs, library, self.options)


def dtype_of(value: Value) -> Any:
    """Return the element type of a value, without its reference."""
    node, output = value
    return node.output_types[output].base_dtype


def _inline(call: _Call) -> list[BodyCopy]:
    """Replace a call by the nodes of its function."""
    awaited, args = call.control, call.inputs
    if _is_in_control_flow(call.node):
        # Nodes without inputs must be in the frame of the call, and dead if it is dead. Control
        # edges from a Switch are never dead, those from an Identity of its output may be.
        args = [(call.forward(f"input_{i}", value), 0) for i, value in enumerate(args)]
        awaited = [*awaited, *(node for node, _ in args)]
    before = call.add("NoOp", "before", control=awaited) if awaited else None
    if before is not None:
        args = [
            (call.forward(f"argument_{index}", value, [before]), 0)
            for index, value in enumerate(args)
        ]
    (body,) = call.bodies
    copy = call.copy(body, "", args, before)
    done = dict.fromkeys([*copy.effects(call.options), *(node for node, _ in copy.results)])
    call.replace(copy.results, call.add("NoOp", "after", control=done))
    return [copy]


def _is_in_control_flow(node: Node) -> bool:
    """Return whether a node may be dead, or be in the frame of a loop."""
    # What the client feeds is received, and never dead.
    return any(
        one.op_def.traits.may_be_dead and not one.attrs.get(NEVER_DEAD_ATTR)
        for one in ancestors([node])
    )


def _lower_branches(call: _Call) -> list[BodyCopy]:
    """Route the inputs to one branch by `Switch`, and merge the results."""
    chosen, *args = call.inputs
    chosen = call.forward("chosen", chosen, call.control), 0
    is_case = len(calls_of(call.node)) != 2 or "branches" in call.node.attrs
    count = len(call.bodies)
    if not is_case and dtype_of(chosen) is not dtypes.bool:
        chosen = call.add("ToBool", "condition", [chosen], T=dtype_of(chosen)), 0

    def switch(name: str, value: Value) -> Node:
        if is_case:
            return call.add("_SwitchN", name, [value, chosen], T=dtype_of(value), num_outs=count)
        return call.add("Switch", name, [value, chosen], T=dtype_of(value))

    pivots = switch("pivot", chosen)
    switched = [switch(f"switch_{index}", value) for index, value in enumerate(args)]
    copies, done = [], []
    for index, body in enumerate(call.bodies):
        # Output 1 of a Switch is alive if the condition is true, which selects the first branch.
        output = index if is_case else 1 - index
        pivot = call.forward(f"pivot_{index}", (pivots, output))
        copy = call.copy(body, f"branch_{index}", [(node, output) for node in switched], pivot)
        copies.append(copy)
        done.append((call.forward(f"done_{index}", (pivot, 0), copy.effects(call.options)), 0))

    def merge(name: str, values: list[Value]) -> Node:
        return call.add("Merge", name, values, T=dtype_of(values[0]), N=count)

    results = zip(*(copy.results for copy in copies), strict=True)
    merged = [(merge(f"merge_{i}", list(values)), 0) for i, values in enumerate(results)]
    call.replace(merged, merge("executed", done))
    return copies


def _lower_loop(call: _Call) -> list[BodyCopy]:
    """Build the loop's frame, with a back edge for each value that changes."""
    condition, body = call.bodies
    if calls_of(call.node)[0].kind is CallKind.LOOP_BODY:
        condition, body = body, condition
    current = _enter(call)
    changing = [i for i, v in enumerate(call.inputs) if dtype_of(v) is not dtypes.resource]
    first = changing[0]
    tested = call.copy(condition, "condition", [(node, 0) for node in current], current[first])
    predicate = _as_bool(call, tested.results[0])
    loop_cond = call.add("LoopCond", "loop_cond", [predicate], tested.effects(call.options)), 0
    exits: dict[int, Node] = {}
    inside = list(current)
    for index in changing:
        value = current[index], 0
        dtype = dtype_of(value)
        switch = call.add("Switch", f"switch_{index}", [value, loop_cond], T=dtype)
        exits[index] = call.add("Exit", f"exit_{index}", [(switch, 0)], T=dtype)
        inside[index] = call.forward(f"inside_{index}", (switch, 1))
    copy = call.copy(body, "body", [(node, 0) for node in inside], inside[first])
    done = copy.effects(call.options)
    for index in changing:
        value = copy.results[index]
        following = call.add("NextIteration", f"next_{index}", [value], done, T=dtype_of(value))
        call.graph.add_edge(following, 0, current[index], 1)
    results = [(exits[i], 0) if i in exits else value for i, value in enumerate(call.inputs)]
    call.replace(results, call.add("NoOp", "executed", control=exits.values()))
    return [tested, copy]


def _enter(call: _Call) -> list[Node]:
    """Return the loop values in an iteration, as `Merge` nodes without their second input.

    A resource is the same in all iterations, so its value is its `Enter`.
    """
    merge_def = call.options.host.ops.get("Merge")
    entered = []
    for index, value in enumerate(call.inputs):
        dtype = dtype_of(value)
        enter = call.add(
            "Enter",
            f"enter_{index}",
            [value],
            call.control,
            T=dtype,
            frame_name=call.node.name.encode(),
            is_constant=dtype is dtypes.resource,
            parallel_iterations=call.node.attrs.get("parallel_iterations", 10),
        )
        if dtype is not dtypes.resource:
            name = free_name_in(call.graph, call.node.name, f"merge_{index}")
            attrs = merge_def.with_defaults({"T": dtype, "N": 2})
            merge = call.graph.add_unconnected(name, merge_def, attrs, call.node.device)
            call.graph.add_edge(enter, 0, merge, 0)
            enter = merge
        entered.append(enter)
    return entered


def _as_bool(call: _Call, value: Value) -> Value:
    if dtype_of(value) is dtypes.bool:
        return value
    return call.add("ToBool", "predicate", [value], T=dtype_of(value)), 0
