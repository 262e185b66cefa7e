"""Device scopes of a graph that is being built: names and functions that give nodes a device.

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
    """The device scopes that are open, innermost last."""

    def __init__(self) -> None:
        self._stack: list[DeviceSpec] = []

    @contextmanager
    def scope(self, spec: DeviceSpec) -> Iterator[None]:
        """Open a scope.

        Args:
            spec: a device name, whole or in part, whose parts inner scopes override; a function of
                the new node that returns its device; None to close off the scopes around.

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
        """Leave all scopes for the block."""
        outer, self._stack = self._stack, []
        try:
            yield
        finally:
            self._stack = outer

    def apply(self, node: Node) -> None:
        """Give a new node the device that the scopes say, innermost first.

        Raises:
            InvalidArgumentError: a device function returns no device name.
        """
        for spec in reversed(self._stack):
            if spec is None:
                return
            if isinstance(spec, (str, DeviceName)):
                outer = spec if isinstance(spec, DeviceName) else parse_device_name(spec)
                node.device = str(parse_device_name(node.device).merged_over(outer))
                continue
            answer = spec(node) or ""
            if not isinstance(answer, str):
                raise InvalidArgumentError(
                    f"the device function {spec!r} returned {answer!r}, expected a device name",
                    node=node.name,
                    op=node.op,
                )
            node.device = str(parse_device_name(answer))
