"""`PassTests`: graph passes preserve results (clause P4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from graphmill import proto
from graphmill.graph.builder import Graph
from graphmill.plugin.host import Host
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.session.session import Session
from graphmill.testing.conformance.clauses import clauses
from graphmill.testing.conformance.seeded import SeededSuite, named
from graphmill.testing.differential.pass_bisection import pass_names, without_passes
from graphmill.testing.generators.control_flow_programs import random_program
from graphmill.testing.generators.dataflow_graphs import random_graph
from graphmill.testing.timeouts import within

if TYPE_CHECKING:
    from graphmill.graph.tensor import Tensor
    from graphmill.testing.fakes.executor_probe import ProbeOps
    from graphmill.testing.generators.dataflow_graphs import RandomGraph


class PassTests(SeededSuite):
    """Test that a graph pass preserves the results of graphs.

        class TestMyPass(PassTests):
            pass_name = "fuse_everything"

    Each test runs a graph without any pass and with only this pass, in validation mode, and
    compares the results.

    Attributes:
        pass_name: its name; by default that of `--graphmill-pass`.
        seeds: the number of random graphs and programs.
        settings: `ConfigProto` fields that enable the pass.
    """

    graphmill_suite: ClassVar[str] = "PassTests"
    pass_name: ClassVar[str] = ""
    seeds: ClassVar[int] = 25

    @pytest.fixture(autouse=True)
    def validation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Verify each graph after the pass."""
        monkeypatch.setenv(VALIDATE_VARIABLE, "1")

    @pytest.fixture
    def name(self, request: pytest.FixtureRequest) -> str:
        """Return the pass's name."""
        return named(request, "pass", "pass_name", self.pass_name or None)

    @pytest.fixture
    def hosts(self, name: str, plugins: list[object], probe_ops: ProbeOps) -> tuple[Host, Host]:
        """Return a host without passes, and one with only the tested pass."""
        host = Host(plugins=[*plugins, probe_ops])
        names = pass_names(host)
        assert name in names, f"there is no pass {name!r}; the passes are {names}"
        others = [other for other in names if other != name]
        return without_passes(host, names), without_passes(host, others)

    @pytest.fixture
    def config(self) -> Any:
        """Return the configuration of the sessions."""
        return proto.ConfigProto(**self.settings)

    @clauses("P4")
    def test_random_graphs_mean_the_same(
        self, seed: int, hosts: tuple[Host, Host], config: Any
    ) -> None:
        """Values, dtypes and shapes of random graphs do not change, also in a second step."""
        sample = random_graph(seed, hosts[0].ops)
        _compare(hosts, config, sample, sample.graph_def)

    @clauses("P4", "P3")
    def test_random_graphs_on_two_devices_mean_the_same(
        self, seed: int, hosts: tuple[Host, Host], config: Any
    ) -> None:
        """The nodes that a pass adds to a placed graph have devices."""
        sample = random_graph(seed, hosts[0].ops)
        placed, config_of_two = proto.GraphDef(), proto.ConfigProto()
        placed.CopyFrom(sample.graph_def)
        config_of_two.CopyFrom(config)
        config_of_two.device_count["CPU"] = 2
        for index, node in enumerate(placed.node):
            node.device = f"/device:CPU:{index % 2}"
        _compare(hosts, config_of_two, sample, placed)

    @clauses("P4", "E7")
    def test_random_programs_mean_the_same(
        self, seed: int, hosts: tuple[Host, Host], config: Any
    ) -> None:
        """The results and effects of loops and conditionals do not change."""
        program = random_program(seed, depth=3)
        graph = Graph()
        built = program.build(graph)
        with Session(graph=graph, host=hosts[1], config=config) as session:
            result = within(lambda: built.run(session, 3), f"a step of {program.name}")
        assert result == program.expected(3), program.name

    @clauses("P4")
    def test_effects_are_neither_lost_nor_doubled(
        self, hosts: tuple[Host, Host], config: Any, probe_ops: ProbeOps
    ) -> None:
        """Identical stateful nodes each run once per step."""
        graph = Graph(ops=hosts[1].ops)
        with graph.as_default():
            x = graph.constant(2.0)
            counted = [_count(graph, x, f"count{i}") for i in range(3)]
            y = counted[0] + counted[1]
        with Session(graph=graph, host=hosts[1], config=config) as session:
            for _ in range(2):
                assert session.run(y, targets=[counted[2].op]) == 4.0
        assert probe_ops.calls == {"count0": 2, "count1": 2, "count2": 2}

    @clauses("P4")
    def test_unneeded_nodes_do_not_run(
        self, hosts: tuple[Host, Host], config: Any, probe_ops: ProbeOps
    ) -> None:
        """A pass does not make nodes run that the step does not need."""
        graph = Graph(ops=hosts[1].ops)
        with graph.as_default():
            x = graph.constant(2.0)
            _count(graph, x, "unneeded")
            y = x * 3.0
        with Session(graph=graph, host=hosts[1], config=config) as session:
            assert session.run(y) == 6.0
        assert probe_ops.calls == {}

    @clauses("P4", "S6")
    def test_feeds_of_inner_tensors_count(self, hosts: tuple[Host, Host], config: Any) -> None:
        """Feeding a tensor replaces its value, also if it is a constant."""
        graph = Graph(ops=hosts[1].ops)
        with graph.as_default():
            a = graph.constant(2.0, name="a")
            b = a * 3.0
            c = b + a
        with Session(graph=graph, host=hosts[1], config=config) as session:
            assert session.run(c) == 8.0
            assert session.run(c, {a: 10.0}) == 40.0
            assert session.run([b, c], {b: 1.0}) == [1.0, 3.0]


def _compare(hosts: tuple[Host, Host], config: Any, sample: RandomGraph, graph_def: Any) -> None:
    fetches = list(sample.fetches)
    expected, actual = (_run(host, config, graph_def, fetches, sample.feeds) for host in hosts)
    for fetch, expected_value, actual_value in zip(fetches * 2, expected, actual, strict=True):
        where = f"{sample.name}, {fetch}"
        assert np.asarray(actual_value).dtype == np.asarray(expected_value).dtype, where
        np.testing.assert_allclose(
            actual_value, expected_value, rtol=1e-5, atol=1e-6, err_msg=where
        )


def _run(host: Host, config: Any, graph: Any, fetches: list[str], feeds: Any) -> list[Any]:
    with Session(graph=graph, host=host, config=config) as session:
        return [value for _ in range(2) for value in session.run(fetches, feeds)]


def _count(graph: Graph, x: Tensor, name: str) -> Tensor:
    node = graph.create_op("Probe>Count", [x], name=name)
    return graph.outputs_of(node)[0]
