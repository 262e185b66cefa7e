"""`StepStatsCollector`: when each node of a step was scheduled, started and done (clause E12).

Semantics: `tensorflow/core/common_runtime/step_stats_collector.cc`.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.graph.node_roles import is_send, is_transfer
from graphmill.runtime.resources.variables import Variable
from graphmill.runtime.value_shape import num_bytes_of_value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from graphmill.graph.node import Node
    from graphmill.ops.attrs.attr_types import TensorAttr
    from graphmill.proto.step_stats_pb2 import StepStats

IN_FLIGHT: Final = -1
"""The thread of kernels that waited while their thread did other work."""


class OutputStats(NamedTuple):
    """One output of a node that ran."""

    dtype: int
    """Its `DataType` enum value; 0 if the output is dead or not a tensor."""
    shape: tuple[int, ...]
    num_bytes: int


class NodeStats(NamedTuple):
    """One run of one node; times are `time.time_ns()`."""

    node_name: str
    op: str
    thread_id: int
    scheduled: int
    started: int
    ended: int
    outputs: tuple[OutputStats, ...]
    label: str = ""
    """The label in timelines; empty for `node = Op()`."""


class TimedRun(NamedTuple):
    """One run of one node as executors record it: what a message needs is derived after the step.

    Executors may record a plain tuple of these fields, which is made in a quarter of the time.

    Attributes:
        node: the node.
        thread_id: the thread that ran it, or `IN_FLIGHT`.
        scheduled, started, ended: `time.time_ns()`.
        outputs: dtype, shape and number of bytes of each output; the dtype is that of the array.
        iteration: the iterations around it, as `outer:3/inner:0`; empty outside of loops.
    """

    node: Node
    thread_id: int
    scheduled: int
    started: int
    ended: int
    outputs: tuple[tuple[Any, tuple[int, ...], int], ...]
    iteration: str


class MeasuredTime(NamedTuple):
    """The measured time of a node in a compiled cluster.

    Attributes:
        nanoseconds: in one run of the cluster, in all iterations of the loops around the node.
        num_nodes: the number of nodes, itself included, that were fused into one of its operations,
            at most; the time of such an operation is divided equally.
    """

    nanoseconds: float
    num_nodes: int = 1


class MeasuredCluster(NamedTuple):
    """The measurements of the last run of a compiled cluster.

    Attributes:
        times: by the path of the node: the names of the nodes that call the functions around it,
            then its own. Nodes that XLA optimized away are missing.
        why_not: why nothing was measured; empty if something was.
    """

    times: Mapping[tuple[str, ...], MeasuredTime]
    why_not: str = ""


class StepStatsCollector:
    """Collects the node statistics of one step, by device.

    Threads: `record`, `note_iterations`, `note_measured` and the result of `recorder` are atomic;
    everything else is called after the step.
    """

    def __init__(self) -> None:
        self._by_device: dict[str, list[Any]] = {}
        self._thread_names: dict[int | None, str] | None = None
        self._loops: list[tuple[str, int, int]] = []
        self._measured: dict[str, MeasuredCluster] = {}

    def record(self, device: str, stats: NodeStats) -> None:
        """Add one run of a node."""
        self.recorder(device)(stats)

    def recorder(self, device: str) -> Callable[[tuple[Any, ...]], None]:
        """Return a function that adds a run on a device: a `TimedRun` or a tuple of its fields."""
        return self._by_device.setdefault(device, []).append

    def runs(self, device: str) -> list[TimedRun | NodeStats]:
        """Return the runs on a device, in order of completion: the list itself, not a copy."""
        runs = self._by_device.setdefault(device, [])
        runs[:] = [TimedRun._make(run) if type(run) is tuple else run for run in runs]
        return runs

    def find(self, device: str, names: Collection[str]) -> dict[str, TimedRun | NodeStats]:
        """Return the last run of each of some nodes on a device, by name."""
        found: dict[str, TimedRun | NodeStats] = {}
        for run in self._by_device.get(device, ()):
            name = run[0] if type(run) is NodeStats else run[0].name
            if name in names:
                found[name] = TimedRun._make(run) if type(run) is tuple else run
        return found

    def nodes(self, device: str | None = None) -> list[NodeStats]:
        """Return the recorded nodes in order of completion, of one device or of all."""
        devices = list(self._by_device) if device is None else [device]
        return [as_stats(run) for each in devices for run in self.runs(each)]

    def note_iterations(self, body: str, count: int, runs: int = 1) -> None:
        """Add runs of a loop in a cluster, whose iterations no executor sees.

        Args:
            body: the name of the function that is the body of the loop.
            count: the number of its iterations, in all runs.
            runs: how often it ran; 0 if it was not reached.
        """
        self._loops.append((body, count, runs))

    def iterations(self) -> dict[str, float]:
        """Return the mean number of iterations of a run, by the body of the loop."""
        sums: dict[str, tuple[int, int]] = {}
        for body, count, runs in self._loops:
            all_iterations, all_runs = sums.get(body, (0, 0))
            sums[body] = all_iterations + count, all_runs + runs
        return {body: count / max(runs, 1) for body, (count, runs) in sums.items()}

    def note_measured(self, cluster: str, measured: MeasuredCluster) -> None:
        """Set the measurements of the last run of a cluster."""
        self._measured[cluster] = measured

    def measured(self, cluster: str) -> MeasuredCluster | None:
        """Return the measurements of the last run of a cluster; None if none was attempted."""
        return self._measured.get(cluster)

    def note_threads(self) -> None:
        """Record the names of the threads now, for statistics that are serialized later."""
        self._thread_names = _thread_names()

    def serialize(self) -> bytes:
        """Return a serialized `StepStats` message."""
        from graphmill.runtime.steps.step_stats_message import serialize_devices

        runs = {device: list(runs) for device, runs in list(self._by_device.items())}
        return serialize_devices(runs, self._thread_names or _thread_names())

    def to_proto(self) -> StepStats:
        """Return a `StepStats` message."""
        from graphmill.proto import step_stats_pb2

        return step_stats_pb2.StepStats.FromString(self.serialize())


def name_of(run: TimedRun | NodeStats) -> str:
    """Return the name of the node that ran."""
    return run.node_name if isinstance(run, NodeStats) else run.node.name


def as_stats(run: TimedRun | NodeStats) -> NodeStats:
    """Return the statistics of a run."""
    if isinstance(run, NodeStats):
        return run
    node = run.node
    outputs = tuple(OutputStats(_type_enum(one[0]), *one[1:]) for one in run.outputs)
    times = (run.thread_id, run.scheduled, run.started, run.ended)
    return NodeStats(node.name, node.op, *times, outputs, label_of(node, run.iteration))


def record_node(
    collector: StepStatsCollector,
    device: str,
    node: Node,
    started: int,
    result: Any,
    *,
    scheduled: int = 0,
    iteration: str = "",
    was_in_flight: bool = False,
) -> None:
    """Record a run of a node that ends now, in the thread that ran it.

    Args:
        collector: `ExecutorArgs.stats_collector`.
        device: name of the device.
        node: the node.
        started: the time when its kernel was called, from `now`.
        result: the result of its kernel.
        scheduled: the time when it became ready; 0 if that is when it was called.
        iteration: the iterations around it, as `outer:3/inner:0`; empty outside of loops.
        was_in_flight: whether the kernel was asynchronous and waited, so that the thread that ran
            it did other work.
    """
    thread = IN_FLIGHT if was_in_flight else thread_id()
    outputs = measure_outputs(result, len(node.output_types))
    times = (scheduled or started, started, now())
    collector.recorder(device)((node, thread, *times, outputs, iteration))


def label_of(node: Node, iteration: str = "") -> str:
    """Return a node's label in timelines: `y = MatMul(x, w:1, ^z)`; arrows are drawn from it.

    Control inputs have a `^`. The label of a transfer has the key and the other device,
    `r = _Recv(edge_5_x @/device:GPU:0)`. In a loop, the label ends with ` @ ` and the iterations
    around the node.
    """
    if is_transfer(node) and "tensor_name" in node.attrs:
        peer = node.attrs["recv_device" if is_send(node) else "send_device"]
        inputs = f"{node.attrs['tensor_name']} @{peer}"
    else:
        source = node.graph.source
        controls = (f"^{one.name}" for one in node.control_inputs if one is not source)
        inputs = ", ".join([*(edge.tensor_name for edge in node.in_edges), *controls])
    return f"{node.name} = {node.op}({inputs}){iteration and f' @ {iteration}'}"


def describe_outputs(result: Any, count: int) -> tuple[OutputStats, ...]:
    """Describe the `count` outputs of a kernel, which have not been checked yet."""
    measured = measure_outputs(result, count)
    return tuple(OutputStats(_type_enum(dtype), shape, size) for dtype, shape, size in measured)


def measure_outputs(result: Any, count: int) -> tuple[tuple[Any, tuple[int, ...], int], ...]:
    """Return dtype, shape and number of bytes of the `count` outputs of a kernel."""
    if count == 1:
        if type(result) is np.ndarray:
            return ((result.dtype, result.shape, result.nbytes),)
        return (_measure(result),)
    return tuple(map(_measure, result)) if isinstance(result, (tuple, list)) else ()


def output_of_attr(value: TensorAttr) -> OutputStats:
    """Describe a constant by the attr that holds it."""
    size = 1
    for length in value.shape:
        size *= length
    item_size = value.dtype.as_numpy_dtype.itemsize if value.dtype.is_numpy_compatible else 0
    return OutputStats(value.dtype.enum, value.shape, size * item_size)


def now() -> int:
    """Return the wall time in nanoseconds, the clock of node statistics."""
    return time.time_ns()


def thread_id() -> int:
    """Return the identity of the calling thread."""
    return threading.get_ident()


def write_output(output: OutputStats, message: Any) -> None:
    """Write element type and shape of an output into a message with fields `dtype` and `shape`."""
    message.dtype = output.dtype
    for size in output.shape:
        message.shape.dim.add(size=size)


def _thread_names() -> dict[int | None, str]:
    return {thread.ident: thread.name for thread in threading.enumerate()}


def _measure(value: Any) -> tuple[Any, tuple[int, ...], int]:
    if isinstance(value, Variable) and value.value is not None:
        value = value.value
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    shape = shape if isinstance(shape, tuple) else ()  # a variant's `shape` may be anything
    return dtype, shape, num_bytes_of_value(value)


def _type_enum(dtype: Any) -> int:
    """Return the `DataType` of a dtype; 0 for None, or a dtype that TensorFlow does not have."""
    if dtype is None:
        return 0
    try:
        return as_dtype(dtype).enum
    except InvalidArgumentError:
        return 0
