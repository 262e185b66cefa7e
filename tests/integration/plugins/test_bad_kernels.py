"""Faults of plugin kernels and devices are typed errors that name node and device (E6, S12).

The place is node, op, device, plugin, frame and iteration. Nothing leaks, and the session goes on.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, proto
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.timeouts import no_leaked_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXECUTORS = ("DEFAULT", "INLINE")
OP = "Downstream>Bad"


class Raises(Exception):
    """An exception class that graphmill does not know."""


def raise_it(x: Any) -> Any:
    raise Raises("out of paper")


def raise_value_error(x: Any) -> Any:
    raise ValueError("bad number")


def two_outputs(x: Any) -> Any:
    return x, x


def wrong_dtype(x: Any) -> Any:
    return np.float64(x)


def nothing(x: Any) -> Any:
    return None


def text(x: Any) -> Any:
    return "text"


FAULTS = {
    raise_it: (errors.InternalError, "Raises: out of paper"),
    raise_value_error: (errors.InvalidArgumentError, "bad number"),
    two_outputs: (errors.InternalError, "returned tuple for output 0, expected a tensor"),
    wrong_dtype: (errors.InternalError, "returned a tensor of float64 for output 0"),
    nothing: (errors.InternalError, "returned NoneType for output 0, expected a tensor"),
    text: (errors.InternalError, "returned str for output 0, expected a tensor"),
}
KINDS = ("plain", "stateful", "pooled", "async at once", "async later")


class Plugin:
    """An op whose kernel, or device, fails for the number 2."""

    def __init__(self, fault: Callable[[Any], Any], kind: str = "plain") -> None:
        def compute(x: Any) -> Any:
            return fault(x) if x == 2 else x

        def asynchronous(ctx: Any, x: Any, *, done: Callable[..., None]) -> None:
            def call() -> None:
                try:
                    done(compute(x))
                except Exception as error:  # noqa: BLE001 - told as kernels tell it
                    done(error=error)

            if kind == "async at once":
                call()
            else:
                threading.Thread(target=call).start()

        functions: dict[str, tuple[Any, dict[str, Any]]] = {
            "plain": (lambda xp, x: compute(x), {}),
            "stateful": (lambda ctx, x: compute(x), {"stateful": True}),
            "pooled": (lambda xp, x: compute(x), {"expensive": True}),
        }
        function, how = functions.get(kind, (asynchronous, {"async_": True}))
        self._kernel = kernel(OP, **how)(function)

    @hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        x, y = ArgDef("x", dtypes.float32), ArgDef("y", dtypes.float32)
        ops.add(OpDef(OP, (x,), (y,), is_stateful=True))

    @hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        kernels.add(self._kernel)


def looping_graph(host: graphmill.Host, device: str = "", op: str = OP) -> graphmill.Graph:
    """Count to `n` through the op, which fails in the third iteration if there is one."""
    graph = graphmill.Graph(ops=host.ops)

    def body(i: Any) -> Any:
        with graph.device(device):
            node = graph.create_op(op, [i], name="bad")
        return graph.outputs_of(node)[0] + 1.0

    with graph.as_default():
        n = graph.placeholder("float32", (), "n")
        last = graphmill.while_loop(lambda i: i < n, body, [0.0], name="turns")
        graphmill.ops.array.identity(last, name="y")
    return graph


def config(executor_type: str) -> Any:
    made = proto.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=2)
    made.experimental.executor_type = executor_type
    made.graph_options.optimizer_options.global_jit_level = -1  # a compiler has threads of its own
    return made


@pytest.mark.parametrize("executor_type", EXECUTORS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_e6_kernel_fault_names_the_node(
    fault: Callable[[Any], Any], kind: str, executor_type: str
) -> None:
    plugin = Plugin(fault, kind)
    host = graphmill.Host(plugins=[plugin])
    cls, words = FAULTS[fault]
    graph = looping_graph(host)
    settings = config(executor_type)
    with no_leaked_threads(), graphmill.Session(graph=graph, host=host, config=settings) as session:
        assert session.run("y:0", {"n:0": 2}) == 2
        with pytest.raises(cls, match=words) as caught:
            session.run("y:0", {"n:0": 5})
        assert session.run("y:0", {"n:0": 2}) == 2
    error = caught.value
    assert type(error) is cls
    assert (error.op_type, error.node.rpartition("/")[2]) == (OP, "bad")  # type: ignore[union-attr]
    assert error.device == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert error.plugin is not None
    assert error.node_def.op == OP
    assert "(in iteration turns" in error.message
    assert error.message.rpartition("(in iteration ")[2].endswith(":2)")


# -------------------------------------------------------------------------------------- a device


class FailingDevice(Device):
    """A device of host memory that fails to compute the number 2."""

    is_host_memory = True

    def namespace(self, backend: str) -> Any:
        del backend
        return np

    def to_device(self, value: Any) -> Any:
        return value

    def to_host(self, value: Any) -> Any:
        return value

    def compute_of(self, kernel: Any) -> Callable[..., Any]:
        def compute(*inputs: Any, **keywords: Any) -> Any:
            if kernel.op == "Neg" and inputs[0] == 2:
                raise Raises("the device is on fire")
            return kernel_compute(*inputs, **keywords)

        kernel_compute = kernel.compute
        return compute


class FailingFactory(DeviceFactory):
    def create_devices(self, config: Any, name_prefix: str) -> Sequence[Device]:
        del config
        return [FailingDevice(DeviceAttributes(f"{name_prefix}/device:FAILS:0", "FAILS"))]


class DevicePlugin:
    @hookimpl
    def graphmill_register_devices(self, devices: Any) -> None:
        devices.add("FAILS", FailingFactory())


@pytest.mark.parametrize("executor_type", EXECUTORS)
def test_r2_device_compute_failure_names_the_node(executor_type: str) -> None:
    host = graphmill.Host(plugins=[DevicePlugin()])
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", (), "x")
        with graph.device("/device:FAILS:0"):
            neg = graphmill.ops.math.neg(x, name="bad")
        graphmill.ops.array.identity(neg, name="y")
    settings = config(executor_type)
    with no_leaked_threads(), graphmill.Session(graph=graph, host=host, config=settings) as session:
        assert session.run("y:0", {"x:0": 3}) == -3
        with pytest.raises(errors.InternalError, match="Raises: the device is on fire") as caught:
            session.run("y:0", {"x:0": 2})
        assert session.run("y:0", {"x:0": 3}) == -3
    assert (caught.value.node, caught.value.op_type) == ("bad", "Neg")
    assert caught.value.device == "/job:localhost/replica:0/task:0/device:FAILS:0"


# ------------------------------------------------------------------------------------ a callback


def test_p6_raising_callback_is_reported_or_fails_the_step() -> None:
    """An exception of a debug callback, which is client code, is reported or fails the step."""
    host = graphmill.Host()

    def raises(watched: Any) -> None:
        raise Raises(f"saw {watched.node_name}")

    host.debug_callbacks["mine"] = raises
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", (), "x")
        graphmill.ops.math.neg(x, name="y")
    watch = {"node_name": "y", "output_slot": 0, "debug_ops": ["DebugIdentity"]}
    watch["debug_urls"] = ["callback://mine"]
    options = {"debug_options": {"debug_tensor_watch_opts": [watch]}}
    with graphmill.Session(graph=graph, host=host) as session:
        with pytest.raises(errors.OpError, match="saw y") as caught:
            session.run("y:0", {"x:0": 2}, options=options)
        assert session.run("y:0", {"x:0": 2}) == -2
    assert caught.value.op_type == "DebugIdentity"
