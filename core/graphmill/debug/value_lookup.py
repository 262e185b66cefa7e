"""`find_value`: the value of a tensor in a recording, and its iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill.debug.recorded_graph import RESULT_PREFIX
from graphmill.debug.values import DEAD_VALUE
from graphmill.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from graphmill.debug.recording import Recording
    from graphmill.debug.values import RecordedValue


class FoundValue(NamedTuple):
    """The value of a tensor.

    Attributes:
        value: the value; None if it is dead.
        iteration: its frames and iterations, such as `outer:3/inner:0`; empty outside of loops.
    """

    value: RecordedValue | None
    iteration: str


def find_value(
    recording: Recording, tensor: str, iteration: str | None, stop: int | None
) -> FoundValue:
    """Return the latest value of a tensor; the arguments are those of `Recording.value`.

    Raises:
        NotFoundError: the step has no such node, or it has not run by then.
        InvalidArgumentError: the node has no such output.
    """
    name, output = split_tensor(recording, tensor)
    for graph, scope in recording.scopes():
        node = graph.index_of.get(name[len(scope) :]) if name.startswith(scope) else None
        if node is not None and node in graph.constants and not output:
            return FoundValue(recording.values[graph.constants[node]], "")
    fetch = f"{name}:{output}"
    if name not in recording.names() and fetch in recording.fetches:
        return _fetched(recording, fetch, stop)
    runs = recording.history(name, stop)
    for index in reversed(runs):
        event = recording.events[index]
        found = recording.iteration(event.instance)
        if iteration is not None and found != iteration:
            continue
        if output >= len(event.outputs):
            count = len(event.outputs)
            raise InvalidArgumentError(
                f"node '{name}' has {count} output{'s' * (count != 1)}, so no output {output}",
                node=name,
            )
        value = event.outputs[output]
        return FoundValue(None if value == DEAD_VALUE else recording.values[value], found)
    raise NotFoundError(
        f"node '{name}' has not run{_elsewhere(recording, runs, iteration)}", node=name
    )


def _fetched(recording: Recording, fetch: str, stop: int | None) -> FoundValue:
    """Return the value of a fetch whose node was folded or merged, computed by another node."""
    events = recording.history(f"{RESULT_PREFIX}{fetch}", stop)
    if not events:
        raise NotFoundError(f"the fetch '{fetch}' has not been computed yet")
    ((_, value),) = recording.inputs(recording.events[events[0]].instance)
    return FoundValue(value, "")


def split_tensor(recording: Recording, tensor: str) -> tuple[str, int]:
    """Return the node and the output of a tensor; without an output, it is output 0."""
    name, colon, output = tensor.rpartition(":")
    if colon and output.isdecimal() and tensor not in recording.names():
        return name, int(output)
    return tensor, 0


def _elsewhere(recording: Recording, runs: list[int], iteration: str | None) -> str:
    """Return the requested iteration, and those in which a node has run, as text."""
    if iteration is None:
        return ""
    known = dict.fromkeys(recording.iteration(recording.events[i].instance) for i in runs)
    if not any(known):
        return f" in iteration {iteration!r}" + "; it is outside of loops" * bool(known)
    latest = next(reversed(known))
    return f" in iteration {iteration!r}; it has run in {len(known)}, the latest is {latest!r}"
