"""Generate random programs of nested loops, conditionals and side effects.

A program computes an integer from an integer `x`, and adds to a variable as a side effect. It can
run in plain Python, which is the oracle, or be built as a graph. The same code generates programs
from a seed (`random_program(7)`, deterministic everywhere) and for Hypothesis (`programs()`, which
shrinks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from graphmill.graph.control_flow.cond import cond
from graphmill.graph.control_flow.while_loop import while_loop
from graphmill.ops import array, state
from graphmill.testing.generators.dataflow_graphs import HypothesisChooser, SeededChooser

if TYPE_CHECKING:
    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.testing.generators.dataflow_graphs import Chooser

_MODULUS: Final = 97  # keeps values small
_MAX_TRIPS: Final = 4

Numbers: TypeAlias = "tuple[int, ...]"
Tensors: TypeAlias = "tuple[Tensor, ...]"


@dataclass(frozen=True, slots=True)
class Program:
    """A program; `name` is the call that generates it again."""

    name: str
    root: Expression
    has_reference: bool

    def expected(self, x: int) -> tuple[int, int]:
        """Run the program in plain Python; return its result and the variable's final value."""
        effects = [0]
        return self.root.value((x,), effects), effects[0]

    def build(self, graph: Graph) -> BuiltProgram:
        """Add the program to a graph."""
        with graph.as_default():
            x = graph.placeholder("int32", (), "x")
            variable = _Reference() if self.has_reference else _Resource()
            result = array.identity(self.root.tensor((x,), variable), name="result")
            total = array.identity(variable.read(), name="total")
        return BuiltProgram(variable.start.name, x.name, result.name, total.name)


@dataclass(frozen=True, slots=True)
class BuiltProgram:
    """Names of the parts of a program in a graph.

    Attributes:
        start: the node that sets the variable to 0.
        x: the tensor to feed.
        result: the tensor of the result.
        total: the tensor of the variable's value; fetch it in a separate step, because the result
            does not wait for all effects.
    """

    start: str
    x: str
    result: str
    total: str

    def run(self, session: Any, x: int) -> tuple[int, int]:
        """Run the program in a session of graphmill or TensorFlow; return what `expected` does."""
        session.run(self.start)
        return int(session.run(self.result, {self.x: x})), int(session.run(self.total))


def random_program(seed: int, depth: int = 4) -> Program:
    """Generate the program of a seed.

    Args:
        seed: the seed.
        depth: the maximum nesting depth of its loops, conditionals and sums.
    """
    return _program(SeededChooser(seed), depth, f"random_program({seed}, depth={depth})")


def programs(depth: int = 4) -> Any:
    """Return the Hypothesis strategy of random programs."""
    from hypothesis import strategies as st

    @st.composite
    def draw_program(draw: Any) -> Program:
        return _program(HypothesisChooser(draw, st), depth, "a program drawn by Hypothesis")

    return draw_program()


class Expression(Protocol):
    """Part of a program: an integer that depends on those in scope."""

    def value(self, scope: Numbers, effects: list[int]) -> int:
        """Evaluate the expression in Python; add its effects on the variable to `effects[0]`."""
        ...

    def tensor(self, scope: Tensors, variable: _Variable) -> Tensor:
        """Add the expression to the graph."""
        ...


class _Variable(Protocol):
    """The variable of a program in a graph."""

    start: Node

    def add(self, amount: Tensor) -> Node: ...

    def read(self) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class _Number:
    number: int

    def value(self, scope: Numbers, effects: list[int]) -> int:
        del scope, effects
        return self.number

    def tensor(self, scope: Tensors, variable: _Variable) -> Tensor:
        del variable
        return scope[0].graph.constant(self.number)


@dataclass(frozen=True, slots=True)
class _Name:
    index: int

    def value(self, scope: Numbers, effects: list[int]) -> int:
        del effects
        return scope[self.index]

    def tensor(self, scope: Tensors, variable: _Variable) -> Tensor:
        del variable
        return scope[self.index]


@dataclass(frozen=True, slots=True)
class _Combination:
    sign: int
    left: Expression
    right: Expression

    def value(self, scope: Numbers, effects: list[int]) -> int:
        result = self._of(self.left.value(scope, effects), self.right.value(scope, effects))
        return int(result)

    def tensor(self, scope: Tensors, variable: _Variable) -> Tensor:
        left, right = self.left.tensor(scope, variable), self.right.tensor(scope, variable)
        result: Tensor = self._of(left, right)
        return result

    def _of(self, left: Any, right: Any) -> Any:
        return (left * right if not self.sign else left + self.sign * right) % _MODULUS


