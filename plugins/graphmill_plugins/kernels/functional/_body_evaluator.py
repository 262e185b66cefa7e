"""Evaluate a function body node by node in the caller's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import topological_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Node
    from graphmill.spi.graphs import FunctionBody


def evaluator(
    body: FunctionBody, computation: Callable[[Node], Callable[..., Any]]
) -> Callable[[Sequence[Any]], list[Any]]:
    """Return the function from a body's arguments to its results.

    Args:
        body: the body, without control flow.
        computation: returns the function that computes a node's outputs.
    """
    order = topological_order(body.graph)
    computes = {node: computation(node) for node in order if node.op not in ("_Arg", "_Retval")}

    def evaluate(args: Sequence[Any]) -> list[Any]:
        values: dict[tuple[Node, int], Any] = {}
        results: list[Any] = [None] * len(body.ret_types)
        for node in order:
            inputs = [values[edge.src, edge.src_output] for edge in node.in_edges]
            if node.op == "_Arg":
                values[node, 0] = args[node.attrs["index"]]
            elif node.op == "_Retval":
                results[node.attrs["index"]] = inputs[0]
            else:
                outputs = computes[node](*inputs)
                if not isinstance(outputs, (tuple, list)):
                    outputs = (outputs,)
                for index in range(node.num_outputs):
                    values[node, index] = outputs[index]
        return results

    return evaluate
