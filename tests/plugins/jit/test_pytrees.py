"""Plugin pytrees in variants have equal values interpreted and compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, proto
from graphmill.errors import InvalidArgumentError, OpError
from graphmill.explain import explain_all
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.spi import kernel, pytree
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin
from graphmill.testing.tier_programs import graph_def

jax = pytest.importorskip("jax")
pytestmark = [pytest.mark.jax, pytest.mark.divided]

if TYPE_CHECKING:
    from collections.abc import Iterator

TIERS = ("off", "tiered", "eager")
STEPS = 8
TIMEOUT = 60.0


@pytree(static=("unit",))
@dataclass(frozen=True)
class Span:
    """A pair of bounds."""

    low: Any
    high: Any
    unit: str = ""

    def __post_init__(self) -> None:
        if self.low.shape != self.high.shape:  # not called for what a compiler builds
            raise InvalidArgumentError("ends of two shapes")


class Both(NamedTuple):
    """A pytree of pytrees that is also a tuple."""

    first: Any
    rest: tuple[Any, ...]


class Slotted:
    """A class with slots whose `shape` is not a tensor's."""

    __slots__ = ("items", "shape")

    def __init__(self, items: dict[str, Any], shape: str) -> None:
        self.items = items
        self.shape = shape


pytree(arrays=("items",), static=("shape",))(Slotted)


def op(name: str, inputs: str, outputs: str, unit: bool = False) -> OpDef:
    def args(text: str) -> tuple[ArgDef, ...]:
        kinds = {"v": dtypes.variant, "f": dtypes.float32}
        return tuple(ArgDef(one, kinds[one[0]]) for one in text.split())

    attrs = (AttrDef("unit", "string", default=b"m"),) if unit else ()
    return OpDef(name, args(inputs), args(outputs), attrs)


OPS = (
    op("ForeignSpan", "f1 f2", "v", unit=True),
    op("ForeignWiden", "v f", "v1"),
    op("ForeignWidth", "v", "f"),
    op("ForeignConvert", "v", "v1", unit=True),
    op("ForeignSplit", "v", "f1 f2"),
    op("ForeignTwice", "v", "v1 v2"),
    op("ForeignTouch", "v", "v1"),
    op("ForeignBoth", "f1 f2", "v"),
    op("ForeignSum", "v", "f"),
    op("ForeignSlotted", "f", "v"),
    op("ForeignItem", "v", "f"),
)


@kernel("ForeignSpan", pytrees=Span)
def span(xp: Any, f1: Any, f2: Any, unit: str) -> Span:
    return Span(xp.minimum(f1, f2), xp.maximum(f1, f2), unit)


def lowered_widen(trace: Any, v: Any, f: Any) -> Span:
    return Span(trace.xp.subtract(v.low, f), trace.xp.add(v.high, f), v.unit)


@kernel("ForeignWiden", backend="numpy", pytrees=[Span], lowering=lowered_widen)
def widen(v: Any, f: Any) -> Span:
    if not isinstance(v, Span):
        raise InvalidArgumentError(f"no span: {type(v).__name__}")
    return Span(np.subtract(v.low, f), np.add(v.high, f), v.unit)


@kernel("ForeignWidth", pytrees=Span)
def width(xp: Any, v: Any) -> Any:
    return xp.subtract(v.high, v.low)


@kernel("ForeignConvert", pytrees=Span)
def convert(xp: Any, v: Any, unit: str) -> Span:
    del xp
    return Span(v.low, v.high, unit)


@kernel("ForeignSplit", pytrees=Span)
def split(xp: Any, v: Any) -> Any:
    return xp.negative(v.low), xp.negative(v.high)


@kernel("ForeignTwice", pytrees=Span)
def twice(xp: Any, v: Any) -> Any:
    return v, Span(xp.add(v.low, v.low), xp.add(v.high, v.high), v.unit)


@kernel("ForeignTouch", host=True, pytrees=Span)
def touch(v: Any) -> Any:
    """A kernel that is always interpreted, with NumPy arrays as inputs."""
    assert type(v) is Span
    assert isinstance(v.low, (np.ndarray, np.generic))
    return Span(v.low + np.float32(1), v.high + np.float32(1), v.unit)


