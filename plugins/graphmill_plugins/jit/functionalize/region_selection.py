"""Select the regions that become functional nodes: by default those that can be traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.graphs import is_control_trigger
from graphmill_plugins.jit.ir.invariant_nodes import is_source
from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Host, Node
    from graphmill_plugins.jit.functionalize.region import Region


def traceable_regions(
    host: Host, choices: LoweringChoices | None = None
) -> Callable[[Region], str | None]:
    """Return a function that refuses regions on several devices and those that are not traceable.

    Args:
        host: provides the kernels.
        choices: how the nodes are compiled; by default for the host's processor.
    """
    lowerings = choices or LoweringChoices(host)

    def refusal_of(region: Region) -> str | None:
        devices = {node.assigned_device or node.device for node in region.nodes}
        if len(devices) > 1:
            return f"its nodes are on several devices: {', '.join(sorted(devices))}"
        return next(filter(None, (why_untraceable(node, lowerings) for node in region.nodes)), None)

    return refusal_of


def why_untraceable(node: Node, choices: LoweringChoices) -> str | None:
    """Return why the compiler cannot trace a node, or None."""
    traits = node.op_def.traits
    has_role = traits.is_control_flow or is_control_trigger(node)
    if has_role or is_source(node) or traits.forwards:
        reason = choices.why_role_may_not_hold(node)
        return f"{node.name} ({node.op}): {reason}" if reason else None
    choice = choices.of(node)
    return f"{node.name} ({node.op}): {choice}" if isinstance(choice, str) else None
