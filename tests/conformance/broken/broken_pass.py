"""Deliberately broken graph passes; see `test_seeded_faults.py`."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.ops.attrs.attr_types import TensorAttr
from graphmill.plugin.markers import hookimpl
from graphmill.testing import timeouts
from graphmill.testing.conformance import PassTests

timeouts.TIMEOUT = 3.0
timeouts.within.__defaults__ = (3.0,)


def of(graph, *ops):
    return [node for node in graph.nodes if node.op in ops]


def copy(graph, node):
    """Add a copy of a node."""
    attrs = dict(node.attrs)
    made = graph.add_node(f"{node.name}/copy", node.op_def, node.sources, attrs=attrs)
    made.assigned_device = node.assigned_device
    return made


def replace(graph, node, source, output=0):
    graph.redirect(node, 0, source, output)
    graph.withdraw([node])


def sound(graph, options):
    pass


def swaps_inputs(graph, options):
    for node in of(graph, "FloorMod"):
        (a, x), (b, y) = node.sources
        graph.replace_input(node, 0, b, y)
        graph.replace_input(node, 1, a, x)


def changes_ops(graph, options):
    for node in of(graph, "Mul"):
        made = graph.add_node(
            f"{node.name}/sum", options.host.ops.get("AddV2"), node.sources, attrs=dict(node.attrs)
        )
        made.assigned_device = node.assigned_device
        replace(graph, node, made)


def removes_needed_nodes(graph, options):
    for node in of(graph, "Neg", "Abs", "Square", "Tanh", "Relu", "Exp"):
        replace(graph, node, *node.sources[0])


def changes_constants(graph, options):
    for node in of(graph, "Const"):
        value = np.asarray(node.attrs["value"].array)
        if value.dtype.kind in "fi" and value.size:
            graph.set_attr(node, "value", TensorAttr(value + value.dtype.type(1)))


def adds_loop_iteration(graph, options):
    for node in of(graph, "Less"):
        made = graph.add_node(
            f"{node.name}/or", options.host.ops.get("LessEqual"), node.sources, attrs=node.attrs
        )
        made.assigned_device = node.assigned_device
        replace(graph, node, made)


def merges_effects(graph, options):
    first, *others = of(graph, "Probe>Count") or [None]
    for node in others:
        for edge in list(node.out_edges):
            if edge.is_control and edge.dst is not graph.sink:
                graph.add_control_edge(first, edge.dst)
        replace(graph, node, first)


def duplicates_effects(graph, options):
    for node in of(graph, "Probe>Count"):
        made = copy(graph, node)
        for edge in list(node.out_edges):
            if edge.dst is not graph.sink:
                graph.add_control_edge(made, edge.dst)


def removes_effects(graph, options):
    for node in of(graph, "Probe>Count"):
        replace(graph, node, *node.sources[0])


class RunsUnneededNodes:
    def __call__(self, graph, options):
        for node in of(graph, "Mul"):
            made = graph.add_node(
                "unneeded", options.host.ops.get("Probe>Count"), [node.sources[0]], attrs={}
            )
            made.assigned_device = node.assigned_device
            graph.add_control_edge(made, node)


class IgnoresFeeds:
    """Keeps the values of constants, and uses them instead of values fed to these constants."""

    def __init__(self):
        self.known = {}

    def __call__(self, graph, options):
        for node in of(graph, "Const"):
            self.known[node.name] = node
        for node in of(graph, "_Arg"):
            const = next((c for name, c in self.known.items() if name in node.name), None)
            if const is not None and const.attrs["dtype"] == node.attrs["T"]:
                made = graph.add_node(
                    f"{node.name}/known", const.op_def, [], attrs=dict(const.attrs)
                )
                made.assigned_device = node.assigned_device
                graph.redirect(node, 0, made, 0)


def raises(graph, options):
    raise KeyError("a pass that fell over")


FAULTS = {
    "Sound": lambda: sound,
    "SwapsInputs": lambda: swaps_inputs,
    "ChangesOps": lambda: changes_ops,
    "RemovesNeededNodes": lambda: removes_needed_nodes,
    "ChangesConstants": lambda: changes_constants,
    "AddsLoopIteration": lambda: adds_loop_iteration,
    "MergesEffects": lambda: merges_effects,
    "DuplicatesEffects": lambda: duplicates_effects,
    "RemovesEffects": lambda: removes_effects,
    "RunsUnneededNodes": RunsUnneededNodes,
    "IgnoresFeeds": IgnoresFeeds,
    "Raises": lambda: raises,
}


def suite(name, make):
    class Suite(PassTests):
        pass_name = "faulty"
        seeds = 3

        @pytest.fixture
        def plugins(self):
            class Plugin:
                @hookimpl
                def graphmill_register_passes(self, passes):
                    passes.add("faulty", make(), phase="POST_REWRITE_FOR_EXEC")

            return [Plugin()]

    Suite.__name__ = Suite.__qualname__ = f"Test{name}"
    return Suite


for fault, maker in FAULTS.items():
    globals()[f"Test{fault}"] = suite(fault, maker)
