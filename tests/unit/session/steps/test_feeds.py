"""Feeds (clause S6): checked against the graph, never copied, never written to."""

from __future__ import annotations

from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill
from graphmill import dtypes, errors, ops
from graphmill.graph.builder import Graph
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.ops.attrs.attr_types import ShapeAttr
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.session.steps.feeds import (
    check_declared_once,
    checked_feeds,
    feed_converter,
    static_shape,
)
from graphmill.testing.proto_builders import const_def, graph_def, node_def


def converted(value: Any, dtype: str, shape: tuple[int, ...] | None = None) -> Any:
    return feed_converter("x:0", dtypes.as_dtype(dtype), shape)(value)


# ---------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, "float32", np.array(1, np.float32)),
        (1.5, "float16", np.array(1.5, np.float16)),
        ([1, 2], "int64", np.array([1, 2], np.int64)),
        (True, "int32", np.array(1, np.int32)),
        (np.float64(0.1), "float32", np.array(0.1, np.float32)),
        (np.array([1, 2], np.int8), "float64", np.array([1.0, 2.0])),
        (np.array([1.0], ">f4"), "float32", np.array([1], np.float32)),
        (np.array([1], np.longlong), "int64", np.array([1], np.int64)),
        (2.0, "complex64", np.array(2, np.complex64)),
        (np.array([1j]), "complex64", np.array([1j], np.complex64)),
        (1, "bool", np.array(True)),
        ([0, 1, True], "bool", np.array([False, True, True])),
        (np.uint64(2**63), "uint64", np.array(2**63, np.uint64)),
        (255, "uint8", np.array(255, np.uint8)),
        ([], "int32", np.zeros(0, np.int32)),
        ([[], []], "float32", np.zeros((2, 0), np.float32)),
        (np.zeros((0, 2), np.float32), "float32", np.zeros((0, 2), np.float32)),
        (5, "qint8", np.array(5, np.int8)),
        (2.0, "int32", np.array(2, np.int32)),
        (np.zeros(1, np.float32), "int64", np.zeros(1, np.int64)),
        ([1.0, -2.0], "int8", np.array([1, -2], np.int8)),
        (10**30, "float64", np.array(1e30)),
        ([10**30, 1j], "complex64", np.array([1e30, 1j], np.complex64)),
        (np.array([[1, 2.5]], object), "float32", np.array([[1, 2.5]], np.float32)),
        (np.array([np.float32(2), True], object), "int32", np.array([2, 1], np.int32)),
        (np.array([float("inf"), 1], object), "float16", np.array([np.inf, 1], np.float16)),
        ([2**53 + 1, 1.0], "int64", np.array([2**53 + 1, 1])),
        ([[2**63, 1.0]], "uint64", np.array([[2**63, 1]], np.uint64)),
    ],
)
def test_s6_values_become_tensors_of_the_graphs_type(
    value: Any, dtype: str, expected: np.ndarray
) -> None:
    tensor = converted(value, dtype)
    assert tensor.dtype == expected.dtype
    np.testing.assert_array_equal(tensor, expected, strict=True)


