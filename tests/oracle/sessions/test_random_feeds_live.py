"""Random feeds and fetches give equal values, types, structures and errors in both systems.

`GRAPHMILL_FEEDS=1000` compares 1,000 programs, `GRAPHMILL_FEEDS=700:800` those of the seeds 700 to
799.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.oracle.sessions.random_feeds import calls_of, graph_message
from tests.oracle.sessions.runtimes import Raised, graphmill_runtime, tensorflow_runtime

# TensorFlow lets NumPy convert a feed, which then warns about the values that it changes.
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore::RuntimeWarning:tensorflow"),
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning:tensorflow"),
]


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_FEEDS", "100").rpartition(":")
    return range(int(first or 0), int(end))


def session_of(runtime):
    """Start a session of the graph, with values in its variables."""
    graph = runtime.api.Graph()
    runtime.import_nodes(graph, graph_message().SerializeToString())
    graph.prevent_feeding(graph.get_tensor_by_name("protected:0"))
    session = runtime.api.Session(graph=graph)
    session.run(["init", "old_init"])
    return session


def outcome(action):
    """Return a value with its types, or the exception."""
    try:
        return described(action())
    except Exception as error:  # noqa: BLE001 - which exception it is gets compared
        return Raised([one.__name__ for one in type(error).__mro__], str(error))


def described(value):
    """Return a structure with the names of its types, and arrays as lists."""
    if isinstance(value, dict):
        return [type(value).__name__, [[key, described(one)] for key, one in value.items()]]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [described(one) for one in value]]
    if isinstance(value, (np.ndarray, np.generic)):
        plain = value.tolist()
        return [type(value).__name__, str(value.dtype), repr(plain), np.shape(value)]
    return [type(value).__name__, repr(value)]


def accepted(text, is_lossy, expected, actual):
    """Return whether a difference is one of those in the page of differences.

    Args:
        text: the description of the call.
        is_lossy: whether graphmill may refuse what is fed.
        expected: TensorFlow's outcome.
        actual: graphmill's.
    """
    if isinstance(expected, Raised):
        if text.startswith("partial"):
            # An operation is refused; the error of a wrong name is an AttributeError by mistake.
            if expected.message.startswith("partial_run() requires empty `target_list`"):
                return True
            if expected.names[0] == "AttributeError":
                return isinstance(actual, Raised)
        if expected.names[0] in {"InternalError", "OverflowError", "UnicodeDecodeError"}:
            return isinstance(actual, Raised) and "InvalidValueError" in actual.names
    if isinstance(actual, Raised) and "is fed more than once" in actual.message:
        return True
    is_refused = isinstance(actual, Raised) and "InvalidValueError" in actual.names
    return is_lossy and is_refused and not isinstance(expected, Raised)


def compare(tf, seed):
    """Return the calls of a seed whose outcomes differ."""
    found = []
    with session_of(tensorflow_runtime(tf)) as theirs, session_of(graphmill_runtime()) as ours:
        pairs = zip(calls_of(seed, theirs), calls_of(seed, ours), strict=True)
        for (text, is_lossy, their_call), (_, _, our_call) in pairs:
            expected, actual = outcome(their_call), outcome(our_call)
            if expected == actual or accepted(text, is_lossy, expected, actual):
                continue
            found.append(f"{text}\n  TensorFlow: {expected!r}\n  graphmill: {actual!r}")
    return found


@pytest.mark.parametrize("seed", seeds())
def test_odd_feeds_do_what_they_do_in_tensorflow(seed, tf):
    found = compare(tf, seed)
    assert not found, "\n".join(found)
