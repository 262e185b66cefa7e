"""`Routine`: a body in the order in which it is computed, for whoever computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill.spi import topological_order
from graphmill.spi.compilers import MemoryTypeFinder, ensure_memory_types
from graphmill.spi.graphs import is_argument, is_result
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.jit.ir.called_bodies import plain_bodies
from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.dtypes import DType
    from graphmill.spi import Device, FuncAttr, Host, Node
    from graphmill.spi.graphs import FunctionBody, FunctionLibrary
    from graphmill.spi.passes import EffectsPolicy
    from graphmill_plugins.jit.ir.called_bodies import Bodies


class Routine(NamedTuple):
    """Hold a body's nodes in order.

    Attributes:
        name: the function's, or the cluster's.
        arg_types: element types of the arguments.
        args: for each argument the node that stands for it, or None if nothing reads it.
        nodes: what is computed, each after its inputs.
        results: for each result the node and output that it is.
        body: what it was made of.
        call: what calls it, where it is a function of the library; None for what passes made of
            the nodes around it, whose names are among theirs.
    """

    name: str
    arg_types: tuple[DType, ...]
    args: tuple[Node | None, ...]
    nodes: tuple[Node, ...]
    results: tuple[tuple[Node, int], ...]
    body: FunctionBody
    call: FuncAttr | None = None


def routine_of(body: FunctionBody, call: FuncAttr | None = None) -> Routine:
    """Return the routine of a body; see `Routine.call`."""
    args: list[Node | None] = [None] * len(body.arg_types)
    results: dict[int, tuple[Node, int]] = {}
    nodes = []
    for node in topological_order(body.graph):
        if is_argument(node):
            args[node.attrs["index"]] = node
        elif is_result(node):
            results[node.attrs["index"]] = node.inputs[0]
        else:
            nodes.append(node)
    ordered = tuple(results[index] for index in range(len(results)))
    return Routine(body.name, body.arg_types, tuple(args), tuple(nodes), ordered, body, call)


def owner_in(library: FunctionLibrary, attr: FuncAttr) -> FuncAttr | None:
    """Return whose nodes those of a called function are: see `Routine.call`."""
    return attr if library.body(attr.name) is None else None


class Routines:
    """The routines of a cluster and of the functions that it calls.

    Args:
        body: of the cluster.
        host: whose ops.
        policy: which effects the kernels may have that a compiler traces.
        functions: bodies by name and hash of the attr, where they are not the library's.
        device: where it runs; None for host memory.
        called: gives the bodies of the library's functions; by default as they stand there.

    Threads: `_lock` guards the making of routines, so that each function has only one.

    On a device that has a memory of its own, values are copied where host memory and that meet, as
    in a graph; a compiler has one memory, and takes the copies for what they copy.

    Attributes:
        main: that of the cluster.
        host: whose ops.
        policy: which effects the kernels may have.
        choices: how a compiler computes the nodes.
    """

    def __init__(
        self,
        body: FunctionBody,
        host: Host,
        policy: EffectsPolicy,
        functions: Mapping[tuple[str, int], FunctionBody] | None = None,
        device: Device | None = None,
        called: Bodies | None = None,
    ) -> None:
        self._called = called or plain_bodies(host.ops)
        self._device = None if device is None or device.is_host_memory else device
        self._memory = MemoryTypeFinder(host.kernels)
        self.main = self._made(body)
        self._bodies = functions or {}
        self.host = host
        self.policy = policy
        self.choices = LoweringChoices(host, device)
        self._library: FunctionLibrary = body.graph.library
        self._functions: dict[tuple[str, int], Routine] = {}
        self._lock = fork_safe_lock()

    def function(self, attr: FuncAttr) -> Routine:
        """Return the routine of a function.

        Raises:
            OpError: the function is not there, or malformed.
        """
        key = (attr.name, hash(attr))
        with self._lock:
            found = self._functions.get(key)
            if found is None:
                body = self._bodies.get(key) or self._called(attr, self._library)
                call = owner_in(self._library, attr)
                found = self._functions[key] = self._made(body, call)
        return found

    def _made(self, body: FunctionBody, call: FuncAttr | None = None) -> Routine:
        if self._device is not None:
            ensure_memory_types(body.graph, self._device, self._memory)
        return routine_of(body, call)
