"""Compare an executor with the reference evaluator, on random graphs with control flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import proto
from graphmill.errors import InvalidArgumentError, OpError
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.runtime.dead import DEAD
from graphmill.session.session import Session
from graphmill.testing.oracle.reference_evaluator import ReferenceSession

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.testing.generators.control_flow_graphs import StructuredGraph

_DEAD_FETCH_MESSAGE = "was not evaluated"


def reference_values(made: StructuredGraph, host: Host) -> dict[str, Any]:
    """Return the reference value of each fetch; `DEAD` for a dead one."""
    reference = ReferenceSession(graph_to_graph_def(made.graph), host)
    if made.start:
        reference.run([made.start])
    return dict(zip(made.fetches, reference.run(made.fetches, made.feeds), strict=True))


def find_difference(
    made: StructuredGraph,
    expected: dict[str, Any],
    host: Host,
    executor_type: str,
    num_devices: int = 1,
) -> str:
    """Run a graph in a session; return the difference from the expected values, or "".

    One step fetches all live tensors. Each dead tensor is fetched in a step of its own, which must
    fail.

    Args:
        made: the graph.
        expected: the result of `reference_values`.
        host: the host of the session.
        executor_type: the executor to test.
        num_devices: the number of CPU devices of the session.
    """
    config = proto.ConfigProto(device_count={"CPU": num_devices})
    config.experimental.executor_type = executor_type
    # Compilation is off: the test is about the executors.
    config.graph_options.optimizer_options.global_jit_level = proto.OptimizerOptions.OFF
    alive = [name for name, value in expected.items() if value is not DEAD]
    where = f"{made.name} in {executor_type} on {num_devices} CPU"
    with Session(graph=graph_to_graph_def(made.graph), config=config, host=host) as session:
        try:
            if made.start:
                session.run([], targets=[made.start])
            actual = session.run(alive, made.feeds) if alive else []
        except OpError as error:
            return f"{where}: {error}"
        for name, value in zip(alive, actual, strict=True):
            if (
                value != expected[name]
                or np.asarray(value).dtype != np.asarray(expected[name]).dtype
            ):
                return f"{where}: {name} is {value!r}, not {expected[name]!r}"
        for name in expected.keys() - alive:
            detail = _error_of_fetch(session, name, made.feeds)
            if _DEAD_FETCH_MESSAGE not in detail:
                return f"{where}: {name} is dead, but: {detail}"
    return ""


def _error_of_fetch(session: Session, name: str, feeds: dict[str, Any]) -> str:
    try:
        return f"it is {session.run(name, feeds)!r}"
    except InvalidArgumentError as error:
        return error.message
