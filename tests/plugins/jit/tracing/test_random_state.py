"""Random ops in programs: generators are inputs and outputs (clauses S6, E3, E10)."""

from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

import graphmill
from graphmill.errors import InvalidArgumentError
from graphmill.runtime.kernels.kernel import kernel

pytestmark = pytest.mark.jax

SHAPE = "shape = Const(dtype=int32, value='int32: [3]')"
UNIFORM = "u = RandomUniform(shape, dtype=float32, seed=5, seed2=7)"
DRAWS = {
    "RandomUniform": UNIFORM,
    "RandomUniform of doubles": "u = RandomUniform(shape, dtype=float64, seed=5)",
    "RandomUniform of halves": "u = RandomUniform(shape, dtype=half, seed2=5)",
    "RandomStandardNormal": "u = RandomStandardNormal(shape, dtype=float32, seed=1)",
    "RandomStandardNormal of doubles": "u = RandomStandardNormal(shape, dtype=float64, seed=1)",
    "RandomUniformInt": "u = RandomUniformInt(shape, low, high, seed=3)",
    "Multinomial": "u = Multinomial(logits, count, seed=9)",
}
PARTS = (
    SHAPE,
    "low = Const(dtype=int32, value='int32: -4')",
    "high = Const(dtype=int32, value='int32: 1000')",
    "count = Const(dtype=int32, value='int32: 6')",
    "logits = Log(weights)",
    "weights = Const(dtype=float32, value='float32: [[1, 2, 3], [4, 0, 9]]')",
)


def drawn(graph: Any, feeds: Any, steps: int, mode: str = "eager", after_steps: int = 1) -> Any:
    """Return the result of each step, and the tier of each cluster."""
    with HotSession(graph, mode, after_steps) as hot:
        values = [hot.run("y:0", feeds) for _ in range(steps)]
        return values, [cluster.tier for cluster in hot.clusters]


def assert_alike(graph: Any, feeds: Any = None) -> None:
    """Assert that a compiled graph draws the same numbers as an interpreted one."""
    expected, _ = drawn(graph, feeds, 6, "off")
    assert len({np.asarray(value).tobytes() for value in expected}) > 1
    for mode, after in (("eager", 0), ("tiered", 2)):
        found, used = drawn(graph, feeds, 6, mode, after)
        assert used == ["compiled"]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=3e-7)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_program_continues_random_state_of_interpreter(draw: str) -> None:
    parts = [part for part in PARTS if part.split()[0] in draw or part.startswith("weights")]
    if "logits" not in draw:
        parts.pop()
    assert_alike(graph_def(*reversed(parts), draw, "z = Identity(u)", "y = AddV2(z, u)"))


LESS = """c(i: int32, a: float32) -> bool:
    n = Const(dtype=int32, value='int32: 3'); y = Less(i, n); return y"""
STEP = """b(i: int32, a: float32) -> (int32, float32):
    one = Const(dtype=int32, value='int32: 1'); shape = Const(dtype=int32, value='int32: [3]')
    u = RandomUniform(shape, dtype=float32, seed=5); next = AddV2(i, one); sum = AddV2(a, u)
    return next, sum"""
OTHER_STEP = STEP.replace("b(", "d(").replace("seed=5", "seed=6")
START = ("i = Const(dtype=int32, value='int32: 0')",)


def test_each_iteration_draws_the_next_numbers_e3() -> None:
    loop = "w = While([i, x], T=[int32, float32], cond=c, body=b)"
    made = graph_def(*START, loop, "y = Neg(w[1])", functions=(LESS, STEP), x="float32[3]")
    assert_alike(made, {"x:0": np.zeros(3, np.float32)})


def test_functions_with_equal_node_names_have_own_generators_e10() -> None:
    loops = [f"w{b} = While([i, x], T=[int32, float32], cond=c, body={b})" for b in "bd"]
    made = graph_def(
        *START, *loops, "y = Sub(wb[1], wd[1])", functions=(LESS, STEP, OTHER_STEP), x="float32[3]"
    )
    assert_alike(made, {"x:0": np.zeros(3, np.float32)})


