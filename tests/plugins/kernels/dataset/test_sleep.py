"""A step that waits for a delayed element can be cancelled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill.testing.timeouts import no_leaked_threads

INT: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}
_HOUR = 3_600_000_000  # microseconds


def const(value: int) -> Any:
    return ops.array.const(value=np.int64(value), dtype=graphmill.as_dtype("int64"))


def slow_session(threads: int, buffer: int) -> tuple[graphmill.Session, Any]:
    """Return a session and the next element of a dataset that takes an hour per element."""
    graph = graphmill.Graph()
    with graph.as_default():
        numbers = ops.dataset.range_dataset(const(0), const(3), const(1), **INT)
        slow = ops.dataset.sleep_dataset(numbers, const(_HOUR), **INT)
        ahead = ops.dataset.prefetch_dataset(slow, const(buffer), **INT)
        handle = ops.dataset.iterator_v2(shared_name="", container="", **INT)
        start = ops.dataset.make_iterator(ahead, handle)
        value = ops.dataset.iterator_get_next(handle, **INT)[0]
    config = proto.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=threads)
    session = graphmill.Session(graph=graph, config=config)
    session.run(start)
    return session, value


@pytest.mark.parametrize("buffer", [0, 1])
@pytest.mark.parametrize("threads", [-1, 1])
def test_delayed_element_ends_with_the_deadline_of_its_step(threads: int, buffer: int) -> None:
    with no_leaked_threads():
        session, value = slow_session(threads, buffer)
        with pytest.raises(errors.DeadlineExceededError):
            session.run(value, options=proto.RunOptions(timeout_in_ms=50))
        session.close()
