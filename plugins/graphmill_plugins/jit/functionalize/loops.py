"""Prove the structure of loops of `Enter`, `Merge`, `Switch`, `NextIteration` and `Exit`.

The nodes of a loop's frame have three roles. Nodes that are alive in every iteration, including the
last, compute the condition. Nodes that are alive if it is true are the body. Nodes that are alive
if it is false are the `Exit` nodes. A loop variable is a `Merge` of an `Enter` and a
`NextIteration`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill.spi.graphs import (
    is_enter,
    is_exit,
    is_loop_cond,
    is_merge,
    is_next_iteration,
    is_switch,
)
from graphmill_plugins.jit.functionalize.conditionals import is_boundary
from graphmill_plugins.jit.functionalize.liveness import (
    Branch,
    pred_of,
)
from graphmill_plugins.jit.functionalize.region import NotProvenError, Region, check_removable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from graphmill.spi import Node
    from graphmill.spi.graphs import FramePath
    from graphmill_plugins.jit.functionalize.liveness import Liveness, Tensor


class LoopVariable(NamedTuple):
    """A loop variable.

    Attributes:
        enter: the `Enter` of its first value.
        merge: its value in each iteration.
        next_iteration: the `NextIteration` of its next value.
    """

    enter: Node
    merge: Node
    next_iteration: Node


class Loop(NamedTuple):
    """A loop whose structure has been proven.

    Attributes:
        name: its frame.
        enclosing: the branch that contains it.
        variables: its variables.
        constants: the `Enter`s of loop invariants.
        switches: the `Switch` nodes on the condition.
        condition: the `LoopCond`.
        test, body: the nodes that compute the condition, and those that run if it is true.
        exits: the `Exit`s.
    """

    name: str
    enclosing: Branch
    variables: list[LoopVariable]
    constants: list[Node]
    switches: list[Node]
    condition: Node
    test: list[Node]
    body: list[Node]
    exits: list[Node]

    @property
    def nodes(self) -> list[Node]:
        """All nodes of the loop."""
        variables = [n for v in self.variables for n in (v.enter, v.merge, v.next_iteration)]
        return [
            *variables,
            *self.constants,
            *self.switches,
            self.condition,
            *self.test,
            *self.body,
            *self.exits,
        ]

    def region(self) -> Region:
        """Return the loop as a `Region`."""
        return Region("while", self.name, tuple(self.nodes))


def prove_loop(liveness: Liveness, path: FramePath, keep: Collection[Node]) -> Loop:
    """Return the loop of a frame.

    Raises:
        NotProvenError: its structure cannot be proven; the message is the reason.
    """
    inside = [node for node, frame in liveness.frames.items() if frame == path]
    return _Prover(liveness, path, inside).prove(keep)


class _Prover:
    """Proves the structure of one loop."""

    def __init__(self, liveness: Liveness, path: FramePath, inside: list[Node]) -> None:
        self.liveness = liveness
        self.path = path
        self.root = liveness.roots[path]
        self.inside = inside

    def prove(self, keep: Collection[Node]) -> Loop:
        enclosing = self.liveness.enclosing(self.path)
        if enclosing is None:
            raise NotProvenError(
                "its inputs are not live under one condition, or depend on its own results"
            )
        condition = self._condition()
        self.body_branch, self.exit_branch = self._sides(condition)
        enters = self.liveness.enters[self.path]
        variables = [self._variable(n) for n in self._of(is_merge)]
        starts = {variable.enter for variable in variables}
        loop = Loop(
            self.path[-1],
            enclosing,
            variables,
            [node for node in enters if node not in starts],
            self._of(is_switch),
            condition,
            [n for n in self.inside if self.liveness.of(n) is self.root and _is_plain(n)],
            [n for n in self.inside if self.liveness.of(n) is self.body_branch and _is_plain(n)],
            self._of(is_exit),
        )
        self._check(loop, keep)
        return loop

    def _of(self, has_role: Callable[[Node], bool]) -> list[Node]:
        return [node for node in self.inside if has_role(node)]

    def _condition(self) -> Node:
        loop_conds = self._of(is_loop_cond)
        if len(loop_conds) != 1:
            raise NotProvenError(f"it has {len(loop_conds)} LoopCond nodes, expected 1")
        if self.liveness.of(loop_conds[0]) is not self.root:
            raise NotProvenError(f"the condition {loop_conds[0].name} may be dead")
        for edge in loop_conds[0].out_edges:
            if not edge.is_control and (not is_switch(edge.dst) or edge.dst_input != 1):
                raise NotProvenError(f"{edge.dst.name} ({edge.dst.op}) reads the condition")
        return loop_conds[0]

    def _sides(self, condition: Node) -> tuple[Branch, Branch]:
        exit_branch, body_branch = self.root.sides((condition, 0))
        for node in self.inside:
            branch = self.liveness.of(node)
            if branch not in (self.root, exit_branch, body_branch):
                raise NotProvenError(
                    f"the condition under which {node.name} is alive is unknown"
                    if branch is None
                    else f"a conditional inside is not functionalized: {node.name} depends on "
                    f"{branch.pred[0].name if branch.pred else ''}"
                )
        return body_branch, exit_branch

    def _variable(self, merge: Node) -> LoopVariable:
        sources = [edge.src for edge in merge.in_edges]
        starts = [node for node in sources if is_enter(node)]
        next_iterations = [node for node in sources if is_next_iteration(node)]
        if len(sources) != 2 or len(starts) != 1 or len(next_iterations) != 1:
            raise NotProvenError(f"{merge.name} does not merge an Enter with a NextIteration")
        if starts[0].attrs["is_constant"]:
            raise NotProvenError(f"{starts[0].name} enters {merge.name} in each iteration")
        if merge.control_in_edges or any(edge.src_output == 1 for edge in merge.out_edges):
            raise NotProvenError(f"{merge.name} has control inputs, or its value_index is read")
        if merge.output_types[0].is_ref:
            raise NotProvenError(f"{merge.name} is a reference")
        return LoopVariable(starts[0], merge, next_iterations[0])

    def _check(self, loop: Loop, keep: Collection[Node]) -> None:
        check_removable(loop.nodes, keep)
        for enter in loop.constants:
            if not enter.attrs["is_constant"]:
                raise NotProvenError(
                    f"{enter.name} is used in the loop body but enters only the first iteration"
                )
        for node in loop.switches:
            if pred_of(node) != (loop.condition, 0):
                raise NotProvenError(f"a conditional inside is not functionalized: {node.name}")
        self._check_parts(loop)
        self._check_next_iterations(loop)
        for node in loop.exits:
            self._check_exit(node, loop)
        self._check_starts(loop)

    def _check_parts(self, loop: Loop) -> None:
        for node in self.inside:
            if is_enter(node):
                raise NotProvenError(f"an inner loop is not functionalized: {node.name}")
            if is_boundary(node):
                raise NotProvenError(f"{node.in_edges[0].src.name} is fetched or sent")
            if self.liveness.of(node) is self.exit_branch and not is_exit(node):
                raise NotProvenError(f"{node.name} runs after the last iteration")
        test = set(loop.test)
        for node in loop.test:
            for edge in node.out_edges:
                is_used = not edge.is_control and edge.dst not in test
                if is_used and edge.dst is not loop.condition and self.liveness.may_act(node):
                    raise NotProvenError(f"{edge.dst.name} reads {node.name}, which has effects")

    def _check_next_iterations(self, loop: Loop) -> None:
        of_variables = {variable.next_iteration for variable in loop.variables}
        for node in self._of(is_next_iteration):
            if self.liveness.of(node) is not self.body_branch:
                raise NotProvenError(f"{node.name} continues when the loop condition is false")
            if node not in of_variables:
                raise NotProvenError(f"{node.name} does not feed a Merge")
            if any(edge.is_control or not is_merge(edge.dst) for edge in node.out_edges):
                raise NotProvenError(f"{node.name} feeds a node other than a Merge")

    def _check_exit(self, node: Node, loop: Loop) -> None:
        src = node.in_edges[0].src
        if self.liveness.of(node) is not self.exit_branch or src not in loop.switches:
            raise NotProvenError(f"{node.name} does not exit with the last iteration")
        merges = {variable.merge for variable in loop.variables}
        if src.in_edges[0].src not in merges or node.control_in_edges:
            raise NotProvenError(f"{node.name} does not return the last value of a loop variable")
        if node.output_types[0].is_ref:
            raise NotProvenError(f"{node.name} is a reference")

    def _check_starts(self, loop: Loop) -> None:
        """Check that all inputs of the loop are alive together, so that no effect is added."""
        of = self.liveness.of
        if any(of(variable.enter) is not loop.enclosing for variable in loop.variables):
            raise NotProvenError("its loop variables may differ in deadness")
        early = [node for node in loop.constants if of(node) is not loop.enclosing]
        if not early:
            return
        # Nodes that depend only on these inputs would run even if the loop does not.
        pending = [variable.merge for variable in loop.variables]
        pending += [node for node in loop.constants if of(node) is loop.enclosing]
        dead = set(pending)
        while pending:
            for edge in pending.pop().out_edges:
                if edge.dst not in dead:
                    dead.add(edge.dst)
                    pending.append(edge.dst)
        for node in (*loop.test, *loop.body):
            if self.liveness.may_act(node) and node not in dead:
                raise NotProvenError(
                    f"{node.name} has effects and may run when the loop does not: it depends "
                    f"only on loop inputs such as {early[0].name}"
                )


def _is_plain(node: Node) -> bool:
    return not (
        is_merge(node)
        or is_switch(node)
        or is_next_iteration(node)
        or is_exit(node)
        or is_loop_cond(node)
    )


def value_of(loop: Loop, tensor: Tensor) -> Tensor:
    """Return the value behind a tensor of the frame; for a `Switch`, its data input."""
    switches = set(loop.switches)
    while tensor[0] in switches:
        edge = tensor[0].in_edges[0]
        tensor = (edge.src, edge.src_output)
    return tensor


def controls_of(nodes: Iterable[Node]) -> list[Node]:
    """Return the control inputs of nodes without duplicates."""
    controls = {
        edge.src: None
        for node in nodes
        for edge in node.control_in_edges
        if edge.src is not node.graph.source
    }
    return list(controls)