def test_straight_line_functions_have_own_generators_e10() -> None:
    """The functions of a straight-line loop have their own generators."""
    texts = [text.replace("sum =", "s = AsString(u); sum =") for text in (STEP, OTHER_STEP)]
    loops = [f"w{b} = While([i, x], T=[int32, float32], cond=c, body={b})" for b in "bd"]
    made = graph_def(
        *START, *loops, "y = Sub(wb[1], wd[1])", functions=(LESS, *texts), x="float32[3]"
    )
    feeds = {"x:0": np.zeros(3, np.float32)}
    expected, _ = drawn(made, feeds, 5, "off")
    found, _ = drawn(made, feeds, 5, "tiered", 2)
    np.testing.assert_array_equal(found, expected)


def test_untaken_branch_draws_nothing() -> None:
    then = "t(a: float32) -> float32: " + "; ".join((SHAPE, UNIFORM, "y = Mul(a, u)", "return y"))
    other = "e(a: float32) -> float32: y = Neg(a); return y"
    call = "y = If(p, [x], Tcond=bool, Tin=[float32], Tout=[float32], then_branch=t, else_branch=e)"
    made = graph_def(call, "z = Neg(y)", functions=(then, other), p="bool", x="float32[3]")
    conditions = [True, False, False, True, True]
    values = []
    for mode in ("off", "eager"):
        with HotSession(made, mode) as hot:
            feeds = [{"p:0": condition, "x:0": np.ones(3, np.float32)} for condition in conditions]
            values.append([hot.run("z:0", feed) for feed in feeds])
    np.testing.assert_array_equal(*values)


def test_failing_step_draws_the_interpreter_s_numbers_s6() -> None:
    made = graph_def(
        *(SHAPE, UNIFORM, "axis = Const(dtype=int32, value='int32: 0')"),
        *("picked = GatherV2(u, i, axis)", "y = Neg(picked)"),
        i="int32",
    )
    values = []
    for mode in ("off", "eager"):
        with HotSession(made, mode) as hot:
            first = hot.run("y:0", {"i:0": 1})
            assert isinstance(hot.error("y:0", {"i:0": 7}), InvalidArgumentError)
            values.append([first, hot.run("y:0", {"i:0": 1})])
    np.testing.assert_array_equal(*values)


def test_steps_that_run_at_once_draw_different_numbers() -> None:
    made = graph_def(SHAPE, UNIFORM, "z = Identity(u)", "y = AddV2(z, u)")
    with HotSession(made) as hot:
        hot.run("y:0")
        found: list[bytes] = []

        def step() -> None:
            found.append(hot.session.run("y:0").tobytes())

        threads = [Thread(target=step) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected, _ = drawn(made, None, 10, "off")
        rest = hot.run("y:0")
    assert sorted(found) == sorted(value.tobytes() for value in expected[1:9])
    np.testing.assert_array_equal(rest, expected[9])


def test_kernels_that_keep_no_variable_stay_out_of_programs() -> None:
    """Random kernels without a variable are not traced, because they may have private state."""

    @kernel("RandomUniform", backend="numpy", stateful=True, effects=("rng",))
    def four(ctx: Any, shape: Any) -> Any:
        return np.full(tuple(shape), 4, np.float32)

    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_kernels(self, kernels: Any) -> None:
            kernels.add(four)

    host = graphmill.Host(plugins=[Plugin()])
    made = graph_def(SHAPE, UNIFORM, "z = Identity(u)", "n = Neg(z)", "y = AddV2(n, u)")
    config = {"graphmill": {"jit": "eager", "jit_min_cluster_size": 1}}
    with graphmill.Session(graph=made, host=host, config=config) as session:
        assert session.run("y:0").tolist() == [0, 0, 0]
        (compilation,) = session.explain("y:0").compilations.values()
    reasons = {note.node: note.reason for note in compilation.outside}
    assert reasons["u"].endswith("has no lowering")
