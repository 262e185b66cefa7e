"""ImmutableConst: the bytes of a file as a tensor."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InternalError, NotFoundError, UnimplementedError


def _session(graphmill_host, path, dtype="float32", shape=(2, 3)):
    with graphmill.Graph().as_default() as graph:
        y = ops.array.immutable_const(dtype=dtype, shape=shape, memory_region_name=str(path))
    return graphmill.Session(graph=graph, host=graphmill_host), y


@pytest.fixture
def region(tmp_path):
    path = tmp_path / "region"
    path.write_bytes(np.arange(10, dtype=np.float32).tobytes())
    return path


@pytest.mark.parametrize("shape", [(2, 3), (10,), (), (0, 4)])
def test_value_has_the_first_bytes_of_the_file(graphmill_host, region, shape):
    session, y = _session(graphmill_host, region, shape=shape)
    with session:
        value = session.run(y)
    count = int(np.prod(shape))
    np.testing.assert_array_equal(value, np.arange(count, dtype=np.float32).reshape(shape))


def test_file_is_read_once(graphmill_host, region):
    session, y = _session(graphmill_host, region)
    with session:
        first = session.run(y)
        region.unlink()
        np.testing.assert_array_equal(session.run(y), first)


@pytest.mark.parametrize(
    ("dtype", "shape", "name", "error"),
    [
        ("float32", (11,), "region", InternalError),
        ("float32", (2,), "missing", NotFoundError),
        ("string", (2,), "region", UnimplementedError),
    ],
)
def test_wrong_region_is_refused(graphmill_host, region, dtype, shape, name, error):
    session, y = _session(graphmill_host, region.parent / name, dtype, shape)
    with session, pytest.raises(error):
        session.run(y)
