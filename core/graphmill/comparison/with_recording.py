"""Compare a step of a session with a recording of `graphmill.debug`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.comparison.sessions import compare_with_values
from graphmill.comparison.step_tensors import step_tensors
from graphmill.debug.step_replay import recorded_feed
from graphmill.debug.values import DEAD_VALUE
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graphmill.comparison.differences import Tolerance
    from graphmill.comparison.report import Comparison
    from graphmill.debug.recording import Recording
    from graphmill.session.session import Session


def compare_with_recording(
    session: Session,
    recording: Recording,
    *,
    tolerance: Tolerance | None = None,
    timeout: float | None = None,
) -> Comparison:
    """Run a step with the feeds of a recording, and compare it with the recording.

    Args:
        session: the session; its graph has the tensors of the recording. Tensors that had exactly
            one value in the step are compared.
        recording: a step that ran to its end.
        tolerance: which differences are accepted; `Tolerance()` if not given.
        timeout: the seconds that the step may take; None for no limit.

    Raises:
        InvalidArgumentError: the recording lacks the value of a feed or of a fetch.
        NotFoundError: the graph has no such tensor.
        OpError: the step failed.
    """
    feeds = {name: recorded_feed(recording, name) for name in recording.feeds}
    fetches = list(recording.fetches)
    recorded = _recorded(recording)
    results = zip(fetches, recording.results(), strict=True)
    outputs = {name: value.array for name, value in results if value is not None}
    missing = [name for name in fetches if outputs.get(name) is None]
    if missing or not fetches:
        raise InvalidArgumentError(
            f"the recording has no value of {', '.join(missing) or 'any fetch'}; record a step "
            "that ends, with a larger max_value_bytes if the value is large"
        )
    on_way, _ = step_tensors(session.step_graph(fetches, list(feeds)))
    shared = {tensor.name: recorded[tensor.name] for tensor in on_way if tensor.name in recorded}
    return compare_with_values(
        session,
        shared | outputs,
        feeds,
        tolerance=tolerance,
        fetches=fetches,
        timeout=timeout,
    )


def _recorded(recording: Recording) -> dict[str, Any]:
    """Return the stored values of tensors that have one value in the step, by name."""
    found: dict[str, Any] = {}
    for run in recording.runs:
        if run.caller is None:
            graph = recording.graphs[run.graph]
            for node, index in graph.constants.items():
                if recording.values[index].array is not None:
                    found[f"{graph.nodes[node].name}:0"] = recording.values[index].array
    for event in recording.events:
        if recording.runs[event.instance.run].caller is not None or event.instance.numbers:
            continue
        name = recording.name(event.instance)
        for output, index in enumerate(event.outputs):
            array = None if index == DEAD_VALUE else recording.values[index].array
            if array is not None:
                found[f"{name}:{output}"] = array
    return found