@dataclass(frozen=True, slots=True)
class _Choice:
    """`yes` if `left < right`, else `no`."""

    left: Expression
    right: Expression
    yes: Expression
    no: Expression

    def value(self, scope: Numbers, effects: list[int]) -> int:
        is_less = self.left.value(scope, effects) < self.right.value(scope, effects)
        return (self.yes if is_less else self.no).value(scope, effects)

    def tensor(self, scope: Tensors, variable: _Variable) -> Tensor:
        is_less = self.left.tensor(scope, variable) < self.right.tensor(scope, variable)
        result: Tensor = cond(
            is_less,
            lambda: self.yes.tensor(scope, variable),
            lambda: self.no.tensor(scope, variable),
        )
        return result


@dataclass(frozen=True, slots=True)
class _Repetition:
    """The sum of variables after a loop whose limit is recomputed before each iteration.

    The limit and the bodies see the enclosing scope, then a counter, then the loop variables.
    """

    limit: Expression
    starts: tuple[Expression, ...]
    bodies: tuple[Expression, ...]
    parallel_iterations: int

    def value(self, scope: Numbers, effects: list[int]) -> int:
        now = (0, *(start.value(scope, effects) for start in self.starts))
        while now[0] < self.limit.value(scope + now, effects) % _MAX_TRIPS:
            inside = scope + now
            now = (now[0] + 1, *(body.value(inside, effects) for body in self.bodies))
        return sum(now[1:]) % _MODULUS

    def tensor(self, scope: Tensors, variable: _Variable) -> Tensor:
        def test(*now: Tensor) -> Tensor:
            return now[0] < self.limit.tensor(scope + now, variable) % _MAX_TRIPS

        def body(*now: Tensor) -> tuple[Tensor, ...]:
            return (now[0] + 1, *(body.tensor(scope + now, variable) for body in self.bodies))

        starts = [scope[0].graph.constant(0), *(s.tensor(scope, variable) for s in self.starts)]
        _, total, *others = while_loop(
            test, body, starts, parallel_iterations=self.parallel_iterations
        )
        for other in others:
            total += other
        result: Tensor = total % _MODULUS
        return result


@dataclass(frozen=True, slots=True)
class _Effect:
    """`result`, after `amount` was added to the variable."""

    amount: Expression
    result: Expression

    def value(self, scope: Numbers, effects: list[int]) -> int:
        amount = self.amount.value(scope, effects)  # may have effects itself
        effects[0] += amount
        return self.result.value(scope, effects)

    def tensor(self, scope: Tensors, variable: _Variable) -> Tensor:
        added = variable.add(self.amount.tensor(scope, variable))
        result = self.result.tensor(scope, variable)
        with result.graph.control_dependencies([added]):
            return array.identity(result)


class _Reference:
    """A reference variable (`VariableV2`)."""

    def __init__(self) -> None:
        self._ref = state.variable_v2(shape=(), dtype="int32", name="v")
        self.start = state.assign(self._ref, 0, name="start").op

    def add(self, amount: Tensor) -> Node:
        return state.assign_add(self._ref, amount, use_locking=True).op

    def read(self) -> Tensor:
        return self._ref


class _Resource:
    """A resource variable (`VarHandleOp`)."""

    def __init__(self) -> None:
        self._handle = state.var_handle_op(dtype="int32", shape=(), shared_name="v", name="v")
        self.start = state.assign_variable_op(self._handle, 0, name="start")

    def add(self, amount: Tensor) -> Node:
        return state.assign_add_variable_op(self._handle, amount)

    def read(self) -> Tensor:
        return state.read_variable_op(self._handle, dtype="int32")


def _program(chooser: Chooser, depth: int, name: str) -> Program:
    return Program(name, _expression(chooser, depth, 1), bool(chooser.integer(0, 1)))


def _expression(chooser: Chooser, depth: int, width: int) -> Expression:
    """Choose an expression.

    Args:
        chooser: makes the choices.
        depth: the maximum nesting depth.
        width: the number of integers in scope.
    """
    kind = chooser.integer(0, 9) if depth else chooser.integer(0, 2)

    def part(wider: int = 0) -> Expression:
        return _expression(chooser, depth - 1, width + wider)

    if kind == 0:
        return _Number(chooser.integer(-3, 9))
    if kind <= 2:
        return _Name(chooser.integer(0, width - 1))
    if kind <= 4:
        return _Combination(chooser.integer(-1, 1), part(), part())
    if kind <= 6:
        return _Choice(part(), part(), part(), part())
    if kind == 7:
        return _Effect(part(), part())
    count = chooser.integer(1, 2)
    return _Repetition(
        part(1 + count),
        tuple(part() for _ in range(count)),
        tuple(part(1 + count) for _ in range(count)),
        chooser.integer(1, 3),
    )
