"""Generate small random graphs without loops, with valid types and shapes.

The same code generates graphs from a seed (`random_graph(7)`, deterministic everywhere) and for
Hypothesis (`graphs()`, which shrinks). Values stay small, and each is known to be exact or not, so
that two correct runtimes give the same results: a value that rounding may change (sums, matrix
products, transcendental functions) is not compared, rounded or cast to an integer.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import Input
from graphmill.testing.case_nodes import NodeSpec, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.ops.definition.op_registry import OpRegistry

_T = TypeVar("_T")
_MAX_SIZE = 64
_MAX_VALUE = 1e4

FLOATS = ("float32", "float64")
INTS = ("int32", "int64")
NUMBERS = FLOATS + INTS


class Chooser(Protocol):
    """A source of choices: a random generator, or Hypothesis."""

    def integer(self, low: int, high: int) -> int:
        """Choose an integer from `low` to `high`, both included."""
        ...


@dataclass(frozen=True, slots=True)
class RandomGraph:
    """A graph with its feeds and fetches; `name` is the call that generates it again."""

    name: str
    graph_def: Any
    feeds: dict[str, Any]
    fetches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tensor:
    """An output of a node.

    `bound` is the largest absolute value; `exact` is False if rounding may have changed the value.
    """

    source: Source
    dtype: str
    shape: tuple[int, ...]
    bound: float
    exact: bool = True

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


def random_graph(seed: int, ops: OpRegistry, nodes: int = 25) -> RandomGraph:
    """Generate the graph of a seed.

    Args:
        seed: the seed.
        ops: the OpDefs of the nodes.
        nodes: the approximate number of nodes, without placeholders and constants.
    """
    return _Maker(SeededChooser(seed), ops).make(f"random_graph({seed}, nodes={nodes})", nodes)


def graphs(ops: OpRegistry, max_nodes: int = 15) -> Any:
    """Return the Hypothesis strategy of random graphs."""
    from hypothesis import strategies as st

    @st.composite
    def draw_graph(draw: Any) -> RandomGraph:
        chooser = HypothesisChooser(draw, st)
        count = chooser.integer(1, max_nodes)
        return _Maker(chooser, ops).make("a graph drawn by Hypothesis", count)

    return draw_graph()


class SeededChooser:
    """Makes the choices of a seed; they are the same everywhere."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """Choose an integer from `low` to `high`, both included."""
        # random() is the only method whose sequence Python guarantees.
        return low + int(self._random.random() * (high - low + 1))


class HypothesisChooser:
    """Lets Hypothesis make the choices, so that it can shrink them."""

    def __init__(self, draw: Any, strategies: Any) -> None:
        self._draw = draw
        self._strategies = strategies

    def integer(self, low: int, high: int) -> int:
        """Choose an integer from `low` to `high`, both included."""
        return int(self._draw(self._strategies.integers(low, high)))


class _Maker:
    """Generates a graph from a pool of tensors; each step applies one recipe to some of them."""

    def __init__(self, chooser: Chooser, ops: OpRegistry) -> None:
        self._chooser = chooser
        self._graph = GraphMaker(ops)
        self._pool: list[_Tensor] = []
        self._nodes: list[str] = []
        self._used: set[Source] = set()

    def make(self, name: str, count: int) -> RandomGraph:
        for index in range(self._chooser.integer(2, 4)):
            self._placeholder(index)
        recipes = list(_RECIPES)
        for _ in range(count):
            recipes[self._chooser.integer(0, len(recipes) - 1)](self)
        fetches = [t.source for t in self._pool if t.source not in self._used]
        names = tuple(f"{source.node}:{source.output}" for source in fetches)
        graph = self._graph.finish([" ".join(names)], all_outputs=False)
        return RandomGraph(name, graph.graph_def, graph.feeds, names)

    # ------------------------------------------------------------------ helpers of recipes

    def pick(self, items: Sequence[_T]) -> _T:
        """Choose one of the items."""
        return items[self._chooser.integer(0, len(items) - 1)]

    def integer(self, low: int, high: int) -> int:
        """Choose an integer from `low` to `high`, both included."""
        return self._chooser.integer(low, high)

    def tensor(self, fits: Callable[[_Tensor], bool]) -> _Tensor | None:
        """Choose a tensor of the pool that fits, each with equal probability; None if none does."""
        fitting = [tensor for tensor in self._pool if fits(tensor)]
        return self.pick(fitting) if fitting else None

    def constant(self, value: Any, dtype: str = "int32") -> Source:
        """Add a Const."""
        text = repr(np.asarray(value).tolist())
        shape = np.shape(value)
        size = "[" + ",".join(map(str, shape)) + "]"
        spec = f"{dtype}{size}" if 0 in shape else f"{dtype}: {text}"
        name = f"const{len(self._nodes)}"
        self._nodes.append(name)
        self._graph.node(NodeSpec(name, "Const", (), {"dtype": dtype, "value": spec}, ()))
        return Source(name)

    def add(
        self,
        op: str,
        inputs: Sequence[_Tensor | Source | Sequence[_Tensor]],
        outputs: Sequence[_Tensor],
        **attrs: Any,
    ) -> None:
        """Add a node; `outputs` describe its outputs, without their sources."""
        name = f"n{len(self._nodes)}_{op}"
        after = [self.pick(self._nodes)] if self._nodes and self.integer(0, 7) == 0 else []
        if op == "NoOp":
            after = after or [self.pick(self._nodes)]
        sources = tuple(self._sources(item) for item in inputs)
        self._graph.node(NodeSpec(name, op, sources, attrs, tuple(after)))
        self._nodes.append(name)
        for index, output in enumerate(outputs):
            self._pool.append(replace(output, source=Source(name, index)))

    def _sources(self, item: _Tensor | Source | Sequence[_Tensor]) -> Source | tuple[Source, ...]:
        if isinstance(item, Source):
            return item
        if isinstance(item, _Tensor):
            self._used.add(item.source)
            return item.source
        self._used.update(tensor.source for tensor in item)
        return tuple(tensor.source for tensor in item)

    def _placeholder(self, index: int) -> None:
        dtype = self.pick((*NUMBERS, "float32", "bool"))
        shape = tuple(self.integer(1, 3) for _ in range(self.integer(0, 3)))
        seed = self.integer(0, 10**6)
        how = "" if dtype == "bool" else "-4..4"
        source = self._graph.placeholder(f"x{index}", Input(dtype, shape, how, seed))
        self._nodes.append(source.node)
        self._pool.append(_Tensor(source, dtype, shape, 4.0))


_NOWHERE = Source("")
_RECIPES: list[Callable[[_Maker], None]] = []


def _recipe(function: Callable[[_Maker], None]) -> Callable[[_Maker], None]:
    _RECIPES.append(function)
    return function


def _is_number(t: _Tensor) -> bool:
    return t.dtype in NUMBERS


def _is_float(t: _Tensor) -> bool:
    return t.dtype in FLOATS


def _broadcast(a: _Tensor, b: _Tensor) -> tuple[int, ...] | None:
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return None
    return shape if np.prod(shape, dtype=np.int64) <= _MAX_SIZE else None


@_recipe
def _unary(m: _Maker) -> None:
    x = m.tensor(_is_number)
    if x is not None:
        op = m.pick(["Neg", "Abs", "Identity", "Square", "ZerosLike", "OnesLike", "Sign"])
        bound = max(x.bound**2 if op == "Square" else x.bound, 1.0)
        if bound <= _MAX_VALUE and (op != "Sign" or x.exact):
            m.add(op, [x], [replace(x, bound=bound)])


@_recipe
def _smooth(m: _Maker) -> None:
    x = m.tensor(_is_float)
    if x is not None:
        op = m.pick(["Tanh", "Sigmoid", "Sin", "Cos", "Softplus", "Relu", "Elu"])
        m.add(op, [x], [replace(x, bound=max(x.bound, 1.0) + 1.0, exact=False)])


@_recipe
def _rounding(m: _Maker) -> None:
    x = m.tensor(lambda t: _is_float(t) and t.exact)
    if x is not None:
        m.add(m.pick(["Floor", "Ceil", "Round"]), [x], [replace(x, bound=x.bound + 1)])


def _pair(
    m: _Maker, fits: Callable[[_Tensor], bool]
) -> tuple[_Tensor, _Tensor, tuple[int, ...]] | None:
    x = m.tensor(fits)
    if x is None:
        return None
    y = m.tensor(lambda t: t.dtype == x.dtype and fits(t) and _broadcast(x, t) is not None)
    shape = None if y is None else _broadcast(x, y)
    return None if y is None or shape is None else (x, y, shape)


@_recipe
def _binary(m: _Maker) -> None:
    pair = _pair(m, _is_number)
    if pair is None:
        return
    x, y, shape = pair
    op = m.pick(["AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"])
    bound = {"Mul": x.bound * y.bound, "SquaredDifference": (x.bound + y.bound) ** 2}.get(
        op, x.bound + y.bound
    )
    if bound <= _MAX_VALUE:
        m.add(op, [x, y], [_Tensor(_NOWHERE, x.dtype, shape, bound, x.exact and y.exact)])


@_recipe
def _compare(m: _Maker) -> None:
    pair = _pair(m, lambda t: _is_number(t) and t.exact)
    if pair is not None:
        x, y, shape = pair
        op = m.pick(["Less", "LessEqual", "Greater", "Equal", "NotEqual"])
        m.add(op, [x, y], [_Tensor(_NOWHERE, "bool", shape, 1.0)])


@_recipe
def _logical(m: _Maker) -> None:
    pair = _pair(m, lambda t: t.dtype == "bool")
    if pair is not None:
        x, y, shape = pair
        m.add(m.pick(["LogicalAnd", "LogicalOr"]), [x, y], [_Tensor(_NOWHERE, "bool", shape, 1.0)])


@_recipe
def _select(m: _Maker) -> None:
    pair = _pair(m, _is_number)
    if pair is None:
        return
    x, y, shape = pair
    whole = _Tensor(_NOWHERE, x.dtype, shape, max(x.bound, y.bound), x.exact and y.exact)
    condition = m.tensor(lambda t: t.dtype == "bool" and _broadcast(t, whole) is not None)
    if condition is not None:
        m.add(
            "SelectV2",
            [condition, x, y],
            [replace(whole, shape=_broadcast(condition, whole) or ())],
        )


@_recipe
def _cast(m: _Maker) -> None:
    x = m.tensor(lambda t: t.exact)
    if x is not None:
        target = m.pick(NUMBERS)
        m.add("Cast", [x], [replace(x, dtype=target)], SrcT=x.dtype, DstT=target)


@_recipe
def _reduce(m: _Maker) -> None:
    x = m.tensor(lambda t: _is_number(t) and len(t.shape) > 0)
    if x is None:
        return
    axis = m.integer(0, len(x.shape) - 1)
    keep = bool(m.integer(0, 1))
    shape = x.shape[:axis] + ((1,) if keep else ()) + x.shape[axis + 1 :]
    op = m.pick(["Sum", "Max", "Min", "Mean"] if _is_float(x) else ["Sum", "Max", "Min"])
    bound = x.bound * (x.shape[axis] if op == "Sum" else 1)
    exact = x.exact and (op in ("Max", "Min") or not _is_float(x))
    if bound <= _MAX_VALUE:
        out = replace(x, shape=shape, bound=bound, exact=exact)
        m.add(op, [x, m.constant(axis)], [out], keep_dims=keep)


@_recipe
def _matmul(m: _Maker) -> None:
    x = m.tensor(lambda t: _is_number(t) and len(t.shape) == 2)
    if x is None:
        return
    y = m.tensor(lambda t: t.dtype == x.dtype and len(t.shape) == 2 and t.shape[0] == x.shape[1])
    if y is None:
        m.add("MatMul", [x, x], [_product(x, x, x.shape[0], x.shape[0])], transpose_b=True)
    elif x.bound * y.bound * x.shape[1] <= _MAX_VALUE:
        m.add("MatMul", [x, y], [_product(x, y, x.shape[0], y.shape[1])])


def _product(x: _Tensor, y: _Tensor, rows: int, columns: int) -> _Tensor:
    bound = x.bound * y.bound * x.shape[1]
    exact = x.exact and y.exact and not _is_float(x)
    return _Tensor(_NOWHERE, x.dtype, (rows, columns), bound, exact)


@_recipe
def _reshape(m: _Maker) -> None:
    x = m.tensor(lambda _: True)
    if x is not None:
        shape = m.pick([(x.size,), (1, x.size), (x.size, 1), x.shape[::-1]])
        m.add(
            "Reshape",
            [x, m.constant(list(shape)) if shape else _empty(m)],
            [replace(x, shape=shape)],
        )


def _empty(m: _Maker) -> Source:
    return m.constant(np.zeros(0, np.int32))


@_recipe
def _transpose(m: _Maker) -> None:
    x = m.tensor(lambda t: len(t.shape) >= 2)
    if x is not None:
        shift = m.integer(0, len(x.shape) - 1)
        order = [(i + shift) % len(x.shape) for i in range(len(x.shape))]
        shape = tuple(x.shape[i] for i in order)
        m.add("Transpose", [x, m.constant(order)], [replace(x, shape=shape)])


@_recipe
def _expand(m: _Maker) -> None:
    x = m.tensor(lambda t: len(t.shape) < 4)
    if x is not None:
        axis = m.integer(0, len(x.shape))
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        m.add("ExpandDims", [x, m.constant(axis)], [replace(x, shape=shape)])


@_recipe
def _squeeze(m: _Maker) -> None:
    x = m.tensor(lambda t: 1 in t.shape)
    if x is not None:
        m.add("Squeeze", [x], [replace(x, shape=tuple(d for d in x.shape if d != 1))])


@_recipe
def _concat(m: _Maker) -> None:
    x = m.tensor(lambda t: len(t.shape) > 0 and t.size <= _MAX_SIZE // 2)
    if x is None:
        return
    axis = m.integer(0, len(x.shape) - 1)
    y = m.tensor(lambda t: t.dtype == x.dtype and t.shape == x.shape) or x
    shape = (*x.shape[:axis], x.shape[axis] * 2, *x.shape[axis + 1 :])
    out = replace(x, shape=shape, bound=max(x.bound, y.bound), exact=x.exact and y.exact)
    m.add("ConcatV2", [[x, y], m.constant(axis)], [out])


@_recipe
def _pack(m: _Maker) -> None:
    x = m.tensor(lambda t: len(t.shape) < 4 and t.size <= _MAX_SIZE // 2)
    if x is not None:
        y = m.tensor(lambda t: t.dtype == x.dtype and t.shape == x.shape) or x
        out = _Tensor(_NOWHERE, x.dtype, (2, *x.shape), max(x.bound, y.bound), x.exact and y.exact)
        m.add("Pack", [[x, y]], [out])


@_recipe
def _unpack(m: _Maker) -> None:
    x = m.tensor(lambda t: len(t.shape) > 0 and t.shape[0] > 0)
    if x is not None:
        count = x.shape[0]
        m.add("Unpack", [x], [replace(x, shape=x.shape[1:])] * count, num=count)


@_recipe
def _split(m: _Maker) -> None:
    x = m.tensor(lambda t: len(t.shape) > 0 and t.shape[-1] % 2 == 0 and t.shape[-1] > 0)
    if x is not None:
        half = replace(x, shape=(*x.shape[:-1], x.shape[-1] // 2))
        m.add("Split", [m.constant(-1), x], [half, half], num_split=2)


@_recipe
def _strided_slice(m: _Maker) -> None:
    x = m.tensor(lambda t: len(t.shape) > 0)
    if x is not None:
        begin = m.integer(0, x.shape[0])
        step = m.pick([1, 2])
        shape = (len(range(begin, x.shape[0], step)), *x.shape[1:])
        ends = [m.constant([v]) for v in (begin, x.shape[0], step)]
        m.add("StridedSlice", [x, *ends], [replace(x, shape=shape)])


@_recipe
def _gather(m: _Maker) -> None:
    x = m.tensor(lambda t: len(t.shape) > 0 and t.shape[0] > 0)
    if x is not None:
        picks = [m.integer(0, x.shape[0] - 1) for _ in range(m.integer(1, 3))]
        out = replace(x, shape=(len(picks), *x.shape[1:]))
        if out.size <= _MAX_SIZE:
            m.add("GatherV2", [x, m.constant(picks), m.constant(0)], [out])


@_recipe
def _shape_of(m: _Maker) -> None:
    x = m.tensor(lambda _: True)
    if x is not None:
        op = m.pick(["Shape", "Size", "Rank"])
        shape = (len(x.shape),) if op == "Shape" else ()
        m.add(op, [x], [_Tensor(_NOWHERE, "int32", shape, float(_MAX_SIZE))])


@_recipe
def _identities(m: _Maker) -> None:
    x, y = m.tensor(lambda _: True), m.tensor(lambda _: True)
    if x is not None and y is not None:
        m.add("IdentityN", [[x, y]], [x, y])


@_recipe
def _arg_extreme(m: _Maker) -> None:
    x = m.tensor(lambda t: _is_number(t) and t.exact and len(t.shape) > 0 and t.shape[0] > 0)
    if x is not None:
        out = _Tensor(_NOWHERE, "int64", x.shape[1:], float(x.shape[0]))
        m.add(m.pick(["ArgMax", "ArgMin"]), [x, m.constant(0)], [out])


@_recipe
def _no_op(m: _Maker) -> None:
    m.add("NoOp", [], [])
