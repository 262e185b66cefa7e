"""The worker's methods on bytes, and tensors pulled from another process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill.distributed.server import server_def_of
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.lowering.partitioning.partition import partition
from graphmill.lowering.placement.memory_types import MemoryTypeFinder
from graphmill.runtime.devices.device_mgr import DeviceMgr
from graphmill.runtime.rendezvous import HOST, RendezvousKey
from graphmill.session.session_devices import create_devices
from graphmill.spi import VariantRegistry
from graphmill.testing.timeouts import within

grpc = pytest.importorskip("grpc")

from graphmill_plugins._server.status import grpc_status, metadata_of  # noqa: E402
from graphmill_plugins.distributed.wire.methods import WORKER_METHODS  # noqa: E402
from graphmill_plugins.distributed.wire.tensor_messages import (  # noqa: E402
    RECV_TENSOR_RESPONSE,
    RUN_GRAPH_REQUEST,
    RUN_GRAPH_RESPONSE,
    NamedTensor,
)
from graphmill_plugins.distributed.worker.service import WorkerService  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.graph.node import Node

VARIANTS = VariantRegistry("variant")


class Call:
    """A call whose client is connected until the test disconnects it."""

    code = 0
    fields = None

    def __init__(self, *, is_over: bool = False) -> None:
        self.is_over = is_over
        self.callbacks: list[Callable[[], None]] = []
        self.waits = threading.Event()

    def on_end(self, callback: Callable[[], None]) -> bool:
        if not self.is_over:
            self.callbacks.append(callback)
            self.waits.set()
        return not self.is_over

    def end(self) -> None:
        within(self.waits.wait, "the call's beginning")
        for callback in self.callbacks:
            callback()


class Task:
    """A task with its service over loopback."""

    def __init__(self, index: int) -> None:
        self.name = f"/job:worker/replica:0/task:{index}"
        host, config = graphmill.default_host(), proto.ConfigProto()
        self.devices = DeviceMgr(create_devices(host, config, self.name))
        self.cpu = self.devices.host.name
        self.pool = ThreadPoolExecutor(32)
        self.server = grpc.server(self.pool, options=(("grpc.so_reuseport", 0),))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.service: WorkerService

    def start(self, tasks: list[Task]) -> None:
        addresses = [f"127.0.0.1:{task.port}" for task in tasks]
        server_def = server_def_of(
            {"worker": addresses}, "worker", tasks.index(self), proto.ConfigProto()
        )
        self.service = WorkerService(graphmill.default_host(), self.devices, server_def)
        handlers = {
            WORKER_METHODS[name].name: grpc.unary_unary_rpc_method_handler(_handler(behaviour))
            for name, behaviour in self.service.behaviours().items()
        }
        generic = grpc.method_handlers_generic_handler("tensorflow.WorkerService", handlers)
        self.server.add_generic_rpc_handlers((generic,))
        self.server.start()
        self.call("CreateWorkerSession", session_handle="s")

    def call(self, method: str, call: Call | None = None, /, **fields: Any) -> Any:
        """Call a method with the fields of its request; return its response."""
        request = WORKER_METHODS[method].request(**fields)
        behaviour = self.service.behaviours()[method]
        data = behaviour(request.SerializeToString(), call or Call())
        return WORKER_METHODS[method].response.FromString(data)

    def stop(self) -> None:
        self.server.stop(None).wait()
        self.service.close()
        self.devices.close()
        self.pool.shutdown()


def _handler(behaviour: Any) -> Any:
    class Context:
        code = 0
        fields = None

        def __init__(self, context: Any) -> None:
            self.context = context

        def on_end(self, callback: Callable[[], None]) -> bool:
            return bool(self.context.add_callback(callback))

    def handle(data: bytes, context: Any) -> bytes:
        try:
            return bytes(behaviour(data, Context(context)))
        except errors.OpError as error:
            code, text = grpc_status(error)
            context.set_trailing_metadata(metadata_of(error))
            context.set_code(code)
            context.set_details(text)
            return b""

    return handle


@pytest.fixture
def tasks() -> Iterator[list[Task]]:
    made = [Task(0), Task(1)]
    for task in made:
        task.start(made)
    yield made
    for task in made:
        task.stop()


def client_key(task: Task, name: str) -> str:
    incarnation = task.devices.host.attributes.incarnation
    return str(RendezvousKey(task.cpu, incarnation, task.cpu, name))


def registered(tasks: list[Task], build: Callable[[Any, Any], Any], **fields: Any) -> list[str]:
    """Register `build(x, far)` with feed `x` and fetch `y`; return the handles."""
    host = graphmill.default_host()
    graph = graphmill.Graph()
    client = {
        "send_device": tasks[0].cpu.encode(),
        "send_device_incarnation": tasks[0].devices.host.attributes.incarnation,
        "recv_device": tasks[0].cpu.encode(),
        "client_terminated": True,
    }

    def add(name: str, op: str, inputs: Any, **attrs: Any) -> Node:
        op_def = host.ops.get(op)
        return graph.add_node(name, op_def, inputs, attrs=op_def.with_defaults(client | attrs))

    with graph.as_default():
        add("x", "_Recv", [], tensor_name=b"x", tensor_type=graphmill.float32)
        y = build(graph.get_tensor_by_name("x:0"), graph.device(tasks[1].cpu))
        add("y", "_Send", [(y.op, y.value_index)], tensor_name=b"y", T=y.dtype)
    for node in graph.nodes:
        node.assigned_device = node.device or tasks[0].cpu
    devices = DeviceMgr([device for task in tasks for device in task.devices])
    handles = []
    for task, (_, part) in zip(
        tasks, partition(graph, devices, host.ops, MemoryTypeFinder(host.kernels)), strict=True
    ):
        response = task.call(
            "RegisterGraph",
            session_handle="s",
            graph_def=graph_to_graph_def(part),
            create_worker_session_called=True,
            **fields,
        )
        handles.append(response.graph_handle)
    return handles


def doubled(x: Any, far: Any) -> Any:
    with far:
        twice = ops.math.add_v2(x, x)
    return ops.math.neg(twice)


def run(tasks: list[Task], handles: list[str], x: Any, step_id: int, **fields: Any) -> Any:
    """Run a step on both tasks; return the first one's message and fetches."""
    requests = [
        proto.RunGraphRequest(
            session_handle="s",
            graph_handle=handle,
            step_id=step_id,
            create_worker_session_called=True,
            store_errors_in_response_body=True,
            **fields,
        )
        for handle in handles
    ]
    requests[0].recv_key.append(client_key(tasks[0], "y"))
    feed = NamedTensor(client_key(tasks[0], "x"), x)
    with ThreadPoolExecutor(1) as far:
        data = requests[1].SerializeToString()
        other = far.submit(tasks[1].service.run_graph, data, Call())
        found = tasks[0].service.run_graph(
            RUN_GRAPH_REQUEST.encode(requests[0], [feed], VARIANTS), Call()
        )
        other.result(60)
    for task in tasks:
        task.call("CleanupGraph", step_id=step_id)
    return RUN_GRAPH_RESPONSE.decode(found, VARIANTS)


