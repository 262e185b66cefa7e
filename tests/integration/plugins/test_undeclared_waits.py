"""Validation mode finds kernels that wait for another node without declaring it."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill.errors import InternalError
from graphmill.ops import math
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin, float_op

if TYPE_CHECKING:
    from collections.abc import Callable

TIERS = ("off", "tiered", "eager")
STEPS = 6


@pytest.fixture(autouse=True)
def validation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")


class Pair:
    """`Foreign>Put` and `Foreign>Take` transfer one value, with the given declarations.

    Args:
        is_async: whether `Take` gives its thread back while it waits.
        declared: further declarations of `Take`.
    """

    def __init__(self, *, is_async: bool, **declared: Any) -> None:
        self._changed = threading.Condition()
        self._values: list[Any] = []
        self._waiters: list[Callable[[Any], None]] = []
        self.taking = threading.Event()

        @kernel("Foreign>Put", stateful=True, effects=["state"])
        def put(ctx: Any, x: Any) -> Any:
            return self._put(x)

        ops = [
            float_op("Foreign>Put", is_stateful=True),
            float_op("Foreign>Take", inputs="", is_stateful=True),
        ]
        take = self._asynchronous if is_async else self._synchronous
        self.plugin = ThirdPartyPlugin(ops, [put, take(declared)])

    def _asynchronous(self, declared: dict[str, Any]) -> Any:
        @kernel("Foreign>Take", async_=True, effects=["state"], **declared)
        def take(ctx: Any, *, done: Callable[..., None]) -> None:
            self._waiters.append(done)
            self.taking.set()

        return take

    def _synchronous(self, declared: dict[str, Any]) -> Any:
        @kernel("Foreign>Take", stateful=True, effects=["state"], **declared)
        def take(ctx: Any) -> Any:
            return self._take()

        return take

    def _put(self, x: Any) -> Any:
        if self._waiters:
            self._waiters.pop()(x)
            return x
        with self._changed:
            self._values.append(x)
            self._changed.notify()
        return x

    def _take(self) -> Any:
        with self._changed:
            self.taking.set()  # nobody puts before the condition's lock is given up
            while not self._values:
                self._changed.wait(30)
            return self._values.pop(0)


def session(plugin: ThirdPartyPlugin, tier: str) -> graphmill.Session:
    host = graphmill.Host(plugins=[plugin])
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", (), name="x")
        (taken,) = graph.outputs_of(graph.create_op("Foreign>Take", [], name="take"))
        graph.create_op("Foreign>Put", [math.mul(x, x)], name="put")
        math.add_v2(math.tanh(taken), x, name="y")
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    return graphmill.Session(graph=graph, host=host, config=config)


def take(made: graphmill.Session, pair: Pair) -> Future[Any]:
    """Start a step that takes, put from another one once it waits, and return the result."""
    pair.taking.clear()
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(made.run, "y:0", {"x:0": 2.0})
        assert pair.taking.wait(30)
        made.run([], {"x:0": 2.0}, targets=["put"])
    return taken


class StoppedRelease:
    """A condition's lock; the first thread that releases it blocks until the test continues it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_first = True
        self.acquire = self._lock.acquire
        self.released, self.resume = threading.Event(), threading.Event()

    def release(self) -> None:
        is_first, self._is_first = self._is_first, False
        self._lock.release()
        if is_first:
            self.released.set()
            assert self.resume.wait(30)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exception: object) -> None:
        self.release()


def test_short_wait_must_be_declared() -> None:
    pair, lock = Pair(is_async=False), StoppedRelease()
    pair._changed = threading.Condition(lock)
    with session(pair.plugin, "off") as made, ThreadPoolExecutor(1) as pool:
        taken = pool.submit(made.run, "y:0", {"x:0": 2.0})
        assert lock.released.wait(30)
        made.run([], {"x:0": 2.0}, targets=["put"])
        lock.resume.set()
        assert "waits for another node" in str(taken.exception())


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("is_async", "waits"), [(False, None), (False, False), (True, False)])
def test_kernel_ended_by_another_node_must_declare_its_wait(
    tier: str, is_async: bool, waits: bool | None
) -> None:
    pair = Pair(is_async=is_async, waits=waits)
    with session(pair.plugin, tier) as made:
        for _ in range(STEPS):
            error = take(made, pair).exception()
            assert isinstance(error, InternalError), repr(error)
            for text in ("waits for another node", "ThirdPartyPlugin", "Foreign>Take", "node put"):
                assert text in error.message
            assert "waits=True" in error.message
            assert error.node == "take"


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("is_async", "waits"), [(False, True), (True, True), (True, None)])
def test_declared_waits_are_fine(tier: str, is_async: bool, waits: bool | None) -> None:
    pair = Pair(is_async=is_async, waits=waits)
    with session(pair.plugin, tier) as made:
        for _ in range(STEPS):
            expected = np.tanh(np.float32(4)) + 2
            np.testing.assert_allclose(take(made, pair).result(), expected, 1e-6)


@pytest.mark.parametrize("tier", TIERS)
def test_kernel_may_wait_for_its_own_thread(tier: str) -> None:
    with ThreadPoolExecutor(1) as pool:

        @kernel("Foreign>Act", backend="numpy")
        def act(x: Any) -> Any:
            return pool.submit(np.add, x, x).result()

        host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Act")], [act])])
        graph = graphmill.Graph(ops=host.ops)
        with graph.as_default():
            x = graph.placeholder("float32", (), name="x")
            (once,) = graph.outputs_of(graph.create_op("Foreign>Act", [x], name="a"))
            graph.create_op("Foreign>Act", [once], name="y")
        config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
        with graphmill.Session(graph=graph, host=host, config=config) as made:
            for _ in range(STEPS):
                assert made.run("y:0", {"x:0": 2.0}) == 8.0