@pytest.mark.parametrize(
    ("value", "dtype", "words"),
    [
        (1.5, "int32", "dtype int32: 1.5 is not an integer of that type; round or convert"),
        (np.array([0, 0.5], np.float32), "int32", "of dtype float32 for tensor 'x:0'.* 0.5 is"),
        (2.0**40, "int32", "1099511627776.0 is not an integer of that type"),
        (-1.0, "uint8", "-1.0 is not an integer of that type"),
        ([1.0, float("nan")], "int32", "nan is not an integer of that type"),
        (float("inf"), "int64", "inf is not an integer of that type"),
        (1j, "int32", "dtype complex128"),
        (2**40, "int32", "does not fit in int32: values from 1099511627776"),
        ([300], "int8", "does not fit in int8"),
        (-1, "uint8", "does not fit in uint8"),
        (2, "bool", "does not fit in bool"),
        (300, "qint8", "does not fit in qint8"),
        (2**70, "int64", "dtype object"),
        (10**400, "float64", "dtype object"),
        (2**31, "float16", "does not fit in float16"),
        (np.array([2**31, 1.0], object), "float16", "dtype object"),
        (np.array([1.5, 1], object), "int32", "dtype object"),
        (np.array([2], object), "bool", "dtype object"),
        (np.array([1j], object), "float32", "dtype object"),
        ([2**63, -1], "int64", "9.223372036854776e[+]18 is not an integer of that type"),
        (1j, "float32", "dtype complex128"),
        ("text", "float32", "dtype <U4"),
        (["1"], "int32", "dtype <U1"),
        (None, "float32", "dtype object"),
        ([[1], [1, 2]], "int32", "is not an array: .*inhomogeneous"),
        (np.zeros(2, "M8[s]"), "float32", "datetime64"),
        (np.zeros(0, "M8[s]"), "float32", "datetime64"),
        (np.zeros(1, [("a", "f4"), ("b", "f4")]), "float32", "which has dtype float32"),
        (np.zeros(1, np.float64), "bool", "dtype float64"),
        (object(), "int32", "dtype object"),
        (5, "string", "Cannot feed int for tensor 'x:0', which has dtype string"),
        (np.array([None, "a"], object), "string", "Cannot feed NoneType"),
        ([b"a", 1.5], "string", "Cannot feed float"),
        (np.zeros(2), "string", "dtype float64"),
        ("\ud800", "string", "cannot be written as UTF-8"),
        (5, "resource", "Cannot feed int for tensor 'x:0', which has dtype resource"),
    ],
)
def test_s6_values_that_do_not_fit_are_refused(value: Any, dtype: str, words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words):
        converted(value, dtype)


def test_s6_symbolic_tensor_is_not_a_value() -> None:
    tensor = Graph().constant(1.0)
    with pytest.raises(
        errors.InvalidArgumentError, match=r"is not an array: .*no value before a session"
    ):
        converted(tensor, "float32")


@pytest.mark.parametrize("dtype", ["bfloat16", "int4", "float8_e5m2"])
def test_s6_small_types_are_fed(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1, 2], getattr(ml_dtypes, dtype))
    assert converted(array, dtype).dtype == array.dtype
    assert converted([1, 2], dtype).dtype == array.dtype
    np.testing.assert_array_equal(converted(array, "float32"), [1, 2])
    with pytest.raises(errors.InvalidArgumentError):
        converted(array, "string")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("é", np.array("é".encode(), object)),
        (b"\xff", np.array(b"\xff", object)),
        (["a", b"b"], np.array([b"a", b"b"], object)),
        (np.array(["ab", "c"]), np.array([b"ab", b"c"], object)),
        (np.array([b"a\0b", b"c"]), np.array([b"a\0b", b"c"], object)),
        ("caf\udcff", np.array(b"caf\xff", object)),
        ([], np.zeros(0, object)),
        ([["a"], ["b"]], np.array([[b"a"], [b"b"]], object)),
    ],
    ids=repr,
)
def test_s6_strings_are_bytes(value: Any, expected: np.ndarray) -> None:
    tensor = converted(value, "string")
    assert tensor.dtype == object
    np.testing.assert_array_equal(tensor, expected)


@given(st.integers(-(2**65), 2**65), st.sampled_from(["int8", "uint8", "int32", "int64", "uint64"]))
def test_s6_an_integer_is_fed_unchanged_or_refused(value: int, dtype: str) -> None:
    limits = np.iinfo(dtype)
    if limits.min <= value <= limits.max:
        assert int(converted(value, dtype)) == value
    else:
        with pytest.raises(errors.InvalidArgumentError):
            converted(value, dtype)


# ---------------------------------------------------------------------------------------- shapes


SIZES = st.lists(st.integers(0, 2), max_size=3).map(tuple)


@given(shape=st.lists(st.integers(-1, 2), max_size=3).map(tuple), found=SIZES)
def test_s6_a_size_that_is_unknown_fits_any(shape: tuple[int, ...], found: tuple[int, ...]) -> None:
    fits = len(shape) == len(found) and all(
        expected in {-1, size} for expected, size in zip(shape, found, strict=True)
    )
    value = np.zeros(found, np.float32)
    if fits:
        assert np.shape(converted(value, "float32", shape)) == found
    else:
        with pytest.raises(errors.InvalidValueError, match="Cannot feed value of shape"):
            converted(value, "float32", shape)


