"""Scopes of a graph under construction that set attrs of its nodes.

Semantics: Graph.container and Graph.gradient_override_map of tensorflow/python/framework/ops.py.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphmill.ops.definition.op_def import OpDef

GRADIENT_ATTR: Final = "_gradient_op_type"
"""The attr that names the gradient function of a node, if it is not that of its op."""
_CONTAINER_ATTR: Final = "container"


class AttrScopes:
    """The scopes of a graph that set attrs of the nodes added in them."""

    def __init__(self) -> None:
        self._container = b""
        self._gradients: Mapping[str, str] = {}
        super().__init__()

    @contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Keep the resources of the stateful nodes of a `with` block in a container.

        `Session.reset` clears a container by its name. An inner scope replaces the outer one, and
        a node that names a container itself keeps it.

        Args:
            container_name: name of the container; "" for the default one.
        """
        outer, self._container = self._container, container_name.encode()
        try:
            yield container_name
        finally:
            self._container = outer

    @contextmanager
    def gradient_override_map(self, op_type_map: Mapping[str, str]) -> Iterator[None]:
        """Differentiate ops of a `with` block by other gradient functions than their own.

        Args:
            op_type_map: by the name of an op the name under which the other function is registered:
                `default_host().gradients.add` takes a function that
                `@graphmill.gradient("MySquare")` declares.

        Raises:
            InvalidArgumentError: it is not a dict of strings.
        """
        if not isinstance(op_type_map, dict) or not all(
            isinstance(text, str) for pair in op_type_map.items() for text in pair
        ):
            raise InvalidValueError(
                f"op_type_map is {op_type_map!r}, expected a dict from names of ops to names of "
                "gradient functions"
            )
        outer, self._gradients = self._gradients, {**self._gradients, **op_type_map}
        try:
            yield
        finally:
            self._gradients = outer

    def _with_scoped_attrs(self, op_def: OpDef, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the attrs of a new node with those that the scopes set."""
        if self._container and op_def.is_stateful and attrs.get(_CONTAINER_ATTR) == b"":
            attrs = {**attrs, _CONTAINER_ATTR: self._container}
        if self._gradients and op_def.name in self._gradients:
            attrs = {**attrs, GRADIENT_ATTR: self._gradients[op_def.name].encode()}
        return attrs
