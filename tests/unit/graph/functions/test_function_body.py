"""Functions instantiated as graphs (clause E10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.graph.functions.function_body import FunctionBody, instantiate_function
from graphmill.graph.graph import Graph
from graphmill.ops.attrs.attr_types import AttrPlaceholder, FuncAttr
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.proto_builders import const_def, function_def, node_def

OPS = OpRegistry()
FLOAT = dtypes.float32


def body(function: Any, *others: Any, large_tensors: Any = None, **attrs: Any) -> FunctionBody:
    library = Graph().library
    for each in (function, *others):
        library.add(each)
    library.large_tensors.update(large_tensors or {})
    return instantiate_function(function.signature.name, attrs, library, OPS)


def drawn(made: FunctionBody) -> dict[str, list[str]]:
    """The inputs of each node, control inputs last."""
    return {
        node.name: [edge.tensor_name for edge in node.in_edges]
        + [f"^{src.name}" for src in node.control_inputs]
        for node in made.graph
    }


def neg(name: str, src: str, *after: str) -> Any:
    return node_def(name, "Neg", src, *after, T="float32")


def test_e10_arguments_nodes_and_results_become_a_graph() -> None:
    made = body(function_def("f", {"x": "float32"}, {"y": ("float32", "n:y:0")}, neg("n", "x")))
    assert drawn(made) == {"x": [], "n": ["x"], "y_RetVal": ["n"]}
    assert made.name == "f"
    assert made.arg_types == made.ret_types == (FLOAT,)
    assert [n.op for n in made.graph] == ["_Arg", "Neg", "_Retval"]
    assert made.graph.node("x").attrs["index"] == made.graph.node("y_RetVal").attrs["index"] == 0


def test_e10_results_may_be_arguments_in_signature_order() -> None:
    results = {"b": ("int32", "j"), "a": ("float32", "x"), "again": ("float32", "x")}
    made = body(function_def("f", {"x": "float32", "j": "int32"}, results))
    assert made.ret_types == (dtypes.int32, FLOAT, FLOAT)
    assert drawn(made)["b_RetVal"] == ["j"]
    assert drawn(made)["again_RetVal"] == ["x"]


def test_e10_outputs_are_named_by_output_and_number() -> None:
    split = node_def("s", "Split", "axis:output:0", "x", T="float32", num_split=3)
    unique = node_def("u", "Unique", "s:output:2", T="float32")
    results = {
        "a": ("float32", "s:output:0"),
        "b": ("float32", "s:output:1"),
        "c": ("int32", "u:idx:0"),
    }
    made = body(function_def("f", {"x": "float32"}, results, const_def("axis", 0), split, unique))
    found = drawn(made)
    assert found["u"] == ["s:2"]
    assert [found[f"{name}_RetVal"] for name in "abc"] == [["s"], ["s:1"], ["u:1"]]


def test_e10_body_nodes_may_be_in_any_order() -> None:
    nodes = (neg("second", "first:y:0", "^side"), neg("first", "x"), node_def("side", "NoOp", "^x"))
    made = body(function_def("f", {"x": "float32"}, {"y": ("float32", "second:y:0")}, *nodes))
    assert drawn(made)["second"] == ["first", "^side"]
    assert drawn(made)["side"] == ["^x"]


def test_e10_names_of_arguments_and_results_give_way_to_nodes() -> None:
    function = function_def(
        "f",
        {"n": "float32"},
        {"y": ("float32", "n:y:0")},
        neg("n", "n"),
        node_def("y_RetVal", "NoOp"),
    )
    function.control_ret["done"] = "y_RetVal"
    made = body(function)
    assert [node.name for node in made.graph if node.op == "_Arg"] == ["n_"]
    assert [node.name for node in made.graph if node.op == "_Retval"] == ["y_RetVal_"]


def test_e10_unused_nodes_are_pruned_but_arguments_stay() -> None:
    used = node_def("used", "NoOp")
    state = node_def("state", "VarHandleOp", dtype="float32", shape=None)
    function = function_def(
        "f",
        {"x": "float32", "unused": "float32"},
        {"y": ("float32", "x")},
        neg("dropped", "x"),
        neg("dropped_too", "dropped:y:0"),
        used,
        state,
    )
    function.control_ret["done"] = "used"
    made = body(function)
    assert set(drawn(made)) == {"x", "unused", "used", "state", "y_RetVal"}
    assert [node.name for node in made.control_rets] == ["used"]
    assert made.graph.node("x").out_edges[0].dst.name == "y_RetVal"


def polymorphic() -> Any:
    """f<T, N: int = 2, g: func>(xs: N*T, others: list of types) -> (xs, sum)."""
    function = function_def("f", {}, {}, node_def("sum", "AddN", "xs:0", "xs:1"))
    signature = function.signature
    signature.attr.add(name="T", type="type")
    signature.attr.add(name="N", type="int").default_value.i = 2
    signature.input_arg.add(name="xs", type_attr="T", number_attr="N")
    signature.output_arg.add(name="same", type_attr="T", number_attr="N")
    signature.output_arg.add(name="sum", type_attr="T")
    function.node_def[0].attr["T"].placeholder = "T"
    function.node_def[0].attr["N"].placeholder = "N"
    function.ret["same"] = "xs"
    function.ret["sum"] = "sum:sum:0"
    return function


def test_e10_attr_placeholders_are_replaced_and_lists_expanded() -> None:
    """Placeholders of attrs are replaced; list arguments and results are one node per element."""
    made = body(polymorphic(), T=dtypes.int64)
    assert made.arg_types == (dtypes.int64,) * 2
    assert made.ret_types == (dtypes.int64,) * 3
    assert drawn(made)["sum"] == ["xs_0", "xs_1"]
    assert made.graph.node("sum").attrs["T"] is dtypes.int64
    assert made.graph.node("sum").attrs["N"] == 2


def test_e10_an_input_may_name_a_whole_list() -> None:
    function = polymorphic()
    function.node_def[0].input[:] = ["xs"]
    split = node_def("split", "Unpack", "sum:sum:0", num=2)
    split.attr["T"].placeholder = "T"
    again = node_def("again", "AddN", "split:output", N=2)
    again.attr["T"].placeholder = "T"
    function.node_def.extend([split, again])
    function.ret["sum"] = "again:sum"
    made = body(function, T=FLOAT)
    assert drawn(made)["sum"] == ["xs_0", "xs_1"]
    assert drawn(made)["again"] == ["split", "split:1"]


def test_e10_result_must_have_the_declared_tensor_count() -> None:
    function = polymorphic()
    function.ret["same"] = "xs:0"
    with pytest.raises(
        errors.InvalidArgumentError, match="is 'xs:0', which is 1 tensors, expected 2"
    ):
        body(function, T=FLOAT)


def test_e10_missing_attr_is_reported() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="in function 'f': attr 'T' is missing"):
        body(polymorphic())
    function = function_def("g", {}, {}, node_def("c", "Const", dtype="float32"))
    function.node_def[0].attr["value"].placeholder = "v"
    with pytest.raises(errors.InvalidArgumentError, match="needs attr 'v'; the call has none") as e:
        body(function)
    assert (e.value.node, e.value.op_type) == ("c", "Const")


def test_e10_placeholders_are_bound_inside_of_functions_and_lists() -> None:
    call = node_def(
        "call",
        "PartitionedCall",
        "x",
        Tin=["float32"],
        Tout=["float32"],
        f=FuncAttr("inner", {"U": AttrPlaceholder("T"), "k": 3}),
    )
    call.attr["Tin"].list.ClearField("type")
    call.attr["Tin"].placeholder = "Ts"
    branches = node_def("case", "Case", "i", "x", Tin=["float32"], Tout=["float32"])
    listed = branches.attr["branches"].list.func.add(name="inner")
    listed.attr["U"].placeholder = "T"
    function = function_def(
        "f",
        {"x": "float32", "i": "int32"},
        {"y": ("float32", "call:output:0"), "z": ("float32", "case:output:0")},
        call,
        branches,
    )
    function.signature.attr.add(name="T", type="type")
    function.signature.attr.add(name="Ts", type="list(type)")
    made = body(function, T=FLOAT, Ts=(FLOAT,))
    assert made.graph.node("call").attrs["f"] == FuncAttr("inner", {"U": FLOAT, "k": 3})
    assert made.graph.node("call").attrs["Tin"] == (FLOAT,)
    assert made.graph.node("case").attrs["branches"] == (FuncAttr("inner", {"U": FLOAT}),)


def test_e10_attrs_of_arguments_reach_their_nodes() -> None:
    function = function_def("f", {"x": "float32"}, {"y": ("float32", "x")})
    function.arg_attr[0].attr["_user_specified_name"].s = b"image"
    function.arg_attr[0].attr["_output_shapes"].placeholder = "S"
    function.signature.attr.add(name="S", type="int").default_value.i = 4
    made = body(function)
    assert made.graph.node("x").attrs["_user_specified_name"] == b"image"
    assert made.graph.node("x").attrs["_output_shapes"] == 4


def test_e10_a_body_may_call_other_functions_of_the_library() -> None:
    inner = function_def("inner", {"x": "float32"}, {"y": ("float32", "x")})
    outer = function_def(
        "outer", {"x": "float32"}, {"y": ("float32", "call:y:0")}, node_def("call", "inner", "x")
    )
    made = body(outer, inner)
    assert made.graph.node("call").op == "inner"
    assert "inner" in made.graph.library


def test_g2_contents_that_were_cut_out_are_put_back() -> None:
    empty = node_def("c", "Const", dtype="float32", value=np.zeros(0, np.float32))
    large = np.arange(3, dtype=np.float32)
    function = function_def("f", {}, {"y": ("float32", "c:output:0")}, empty)
    made = body(function, large_tensors={("f", "c", "value"): large})
    assert made.graph.node("c").attrs["value"].numpy() is large


def test_e10_debug_info_of_nodes_is_kept() -> None:
    node = neg("n", "x")
    node.experimental_debug_info.original_func_names.append("was_in")
    made = body(function_def("f", {"x": "float32"}, {"y": ("float32", "n:y:0")}, node))
    assert b"was_in" in made.graph.node("n").debug_info


ONE_RESULT = {"y": ("float32", "n:y:0")}


@pytest.mark.parametrize(
    ("function", "error", "words", "node"),
    [
        (
            function_def("f", {}, {"y": ("float32", "n:y:0")}),
            errors.InvalidArgumentError,
            "result is 'n:y:0', which names no argument and no output of a node",
            None,
        ),
        (
            function_def("f", {"x": "float32"}, ONE_RESULT, neg("n", "xx")),
            errors.InvalidArgumentError,
            "input of 'n' is 'xx', which names no .* did you mean 'x'",
            None,
        ),
        (
            function_def("f", {"x": "float32"}, ONE_RESULT, neg("n", "x", "^gone")),
            errors.InvalidArgumentError,
            "control input of 'n' is 'gone', which is not a node of the body",
            None,
        ),
        (
            function_def("f", {"x": "int32"}, ONE_RESULT, neg("n", "x")),
            errors.InvalidArgumentError,
            "passed int32 incompatible with expected float",
            "n",
        ),
        (
            function_def("f", {"x": "float32"}, ONE_RESULT, node_def("n", "Nege", "x")),
            errors.NotFoundError,
            "unknown op 'Nege'",
            "n",
        ),
        (
            function_def("f", {"x": "float32"}, ONE_RESULT, node_def("n", "Neg", "x")),
            errors.InvalidArgumentError,
            r"attr 'T' \(type\) of op Neg is missing",
            "n",
        ),
        (
            function_def("f", {"x": "float32"}, ONE_RESULT, neg("n", "m:y:0"), neg("m", "n:y:0")),
            errors.InvalidArgumentError,
            "cycle",
            "n",
        ),
        (
            function_def("f", {"x": "float32"}, ONE_RESULT, neg("n", "x"), neg("n", "x")),
            errors.AlreadyExistsError,
            "already has a node 'n'",
            "n",
        ),
        (
            function_def("f", {"x": "float32"}, {"y": ("int32", "x")}),
            errors.InvalidArgumentError,
            "passed float incompatible with expected int32",
            "y_RetVal",
        ),
    ],
)
def test_e10_malformed_body_names_function_and_node(
    function: Any, error: Any, words: str, node: str | None
) -> None:
    with pytest.raises(error, match=words) as caught:
        body(function)
    assert "function 'f'" in caught.value.message
    assert caught.value.node == node


def test_e10_a_result_that_is_said_to_be_nowhere() -> None:
    function = function_def("f", {"x": "float32"}, {"y": ("float32", "x")})
    del function.ret["y"]
    with pytest.raises(errors.InvalidArgumentError, match="has no entry in `ret` for output 'y'"):
        body(function)


def test_e10_control_result_that_is_not_a_node() -> None:
    function = function_def("f", {"x": "float32"}, {"y": ("float32", "x")})
    function.control_ret["done"] = "gone"
    with pytest.raises(errors.InvalidArgumentError, match="control output is 'gone'"):
        body(function)


def test_e10_a_chain_far_longer_than_the_stack_is_deep() -> None:
    nodes = [neg(f"n{i}", f"n{i - 1}:y:0" if i else "x") for i in range(5000)]
    made = body(function_def("f", {"x": "float32"}, {"y": ("float32", "n4999:y:0")}, *nodes))
    assert len(made.graph) == 5002