@pytest.mark.parametrize("size", [1, 100_000])
def test_tensors_cross_processes_in_both_directions(tasks: list[Task], size: int) -> None:
    handles = registered(tasks, doubled)
    for step in range(1, 4):
        x = np.full(size, step, np.float32)
        message, (y,) = run(tasks, handles, x, step)
        assert message.status_code == 0, message.status_error_message
        assert y.name == client_key(tasks[0], "y")
        np.testing.assert_array_equal(y.value, -2 * x)


def test_dead_tensors_cross_processes(tasks: list[Task]) -> None:
    def branch(x: Any, far: Any) -> Any:
        switch = ops.control_flow.switch(x, ops.math.less(x, x.graph.constant(0.0)))
        with far:
            small = ops.math.square(switch.output_true)
        return ops.control_flow.merge([ops.math.neg(switch.output_false), small]).output

    handles = registered(tasks, branch)
    for step, (x, expected) in enumerate([(-3.0, 9.0), (4.0, -4.0), (-2.0, 4.0)], 1):
        _, (y,) = run(tasks, handles, np.float32(x), step)
        assert y.value == expected


def test_errors_go_into_the_body_with_their_origin(tasks: list[Task]) -> None:
    def checked(x: Any, far: Any) -> Any:
        with far:
            twice = ops.math.add_v2(x, x)
        return ops.array.check_numerics(twice, message="bad", name="chk")

    handles = registered(tasks, checked)
    message, fetched = run(tasks, handles, np.float32("nan"), 1)
    assert (message.status_code, fetched) == (errors.INVALID_ARGUMENT, [])
    assert "chk" in message.status_error_message or "bad" in message.status_error_message


def test_derived_error_is_marked_in_the_status(tasks: list[Task]) -> None:
    def checked(x: Any, far: Any) -> Any:
        with far:
            return ops.array.identity(ops.array.check_numerics(x, message="bad", name="chk"))

    handles = registered(tasks, checked)
    with pytest.raises(errors.InvalidArgumentError, match="bad") as caught:
        run(tasks, handles, np.float32("nan"), 1)
    assert caught.value.is_derived
    assert caught.value.message.endswith("[[{{node chk}}]]")