@pytest.mark.parametrize(
    ("shape", "given_shape", "fits"),
    [
        (None, (2, 3), True),
        ((), (), True),
        ((), (1,), False),
        ((2, 3), (2, 3), True),
        ((2, 3), (3, 2), False),
        ((-1, 3), (7, 3), True),
        ((-1, 3), (7, 4), False),
        ((-1,), (1, 1), False),
        ((0,), (0,), True),
    ],
)
@pytest.mark.parametrize("as_list", [False, True])
def test_s6_a_shape_must_fit(
    shape: Any, given_shape: tuple[int, ...], fits: bool, as_list: bool
) -> None:
    value: Any = np.zeros(given_shape, np.float32)
    if as_list:
        value = value.tolist()
    if fits:
        assert converted(value, "float32", shape).shape == given_shape
    else:
        with pytest.raises(errors.InvalidArgumentError, match="Cannot feed value of shape"):
            converted(value, "float32", shape)


def test_s6_message_names_both_shapes() -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        converted([1.0], "float32", (-1, 3))
    assert caught.value.message == (
        "Cannot feed value of shape (1,) for tensor 'x:0', which has shape '(?, 3)'"
    )


@pytest.mark.parametrize(
    ("given_shape", "shape", "is_hinted"),
    [
        ((3,), (-1, 3), True),
        ((), (-1,), True),
        ((2, 5), (-1, -1, 5), True),
        ((4,), (-1, 3), False),
        ((3,), (2, 3), False),
        ((3, 1), (-1, 3), False),
    ],
)
def test_message_says_if_only_the_first_dimension_is_missing(
    given_shape: tuple[int, ...], shape: tuple[int, ...], is_hinted: bool
) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        converted(np.zeros(given_shape, np.float32), "float32", shape)
    assert ("for a batch of one, feed [value]" in caught.value.message) is is_hinted


def node(op: str, *inputs: str, **attrs: Any) -> Any:
    message = graph_def(const_def("c", 1.0), node_def("n", op, *inputs, **attrs))
    return graph_from_graph_def(message, OpRegistry()).node("n")


def test_s6_graph_has_shapes_of_placeholders() -> None:
    placeholder = node("Placeholder", dtype="float32", shape=ShapeAttr((2, -1)))
    assert static_shape(placeholder, 0, 1395) == (2, -1)
    scalar = node("Placeholder", dtype="float32", shape=ShapeAttr(()))
    assert static_shape(scalar, 0, 1395) == static_shape(scalar, 0, 0) == ()
    assert static_shape(scalar, 0, 23) is None  # old producers meant an unknown shape by it


def test_s6_output_shapes_attr_gives_feed_shapes() -> None:
    shapes = (ShapeAttr((2,)), None)
    named = node("Identity", "c", T="float32", _output_shapes=shapes[:1])
    assert static_shape(named, 0, 1395) == (2,)
    assert static_shape(named, 1, 1395) is None
    assert static_shape(node("Identity", "c", T="float32"), 0, 1395) is None


@pytest.mark.parametrize("shapes", [(3,), 3, b"text", (b"text",)])
def test_s6_malformed_shape_attr_is_ignored(shapes: Any) -> None:
    malformed = node("Identity", "c", T="float32", _output_shapes=shapes)
    assert static_shape(malformed, 0, 1395) is None


# --------------------------------------------------------------------------------------- in a run


@pytest.fixture(scope="module")
def session() -> Any:
    graph = Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        y = ops.math.neg(x, name="y")
        ops.math.mul(y, 10.0, name="z")
        ops.array.identity_n([x, y], name="both")
        with graph.control_dependencies([x.op]):
            graph.constant(1, name="after_x")
        with graph.control_dependencies([y.op]):
            graph.constant(2, name="after_y")
        v = ops.state.variable_v2(shape=[2], dtype="float32", name="v")
        ops.state.assign(v, x, name="assign")
        ops.array.identity(v, name="read")
    with graphmill.Session(graph=graph) as session:
        yield session


X = np.array([1, 2], np.float32)


def test_s6_names_of_feeds_may_be_bytes(session: Any) -> None:
    assert session.run("y:0", {b"x:0": X}).tolist() == [-1, -2]
    assert session.make_callable("y:0", b"x:0")(X).tolist() == [-1, -2]


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({"x:0": "text"}, "Cannot feed a value of dtype <U4 for tensor 'x:0'"),
        ({"other:0": 1.0}, "feed 'other' does not exist"),
        ({"x:5": 1.0}, "feed 'x:5' does not exist"),
    ],
)
def test_s6_feeds_are_checked_if_nothing_is_fetched(session: Any, feeds: Any, words: str) -> None:
    assert session.run([[], {}], {"x:0": X}) == [[], {}]
    with pytest.raises(errors.OpError, match=words):
        session.run([], feeds)
    with pytest.raises(errors.OpError, match=words):
        session.make_callable({}, list(feeds))(*feeds.values())


