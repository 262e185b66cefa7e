"""Shapes in a function's body follow from those of its arguments."""

from __future__ import annotations

from graphmill.graph.functions.function_body import instantiate_function
from graphmill.graph.functions.function_library import FunctionLibrary
from graphmill.graph.shapes.body_shapes import body_shapes
from graphmill.ops.definition.op_registry import bundled_ops
from graphmill.testing.proto_builders import function_def, node_def


def test_sizes_of_arguments_are_used() -> None:
    library = FunctionLibrary()
    negated = node_def("n", "Neg", "x", T="float32")
    library.add(function_def("f", {"x": "float32"}, {"y": ("float32", "n:y:0")}, negated))
    body = instantiate_function("f", {}, library, bundled_ops())
    node = body.graph.node("n")
    for shape in ((-1, 3), (), None):
        assert body_shapes(body, [shape], bundled_ops())(node) == (shape,)
    copied = body.copy(library)  # a body without a message, which passes make
    library.add_body("copy", copied)
    call = node_def("c", "PartitionedCall", "x", Tin=["float32"], Tout=["float32"])
    call.attr["f"].func.name = "copy"
    library.add(function_def("g", {"x": "float32"}, {"y": ("float32", "c:output:0")}, call))
    outer = instantiate_function("g", {}, library, bundled_ops())
    assert body_shapes(outer, [(2, -1)], bundled_ops())(outer.graph.node("c")) == ((2, -1),)