@kernel("ForeignBoth", pytrees=Both)
def both(xp: Any, f1: Any, f2: Any) -> Both:
    return Both(xp.add(f1, f2), (Span(f1, f2), xp.multiply(f1, f2)))


@kernel("ForeignSum", pytrees=Both)
def sum_(xp: Any, v: Any) -> Any:
    inner, product = v.rest
    return xp.add(xp.add(v.first, product), xp.add(inner.low, inner.high))


@kernel("ForeignSlotted", pytrees=Slotted)
def slotted(xp: Any, f: Any) -> Slotted:
    return Slotted({"b": xp.add(f, 1), "a": f}, "round")


@kernel("ForeignItem", pytrees=Slotted)
def item(xp: Any, v: Any) -> Any:
    return xp.subtract(xp.multiply(v.items["b"], 3), v.items["a"])


KERNELS = (span, widen, width, convert, split, twice, touch, both, sum_, slotted, item)
FED = {"x": "float32: 2", "z": "float32: 5", "p": "bool: True", "i": "int32: 0", "n": "int32: 3"}


class Steps:
    """Runs steps of a session, and waits for compilations after each."""

    def __init__(self, session: graphmill.Session, host: graphmill.Host) -> None:
        self.session = session
        self.host = host

    def run(self, fetch: str = "y:0", **feeds: Any) -> Any:
        fed = {"x": np.float32(2), "z": np.float32(5), "p": True, "i": 0, "n": 3} | feeds
        try:
            return self.session.run(fetch, {f"{name}:0": value for name, value in fed.items()})
        finally:
            assert self.host.background.wait_idle(TIMEOUT)

    def outside(self) -> dict[str, str]:
        """Return why nodes are in no cluster."""
        return {note.node: note.reason for made in self.compilations() for note in made.outside}

    def compilations(self) -> list[Any]:
        return [
            compilation
            for step in explain_all(self.session)
            for compilation in step.compilations.values()
        ]

    def clusters(self) -> list[tuple[str, ...]]:
        """Return the nodes of each cluster that is compiled."""
        found = [cluster for made in self.compilations() for cluster in made.clusters]
        return [cluster.nodes for cluster in found if cluster.tier == "compiled"]

    def reasons(self) -> list[str]:
        found = [cluster for made in self.compilations() for cluster in made.clusters]
        return [s.reason for cluster in found for s in cluster.signatures]


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(tier: str) -> Iterator[Any]:
    sessions = []

    def make(*nodes: str, functions: tuple[str, ...] = (), more: Any = ()) -> Steps:
        ops, kernels = [*OPS, *(one[0] for one in more)], [*KERNELS, *(one[1] for one in more)]
        host = graphmill.Host(plugins=[ThirdPartyPlugin(ops, kernels)])
        config = proto.ConfigProto()
        config.graphmill.jit = tier
        config.graphmill.jit_min_cluster_size = 1
        graph = graph_def(host.ops, nodes, functions, FED)
        session = graphmill.Session(graph=graph, host=host, config=config)
        sessions.append(session)
        return Steps(session, host)

    yield make
    for session in sessions:
        session.close()


def assert_steps(steps: Steps, tier: str, expected: Any, *compiled: str, **feeds: Any) -> None:
    """Run steps with equal values; the named nodes must be compiled in the end."""
    for _ in range(STEPS):
        np.testing.assert_array_equal(steps.run(**feeds), np.float32(expected))
    if tier != "off":
        nodes = {node for cluster in steps.clusters() for node in cluster}
        assert set(compiled) <= nodes, (steps.clusters(), steps.reasons(), steps.outside())


def test_pytrees_pass_through_straight_line_code(opened: Any, tier: str) -> None:
    steps = opened(
        "s = ForeignSpan(x, z)", "w = ForeignWiden(s, x)", "u = Identity(w)", "y = ForeignWidth(u)"
    )
    assert_steps(steps, tier, 7, "s", "w", "y")


