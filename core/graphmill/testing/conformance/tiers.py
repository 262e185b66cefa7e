"""`TierTests`: plugin declarations hold on a device, interpreted and compiled.

The tests create third-party plugins: kernels of higher priority, ops that wait, ops with effects,
optimizers, random ops, kernels with checks, and faulty kernels.
"""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pytest

from graphmill import proto
from graphmill.errors import InternalError, InvalidArgumentError, OpError
from graphmill.explain import explain_all
from graphmill.graph.builder import Graph
from graphmill.graph.device_name import parse_device_name
from graphmill.ops import math
from graphmill.plugin.host import Host
from graphmill.session.session import Session
from graphmill.testing.conformance.clauses import clauses
from graphmill.testing.fakes.third_party_plugin import (
    Counting,
    Mailbox,
    faulty,
    generator,
    optimizer,
    scales,
    square_root,
)
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin as Foreign
from graphmill.testing.tier_programs import PROGRAMS, TierProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.graph.tensor import Tensor

TIERS: Final = ("off", "tiered", "eager")
"""The modes of `config.graphmill.jit` under which steps run."""
_STEPS: Final = 8  # compilation of a signature begins after the third, that of the graph later
_FAULTY_STEPS: Final = 4  # after each step without the fault, one with it
_TIMEOUT_MS: Final = 60_000  # includes the import of JAX
_KERNELS: Final[dict[str, dict[str, Any]]] = {
    "any backend": {},
    "its backend": {"backend": True},
    "its device": {"device": True},
    "one dtype": {"types": {"T": ["float32"]}},
}
_EACH_KERNEL: Final = (
    *((name, "any backend") for name in PROGRAMS),
    *((name, declared) for name in ("graph", "v1 loop") for declared in list(_KERNELS)[1:]),
)
_FAULTS: Final[dict[str, tuple[Callable[[Any], Any], str]]] = {
    "another dtype": (np.float64, "returned a tensor of float64 for output 0"),
    "two outputs": (lambda x: (x, x), "returned tuple for output 0, expected a tensor"),
    "nothing": (lambda _: None, "returned NoneType for output 0, expected a tensor"),
    "no array": (lambda _: "text", "returned str for output 0, expected a tensor"),
}
_EACH_FAULT: Final = (
    *((name, "another dtype") for name in PROGRAMS),
    *((name, fault) for name in ("graph", "v1 loop") for fault in list(_FAULTS)[1:]),
)


