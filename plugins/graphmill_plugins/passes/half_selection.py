"""Choose the nodes that are computed in a half type.

Semantics: `tensorflow/core/grappler/optimizers/auto_mixed_precision.cc`. What ops declare
(`HalfPrecision`) decides, together with what comes before and after a node, so that few casts are
needed and no value that needs the range of float32 loses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.spi import HalfPrecision, Source
from graphmill.spi.graphs import is_enter, is_merge, is_next_iteration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.spi import Node, OpDef
    from graphmill_plugins.passes.type_slots import TypeSlot, TypeSlots

_ALLOW: Final = HalfPrecision.ALLOW
_INFER: Final = HalfPrecision.INFER
_DENY: Final = HalfPrecision.DENY
_CLEAR: Final = HalfPrecision.CLEAR


class HalfSelection:
    """Selects slots; `half` are those selected so far, `unsafe` those that must stay in float32.

    Args:
        slots: the float32 slots of the graph.
        precision: what the op of a node declares for the half type.
        can_be_half: whether a slot may be changed: the node is on the right device, need not be
            preserved, and has a kernel for the half type.
        cast: the op of casts; those that exist may produce the half type at once.
    """

    def __init__(
        self,
        slots: TypeSlots,
        precision: Callable[[Node], HalfPrecision],
        can_be_half: Callable[[TypeSlot], bool],
        cast: OpDef,
    ) -> None:
        self._slots = slots
        self._precision = precision
        self._can_be_half = can_be_half
        self._cast = cast
        self.half: set[TypeSlot] = set()
        self.unsafe: set[TypeSlot] = set()

    def select(self) -> set[TypeSlot]:
        """Return the slots that become half; none if no op is worth it."""
        self.half = {slot for slot in self._of(_ALLOW) if self._can_be_half(slot)}
        if self.half:
            self._find_unsafe()
            self._add_between()
            self._add_following()
            self._add_neighbours()
            self._match_loops()
            self._add_casts()
        return self.half

    def _of(self, *kinds: HalfPrecision) -> list[TypeSlot]:
        return [slot for slot in self._slots.all if self._precision(slot.node) in kinds]

    def _find_unsafe(self) -> None:
        """Find unsafe slots, and those that follow them up to the next op that is not affected."""
        before = self._reach(
            self._of(_DENY, _INFER),
            self._slots.producers,
            lambda slot: self._precision(slot.node) is _CLEAR,
        )
        self.unsafe = self._reach(self._of(_DENY), self._slots.consumers, before.__contains__)

    def _add_between(self) -> None:
        """Add safe slots on paths between two that are worth it."""
        roots = set(self.half)
        after = self._reach(roots, self._slots.consumers, self._is_safe)
        self.half |= self._reach(roots, self._slots.producers, after.__contains__)

    def _is_safe(self, slot: TypeSlot) -> bool:
        return (
            self._precision(slot.node) in (_INFER, _CLEAR)
            and slot not in self.unsafe
            and self._can_be_half(slot)
        )

    def _add_following(self) -> None:
        """Add `INFER` slots that read a selected slot, and no unsafe one."""
        for slot in self._of(_INFER):
            sources = self._slots.producers(slot)
            follows = not self.half.isdisjoint(sources) and self.unsafe.isdisjoint(sources)
            if follows and self._is_safe(slot):
                self.half.add(slot)

    def _add_neighbours(self) -> None:
        """Add `CLEAR` slots around selected ones, except reads of variables of version 1."""
        self.half |= self._reach(
            self.half,
            lambda slot: [*self._slots.producers(slot), *self._slots.consumers(slot)],
            lambda slot: (
                self._precision(slot.node) is _CLEAR
                and self._is_safe(slot)
                and not _reads_variable(slot.node)
            ),
        )

    def _match_loops(self) -> None:
        """Give a `NextIteration` and the `Merge` that it feeds the same type."""
        for slot in self._slots.all:
            if not is_next_iteration(slot.node):
                continue
            merges = [one for one in self._slots.consumers(slot) if is_merge(one.node)]
            if merges and self.half.issuperset(merges):
                self.half.add(slot)
            else:
                self.half -= {slot, *merges}

    def _add_casts(self) -> None:
        """Add casts to float32 whose results are only read in the half type."""
        for slot in self._slots.all:
            readers = self._slots.consumers(slot)
            is_cast = slot.node.op_def == self._cast
            if is_cast and readers and self.half.issuperset(readers) and self._can_be_half(slot):
                self.half.add(slot)

    def _reach(
        self,
        roots: Iterable[TypeSlot],
        neighbours: Callable[[TypeSlot], Iterable[TypeSlot]],
        enters: Callable[[TypeSlot], bool],
    ) -> set[TypeSlot]:
        """Return the roots, and the slots reachable through slots that `enters` accepts."""
        reached = set(roots)
        pending = list(reached)
        while pending:
            for slot in neighbours(pending.pop()):
                if slot not in reached and enters(slot):
                    reached.add(slot)
                    pending.append(slot)
        return reached


def _reads_variable(node: Node) -> bool:
    """Return whether a node reads a variable of version 1, or is the `Enter` of such a read."""
    if not node.in_edges:
        return False
    source = node.in_edges[0].src
    if is_enter(node):
        return _reads_variable(source)
    return node.op_def.traits.forwards and source.op_def.traits.source is Source.VARIABLE