def test_kernels_may_return_several_pytrees(opened: Any, tier: str) -> None:
    steps = opened(
        *("s = ForeignSpan(x, z)", "t = ForeignTwice(s)", "a = ForeignWidth(t[0])"),
        *("b = ForeignSplit(t[1])", "c = AddV2(a, b[0])", "y = AddV2(c, b[1])"),
    )
    assert_steps(steps, tier, 3 - 4 - 10, "s", "t", "b", "y")


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (("v = ForeignBoth(x, z)", "y = ForeignSum(v)"), 7 + 10 + 7),
        (("v = ForeignSlotted(x)", "y = ForeignItem(v)"), 7),
    ],
)
def test_pytrees_may_be_nested(opened: Any, tier: str, nodes: Any, expected: float) -> None:
    assert_steps(opened(*nodes), tier, expected, "v", "y")


def test_pytrees_of_constants_are_constants_of_the_program(opened: Any, tier: str) -> None:
    """A pytree of constants is a constant of the program."""
    steps = opened(
        *("a = Const(dtype=float32, value='float32: 1')", "s = ForeignSpan(a, a)"),
        *("w = ForeignWiden(s, x)", "y = ForeignWidth(w)"),
    )
    assert_steps(steps, tier, 4, "w", "y")


def test_programs_accept_and_return_pytrees(opened: Any, tier: str) -> None:
    """Programs take and return pytrees; an interpreted node between them receives NumPy arrays."""
    steps = opened(
        *("s = ForeignSpan(x, z)", "w = ForeignWiden(s, x)", "t = ForeignTouch(w)"),
        *("v = ForeignWiden(t, z)", "a = ForeignWidth(v)", "b = ForeignWidth(s)"),
        "y = AddV2(a, b)",
    )
    assert_steps(steps, tier, 17 + 3, "s", "w", "v", "y")


FUNCTION = "f(v: variant, x: float32) -> (variant): w = ForeignWiden(v, x); return w"
OTHER = "g(v: variant, x: float32) -> (variant): y = Identity(v); return y"
CONVERTS = "h(v: variant, x: float32) -> (variant): w = ForeignConvert(v, unit='km'); return w"
TOUCHES = "t(v: variant, x: float32) -> (variant): w = ForeignTouch(v); return w"
IF = "w = If(p, [s, x], Tin=[variant, float32], Tout=[variant], then_branch=f, else_branch={})"


def test_pytrees_pass_through_functions(opened: Any, tier: str) -> None:
    steps = opened(
        *("s = ForeignSpan(x, z)", "u = PartitionedCall([s, x], Tout=[variant], f=f)"),
        *("w = PartitionedCall([u, z], Tout=[variant], f=f)", "y = ForeignWidth(w)"),
        functions=(FUNCTION,),
    )
    assert_steps(steps, tier, 3 + 4 + 10, "s", "y")


def test_pytrees_pass_through_branches(opened: Any, tier: str) -> None:
    steps = opened(
        *("s = ForeignSpan(x, z)", IF.format("g"), "y = ForeignWidth(w)"),
        functions=(FUNCTION, OTHER),
    )
    assert_steps(steps, tier, 7, "s", "w", "y")
    assert_steps(steps, tier, 3, "s", "w", "y", p=False)


def test_branches_that_differ_stay_interpreted(opened: Any, tier: str) -> None:
    steps = opened(
        *("s = ForeignSpan(x, z)", IF.format("h"), "y = ForeignWidth(w)"),
        functions=(FUNCTION, CONVERTS),
    )
    assert_steps(steps, tier, 7)
    assert_steps(steps, tier, 3, p=False)
    if tier != "off":
        assert any("different structures" in reason for reason in steps.reasons())


def test_an_interpreted_conditional_passes_pytrees_to_programs(opened: Any, tier: str) -> None:
    steps = opened(
        *("s = ForeignSpan(x, z)", "r = ForeignWiden(s, x)", IF.format("t").replace("[s,", "[r,")),
        *("v = ForeignWiden(w, x)", "y = ForeignWidth(v)"),
        functions=(FUNCTION, TOUCHES),
    )
    assert_steps(steps, tier, 15, "s", "r", "v", "y")


