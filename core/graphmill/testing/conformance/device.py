"""`DeviceTests`: the contract of devices (clause R2 and others)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from graphmill import errors, proto
from graphmill.dtypes import as_dtype
from graphmill.graph.builder import Graph
from graphmill.graph.control_flow.cond import cond
from graphmill.graph.control_flow.while_loop import while_loop
from graphmill.graph.device_name import parse_device_name
from graphmill.memory import aligned_empty
from graphmill.ops import array, math, nn, state, string
from graphmill.session.direct_session import DirectSession
from graphmill.session.session import Session
from graphmill.testing.conformance.clauses import clauses
from graphmill.testing.fakes.fault_injection import Faults, with_faults
from graphmill.testing.timeouts import within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.graph.tensor import Tensor
    from graphmill.plugin.host import Host
    from graphmill.runtime.devices.device import Device

_PREFIX = "/job:localhost/replica:0/task:0"
_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


class DeviceTests:
    """Test a device against the contract that sessions rely on.

        class TestNpu(DeviceTests):
            device = "/device:NPU:0"

    Attributes:
        device: its name; by default that of `--graphmill-device`.
        dtypes: the element types that its memory can hold.
        settings: `ConfigProto` fields that its sessions need, besides `device_count`.
    """

    graphmill_suite: ClassVar[str] = "DeviceTests"
    device: ClassVar[str] = ""
    dtypes: ClassVar[tuple[str, ...]] = _DTYPES
    settings: ClassVar[dict[str, Any]] = {}

    @pytest.fixture
    def host(self, graphmill_host: Host) -> Host:
        """Return the host whose device is tested; override it to add plugins of your own."""
        return graphmill_host

    @pytest.fixture
    def name(self, graphmill_device: str) -> str:
        """Return the device's name."""
        device_name = self.device or graphmill_device
        if not device_name:
            pytest.skip("no device is named: set `device`, or pass --graphmill-device")
        return device_name

    @pytest.fixture
    def kind(self, name: str) -> str:
        """Return the device's type."""
        return parse_device_name(name).type or ""

    @pytest.fixture
    def config(self, name: str, kind: str) -> Any:
        """Return the configuration of sessions that have the device."""
        index = parse_device_name(name).id or 0
        return proto.ConfigProto(device_count={"CPU": 1, kind: index + 1}, **self.settings)

    @pytest.fixture
    def made(self, host: Host, name: str, kind: str, config: Any) -> Iterator[Device]:
        """Yield a device that no session owns."""
        devices = host.devices.get(kind).create_devices(config, _PREFIX)
        requested = parse_device_name(name)
        fitting = [d for d in devices if requested.matches(parse_device_name(d.name))]
        assert fitting, f"the factory created {[d.name for d in devices]}, but not {name}"
        yield fitting[0]
        for device in devices:
            device.close()

    # ------------------------------------------------------------------ factory and attributes

    @clauses("S1", "R2")
    def test_the_factory_names_its_devices(self, made: Device, kind: str) -> None:
        """Names are complete (`/job…/device:TYPE:N`) and contain the type."""
        parsed = parse_device_name(made.name)
        assert parsed.is_complete, made.name
        assert parsed.type == kind == made.device_type == made.attributes.device_type
        assert made.attributes.memory_limit >= 0

    @clauses("R2")
    def test_each_start_is_another_incarnation(
        self, made: Device, host: Host, kind: str, config: Any
    ) -> None:
        """Each new device has a new random incarnation."""
        again = host.devices.get(kind).create_devices(config, _PREFIX)
        seen = {device.attributes.incarnation for device in (made, *again)}
        for device in again:
            device.close()
        assert 0 not in seen
        assert len(seen) == 1 + len(again), (
            "two devices, or two starts of one, have the same incarnation"
        )

    @clauses("S1")
    def test_a_session_lists_it(self, host: Host, name: str, config: Any) -> None:
        """`list_devices` lists the device."""
        with Session(host=host, config=config) as session:
            names = [attributes.name for attributes in session.list_devices()]
        requested = parse_device_name(name)
        assert any(requested.matches(parse_device_name(listed)) for listed in names), names
        assert len(set(names)) == len(names)

    @clauses("R2")
    def test_each_backend_has_a_namespace(self, made: Device) -> None:
        """`namespace` returns array functions for each backend that the device declares."""
        assert made.backends, "a device without backends runs no kernel"
        for backend in made.backends:
            xp = made.namespace(backend)
            missing = [f for f in ("add", "multiply", "reshape", "matmul") if not hasattr(xp, f)]
            assert not missing, f"the namespace of {backend} has no {', '.join(missing)}"

    # ------------------------------------------------------------------------------ copies

    @clauses("R2")
    def test_values_survive_the_round_trip(self, made: Device) -> None:
        """Every element type and layout comes back bit for bit."""
        for dtype in self.dtypes:
            for value in _layouts(as_dtype(dtype).as_numpy_dtype):
                back = made.to_host(made.to_device(value))
                where = f"{dtype} {np.shape(value)}"
                assert isinstance(back, (np.ndarray, np.generic)), f"{where}: {type(back)}"
                assert back.dtype == value.dtype, where
                assert back.shape == np.shape(value), where
                assert _bits(back) == _bits(value), f"{where} is changed by the round trip"

    @clauses("R2")
    def test_values_describe_themselves(self, made: Device) -> None:
        """A value has the `dtype`, `shape` and `ndim` of the array from which it was made."""
        for value in (np.ones((2, 3), np.float32), np.int32(4)):
            stored = made.to_device(value)
            kind = type(stored).__name__
            missing = [name for name in ("dtype", "shape", "ndim") if not hasattr(stored, name)]
            assert not missing, f"{kind}, which to_device returns, has no {', '.join(missing)}"
            assert stored.dtype == value.dtype, f"the dtype of {kind} is not NumPy's"
            assert tuple(stored.shape) == value.shape
            assert stored.ndim == value.ndim

    @clauses("R2")
    def test_scalars_are_accepted(self, made: Device) -> None:
        """NumPy scalars, which kernels return for rank 0, can be copied too."""
        back = made.to_host(made.to_device(np.float32(1.5)))
        assert back == np.float32(1.5)
        assert np.shape(back) == ()

    @clauses("R2")
    def test_device_memory_is_separate(self, made: Device) -> None:
        """Changing a host array after the copy does not change the value on the device."""
        if made.is_host_memory:
            pytest.skip("the device computes in host memory")
        for skipped in (0, 1):  # some libraries share aligned memory and copy the rest
            source = aligned_empty((65,), np.dtype(np.float32))[skipped : skipped + 64]
            source[...] = range(64)
            stored = made.to_device(source)
            source[...] = -1
            assert made.to_host(stored).tolist() == list(range(64)), f"{4 * skipped} bytes off 64"

    @clauses("R2")
    def test_fetched_result_is_not_overwritten(self, made: Device) -> None:
        """Later work of the device does not overwrite a result on the host."""
        first = made.to_host(made.to_device(np.full(64, 1, np.float32)))
        made.to_host(made.to_device(np.full(64, 2, np.float32)))
        assert set(np.asarray(first).tolist()) == {1.0}

    @clauses("R2")
    def test_threads_may_copy_at_once(self, made: Device) -> None:
        """Concurrent copies do not interfere."""
        wrong: list[int] = []

        def copy(number: int) -> None:
            for _ in range(20):
                value = np.full(97, number, np.int64)
                if not np.array_equal(made.to_host(made.to_device(value)), value):
                    wrong.append(number)

        threads = [threading.Thread(target=copy, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    @clauses("E8")
    def test_sync_ends(self, made: Device) -> None:
        """`sync` returns when all started work is done, also if there is none."""
        within(made.sync, "sync of an idle device")
        stored = made.to_device(np.ones(8, np.float32))
        within(made.sync, "sync after a copy")
        assert made.to_host(stored).sum() == 8

    @clauses("S11")
    def test_close_may_be_called_twice(self, made: Device) -> None:
        """`close` is idempotent."""
        made.close()
        made.close()

    # ---------------------------------------------------------------------------- steps

    @clauses("S6", "P1")
    def test_a_graph_runs_on_it(self, host: Host, name: str, config: Any) -> None:
        """Nodes that request the device run there, and their results equal NumPy's."""
        graph = Graph()
        with graph.as_default(), graph.device(name):
            x = graph.placeholder("float32", [None, 3], name="x")
            y = nn.relu(x @ graph.constant(_W) + 1.0, name="y")
        metadata = proto.RunMetadata()
        options = proto.RunOptions(trace_level=proto.RunOptions.FULL_TRACE)
        with Session(graph=graph, host=host, config=config) as session:
            result = session.run(y, {x: _X}, options=options, run_metadata=metadata)
        np.testing.assert_allclose(result, np.maximum(_X @ _W + 1, 0), rtol=1e-5)
        assert isinstance(result, np.ndarray)
        requested = parse_device_name(name)
        ran = {
            parse_device_name(stats.device).type
            for stats in metadata.step_stats.dev_stats
            if any(node.node_name.startswith(("y", "add", "mat")) for node in stats.node_stats)
        }
        assert ran <= {requested.type}, f"nodes that request {name} ran on {ran}"

    @clauses("P3", "R1")
    def test_tensors_cross_to_the_cpu_and_back(self, host: Host, name: str, config: Any) -> None:
        """A value goes from the host to the device, to the host and to the device again."""
        graph = Graph()
        with graph.as_default():
            x = graph.placeholder("float32", [None], name="x")
            with graph.device(name):
                a = x * 2.0
            with graph.device("/device:CPU:0"):
                b = a + 1.0
            with graph.device(name):
                c = array.identity(b * b, name="c")
        with Session(graph=graph, host=host, config=config) as session:
            assert session.run(c, {x: [1, 2]}).tolist() == [9.0, 25.0]
            assert session.run([a, b], {x: [3]})[1].tolist() == [7.0]

    @clauses("P2")
    def test_shapes_and_strings_stay_on_the_host(self, host: Host, name: str, config: Any) -> None:
        """Inputs that kernels need in host memory are there; strings always are."""
        graph = Graph()
        with graph.as_default():
            x = graph.placeholder("float32", [None, None], name="x")
            with graph.device(name):
                flat = array.reshape(x, [-1])
                turned = array.reshape(flat, array.reverse_v2(array.shape(x), [0]), name="turned")
            with graph.device("/device:CPU:0"):
                text = string.as_string(math.sum(turned, [0, 1]), precision=1)
        with Session(graph=graph, host=host, config=config) as session:
            shape, rendered = session.run([array_shape(graph, turned), text], {x: np.ones((2, 3))})
        assert shape.tolist() == [3, 2]
        assert rendered == b"6.0"

    @clauses("E7")
    def test_loops_run_on_it(self, host: Host, name: str, config: Any) -> None:
        """Loops of control flow v1 run on the device."""
        graph = Graph()
        with graph.as_default(), graph.device(name):
            n = graph.placeholder("int32", [], name="n")
            x = graph.constant(1.0)
            _, total = while_loop(
                lambda i, _: math.less(i, n), lambda i, t: (i + 1, t * 2.0), [0, x]
            )
            total = array.identity(total, name="total")
        with Session(graph=graph, host=host, config=config) as session:
            assert session.run(total, {n: 5}) == 32.0
            assert session.run(total, {n: 0}) == 1.0

    @clauses("E7", "R1")
    def test_dead_branches_cross(self, host: Host, name: str, config: Any) -> None:
        """A conditional with branches on two devices returns the result of the taken branch."""
        graph = Graph()
        with graph.as_default():
            p = graph.placeholder("bool", [], name="p")
            x = graph.placeholder("float32", [], name="x")

            def here() -> Tensor:
                with graph.device(name):
                    return x * 10.0

            def there() -> Tensor:
                with graph.device("/device:CPU:0"):
                    return x - 1.0

            y = cond(p, here, there)
        with Session(graph=graph, host=host, config=config) as session:
            assert session.run(y, {p: True, x: 2.0}) == 20.0
            assert session.run(y, {p: False, x: 2.0}) == 1.0

    @clauses("S10", "E11")
    def test_variables_live_on_it(self, host: Host, name: str, config: Any) -> None:
        """A variable keeps its value between steps, separately for each session."""
        graph = Graph()
        with graph.as_default(), graph.device(name):
            handle = state.var_handle_op(dtype="float32", shape=(2,), shared_name="v")
            x = graph.placeholder("float32", [2], name="x")
            start = state.assign_variable_op(handle, x)
            more = state.assign_add_variable_op(handle, x)
            read = state.read_variable_op(handle, dtype="float32")
        with (
            Session(graph=graph, host=host, config=config) as one,
            Session(graph=graph, host=host, config=config) as two,
        ):
            one.run(start, {x: [1, 2]})
            two.run(start, {x: [5, 5]})
            one.run(more, {x: [1, 1]})
            assert one.run(read).tolist() == [2.0, 3.0]
            assert two.run(read).tolist() == [5.0, 5.0]

    @clauses("S6")
    def test_concurrent_steps_do_not_interfere(self, host: Host, name: str, config: Any) -> None:
        """Concurrent steps in one session do not interfere."""
        graph = Graph()
        with graph.as_default(), graph.device(name):
            x = graph.placeholder("float32", [None], name="x")
            y = math.sum(x * x + x, [0], name="y")
        wrong: list[float] = []
        with Session(graph=graph, host=host, config=config) as session:
            call = session.make_callable(y, [x])

            def steps(number: int) -> None:
                for _ in range(10):
                    result = float(call(np.full(5, number, np.float32)))
                    if result != 5.0 * (number * number + number):
                        wrong.append(result)

            threads = [threading.Thread(target=steps, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not wrong

    # ----------------------------------------------------------------------------- errors

    @clauses("S12")
    def test_an_error_names_node_and_device(self, host: Host, name: str, config: Any) -> None:
        """A kernel error names its node and device, and the session remains usable."""
        graph, x, _, y = _small(name)
        with Session(graph=graph, host=host, config=config) as session:
            with pytest.raises(errors.OpError) as caught:
                session.run(y, {x: np.ones((2, 5), np.float32)})
            assert caught.value.node == "product", str(caught.value)
            assert str(parse_device_name(name).type) in str(caught.value.device)
            assert session.run(y, {x: _X}).shape == (2, 2)

    @clauses("E8", "S12")
    def test_failing_kernel_fails_only_its_step(
        self, host: Host, name: str, kind: str, config: Any
    ) -> None:
        """A failing kernel fails its step with the node's name; the next step works."""
        faults = Faults(fail_at="product")
        graph, x, _, y = _small(name)
        with Session(graph=graph, host=with_faults(host, kind, faults), config=config) as session:
            with pytest.raises(errors.OpError, match="fallen off the bus") as caught:
                within(lambda: session.run(y, {x: _X}), "a step whose kernel fails")
            assert caught.value.node == "product"
            faults.fail_at = None
            assert session.run(y, {x: _X}).shape == (2, 2)

    @clauses("E8", "R1")
    def test_failing_copy_fails_only_its_step(
        self, host: Host, name: str, kind: str, config: Any
    ) -> None:
        """A failing copy to or from the device fails the step; the next step works."""
        faults = Faults()
        graph, x, _, y = _small(name)
        with Session(graph=graph, host=with_faults(host, kind, faults), config=config) as session:
            direct = session._impl  # noqa: SLF001 - to find the device
            assert isinstance(direct, DirectSession)
            if direct.devices.matching(name)[0].is_host_memory:
                pytest.skip("the device is in host memory, so nothing is copied")
            for fault in ("fail_copy_in", "fail_copy_out"):
                session.run(y, {x: _X})
                setattr(faults, fault, True)
                with pytest.raises(errors.UnavailableError, match="the link"):
                    within(lambda: session.run(y, {x: _X}), f"a step under {fault}")
                setattr(faults, fault, False)
            assert session.run(y, {x: _X}).shape == (2, 2)

    @clauses("S12")
    def test_out_of_memory_is_resource_exhausted(
        self, host: Host, name: str, kind: str, config: Any
    ) -> None:
        """Exhausted memory fails only the step, with RESOURCE_EXHAUSTED."""
        faults = Faults(memory_limit=100)
        graph, x, _, y = _small(name)
        with Session(graph=graph, host=with_faults(host, kind, faults), config=config) as session:
            with pytest.raises(errors.ResourceExhaustedError):
                _run_often(session, y, {x: _X})
            faults.memory_limit = 0
            assert session.run(y, {x: _X}).shape == (2, 2)

    @clauses("S6", "R1", "E13")
    def test_a_lost_transfer_ends_the_step(
        self, host: Host, name: str, kind: str, config: Any
    ) -> None:
        """A step whose transfer is lost ends, at the latest by its deadline."""
        faults = Faults(lose_transfers=True)
        graph = Graph()
        with graph.as_default():
            x = graph.placeholder("float32", [None], name="x")
            with graph.device(name):
                a = x * 2.0
            other = "/device:CPU:0" if kind != "CPU" else "/device:CPU:1"
            with graph.device(other):
                y = array.identity(a + 1.0, name="y")
        config.device_count["CPU"] = 2
        options = proto.RunOptions(timeout_in_ms=200)
        with Session(graph=graph, host=with_faults(host, kind, faults), config=config) as session:
            with pytest.raises((errors.DeadlineExceededError, errors.InternalError)) as caught:
                within(
                    lambda: session.run(y, {x: [1]}, options=options), "a step that lost a transfer"
                )
            assert isinstance(caught.value, errors.DeadlineExceededError) or (
                "stuck" in caught.value.message
            )
            faults.lose_transfers = False
            assert session.run(y, {x: [1]}).tolist() == [3.0]

    @clauses("E5", "S11")
    def test_slow_kernel_blocks_only_its_step(
        self, host: Host, name: str, kind: str, config: Any
    ) -> None:
        """While one step waits for a kernel, another step of the session completes."""
        faults = Faults(delay_at="product")
        graph, x, relu, y = _small(name)
        slow: list[Any] = []
        with Session(graph=graph, host=with_faults(host, kind, faults), config=config) as session:
            session.run(relu, {x: _X})
            thread = threading.Thread(target=lambda: slow.append(session.run(y, {x: _X})))
            thread.start()
            assert faults.has_arrived.wait(30), "the slow kernel was never called"
            try:
                result = within(
                    lambda: session.run(relu, {x: _X}), "a step concurrent with a slow one", 10
                )
            finally:
                faults.release()
                thread.join()
        assert result.shape == _X.shape
        assert slow[0].shape == (2, 2)


_X = np.array([[1, -2, 3], [0.5, 0, -1]], np.float32)
_W = np.array([[1, 0], [2, -1], [0.5, 4]], np.float32)


def _small(name: str) -> tuple[Graph, Tensor, Tensor, Tensor]:
    """Return a graph, its input and two results; the node of the second is named "product"."""
    graph = Graph()
    with graph.as_default(), graph.device(name):
        x = graph.placeholder("float32", name="x")
        relu = nn.relu(x, name="relu")
        y = math.mat_mul(x, graph.constant(_W), name="product")
    return graph, x, relu, y


def _run_often(session: Session, fetch: Tensor, feeds: Any) -> None:
    for _ in range(20):
        session.run(fetch, feeds)


def array_shape(graph: Graph, tensor: Tensor) -> Tensor:
    """Add a node that computes the shape of a tensor."""
    with graph.as_default():
        return array.shape(tensor)


def _layouts(dtype: Any) -> list[Any]:
    """Return arrays of various shapes and memory layouts."""
    whole = np.arange(24).astype(dtype).reshape(4, 6)
    arrays = [whole[0, 0], whole, whole[::2], whole[:, ::-1], whole.T, whole[:0], whole.reshape(24)]
    if np.issubdtype(dtype, np.floating):
        arrays.append(np.array([np.nan, np.inf, -np.inf, -0.0], dtype))
    return [np.asarray(value) for value in arrays]


def _bits(value: Any) -> bytes:
    return np.ascontiguousarray(value).tobytes()
