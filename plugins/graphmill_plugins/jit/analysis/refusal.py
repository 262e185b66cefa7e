"""`Refusal`: why the session's policy forbids a node that a function would run."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Device, Node
    from graphmill.spi.passes import PassOptions

Refusal: TypeAlias = "Callable[[Node], str | None]"


def refuses_nothing(node: Node) -> None:
    """Return None for every node: nothing is forbidden."""
    del node


def refusal_on(devices: Sequence[Device], options: PassOptions) -> Refusal:
    """Return a function that returns why the policy refuses a node on any of the devices."""
    policy, kernels = options.effects, options.host.kernels
    if policy.allows_everything:
        return refuses_nothing

    def refusal(node: Node) -> str | None:
        reasons = (policy.why_refused(node, device, kernels) for device in devices)
        return next(filter(None, reasons), None)

    return refusal
