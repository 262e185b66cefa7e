"""Signatures of a cluster's inputs: shapes, variables and static values."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphmill.spi import Ref, ResourceHandle, Variable
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.ir.handles import RESOURCE, VARIANT
from graphmill_plugins.jit.ir.pytrees import flatten

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from graphmill.spi import Node
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBody
    from graphmill_plugins.jit.ir.traced_variable import TracedVariable

_Looked: TypeAlias = "tuple[list[Any], list[int], list[Variable]]"


class Inputs:
    """The kinds of a cluster's inputs, by position.

    Besides its arguments a cluster has the variables that its own nodes name, or keep what they
    keep in; they come after the arguments.

    Args:
        scheduled: the cluster.
        nodes: those of it, and of functions that it calls, that name or keep a variable.

    Attributes:
        arrays: positions of tensors.
        pytrees: positions of variants, which must be pytrees.
        handles: positions of variables.
        nodes: those that name or keep variables; their positions follow the arguments.
        known: those of `arrays` whose values must be known at compile time; grows as compiling
            shows the need.
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
        self.known: frozenset[int] = frozenset()
        self._has_only_arrays = not (self.handles or self.pytrees)
        self._last: _Looked | None = None  # the same handles come in nearly every call

    def key(self, values: Sequence[Any]) -> Hashable:
        """Return the key of the inputs' signature; None if they have none.

        There is none where a variable has no value, or a handle is of something else, or a variant
        is not a pytree.
        """
        known = self.known
        if self._has_only_arrays and not known:
            return tuple([value.shape for value in values])
        variables = self.variables(values)
        if variables is None:
            return None
        slots, distinct = variables
        try:
            return self.key_of(values, known, slots, [one.value.shape for one in distinct])
        except NotTraceable:
            return None

    def key_of(
        self,
        values: Sequence[Any],
        known: frozenset[int],
        slots: Sequence[int],
        shapes: Iterable[tuple[int, ...]],
    ) -> Hashable:
        """Return the key of inputs of which some values are static.

        Which ones are is a part of it: what was compiled when fewer were known tells less apart.

        Raises:
            NotTraceable: a variant is not a pytree.
        """
        arrays = [
            (values[index].shape, np.asarray(values[index]).tobytes())
            if index in known
            else values[index].shape
            for index in self.arrays
        ]
        pytrees = [flatten(values[index]).key for index in self.pytrees]
        return (*((known,) if known else ()), *arrays, *pytrees, *slots, *shapes)

    def why_no_key(self, values: Sequence[Any]) -> str:
        """Return why inputs have no signature."""
        try:
            for index in self.pytrees:
                flatten(values[index])
        except NotTraceable as error:
            return str(error)
        return "a variable has no value yet, or a handle is not of a variable"

    def leaves(self, values: Sequence[Any]) -> list[Any]:
        """Return the arrays of all pytrees in the order of the program's arguments."""
        return [leaf for index in self.pytrees for leaf in flatten(values[index]).leaves]

    @staticmethod
    def known_of(key: Hashable) -> frozenset[int]:
        """Return the positions whose values a key contains."""
        first = key[0] if isinstance(key, tuple) and key else None
        return first if isinstance(first, frozenset) else frozenset()

    def variables(self, values: Sequence[Any]) -> tuple[list[int], list[Variable]] | None:
        """Return each handle's variable index, and the variables; None as in `key`.

        Two handles may be of one variable, which then has one value for both.
        """
        handles = [values[index] for index in self.handles]
        last = self._last
        if last is None or not all(map(operator.is_, handles, last[0])):
            last = self._last = self._look_at(handles)
            if last is None:
                return None
        _, slots, distinct = last
        return None if any(variable.value is None for variable in distinct) else (slots, distinct)

    @staticmethod
    def _look_at(handles: list[Any]) -> _Looked | None:
        """Return handles with the results of `variables`; None if a handle is not a variable."""
        distinct: dict[int, tuple[int, Variable]] = {}
        slots = []
        for value in handles:
            variable = value.resource if isinstance(value, ResourceHandle) else value
            if not isinstance(variable, Variable):
                return None
            slot, _ = distinct.setdefault(id(variable), (len(distinct), variable))
            slots.append(slot)
        return handles, slots, [variable for _, variable in distinct.values()]

    def traced_variables(self, values: Sequence[Any], slots: Sequence[int]) -> list[TracedVariable]:
        """Return for each handle the object that represents it during tracing."""
        from graphmill_plugins.jit.ir.traced_variable import TracedVariable

        return [
            TracedVariable(slot, isinstance(values[index], Ref), getattr(values[index], "name", ""))
            for index, slot in zip(self.handles, slots, strict=True)
        ]
