"""`embedding_lookup`: matrices in one or several parts, and the limit of the norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill import functions as F

TABLE = np.arange(14, dtype=np.float32).reshape(7, 2)
IDS = np.array([[6, 0, 3], [3, 5, 1]], np.int64)


def parts_of(strategy: str) -> list[np.ndarray[Any, Any]]:
    """Return the table in three parts."""
    if strategy == "mod":
        return [TABLE[start::3] for start in range(3)]
    return [TABLE[:3], TABLE[3:5], TABLE[5:]]


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("kind", ["tensors", "variables", "reference variables"])
def test_rows_come_from_several_parts(strategy: str, kind: str) -> None:
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        parts: list[Any] = [F.constant(part) for part in parts_of(strategy)]
        if kind != "tensors":
            is_resource = kind == "variables"
            parts = [graphmill.Variable(part, use_resource=is_resource) for part in parts]
            session.run(graphmill.global_variables_initializer())
        rows = F.embedding_lookup(parts, IDS, strategy, "rows")
        assert rows.op.name == "rows"
        np.testing.assert_array_equal(session.run(rows), TABLE[IDS])


def test_index_beyond_all_parts_is_refused() -> None:
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        rows = F.embedding_lookup(parts_of("mod"), [7])
        with pytest.raises(errors.InvalidArgumentError):
            session.run(rows)


@pytest.mark.parametrize("count", [1, 3])
def test_long_rows_are_scaled(count: int) -> None:
    parts = [TABLE] if count == 1 else parts_of("mod")
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        rows = session.run(F.embedding_lookup(parts, IDS, max_norm=2.0))
    norms = np.linalg.norm(TABLE[IDS], axis=-1, keepdims=True)
    np.testing.assert_allclose(rows, TABLE[IDS] * np.minimum(1, 2 / norms), rtol=1e-6)


def test_no_part_and_unknown_strategy_are_refused() -> None:
    with graphmill.Graph().as_default():
        with pytest.raises(errors.InvalidArgumentError, match="at least one matrix"):
            F.embedding_lookup([], [0])
        with pytest.raises(errors.InvalidValueError, match="expected 'mod' or 'div'"):
            F.embedding_lookup(TABLE, [0], "block", "rows")


def test_name_as_third_argument_is_taken_with_a_warning() -> None:
    with (
        graphmill.Graph().as_default(),
        pytest.warns(DeprecationWarning, match="third argument of embedding_lookup"),
    ):
        assert F.embedding_lookup(TABLE, [0], "rows").op.name == "rows"


def test_gradients_reach_each_part() -> None:
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        parts = [graphmill.Variable(part) for part in parts_of("div")]
        session.run(graphmill.global_variables_initializer())
        total = F.reduce_sum(F.embedding_lookup(parts, [0, 0, 4], "div"))
        step = graphmill.train.GradientDescentOptimizer(1.0).minimize(total)
        session.run(step)
        changed = np.concatenate(session.run(parts)) - TABLE
    assert changed[:, 0].tolist() == [-2, 0, 0, 0, -1, 0, 0]