def test_errors_are_raised_unless_body_is_requested(tasks: list[Task]) -> None:
    with pytest.raises(errors.AbortedError, match="just restarted"):
        tasks[0].call("RunGraph", graph_handle="0", session_handle="s", step_id=1)
    with pytest.raises(errors.AbortedError, match="Session handle is not found"):
        tasks[0].call("RegisterGraph", session_handle="t", create_worker_session_called=True)


def test_a_receive_waits_until_its_client_is_gone(tasks: list[Task]) -> None:
    call = Call()
    key = client_key(tasks[0], "late")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(
            lambda: tasks[0].call("RecvTensor", call, step_id=9, rendezvous_key=key)
        )
        call.end()
        with pytest.raises(errors.CancelledError):
            waiting.result(60)
    with pytest.raises(errors.CancelledError):
        tasks[0].call("RecvTensor", Call(is_over=True), step_id=9, rendezvous_key=key)
    assert len(tasks[0].service.worker.rendezvous) == 0


def test_dead_tensors_are_answered_with_a_dtype_and_no_elements(tasks: list[Task]) -> None:
    key = client_key(tasks[0], "d")
    tasks[0].service.worker.rendezvous.find(3).send(key, HOST, None, True)
    request = proto.RecvTensorRequest(step_id=3, rendezvous_key=key)
    data = tasks[0].service.recv_tensor(request.SerializeToString(), Call())
    message, (tensor,) = RECV_TENSOR_RESPONSE.decode(data, VARIANTS)
    assert message.is_dead
    assert (tensor.value.shape, tensor.value.dtype) == ((0,), np.float32)


def test_receives_of_failed_step_are_derived_errors(tasks: list[Task]) -> None:
    key = client_key(tasks[0], "d")
    error = errors.OutOfRangeError("all is read", node="reader")
    tasks[0].service.worker.rendezvous.find(3).start_abort(error)
    with pytest.raises(errors.OutOfRangeError, match=r"^all is read") as told:
        tasks[0].call("RecvTensor", step_id=3, rendezvous_key=key)
    assert told.value.is_derived
    assert told.value.message.endswith("[[{{node reader}}]]")


def test_another_life_of_a_device_is_aborted(tasks: list[Task]) -> None:
    key = str(RendezvousKey(tasks[0].cpu, 1, tasks[1].cpu, "e"))
    with pytest.raises(errors.AbortedError, match="different device incarnation"):
        tasks[0].call("RecvTensor", step_id=1, rendezvous_key=key)


def test_task_devices_are_listed(tasks: list[Task]) -> None:
    found = tasks[1].call("GetStatus").device_attributes
    assert found[0].name == tasks[1].cpu
    assert found[0].incarnation == tasks[1].devices.host.attributes.incarnation
    assert found[0].xla_global_id == -1


def test_receives_are_logged_while_a_master_requests_them(tasks: list[Task]) -> None:
    handles = registered(tasks, doubled)
    tasks[1].call("Logging", enable_rpc_logging=True)
    run(tasks, handles, np.float32(1), 5)
    tasks[1].call("Logging", disable_rpc_logging=True)
    run(tasks, handles, np.float32(1), 6)
    (step,) = tasks[1].call("Logging", fetch_step_id=[5, 6]).step
    assert step.step_id == 5
    (device,) = step.step_stats.dev_stats
    assert device.device == tasks[1].cpu
    assert device.node_stats[0].node_name.startswith("RecvTensor:edge_")
    assert not tasks[1].call("Logging", fetch_step_id=[5]).step


@pytest.mark.parametrize(
    ("method", "reason"),
    [("Tracing", "profile"), ("RecvBuf", "collectives"), ("CompleteGroup", "TensorFlow's tasks")],
)
def test_missing_item_is_reported_with_reason(tasks: list[Task], method: str, reason: str) -> None:
    with pytest.raises(errors.UnimplementedError, match=reason):
        tasks[0].call(method)


def test_every_method_of_the_service_has_a_behaviour(tasks: list[Task]) -> None:
    assert set(tasks[0].service.behaviours()) == set(WORKER_METHODS)


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"garbage, no message"])
def test_garbage_is_refused_with_a_type(tasks: list[Task], data: bytes) -> None:
    empty = {"Tracing", "RecvBuf"}
    for name, behaviour in tasks[0].service.behaviours().items():
        expected = errors.UnimplementedError if name in empty else errors.InvalidArgumentError
        with pytest.raises(expected):
            behaviour(data, Call())