LESS = "less(i: int32, n: int32, v: variant, x: float32) -> (bool): y = Less(i, n); return y"
BODY = (
    "body(i: int32, n: int32, v: variant, x: float32) -> (int32, int32, variant, float32): "
    "one = Const(dtype=int32, value='int32: 1'); j = AddV2(i, one); {}; return j, n, w, x"
)
WHILE = "l = While([i, n, s, x], T=[int32, int32, variant, float32], cond=less, body=body)"
WIDENS = "w = ForeignWiden(v, x)"


def test_pytrees_pass_through_while_loops(opened: Any, tier: str) -> None:
    steps = opened(
        *("s = ForeignSpan(x, z)", WHILE, "y = ForeignWidth(l[2])"),
        functions=(LESS, BODY.format(WIDENS)),
    )
    assert_steps(steps, tier, 15, "s", "l", "y")
    assert_steps(steps, tier, 3 + 4 * 7, "s", "l", "y", n=7)


def test_pytrees_pass_through_conditionals_in_loops(opened: Any, tier: str) -> None:
    inner = "two = Const(dtype=int32, value='int32: 2'); p = Less(i, two); " + IF.format(
        "g"
    ).replace("[s,", "[v,")
    steps = opened(
        *("s = ForeignSpan(x, z)", WHILE, "y = ForeignWidth(l[2])"),
        functions=(LESS, BODY.format(inner), FUNCTION, OTHER),
    )
    assert_steps(steps, tier, 3 + 4 * 2, "s", "l", "y")


def test_loops_that_change_the_structure_stay_interpreted(opened: Any, tier: str) -> None:
    steps = opened(
        *("s = ForeignSpan(x, z)", WHILE, "y = ForeignWidth(l[2])"),
        functions=(LESS, BODY.format("w = ForeignConvert(v, unit='km')")),
    )
    assert_steps(steps, tier, 3)
    if tier != "off":
        reasons = " ".join(steps.reasons())
        assert "different structures" in reasons, reasons


def test_interpreted_loops_pass_pytrees_on(opened: Any, tier: str) -> None:
    steps = opened(
        *("s = ForeignSpan(x, z)", "r = ForeignWiden(s, x)", WHILE.replace("n, s,", "n, r,")),
        *("v = ForeignWiden(l[2], x)", "y = ForeignWidth(v)"),
        functions=(LESS, BODY.format("w = ForeignTouch(v)")),
    )
    assert_steps(steps, tier, 11, "s", "r", "v", "y")


LOOP = (
    "s = ForeignSpan(x, z)",
    *("ei = Enter(i, frame_name='f')", "ev = Enter(s, frame_name='f')"),
    *("en = Enter(n, frame_name='f', is_constant=True)", "mi = Merge([ei, ni])"),
    *("ex = Enter(x, frame_name='f', is_constant=True)", "mv = Merge([ev, nv])"),
    *("less = Less(mi, en)", "go = LoopCond(less)", "si = Switch(mi, go)", "sv = Switch(mv, go)"),
    *("bi = Identity(si[1])", "one = Const(dtype=int32, value='int32: 1', after=[bi])"),
    *("ji = AddV2(bi, one)", "jv = {}", "ni = NextIteration(ji)", "nv = NextIteration(jv)"),
    *("l = Exit(sv[0])", "y = ForeignWidth(l)"),
)


@pytest.mark.parametrize(
    ("call", "expected"), [("ForeignWiden(sv[1], ex)", 15), ("ForeignTouch(sv[1])", 3)]
)
def test_pytrees_pass_through_v1_loops(opened: Any, tier: str, call: str, expected: float) -> None:
    steps = opened(*(node.format(call) for node in LOOP))
    is_compiled = "Widen" in call
    assert_steps(steps, tier, expected, *(("s", "y") if is_compiled else ()))
    if tier != "off":
        assert bool([one for one in steps.clusters() if len(one) > 2]) == is_compiled


class Opaque:
    """An undeclared class."""

    def __init__(self, value: Any) -> None:
        self.value = value


