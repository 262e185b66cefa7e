"""Errors of callers are also the built-in exceptions that TensorFlow's Python raises.

What TensorFlow 2.21 raises stands beside each case.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def session() -> Iterator[graphmill.Session]:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        graph.placeholder("int32", [], name="i")
        ops.math.exp(x, name="y")
    with graphmill.Session(graph=graph) as made:
        yield made


ROWS: list[tuple[Callable[[Any], Any], type[Exception], type[errors.OpError]]] = [
    (lambda s: s.run("nope:0"), ValueError, errors.NotFoundError),
    (lambda s: s.run("y:7"), ValueError, errors.NotFoundError),
    (lambda s: s.run("nope"), ValueError, errors.NotFoundError),
    (lambda s: s.run("y:x"), ValueError, errors.InvalidArgumentError),
    (lambda s: s.run(None), TypeError, errors.InvalidArgumentError),
    (lambda s: s.run(3), TypeError, errors.InvalidArgumentError),
    (lambda s: s.run("y:0", {"nope:0": 1}), TypeError, errors.NotFoundError),
    (lambda s: s.run("y:0", {3: 1}), TypeError, errors.InvalidArgumentError),
    (lambda s: s.run("y:0", [1]), TypeError, errors.InvalidArgumentError),
    (lambda s: s.run("y:0", {"x:0": np.ones(3)}), ValueError, errors.InvalidArgumentError),
    (lambda s: s.run("y:0", {"x:0": "text"}), ValueError, errors.InvalidArgumentError),
    (lambda s: s.run("i:0", {"i:0": 2**40}), TypeError, errors.InvalidArgumentError),
    (lambda s: s.run("i:0", {"i:0": object()}), TypeError, errors.InvalidArgumentError),
    (lambda s: s.graph.get_tensor_by_name("nope:0"), KeyError, errors.NotFoundError),
    (lambda s: s.graph.get_tensor_by_name("y"), ValueError, errors.InvalidArgumentError),
    (lambda s: s.graph.get_operation_by_name("nope"), KeyError, errors.NotFoundError),
]


@pytest.mark.parametrize(("call", "builtin", "status"), ROWS)
def test_both_kinds_of_except_clause_catch_it(
    session: Any, call: Any, builtin: Any, status: Any
) -> None:
    with pytest.raises(builtin) as caught:
        call(session)
    assert isinstance(caught.value, status)
    assert str(caught.value) == caught.value.message
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))


@pytest.mark.parametrize("builtin", [RuntimeError, errors.CancelledError])
def test_a_closed_session_is_a_runtime_error(session: Any, builtin: Any) -> None:
    call = session.make_callable("y:0", ["x:0"])
    session.close()
    for use in (lambda: session.run("y:0", {"x:0": [1, 2]}), lambda: call([1, 2])):
        with pytest.raises(builtin, match="Session has been closed"):
            use()


@pytest.mark.parametrize("builtin", [RuntimeError, errors.NotFoundError])
def test_an_empty_graph_is_a_runtime_error(builtin: Any) -> None:
    with (
        graphmill.Session(graph=graphmill.Graph()) as session,
        pytest.raises(builtin, match=r"graph is empty\. Add operations"),
    ):
        session.run("x:0")


def test_error_of_a_node_is_not_a_builtin_exception(session: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="You must feed") as caught:
        session.run("y:0")
    assert not isinstance(caught.value, (TypeError, ValueError, RuntimeError))
