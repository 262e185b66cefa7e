"""Form clusters in the body of a loop that cannot be compiled as a whole.

One node that cannot be traced (a random number, an image that is decoded, a shape that depends on
values) keeps a loop from being one program. The loop becomes generated code, but connected
components of its body that can be traced form clusters, which are compiled if that is faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill_plugins.jit.clustering.constant_control_edges import move_constant_control_edges
from graphmill_plugins.jit.clustering.contraction import Contraction
from graphmill_plugins.jit.clustering.eligibility import Eligibility
from graphmill_plugins.jit.clustering.grouping import find_clusters, weight
from graphmill_plugins.jit.ir.function_bodies import plain_bodies
from graphmill_plugins.jit.ir.invariant_nodes import is_source
from graphmill_plugins.jit.ir.lowering_choices import followed_functions
from graphmill_plugins.jit.ir.scheduled_body import owner_in

if TYPE_CHECKING:
    from graphmill.spi import Device, FuncAttr, Graph, Node
    from graphmill.spi.graphs import FunctionBody
    from graphmill.spi.passes import PassOptions
    from graphmill_plugins.jit.ir.cluster_attr import FunctionKey
    from graphmill_plugins.jit.ir.function_bodies import BodyProvider

_MIN_SIZE: Final = 8
"""Minimum size of a cluster; a program call costs as much as about ten nodes of generated code."""


def inner_bodies(
    graph: Graph,
    loop: Node,
    options: PassOptions,
    device: Device | None = None,
    bodies: BodyProvider | None = None,
) -> dict[FunctionKey, FunctionBody]:
    """Return the bodies of functions that a loop calls, directly or not, with clusters formed.

    Args:
        graph: the graph that contains the loop; it records the clusters.
        loop: a functional loop.
        options: those of the pass.
        device: where the loop runs; by default the host's processor.
        bodies: returns the bodies of functions; by default those of the library.
    """
    by_key: dict[FunctionKey, FunctionBody] = {}
    if options.config.graphmill.deterministic:
        return by_key  # nothing is compiled
    bodies = bodies or plain_bodies(options.host.ops)
    pending = list(followed_functions(loop))
    while pending:
        attr = pending.pop()
        key = (attr.name, hash(attr))
        if key in by_key:
            continue
        body = bodies(attr, graph.library)
        by_key[key] = body
        eligibility = Eligibility(options.host, device=device, bodies=bodies)
        _form(body.graph, graph, options, eligibility, owner_in(graph.library, attr))
        pending += [called for node in body.graph.nodes for called in followed_functions(node)]
    return by_key


def _form(
    body: Graph,
    recorder: Graph,
    options: PassOptions,
    eligibility: Eligibility,
    owner: FuncAttr | None,
) -> None:
    move_constant_control_edges(body, set())
    clusters = find_clusters(body, eligibility, names_variable=is_source)
    for members in clusters:
        if sum(weight(node, eligibility.choices) for node in members) >= _MIN_SIZE:
            Contraction(body, members, options, recorder=recorder, owner=owner).contract()
