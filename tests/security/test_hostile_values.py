"""Small graphs whose values grow, expand or take long: steps end with typed errors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_node

if TYPE_CHECKING:
    from collections.abc import Callable

BUDGET: Final = 1 << 20
CONFIG: Final = {"graphmill": {"memory_budget_bytes": BUDGET, "policy": "pure", "jit": "off"}}


def graph_of(nodes: str, **feeds: str) -> graphmill.GraphDef:
    maker = GraphMaker(graphmill.default_host().ops)
    for name, spec in feeds.items():
        maker.placeholder(name, parse_input(spec, {}, name))
    for text in nodes.split("; "):
        maker.node(parse_node(text))
    return maker.graph_def


def chain(link: str, start: str, length: int = 40) -> str:
    """Return nodes `s0` to `s<length>`, each of which computes `link` of `{0}` as `{1}`."""
    names = [(f"s{index}", f"s{index + 1}") for index in range(length)]
    links = (link.replace("{0}", old).replace("{1}", new) for old, new in names)
    return "; ".join([f"s0 = {start}", *links, f"y = Identity(s{length})"])


_TEXT: Final = "Const(dtype=string, value=\"string: '0123456789'\")"
_NUMBERS: Final = "Const(dtype=float32, value='float32: [1.0, 2.0]')"
_FIRST: Final = "a = Const(dtype=int32, value='int32: 0'); "
GROWING: Final = {
    "StringJoin": chain("{1} = StringJoin([{0}, {0}])", _TEXT),
    "ReduceJoin": _FIRST + chain("p{1} = Pack([{0}, {0}]); {1} = ReduceJoin(p{1}, a)", _TEXT),
    "UnsortedSegmentJoin": (
        "i = Const(dtype=int32, value='int32: [0, 0]'); n = Const(dtype=int32, value='int32: 1'); "
        + _FIRST
        + chain(
            "p{1} = Pack([{0}, {0}]); j{1} = UnsortedSegmentJoin(p{1}, i, n); "
            "{1} = ReduceJoin(j{1}, a)",
            _TEXT,
        )
    ),
    "StaticRegexReplace": chain(
        "{1} = StaticRegexReplace({0}, pattern='(.+)', rewrite='\\\\1\\\\1', replace_global=False)",
        _TEXT,
    ),
    "EncodeBase64": chain("{1} = EncodeBase64({0})", _TEXT, 60),
    "SerializeTensor": chain("p{1} = Pack([{0}, {0}]); {1} = SerializeTensor(p{1})", _TEXT),
    "ConcatV2": _FIRST + chain("{1} = ConcatV2([{0}, {0}], a)", _NUMBERS, 30),
    "Pack": chain("{1} = Pack([{0}, {0}])", _NUMBERS, 30),
}


@pytest.mark.parametrize("is_folded", [True, False])
@pytest.mark.parametrize("op", GROWING)
def test_repeatedly_doubled_values_are_bounded(op: str, is_folded: bool) -> None:
    graph = graph_of(GROWING[op])
    values = {} if is_folded else {"s0:0": [1.0, 2.0] if op in ("ConcatV2", "Pack") else b"0123"}
    with (
        graphmill.Session(graph=graph, config=CONFIG) as session,
        pytest.raises(errors.ResourceExhaustedError, match="memory budget") as caught,
    ):
        session.run("y:0", values)
    assert caught.value.op_type == op


def _splat(size: int) -> graphmill.GraphDef:
    """Return a graph with a constant of `size` elements, of which one is stored."""
    graph = graph_of(
        "x = Const(dtype=float32, value='float32: [1.0]'); a = Const(dtype=int32, value='int32: 0')"
        "; n = Neg(x); y = Sum(n, a)"
    )
    graph.node[0].attr["value"].tensor.CopyFrom(
        graphmill.proto.TensorProto(
            dtype=graph.node[0].attr["dtype"].type,
            tensor_shape={"dim": [{"size": size}]},
            float_val=[1.0],
        )
    )
    return graph


@pytest.mark.parametrize("fetch", ["x:0", "y:0"])
@pytest.mark.parametrize("jit", ["off", "eager"])
def test_constant_of_one_stored_value_is_bounded(fetch: str, jit: str) -> None:
    config = {"graphmill": {**CONFIG["graphmill"], "jit": jit}}
    with (
        graphmill.Session(graph=_splat(1 << 30), config=config) as session,
        pytest.raises(errors.ResourceExhaustedError, match="the constant of shape") as caught,
    ):
        session.run(fetch)
    assert caught.value.node == "x"


def test_constant_of_one_stored_value_is_expanded_within_the_budget() -> None:
    with graphmill.Session(graph=_splat(1000), config=CONFIG) as session:
        assert session.run("y:0") == -1000


def test_result_of_an_empty_constant_is_not_computed_before_the_step_checks_it() -> None:
    """A mean over no elements is larger than its input, and passes know no deadline."""
    graph = graph_of(
        "x = Const(dtype=int8, value='int8[0]'); a = Const(dtype=int32, "
        "value='int32: [1]'); y = Mean(x, a)"
    )
    shape = graph.node[0].attr["value"].tensor.tensor_shape
    shape.dim[0].size = 10**9
    shape.dim.add(size=0)
    started = time.process_time()
    with (
        graphmill.Session(graph=graph, config=CONFIG) as session,
        pytest.raises(errors.ResourceExhaustedError, match="memory budget: 8000000000 bytes"),
    ):
        session.run("y:0")
    assert time.process_time() - started < 5


SHAPES: Final = {
    "MatMul": ("y = MatMul(f, g)", (2000, 1), (1, 2000)),
    "no inner dimension": ("y = MatMul(f, g)", (2000, 0), (0, 2000)),
    "stacks": ("y = BatchMatMulV2(f, g)", (1, 1000, 1, 1), (1000, 1, 1, 1)),
    "ConcatV2": (_FIRST + "y = ConcatV2([f, f, f, g], a)", (100_000,), (1,)),
    "Pack": ("b = Identity(g); y = Pack([f, f, f])", (100_000,), (1,)),
    "TensorArrayWriteV3": (
        (
            "n = Const(dtype=int32, value='int32: 1'); "
            "i = Const(dtype=int32, value='int32: 2147483646'); "
            "t = TensorArrayV3(n, dtype=float32, dynamic_size=True); "
            "w = TensorArrayWriteV3(t[0], i, f, t[1], after=[g]); y = TensorArraySizeV3(t[0], w)"
        ),
        (1,),
        (1,),
    ),
    "Conv2D": (
        "y = Conv2D(f, g, strides=[1, 1, 1, 1], padding='VALID')",
        (1, 300, 300, 1),
        (150, 150, 1, 1),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_large_results_of_small_inputs_are_bounded(name: str) -> None:
    nodes, *shapes = SHAPES[name]
    graph = graph_of(nodes, f="float32: 1.0", g="float32: 1.0")
    for node in graph.node:
        if node.op == "Placeholder":
            node.attr["shape"].shape.Clear()
            node.attr["shape"].shape.unknown_rank = True
    values = {
        f"{key}:0": np.ones(shape, np.float32) for key, shape in zip("fg", shapes, strict=True)
    }
    with (
        graphmill.Session(graph=graph, config=CONFIG) as session,
        pytest.raises(errors.ResourceExhaustedError, match="memory budget"),
    ):
        session.run("y:0", values)


LONG: Final[dict[str, tuple[str, Callable[[], dict[str, Any]]]]] = {
    "windows of a convolution": (
        "y = Conv2D(f, g, strides=[1, 1, 1, 1], padding='VALID')",
        lambda: {"f:0": np.ones((1, 2000, 1000, 1)), "g:0": np.ones((1500, 50, 1, 1))},
    ),
    "windows of a dilation": (
        "y = Dilation2D(f, g, strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding='VALID')",
        lambda: {"f:0": np.ones((1, 1000, 1000, 1)), "g:0": np.ones((500, 500, 1))},
    ),
    "neighbouring channels": (
        "y = LRN(f, depth_radius=20000, after=[g])",
        lambda: {"f:0": np.ones((1, 20, 20, 20_000)), "g:0": 1.0},
    ),
    "a formatted tensor": (
        "y = StringFormat([f], template='%s', placeholder='%s', summarize=-1, after=[g])",
        lambda: {"f:0": np.ones(4_000_000), "g:0": 1.0},
    ),
    "rows of a tridiagonal system": (
        "y = TridiagonalSolve(f, g, partial_pivoting=True)",
        lambda: {"f:0": np.ones((3, 1_500_000)), "g:0": np.ones((1_500_000, 1))},
    ),
    "boxes of many images": (
        (
            "n = Const(dtype=int32, value='int32: 5'); t = Const(dtype=float32, "
            "value='float32: 0.5'); y = CombinedNonMaxSuppression(f, g, n, n, t, t)"
        ),
        lambda: {"f:0": np.ones((200_000, 12, 1, 4)), "g:0": np.ones((200_000, 12, 3))},
    ),
    "rows of a banded system": (
        "y = BandedTriangularSolve(f, g)",
        lambda: {"f:0": np.ones((2, 1_500_000)), "g:0": np.ones((1_500_000, 1))},
    ),
    "a row of a regression": (
        "y = IsotonicRegression(f, after=[g])",
        lambda: {"f:0": np.ones(4_000_000), "g:0": 1.0},
    ),
    "a chain of distances": (
        "s = Const(dtype=int64, value='int64: 1'); y = KMC2ChainInitialization(f, s, after=[g])",
        lambda: {"f:0": np.ones(6_000_000), "g:0": 1.0},
    ),
    "a product of integers": (
        "b = Cast(f, DstT=int32); c = Cast(g, DstT=int32); y = MatMul(b, c)",
        lambda: {"f:0": np.ones((2000, 2000)), "g:0": np.ones((2000, 2000))},
    ),
    "products of many integers": (
        "b = Cast(f, DstT=int32); c = Cast(g, DstT=int32); y = BatchMatMulV2(b, c)",
        lambda: {"f:0": np.ones((500, 1, 4000)), "g:0": np.ones((1, 4000, 2000))},
    ),
    "exponentials of many matrices": (
        "y = MatrixExponential(f, after=[g])",
        lambda: {"f:0": np.ones((100_000, 4, 4)), "g:0": 1.0},
    ),
    "square roots of many matrices": (
        "y = MatrixSquareRoot(f, after=[g])",
        lambda: {"f:0": np.ones((100_000, 4, 4)), "g:0": 1.0},
    ),
    "updates of one row": (
        (
            "v = VarHandleOp(dtype=float32, shape=[2]); b = AssignVariableOp(v, g); "
            "w = VarHandleOp(dtype=float32, shape=[2], shared_name='w'); "
            "d = AssignVariableOp(w, g); i = Cast(f, DstT=int32); "
            "n = Const(dtype=float32, value='float32: 0.5'); "
            "c = ResourceSparseApplyMomentum(v, w, n, f, i, n, after=[b, d]); "
            "y = Identity(n, after=[c])"
        ),
        lambda: {"f:0": np.zeros(2_000_000), "g:0": np.zeros(2)},
    ),
    "a message": (
        (
            "c = Const(dtype=bool, value='bool: False'); "
            "b = Assert(c, [f], summarize=2147483647); y = Identity(g, after=[b])"
        ),
        lambda: {"f:0": np.ones(4_000_000), "g:0": 1.0},
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_kernel_that_takes_long_ends_with_its_step(name: str) -> None:
    nodes, values = LONG[name]
    graph = graph_of(nodes, f="float32: 1.0", g="float32: 1.0")
    for node in graph.node:
        if node.op == "Placeholder":
            node.attr["shape"].shape.Clear()
            node.attr["shape"].shape.unknown_rank = True
    config = {"graphmill": {"policy": "pure", "jit": "off"}}
    started = time.process_time()
    with (
        graphmill.Session(graph=graph, config=config) as session,
        pytest.raises(errors.DeadlineExceededError),
    ):
        session.run("y:0", values(), options={"timeout_in_ms": 300})
    assert time.process_time() - started < 10


def test_shape_of_millions_of_dimensions_is_refused_unread() -> None:
    graph = graph_of("y = ParseTensor(f, out_type=float32)", f="string: ''")
    dims = b"\x12\x00" * 1_000_000  # of size 0
    shape = bytes([0x12, *_varint(len(dims))]) + dims
    started = time.process_time()
    with (
        graphmill.Session(graph=graph, config=CONFIG) as session,
        pytest.raises(errors.InvalidArgumentError, match="1000000 dimensions"),
    ):
        session.run("y:0", {"f:0": b"\x08\x01" + shape})
    assert time.process_time() - started < 2


def _varint(number: int) -> list[int]:
    return [number & 127 | 128, number >> 7 & 127 | 128, number >> 14]


def test_text_with_a_long_string_is_formatted_quickly() -> None:
    graph = graph_of("y = StringFormat([f], template='%s', placeholder='%s')", f="string: ''")
    started = time.process_time()
    with graphmill.Session(graph=graph) as session:
        assert len(session.run("y:0", {"f:0": b"\n" * 4_000_000})) == 8_000_002
    assert time.process_time() - started < 3


_SHARED: Final = (
    "x = Const(dtype=float32, value='float32: [1.0]'); k = Const(dtype=int64, value='int64: 1'); "
    "i = Const(dtype=int32, value='int32: [0]'); z = Const(dtype=int32, value='int32: 0'); "
)
_MAPPED: Final = f"{_SHARED}s = MapStage(k, i, [x], dtypes=[float32], shared_name='s'); "
SHARED: Final = {
    "Unstage": (
        f"{_SHARED}s = Stage([x], dtypes=[float32], shared_name='s'); "
        "y = Unstage(dtypes=[int32], shared_name='s', after=[s])"
    ),
    "StagePeek": (
        f"{_SHARED}s = Stage([x], dtypes=[float32], shared_name='s'); "
        "y = StagePeek(z, dtypes=[string], shared_name='s', after=[s])"
    ),
    "MapUnstage": f"{_MAPPED}y = MapUnstage(k, i, dtypes=[int32], shared_name='s', after=[s])",
    "MapUnstageNoKey": (
        f"{_MAPPED}u = MapUnstageNoKey(i, dtypes=[int32], shared_name='s', after=[s]); "
        "y = Identity(u[1])"
    ),
    "UnbatchGrad": (
        f"{_SHARED}e = Const(dtype=float32, value='float32[0]'); n = Cast(x, DstT=int32); "
        "j = Const(dtype=int64, value='int64[0,3]'); "
        "b = Const(dtype=int64, value='int64: [[1, 0, 1], [2, 1, 2]]'); "
        "l = Const(dtype=int64, value='int64: 2'); a = UnbatchGrad(e, j, x, k, shared_name='s'); "
        "y = UnbatchGrad(n, b, n, l, shared_name='s', after=[a])"
    ),
}


@pytest.mark.parametrize("op", SHARED)
def test_nodes_of_other_types_do_not_get_what_a_name_shares(op: str) -> None:
    """TensorFlow ends with an internal error, or ends the process."""
    with (
        graphmill.Session(graph=graph_of(SHARED[op]), config=CONFIG) as session,
        pytest.raises(errors.InvalidArgumentError, match="float32") as caught,
    ):
        session.run("y:0")
    assert caught.value.op_type == op


def test_number_of_outputs_that_the_inputs_do_not_have_is_refused() -> None:
    graph = graph_of(
        "s = Const(dtype=int64, value='int64: [0, 1]'); i = Const(dtype=int64, value='int64: [0]')"
        "; x = Const(dtype=float32, value='float32: [1.0]'); "
        "r = RaggedGather([s], x, i, OUTPUT_RAGGED_RANK=1000); y = Identity(r[0])"
    )
    with (
        graphmill.Session(graph=graph, config=CONFIG) as session,
        pytest.raises(errors.InvalidArgumentError, match="OUTPUT_RAGGED_RANK must be 1"),
    ):
        session.run("y:0")


@pytest.mark.parametrize("part", ["replica", "task", "device:CPU", "cpu"])
def test_device_of_many_digits_is_malformed(part: str) -> None:
    graph = graph_of(f"x = {_NUMBERS}")
    graph.node[0].device = f"/{part}:{'9' * 5000}"
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.InvalidArgumentError, match="Malformed device specification"),
    ):
        session.run("x:0")


MESSAGES: Final = {
    "InvertPermutation": ("y = InvertPermutation(f)", np.zeros(200_000, np.int32)),
    "a long key": ("y = DecodeBase64(f)", np.array(b"*" * 1_000_000, object)),
    "StringToNumber": ("y = StringToNumber(f)", np.array(b"x" * 1_000_000, object)),
    "a long name of a file": ("y = ReadFile(f)", np.array(b"/" + b"x" * 1_000_000, object)),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_message_of_a_failed_node_is_bounded(name: str) -> None:
    nodes, value = MESSAGES[name]
    maker = GraphMaker(graphmill.default_host().ops)
    kind = "int32: 0" if value.dtype == np.int32 else "string: ''"
    maker.placeholder("f", parse_input(kind, {}, "f"))
    maker.graph_def.node[0].attr["shape"].shape.Clear()
    maker.graph_def.node[0].attr["shape"].shape.unknown_rank = True
    maker.node(parse_node(nodes))
    with (
        graphmill.Session(graph=maker.graph_def, trust=False) as session,
        pytest.raises(errors.OpError) as caught,
    ):
        session.run("y:0", {"f:0": value})
    assert caught.value.node == "y"
    assert len(str(caught.value)) < 20_000
