"""A graph pass that removes the NaN checks from a model."""

from __future__ import annotations

from graphmill.spi import has_ops, hookimpl


def drop_check_numerics(graph, options):
    for node in graph.nodes:
        if node.op != "CheckNumerics":
            continue
        ((source, output),) = node.sources
        for edge in list(node.out_edges):
            if edge.is_control:
                graph.add_control_edge(source, edge.dst)
                graph.remove_control_edge(edge)
            else:
                graph.replace_input(edge.dst, edge.dst_input, source, output)
        graph.remove_node(node)


@hookimpl
def graphmill_register_passes(passes):
    passes.add(
        "drop_check_numerics",
        drop_check_numerics,
        phase="PRE_PLACEMENT",
        applies=has_ops("CheckNumerics"),
    )
