"""Bad input raises a typed error and leaves the session usable (clauses S3, S6, S12, G3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmill
from graphmill import dtypes, errors, proto
from graphmill.ops.attrs.attr_types import AttrPlaceholder, FuncAttr
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def

if TYPE_CHECKING:
    from pathlib import Path

X = node_def("x", "Placeholder", dtype="float32", shape=None)
Y = node_def("y", "Neg", "x", T="float32")
GOOD = graph_def(X, Y, const_def("c", np.arange(20, dtype=np.float32)))

PRUNED = proto.ConfigProto(graph_options={"place_pruned_graph": True})


@pytest.fixture
def session() -> Any:
    with graphmill.Session(graph=GOOD, config=PRUNED) as session:
        yield session
        assert session.run("y:0", {"x:0": 2.0}) == -2


# -------------------------------------------------------------------------------- what is not a
# graph


@pytest.mark.parametrize("content", [b"not a protobuf", b"\x00\x01\x02", b"\xff" * 100])
def test_bytes_that_are_no_protobuf(content: bytes, session: Any) -> None:
    with pytest.raises(
        errors.InvalidArgumentError, match="graph: the bytes are not a valid GraphDef"
    ):
        graphmill.Session(graph=content)
    with pytest.raises(
        errors.InvalidArgumentError, match="graph_def: the bytes are not a valid GraphDef"
    ):
        session.extend(content)


@pytest.mark.parametrize("cut", [1, 7, 33, -1])
def test_bytes_that_are_cut_short(cut: int) -> None:
    content = graph_def(const_def("c", np.arange(100, dtype=np.float32)), X).SerializeToString()
    content = content[: content.index(b"Const") + cut] if cut > 0 else content[:cut]
    with pytest.raises(errors.InvalidArgumentError, match="are not a valid GraphDef"):
        graphmill.Session(graph=content)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_are_a_typed_error_or_another_graph(data: st.DataObject) -> None:
    content = bytearray(GOOD.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        with graphmill.Session(graph=bytes(content)) as session:
            session.run([f"{n.name}:0" for n in session.graph if n.num_outputs], {"x:0": 1.0})
    except errors.OpError:
        return  # anything else fails the test


@pytest.mark.parametrize("graph", [5, object(), ["x"], proto.ConfigProto()])
def test_values_that_are_not_graphs(graph: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"graph is a .*; expected a GraphDef"):
        graphmill.Session(graph=graph)


def test_missing_or_invalid_model_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    with pytest.raises(errors.NotFoundError, match=r"model\.pb"):
        graphmill.Session(graph=path)
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(errors.OpError, match=r"model\.pb"):
        graphmill.Session(graph=path)
    path.write_bytes(GOOD.SerializeToString()[:-3])
    with pytest.raises(errors.OpError, match=r"model\.pb"):
        graphmill.Session(graph=path)


# --------------------------------------------------------------------------------- what is not a
# node


@pytest.mark.parametrize(
    ("nodes", "error", "words"),
    [
        ([node_def("z", "Matmul", "x", "x")], errors.NotFoundError, ["'Matmul'", "mean 'MatMul'"]),
        ([node_def("z", "Neg", "xx", T="float32")], errors.InvalidArgumentError, ["'xx'", "'z'"]),
        ([Y], errors.InvalidArgumentError, ["'y' is not unique"]),
        (
            [node_def("a", "Neg", "b", T="float32"), node_def("b", "Neg", "a", T="float32")],
            errors.InvalidArgumentError,
            ["cycle", "a -> b -> a"],
        ),
        ([node_def("z", "Neg", "x", T="int32")], errors.InvalidArgumentError, ["float", "int32"]),
        ([node_def("z", "Neg", "x", T=3)], errors.InvalidArgumentError, ["'T' of op Neg", "int 3"]),
        (
            [node_def("z", "Neg", "x")],
            errors.InvalidArgumentError,
            ["'T' (type) of op Neg is miss"],
        ),
        (
            [node_def("z", "Identity", "x", T=dtypes.float32.as_ref)],
            errors.InvalidArgumentError,
            ["'T' of op Identity", "float32_ref"],
        ),
        (
            [node_def("z", "Placeholder", dtype=AttrPlaceholder("T"))],
            errors.InvalidArgumentError,
            ["'dtype' of op Placeholder is the placeholder 'T'"],
        ),
        (
            [node_def("z", "Placeholder", dtype=proto.AttrValue(type=0))],  # type: ignore[arg-type]
            errors.InvalidArgumentError,
            ["0 is not an element type"],
        ),
        (
            [node_def("z", "Pack", T="float32", N=-1)],
            errors.InvalidArgumentError,
            ["'N' of op Pack", "at least 1"],
        ),
    ],
)
def test_bad_nodes_are_refused(
    session: Any, nodes: list[Any], error: type[errors.OpError], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        session.extend(graph_def(*nodes))
    for text in words:
        assert text in caught.value.message
    assert caught.value.node in {node.name for node in nodes}
    assert caught.value.op_type in {node.op for node in nodes}
    assert not session.graph.has_node("z")


# ------------------------------------------------------------------------------------------ Consts


def const_of(
    dtype: int = 1, shape: tuple[int, ...] = (2,), attr: Any = "float32", **content: Any
) -> Any:
    tensor = proto.TensorProto(dtype=dtype, **content)  # type: ignore[arg-type]
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    return node_def("const", "Const", dtype=attr, value=proto.AttrValue(tensor=tensor))


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (const_of(tensor_content=b"abcd"), "needs 8 bytes of tensor_content, but it has 4"),
        (const_of(tensor_content=b"abcd" * 3), "needs 8 bytes of tensor_content, but it has 12"),
        (const_of(shape=(-1,)), r"shape \[-1\] with a negative size"),
        (const_of(shape=(2**40, 2**40)), "too many elements"),
        (const_of(dtype=0), "no dtype"),
        (const_of(dtype=101), "reference type"),
        (const_of(dtype=3, int_val=[1, 2]), r"between value \(int32\) and dtype \(float\)"),
        (const_of(dtype=7, attr="string", tensor_content=b"\x05a"), "do not hold 2 strings"),
    ],
)
def test_inconsistent_const_is_named(session: Any, node: Any, words: str) -> None:
    """An inconsistent Const is named in the error, at extension or at the first run."""

    def extend_and_run() -> None:
        session.extend(graph_def(node))
        session.run("const:0")

    with pytest.raises(errors.InvalidArgumentError, match=words) as caught:
        extend_and_run()
    assert (caught.value.node, caught.value.op_type) == ("const", "Const")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"float_val": [1, 2]}, [1, 2]),
        ({"float_val": [1]}, [1, 1]),
        ({}, [0, 0]),
        ({"float_val": [1, 2, 3]}, [1, 2]),
        ({"int_val": [7, 8]}, [0, 0]),
    ],
)
def test_short_and_long_value_lists_match_tensorflow(
    session: Any, content: Any, expected: list[float]
) -> None:
    session.extend(graph_def(const_of(**content)))
    assert list(session.run("const:0")) == expected


# ------------------------------------------------------------------------------------- no kernels


def test_missing_kernels_are_reported_for_pruned_graph_only(
    make_host: Any,
) -> None:
    from graphmill.ops.definition.op_def import ArgDef, OpDef

    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_ops(self, ops: Any) -> None:
            for name in ("Alpha", "Beta", "Gamma"):
                ops.add(
                    OpDef(
                        f"No>{name}", (ArgDef("x", dtypes.float32),), (ArgDef("y", dtypes.float32),)
                    )
                )

        @graphmill.hookimpl
        def graphmill_register_kernels(self, kernels: Any) -> None:
            @graphmill.kernel("No>Beta", device="NPU")
            def beta(xp: Any, x: Any) -> Any:
                return x

            kernels.add(beta)

    nodes = [
        node_def("a1", "No>Alpha", "x"),
        node_def("a2", "No>Alpha", "a1"),
        node_def("b", "No>Beta", "a2"),
        node_def("elsewhere", "No>Gamma", "x"),
    ]
    message = graph_def(X, Y, *nodes)
    with graphmill.Session(graph=message, config=PRUNED, host=make_host(Plugin())) as session:
        with pytest.raises(errors.NotFoundError) as caught:
            session.run(["b:0", "y:0"], {"x:0": 1.0})
        text = caught.value.message
        assert "No>Alpha (node a1, a2)" in text
        assert "No>Beta (node b)" in text
        assert "for device types NPU" in text
        assert "Gamma" not in text
        assert "CPU:0" in text
        assert session.run("y:0", {"x:0": 1.0}) == -1
        assert session.run("b:0", {"b:0": 1.0}) == 1


def test_g3_missing_kernels_are_reported_for_all_devices(make_host: Any) -> None:
    from graphmill.ops.definition.op_def import ArgDef, OpDef

    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_ops(self, ops: Any) -> None:
            for name in ("Alpha", "Beta"):
                x, y = ArgDef("x", dtypes.float32), ArgDef("y", dtypes.float32)
                ops.add(OpDef(f"No>{name}", (x,), (y,)))

    message = graph_def(
        X,
        node_def("a", "No>Alpha", "x", device="/device:CPU:0"),
        node_def("b", "No>Beta", "a", device="/device:CPU:1"),
    )
    config = proto.ConfigProto(device_count={"CPU": 2})
    with graphmill.Session(graph=message, config=config, host=make_host(Plugin())) as session:
        with pytest.raises(errors.NotFoundError) as caught:
            session.run("b:0", {"x:0": 1.0})
        for text in ("No>Alpha (node a)", "No>Beta (node b)", "CPU:0", "CPU:1"):
            assert text in caught.value.message
        assert session.run("b:0", {"b:0": 1.0}) == 1


def test_kernel_creation_failure_is_a_typed_error(make_host: Any) -> None:
    class Plugin:
        error: Exception = KeyError("oops")

        @graphmill.hookimpl
        def graphmill_register_kernels(self, kernels: Any) -> None:
            @graphmill.kernel("Neg", make=True, priority=1)
            def neg(xp: Any) -> Any:
                raise self.error

            kernels.add(neg)

    plugin = Plugin()
    for error, cls in ((KeyError("oops"), errors.InternalError), (ValueError("bad"), None)):
        plugin.error = error
        with graphmill.Session(graph=GOOD, host=make_host(plugin)) as session:
            with pytest.raises(cls or errors.InvalidArgumentError) as caught:
                session.run("y:0", {"x:0": 1.0})
            assert (caught.value.node, caught.value.op_type) == ("y", "Neg")
            assert "Plugin" in caught.value.plugin
            assert caught.value.node_def.name == "y"
            assert session.run("x:0", {"x:0": 1.0}) == 1


# ---------------------------------------------------------------------------------------- functions


def test_a_call_of_a_missing_function_suggests_another(session: Any) -> None:
    attrs = {"Tin": ["float32"], "Tout": ["float32"], "f": FuncAttr("hlper")}
    helper = function_def("helper", {"x": "float32"}, {"y": ("float32", "x")})
    session.extend(graph_def(node_def("call", "PartitionedCall", "x", **attrs), functions=[helper]))
    with pytest.raises(errors.NotFoundError, match="no function 'hlper'; did you mean 'helper'"):
        session.run("call:0", {"x:0": 1.0})


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            function_def("f", {"x": "float32"}, {"y": ("float32", "z:y:0")}),
            "'z:y:0', which names no",
        ),
        (
            function_def(
                "f", {"x": "float32"}, {"y": ("float32", "x")}, node_def("n", "Neg", "gone")
            ),
            "'T'",
        ),
        (
            function_def(
                "f",
                {"x": "float32"},
                {"y": ("float32", "n:y:0")},
                node_def("n", "Neg", "gone", T="float32"),
            ),
            "input of 'n' is 'gone'",
        ),
        (
            function_def(
                "f",
                {"x": "float32"},
                {"y": ("float32", "n:y:0")},
                node_def("n", "Nge", "x", T="float32"),
            ),
            "unknown op 'Nge'; did you mean",
        ),
        (function_def("f", {"x": "int32"}, {"y": ("float32", "x")}), "takes (int32)"),
    ],
)
def test_malformed_function_is_reported_when_it_is_called(
    session: Any, function: Any, words: str
) -> None:
    attrs = {"Tin": ["float32"], "Tout": ["float32"], "f": FuncAttr("f")}
    call = node_def("call", "PartitionedCall", "x", **attrs)
    session.extend(graph_def(call, functions=[function]))
    with pytest.raises(errors.OpError) as caught:
        session.run("call:0", {"x:0": 1.0})
    assert words in caught.value.message
    assert "function 'f'" in caught.value.message


# ------------------------------------------------------------------------------- depth and breadth


def test_a_chain_far_longer_than_the_stack_is_deep_runs() -> None:
    count = 20_000
    nodes = [
        X,
        *(node_def(f"n{i}", "Neg", f"n{i - 1}" if i else "x", T="float32") for i in range(count)),
    ]
    with graphmill.Session(graph=graph_def(*nodes)) as session:
        assert session.run(f"n{count - 1}:0", {"x:0": 3.0}) == 3
        assert session.run("n0:0", {"x:0": 3.0}) == -3


def test_very_long_control_edge_chain_runs() -> None:
    count = 20_000
    nodes = [node_def(f"n{i}", "NoOp", *([f"^n{i - 1}"] if i else [])) for i in range(count)]
    with graphmill.Session(graph=graph_def(*nodes)) as session:
        assert session.run(f"n{count - 1}") is None


def test_a_node_with_very_many_inputs_and_consumers_runs() -> None:
    count = 5_000
    fans = [node_def(f"n{i}", "Neg", "x", T="float32") for i in range(count)]
    total = node_def("sum", "AddN", *(f"n{i}" for i in range(count)), T="float32", N=count)
    after = node_def("after", "NoOp", *(f"^n{i}" for i in range(count)))
    with graphmill.Session(graph=graph_def(X, *fans, total, after)) as session:
        assert session.run(["sum:0", "after"], {"x:0": 1.0}) == [-count, None]
