"""Many threads, signatures and closed sessions leave no objects behind (clauses S5, S11).

More of it: `tools/verify_jit.py --compilations 10000`.
"""

from __future__ import annotations

import gc
import random
import threading
from collections import Counter
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import graph_def

import graphmill
from graphmill.errors import CancelledError
from graphmill.session.session import Session
from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill.testing.timeouts import TIMEOUT, no_leaked_threads

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.jax, pytest.mark.divided]

GRAPH = graph_def(
    *("a = Mul(x, x)", "b = AddV2(a, x)", "y = Reshape(b, i)"), x="float32[2]", i="int32[2]"
)
COUNTER = graph_def(
    "v = VarHandleOp(dtype=float32, shape=[], shared_name='v')",
    "zero = Const(dtype=float32, value='float32: 0')",
    "start = AssignVariableOp(v, zero)",
    *("one = AddV2(x, x)", "add = AssignAddVariableOp(v, one)"),
    "read = ReadVariableOp(v, dtype=float32)",
    x="float32",
)
NUM_THREADS, NUM_REPLACED, NUM_STEPS = 5, 40, 50


def together(*jobs: Callable[[], None]) -> None:
    """Run jobs in threads, and raise the first error."""
    faults: list[BaseException] = []

    def work(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            faults.append(error)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
        assert not thread.is_alive()
    if faults:
        raise faults[0]


class Sessions:
    """Two sessions that are replaced repeatedly while threads run steps in them."""

    def __init__(self) -> None:
        self.sessions = [self.make(), self.make()]
        self.steps = threading.Semaphore(0)
        self.is_over = False

    @staticmethod
    def make() -> Session:
        config = jit_config("tiered")
        config.graphmill.jit_after_steps = 1
        return Session(graph=GRAPH, config=config)

    def run_steps(self, seed: int) -> None:
        chooser = random.Random(seed)
        while not self.is_over:
            session = chooser.choice(self.sessions)
            rows, columns = chooser.choice(((1, 6), (6, 1), (2, 3), (3, 2), (1, 1), (2, 1), (1, 2)))
            value = chooser.randint(-3, 3)
            x, i = np.full(rows * columns, value, np.float32), np.array([rows, columns], np.int32)
            feeds = {"x:0": x, "i:0": i}
            try:
                found = session.run("y:0", feeds)
            except CancelledError:
                continue
            assert found.tolist() == [[value * value + value] * columns] * rows
            self.steps.release()

    def replace(self) -> None:
        """Replace one of the sessions whenever the others have run some steps."""
        try:
            for place in random.Random(0).choices((0, 1), k=NUM_REPLACED):
                for _ in range(NUM_STEPS):
                    assert self.steps.acquire(timeout=TIMEOUT)
                gone, self.sessions[place] = self.sessions[place], self.make()
                gone.close()
        finally:
            self.is_over = True

    def close(self) -> None:
        for session in self.sessions:
            session.close()


def test_tiers_are_swapped_under_many_threads_while_sessions_close() -> None:
    background = graphmill.default_host().background
    before = set(graphmill.default_host().sessions.snapshot())
    with no_leaked_threads():
        sessions = Sessions()
        steps = [lambda seed=seed: sessions.run_steps(seed) for seed in range(NUM_THREADS)]
        together(*steps, sessions.replace)
        sessions.close()
        assert background.wait_idle(TIMEOUT)
    assert not set(graphmill.default_host().sessions.snapshot()) - before


def test_no_update_is_lost_while_tiers_are_swapped() -> None:
    config = jit_config("tiered")
    config.graphmill.jit_after_steps = 20
    with Session(graph=COUNTER, config=config) as session:
        session.run([], targets=["start"])

        def count() -> None:
            for _ in range(100):
                session.run([], {"x:0": np.float32(0.5)}, targets=["add"])

        together(*[count] * 5)
        graphmill.default_host().background.wait_idle(TIMEOUT)
        together(*[count] * 5)
        assert session.run("read:0") == 1000


def test_repeated_compilations_use_no_more_memory() -> None:
    """Repeating 200 compilations of the same programs uses no more memory."""

    def compile_some(count: int) -> None:
        for _ in range(count // 10):
            with Session(graph=GRAPH, config=jit_config("eager")) as session:
                for size in range(1, 11):
                    feeds: dict[str, Any] = {"x:0": np.ones(size, np.float32)}
                    session.run("b:0", feeds)

    compile_some(40)
    before = own_objects()
    with no_leaked_threads():
        compile_some(160)
    assert not own_objects() - before


def own_objects() -> Counter[str]:
    """Count the live objects of graphmill's classes, and its functions, by name.

    What JAX and the interpreter keep beside them is their own affair and differs between releases;
    what of JAX's own has no limit is emptied by `trace_cache`, which has its own tests.
    """
    gc.collect()
    objects = gc.get_objects()
    named = [one if isinstance(one, FunctionType) else type(one) for one in objects]
    mine = [one for one in named if str(one.__module__).startswith("graphmill")]
    return Counter(f"{one.__module__}.{one.__qualname__}" for one in mine)
