"""Compare the steps of two sessions, or the step of a session with values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.comparison.differences import Tolerance, difference_of
from graphmill.comparison.report import Comparison
from graphmill.comparison.step_tensors import step_tensors
from graphmill.errors import InvalidArgumentError
from graphmill.session.timeouts import timeout_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from graphmill.comparison.differences import TensorDifference
    from graphmill.comparison.step_tensors import StepTensor
    from graphmill.session.session import Session

_OTHER_GRAPH = "the other graph has no such tensor"
_NO_REFERENCE = "there is no value to compare it with"


def compare_sessions(
    a: Session,
    b: Session,
    fetches: Sequence[str],
    feeds: Mapping[str, Any] | None = None,
    *,
    tolerance: Tolerance | None = None,
    every_tensor: bool = False,
    timeout: float | None = None,
) -> Comparison:
    """Run the same step in two sessions, and compare the fetches.

    If they differ, both run another step that fetches all tensors on the way, to find the first
    one that differs. Sessions with variables, iterators or random numbers should be in the same
    state; both then take the same steps.

    Args:
        a, b: the sessions, each with a graph that has the fetches and feeds; `b` is the reference.
        fetches: names of tensors.
        feeds: values by tensor name.
        tolerance: which differences are accepted; `Tolerance()` if not given.
        every_tensor: compare the tensors on the way even if the fetches agree.
        timeout: the seconds that each step may take; None for no limit.

    Raises:
        NotFoundError: a graph has no such tensor.
        UnimplementedError: a session is on a server.
        OpError: a step failed.
    """
    accepted = tolerance or Tolerance()
    names = list(fetches)
    fed = dict(feeds or {})
    left, right = _run(a, names, fed, timeout), _run(b, names, fed, timeout)
    outputs = tuple(difference_of(name, left[name], right[name], accepted) for name in names)
    comparison = Comparison(outputs)
    if comparison.agrees and not every_tensor:
        return comparison
    on_way, skipped = step_tensors(a.step_graph(names, list(fed)))
    others = {tensor.name for tensor in step_tensors(b.step_graph(names, list(fed)))[0]}
    skipped |= {tensor.name: _OTHER_GRAPH for tensor in on_way if tensor.name not in others}
    shared = [tensor for tensor in on_way if tensor.name in others]
    every = list(dict.fromkeys([*(tensor.name for tensor in shared), *names]))
    left, right = _run(a, every, fed, timeout), _run(b, every, fed, timeout)
    differences = [difference_of(name, left[name], right[name], accepted) for name in names]
    notes = []
    if not comparison.agrees and not any(difference.is_outside for difference in differences):
        notes.append(
            "With all tensors fetched, the outputs agree: the difference comes from computing "
            "several nodes together"
        )
    return _compare_intermediate(outputs, shared, left, right, accepted, skipped, names, notes)


def compare_with_values(
    session: Session,
    references: Mapping[str, Any],
    feeds: Mapping[str, Any] | None = None,
    *,
    tolerance: Tolerance | None = None,
    fetches: Sequence[str] | None = None,
    timeout: float | None = None,
) -> Comparison:
    """Run a step, and compare tensors with reference values, such as those of another system.

    Args:
        session: the session.
        references: the expected values by tensor name, such as `scores:0`.
        feeds: values by tensor name.
        tolerance: which differences are accepted; `Tolerance()` if not given.
        fetches: those of the tensors that decide whether the step agrees; all if not given.
        timeout: the seconds that the step may take; None for no limit.

    Raises:
        InvalidArgumentError: there are no references, or none for a fetch.
        NotFoundError: the graph has no such tensor.
        UnimplementedError: the session is on a server.
        OpError: the step failed.
    """
    if not references:
        raise InvalidArgumentError("there are no reference values to compare with")
    chosen = list(references) if fetches is None else list(fetches)
    missing = [name for name in chosen if name not in references]
    if missing:
        raise InvalidArgumentError(
            f"there is no reference value for {', '.join(map(repr, missing))}; fetches must be "
            "among the references"
        )
    accepted = tolerance or Tolerance()
    fed = dict(feeds or {})
    names = list(references)
    values = _run(session, names, fed, timeout)
    on_way, skipped = step_tensors(session.step_graph(names, list(fed)))
    known = [tensor for tensor in on_way if tensor.name in references]
    skipped |= {tensor.name: _NO_REFERENCE for tensor in on_way if tensor.name not in references}
    outputs = tuple(
        difference_of(name, values[name], references[name], accepted) for name in chosen
    )
    return _compare_intermediate(outputs, known, values, references, accepted, skipped, chosen, [])


def _compare_intermediate(
    outputs: tuple[TensorDifference, ...],
    tensors: Sequence[StepTensor],
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    tolerance: Tolerance,
    skipped: dict[str, str],
    fetches: Iterable[str],
    notes: list[str],
) -> Comparison:
    """Compare all intermediate tensors; the result has the path from the first difference."""
    differences = [
        difference_of(tensor.name, left[tensor.name], right[tensor.name], tolerance, tensor.op)
        for tensor in tensors
    ]
    outside = {difference.tensor for difference in differences if difference.is_outside}
    first = next((tensor for tensor in tensors if tensor.name in outside), None)
    if first is not None and "rng" in first.effects:
        notes.append(
            f"'{first.name}' ({first.op}) is random: set its seeds, or feed it, to compare what "
            "follows"
        )
    return Comparison(
        outputs,
        tuple(difference for difference in differences if difference.max_ulps or difference.reason),
        len(differences),
        skipped,
        () if first is None else _path(first.name, tensors, outside, set(fetches)),
        tuple(notes),
    )


def _path(
    first: str, tensors: Sequence[StepTensor], outside: set[str], fetches: set[str]
) -> tuple[str, ...]:
    """Return the shortest path from a tensor to a fetch through tensors that differ."""
    came_from: dict[str, str] = {first: ""}
    for tensor in tensors:  # in the order of computation, so one pass suffices
        source = next((name for name in tensor.inputs if name in came_from), None)
        if source is not None and tensor.name in outside:
            came_from.setdefault(tensor.name, source)
    # The output of a call that is inlined is not among the tensors: end at the last one before it.
    end = next((name for name in fetches if name in came_from), list(came_from)[-1])
    path = [end]
    while came_from[path[-1]]:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


def _run(
    session: Session, names: Sequence[str], feeds: Mapping[str, Any], timeout: float | None
) -> dict[str, NDArray[Any]]:
    values = session.run(list(names), dict(feeds), options=timeout_options(timeout))
    return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}
