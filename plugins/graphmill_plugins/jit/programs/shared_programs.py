"""`SharedPrograms`: equal clusters of a session share one program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from graphmill_plugins.jit.programs.compiled_cluster import Layout
    from graphmill_plugins.jit.programs.program_cache import Program


@dataclass(eq=False)
class SharedProgram:
    """A compiled program without the values of large constants.

    Attributes:
        program: the program.
        prepare: computes what depends on large constants alone; None if nothing does.
        layout: the meaning of its outputs.
        num_hoisted: the number of operations in `prepare`.
        static: the positions of the inputs whose values are part of it.
        loop_bodies: the bodies of the loops of the cluster that it was compiled for, in order.
        text: the program in XLA's text form, if traced steps measure its nodes.
    """

    program: Program
    prepare: Callable[..., Sequence[Any]] | None
    layout: Layout
    num_hoisted: int
    static: frozenset[int]
    loop_bodies: tuple[str, ...]
    text: str = ""

    def prepared(self, constants: Sequence[Any]) -> tuple[Any, ...]:
        """Return the program's first arguments, which depend on large constants alone."""
        return () if self.prepare is None else tuple(self.prepare(*constants))


class SharedPrograms:
    """The programs in use, by the canonical forms and signatures of their clusters.

    A program is forgotten with the last cluster that uses it.

    Threads: any may call; two that compile equal clusters at the same moment both do.
    """

    def __init__(self) -> None:
        self._programs: WeakValueDictionary[Hashable, SharedProgram] = WeakValueDictionary()
        self._last: WeakValueDictionary[Hashable, SharedProgram] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._programs)

    def static_of(self, cluster: Hashable) -> frozenset[int]:
        """Return the inputs that were found to be static for an equal cluster.

        Args:
            cluster: the key of a cluster without its signature.
        """
        last = None if cluster is None else self._last.get(cluster)
        return frozenset() if last is None else last.static

    def find(self, cluster: Hashable, signature: Hashable) -> SharedProgram | None:
        """Return the program of equal clusters; None if there is none, or `cluster` is None."""
        return None if cluster is None else self._programs.get((cluster, signature))

    def add(self, cluster: Hashable, signature: Hashable, program: SharedProgram) -> None:
        """Add a program, unless `cluster` is None."""
        if cluster is not None:
            self._programs[cluster, signature] = self._last[cluster] = program


SHARED = SharedPrograms()
"""The programs in use in this process.

A key contains the device and the policy of a session, so sessions do not share programs.
"""