def test_s6_rows_of_a_gradient_are_no_key_of_feeds() -> None:
    graph = Graph()
    x = graph.placeholder("float32", [2], name="x")
    rows = graphmill.IndexedSlices(x, graph.constant([0, 1]))
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.InvalidArgumentError, match="feed its values and indices"),
    ):
        session.run(x, {rows: [1.0, 2.0]})


def test_s6_any_tensor_can_be_fed(session: Any) -> None:
    assert list(session.run("z:0", {"y:0": [3.0, 4.0]})) == [30, 40]
    assert list(session.run("both:1", {"both:1": X})) == [1, 2]


def test_s6_fed_tensor_can_be_fetched(session: Any) -> None:
    np.testing.assert_array_equal(session.run("y:0", {"y:0": X}), X)
    fed = session.run(["x:0", "y:0"], {"x:0": X})
    np.testing.assert_array_equal(fed, [X, -X])


def test_s6_feeds_that_nothing_needs_are_checked_and_unused(session: Any) -> None:
    assert list(session.run("y:0", {"x:0": X, "z:0": [5.0, 5.0], "v:0": X})) == [-1, -2]
    with pytest.raises(errors.InvalidArgumentError, match="'x:0'"):
        session.run("y:0", {"y:0": X, "x:0": [1.0]})


def test_s6_feed_keys_may_be_operations_tensors_or_names(session: Any) -> None:
    tensor = session.graph.get_tensor_by_name("x:0")
    for feeds in (
        {"x": X},
        {tensor: X},
        {tensor.op: X},
        OrderedDict(x=X),
        MappingProxyType({"x": X}),
    ):
        assert list(session.run("y:0", feeds)) == [-1, -2]


def test_s6_unfed_placeholder_is_named(session: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        session.run("y:0")
    assert "You must feed a value for placeholder tensor 'x' with dtype float" in str(caught.value)
    assert (caught.value.node, caught.value.op_type) == ("x", "Placeholder")
    assert list(session.run("y:0", {"x:0": X})) == [-1, -2]


def test_s6_successors_of_fed_placeholder_run(session: Any) -> None:
    assert session.run("after_x:0", {"x:0": X}) == 1


def test_s6_control_inputs_of_other_nodes_are_kept(session: Any) -> None:
    """Control inputs of fed nodes other than placeholders remain, as in TensorFlow."""
    with pytest.raises(errors.InvalidArgumentError, match="placeholder tensor 'x'"):
        session.run("after_y:0", {"y:0": X})
    assert session.run("after_y:0", {"y:0": X, "x:0": X}) == 2


def test_s6_fed_placeholder_may_be_a_target(session: Any) -> None:
    """A fed placeholder may also be a target, as in TensorFlow."""
    with pytest.raises(errors.InvalidArgumentError, match="placeholder tensor 'x'"):
        session.run("y:0", {"x:0": X}, targets=["x"])


def test_s6_a_tensor_is_fed_once(session: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="'x:0' is fed more than once"):
        session.run("y:0", {"x": X, "x:0": X})


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({"xx:0": X}, "feed 'xx' does not exist: .* did you mean 'x'"),
        ({"x:1": X}, r"feed 'x:1' does not exist: node 'x' \(op Placeholder\) has 1 outputs"),
        ({"^x": X}, "does not exist"),
        ({"_SOURCE:0": X}, "does not exist"),
    ],
)
def test_s6_an_unknown_feed_is_not_found(session: Any, feeds: Any, words: str) -> None:
    with pytest.raises(errors.NotFoundError, match=words):
        session.run("y:0", feeds)


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        (["x:0"], "feed_dict is a list; expected a dict"),
        ("x:0", "feed_dict is a str"),
        ({5: X}, r"feed 5 \(int\) is not a tensor"),
        ({"x:y": X}, "'x:y' is not a tensor name"),
    ],
)
def test_s6_invalid_feed_dict_is_invalid_argument(session: Any, feeds: Any, words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words):
        session.run("y:0", feeds)


