"""Reject kernels with effects that a session's configuration or rules do not allow.

`graphmill.ops.definition.effects` lists the effects of ops; kernels declare further effects. A
kernel is rejected if it or its op may have a forbidden effect. The policy checks this when a graph
is lowered, and again when an executor, a compiler or a graph pass binds the kernel to its node
(`graphmill.lowering.bind_node`). There are no checks while a step runs.

Under rules (`graphmill.access.rules`), a kernel may also be rejected for an effect that they do not
allow at all. A kernel that is declared `brokered` is not: it gets a broker, which decides for each
path when the kernel opens it.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError, RefusedEffectError, suggest
from graphmill.lowering.kernel_lookup import try_find_kernel
from graphmill.ops.definition.effects import EFFECTS, effects_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from graphmill.access.broker import Broker
    from graphmill.access.rules import AccessRules
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.kernel import KernelDef
    from graphmill.runtime.kernels.kernel_registry import KernelRegistry


class EffectsPolicy:
    """The effects that the kernels of one session may not have, and their memory budget.

    Args:
        forbidden: effects that no kernel may have.
        memory_limit: see the attribute.
        rules: sets of rules, each of which has to allow an effect; None for no rules.

    Threads: `_lock` guards the temporary rules.

    Attributes:
        forbidden: the forbidden effects.
        memory_limit: how many bytes one allocation may have (`graphmill.memory_budget`); 0 for the
            default.
        rules: the sets of rules that apply now; None for no rules.
    """

    __slots__ = (
        "_is_loading",
        "_limited",
        "_lock",
        "_own_rules",
        "_temporary",
        "forbidden",
        "memory_limit",
        "rules",
    )

    def __init__(
        self,
        forbidden: Iterable[str] = (),
        memory_limit: int = 0,
        rules: tuple[AccessRules, ...] | None = None,
    ) -> None:
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
        self._lock = threading.Lock()
        self.rules = self._own_rules = rules
        self._limited = self.forbidden
        if rules is not None:
            from graphmill.access.broker import GUARDED  # few sessions have rules

            self._limited |= GUARDED
        self._temporary: list[AccessRules] = []
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

    @contextmanager
    def allowing(self, more: AccessRules) -> Iterator[None]:
        """Add rules in a `with` block, for actions that the program itself requested."""
        self._change_temporary(self._temporary.append, more)
        try:
            yield
        finally:
            self._change_temporary(self._temporary.remove, more)

    def _change_temporary(self, change: Callable[[AccessRules], None], more: AccessRules) -> None:
        with self._lock:
            change(more)
            self._combine()

    def _combine(self) -> None:
        if self._own_rules is not None:
            from graphmill.access.rules import AccessRules

            added = tuple(rule for more in self._temporary for rule in more.rules)
            self.rules = tuple(AccessRules(own.rules + added) for own in self._own_rules)

    def within(self, server: EffectsPolicy) -> EffectsPolicy:
        """Return the policy that allows only what both this policy and a server's allow."""
        limits = [limit for limit in (self.memory_limit, server.memory_limit) if limit]
        rules = (*(server.rules or ()), *(self.rules or ()))
        return EffectsPolicy(
            self.forbidden | server.forbidden, min(limits, default=0), rules or None
        )

    def broker(self, what: str) -> Broker:
        """Return the broker for files that are named by options of a step, not by a node."""
        if self.rules is None:
            from graphmill.access.broker import UNRESTRICTED

            return UNRESTRICTED
        from graphmill.access.restricted_broker import RestrictedBroker

        return RestrictedBroker(self, None, None, what)

    @property
    def allows_everything(self) -> bool:
        """Whether no kernel is refused."""
        return not self.forbidden and self.rules is None

    def broker_of(self, node: Node, kernel: KernelDef) -> Broker | None:
        """Return the broker for a kernel that is bound to a node; None without rules."""
        if self.rules is None or not kernel.brokered:
            return None
        from graphmill.access.restricted_broker import RestrictedBroker  # few kernels need one

        return RestrictedBroker(self, node.name, node.op)

    def check(self, graph: Graph, device: Device, kernels: KernelRegistry) -> None:
        """Check the kernels of the nodes of a graph on a device.

        A node without a kernel is refused for the effects of its op.

        Raises:
            RefusedEffectError: one may have a forbidden effect; the message names the effect.
        """
        if self.allows_everything:
            return
        for node in graph.nodes:
            if not self.forbidden and effects_of(node.op_def).isdisjoint(self._limited):
                continue  # what only the kernel declares is checked when it is bound
            choice = try_find_kernel(kernels, node, device)
            self.check_node(node, None if choice is None else choice.definition, device)

    def check_node(self, node: Node, kernel: KernelDef | None, device: Device | None) -> None:
        """Check a kernel before it is bound to a node; None if the node has no kernel.

        Raises:
            RefusedEffectError: it may have a forbidden effect; the message names the effect.
        """
        why = self._why_refused(node, kernel)
        if why is not None:
            raise RefusedEffectError(
                why,
                node=node.name,
                op_type=node.op,
                device=None if device is None else device.name,
            )

    def why_refused(self, node: Node, device: Device | None, kernels: KernelRegistry) -> str | None:
        """Return why a node may not run on a device, or None if it may.

        For decisions long before the node runs; `check_node` enforces the policy.
        """
        if self.allows_everything:
            return None
        choice = device and try_find_kernel(kernels, node, device)
        return self._why_refused(node, choice.definition if choice else None)

    def _why_refused(self, node: Node, kernel: KernelDef | None) -> str | None:
        if self.allows_everything:
            return None
        effects = effects_of(node.op_def)
        if kernel is not None and kernel.effects:
            effects |= kernel.effects
        if effects.isdisjoint(self._limited):
            return None
        return self._why_forbidden(node, effects) or self._why_not_allowed(node, kernel, effects)

    def _why_forbidden(self, node: Node, effects: frozenset[str]) -> str | None:
        refused = self.forbidden & effects
        if self._is_loading and node.op_def.traits.loads_model:
            refused -= {"fs.read"}
        if not refused:
            return None
        effect = min(refused)
        return (
            f"the op {node.op} may {_MEANINGS[effect]} (effect {effect!r}), which the "
            "configuration of the session forbids; to allow it, remove the effect from "
            "graphmill.forbid_effects"
        )

    def _why_not_allowed(
        self, node: Node, kernel: KernelDef | None, effects: frozenset[str]
    ) -> str | None:
        """Return why the rules refuse a node regardless of its inputs; None if they do not."""
        if self.rules is None or (kernel is not None and kernel.brokered):
            return None
        from graphmill.access.broker import GUARDED

        guarded = effects & GUARDED
        if node.op_def.is_distributed:
            guarded -= {"net"}  # collectives reach the tasks of the program's own cluster
        for effect in sorted(guarded):
            for rules in self.rules:
                if not rules.allows(effect):
                    from graphmill.access.restricted_broker import refusal

                    return refusal(
                        f"the op {node.op}", _MEANINGS[effect], effect, effect, self.rules
                    )
        return None


def server_policy_of(config: ConfigProto) -> EffectsPolicy:
    """Return the policy for graphs that clients send to a server with a `ConfigProto`."""
    from graphmill.access.policy_config import with_access

    return policy_of(with_access(config, is_loaded=True))


def policy_of(config: ConfigProto) -> EffectsPolicy:
    """Return the policy of a `ConfigProto`.

    Raises:
        InvalidArgumentError: it names an unknown effect, or has a wrong rule.
    """
    options = config.graphmill
    sets = None
    if options.policy or options.allow:
        from graphmill.access.policy_config import rules_of  # few sessions have rules

        rules = rules_of(config)
        sets = None if rules is None else (rules,)
    return EffectsPolicy(options.forbid_effects, options.memory_budget_bytes, sets)


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
