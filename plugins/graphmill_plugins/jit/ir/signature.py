"""Signatures of a cluster's inputs: shapes, variables and static values."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphmill.spi import Ref, ResourceHandle, Variable
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.ir.handles import RESOURCE, VARIANT

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from graphmill.spi import Node
    from graphmill_plugins.jit.ir.pytrees import Flat
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBody
    from graphmill_plugins.jit.ir.traced_variable import TracedVariable

_Resolved: TypeAlias = "tuple[list[Any], tuple[list[int], list[Variable]]]"


class Inputs:
    """The kinds of a cluster's inputs, by position.

    The inputs are the cluster's arguments, followed by the variables that its nodes name, or in
    which kernels of its nodes keep state.

    Args:
        scheduled: the cluster.
        nodes: the nodes of the cluster and its functions that name or keep a variable.

    Attributes:
        arrays: positions of tensors.
        pytrees: positions of variants, which must be pytrees.
        handles: positions of variables.
        nodes: the nodes that name or keep variables; their positions follow the arguments.
        static: positions of the `arrays` that must be static; the compiler adds to them when a node
            requires static inputs.
    """

    def __init__(self, scheduled: ScheduledBody, nodes: Iterable[Node] = ()) -> None:
        types = scheduled.arg_types
        self.handles = [
            index for index, dtype in enumerate(types) if dtype.is_ref or dtype.name == RESOURCE
        ]
        self.pytrees = [
            index
            for index, dtype in enumerate(types)
            if dtype.name == VARIANT and index not in self.handles
        ]
        others = {*self.handles, *self.pytrees}
        self.arrays = [index for index in range(len(types)) if index not in others]
        self.nodes = list(nodes)
        self.handles.extend(range(len(types), len(types) + len(self.nodes)))
        self.static: frozenset[int] = frozenset()
        self._has_only_arrays = not (self.handles or self.pytrees)
        self._last: _Resolved | None = None  # nearly every call has the same handles

    def key(self, values: Sequence[Any]) -> Hashable:
        """Return the key of the inputs' signature; None if they have none.

        They have none if a variable is uninitialized, a handle is not that of a variable, or a
        variant is not a pytree.
        """
        static = self.static
        if self._has_only_arrays and not static:
            return tuple([value.shape for value in values])
        resolved = self.variables(values)
        shapes = None if resolved is None else Variable.shapes_of(resolved[1])
        if resolved is None or shapes is None:
            return None
        try:
            return self.key_of(values, static, resolved[0], shapes)
        except NotTraceable:
            return None

    def key_of(
        self,
        values: Sequence[Any],
        static: frozenset[int],
        slots: Sequence[int],
        shapes: Iterable[tuple[int, ...]],
    ) -> Hashable:
        """Return the key of inputs, some of which are static.

        The key contains the positions of the static inputs, as signatures from before an input
        became static distinguish fewer values.

        Raises:
            NotTraceable: a variant is not a pytree.
        """
        arrays = [
            (values[index].shape, np.asarray(values[index]).tobytes())
            if index in static
            else values[index].shape
            for index in self.arrays
        ]
        pytrees = [_flatten(values[index]).key for index in self.pytrees]
        return (*((static,) if static else ()), *arrays, *pytrees, *slots, *shapes)

    def why_no_key(self, values: Sequence[Any]) -> str:
        """Return why inputs have no signature."""
        try:
            for index in self.pytrees:
                _flatten(values[index])
        except NotTraceable as error:
            return str(error)
        return "a variable has no value yet, or a handle is not of a variable"

    def leaves(self, values: Sequence[Any]) -> list[Any]:
        """Return the arrays of all pytrees in the order of the program's arguments."""
        return [leaf for index in self.pytrees for leaf in _flatten(values[index]).leaves]

    @staticmethod
    def static_of(key: Hashable) -> frozenset[int]:
        """Return the positions of the inputs whose values a key contains."""
        first = key[0] if isinstance(key, tuple) and key else None
        return first if isinstance(first, frozenset) else frozenset()

    def variables(self, values: Sequence[Any]) -> tuple[list[int], list[Variable]] | None:
        """Return the index of each handle's variable, and the variables, which may have no value.

        Two handles may refer to the same variable. None if a handle is not that of a variable. The
        lists are the same objects as long as the handles are.
        """
        handles = [values[index] for index in self.handles]
        last = self._last
        if last is None or not all(map(operator.is_, handles, last[0])):
            last = self._last = self._resolve(handles)
            if last is None:
                return None
        return last[1]

    @staticmethod
    def _resolve(handles: list[Any]) -> _Resolved | None:
        """Return handles with the results of `variables`; None if a handle is not a variable."""
        distinct: dict[int, tuple[int, Variable]] = {}
        slots = []
        for value in handles:
            variable = value.resource if isinstance(value, ResourceHandle) else value
            if not isinstance(variable, Variable):
                return None
            slot, _ = distinct.setdefault(id(variable), (len(distinct), variable))
            slots.append(slot)
        return handles, (slots, [variable for _, variable in distinct.values()])

    def traced_variables(self, values: Sequence[Any], slots: Sequence[int]) -> list[TracedVariable]:
        """Return for each handle the object that represents it during tracing."""
        from graphmill_plugins.jit.ir.traced_variable import TracedVariable

        return [
            TracedVariable(slot, isinstance(values[index], Ref), getattr(values[index], "name", ""))
            for index, slot in zip(self.handles, slots, strict=True)
        ]


def _flatten(value: Any) -> Flat:
    # Imported here: most clusters have no pytrees.
    from graphmill_plugins.jit.ir.pytrees import flatten

    return flatten(value)
