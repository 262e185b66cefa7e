"""`RegisteredGraph`: a worker's partition of a graph with its executors (`GraphMgr::Item`).

Semantics: InitItem of `tensorflow/core/distributed_runtime/graph_mgr.cc`. The master has pruned,
placed and partitioned the graph by task; the worker partitions it by device and creates the
kernels. It becomes hot like the signature of a local session.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.graph.graph import Graph
from graphmill.graph.node_roles import is_receive
from graphmill.graph.transfer_ops import NEVER_DEAD_ATTR
from graphmill.lowering.debug_watches import insert_debug_nodes
from graphmill.lowering.functions.function_runtime import FunctionLibraryRuntime
from graphmill.lowering.partitioning.build_executors import PartitionMaker
from graphmill.lowering.passes import PassOptions, check_needed
from graphmill.runtime.devices.transport import rendezvous_maker
from graphmill.runtime.process.fork import fork_safe_lock
from graphmill.session.debugging.debug_metadata import publish_graphs
from graphmill.session.executors_cache import ExecutorsAndKeys, syncs_devices
from graphmill.session.hot_steps import HotSteps

if TYPE_CHECKING:
    from graphmill import proto
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.lowering.policies.effects_policy import EffectsPolicy
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.devices.device_mgr import DeviceMgr

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class GraphRegistration:
    """The arguments of a registration.

    Attributes:
        session_handle: the session whose stateful kernels it shares.
        graph_def: the partition of the task, with the function library.
        config: its configuration.
        watches: the `DebugTensorWatch`es.
        collective_graph_key: groups the collectives of its steps; 0 for none.
    """

    session_handle: str
    graph_def: proto.GraphDef
    config: ConfigProto
    watches: tuple[Any, ...] = ()
    collective_graph_key: int = 0


class RegisteredGraph:
    """One registered graph; its steps may run concurrently.

    It is closed when it was deregistered and its last step has ended.

    Threads: `_lock` guards the count of its users.

    Args:
        registration: the arguments of the registration.
        host: where ops, kernels and executors come from.
        devices: the devices of the worker session.
        effects: the effects that its kernels may have.

    Attributes:
        handle: 16 hexadecimal digits.
        executors: its executors, and the state of its hot graph.
        syncs_devices: whether a step ends only when its devices have finished their work.
        last_used: the start of its latest step, by `time.monotonic`.
        is_closed: whether it has been closed.
        collective_groups: keys of the groups, with members in other sessions, that steps have
            joined.

    Raises:
        UnimplementedError: ops or kernels are missing; names all of them.
        InvalidArgumentError: a node is not placed on a device of the session.
        OpError: the graph is malformed, or a pass or a kernel refused it.
    """

    def __init__(
        self,
        registration: GraphRegistration,
        host: Host,
        devices: DeviceMgr,
        effects: EffectsPolicy,
    ) -> None:
        self.handle = f"{next(_numbers):016x}"
        self.host = host
        self.is_closed = False
        self.last_used = time.monotonic()
        self.collective_groups: set[int] = set()
        self.collective_graph_key = registration.collective_graph_key
        self._registration = registration
        self._devices = devices
        self._lock = fork_safe_lock()
        self._num_users = 1
        config = registration.config
        executor_type = config.experimental.executor_type
        factory = host.executors.get(executor_type)
        check_needed(factory, executor_type, host)
        forbidden = frozenset(factory.forbids_passes)
        self._options = PassOptions(
            config,
            devices,
            host,
            forbidden,
            effects,
            rendezvous_maker(host.transports, config),
            self._function_runtime,
            registration.session_handle,
        )
        self._full = Graph()  # without nodes: functions need the library alone
        self._functions: dict[str, FunctionLibraryRuntime] = {}
        self._maker = PartitionMaker(self._options, factory, self._function_runtime)
        for device in devices:
            device.op_segment.add_hold(registration.session_handle)
        try:
            self.executors = ExecutorsAndKeys(self._partitions())
            self._hot_steps = HotSteps(self, config, factory)
            self._hot_steps.prepare(self.executors)
            if registration.watches:
                broker = effects.broker("a debug watch")
                publish_graphs(self.executors.items, registration.watches, broker)
        except NotFoundError as error:
            self._release_resources()
            raise UnimplementedError(
                error.message, node=error.node, op_type=error.op_type, device=error.device
            ) from error
        except BaseException:
            self._release_resources()
            raise
        self.syncs_devices = syncs_devices(self.executors.items)

    def acquire(self) -> bool:
        """Start a use; return whether that is still possible."""
        with self._lock:
            if not self._num_users:
                return False
            self._num_users += 1
        self.last_used = time.monotonic()
        return True

    def release(self) -> None:
        """End a use; the last one closes the graph."""
        with self._lock:
            self._num_users -= 1
            is_last = not self._num_users
        if is_last:
            self.is_closed = True
            self.host.background.forget(self)
            self.executors.close()
            self._release_resources()

    @property
    def is_running(self) -> bool:
        """Whether a step is in progress."""
        return self._num_users > 1

    def items_of_next_step(self, step_id: int) -> tuple[tuple[PerPartition, ...], bool]:
        """Return the partitions for the next step, and count the step.

        Returns:
            The partitions, and whether `count_seconds` wants the duration of the step.
        """
        executors = self.executors
        count = executors.step_count = executors.step_count + 1
        executors.last_step = step_id
        items = executors.serving
        is_timed = count >= executors.build_at and self._hot_steps.build_later(executors)
        return items, is_timed

    def count_seconds(self, seconds: float) -> None:
        """Add the duration of a step; see `HotSteps.count_seconds`."""
        self._hot_steps.count_seconds(self.executors, seconds)

    def build_hot(self) -> None:
        """Build the hot graph now, if one is due."""
        self._hot_steps.build_for(self.executors)

    def hot_partitions(self, key: Any, rewrites: Any = None) -> tuple[PerPartition, ...]:
        """Return newly built partitions, with the passes of phase `HOT`."""
        del key, rewrites
        return self._partitions(is_hot=True)

    def _partitions(self, *, is_hot: bool = False) -> tuple[PerPartition, ...]:
        graph = self._imported()
        if not is_hot:
            self._full.library, self._full.versions = graph.library, graph.versions
        if self._registration.watches:
            insert_debug_nodes(graph, self._registration.watches, self.host.ops)
        return tuple(self._maker.for_registered_graph(graph, is_hot=is_hot))

    def _imported(self) -> Graph:
        """Import the message as a graph whose nodes are assigned to their devices."""
        graph = graph_from_graph_def(self._registration.graph_def, self.host.ops)
        names = {device.name for device in self._devices}
        for node in graph.nodes:
            if node.device not in names:
                raise InvalidArgumentError(
                    f"the node is on {node.device!r}; expected the full name of a device of this "
                    f"worker, one of {', '.join(sorted(names))}",
                    node=node.name,
                    op_type=node.op,
                )
            node.assigned_device = node.device
            # What another process declares about deadness cannot be trusted; values fed by its
            # client are never dead.
            is_fed = is_receive(node) and node.attrs.get("client_terminated")
            if is_fed or NEVER_DEAD_ATTR in node.attrs:
                declared = {k: v for k, v in node.attrs.items() if k != NEVER_DEAD_ATTR}
                node.attrs = {**declared, NEVER_DEAD_ATTR: True} if is_fed else declared
        return graph

    def _function_runtime(self, device: Device) -> FunctionLibraryRuntime:
        runtime = self._functions.get(device.name)
        if runtime is None:
            new_runtime = FunctionLibraryRuntime(
                self._full, device, self._options, self._maker, self._function_runtime
            )
            runtime = self._functions.setdefault(device.name, new_runtime)  # two threads may race
        return runtime

    def _release_resources(self) -> None:
        for functions in list(self._functions.values()):
            functions.close()
        for device in self._devices:
            device.op_segment.remove_hold(self._registration.session_handle)
