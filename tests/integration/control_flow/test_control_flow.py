"""Loops and conditionals built in Python match plain Python (clauses E3, E7, G4)."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphmill
from graphmill import ops
from graphmill.errors import InvalidArgumentError
from graphmill.testing.generators.control_flow_programs import programs, random_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill import Tensor
    from graphmill.plugin.host import Host
    from graphmill.testing.generators.control_flow_programs import Program

pytestmark = pytest.mark.divided

X = "x:0"
SEEDS = 100


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class State:
    step: Any
    words: Any


@pytest.fixture
def graph() -> Iterator[graphmill.Graph]:
    made = graphmill.Graph()
    with made.as_default():
        yield made


@pytest.fixture
def x(graph: graphmill.Graph) -> Tensor:
    return graph.placeholder("int32", (), "x")


@pytest.fixture
def run(graph: graphmill.Graph, graphmill_host: Host) -> Callable[..., Any]:
    """Run a function for several `x`."""

    def run_for(fetches: Any, *numbers: int) -> list[Any]:
        with graphmill.Session(graph=graph, host=graphmill_host) as session:
            return [session.run(fetches, {X: number}) for number in numbers]

    return run_for


@pytest.fixture
def variable(graph: graphmill.Graph, graphmill_host: Host) -> Variable:
    return Variable(graph, graphmill_host)


class Variable:
    """A resource variable, and sessions that return the change of its value in a step."""

    def __init__(self, graph: graphmill.Graph, host: Host) -> None:
        self.graph = graph
        self.host = host
        self.handle = ops.state.var_handle_op(dtype="int32", shape=(), shared_name="v", name="v")
        self.start = ops.state.assign_variable_op(self.handle, 0)
        self.value = ops.state.read_variable_op(self.handle, dtype="int32")

    def add(self, amount: Any) -> Any:
        return ops.state.assign_add_variable_op(self.handle, amount)

    def read(self) -> Any:
        return ops.state.read_variable_op(self.handle, dtype="int32")

    def added(self, fetches: Any, number: int) -> int:
        with graphmill.Session(graph=self.graph, host=self.host) as session:
            session.run(self.start)
            session.run(fetches, {X: number})
            return int(session.run(self.value))


# Loops.


@pytest.mark.parametrize("parallel", [1, 2, 10])
def test_a_loop_counts_to_its_limit(x: Tensor, run: Callable[..., Any], parallel: int) -> None:
    last = graphmill.while_loop(lambda i: i < x, lambda i: i + 1, [0], parallel_iterations=parallel)
    assert run(last, 0, -3, 1, 500) == [0, 0, 1, 500]


@pytest.mark.parametrize("parallel", [1, 10])
def test_variables_that_depend_on_each_other(
    x: Tensor, run: Callable[..., Any], parallel: int
) -> None:
    _, fibonacci, _ = graphmill.while_loop(
        lambda i, a, b: i < x,
        lambda i, a, b: (i + 1, b, a + b),
        [0, 0, 1],
        parallel_iterations=parallel,
    )
    assert run(fibonacci, 0, 1, 2, 10, 20) == [0, 1, 1, 55, 6765]


def test_a_body_reads_values_from_outside(
    graph: graphmill.Graph, x: Tensor, run: Callable[..., Any]
) -> None:
    step = x * 2
    table = graph.constant([10, 20, 30])
    _, total = graphmill.while_loop(
        lambda i, total: i < 3, lambda i, total: (i + 1, total + table[i] + step), [0, 0]
    )
    assert run(total, 0, 5) == [60, 90]


@pytest.mark.parametrize(("outer", "inner"), [(1, 1), (1, 10), (10, 1), (10, 10)])
def test_nested_loops_match_plain_python(
    x: Tensor, run: Callable[..., Any], outer: int, inner: int
) -> None:
    def body(i: Tensor, total: Tensor) -> Any:
        _, total = graphmill.while_loop(
            lambda j, total: j < i,
            lambda j, total: (j + 1, total + i * j + x),
            [0, total],
            parallel_iterations=inner,
        )
        return i + 1, total

    _, total = graphmill.while_loop(lambda i, total: i < x, body, [0, 0], parallel_iterations=outer)
    expected = [sum(i * j + n for i in range(n) for j in range(i)) for n in (0, 1, 2, 7)]
    assert run(total, 0, 1, 2, 7) == expected


@pytest.mark.parametrize("most", [0, 3, 100])
def test_maximum_iterations_bound_a_loop(x: Tensor, run: Callable[..., Any], most: int) -> None:
    last = graphmill.while_loop(lambda i: i < x, lambda i: i + 1, [0], maximum_iterations=most)
    assert run(last, 5) == [min(5, most)]


def test_maximum_iterations_of_an_inner_loop_is_a_tensor(
    x: Tensor, run: Callable[..., Any]
) -> None:
    def body(i: Tensor, total: Tensor) -> Any:
        inner = graphmill.while_loop(
            lambda j: j < 100, lambda j: j + 1, [total], maximum_iterations=i
        )
        return i + 1, inner

    _, total = graphmill.while_loop(lambda i, total: i < x, body, [0, 0])
    assert run(total, 5) == [0 + 1 + 2 + 3 + 4]


def test_a_variable_may_change_its_shape(
    graph: graphmill.Graph, x: Tensor, run: Callable[..., Any]
) -> None:
    _, grown = graphmill.while_loop(
        lambda i, a: i < x,
        lambda i, a: (i + 1, ops.array.concat_v2([a, ops.array.expand_dims(i, 0)], 0)),
        [0, graph.constant([], "int32")],
    )
    np.testing.assert_array_equal(run(grown, 4)[0], [0, 1, 2, 3])


def test_loop_variables_keep_their_structures(x: Tensor, run: Callable[..., Any]) -> None:
    def body(pair: Pair, table: dict[str, Any], state: State) -> Any:
        return (
            Pair(pair.right, pair.left + x),
            {"a": [table["b"]], "b": table["a"][0] + 1},
            State(state.step + 1, ops.string.string_join([state.words, "."])),
        )

    start = [Pair(1, 2), {"b": 10, "a": [20]}, State(0, "go")]
    pair, table, state = graphmill.while_loop(lambda p, t, s: s.step < 3, body, start)
    found = run([pair.left, pair.right, table["a"][0], table["b"], state.words], 5)
    assert found == [[7, 11, 11, 22, b"go..."]]


def test_a_condition_may_contain_a_conditional(x: Tensor, run: Callable[..., Any]) -> None:
    def test(i: Tensor) -> Tensor:
        return graphmill.cond(i > 3, lambda: i < x, lambda: ops.array.identity(True))

    assert run(graphmill.while_loop(test, lambda i: i + 1, [0]), 0, 9) == [4, 9]


# Conditionals.


def test_a_conditional_takes_one_branch(x: Tensor, run: Callable[..., Any]) -> None:
    assert run(graphmill.cond(x > 2, lambda: x * 10, lambda: -x), 3, 2) == [30, -2]


def test_nested_conditionals_match_plain_python(x: Tensor, run: Callable[..., Any]) -> None:
    y = x * 100
    found = graphmill.cond(
        x > 2,
        lambda: graphmill.cond(x > 4, lambda: y, lambda: y + x),
        lambda: graphmill.cond(x > 0, lambda: 7, lambda: x),
    )
    assert run(found, 5, 4, 1, -1) == [500, 404, 7, -1]


def test_branches_return_equal_structures(x: Tensor, run: Callable[..., Any]) -> None:
    found = graphmill.cond(
        x > 0, lambda: {"a": Pair(x, "up"), "b": [1]}, lambda: {"b": [x], "a": Pair(0, "down")}
    )
    fetches = [found["a"].left, found["a"].right, found["b"][0]]
    assert run(fetches, 3, -3) == [[3, b"up", 1], [0, b"down", -3]]


def test_error_in_branch_is_raised_only_if_taken(x: Tensor, run: Callable[..., Any]) -> None:
    quotient = graphmill.cond(ops.math.equal(x, 0), lambda: x, lambda: 12 // x)
    assert run(quotient, 0, 5) == [0, 2]


def test_loops_with_conditionals_match_plain_python(x: Tensor, run: Callable[..., Any]) -> None:
    """A loop with a conditional counts Collatz steps: x / 2 if x is even, else 3 x + 1."""

    def body(n: Tensor, steps: Tensor) -> Any:
        even = ops.math.equal(n % 2, 0)
        return graphmill.cond(even, lambda: n // 2, lambda: 3 * n + 1), steps + 1

    _, steps = graphmill.while_loop(lambda n, steps: n > 1, body, [x, 0])
    assert run(steps, 1, 6, 27) == [0, 8, 111]


def test_loop_in_untaken_branch_is_dead(x: Tensor, run: Callable[..., Any]) -> None:
    def count() -> Tensor:
        return graphmill.while_loop(lambda i: i < x, lambda i: i + 2, [0])

    found = graphmill.cond(x > 2, lambda: count() + count(), lambda: -1)
    assert run(found, 5, 2, 4) == [12, -1, 8]


def test_loops_in_branches_of_loops_match_plain_python(x: Tensor, run: Callable[..., Any]) -> None:
    def body(i: Tensor, total: Tensor) -> Any:
        def count() -> Tensor:
            return graphmill.while_loop(lambda j: j < x, lambda j: j + i + 1, [total])

        return i + 1, graphmill.cond(ops.math.equal(i % 2, 0), count, lambda: total - x)

    _, total = graphmill.while_loop(lambda i, total: i < x, body, [0, 0])

    def wanted(n: int) -> int:
        total = 0
        for i in range(n):
            if i % 2:
                total -= n
            else:
                while total < n:
                    total += i + 1
        return total

    assert run(total, 0, 1, 2, 9) == [wanted(n) for n in (0, 1, 2, 9)]


# Cases.


def test_a_case_takes_the_first_true_branch(x: Tensor, run: Callable[..., Any]) -> None:
    found = graphmill.case([(x > 5, lambda: x), (x > 2, lambda: x * 10)], lambda: -x)
    assert run(found, 6, 4, 1) == [6, 40, -1]


def test_no_case_is_true(x: Tensor, run: Callable[..., Any]) -> None:
    found = graphmill.case([(x > 5, lambda: x), (x < 2, lambda: x * 10)])
    assert run(found, 6, 1) == [6, 10]
    with pytest.raises(InvalidArgumentError, match="None of conditions evaluated as True"):
        run(found, 3)


def test_two_exclusive_cases_are_true(x: Tensor, run: Callable[..., Any]) -> None:
    pairs = [(x > 5, lambda: x), (x > 2, lambda: x * 10)]
    found = graphmill.case(pairs, lambda: -x, exclusive=True)
    assert run(found, 3, 1) == [30, -1]
    with pytest.raises(InvalidArgumentError, match="exclusive=True: more than 1 conditions"):
        run(found, 6)


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_switch_case_takes_the_branch_of_an_index(
    x: Tensor, run: Callable[..., Any], count: int
) -> None:
    found = graphmill.switch_case(x, [lambda k=k: x * 10 + k for k in range(count)])
    numbers = range(-1, count + 1)
    expected = [n * 10 + (n if 0 <= n < count else count - 1) for n in numbers]
    assert run(found, *numbers) == expected


def test_switch_case_takes_the_default_for_other_indices(
    x: Tensor, run: Callable[..., Any]
) -> None:
    found = graphmill.switch_case(x, {1: lambda: 11, 0: lambda: 10}, default=lambda: x)
    assert run(found, -5, 0, 1, 2) == [-5, 10, 11, 2]


# Effects and order.


def test_an_untaken_branch_has_no_effect(x: Tensor, variable: Variable) -> None:
    done = graphmill.cond(x > 2, lambda: variable.add(10), lambda: variable.add(1))
    assert [variable.added(done, number) for number in (3, 2)] == [10, 1]


def test_body_effects_happen_once_per_iteration(
    graph: graphmill.Graph, x: Tensor, variable: Variable
) -> None:
    def body(i: Tensor) -> Tensor:
        with graph.control_dependencies([variable.add(100)]):
            return i + 1

    last = graphmill.while_loop(lambda i: i < x, body, [0])
    assert [variable.added(last, number) for number in (0, 1, 7)] == [0, 100, 700]


def test_effects_of_a_loop_condition_happen_once_more_than_those_of_the_body(
    graph: graphmill.Graph, x: Tensor, variable: Variable
) -> None:
    def test(i: Tensor) -> Tensor:
        with graph.control_dependencies([variable.add(1)]):
            return i < x

    last = graphmill.while_loop(test, lambda i: i + 1, [0])
    assert [variable.added(last, number) for number in (0, 5)] == [1, 6]


@pytest.mark.parametrize("parallel", [1, 10])
def test_iterations_read_writes_of_earlier_iterations(
    graph: graphmill.Graph, x: Tensor, variable: Variable, parallel: int
) -> None:
    def body(i: Tensor, seen: Tensor) -> Any:
        with graph.control_dependencies([variable.add(seen + 1)]):
            return i + 1, variable.read()

    _, seen = graphmill.while_loop(
        lambda i, seen: i < x, body, [0, 0], parallel_iterations=parallel
    )
    assert variable.added(seen, 5) == 2**5 - 1


def test_outer_effect_precedes_the_body(
    graph: graphmill.Graph, x: Tensor, variable: Variable
) -> None:
    effect = variable.add(x)

    def body(i: Tensor, seen: Tensor) -> Any:
        def read() -> Tensor:
            with graph.control_dependencies([effect]):
                return variable.read()

        return i + 1, graphmill.cond(i > 0, read, lambda: seen)

    _, seen = graphmill.while_loop(lambda i, seen: i < 3, body, [0, 0])
    with graphmill.Session(graph=graph, host=variable.host) as session:
        for _ in range(20):
            session.run(variable.start)
            assert session.run(seen, {X: 5}) == 5


def test_loop_runs_after_its_control_inputs(
    graph: graphmill.Graph, x: Tensor, variable: Variable
) -> None:
    with graph.control_dependencies([variable.add(x)]):
        last = graphmill.while_loop(
            lambda i: i < variable.read(), lambda i: i + ops.array.identity(1), [0]
        )
    with graphmill.Session(graph=graph, host=variable.host) as session:
        for _ in range(20):
            session.run(variable.start)
            assert session.run(last, {X: 5}) == 5


def test_check_fails_in_the_failing_iteration(
    graph: graphmill.Graph, x: Tensor, run: Callable[..., Any]
) -> None:
    def body(i: Tensor) -> Tensor:
        with graph.control_dependencies([graphmill.Assert(i < 4, ["too far:", i])]):
            return i + 1

    last = graphmill.while_loop(lambda i: i < x, body, [0], parallel_iterations=1)
    assert run(last, 4) == [4]
    with pytest.raises(InvalidArgumentError, match=r"too far:.*4"):
        run(last, 9)


def test_groups_and_tuples_wait_for_their_nodes(
    graph: graphmill.Graph, x: Tensor, variable: Variable
) -> None:
    done = graphmill.group(
        variable.add(1), graphmill.cond(x > 2, lambda: variable.add(10), graphmill.no_op)
    )
    (late,) = graphmill.tuple([x], control_inputs=[done])
    assert [variable.added(late, number) for number in (3, 2)] == [11, 1]


def test_sessions_in_threads_share_a_graph(
    graph: graphmill.Graph, x: Tensor, graphmill_host: Host
) -> None:
    last = graphmill.while_loop(lambda i: i < x, lambda i: i + 1, [0])
    found: dict[int, int] = {}
    with graphmill.Session(graph=graph, host=graphmill_host) as session:

        def work(number: int) -> None:
            found[number] = int(session.run(last, {X: number}))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(20, 28)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {number: number for number in range(20, 28)}


# Random programs against plain Python.


def check(program: Program, host: Host, numbers: tuple[int, ...]) -> None:
    graph = graphmill.Graph()
    parts = program.build(graph)
    with graphmill.Session(graph=graph, host=host) as session:
        for number in numbers:
            expected = program.expected(number)
            assert parts.run(session, number) == expected, f"{program.name}, x={number}"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seeded_random_programs_match_plain_python(seed: int, graphmill_host: Host) -> None:
    check(random_program(seed), graphmill_host, (-2, 0, 1, 5, 50))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs(), number=st.integers(-3, 100))
def test_drawn_random_programs_match_plain_python(
    program: Program, number: int, graphmill_host: Host
) -> None:
    check(program, graphmill_host, (number,))


def test_graphs_survive_a_file(graph: graphmill.Graph, x: Tensor, graphmill_host: Host) -> None:
    """A graph built in Python also runs from its message (clause G1)."""
    last = graphmill.while_loop(
        lambda i: i < x, lambda i: graphmill.cond(i > 3, lambda: i + x, lambda: i + 1), [0]
    )
    message = graph.as_graph_def().SerializeToString()
    with graphmill.Session(graph=message, host=graphmill_host) as session:
        assert session.run(last.name, {X: 6}) == 10
