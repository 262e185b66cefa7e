"""Random graphs with one fault: in a node, an attr, an edge, a feed or a fetch."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import proto
from graphmill.testing.generators.dataflow_graphs import random_graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.ops.definition.op_registry import OpRegistry


class WrongProgram:
    """A graph, feeds and fetches, and the name of the fault in them."""

    def __init__(self, seed: int, ops: OpRegistry) -> None:
        made = random_graph(seed, ops, nodes=8)
        self.draw = random.Random(seed)
        self.graph_def = proto.GraphDef.FromString(made.graph_def.SerializeToString())
        self.feeds: dict[str, Any] = dict(made.feeds)
        self.fetches = list(made.fetches)
        faults: list[Callable[[], None]] = [
            self.feed_of_longer_dimension, self.feed_of_another_rank, self.feed_of_text,
            self.feed_of_complex, self.missing_feed, self.unknown_feed, self.unknown_fetch,
            self.unknown_output, self.lost_input, self.added_input, self.other_type, self.lost_attr,
            self.attr_of_another_kind, self.unknown_input, self.repeated_name, self.unknown_op,
            self.cycle, self.unknown_control, self.bad_index, self.other_constant, self.bad_device,
            self.value_before_control, self.bad_name,
        ]  # fmt: skip
        fault = self.draw.choice(faults)
        self.fault = fault.__name__
        fault()

    def node(self, with_input: bool = True) -> Any:
        """Return a random node that is not fed."""
        nodes = [n for n in self.graph_def.node if n.op != "Placeholder"]
        wanted = [n for n in nodes if n.input or not with_input]
        return self.draw.choice(wanted or nodes or list(self.graph_def.node))

    def fed(self) -> str:
        return self.draw.choice(sorted(self.feeds) or ["nothing:0"])

    def feed_of_longer_dimension(self) -> None:
        name = self.fed()
        value = np.asarray(self.feeds.get(name, 0))
        self.feeds[name] = (
            np.repeat(value[None], 2, 0) if value.ndim == 0 else np.repeat(value, 3, 0)
        )

    def feed_of_another_rank(self) -> None:
        name = self.fed()
        self.feeds[name] = np.asarray(self.feeds.get(name, 0))[None, None]

    def feed_of_text(self) -> None:
        name = self.fed()
        value = np.asarray(self.feeds.get(name, 0))
        if value.dtype != bool:  # TensorFlow takes any text for true
            self.feeds[name] = np.full(value.shape, "text", object)

    def feed_of_complex(self) -> None:
        name = self.fed()
        value = np.asarray(self.feeds.get(name, 0))
        if value.dtype != bool:  # TensorFlow takes any text for true
            self.feeds[name] = ["a", value.tolist()]

    def missing_feed(self) -> None:
        self.feeds.pop(self.fed(), None)
        self.fetches = [f"{n.name}:0" for n in self.graph_def.node if n.op == "Placeholder"]

    def unknown_feed(self) -> None:
        self.feeds["nowhere:0"] = np.float32(1)

    def unknown_fetch(self) -> None:
        self.fetches.append("nowhere:0")

    def unknown_output(self) -> None:
        self.fetches.append(f"{self.node().name}:{self.draw.choice([7, 99])}")

    def lost_input(self) -> None:
        node = self.node()
        if node.input:
            del node.input[-1]

    def added_input(self) -> None:
        node = self.node()
        node.input.append(node.input[0] if node.input else self.graph_def.node[0].name)

    def other_type(self) -> None:
        node = self.node()
        keys = [key for key in node.attr if node.attr[key].type]
        if keys:
            node.attr[self.draw.choice(sorted(keys))].type = self.draw.choice([7, 10, 3, 999])

    def lost_attr(self) -> None:
        node = self.node()
        if node.attr:
            del node.attr[self.draw.choice(sorted(node.attr))]

    def attr_of_another_kind(self) -> None:
        node = self.node()
        if node.attr:
            node.attr[self.draw.choice(sorted(node.attr))].s = b"text"

    def unknown_input(self) -> None:
        node = self.node()
        if node.input:
            node.input[0] = self.draw.choice(["nowhere", "nowhere:1"])

    def repeated_name(self) -> None:
        self.graph_def.node.add().CopyFrom(self.node())

    def unknown_op(self) -> None:
        self.node().op = "NoSuchOp"

    def cycle(self) -> None:
        node = self.node()
        if node.input:
            node.input[0] = node.name

    def unknown_control(self) -> None:
        self.node().input.append("^nowhere")

    def value_before_control(self) -> None:
        self.node().input.insert(0, f"^{self.graph_def.node[0].name}")

    def bad_index(self) -> None:
        node = self.node()
        if node.input:
            node.input[0] = node.input[0].split(":")[0] + ":5"

    def other_constant(self) -> None:
        constants = [n for n in self.graph_def.node if n.op == "Const"]
        if constants:
            value = self.draw.choice(constants).attr["value"].tensor
            value.tensor_shape.dim.add().size = 3

    def bad_device(self) -> None:
        self.node().device = self.draw.choice(
            ["/device:GPU:7", "/job:nowhere/task:3", "not a device"]
        )

    def bad_name(self) -> None:
        self.node().name = "a name with spaces"