def test_s6_feed_cannot_replace_a_variable_reference(session: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        session.run("assign:0", {"v:0": X, "x:0": X})
    assert (
        "Input 0 of node assign was passed float from _arg_v_0_0:0 incompatible with expected "
        in (caught.value.message)
    )
    assert list(session.run("read:0", {"v:0": X})) == [1, 2]


def test_s6_a_handle_that_was_fetched_may_be_fed() -> None:
    graph = Graph()
    with graph.as_default():
        handle = ops.state.var_handle_op(dtype="float32", shape=[], name="v", shared_name="v")
        ops.state.assign_variable_op(handle, 5.0, name="assign")
        fed = graph.placeholder("resource", [], name="fed")
        ops.state.read_variable_op(fed, dtype="float32", name="read")
    with graphmill.Session(graph=graph) as session:
        session.run("assign")
        found = session.run("v:0")
        assert session.run("read:0", {"fed:0": found}) == 5
        with pytest.raises(errors.InvalidArgumentError, match="pass the handle that was fetched"):
            session.run("read:0", {"fed:0": 5.0})


@pytest.mark.parametrize("is_message", [False, True])
def test_s6_inner_tensors_take_values_of_their_inferred_shape(is_message: bool) -> None:
    graph = Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2, None], name="x")
        inner = ops.math.mul(x, np.float32(2), name="inner")
        ops.math.add_v2(inner, np.float32(1), name="y")
    source = graph.as_graph_def() if is_message else graph
    with graphmill.Session(graph=source) as session:
        assert session.run("y:0", {"inner:0": np.ones((2, 3))}).shape == (2, 3)
        for wrong in (np.ones(3), np.ones((3, 3))):
            with pytest.raises(errors.InvalidArgumentError, match=r"shape '\(2, \?\)'"):
                session.run("y:0", {"inner:0": wrong})


def test_s6_inner_tensor_of_an_invalid_part_can_be_fed() -> None:
    graph = Graph()
    with graph.as_default():
        a, b = (
            graph.placeholder("float32", [size], name=name) for size, name in ((2, "a"), (3, "b"))
        )
        product = ops.math.mul(a, b[:2], name="inner")
        ops.math.neg(product, name="y")
    message = graph.as_graph_def()
    (cut,) = (node for node in message.node if node.name == "inner")
    cut.input[1] = "b"  # (2,) times (3,)
    with graphmill.Session(graph=Graph.from_graph_def(message)) as session:
        assert session.run("y:0", {"inner:0": [1.0, 2.0]}).tolist() == [-1, -2]
        with pytest.raises(errors.InvalidArgumentError):
            session.run("y:0", {"a:0": [1.0, 2.0], "b:0": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize("value", [1, 1.5, "text", b"text", [1], {}, np.float32(1), np.zeros(2)])
@pytest.mark.parametrize("dtype", ["variant", "resource"])
def test_plain_values_are_no_variants_and_no_handles(value: Any, dtype: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"'x:0', which has dtype {dtype}"):
        converted(value, dtype)
    with pytest.raises(errors.InvalidArgumentError, match=f"'x:0', which has dtype {dtype}"):
        converted(np.array([1, "text"], object), dtype)


def test_arrays_of_variants_are_fed_as_they_are() -> None:
    value = np.array([object(), None])
    assert converted(value, "variant") is value


# ----------------------------------------------------------------------------------- declarations


def test_no_feeds_are_an_empty_mapping() -> None:
    assert checked_feeds(None) == {}


def test_feeds_must_be_a_mapping() -> None:
    feeds = {"x:0": 1.0}
    assert checked_feeds(feeds) is feeds
    with pytest.raises(errors.InvalidValueError, match="feed_dict is a list; expected a dict"):
        checked_feeds([1.0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("feeds", "fetches", "message"),
    [
        (("x:0", "x:0"), (), "'x:0' fed more than once"),
        (("x:0",), ("y:0", "x:0"), "x:0 is both fed and fetched"),
    ],
)
def test_tensors_are_declared_once(
    feeds: tuple[str, ...], fetches: tuple[str, ...], message: str
) -> None:
    check_declared_once((("x:0",), ("y:0",), ()))
    with pytest.raises(errors.InvalidValueError, match=message):
        check_declared_once((feeds, fetches, ()))
