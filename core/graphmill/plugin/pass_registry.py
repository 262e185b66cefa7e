"""`PassRegistry`: graph passes by name, each with its phase and its order within the phase."""

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
"""A graph pass, which edits a graph in place."""

HOT: Final = "HOT"
"""Runs on each partition of a hot signature's graph, rebuilt in the background."""
HOT_PLACEMENT: Final = "HOT_PLACEMENT"
"""Runs on a hot signature's graph before partitioning; may change the devices of nodes."""

PHASES: Final = (
    "PRE_PLACEMENT",
    "POST_PLACEMENT",
    "POST_REWRITE_FOR_EXEC",
    HOT_PLACEMENT,
    "POST_PARTITIONING",
    HOT,
)
"""The points during lowering at which passes run, in this order.

The names are those of `OptimizationPassRegistry::Grouping` in
tensorflow/core/common_runtime/optimization_registry.h, except for `HOT_PLACEMENT` and `HOT`, which
TensorFlow does not have.
"""


class PassPlace(NamedTuple):
    """When a pass runs: in `phase`, lower `order` first, then by name."""

    phase: str
    order: int


class PassRegistry(Registry[Pass]):
    """A registry of passes with their phases and orders.

    Threads: as `Registry`; phases and orders are set while a host is assembled, then only read.
    """

    def __init__(self, *, failures: Callable[[], Iterable[str]] = tuple) -> None:
        super().__init__(
            "pass", hook="graphmill_register_passes", prepare=_prepare_pass, failures=failures
        )
        self._places: dict[tuple[str, Provenance], PassPlace] = {}
        self._by_phase: dict[str, tuple[tuple[str, PassPlace], ...]] = {}
        """Cache for `places_in`, which is called whenever a graph is lowered."""

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
            value: the pass, a class to instantiate, or "package.module:Attribute".
            phase: one of `PHASES`.
            order: lower runs earlier in the phase; equal ones run in the order of names.
            owner, priority, replace: as in `Registry.add`.

        Raises:
            InvalidArgumentError: the phase does not exist.
            PluginConflictError: the name is already registered with the same rank.
        """
        if phase not in PHASES:
            raise errors.InvalidArgumentError(
                f"pass {name!r} from {owner} asks for phase {phase!r}"
                f", which does not exist{errors.suggest(str(phase), PHASES)}. Phases: "
                f"{', '.join(PHASES)}",
                plugin=owner.plugin,
            )
        self.add(name, value, owner=owner, priority=priority, replace=replace)
        self._places[name, owner] = PassPlace(phase, order)
        self._by_phase.clear()

    def withdraw(self, owner: Provenance) -> None:
        """Remove everything that `owner` registered."""
        super().withdraw(owner)
        self._by_phase.clear()

    def place(self, name: str) -> PassPlace:
        """Return phase and order of the pass `name` (`NotFoundError` if there is none)."""
        return self._places.get((name, self.provenance(name)), PassPlace(PHASES[0], 0))

    def places_in(self, phase: str) -> tuple[tuple[str, PassPlace], ...]:
        """Return names and places of a phase's passes in running order, without importing them."""
        found = self._by_phase.get(phase)
        if found is None:
            places = ((name, self.place(name)) for name in self.keys())
            of_phase = (item for item in places if item[1].phase == phase)
            found = tuple(sorted(of_phase, key=lambda item: (item[1].order, item[0])))
            self._by_phase[phase] = found
        return found

    def in_phase(self, phase: str) -> tuple[tuple[str, Pass], ...]:
        """Return names and passes of a phase in running order; imports the passes."""
        return tuple((name, self.get(name)) for name, _ in self.places_in(phase))

    def without(self, names: Iterable[str]) -> PassRegistry:
        """Return a copy of this registry without the passes `names`."""
        removed = frozenset(names)
        other = PassRegistry(failures=self._failures)
        with self._lock:
            remaining = {key: list(v) for key, v in self._entries.items() if key not in removed}
        other._entries.update(remaining)
        other._places.update(self._places)
        return other


def _prepare_pass(value: Any) -> Pass:
    made = value() if isinstance(value, type) else value
    if not callable(made):
        raise TypeError(f"{value!r} is not callable")
    return cast("Pass", made)
