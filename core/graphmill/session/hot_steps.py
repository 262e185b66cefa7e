"""`HotSteps`: build the graph of a signature again, for speed, once it has run often (phase HOT).

The executors of the first steps are made as quickly as can be. When a signature has run
`after_steps` times, its graph is pruned and lowered again in the background, this time with the
passes of phase `HOT`, and the executors of that graph take over; before the first step if the graph
has loops of cheap nodes, and in a deterministic session, so that all run alike. Steps that are
traced, watched or partial keep the first executors, in which every node is to be seen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError, OpError
from graphmill.plugin.pass_registry import HOT

if TYPE_CHECKING:
    from graphmill.lowering.partitions import PerPartition
    from graphmill.session.direct_session import DirectSession
    from graphmill.session.executors_cache import ExecutorsAndKeys

MODES: Final = ("off", "tiered", "eager")
_COUNTS: Final = ("jit_after_steps", "jit_min_cluster_size", "jit_cache_bytes")
_AFTER_STEPS: Final = 3
_ENTERS: Final = frozenset({"Enter", "RefEnter"})
_MOST_NODES: Final = 2_000  # of a graph that is built again before its first step
_NEVER: Final = -1


class HotSteps:
    """When the signatures of one session are built again.

    Args:
        session: whose signatures.
        config: its `graphmill` section and `global_jit_level` say whether and when.

    Attributes:
        mode: one of `MODES`.
        after_steps: after how many steps of a signature; -1 for never.
        why_never: why that is never; empty if it is not.

    Raises:
        InvalidArgumentError: the config asks for another mode, or for less than nothing.
    """

    def __init__(self, session: DirectSession, config: Any, forbidden: frozenset[str]) -> None:
        self._session = session
        self.mode = _mode(config)
        names = {name for name, _ in session.host.passes.places_in(HOT)}
        self.why_never = ""
        if self.mode == "off":
            self.why_never = "compilation is off (config.graphmill.jit, or global_jit_level)"
        elif not names - forbidden:
            self.why_never = "no pass of phase HOT is there, or the executor forbids them"
        is_off = bool(self.why_never)
        self.after_steps = _NEVER if is_off else config.graphmill.jit_after_steps or _AFTER_STEPS
        wants_one_tier = self.mode == "eager" or config.graphmill.deterministic
        if wants_one_tier and not is_off:
            self.after_steps = 0

    def prepare(self, executors: ExecutorsAndKeys) -> None:
        """Decide when a new signature is built again; do it now if its first step gains by it.

        A loop of cheap nodes may turn so often that one step is as long as a thousand others, and
        most of that the executor's.

        Raises:
            OpError: a pass or a kernel refused the graph, and the mode is `"eager"`.
        """
        executors.hot_at = self.after_steps
        if self.mode == "eager" and not self.after_steps:
            executors.hot_items = self._build(executors)
        elif not self.after_steps or (self.after_steps > 0 and self._has_cheap_loops(executors)):
            executors.hot_at = _NEVER
            self._replace(executors)

    def build_for(self, executors: ExecutorsAndKeys) -> None:
        """Build the executors of a signature again, if they are to be and are not yet."""
        if self.after_steps < 0 or executors.why_not_hot:
            return
        executors.hot_at = _NEVER  # no step hands it to the background any more
        self._session.host.background.wait_idle()  # one may have
        if executors.hot_items is None:
            self._replace(executors)

    def build_later(self, executors: ExecutorsAndKeys) -> None:
        """Have the executors of a signature built again in the background."""
        job = partial(self._replace, executors)
        if not self._session.host.background.submit(self._session, job):
            executors.why_not_hot = "too much else waited to be done behind the steps"

    def _replace(self, executors: ExecutorsAndKeys) -> None:
        session = self._session
        if session.is_closed or executors.is_closed or executors.hot_items is not None:
            return
        try:
            items = self._build(executors)
        except OpError as error:
            executors.why_not_hot = error.message
            return
        executors.hot_since = executors.step_count
        executors.hot_items = items
        if executors.is_closed:  # meanwhile
            executors.close()

    def _build(self, executors: ExecutorsAndKeys) -> tuple[PerPartition, ...]:
        key = (executors.feeds, executors.fetches, executors.targets)
        return self._session.hot_partitions(key, executors.form)

    def _has_cheap_loops(self, executors: ExecutorsAndKeys) -> bool:
        """Return whether there are loops, no node is expensive, and the graph is soon built."""
        nodes = [node for item in executors.items for node in item.graph.nodes]
        if len(nodes) > _MOST_NODES or not any(node.op in _ENTERS for node in nodes):
            return False
        find = self._session.host.kernels.try_find
        found = (find(node.op_def, node.attrs, "CPU", ("numpy",)) for node in nodes)
        return not any(kernel is not None and kernel.definition.expensive for kernel in found)


def _mode(config: Any) -> str:
    for key in _COUNTS:
        if getattr(config.graphmill, key) < 0:
            raise InvalidArgumentError(
                f"config.graphmill.{key} is {getattr(config.graphmill, key)}; expected a number "
                "that is not negative, 0 for the default"
            )
    mode: str = config.graphmill.jit
    if not mode:
        level = config.graph_options.optimizer_options.global_jit_level
        return "off" if level < 0 else "tiered"
    if mode not in MODES:
        raise InvalidArgumentError(
            f"config.graphmill.jit is {mode!r}; expected one of {', '.join(MODES)}"
        )
    return mode