@kernel("ForeignHide", pytrees=Opaque)
def hide(xp: Any, f: Any) -> Any:
    return Opaque(xp.negative(f))


@kernel("ForeignShow", pytrees=Opaque)
def show(xp: Any, v: Any) -> Any:
    return xp.negative(v.value)


def test_undeclared_class_is_interpreted(opened: Any, tier: str) -> None:
    more = [(op("ForeignHide", "f", "v"), hide), (op("ForeignShow", "v", "f"), show)]
    steps = opened("h = ForeignHide(x)", "y = ForeignShow(h)", more=more)
    assert_steps(steps, tier, 2)
    if tier != "off":
        assert any("declare the class with @graphmill.spi.pytree" in r for r in steps.reasons())


def test_the_interpreters_error_is_the_same(opened: Any, tier: str) -> None:
    """The kernel refuses a variant of another class with the same error in each tier."""
    more = [(op("ForeignHide", "f", "v"), hide)]
    steps = opened("h = ForeignHide(x)", "w = ForeignWiden(h, z)", "y = ForeignWidth(w)", more=more)
    for _ in range(STEPS):
        with pytest.raises(OpError) as caught:
            steps.run()
        assert (type(caught.value), caught.value.node) == (InvalidArgumentError, "w")


class Registered:
    """A class that its plugin registers with JAX itself."""

    def __init__(self, value: Any) -> None:
        self.value = value


@kernel("ForeignHide", pytrees=Registered)
def wrap(xp: Any, f: Any) -> Any:
    return Registered(xp.negative(f))


@kernel("ForeignSee", pytrees=Registered)
def see(xp: Any, v: Any) -> Any:
    return xp.negative(v.value)


def test_a_class_that_is_registered_with_jax(opened: Any, tier: str) -> None:
    if jax.tree_util.all_leaves([Registered(0)]):
        jax.tree_util.register_pytree_node(
            Registered, lambda one: ((one.value,), None), lambda _, parts: Registered(*parts)
        )

    @kernel("ForeignShow", host=True, pytrees=Registered)
    def show_on_host(v: Any) -> Any:
        assert isinstance(v.value, (np.ndarray, np.generic))
        return np.negative(v.value)

    more = [
        (op("ForeignHide", "f", "v"), wrap),
        (op("ForeignShow", "v", "f"), show_on_host),
        (op("ForeignSee", "v", "f"), see),
    ]
    steps = opened(
        *("h = ForeignHide(x)", "a = ForeignShow(h)", "b = ForeignSee(h)", "y = AddV2(a, b)"),
        more=more,
    )
    assert_steps(steps, tier, 4, "h", "b", "y")


def test_a_lowering_without_pytrees_keeps_nodes_in_one_program(opened: Any, tier: str) -> None:
    """A lowering without `pytrees=` still keeps nodes with pytrees in one program."""

    @kernel("ForeignHide", backend="numpy", lowering=lambda trace, f: Span(f, trace.xp.negative(f)))
    def hide_span(f: Any) -> Any:
        return Span(f, np.negative(f))

    @kernel("ForeignShow", backend="numpy", lowering=lambda trace, v: trace.xp.add(v.low, 1))
    def show_span(v: Any) -> Any:
        return np.add(v.low, np.float32(1))

    more = [(op("ForeignHide", "f", "v"), hide_span), (op("ForeignShow", "v", "f"), show_span)]
    steps = opened("h = ForeignHide(x)", "y = ForeignShow(h)", more=more)
    assert_steps(steps, tier, 3, "h", "y")


def test_pytrees_pass_through_loops_with_an_unknown_trip_count(opened: Any, tier: str) -> None:
    less = LESS.replace(
        "y = Less(i, n)", "d = ForeignWidth(v); t = Cast(n, DstT=float32); y = Less(d, t)"
    )
    steps = opened(
        *("s = ForeignSpan(x, z)", WHILE, "y = ForeignWidth(l[2])"),
        functions=(less, BODY.format(WIDENS)),
    )
    assert_steps(steps, tier, 7, "s", "l", "y", n=5)
    assert_steps(steps, tier, 803, "s", "l", "y", n=800)
