"""Device scopes of a graph under construction: names and functions that assign a device.

Semantics: Graph.device and Graph._apply_device_functions of tensorflow/python/framework/ops.py.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from graphmill.errors import InvalidArgumentError
from graphmill.graph.device_name import DeviceName, parse_device_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.graph.node import Node

    DeviceFunction: TypeAlias = Callable[[Node], str | None]
    DeviceSpec: TypeAlias = str | DeviceName | DeviceFunction | None


class DeviceScopes:
    """The open device scopes, innermost last."""

    def __init__(self) -> None:
        self._stack: list[DeviceSpec] = []

    @contextmanager
    def scope(self, spec: DeviceSpec) -> Iterator[None]:
        """Open a scope.

        Args:
            spec: a full or partial device name, whose parts inner scopes override; a function of
                the new node that returns its device; None to suspend enclosing scopes.

        Raises:
            InvalidArgumentError: the name is not a device name.
        """
        if isinstance(spec, str):
            spec = parse_device_name(spec)
        self._stack.append(spec)
        try:
            yield
        finally:
            self._stack.pop()

    @contextmanager
    def without(self) -> Iterator[None]:
        """Suspend all scopes for the block."""
        outer, self._stack = self._stack, []
        try:
            yield
        finally:
            self._stack = outer

    def apply(self, node: Node) -> None:
        """Set the device of a new node according to the scopes, innermost first.

        Raises:
            InvalidArgumentError: a device function does not return a device name.
        """
        for spec in reversed(self._stack):
            if spec is None:
                return
            if isinstance(spec, (str, DeviceName)):
                outer = spec if isinstance(spec, DeviceName) else parse_device_name(spec)
                node.device = str(parse_device_name(node.device).merged_over(outer))
                continue
            device = spec(node) or ""
            if not isinstance(device, str):
                raise InvalidArgumentError(
                    f"the device function {spec!r} returned {device!r}, expected a device name",
                    node=node.name,
                    op_type=node.op,
                )
            node.device = str(parse_device_name(device))
