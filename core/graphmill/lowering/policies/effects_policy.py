"""Refuse kernels with effects that a session's configuration forbids.

What an op may do is data (`graphmill.ops.definition.effects`), what a kernel does is declared
beside it. Both
count: a kernel is refused if it, or its op, may have a forbidden effect, when the graph is built
and again when the kernel is bound to its node (`graphmill.lowering.bind_node`), by whatever runs
it: an executor, a compiler or a graph pass. Steps that run ask nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError, PermissionDeniedError, suggest
from graphmill.ops.definition.effects import EFFECTS, effects_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.kernel import KernelDef
    from graphmill.runtime.kernels.kernel_registry import KernelRegistry


class EffectsPolicy:
    """The effects that the kernels of one session may not have.

    Attributes:
        forbidden: these effects.
    """

    __slots__ = ("_is_loading", "forbidden")

    def __init__(self, forbidden: Iterable[str] = ()) -> None:
        """Make a policy.

        Raises:
            InvalidArgumentError: there is no such effect.
        """
        self.forbidden = frozenset(forbidden)
        self._is_loading = False
        for effect in sorted(self.forbidden - EFFECTS):
            raise InvalidArgumentError(
                f"graphmill.forbid_effects: there is no effect {effect!r}{suggest(effect, EFFECTS)}"
                f"; there are {', '.join(sorted(EFFECTS))}"
            )

    @contextmanager
    def loading_a_model(self) -> Iterator[None]:
        """Let the files of a model be read in a `with` block: who loads it has asked for that."""
        self._is_loading = True
        try:
            yield
        finally:
            self._is_loading = False

    def check(self, graph: Graph, device: Device, kernels: KernelRegistry) -> None:
        """Check the kernels that the nodes of a graph on a device have.

        Raises:
            PermissionDeniedError: one may have a forbidden effect; names node, op and effect.
        """
        if not self.forbidden:
            return
        for node in graph.nodes:
            choice = kernels.try_find(node.op_def, node.attrs, device.device_type, device.backends)
            if choice is not None:
                self.check_node(node, choice.definition, device)

    def check_node(self, node: Node, kernel: KernelDef, device: Device | None) -> None:
        """Check a kernel that is about to be bound to a node.

        Raises:
            PermissionDeniedError: it may have a forbidden effect; names node, op and effect.
        """
        why = self._why_refused(node, kernel.effects)
        if why is not None:
            raise PermissionDeniedError(
                f"{why}; to allow it, remove the effect from graphmill.forbid_effects",
                node=node.name,
                op=node.op,
                device=None if device is None else device.name,
            )

    def why_refused(self, node: Node, device: Device | None, kernels: KernelRegistry) -> str | None:
        """Return why a node may not run on a device, or None if it may.

        For who decides about a node long before it runs: what refuses it then is `check_node`.
        """
        if not self.forbidden:
            return None
        choice = device and kernels.try_find(
            node.op_def, node.attrs, device.device_type, device.backends
        )
        return self._why_refused(node, choice.definition.effects if choice else frozenset())

    def _why_refused(self, node: Node, kernel_effects: frozenset[str]) -> str | None:
        if not self.forbidden:
            return None
        refused = self.forbidden & (kernel_effects | effects_of(node.op_def))
        if self._is_loading and node.op_def.traits.loads_model:
            refused -= {"fs.read"}
        if not refused:
            return None
        effect = min(refused)
        return (
            f"the op {node.op} may {_MEANINGS[effect]} (effect {effect!r}), which the "
            "configuration of the session forbids"
        )


def policy_of(config: ConfigProto) -> EffectsPolicy:
    """Return the policy that a `ConfigProto` asks for.

    Raises:
        InvalidArgumentError: it names an effect that there is not.
    """
    return EffectsPolicy(config.graphmill.forbid_effects)


_MEANINGS: Final = {
    "fs.read": "read files",
    "fs.write": "write files",
    "net": "communicate with other machines",
    "process": "start or end a process",
    "python": "call Python functions",
    "clock": "read the clock or wait",
    "rng": "draw random numbers",
    "state": "read or change variables and other state",
    "log": "print",
}
