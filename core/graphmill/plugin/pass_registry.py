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

Condition: TypeAlias = "Callable[[Graph, PassOptions], bool]"
"""Whether a pass may have something to do in a graph."""

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


class PassSchedule(NamedTuple):
    """When a pass runs: in `phase`, lower `order` first, then by name, if `applies` allows it."""

    phase: str
    order: int
    applies: Condition | None = None


def has_ops(*ops: str) -> Condition:
    """Return a condition for `passes.add(applies=...)`: the graph has a node of one of these ops.

    Nodes in the bodies of functions that the graph calls do not count: bodies are graphs of their
    own, for which passes run too.
    """
    names = frozenset(ops)
    return lambda graph, _: any(node.op in names for node in graph.nodes)


class PassRegistry(Registry[Pass]):
    """A registry of passes with their phases and orders.

    Threads: as `Registry`; phases and orders are set while a host is assembled, then only read.
    """

    def __init__(self, *, failures: Callable[[], Iterable[str]] = tuple) -> None:
        super().__init__(
            "pass", hook="graphmill_register_passes", prepare=_prepare_pass, failures=failures
        )
        self._schedules: dict[tuple[str, Provenance], PassSchedule] = {}
        self._by_phase: dict[str, tuple[tuple[str, PassSchedule], ...]] = {}
        """Cache for `scheduled_in`, which is called whenever a graph is lowered."""

    def add_pass(
        self,
        name: str,
        value: Pass | str,
        *,
        phase: str,
        order: int = 0,
        applies: Condition | None = None,
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
            applies: returns whether the pass has to run for a graph; by default it always runs.
            owner, priority, replace: as in `Registry.add`.

        Raises:
            InvalidArgumentError: the phase does not exist, or `applies` is not callable.
            PluginConflictError: the name is already registered with the same rank.
        """
        if phase not in PHASES:
            raise errors.InvalidArgumentError(
                f"pass {name!r} from {owner} asks for phase {phase!r}"
                f", which does not exist{errors.suggest(str(phase), PHASES)}. Phases: "
                f"{', '.join(PHASES)}",
                plugin=owner.plugin,
            )
        if applies is not None and not callable(applies):
            raise errors.InvalidArgumentError(
                f"pass {name!r} from {owner}: `applies` has to be a function of a graph and its "
                f"PassOptions, not {applies!r}; has_ops('Op', ...) creates one from names of ops",
                plugin=owner.plugin,
            )
        self.add(name, value, owner=owner, priority=priority, replace=replace)
        self._schedules[name, owner] = PassSchedule(phase, order, applies)
        self._by_phase.clear()

    def withdraw(self, owner: Provenance) -> None:
        """Remove everything that `owner` registered."""
        super().withdraw(owner)
        self._by_phase.clear()

    def schedule(self, name: str) -> PassSchedule:
        """Return the schedule of the pass `name` (`NotFoundError` if there is none)."""
        return self._schedules.get((name, self.provenance(name)), PassSchedule(PHASES[0], 0))

    def scheduled_in(self, phase: str) -> tuple[tuple[str, PassSchedule], ...]:
        """Return names and schedules of a phase's passes in order, without importing them."""
        passes = self._by_phase.get(phase)
        if passes is None:
            scheduled = ((name, self.schedule(name)) for name in self.keys())
            of_phase = (item for item in scheduled if item[1].phase == phase)
            passes = tuple(sorted(of_phase, key=lambda item: (item[1].order, item[0])))
            self._by_phase[phase] = passes
        return passes

    def without(self, names: Iterable[str]) -> PassRegistry:
        """Return a copy of this registry without the passes `names`."""
        removed = frozenset(names)
        other = PassRegistry(failures=self._failures)
        with self._lock:
            remaining = {key: list(v) for key, v in self._entries.items() if key not in removed}
        other._entries.update(remaining)
        other._schedules.update(self._schedules)
        return other


def _prepare_pass(value: Any) -> Pass:
    instance = value() if isinstance(value, type) else value
    if not callable(instance):
        raise TypeError(f"{value!r} is not callable")
    return cast("Pass", instance)
