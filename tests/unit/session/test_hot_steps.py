"""Signatures are rebuilt for speed: modes, step counts, refusals, closed sessions (S5)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import proto
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.explain import explain_all
from graphmill.testing.differential.pass_bisection import pass_names, without_passes
from graphmill.testing.timeouts import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.plugin.host import Host


class HotPass:
    """A plugin with a pass of phase `HOT` that can wait and refuse."""

    def __init__(self) -> None:
        self.seen = 0
        self.error: Exception | None = None
        self.is_under_way = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    @graphmill.hookimpl
    def graphmill_register_passes(self, passes: Any) -> None:
        passes.add("probe_hot", self._run, phase="HOT")

    def _run(self, graph: Any, options: Any) -> None:
        del graph, options
        self.seen += 1
        self.is_under_way.set()
        assert self.may_go_on.wait(TIMEOUT)
        if self.error is not None:
            raise self.error


@pytest.fixture
def hot() -> HotPass:
    return HotPass()


@pytest.fixture
def host(hot: HotPass, make_host: Callable[..., Host]) -> Host:
    made = make_host(hot)
    return without_passes(made, [name for name in pass_names(made) if "jit" in name])


def session(host: Host, executor_type: str = "", **keys: Any) -> graphmill.Session:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        graphmill.ops.math.neg(x, name="y")
    config = proto.ConfigProto()
    for key, value in keys.items():
        setattr(config.graphmill, key, value)
    config.experimental.executor_type = executor_type
    return graphmill.Session(graph=graph, config=config, host=host)


def run(made: graphmill.Session, host: Host, steps: int) -> None:
    for _ in range(steps):
        assert made.run("y:0", {"x:0": 2}) == -2
        host.background.wait_idle()


@pytest.mark.parametrize(
    ("keys", "seen"),
    [
        ({}, [0, 0, 1, 1]),
        ({"jit": "tiered", "jit_after_steps": 1}, [1, 1, 1, 1]),
        ({"jit": "tiered", "jit_after_steps": 4}, [0, 0, 0, 1]),
        # The duration of the third step is the first that counts.
        ({"jit_after_seconds": 1e-9}, [0, 0, 0, 1]),
        ({"jit_after_seconds": 1e9}, [0, 0, 0, 0]),
        ({"jit": "eager", "jit_after_seconds": 1e9}, [1, 1, 1, 1]),
        ({"jit": "eager"}, [1, 1, 1, 1]),
        ({"jit": "off"}, [0, 0, 0, 0]),
    ],
    ids=str,
)
def test_modes_decide_when_graphs_are_rebuilt(
    keys: dict[str, Any], seen: list[int], hot: HotPass, host: Host
) -> None:
    with session(host, **keys) as made:
        for count in seen:
            run(made, host, 1)
            assert hot.seen == count


def test_executor_can_refuse_rebuild(
    hot: HotPass, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host.executors.get("INLINE"), "forbids_passes", ("probe_hot",))
    with session(host, "INLINE") as made:
        run(made, host, 5)
        (record,) = explain_all(made)
        assert "the executor does not allow them" in record.reason
    assert hot.seen == 0


def test_reason_names_the_seconds_before_a_rebuild(hot: HotPass, host: Host) -> None:
    with session(host, jit_after_seconds=90) as made:
        run(made, host, 4)
        (record,) = explain_all(made)
        assert "after 3 steps and 90 seconds of steps; it has run 4" in record.reason
    assert hot.seen == 0


@pytest.mark.parametrize(
    "key",
    ["jit_after_steps", "jit_after_seconds", "jit_min_cluster_size", "jit_max_cluster_size"],
)
def test_config_without_effect_is_refused(key: str, host: Host) -> None:
    with pytest.raises(InvalidArgumentError, match=key):
        session(host, **{key: -1})
    with pytest.raises(InvalidArgumentError, match="'fast'; expected one of off, tiered, eager"):
        session(host, jit="fast")


def test_failed_rebuild_keeps_the_old_executor(hot: HotPass, host: Host) -> None:
    hot.error = UnimplementedError("the pass's own words")
    with session(host) as made:
        run(made, host, 8)
        (record,) = explain_all(made)
        assert "the pass's own words" in record.reason
    assert hot.seen == 1


def test_eager_sessions_name_the_reason_of_a_refused_graph(hot: HotPass, host: Host) -> None:
    hot.error = UnimplementedError("the pass's own words")
    with session(host, jit="eager") as made, pytest.raises(UnimplementedError, match="own words"):
        made.run("y:0", {"x:0": 2})


def test_steps_continue_while_the_graph_is_built_again(hot: HotPass, host: Host) -> None:
    hot.may_go_on.clear()
    with session(host) as made:
        for _ in range(20):
            assert made.run("y:0", {"x:0": 2}) == -2
        assert hot.is_under_way.wait(TIMEOUT)
        assert made.run("y:0", {"x:0": 3}) == -3
        hot.may_go_on.set()
        host.background.wait_idle()
        run(made, host, 1)
    assert hot.seen == 1


def test_session_close_waits_for_pending_builds(hot: HotPass, host: Host) -> None:
    hot.may_go_on.clear()
    made = session(host)
    for _ in range(3):
        made.run("y:0", {"x:0": 2})
    assert hot.is_under_way.wait(TIMEOUT)
    closing = threading.Thread(target=made.close)
    closing.start()
    hot.may_go_on.set()
    closing.join(TIMEOUT)
    assert not closing.is_alive()
    assert host.background.wait_idle(TIMEOUT)
    assert host.sessions.snapshot() == []
