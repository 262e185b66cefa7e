"""`HotSteps`: rebuild the graphs of frequently run signatures for speed (phase HOT).

The executors of the first steps are created as quickly as possible. When a signature has run
`after_steps` times, and for `after_seconds`, its graph is pruned and lowered again in the
background, this time with the passes of phase `HOT`, and the executors of that graph take over.
This happens before the first step if the graph is small and has loops, and in a deterministic
session, so that all steps run alike.
Steps that are watched or partial, and those of a debugger, run on executors of their own, in which
every node is visible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from graphmill.errors import InternalError, InvalidArgumentError, OpError
from graphmill.lowering.plugin_faults import PluginFaultError
from graphmill.ops.definition.op_traits import ControlFlow
from graphmill.plugin.pass_registry import HOT
from graphmill.runtime.checks.validation import is_validation_on
from graphmill.runtime.process.fork import deferred_forks, fork_safe_lock
from graphmill.session.executors_cache import NEVER
from graphmill.session.hot_states import EXPLAINED, HotEvent, HotState

if TYPE_CHECKING:
    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.node import Node
    from graphmill.lowering.callable_options import CallableRewrites
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.runtime.executor import ExecutorFactory
    from graphmill.session.executors_cache import ExecutorsAndKeys, Signature
    from graphmill.session.hot_states import HotGraph

MODES: Final = ("off", "tiered", "eager")
_COUNTS: Final = (
    "jit_after_steps",
    "jit_after_seconds",
    "jit_min_cluster_size",
    "jit_max_cluster_size",
    "jit_cache_bytes",
)
_AFTER_STEPS: Final = 3
_MAX_NODES: Final = 2_000  # of a graph with v1 loops that is rebuilt before its first step
_MAX_EXPENSIVE_NODES: Final = 500  # the same with expensive nodes or functions, theirs included
_NO_STEPS: Final = -1  # value of `after_steps` if graphs are never rebuilt
_OBSERVED: Final = (
    "the executor {!r} must see each call of a kernel (observes_kernels of its factory is not "
    "False)"
)
_MAX_NAMED: Final = 3  # fetches in messages
_QUEUE_FULL: Final = "the queue of the background thread was full"


class HotOwner(Protocol):
    """An owner of hot graphs: a session, or a graph that a worker has registered.

    Attributes:
        host: where passes and kernels come from.
        is_closed: whether no graph is built any more.
    """

    host: Host
    is_closed: bool

    def hot_partitions(
        self, key: Signature, rewrites: CallableRewrites | None = None
    ) -> tuple[PerPartition, ...]:
        """Rebuild the partitions of a signature, with the passes of phase `HOT`."""
        ...


class HotSteps:
    """Decides when to rebuild the graphs of a session's signatures (state table: `hot_states`).

    Threads: `_lock` guards the states of all hot graphs; steps take it once for each signature.

    Args:
        session: the owner of the signatures.
        config: its `graphmill` section and `global_jit_level` configure the rebuild.
        factory: makes the executors; declares whether these must see each call of a kernel.

    Attributes:
        mode: one of `MODES`.
        after_steps: after how many steps of a signature to rebuild its graph; -1 for never.
        after_seconds: the total duration of steps after these before it is rebuilt.
        why_never: why graphs are never rebuilt; empty if they are.

    Raises:
        InvalidArgumentError: the config has an unknown mode or a negative count.
    """

    def __init__(self, session: HotOwner, config: ConfigProto, factory: ExecutorFactory) -> None:
        self._lock = fork_safe_lock()
        self._session = session
        self.mode = _mode(config)
        names = {name for name, _ in session.host.passes.scheduled_in(HOT)}
        self.why_never = ""
        if self.mode == "off":
            self.why_never = "compilation is off (config.graphmill.jit, or global_jit_level)"
        elif factory.observes_kernels:
            self.why_never = _OBSERVED.format(config.experimental.executor_type)
        elif not names - frozenset(factory.forbids_passes):
            self.why_never = (
                "no pass of phase HOT is registered, or the executor does not allow them"
            )
        is_off = bool(self.why_never)
        self.after_steps = _NO_STEPS if is_off else config.graphmill.jit_after_steps or _AFTER_STEPS
        self.after_seconds: float = config.graphmill.jit_after_seconds
        wants_one_tier = self.mode == "eager" or config.graphmill.deterministic
        if wants_one_tier and not is_off:
            self.after_steps = 0

    def prepare(self, executors: ExecutorsAndKeys) -> None:
        """Decide when to rebuild the graph of a new signature; rebuild it now if that pays off.

        A loop may have so many iterations that one step takes as long as a thousand others, and
        most of that time may be the executor's overhead.

        Raises:
            OpError: a pass or a kernel refused the graph, or a plugin raised another exception
                (`PluginFaultError`), and the mode is `"eager"`.
        """
        if self.after_steps < 0:
            self._send(executors, HotEvent.NOT_ELIGIBLE, self.why_never)
        elif not self.after_steps or self._has_loops(executors):
            self._send(executors, HotEvent.DUE_IMMEDIATELY)
            self._build(executors)
        else:
            self._send(executors, HotEvent.ELIGIBLE)

    def build_for(self, executors: ExecutorsAndKeys) -> None:
        """Rebuild the graph of a signature now, if a rebuild is due and has not been done."""
        if self.after_steps < 0:
            return
        if not self._send_in(HotState.COUNTING, executors, HotEvent.REQUESTED):
            self._session.host.background.wait_idle()
            if not self._send_in(HotState.QUEUED, executors, HotEvent.REQUESTED):
                return
        self._build(executors)

    def build_later(self, executors: ExecutorsAndKeys) -> bool:
        """Submit the rebuild of a signature's graph to the background thread, if it is due.

        Returns:
            Whether it is not due, as steps have not run for `after_seconds` yet. Then the caller
            times the step that starts now, and passes its duration to `count_seconds`.
        """
        if executors.hot.seconds < self.after_seconds:
            return True
        self._submit(executors)
        return False

    def count_seconds(self, executors: ExecutorsAndKeys, seconds: float) -> None:
        """Add the duration of a step that `build_later` asked to time."""
        with self._lock:
            executors.hot.seconds += seconds

    def _submit(self, executors: ExecutorsAndKeys) -> None:
        if not self._send_in(HotState.COUNTING, executors, HotEvent.RAN_OFTEN):
            return  # another thread was first
        job = partial(self._build_queued, executors)
        fetches = ", ".join(executors.fetches[:_MAX_NAMED]) or "nothing"
        what = f"the compilation of the step that fetches {fetches}"
        if not self._session.host.background.submit(self._session, job, what):
            self._send_in(HotState.QUEUED, executors, HotEvent.QUEUE_FULL, _QUEUE_FULL)

    def after_fork_in_child(self, executors: ExecutorsAndKeys) -> None:
        """Make the next step submit the rebuild again; its thread was not copied by the fork."""
        if executors.hot.state in (HotState.QUEUED, HotState.BUILDING):
            self._send(executors, HotEvent.FORKED)

    def _build_queued(self, executors: ExecutorsAndKeys) -> None:
        if self._session.is_closed or executors.is_closed:
            return
        if self._send_in(HotState.QUEUED, executors, HotEvent.BUILD_STARTED):
            self._build(executors)

    def _build(self, executors: ExecutorsAndKeys) -> None:
        """Rebuild a graph; if that fails, steps continue with the first graph.

        Raises:
            OpError: a pass or a kernel refused the graph, or a plugin raised another exception, and
                the mode is `"eager"`; or the error is an `InternalError`, and validation mode is
                on.
        """
        key = (executors.feeds, executors.fetches, executors.targets)
        try:
            with deferred_forks():  # the rebuild imports passes and kernels
                items = self._session.hot_partitions(key, executors.rewrites)
        except PluginFaultError as error:
            self._send(executors, HotEvent.PLUGIN_RAISED, error.message)
            if self.mode == "eager":  # the user asked for the compilation that the plugin prevents
                raise
            fetches = ", ".join(executors.fetches)
            text = f"{error.message}. Steps that fetch {fetches or 'nothing'} are interpreted"
            self._session.host.fault_warnings.warn((error.plugin, type(error.__cause__)), text)
        except OpError as error:
            self._send(executors, HotEvent.GRAPH_REFUSED, error.message)
            if self.mode == "eager" or (isinstance(error, InternalError) and is_validation_on()):
                raise
        except BaseException as error:
            self._send(executors, HotEvent.PLUGIN_RAISED, f"{type(error).__name__}: {error}")
            raise
        else:
            self._switch(executors, items)

    def _switch(self, executors: ExecutorsAndKeys, items: tuple[PerPartition, ...]) -> None:
        executors.hot.since = executors.step_count
        executors.hot.items = items
        self._send(executors, HotEvent.BUILT)
        if executors.is_closed:  # while the graph was built
            executors.close()

    def _send(self, executors: ExecutorsAndKeys, event: HotEvent, cause: str = "") -> None:
        with self._lock:
            self._apply(executors, event, cause)

    def _send_in(
        self, state: HotState, executors: ExecutorsAndKeys, event: HotEvent, cause: str = ""
    ) -> bool:
        """Send an event if the state is still `state`; return whether it was sent."""
        with self._lock:
            if executors.hot.state is not state:
                return False
            self._apply(executors, event, cause)
            return True

    def _apply(self, executors: ExecutorsAndKeys, event: HotEvent, cause: str = "") -> None:
        """Change the state of a hot graph and the fields that steps read; the lock must be held."""
        hot = executors.hot
        hot.send(event, cause)
        hot.reason = cause
        executors.build_at = self.after_steps if hot.state is HotState.COUNTING else NEVER
        executors.serving = (hot.items or executors.items) if _is_hot(hot) else executors.items

    def _has_loops(self, executors: ExecutorsAndKeys) -> bool:
        """Return whether the graph has loops and is small enough to be rebuilt at once."""
        nodes = [(node, item.device) for item in executors.items for node in item.graph.nodes]
        if len(nodes) > _MAX_NODES or not any(_is_loop(node) for node, _ in nodes):
            return False
        bodies = max(_num_function_nodes(item.graph.library) for item in executors.items)
        if len(nodes) + bodies <= _MAX_EXPENSIVE_NODES:
            return True
        find = self._session.host.kernels.try_find
        kernels = (
            find(node.op_def, node.attrs, device.device_type, device.backends)
            for node, device in nodes
        )
        return not bodies and not any(
            kernel is not None and kernel.definition.expensive for kernel in kernels
        )


def validate_hot(executors: ExecutorsAndKeys, after_steps: int) -> None:
    """Check the invariants of the hot graph of a signature.

    Args:
        executors: the executors of the signature.
        after_steps: after how many steps its session rebuilds graphs.

    Raises:
        AssertionError: an invariant is violated; the message names it.
    """
    hot = executors.hot
    rules = {
        "it has partitions": (hot.items is not None) == _is_hot(hot),
        "steps run on the hot graph": (executors.serving is hot.items) == _is_hot(hot),
        "steps run on the first graph": (executors.serving is executors.items) != _is_hot(hot),
        "steps are counted": executors.build_at
        == (after_steps if hot.state is HotState.COUNTING else NEVER),
        "a reason is given": bool(hot.reason) == (hot.state in EXPLAINED),
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise AssertionError(
            f"the hot graph is {hot.state.value!r}; broken invariants: {', '.join(broken)}"
        )


def _is_hot(hot: HotGraph) -> bool:
    return hot.state is HotState.HOT


def _is_loop(node: Node) -> bool:
    """Return whether a node is a functional loop, or enters a v1 loop."""
    return node.op_def.is_while or node.op_def.traits.control_flow is ControlFlow.ENTER


def _num_function_nodes(library: FunctionLibrary) -> int:
    return sum(len(library.get(name).node_def) for name in library)


def _mode(config: ConfigProto) -> str:
    for key in _COUNTS:
        if not getattr(config.graphmill, key) >= 0:  # NaN, too
            raise InvalidArgumentError(
                f"config.graphmill.{key} is {getattr(config.graphmill, key)}; expected a number of "
                f"at least 0 (0 selects the default)"
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
