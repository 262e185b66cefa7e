"""Fuse `Relu(BiasAdd(MatMul(a, b), bias))` into the device's own op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill_simnpu.fused_op import MAT_MUL_BIAS_RELU

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node

_TYPES = MAT_MUL_BIAS_RELU.attr("T").allowed


def fuse(graph: Graph) -> int:
    """Replace all products with bias and ReLU; return the number of replacements."""
    count = 0
    for relu in list(graph.nodes):
        if relu.op == "Relu":
            bias = _only_source(relu, "BiasAdd")
            product = bias and _only_source(bias, "MatMul")
            if bias and product and _fits(bias, product):
                _replace(graph, relu, bias, product)
                count += 1
    return count


def _only_source(node: Node, op: str) -> Node | None:
    """Return the source of a node's first input if it is an `op` without other consumers."""
    source: Node = node.in_edges[0].src
    is_only = len(source.out_edges) == 1 and not source.control_in_edges
    return source if source.op == op and is_only else None


def _fits(bias: Node, product: Node) -> bool:
    attrs = product.attrs
    plain = not attrs["transpose_a"] and not attrs["transpose_b"]
    return plain and attrs["T"] in (_TYPES or ()) and bias.attrs["data_format"] != b"NCHW"


def _replace(graph: Graph, relu: Node, bias: Node, product: Node) -> None:
    a, b, c = product.in_edges[0], product.in_edges[1], bias.in_edges[1]
    inputs = [(edge.src, edge.src_output) for edge in (a, b, c)]
    control = [edge.src for edge in relu.control_in_edges]
    fused = graph.add_node(
        f"{relu.name}/simnpu_fused",
        MAT_MUL_BIAS_RELU,
        inputs,
        control_inputs=control,
        attrs={"T": product.attrs["T"]},
    )
    fused.assigned_device = relu.assigned_device
    for edge in [edge for edge in relu.out_edges if edge.is_control and edge.dst is not graph.sink]:
        graph.add_control_edge(fused, edge.dst)
    graph.redirect(relu, 0, fused, 0)
    graph.withdraw([relu, bias, product])
