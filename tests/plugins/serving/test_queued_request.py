"""Requests are combined if their rows and the types and other sizes of their inputs agree."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.serving.requests.queued_request import QueuedRequest


def request(*shapes, dtype=np.float32, outputs=("y",)):
    inputs = {f"x{i}": np.zeros(shape, dtype) for i, shape in enumerate(shapes)}
    return QueuedRequest(inputs, outputs, 0.0)


@pytest.mark.parametrize(
    ("shapes", "rows"),
    [
        ([], 0),
        ([()], 0),
        ([(), ()], 0),
        ([(3,)], 3),
        ([(3, 2)], 3),
        ([(0, 2)], 0),
        ([(3, 2), (3,)], 3),
        ([(3, 2), (2,)], 0),
        ([(3, 2), ()], 0),
        ([(), (3, 2)], 0),
        ([(1,), (1, 4), (1,)], 1),
    ],
)
def test_rows_are_the_common_first_dimension(shapes, rows):
    assert request(*shapes).rows == rows


def test_scalars_have_no_rows():
    assert QueuedRequest({"x": np.float32(1)}, ("y",), 0.0).rows == 0


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [
        (request((3, 2)), request((5, 2)), True),
        (request((3, 2)), request((3, 4)), False),
        (request((3, 2)), request((3, 2), dtype=np.float64), False),
        (request((3, 2)), request((3, 2), outputs=("z",)), False),
        (request((3,), (3, 2)), request((3, 2), (3,)), False),
        (request((3,), (2,)), request((3,), (2,)), True),
        (request((3,), (2,)), request((4,), (2,)), False),
        (request((3,), ()), request((3,), ()), True),
    ],
)
def test_keys_agree_on_what_a_batch_may_hold(one, other, is_equal):
    assert (one.key == other.key) is is_equal
    assert not is_equal or hash(one.key) == hash(other.key)