class TierTests:
    """Test that a device and its compiler honour plugin declarations.

        class TestNpuTiers(TierTests):
            device = "/device:NPU:0"

    Attributes:
        device: the tested device; by default that of `--graphmill-device`, else the CPU.
        backend: a backend of its kernels; by default `numpy`, on an XLA device `jax`.
        settings: `ConfigProto` fields that its sessions need, besides `device_count`.
        is_compiled: whether the tests require that kernels that can be compiled are compiled on
            this device; by default true for the CPU if JAX is installed.
    """

    graphmill_suite: ClassVar[str] = "TierTests"
    device: ClassVar[str] = ""
    settings: ClassVar[dict[str, Any]] = {}
    backend: ClassVar[str] = ""
    is_compiled: ClassVar[bool | None] = None

    @pytest.fixture(params=TIERS)
    def tier(self, request: pytest.FixtureRequest) -> str:
        """Return the tier of the test."""
        return str(request.param)

    @pytest.fixture
    def plugins(self) -> list[object]:
        """Return plugins that the hosts of these tests have in addition to the installed ones."""
        return []

    @pytest.fixture
    def place(self, graphmill_device: str) -> str:
        """Return the device's name."""
        return self.device or graphmill_device or "/device:CPU:0"

    @pytest.fixture
    def config(self, place: str, tier: str) -> Any:
        """Return the configuration of sessions of a tier; it allows clusters of any size."""
        parsed = parse_device_name(place)
        count = {"CPU": 1, parsed.type or "CPU": (parsed.id or 0) + 1}
        options = proto.ConfigProto(device_count=count, allow_soft_placement=True, **self.settings)
        options.graphmill.jit = tier
        options.graphmill.jit_min_cluster_size = 1
        return options

    @pytest.fixture
    def open_session(self, plugins: list[object], config: Any) -> Callable[..., Any]:
        """Return a function that opens a session on a host with one more plugin."""

        @contextmanager
        def opened(plugin: object, graph: Callable[[Host], Any]) -> Iterator[_Steps]:
            host = Host(plugins=[*plugins, plugin])
            with Session(graph=graph(host), host=host, config=config) as session:
                yield _Steps(session, host)

        return opened

    def must_compile(self, place: str, tier: str) -> bool:
        """Return whether a kernel that can be compiled must be, after some steps of a tier."""
        has_jax = importlib.util.find_spec("jax") is not None
        expected = self.is_compiled
        if expected is None:
            expected = has_jax and parse_device_name(place).type == "CPU"
        return expected and tier != "off"

    @clauses("E6", "P4")
    @pytest.mark.parametrize(("program", "declared"), _EACH_KERNEL)
    def test_the_kernel_of_highest_priority_wins(
        self, program: str, declared: str, place: str, open_session: Any
    ) -> None:
        """The kernel of highest priority runs in each step, in every context of its node."""
        tier_program = PROGRAMS[program]
        wins = scales("Neg", 3.0, priority=10, **self._declared(declared, place))
        with open_session(Foreign(kernels=[wins]), self._graph_of(tier_program, place)) as steps:
            for _ in range(_STEPS):
                assert steps.run(tier_program.fetch, tier_program.feeds) == 2.0 * 6.0 ** (
                    tier_program.calls // 2
                )

    @clauses("E6")
    @pytest.mark.parametrize("declared", _KERNELS)
    def test_the_kernel_of_a_gradient_wins(
        self, declared: str, place: str, open_session: Any
    ) -> None:
        """The kernel of highest priority also runs for an op that gradient graphs use."""
        wins = scales("ReluGrad", 3.0, priority=10, **self._declared(declared, place))
        program = TierProgram(("d = ReluGrad(x, x)", "y = AddV2(d, x)"))
        with open_session(Foreign(kernels=[wins]), self._graph_of(program, place)) as steps:
            for _ in range(_STEPS):
                assert steps.run("y:0", program.feeds) == 8.0

    @clauses("E6")
    def test_a_kernel_with_a_compiled_form_wins_in_both(
        self, place: str, tier: str, open_session: Any
    ) -> None:
        """A compiler uses the JAX kernel of the plugin whose kernel is selected."""
        chosen = scales("Neg", 3.0, priority=10)
        lowered = scales("Neg", 3.0, priority=10, backend="jax")
        program = PROGRAMS["graph"]
        plugin = Foreign(kernels=[chosen, lowered])
        with open_session(plugin, self._graph_of(program, place)) as steps:
            for _ in range(_STEPS):
                assert steps.run("y:0", program.feeds) == 12.0
            assert steps.is_compiled("a") or not self.must_compile(place, tier)

    @clauses("E3")
    def test_nodes_may_wait_for_each_other(self, place: str, open_session: Any) -> None:
        """Two ops that wait for each other without an edge are not in one cluster."""
        box = Mailbox()
        with open_session(box.plugin, lambda host: _mailbox_graph(host, place)) as steps:
            for step in range(12):
                taken = steps.run("b:0", {"x:0": float(step)}, targets=["put"])
                np.testing.assert_allclose(taken, np.tanh(np.float32(step**2)) + step**2, 1e-6)

    @clauses("P4", "E9")
    @pytest.mark.parametrize("program", PROGRAMS)
    @pytest.mark.parametrize(("effect", "declared_by"), [("clock", "op"), ("log", "kernel")])
    def test_a_node_with_effects_runs_once_where_it_stands(
        self, program: str, effect: str, declared_by: str, place: str, open_session: Any
    ) -> None:
        """Nodes whose op or kernel declares an effect are not merged, folded or dropped."""
        tier_program, counting = PROGRAMS[program], Counting(effect, declared_by)
        graph = self._graph_of(tier_program, place, "Foreign>Act")
        with open_session(counting.plugin, graph) as steps:
            for step in range(1, _STEPS + 1):
                steps.run(tier_program.fetch, tier_program.feeds)
                assert counting.calls == step * tier_program.calls

    @clauses("E6")
    def test_an_optimizer_that_may_be_traced_is_compiled(
        self, place: str, tier: str, open_session: Any
    ) -> None:
        """An optimizer computes the same variable values in each tier."""
        with open_session(optimizer(), lambda host: _optimizer_graph(host, place)) as steps:
            steps.run([], targets=["init"])
            for step in range(1, _STEPS + 1):
                value = steps.run("after:0", {"x:0": np.array([1, -2], np.float32)})
                assert value.tolist() == [-0.25 * step, 0.25 * step]
            assert steps.is_compiled("update") or not self.must_compile(place, tier)

    @clauses("E6")
    def test_random_op_continues_its_sequence(
        self, place: str, tier: str, open_session: Any
    ) -> None:
        """A random op whose state is a variable draws the same sequence in each tier."""
        program = PROGRAMS["graph"]
        graph = self._graph_of(program, place, "Foreign>Draw")
        with open_session(generator(), graph) as steps:
            drawn = [float(steps.run("y:0", program.feeds)) for _ in range(_STEPS)]
            assert steps.is_compiled("a") or not self.must_compile(place, tier)
        assert drawn == [2 * (2 + value) for value in _generated(_STEPS)]

    @clauses("E6", "S12")
    def test_a_checking_kernel_refuses_the_same_values(
        self, place: str, tier: str, open_session: Any
    ) -> None:
        """In each tier the error is that of the kernel, and names its node."""
        program = PROGRAMS["graph"]
        graph = self._graph_of(program, place, "Foreign>Root")
        with open_session(square_root(), graph) as steps:
            for _ in range(_STEPS):
                root = steps.run("y:0", {**program.feeds, "x:0": 9.0})
                assert root == 6.0
                error = steps.error("y:0", {**program.feeds, "x:0": -9.0})
                assert type(error) is InvalidArgumentError, repr(error)
                assert error.node in ("a", "b"), error.node
                assert "no root of a negative number" in error.message
            assert steps.is_compiled("a") or not self.must_compile(place, tier)

    @clauses("E6", "S12")
    @pytest.mark.parametrize(("program", "fault"), _EACH_FAULT)
    def test_a_wrong_output_is_an_error_that_names_its_node(
        self, program: str, fault: str, place: str, open_session: Any
    ) -> None:
        """Dtype, number and kind of a kernel's outputs are checked in each tier."""
        give, words = _FAULTS[fault]
        tier_program = PROGRAMS[program]
        graph = self._graph_of(tier_program, place, "Foreign>Faulty")
        with open_session(faulty(give), graph) as steps:
            for _ in range(_FAULTY_STEPS):
                steps.run(tier_program.fetch, {**tier_program.feeds, "x:0": 5.0})
                error = steps.error(tier_program.fetch, tier_program.feeds)
                assert type(error) is InternalError, repr(error)
                assert words in error.message
                assert error.op_type == "Foreign>Faulty", error.op_type
                assert (error.node or "").rpartition("/")[2] in ("a", "b"), error.node

    def _declared(self, name: str, place: str) -> dict[str, Any]:
        """Return the arguments of `@kernel` for a declaration, on a device."""
        declared = dict(_KERNELS[name])
        kind = parse_device_name(place).type or "CPU"
        if "device" in declared:
            declared["device"] = kind
        if "backend" in declared:
            declared["backend"] = self.backend or ("jax" if "XLA" in kind else "numpy")
        return declared

    @staticmethod
    def _graph_of(program: TierProgram, place: str, op: str = "Neg") -> Callable[[Host], Any]:
        return lambda host: program.graph_def(host.ops, op, place)


