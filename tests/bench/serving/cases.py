"""The timed cases: graph, tensor size, steps per round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE: Final = 1 << 20


class Case(NamedTuple):
    """One case.

    Attributes:
        name: its name in the table.
        graph: `alone` or `pair`.
        num_bytes: the size of the tensor that is fed and fetched.
        steps: the number of steps of a thread in a round.
        threads: the number of threads that run steps at the same time.
    """

    name: str
    graph: str
    num_bytes: int
    steps: int
    threads: int = 1


CASES: Final = (
    Case("identity", "alone", 4, 300),
    Case("identity, 16 threads", "alone", 4, 40, 16),
    Case("echo of 1 MB", "alone", MEGABYTE, 30),
    Case("echo of 16 MB", "alone", 16 * MEGABYTE, 5),
    Case("echo of 64 MB", "alone", 64 * MEGABYTE, 2),
    Case("two tasks, small", "pair", 8, 150),
    Case("two tasks, 16 MB", "pair", 16 * MEGABYTE, 4),
)


def write_graphs(folder: Path) -> None:
    """Write the graphs of the cases as `NAME.pb`, with feed `x` and fetch `y`."""
    import graphmill
    from graphmill import ops

    alone, pair = graphmill.Graph(), graphmill.Graph()
    with alone.as_default():
        ops.array.identity(alone.placeholder("float32", [None], name="x"), name="y")
    with pair.as_default():
        first, second = "/job:worker/task:0", "/job:worker/task:1"
        with pair.device(first):
            sent = ops.array.identity(pair.placeholder("float32", [None], name="x"))
        with pair.device(second):
            far = ops.math.neg(sent)
        with pair.device(first):
            ops.math.neg(far, name="y")
    for name, graph in (("alone", alone), ("pair", pair)):
        (folder / f"{name}.pb").write_bytes(graph.as_graph_def().SerializeToString())
