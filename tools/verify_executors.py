"""Compare every executor with the reference evaluator and TensorFlow on random structured graphs.

    python tools/verify_executors.py --seeds 0:100000
    python tools/verify_executors.py --seeds 0:2000 --chaos
    python tools/verify_executors.py --seeds 0:2000 --references
    python tools/verify_executors.py --seeds 0:5000 --tensorflow

CI checks a few hundred graphs (tests/integration/control_flow/test_structured_graphs.py). The runs
and their results are documented in docs/explanation/verification.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

import _checkout  # noqa: F401 - finds graphmill in this checkout

from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.dead import DEAD
from graphmill.testing.differential.executors import find_difference, reference_values
from graphmill.testing.fakes.chaos_plugin import ChaosPlugin
from graphmill.testing.generators.control_flow_graphs import structured_graph
from graphmill_plugins.default_executor import executor_state
from graphmill_plugins.default_executor.seeded_executor import SeededExecutorFactory

if TYPE_CHECKING:
    from graphmill.testing.generators.control_flow_graphs import StructuredGraph

CPUS = tuple(f"/device:CPU:{index}" for index in range(3))


class Seeded:
    """Registers the executor that runs ready nodes in random order."""

    @hookimpl
    def graphmill_register_executors(self, executors: Any) -> None:
        """Register the executor."""
        executors.add("SEEDED", SeededExecutorFactory(0))


def main() -> int:
    """Check the seeds; return the number of wrong results, at most 100."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:1000", help="FIRST:LAST, excluding LAST")
    parser.add_argument("--executors", default="DEFAULT,INLINE,SEEDED")
    parser.add_argument("--orders", type=int, default=2, help="random orders per graph")
    parser.add_argument(
        "--spread", type=int, default=4, help="also run every Nth graph on three devices"
    )
    parser.add_argument("--chaos", action="store_true", help="let kernels end in other threads")
    parser.add_argument(
        "--references", action="store_true", help="let references pass through loops and branches"
    )
    parser.add_argument("--tensorflow", action="store_true", help="compare with TensorFlow only")
    arguments = parser.parse_args()
    first, last = map(int, arguments.seeds.split(":"))
    plugins: list[object] = [Seeded()]
    if arguments.chaos:
        plugins.append(ChaosPlugin())
        executor_state.WORTH_A_THREAD_NS = 0
    host = Host(plugins=plugins)
    plain = Host()
    start, wrong, dead, steps = time.monotonic(), 0, 0, 0
    for seed in range(first, last):
        graph = structured_graph(seed, host.ops, references=arguments.references)
        expected = reference_values(graph, plain)
        dead += sum(value is DEAD for value in expected.values())
        if arguments.tensorflow:
            problems = [differs_from_tensorflow(graph, expected)]
        else:
            problems = check(seed, graph, expected, (host, plain), arguments)
        steps += len(problems)
        for text in filter(None, problems):
            wrong += 1
            print(text, flush=True)
        if not (seed + 1) % 5000:
            print(f"{seed + 1} done, {time.monotonic() - start:.0f} s, {wrong} wrong", flush=True)
    print(
        f"{last - first} graphs, {steps} runs, {dead} dead fetches, {wrong} wrong, "
        f"{time.monotonic() - start:.0f} s"
    )
    return min(wrong, 100)


def check(
    seed: int,
    graph: StructuredGraph,
    expected: dict[str, Any],
    hosts: tuple[Host, Host],
    arguments: Any,
) -> list[str]:
    """Return the differences in each executor, for some seeds also on three devices."""
    host, plain = hosts
    problems = []
    for executor in arguments.executors.split(","):
        times = arguments.orders if executor == "SEEDED" else 1
        problems += [find_difference(graph, expected, host, executor) for _ in range(times)]
    if not seed % arguments.spread and not arguments.references:
        spread = structured_graph(seed, host.ops, devices=CPUS)
        values = reference_values(spread, plain)
        problems += [
            find_difference(spread, values, host, executor, len(CPUS))
            for executor in arguments.executors.split(",")
        ]
    return problems


def differs_from_tensorflow(structured: StructuredGraph, expected: dict[str, Any]) -> str:
    """Return the first difference between TensorFlow and the reference evaluator, or ""."""
    import tensorflow as tf

    from graphmill.testing.oracle.tensorflow_oracle import session_config

    content = graph_to_graph_def(structured.graph).SerializeToString()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(content), name="")
    with tf.compat.v1.Session(graph=graph, config=session_config()) as session:
        if structured.start:
            session.run(structured.start)
        for name, value in expected.items():
            try:
                actual = session.run(name, structured.feeds)
            except tf.errors.InvalidArgumentError as error:
                actual = DEAD if "Retval[0] does not have value" in str(error) else error
            if actual is not value and (DEAD in (actual, value) or actual != value):
                return f"{structured.name}: {name} is {actual!r} in TensorFlow, not {value!r}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
