"""`ScheduledBody`: a function body whose nodes are in topological order."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple

from graphmill.spi import topological_order
from graphmill.spi.compilers import MemoryTypeFinder, ensure_memory_types
from graphmill.spi.graphs import is_argument, is_result
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.jit.ir.function_bodies import plain_bodies
from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.dtypes import DType
    from graphmill.spi import Device, FuncAttr, Host, Node
    from graphmill.spi.graphs import FunctionBody, FunctionLibrary
    from graphmill.spi.passes import EffectsPolicy
    from graphmill_plugins.jit.ir.function_bodies import BodyProvider


class ScheduledBody(NamedTuple):
    """A function body whose nodes are in the order in which they are computed.

    Attributes:
        name: the name of the function or cluster.
        arg_types: element types of the arguments.
        args: the node of each argument; None if nothing reads it.
        nodes: the other nodes, each after its inputs.
        results: the node and output of each result.
        body: the original body.
        call: the call, if it is a function of the library; None if passes built the body from
            nodes of the calling graph, so that its nodes have the names of that graph.
    """

    name: str
    arg_types: tuple[DType, ...]
    args: tuple[Node | None, ...]
    nodes: tuple[Node, ...]
    results: tuple[tuple[Node, int], ...]
    body: FunctionBody
    call: FuncAttr | None = None


def schedule_body(body: FunctionBody, call: FuncAttr | None = None) -> ScheduledBody:
    """Return a body with its nodes in topological order; see `ScheduledBody.call`."""
    args: list[Node | None] = [None] * len(body.arg_types)
    results: dict[int, tuple[Node, int]] = {}
    nodes = []
    for node in topological_order(body.graph):
        if is_argument(node):
            args[node.attrs["index"]] = node
        elif is_result(node):
            results[node.attrs["index"]] = node.sources[0]
        else:
            nodes.append(node)
    ordered = tuple(results[index] for index in range(len(results)))
    return ScheduledBody(body.name, body.arg_types, tuple(args), tuple(nodes), ordered, body, call)


def owner_in(library: FunctionLibrary, attr: FuncAttr) -> FuncAttr | None:
    """Return the function that owns the nodes of a call; see `ScheduledBody.call`."""
    return attr if library.body(attr.name) is None else None


class ScheduledBodies:
    """The scheduled bodies of a cluster and of the functions that it calls.

    Args:
        body: the body of the cluster.
        host: the host of the ops.
        policy: the effects that traced kernels may have.
        functions: bodies by name and hash of the attr that replace those of the library.
        device: the device that runs it; None for host memory.
        called: returns the bodies of functions; by default those of the library.

    Threads: `_lock` ensures that each function is scheduled once.

    On a device with its own memory, copies between it and host memory are nodes, as in a graph. A
    program has one memory, so the compiler traces a copy as its input.

    Attributes:
        main: the body of the cluster.
        host: the host of the ops.
        policy: the effects that kernels may have.
        choices: how the compiler computes the nodes.
        device: the device that runs it, as given.
        measured_as: the cluster under which traced steps note the times of its nodes; empty if
            they do not measure them.
    """

    def __init__(
        self,
        body: FunctionBody,
        host: Host,
        policy: EffectsPolicy,
        functions: Mapping[tuple[str, int], FunctionBody] | None = None,
        device: Device | None = None,
        called: BodyProvider | None = None,
    ) -> None:
        self._called = called or plain_bodies(host.ops)
        self.device = device
        self.measured_as = ""
        self._memory = MemoryTypeFinder(host.kernels)
        self.main = self._scheduled(body)
        self._bodies = functions or {}
        self.host = host
        self.policy = policy
        self.choices = LoweringChoices(host, device)
        self._library: FunctionLibrary = body.graph.library
        self._functions: dict[tuple[str, int], ScheduledBody] = {}
        self._lock = fork_safe_lock()

    def function(self, attr: FuncAttr) -> ScheduledBody:
        """Return the scheduled body of a function.

        Raises:
            OpError: the function is missing or malformed.
        """
        key = (attr.name, hash(attr))
        with self._lock:
            cached = self._functions.get(key)
            if cached is None:
                body = self._bodies.get(key) or self._called(attr, self._library)
                call = owner_in(self._library, attr)
                cached = self._functions[key] = self._scheduled(body, call)
        return cached

    def with_main(self, body: FunctionBody) -> ScheduledBodies:
        """Return the bodies of another cluster, which shares the functions of this one."""
        other = copy.copy(self)  # with the same functions and their lock
        other.main = self._scheduled(body)
        other.measured_as = ""  # it is a part of this cluster
        return other

    def _scheduled(self, body: FunctionBody, call: FuncAttr | None = None) -> ScheduledBody:
        if self.device is not None and not self.device.is_host_memory:
            ensure_memory_types(body.graph, self.device, self._memory)
        return schedule_body(body, call)
