"""Precomputed properties of a graph (clause E3)."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill import dtypes, errors
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.graph.transfer_ops import NEVER_DEAD_ATTR
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.runtime.kernels.kernel import KernelDef
from graphmill.runtime.kernels.op_kernel import OpKernel
from graphmill.testing.proto_builders import const_def, graph_def, node_def
from graphmill_plugins.default_executor.graph_view import (
    ENTER,
    EXIT,
    NEXT_ITERATION,
    PLAIN,
    GraphView,
)

from .conftest import loop


def view_of(*nodes: Any, **kernels: KernelDef) -> tuple[GraphView, dict[str, Any]]:
    def kernel(node: Any) -> OpKernel:
        definition = kernels.get(node.name, KernelDef((node.op,), lambda: 0))
        return OpKernel(definition.function, definition, node.name, node.op)

    view = GraphView(graph_from_graph_def(graph_def(*nodes), OpRegistry()), kernel)
    return view, {item.node.name: item for item in view.items}


ARG = node_def("arg", "_Arg", T="float32", index=0)


def neg(name: str, *inputs: str) -> Any:
    return node_def(name, "Neg", *inputs, T="float32")


def test_e3_inputs_of_all_nodes_are_in_one_flat_array() -> None:
    add = node_def("add", "AddV2", "n", "arg", T="float32")
    view, items = view_of(ARG, neg("n", "arg"), add)
    spans = [(item.input_start, item.input_stop) for item in view.items]
    assert spans == [(0, 0), (0, 1), (1, 3)]
    assert view.root_frame.total_inputs == 3
    assert items["n"].first_edges == ((1, items["add"]),)
    assert items["add"].cleared == [None, None]


def test_e3_arguments_results_and_roots_are_distinguished() -> None:
    view, items = view_of(
        ARG,
        node_def("second", "_Arg", T="float32", index=1),
        neg("n", "arg"),
        node_def("r", "_Retval", "n", T="float32", index=2),
        node_def("alone", "NoOp"),
        node_def("waits", "NoOp", "^alone"),
    )
    assert [(item.node.name, item.index) for item in view.args] == [("arg", 0), ("second", 1)]
    assert view.roots == [items["alone"]]
    assert (items["r"].is_retval, items["r"].index, items["n"].index) == (True, 2, -1)
    assert items["arg"].kernel is items["r"].kernel is None
    assert items["alone"].control_edges == (items["waits"],)
    assert not view.has_control_flow


def test_e3_kernel_call_convention_is_precomputed() -> None:
    def function() -> None:
        """A placeholder for a kernel."""

    _, items = view_of(
        ARG,
        *(neg(name, "arg") for name in ("plain", "stateful", "waiting", "expensive")),
        stateful=KernelDef(("Neg",), function, stateful=True),
        waiting=KernelDef(("Neg",), function, stateful=True, async_=True),
        expensive=KernelDef(("Neg",), function, expensive=True),
    )
    found = {
        name: (item.is_plain, item.takes_context, item.is_async, item.is_expensive)
        for name, item in items.items()
        if name != "arg"
    }
    assert found == {
        "plain": (True, False, False, False),
        "stateful": (False, True, False, False),
        "waiting": (False, True, True, False),
        "expensive": (False, False, False, True),
    }


def test_e3_dereferenced_inputs_are_precomputed() -> None:
    variable = node_def("v", "VariableV2", dtype="float32", shape=None)
    _, items = view_of(variable, neg("n", "v"), node_def("a", "Assign", "v", "v", T="float32"))
    assert items["n"].ref_inputs == (0,)
    assert not items["n"].is_plain
    assert items["a"].ref_inputs == (1,)
    assert items["v"].output_dtype is None
    assert items["n"].output_dtype is dtypes.float32.as_numpy_dtype


def test_e3_constants_are_inlined_at_their_consumers() -> None:
    view, items = view_of(
        const_def("c", 2.0),
        node_def("add", "AddV2", "c", "c", T="float32"),
        node_def("after", "NoOp", "^c"),
        c=KernelDef(("Const",), lambda: "value"),
    )
    root = view.root_frame
    assert items["c"].is_constant
    assert root.initial_inputs == ["value", "value"]
    assert root.initial_pending == [0, 0, 0]
    assert view.roots == [items["add"], items["after"]]


def test_e3_constant_with_control_input_or_merge_consumer_is_executed() -> None:
    merge = node_def("m", "Merge", "c", T="float32", N=1)
    late = const_def("late", 1.0)
    late.input.append("^arg")
    view, items = view_of(ARG, const_def("c", 2.0), merge, late)
    assert not items["c"].is_constant
    assert not items["late"].is_constant
    assert view.roots == [items["c"]]
    assert view.has_control_flow


def test_e3_the_nodes_of_a_loop_belong_to_its_frame(drawing: Any) -> None:
    nodes = loop(drawing, "w", drawing.source("x"), parallel=3)
    view = drawing.view()
    items = {item.node.name: item for item in view.items}
    frame = items[nodes["enter"].name].child_frame
    assert (frame.name, frame.path, frame.parallel_iterations) == ("w", ("w",), 3)
    assert frame.input_count == 1
    assert items[nodes["enter"].name] in view.root_frame.items
    assert items[nodes["exit"].name] in frame.items
    kinds = {items[nodes[name].name].kind for name in ("enter", "exit", "switch")}
    assert kinds == {ENTER, EXIT, PLAIN}
    assert NEXT_ITERATION in {item.kind for item in frame.items}
    assert items[nodes["merge"].name].is_merge
    assert [item.id_in_frame for item in frame.items] == list(range(len(frame.items)))


def test_e3_edges_to_source_and_sink_do_not_count() -> None:
    graph = graph_from_graph_def(graph_def(ARG, neg("n", "arg")), OpRegistry())
    graph.connect_source_and_sink()
    view = GraphView(graph, lambda node: OpKernel(abs, KernelDef(("Neg",), abs), "n", "Neg"))
    assert [item.pending for item in view.items] == [0, 1]
    assert [item.control_edges for item in view.items] == [(), ()]


def test_e3_a_kernel_that_cannot_be_made_names_its_node() -> None:
    def fail(node: Any) -> OpKernel:
        raise errors.InvalidArgumentError("no such thing")

    graph = graph_from_graph_def(graph_def(ARG, neg("n", "arg")), OpRegistry())
    with pytest.raises(errors.InvalidArgumentError) as caught:
        GraphView(graph, fail)
    assert (caught.value.node, caught.value.op_type) == ("n", "Neg")


def test_e3_node_items_have_a_readable_repr() -> None:
    _, items = view_of(ARG)
    assert repr(items["arg"]) == "<NodeItem 0 'arg'>"


@pytest.mark.parametrize(("never_dead", "has_control_flow"), [(True, False), (False, True)])
def test_e3_received_value_may_be_dead_by_default(never_dead: bool, has_control_flow: bool) -> None:
    attrs: dict[str, Any] = {
        "tensor_type": "float32",
        "tensor_name": b"t",
        "send_device": b"/a",
        "recv_device": b"/b",
        "send_device_incarnation": 1,
        "client_terminated": False,
    }
    if never_dead:
        attrs[NEVER_DEAD_ATTR] = True
    view, _ = view_of(node_def("r", "_Recv", **attrs))
    assert view.has_control_flow is has_control_flow


@pytest.mark.parametrize("forwards", [False, True])
def test_outputs_of_a_kernel_that_forwards_are_not_checked(forwards: bool) -> None:
    definition = KernelDef(("Neg",), abs, forwards=forwards)
    _, items = view_of(ARG, neg("n", "arg"), n=definition)
    assert items["n"].forwards == forwards