class _Steps:
    """Runs the steps of a session, and waits for background compilations after each."""

    def __init__(self, session: Session, host: Host) -> None:
        self._session = session
        self._host = host

    def run(self, fetches: Any, feeds: Any = None, targets: Any = ()) -> Any:
        """Run a step."""
        options = proto.RunOptions(timeout_in_ms=_TIMEOUT_MS)
        try:
            return self._session.run(fetches, feeds, targets=list(targets), options=options)
        finally:
            self._host.background.wait_idle(_TIMEOUT_MS / 1000)

    def error(self, fetches: Any, feeds: Any) -> OpError:
        """Run a step that fails, and return its error."""
        try:
            result = self.run(fetches, feeds)
        except OpError as error:
            return error
        raise AssertionError(f"the step returned {result!r} instead of an error")

    def is_compiled(self, node: str) -> bool:
        """Return whether a node is in a cluster that was compiled."""
        records = [
            cluster
            for step in explain_all(self._session)
            for compilation in step.compilations.values()
            for cluster in compilation.clusters
        ]
        return any(node in cluster.nodes and cluster.tier == "compiled" for cluster in records)


def _mailbox_graph(host: Host, place: str) -> Graph:
    graph = Graph(ops=host.ops)
    with graph.as_default(), graph.device(place):
        x = graph.placeholder("float32", (), name="x")
        square = math.mul(x, x, name="square")
        graph.create_op("Foreign>Put", [square], name="put")
        (taken,) = graph.outputs_of(graph.create_op("Foreign>Take", [], name="take"))
        math.add_v2(math.tanh(taken), square, name="b")
    return graph


def _optimizer_graph(host: Host, place: str) -> Graph:
    graph = Graph(ops=host.ops)
    with graph.as_default(), graph.device(place):
        x = graph.placeholder("float32", [2], name="x")
        attrs = {"dtype": "float32", "shape": (2,)}
        (handle,) = graph.outputs_of(graph.create_op("VarHandleOp", [], attrs, name="v"))
        zeros = graph.constant(np.zeros(2, np.float32))
        graph.create_op("AssignVariableOp", [handle, zeros], name="init")
        gradient: Tensor = math.tanh(math.mul(x, 2.0), name="gradient")
        update = graph.create_op("Foreign>ApplySign", [handle, gradient], name="update")
        with graph.control_dependencies([update]):
            graph.create_op("ReadVariableOp", [handle], {"dtype": "float32"}, name="after")
    return graph


def _generated(count: int) -> list[float]:
    """Return the first values that the op of `generator` draws."""
    last, values = 1, []
    for _ in range(count):
        last = (last * 1664525 + 1013904223) % (1 << 32)
        values.append(float(last >> 16))
    return values
