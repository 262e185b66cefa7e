"""`FunctionLibrary`: the functions of a graph, by name, with their gradients.

Semantics: `FunctionLibraryDefinition` in `tensorflow/core/framework/function.h`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, suggest
from graphmill.ops.definition.op_def import OpDef

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphmill import proto
    from graphmill.graph.functions.function_body import FunctionBody


class FunctionLibrary:
    """Functions as `FunctionDef` messages; a message must not change once it is added.

    The library also holds bodies: functions that passes built from a graph's own nodes. Nodes call
    them by name like the others, but they have no message and are never written out.

    Attributes:
        gradients: the name of the gradient function, by name of the function.
        registered_gradients: the op type, by name of its gradient function.
        large_tensors: contents of constants that were cut out of the messages, by function, node
            and attr name.
    """

    def __init__(self) -> None:
        self._functions: dict[str, proto.FunctionDef] = {}
        self._signatures: dict[str, OpDef] = {}
        self._bodies: dict[str, FunctionBody] = {}
        self.gradients: dict[str, str] = {}
        self.large_tensors: dict[tuple[str, str, str], Any] = {}
        self.registered_gradients: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._functions)

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def get(self, name: str) -> proto.FunctionDef:
        """Return a function.

        Raises:
            NotFoundError: there is no function of that name; the message names near matches.
        """
        function = self._functions.get(name)
        if function is None:
            raise NotFoundError(
                f"the graph has no function {name!r}{suggest(name, self._functions)}"
            )
        return function

    def signature(self, name: str) -> OpDef:
        """Return a function's signature as an `OpDef`, so that nodes can call it like an op.

        Raises:
            NotFoundError: there is no function of that name.
        """
        parsed = self._signatures.get(name)
        if parsed is None:
            parsed = self._signatures[name] = OpDef.from_proto(self.get(name).signature)
        return parsed

    def attr_names(self, name: str) -> frozenset[str]:
        """Return the names of the attrs that a function is instantiated with; a body has none.

        Raises:
            NotFoundError: there is no function and no body of that name.
        """
        if name in self._bodies:
            return frozenset()
        return frozenset(attr.name for attr in self.signature(name).attrs)

    def body(self, name: str) -> FunctionBody | None:
        """Return a body, which must not be changed, or None if there is none of this name."""
        return self._bodies.get(name)

    def add_body(self, name: str, body: FunctionBody) -> None:
        """Add a body under an unused name.

        Raises:
            AlreadyExistsError: the name is taken.
        """
        if name in self._functions or name in self._bodies:
            raise AlreadyExistsError(f"the library already has a function {name!r}")
        self._bodies[name] = body

    def discard_body(self, name: str) -> None:
        """Remove a body that no graph calls any more, if it exists."""
        self._bodies.pop(name, None)

    def add(self, function: proto.FunctionDef) -> None:
        """Add a function; adding an equal one again does nothing.

        Raises:
            InvalidArgumentError: it has no name, or a different function has its name.
        """
        name = function.signature.name
        if not name:
            raise InvalidArgumentError("a function of the library has no name in its signature")
        existing = self._functions.get(name)
        if existing is None:
            self._functions[name] = function
        elif existing is not function and existing != function:
            raise InvalidArgumentError(
                f"Cannot add function '{name}' because a different function with the same name "
                "already exists."
            )

    def add_library(
        self,
        library: proto.FunctionDefLibrary,
        large_tensors: Mapping[tuple[str, str, str], Any] | None = None,
    ) -> None:
        """Add all functions and gradients of a library; on an error add nothing.

        Raises:
            InvalidArgumentError: a function or gradient contradicts an existing one.
        """
        trial = self.copy()
        for function in library.function:
            trial.add(function)
        for gradient in library.gradient:
            existing = trial.gradients.setdefault(gradient.function_name, gradient.gradient_func)
            if existing != gradient.gradient_func:
                raise InvalidArgumentError(
                    f"function '{gradient.function_name}' is given the gradient "
                    f"'{gradient.gradient_func}' but has '{existing}' already"
                )
        for registered in library.registered_gradients:
            trial.registered_gradients[registered.gradient_func] = registered.registered_op_type
        trial.large_tensors.update(
            {key: value for key, value in (large_tensors or {}).items() if key[0]}
        )
        self._replace_by(trial)

    def copy(self) -> FunctionLibrary:
        """Return a library with the same functions."""
        other = FunctionLibrary()
        other._functions = dict(self._functions)
        other._signatures = dict(self._signatures)
        other._bodies = dict(self._bodies)
        other.gradients = dict(self.gradients)
        other.large_tensors = dict(self.large_tensors)
        other.registered_gradients = dict(self.registered_gradients)
        return other

    def only(self, names: Iterable[str]) -> FunctionLibrary:
        """Return a library with some of the functions, and the gradients among them."""
        other = FunctionLibrary()
        other._functions = {name: self.get(name) for name in names}
        present = other._functions
        other.gradients = {
            name: gradient
            for name, gradient in self.gradients.items()
            if name in present and gradient in present
        }
        other.registered_gradients = {
            name: op for name, op in self.registered_gradients.items() if name in present
        }
        other.large_tensors = {
            key: value for key, value in self.large_tensors.items() if key[0] in present
        }
        return other

    def write(self, library: proto.FunctionDefLibrary) -> None:
        """Write functions and gradients into a message, including contents that were cut out."""
        from graphmill.ops.attrs.attr_types import TensorAttr
        from graphmill.ops.attrs.attr_value import attr_to_proto

        for name, function in self._functions.items():
            message = library.function.add()
            message.CopyFrom(function)
            cut = {key[1:]: value for key, value in self.large_tensors.items() if key[0] == name}
            if cut:
                for node in message.node_def:
                    for (node_name, attr), value in cut.items():
                        if node_name == node.name:
                            attr_to_proto(TensorAttr(value), node.attr[attr])
        for name, gradient in self.gradients.items():
            library.gradient.add(function_name=name, gradient_func=gradient)
        for gradient, op in self.registered_gradients.items():
            library.registered_gradients.add(gradient_func=gradient, registered_op_type=op)

    def _replace_by(self, other: FunctionLibrary) -> None:
        self._functions = other._functions
        self._signatures = other._signatures
        self._bodies = other._bodies
        self.gradients = other.gradients
        self.large_tensors = other.large_tensors
        self.registered_gradients = other.registered_gradients
