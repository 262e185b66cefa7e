"""Watches in loops say in which iteration a value was computed."""

from __future__ import annotations

from typing import Any

import graphmill
from graphmill import ops


def test_records_of_watches_have_the_iteration() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        loop = graphmill.while_loop(
            lambda i, _: i < 3,
            lambda i, total: (i + 1, ops.math.add(total, i, name="sum")),
            [graph.constant(0), graph.constant(10)],
            name="loop",
        )
        ops.math.neg(loop[1], name="out")
    options = graphmill.RunOptions()
    for node in ("loop/sum", "out"):
        options.debug_options.debug_tensor_watch_opts.add(
            node_name=node, debug_ops=["DebugIdentity"], debug_urls=["callback://seen"]
        )
    seen: list[Any] = []
    host = graphmill.Host()
    host.debug_callbacks["seen"] = seen.append
    with graphmill.Session("", graph, None, host) as session:
        session.run("out:0", options=options)
    assert [(one.node_name, one.iteration, int(one.value)) for one in seen] == [
        ("loop/sum", "loop/while_context:0", 10),
        ("loop/sum", "loop/while_context:1", 11),
        ("loop/sum", "loop/while_context:2", 13),
        ("out", "", -13),
    ]
    assert "in iteration loop/while_context:0" in repr(seen[0])
    assert "iteration" not in repr(seen[-1])
