"""Evaluate control flow on demand: a value in an iteration requests its inputs.

There are no queues, pending counts or frame states, only a table of the outputs of each node in
each iteration. The outputs do not depend on when a node runs, so this is an oracle for executors,
which run a node when its inputs arrive. Semantics: section 3 of "Dynamic Control Flow in
Large-Scale Machine Learning" (Yu et al., 2018): a value is tagged with the iteration of every frame
around it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.ops.definition.op_traits import ControlFlow
from graphmill.runtime.dead import DEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Tag: TypeAlias = tuple[tuple[str, int], ...]
    """An iteration: (frame, iteration index) for each enclosing frame, outermost first."""
    Key: TypeAlias = tuple[str, Tag]
    Compute: TypeAlias = Callable[[str, Sequence[Any]], list[Any]]

EVALUATED: Final = frozenset(ControlFlow) - {ControlFlow.NONE, ControlFlow.SWITCH_N}
"""The control flow roles that this module evaluates; other nodes are computed by their kernels."""


class _NotYetError(Exception):
    """A requested value must be computed first."""

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self.key = key


class FramesReference:
    """The values of one step of a graph with control flow.

    Args:
        nodes: all NodeDefs by name.
        role: returns the control flow role of a node, by its name.
        needed: names of the nodes that the step needs.
        fed: values by (node, output).
        compute: computes a node that is not control flow from its inputs.

    Attributes:
        fired: the outputs of each node, by node and iteration; None for a dead node.
    """

    def __init__(
        self,
        nodes: Mapping[str, Any],
        role: Callable[[str], ControlFlow],
        needed: Iterable[str],
        fed: Mapping[tuple[str, int], Any],
        compute: Compute,
    ) -> None:
        self._nodes = nodes
        self._role = role
        self._fed = fed
        self._compute = compute
        self._inputs = {name: _inputs_of(nodes[name]) for name in needed}
        self._frames: dict[str, tuple[str, ...]] = {}
        self.fired: dict[Key, list[Any] | None] = {}
        self._back: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for name in self._inputs:
            if role(name) is ControlFlow.NEXT_ITERATION:
                self._back[self._frame(name)].append(name)

    def value(self, name: str, output: int) -> Any:
        """Return a tensor outside of loops; `DEAD` if it is dead.

        Raises:
            InvalidArgumentError: a value depends on itself, or a loop never ends.
        """
        stack: list[Key] = []
        while True:
            try:
                if not stack:
                    return self._output((name, output), ())
                key = stack[-1]
                self.fired[key] = self._fire(*key)
                stack.pop()
            except _NotYetError as missing:
                if missing.key in stack:
                    raise InvalidArgumentError(f"{missing.key[0]!r} depends on itself") from missing
                stack.append(missing.key)

    def _fire(self, name: str, tag: Tag) -> list[Any] | None:
        """Return the outputs of a node in an iteration; None if it is dead."""
        role = self._role(name)
        data, control = self._inputs[name]
        waits = [self._is_dead(source, tag) for source in control]
        if role is ControlFlow.TRIGGER:
            return []
        if role is ControlFlow.MERGE:
            return self._merge(data, tag)
        if any(waits):
            return None
        inputs = [self._output(source, tag) for source in data]
        if any(value is DEAD for value in inputs):
            return None
        if role is ControlFlow.SWITCH:
            taken = int(bool(inputs[1]))
            return [DEAD, inputs[0]] if taken else [inputs[0], DEAD]
        if role in EVALUATED:
            return inputs
        return self._compute(name, inputs)

    def _merge(self, data: Sequence[tuple[str, int]], tag: Tag) -> list[Any] | None:
        for position, source in enumerate(data):
            if self._merge_receives(source[0], tag):
                value = self._output(source, tag)
                if value is not DEAD:
                    return [value, np.int32(position)]
        return None

    def _merge_receives(self, source: str, tag: Tag) -> bool:
        """Return whether a loop's `Merge` receives this input in an iteration, dead or alive."""
        role = self._role(source)
        if role is ControlFlow.NEXT_ITERATION:
            return tag[-1][1] > 0
        return role is not ControlFlow.ENTER or tag[-1][1] == 0 or self._is_constant(source)

    def _output(self, source: tuple[str, int], tag: Tag) -> Any:
        """Return the value of a tensor for a consumer in an iteration."""
        if source in self._fed:
            return self._fed[source]
        name, output = source
        outputs = self._outputs(name, self._producer_iteration(name, tag))
        return DEAD if outputs is None else outputs[output]

    def _is_dead(self, name: str, tag: Tag) -> bool:
        if name not in self._inputs:  # a fed node does not run
            return False
        return self._outputs(name, self._producer_iteration(name, tag)) is None

    def _outputs(self, name: str, tag: Tag) -> list[Any] | None:
        key = (name, tag)
        if key not in self.fired:
            raise _NotYetError(key)
        return self.fired[key]

    def _producer_iteration(self, name: str, tag: Tag) -> Tag:
        """Return the iteration that produced a value read in the iteration `tag`."""
        role = self._role(name)
        if role is ControlFlow.ENTER:
            return tag[:-1]
        if role is ControlFlow.NEXT_ITERATION:
            (frame, iteration) = tag[-1]
            return (*tag[:-1], (frame, iteration - 1))
        return self._exit_iteration(name, tag) if role is ControlFlow.EXIT else tag

    def _exit_iteration(self, name: str, tag: Tag) -> Tag:
        """Return the iteration in which an `Exit` is live, or the last one."""
        path = self._frame(name)
        iteration = 0
        while True:
            inside = (*tag, (path[-1], iteration))
            continues = self._outputs(name, inside) is None and any(
                self._outputs(back, inside) is not None for back in self._back[path]
            )
            if not continues:
                return inside
            iteration += 1

    def _frame(self, name: str) -> tuple[str, ...]:
        """Return the frames of a node, outermost first; found by walking back to an `Enter`."""
        stack = [name]
        while stack:
            top = stack[-1]
            source = self._first_source(top)
            if source is None:
                self._frames[top] = ()
            elif source in self._frames:
                self._frames[top] = self._frame_behind(source)
            else:
                stack.append(source)
                continue
            stack.pop()
        return self._frames[name]

    def _first_source(self, name: str) -> str | None:
        data, control = self._inputs[name]
        sources = [source for source, _ in data] + list(control)
        run = (source for source in sources if source in self._inputs)  # fed nodes do not run
        back = ControlFlow.NEXT_ITERATION
        return next((source for source in run if self._role(source) is not back), None)

    def _frame_behind(self, source: str) -> tuple[str, ...]:
        role, path = self._role(source), self._frames[source]
        if role is ControlFlow.ENTER:
            return (*path, self._nodes[source].attr["frame_name"].s.decode())
        return path[:-1] if role is ControlFlow.EXIT else path

    def _is_constant(self, enter: str) -> bool:
        return bool(self._nodes[enter].attr["is_constant"].b)


def split_tensor(text: str) -> tuple[str, int]:
    """Split a tensor's name into node and output."""
    name, _, index = text.partition(":")
    return name, int(index or 0)


def _inputs_of(node: Any) -> tuple[list[tuple[str, int]], list[str]]:
    data = [split_tensor(text) for text in node.input if not text.startswith("^")]
    return data, [text[1:] for text in node.input if text.startswith("^")]
