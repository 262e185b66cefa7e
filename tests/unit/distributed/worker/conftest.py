"""Workers in one process, and a master that places and partitions graphs."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import proto
from graphmill.distributed.worker.peers import Peer, Peers
from graphmill.distributed.worker.step_call import StepCall
from graphmill.distributed.worker.worker import Worker
from graphmill.errors import UnavailableError
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.lowering.partitioning.partition import partition
from graphmill.lowering.placement.memory_types import MemoryTypeFinder
from graphmill.runtime.devices.device_mgr import DeviceMgr
from graphmill.runtime.rendezvous import RendezvousKey
from graphmill.session.session_devices import create_devices
from graphmill.testing.timeouts import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def task(number: int) -> str:
    return f"/job:worker/replica:0/task:{number}"


def cpu(number: int, device: int = 0) -> str:
    return f"{task(number)}/device:CPU:{device}"


class Outcome:
    """Receives the outcome of one call, possibly from another thread."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any]] = []
        self._there = threading.Event()

    def __call__(self, result: Any, *rest: Any) -> None:
        self.calls.append((result, *rest))
        self._there.set()

    @property
    def is_there(self) -> bool:
        return self._there.is_set()

    def get(self) -> Any:
        within(self._there.wait, "the end of a call")
        (call,) = self.calls
        result, *_, error = call
        if error is not None:
            raise error
        return result


class WorkerPeer(Peer):
    """Another worker of this process."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def recv_tensor(self, step_id: int, key: str, done: Any) -> Callable[[], None]:
        return self.worker.recv_tensor(step_id, key, done)


class Cluster(Peers):
    """Workers that call each other directly, and the master's side of their steps.

    A client's feeds and fetches are on the first task: `x = cluster.feed(...)`.
    """

    def __init__(self, num_tasks: int = 2, num_cpus: int = 1, **config: Any) -> None:
        self.config = proto.ConfigProto(**config)
        self.config.graphmill.policy = self.config.graphmill.policy or "trusted"
        self.config.device_count["CPU"] = num_cpus
        self.host = graphmill.default_host()
        self.workers = [self._new_worker(number) for number in range(num_tasks)]
        self._steps = itertools.count(1)

    def _new_worker(self, number: int) -> Worker:
        devices = DeviceMgr(create_devices(self.host, self.config, task(number)))
        worker = Worker(self.host, self.config, devices, self, lambda _: self)
        worker.sessions.create("s")
        return worker

    def restart(self, number: int) -> None:
        """Replace a worker by a new one without sessions, graphs and resources."""
        self.workers[number].close()
        self.workers[number] = self._new_worker(number)

    def get(self, task_name: str) -> Peer:
        for number, worker in enumerate(self.workers):
            if task(number) == task_name:
                return WorkerPeer(worker)
        raise UnavailableError(f"no {task_name}")

    def key(self, name: str) -> str:
        """Return the key under which the client feeds or fetches on the first task."""
        device = self.workers[0].devices.host
        return str(RendezvousKey(device.name, device.attributes.incarnation, device.name, name))

    def split(self, graph: Any) -> dict[int, proto.GraphDef]:
        """Return the graph of each task, as its master sends it."""
        for node in graph.nodes:
            node.assigned_device = node.device or cpu(0)
        devices = DeviceMgr([device for worker in self.workers for device in worker.devices])
        parts = partition(graph, devices, self.host.ops, MemoryTypeFinder(self.host.kernels))
        found: dict[int, proto.GraphDef] = {}
        for device, part in parts:
            number = int(device.name.partition("/task:")[2].partition("/")[0])
            merged = found.setdefault(number, proto.GraphDef())
            merged.ClearField("library")  # each part has all functions
            merged.MergeFrom(graph_to_graph_def(part))
        return found

    def register(self, graph: Any, session: str = "s") -> dict[int, str]:
        """Register the partitions of a graph; return their handles by task."""
        return {
            number: self.workers[number].register_graph(session, part, was_created=True)
            for number, part in self.split(graph).items()
        }

    def start(
        self,
        handles: dict[int, str],
        feeds: dict[str, Any] | None = None,
        fetches: Sequence[str] = (),
        step_id: int | None = None,
        **options: Any,
    ) -> dict[int, Outcome]:
        """Start a step on all tasks; return the outcomes of their calls."""
        step_id = next(self._steps) if step_id is None else step_id
        outcomes = {}
        for number, handle in handles.items():
            inputs = {self.key(name): value for name, value in (feeds or {}).items()}
            outputs = tuple(map(self.key, fetches))
            call = StepCall(
                handle,
                step_id,
                inputs if number == 0 else {},
                outputs if number == 0 else (),
                **options,
            )
            outcomes[number] = Outcome()
            self.workers[number].run_graph("s", call, outcomes[number], was_created=True)
        return outcomes

    def run(
        self,
        handles: dict[int, str],
        feeds: dict[str, Any] | None = None,
        fetches: Sequence[str] = (),
        **options: Any,
    ) -> list[Any]:
        """Run a step on all tasks and clean up; return the fetched values."""
        step_id = next(self._steps)
        outcomes = self.start(handles, feeds, fetches, step_id, **options)
        try:
            results = {number: outcome.get() for number, outcome in outcomes.items()}
        finally:
            for worker in self.workers:
                worker.cleanup_graph(step_id)
        values = results[0].outputs if 0 in results else {}
        return [values[self.key(name)] for name in fetches]

    def feed(self, graph: Any, name: str, dtype: Any) -> Any:
        """Add a receive for a fed value; return its tensor."""
        attrs = {**self._client_attrs(name), "tensor_type": dtype}
        return self._add(graph, f"_recv_{name[:-2]}", "_Recv", [], attrs)

    def fetch(self, graph: Any, tensor: Any, name: str) -> None:
        """Add a send for a fetched value."""
        attrs = {**self._client_attrs(name), "T": tensor.dtype}
        self._add(graph, f"_send_{name[:-2]}", "_Send", [(tensor.op, tensor.value_index)], attrs)

    def _client_attrs(self, name: str) -> dict[str, Any]:
        device = self.workers[0].devices.host
        return {
            "tensor_name": name.encode(),
            "send_device": device.name.encode(),
            "send_device_incarnation": device.attributes.incarnation,
            "recv_device": device.name.encode(),
            "client_terminated": True,
        }

    def _add(self, graph: Any, name: str, op: str, inputs: Any, attrs: Any) -> Any:
        op_def = self.host.ops.get(op)
        node = graph.add_node(name, op_def, inputs, attrs=op_def.with_defaults(attrs))
        node.device = cpu(0)
        return graph.get_tensor_by_name(f"{name}:0") if node.num_outputs else None

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


@pytest.fixture
def new_cluster() -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def new(*args: Any, **config: Any) -> Cluster:
        made.append(Cluster(*args, **config))
        return made[-1]

    yield new
    for cluster in made:
        cluster.close()


@pytest.fixture
def cluster(new_cluster: Callable[..., Cluster]) -> Cluster:
    return new_cluster()
