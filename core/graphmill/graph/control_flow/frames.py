"""Control-flow analysis: find the frame of each node, and the nodes of each frame (clauses E3, P3).

Semantics: `tensorflow/core/graph/control_flow.cc` (BuildControlFlowInfo) and
`tensorflow/core/common_runtime/immutable_executor_state.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.graph.algorithms import is_back_edge
from graphmill.graph.node_roles import is_enter, is_exit, is_next_iteration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Edge, Node

FramePath = tuple[str, ...]
"""The names of the frames that a node is in, from the outside in; empty for the root frame."""


class FrameInfo:
    """The static properties of a frame.

    Attributes:
        path: the names of the enclosing frames and of this one.
        input_count: the number of `Enter` nodes that lead into it.
        parallel_iterations: the maximum number of iterations in flight.
        nodes: its nodes, without `Enter` nodes (which are in the parent frame).
    """

    __slots__ = ("input_count", "nodes", "parallel_iterations", "path")

    def __init__(
        self, path: FramePath, parallel_iterations: int = 1, nodes: Iterable[Node] = ()
    ) -> None:
        self.path = path
        self.input_count = 0
        self.parallel_iterations = parallel_iterations
        self.nodes = list(nodes)

    @property
    def name(self) -> str:
        """The frame's own name, for messages."""
        return self.path[-1] if self.path else "<root>"


def analyse_frames(graph: Graph) -> tuple[dict[Node, FramePath], dict[FramePath, FrameInfo]]:
    """Return the frame that each node runs in, and all frames.

    A node runs in the frame of its inputs. The output of an `Enter` is in the frame that it names,
    the output of an `Exit` in the parent frame.

    Raises:
        InvalidArgumentError: inputs of a node come from different frames, an `Exit` or
            `NextIteration` is outside any frame, or the `Enter`s of a frame disagree; the message
            names node, frames and inputs.
    """
    frames: dict[Node, FramePath] = {}
    infos: dict[FramePath, FrameInfo] = {(): FrameInfo(())}
    for node in _in_data_flow_order(graph.nodes):
        path = _frame_of(node, frames)
        frames[node] = path
        infos[path].nodes.append(node)
        if is_enter(node):
            _note_enter(node, path, infos)
    _check_back_edges(graph.nodes, frames)
    return frames, infos


def _in_data_flow_order(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes in topological order, ignoring back edges of loops."""
    nodes = list(nodes)
    waiting = {node: sum(not is_back_edge(edge) for edge in _inputs(node)) for node in nodes}
    order = [node for node in nodes if not waiting[node]]
    for node in order:
        for edge in node.out_edges:
            if edge.dst in waiting and not is_back_edge(edge):
                waiting[edge.dst] -= 1
                if not waiting[edge.dst]:
                    order.append(edge.dst)
    return order


def _inputs(node: Node) -> list[Edge]:
    source = node.graph.source
    return [e for e in (*node.in_edges, *node.control_in_edges) if e.src is not source]


def _frame_of(node: Node, frames: Mapping[Node, FramePath]) -> FramePath:
    path: FramePath | None = None
    first: Edge | None = None
    for edge in _inputs(node):
        if is_back_edge(edge):
            continue
        frame = output_frame(edge.src, frames)
        if path is None:
            path, first = frame, edge
        elif frame != path:
            raise InvalidArgumentError(
                "has inputs from different frames. The input "
                f"'{first.tensor_name if first else ''}'"
                f" is in frame '{_text(path)}'. The input '{edge.tensor_name}' is in frame "
                f"'{_text(frame)}'. A value goes into a loop through Enter, out of it through Exit",
                node=node.name,
                op_type=node.op,
            )
    if not path and (is_exit(node) or is_next_iteration(node)):
        article = "an" if node.op[0] in "AEIOU" else "a"
        raise InvalidArgumentError(
            f"is {article} {node.op} outside of any frame; a loop begins with Enter",
            node=node.name,
            op_type=node.op,
        )
    return path or ()


def output_frame(node: Node, frames: Mapping[Node, FramePath]) -> FramePath:
    """Return the frame of a node's outputs, which is not its own for Enter and Exit."""
    path = frames[node]
    if is_enter(node):
        return (*path, frame_name(node))
    return path[:-1] if is_exit(node) else path


def loop_of_output(node: Node) -> str | None:
    """Return the name of the innermost frame that a node's outputs are in; None for none.

    Following one path backwards suffices, so this is cheap and independent of the rest of the
    graph.
    """
    left = 0  # frames that the path has entered backwards, through their exits
    current: Node | None = node
    while current is not None:
        if is_exit(current):
            left += 1
        elif is_enter(current):
            if not left:
                return frame_name(current)
            left -= 1
        current = next((e.src for e in _inputs(current) if not is_back_edge(e)), None)
    return None


def frame_name(enter: Node) -> str:
    """Return the name of the frame that an `Enter` leads into."""
    name: bytes = enter.attrs["frame_name"]
    return name.decode("utf-8", "surrogateescape")


def _note_enter(node: Node, path: FramePath, infos: dict[FramePath, FrameInfo]) -> None:
    child = (*path, frame_name(node))
    if not child[-1]:
        raise InvalidArgumentError("has an empty frame_name", node=node.name, op_type=node.op)
    parallel = node.attrs["parallel_iterations"]
    if parallel < 1:
        raise InvalidArgumentError(
            f"has parallel_iterations={parallel}; at least 1 is needed",
            node=node.name,
            op_type=node.op,
        )
    info = infos.setdefault(child, FrameInfo(child, parallel))
    if info.parallel_iterations != parallel:
        raise InvalidArgumentError(
            f"enters frame '{child[-1]}' with parallel_iterations={parallel}, another Enter has "
            f"{info.parallel_iterations}",
            node=node.name,
            op_type=node.op,
        )
    info.input_count += 1


def _check_back_edges(nodes: Iterable[Node], frames: Mapping[Node, FramePath]) -> None:
    for node in nodes:
        for edge in node.in_edges:
            if is_back_edge(edge) and frames.get(edge.src) != frames[node]:
                raise InvalidArgumentError(
                    f"has a back edge from '{edge.src.name}' in frame "
                    f"'{_text(frames.get(edge.src, ()))}', but is itself in frame "
                    f"'{_text(frames[node])}'",
                    node=node.name,
                    op_type=node.op,
                )


def _text(path: FramePath) -> str:
    return "/".join(path) or "<root>"
