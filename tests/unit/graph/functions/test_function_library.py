"""The functions of a graph (clauses G1, E10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, proto
from graphmill.graph.functions.function_body import FunctionBody, instantiate_function
from graphmill.graph.functions.function_library import FunctionLibrary
from graphmill.graph.graph import Graph
from graphmill.ops.attrs.attr_types import TensorAttr
from graphmill.testing.proto_builders import function_def, node_def


def function(name: str = "f", summary: str = "") -> Any:
    made = function_def(name, {"x": "float32"}, {"y": ("float32", "x")})
    made.signature.summary = summary
    return made


@pytest.fixture
def library() -> FunctionLibrary:
    library = FunctionLibrary()
    library.add(function("helper"))
    return library


def test_e10_functions_are_found_by_name(library: FunctionLibrary) -> None:
    assert list(library) == ["helper"]
    assert "helper" in library
    assert len(library) == 1
    assert library.get("helper").signature.name == "helper"
    with pytest.raises(errors.NotFoundError, match="no function 'hlper'; did you mean 'helper'"):
        library.get("hlper")


def test_e10_a_signature_is_the_definition_of_an_op(library: FunctionLibrary) -> None:
    signature = library.signature("helper")
    assert signature.input_types({}) == signature.output_types({}) == (dtypes.float32,)
    assert library.signature("helper") is signature
    with pytest.raises(errors.NotFoundError):
        library.signature("hlper")


def test_e10_equal_function_may_be_added_again_different_may_not(library: FunctionLibrary) -> None:
    library.add(function("helper"))
    with pytest.raises(errors.InvalidArgumentError, match="'helper' because a different function"):
        library.add(function("helper", "another"))
    assert library.get("helper").signature.summary == ""


def test_e10_a_function_needs_a_name(library: FunctionLibrary) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="no name in its signature"):
        library.add(proto.FunctionDef())


def message(*functions: Any, **gradients: str) -> Any:
    made = proto.FunctionDefLibrary(function=functions)
    for name, gradient in gradients.items():
        made.gradient.add(function_name=name, gradient_func=gradient)
    return made


def test_e10_a_library_is_added_whole_or_not_at_all(library: FunctionLibrary) -> None:
    library.add_library(message(function("g"), g="g_grad"))
    assert library.gradients == {"g": "g_grad"}
    for bad in (
        message(function("new"), function("helper", "another")),
        message(function("new"), g="other_grad"),
    ):
        with pytest.raises(errors.InvalidArgumentError):
            library.add_library(bad)
    assert list(library) == ["helper", "g"]
    assert library.gradients == {"g": "g_grad"}


def test_e10_a_contradicting_gradient_names_both(library: FunctionLibrary) -> None:
    library.add_library(message(helper="one"))
    with pytest.raises(errors.InvalidArgumentError, match="gradient 'two' but has 'one' already"):
        library.add_library(message(helper="two"))
    library.add_library(message(helper="one"))


def test_e10_a_copy_grows_by_itself(library: FunctionLibrary) -> None:
    copy = library.copy()
    copy.add(function("g"))
    copy.gradients["helper"] = "grad"
    copy.large_tensors["helper", "c", "value"] = 1
    assert list(library) == ["helper"]
    assert library.gradients == library.large_tensors == {}


def test_g1_library_round_trips() -> None:
    library_def = message(function("f"), function("g", "text"), f="g")
    library_def.registered_gradients.add(gradient_func="g", registered_op_type="FGrad")
    library = FunctionLibrary()
    library.add_library(library_def)
    written = proto.FunctionDefLibrary()
    library.write(written)
    assert written == library_def


def test_g2_contents_that_were_cut_out_are_written_back() -> None:
    empty = node_def("c", "Const", dtype="float32", value=np.zeros(0, np.float32))
    library_def = message(function_def("f", {}, {}, empty, node_def("other", "NoOp")))
    large = np.arange(5, dtype=np.float32)
    library = FunctionLibrary()
    cut = {("f", "c", "value"): large, ("", "c", "value"): np.zeros(1)}
    library.add_library(library_def, cut)
    assert list(library.large_tensors) == [("f", "c", "value")]
    written = proto.FunctionDefLibrary()
    library.write(written)
    content = written.function[0].node_def[0].attr["value"].tensor.tensor_content
    assert content == large.tobytes()
    assert library_def.function[0].node_def[0].attr["value"].tensor.tensor_content == b""


def body(name: str) -> FunctionBody:
    """Return a function of no arguments whose result is 3."""
    graph = Graph()
    ops = graphmill.default_host().ops
    attrs = {"dtype": dtypes.int32, "value": TensorAttr(np.array(3, np.int32))}
    const = graph.add_node("three", ops.get("Const"), attrs=attrs)
    ret = ops.get("_Retval")
    graph.add_node(
        "result", ret, [(const, 0)], attrs=ret.with_defaults({"T": dtypes.int32, "index": 0})
    )
    return FunctionBody(name, graph, (), (dtypes.int32,), ())


def test_e10_a_body_is_called_by_name_and_never_written(library: FunctionLibrary) -> None:
    library.add_body("made", body("made"))
    assert "made" not in library
    assert library.attr_names("made") == frozenset()
    assert library.copy().body("made") is library.body("made")
    with pytest.raises(errors.AlreadyExistsError, match="already has a function 'made'"):
        library.add_body("made", body("made"))
    with pytest.raises(errors.AlreadyExistsError):
        library.add_body("helper", body("helper"))
    message = proto.FunctionDefLibrary()
    library.write(message)
    assert [function.signature.name for function in message.function] == ["helper"]
    library.discard_body("made")
    assert library.body("made") is None


def test_e10_each_function_instance_has_its_own_graph(library: FunctionLibrary) -> None:
    library.add_body("made", body("made"))
    ops = graphmill.default_host().ops
    first = instantiate_function("made", {}, library, ops)
    second = instantiate_function("made", {}, library, ops)
    assert first.graph is not second.graph
    assert [node.name for node in first.graph] == ["three", "result"]
    assert first.graph.node("three").attrs is second.graph.node("three").attrs
    assert first.graph.library is library


def test_only_some_functions_are_kept_with_their_gradients(library: FunctionLibrary) -> None:
    library.add(function("slope"))
    library.add(function("other"))
    library.gradients.update({"helper": "slope", "other": "slope"})
    library.large_tensors.update({("other", "c", "value"): 1, ("helper", "c", "value"): 2})
    part = library.only(["helper", "slope"])
    assert list(part) == ["helper", "slope"]
    assert part.gradients == {"helper": "slope"}
    assert list(part.large_tensors) == [("helper", "c", "value")]
    assert len(library) == 3
    with pytest.raises(errors.NotFoundError, match="no function 'helpr'"):
        library.only(["helpr"])
