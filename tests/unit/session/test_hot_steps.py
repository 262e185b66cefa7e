"""When a graph is built again for speed, and what becomes of it if that fails (phase HOT)."""

from __future__ import annotations

import copy
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.testing.passes import pass_names

if TYPE_CHECKING:
    from collections.abc import Iterator


class Hot:
    """A host with one pass of phase `HOT`.

    Attributes:
        host: the host.
        num_built: how often the pass has seen a graph.
        threads: the threads that it ran in.
        error: what it raises, if anything.
    """

    def __init__(self) -> None:
        default = graphmill.default_host()
        self.num_built = 0
        self.threads: set[str] = set()
        self.error: Exception | None = None
        self.host = copy.copy(default)
        self.host.passes = default.passes.without([n for n in pass_names(default) if "jit" in n])
        owner = default.passes.provenance("identity_pruning")
        self.host.passes.add_pass("look", self._look, phase="HOT", owner=owner)

    def _look(self, graph: Any, options: Any) -> None:
        del graph, options
        self.num_built += 1
        self.threads.add(threading.current_thread().name)
        if self.error is not None:
            raise self.error


@pytest.fixture
def hot() -> Hot:
    return Hot()


@pytest.fixture
def graph() -> Iterator[graphmill.Graph]:
    made = graphmill.Graph()
    with made.as_default():
        x = made.placeholder("float32", [], name="x")
        ops.math.add(x, 1.0, name="y")
        yield made


def run(session: Any, host: Any, steps: int, fetch: str = "y:0") -> None:
    for _ in range(steps):
        assert session.run(fetch, {"x:0": 1.0}) == 2.0
        host.background.wait_idle()


def test_after_three_steps_the_graph_is_built_again_once(graph: Any, hot: Hot) -> None:
    with graphmill.Session("", graph, None, hot.host) as session:
        run(session, hot.host, 2)
        assert hot.num_built == 0
        run(session, hot.host, 8)
    assert hot.num_built == 1
    assert hot.threads == {"graphmill-background"}


@pytest.mark.parametrize(("steps", "built"), [(6, 0), (7, 1)])
def test_the_number_of_steps_can_be_set(graph: Any, hot: Hot, steps: int, built: int) -> None:
    config = {"graphmill": {"jit_after_steps": 7}}
    with graphmill.Session("", graph, config, hot.host) as session:
        run(session, hot.host, steps)
    assert hot.num_built == built


@pytest.mark.parametrize("options", [{"jit": "eager"}, {"deterministic": True}])
def test_it_may_be_before_the_first_step(graph: Any, hot: Hot, options: Any) -> None:
    with graphmill.Session("", graph, {"graphmill": options}, hot.host) as session:
        run(session, hot.host, 1)
        assert hot.num_built == 1
        run(session, hot.host, 5)
    assert hot.num_built == 1


def test_a_graph_with_loops_is_built_before_its_first_step(hot: Hot) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        y = graphmill.while_loop(lambda i: i < 2.0, lambda i: i + 1.0, [x])
    with graphmill.Session("", graph, None, hot.host) as session:
        run(session, hot.host, 1, y.name)
        assert hot.num_built == 1
        run(session, hot.host, 5, y.name)
    assert hot.num_built == 1


@pytest.mark.parametrize("executor", ["", "INLINE"])
def test_off_means_never(graph: Any, hot: Hot, executor: str) -> None:
    config = {"graphmill": {"jit": "off"}, "experimental": {"executor_type": executor}}
    with graphmill.Session("", graph, config, hot.host) as session:
        run(session, hot.host, 6)
    assert hot.num_built == 0


@pytest.mark.parametrize(
    ("error", "said"),
    [(InvalidArgumentError("not today"), "not today"), (ValueError("a fault"), "a fault")],
)
def test_a_pass_that_fails_leaves_the_first_executors(
    graph: Any, hot: Hot, error: Exception, said: str
) -> None:
    hot.error = error
    with graphmill.Session("", graph, None, hot.host) as session:
        run(session, hot.host, 9)
        record = session.explain("y:0", ["x:0"])
    assert hot.num_built == 1  # and is not tried again
    assert record.reason.startswith("the graph could not be built again")
    assert said in record.reason
    assert (record.num_steps, record.num_interpreted) == (9, 9)


def test_a_pass_that_fails_leaves_a_deterministic_session_interpreted(graph: Any, hot: Hot) -> None:
    hot.error = InvalidArgumentError("not today")
    with graphmill.Session("", graph, {"graphmill": {"deterministic": True}}, hot.host) as session:
        run(session, hot.host, 3)
        assert "not today" in session.explain("y:0", ["x:0"]).reason
    assert hot.num_built == 1


def test_in_eager_mode_it_fails_the_step(graph: Any, hot: Hot) -> None:
    hot.error = ValueError("a fault")
    with (
        graphmill.Session("", graph, {"graphmill": {"jit": "eager"}}, hot.host) as session,
        pytest.raises(InternalError, match="a fault"),
    ):
        session.run("y:0", {"x:0": 1.0})


def test_each_signature_has_its_own_count(graph: Any, hot: Hot) -> None:
    ops.math.add(graph.get_tensor_by_name("x:0"), 1.0, name="z")
    with graphmill.Session("", graph, None, hot.host) as session:
        for fetch in ("y:0", "z:0"):
            run(session, hot.host, 2, fetch)
        assert hot.num_built == 0
        run(session, hot.host, 2, "z:0")
        assert hot.num_built == 1


def test_callables_and_runs_of_a_signature_count_together(graph: Any, hot: Hot) -> None:
    with graphmill.Session("", graph, None, hot.host) as session:
        call = session.make_callable("y:0", ["x:0"])
        run(session, hot.host, 2)
        assert call(1.0) == 2.0
        hot.host.background.wait_idle()
        assert hot.num_built == 1
        assert call(1.0) == 2.0
        assert session.explain("y:0", ["x:0"]).num_interpreted == 3


def test_partial_runs_are_not_built_again(graph: Any, hot: Hot) -> None:
    with graphmill.Session("", graph, None, hot.host) as session:
        for _ in range(6):
            handle = session.partial_run_setup(["y:0"], ["x:0"])
            assert session.partial_run(handle, "y:0", {"x:0": 1.0}) == 2.0
            hot.host.background.wait_idle()
    assert hot.num_built == 0


@pytest.mark.parametrize("mode", ["tiered", "eager"])
def test_without_a_compiler_straight_line_code_stays(
    graph: Any, mode: str, graphmill_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops.math.tanh(graph.get_tensor_by_name("y:0") * 2.0, name="z")
    monkeypatch.setitem(sys.modules, "graphmill_plugins.jit.compiler", None)
    monkeypatch.delattr("graphmill_plugins.jit.compiler", raising=False)
    with graphmill.Session("", graph, {"graphmill": {"jit": mode}}, graphmill_host) as session:
        for _ in range(9):
            assert session.run("z:0", {"x:0": -1.0}) == 0.0
            graphmill_host.background.wait_idle()
        (compilation,) = session.explain("z:0", ["x:0"]).compilations.values()
    (signature,) = compilation.clusters[0].signatures
    assert (signature.tier, signature.num_compiled) == ("straight-line", 0)
    assert signature.reason.startswith("JAX cannot be imported")
