"""`PassRegistry`: graph passes by name, each with its phase and its place in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from graphmill import errors
from graphmill.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.graph.graph import Graph
    from graphmill.lowering.passes import PassOptions
    from graphmill.registry import Provenance

Pass: TypeAlias = "Callable[[Graph, PassOptions], None]"
"""A graph pass: called with the graph, which it edits in place."""

HOT: Final = "HOT"
"""The phase for a graph that has run often: it is built again, behind the steps that go on."""
HOT_PLACEMENT: Final = "HOT_PLACEMENT"
"""The phase for the same graph while it is whole: its nodes have devices, which may be changed."""

PHASES: Final = (
    "PRE_PLACEMENT",
    "POST_PLACEMENT",
    "POST_REWRITE_FOR_EXEC",
    HOT_PLACEMENT,
    "POST_PARTITIONING",
    HOT,
)
"""The points between two steps of lowering at which passes run, in that order.

`HOT_PLACEMENT` and `HOT` are ours.

Names: `OptimizationPassRegistry::Grouping` in
tensorflow/core/common_runtime/optimization_registry.h.
"""


class PassPlace(NamedTuple):
    """When a pass runs: in `phase`, lower `order` first, then by name."""

    phase: str
    order: int


class PassRegistry(Registry[Pass]):
    """A registry whose entries also say when they run.

    Threads: as `Registry`; places are set while a host is assembled and only read later.
    """

    def __init__(self, *, failures: Callable[[], Iterable[str]] = tuple) -> None:
        super().__init__(
            "pass", hook="graphmill_register_passes", prepare=_prepare_pass, failures=failures
        )
        self._places: dict[tuple[str, Provenance], PassPlace] = {}
        self._by_phase: dict[str, tuple[tuple[str, PassPlace], ...]] = {}
        """Names and places of the passes of a phase as they run; each step that is built asks."""

    def add_pass(
        self,
        name: str,
        value: Pass | str,
        *,
        phase: str,
        order: int = 0,
        owner: Provenance,
        priority: int = 0,
        replace: bool = False,
    ) -> None:
        """Register a pass.

        Args:
            name: its name, for `explain` and for replacing it.
            value: the pass, a class of which one is made, or "package.module:Attribute".
            phase: one of `PHASES`.
            order: lower runs earlier in the phase; equal ones run by name.
            owner, priority, replace: as in `Registry.add`.

        Raises:
            InvalidArgumentError: there is no such phase.
            PluginConflictError: the name is registered with the same rank already.
        """
        if phase not in PHASES:
            raise errors.InvalidArgumentError(
                f"pass {name!r} from {owner} asks for phase {phase!r}"
                f"{errors.suggest(str(phase), PHASES)}. There are: {', '.join(PHASES)}",
                plugin=owner.plugin,
            )
        self.add(name, value, owner=owner, priority=priority, replace=replace)
        self._places[name, owner] = PassPlace(phase, order)
        self._by_phase.clear()

    def withdraw(self, owner: Provenance) -> None:
        """Remove all that `owner` registered, as if it had never been there."""
        super().withdraw(owner)
        self._by_phase.clear()

    def place(self, name: str) -> PassPlace:
        """Return when the pass `name` runs (`NotFoundError` where there is none)."""
        return self._places.get((name, self.provenance(name)), PassPlace(PHASES[0], 0))

    def places_in(self, phase: str) -> tuple[tuple[str, PassPlace], ...]:
        """Return names and places of one phase's passes as they run; imports none of them."""
        found = self._by_phase.get(phase)
        if found is None:
            places = ((name, self.place(name)) for name in self.keys())
            of_phase = (item for item in places if item[1].phase == phase)
            found = tuple(sorted(of_phase, key=lambda item: (item[1].order, item[0])))
            self._by_phase[phase] = found
        return found

    def in_phase(self, phase: str) -> tuple[tuple[str, Pass], ...]:
        """Return names and passes of one phase in the order in which they run; imports them."""
        return tuple((name, self.get(name)) for name, _ in self.places_in(phase))

    def without(self, names: Iterable[str]) -> PassRegistry:
        """Return a registry of the same passes but those of `names`."""
        left_out = frozenset(names)
        other = PassRegistry(failures=self._failures)
        with self._lock:
            kept = {key: list(v) for key, v in self._entries.items() if key not in left_out}
        other._entries.update(kept)
        other._places.update(self._places)
        return other


def _prepare_pass(value: Any) -> Pass:
    made = value() if isinstance(value, type) else value
    if not callable(made):
        raise TypeError(f"{value!r} is not callable")
    return cast("Pass", made)
