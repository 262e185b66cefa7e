"""Reject kernels with effects that a session's configuration forbids.

`graphmill.ops.definition.effects` lists the effects of ops; kernels declare further effects. A
kernel is rejected if it or its op may have a forbidden effect. The policy checks this when a graph
is lowered, and again when an executor, a compiler or a graph pass binds the kernel to its node
(`graphmill.lowering.bind_node`). There are no checks while a step runs.
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
    """The effects that the kernels of one session may not have, and their memory budget.

    Attributes:
        forbidden: the forbidden effects.
        memory_limit: how many bytes one allocation may have (`graphmill.memory_budget`); 0 for the
            default.
    """

    __slots__ = ("_is_loading", "forbidden", "memory_limit")

    def __init__(self, forbidden: Iterable[str] = (), memory_limit: int = 0) -> None:
        """Create a policy.

        Raises:
            InvalidArgumentError: an effect is unknown, or the limit is negative.
        """
        if memory_limit < 0:
            raise InvalidArgumentError(
                f"graphmill.memory_budget_bytes must not be negative, got {memory_limit}"
            )
        self.memory_limit = memory_limit
        self.forbidden = frozenset(forbidden)
        self._is_loading = False
        for effect in sorted(self.forbidden - EFFECTS):
            raise InvalidArgumentError(
                f"graphmill.forbid_effects: unknown effect {effect!r}{suggest(effect, EFFECTS)}"
                f"; effects are {', '.join(sorted(EFFECTS))}"
            )

    @contextmanager
    def loading_a_model(self) -> Iterator[None]:
        """Permit reading a model's files in a `with` block, as the user has requested the load."""
        self._is_loading = True
        try:
            yield
        finally:
            self._is_loading = False

    def check(self, graph: Graph, device: Device, kernels: KernelRegistry) -> None:
        """Check the kernels of the nodes of a graph on a device.

        A node without a kernel is refused for the effects of its op.

        Raises:
            PermissionDeniedError: one may have a forbidden effect; the message names the effect.
        """
        if not self.forbidden:
            return
        for node in graph.nodes:
            choice = kernels.try_find(node.op_def, node.attrs, device.device_type, device.backends)
            self.check_node(node, None if choice is None else choice.definition, device)

    def check_node(self, node: Node, kernel: KernelDef | None, device: Device | None) -> None:
        """Check a kernel before it is bound to a node; None if the node has no kernel.

        Raises:
            PermissionDeniedError: it may have a forbidden effect; the message names the effect.
        """
        why = self._why_refused(node, frozenset() if kernel is None else kernel.effects)
        if why is not None:
            raise PermissionDeniedError(
                f"{why}; to allow it, remove the effect from graphmill.forbid_effects",
                node=node.name,
                op=node.op,
                device=None if device is None else device.name,
            )

    def why_refused(self, node: Node, device: Device | None, kernels: KernelRegistry) -> str | None:
        """Return why a node may not run on a device, or None if it may.

        For decisions long before the node runs; `check_node` enforces the policy.
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
    """Return the policy of a `ConfigProto`.

    Raises:
        InvalidArgumentError: it names an unknown effect.
    """
    options = config.graphmill
    return EffectsPolicy(options.forbid_effects, options.memory_budget_bytes)


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
