"""`SignatureTable`: the signatures of a cluster, and which of them have a program slot.

Programs take memory and time to compile, so the number of signatures with a program is limited. A
new signature is interpreted while all slots are taken. If it is then called at least twice as often
as a signature that has a program or is counted for one, it gets the slot of that one. So signatures
that are called once, or that alternate, never evict others: each compilation is amortized over many
calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill_plugins.jit.tiers.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from graphmill_plugins.jit.tiers.signature_state import Signature

MAX_COMPILED: Final = 16
MAX_SIGNATURES: Final = 4 * MAX_COMPILED
CALLS_FOR_A_SLOT: Final = 64
CHANGES_OFTEN: Final = "the shapes of its inputs change too often; pad them to a few sizes"


class SignatureTable:
    """The signatures of one cluster.

    Threads: the lock of the cluster's tiers guards it for writing; `get` takes none.
    """

    def __init__(self) -> None:
        self._signatures: dict[Hashable, Signature] = {}
        self.get = self._signatures.get

    def is_full(self) -> bool:
        """Return whether all slots are taken."""
        return self._num_slots() >= MAX_COMPILED

    def why_full(self) -> str:
        """Return why a new signature has no slot: the states of the signatures that have one."""
        counting = len(self.in_states((State.COUNTING,)))
        if counting:
            num_given = MAX_COMPILED - counting
            others = f", {num_given} were given to the compiler" if num_given else ""
            return f"{counting} signatures are being counted{others}: {CHANGES_OFTEN}"
        if len(self.holders()) == MAX_COMPILED:
            return f"there are already {MAX_COMPILED} compiled signatures: {CHANGES_OFTEN}"
        return f"{MAX_COMPILED} signatures were given to the compiler: {CHANGES_OFTEN}"

    def add(self, signature: Signature) -> None:
        """Add a new signature; evict rarely called ones without a slot to make room."""
        table = self._signatures
        if len(table) >= MAX_SIGNATURES:
            refused = [one for one in table.values() if one.state is State.NO_SLOT]
            refused.sort(key=lambda one: one.refused_calls)
            for one in refused[: (len(refused) + 1) // 2]:
                del table[one.key]
        if len(table) < MAX_SIGNATURES:
            table[signature.key] = signature

    def remove(self, key: Hashable) -> None:
        """Remove a signature."""
        del self._signatures[key]

    def put(self, signature: Signature) -> None:
        """Add a signature that has a slot, regardless of the table's size."""
        self._signatures[signature.key] = signature

    def remove_if(self, is_outdated: Callable[[Hashable], bool]) -> list[Signature]:
        """Remove the signatures whose keys are outdated; return them."""
        removed = [one for key, one in self._signatures.items() if is_outdated(key)]
        for one in removed:
            del self._signatures[one.key]
        return removed

    def in_states(self, states: Collection[State]) -> list[Signature]:
        """Return the signatures that are in any of the given states."""
        return [one for one in self._signatures.values() if one.state in states]

    def holders(self) -> list[Signature]:
        """Return the signatures that have a program."""
        return [one for one in self._signatures.values() if one.kept_program is not None]

    def rivals(self) -> list[Signature]:
        """Return the signatures that may lose their slot: those with a program, or being counted.

        The others that have a slot are waiting for the compiler, or it failed to compile them.
        """
        return [
            one
            for one in self._signatures.values()
            if one.kept_program is not None or one.state is State.COUNTING
        ]

    def rival_of(self, signature: Signature) -> Signature | None:
        """Return the signature that should give up its slot to `signature`; None if none should.

        It is the least called of `rivals`, if `signature` has had at least twice as many calls
        since both are counted.
        """
        since = signature.others_calls
        calls = {one: one.num_calls - since[one] for one in self.rivals() if one in since}
        last = min(calls, key=lambda one: calls[one], default=None)
        return None if last is None or signature.refused_calls < 2 * calls[last] else last

    def validate(self) -> None:
        """Check the invariants of the table and of each signature in it.

        Raises:
            AssertionError: an invariant is broken; the message says which.
        """
        for key, signature in self._signatures.items():
            signature.validate()
            if signature.key != key:
                raise AssertionError(f"{signature.subject} is stored under another key")
            if signature.state in (State.NEW, State.EVICTED):
                raise AssertionError(f"a {signature.state.value} signature is in the table")
        if len(self._signatures) > MAX_SIGNATURES + MAX_COMPILED:
            raise AssertionError(
                f"the table has {len(self._signatures)} signatures, more than "
                f"{MAX_SIGNATURES + MAX_COMPILED}"
            )
        if self._num_slots() > MAX_COMPILED:
            raise AssertionError(f"{self._num_slots()} of {MAX_COMPILED} slots are taken")

    def _num_slots(self) -> int:
        return sum([one.holds_slot for one in self._signatures.values()])
