"""Tensor arrays used outside of a cluster do not prevent compilation of other nodes (E3)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

from graphmill.explain.compilation import COMPILED

pytestmark = pytest.mark.jax

SHARED = (
    "n = Const(dtype=int32, value='int32: 1')",
    "zero = Const(dtype=int32, value='int32: 0')",
    "before = Neg(x)",
    "squared = Mul(before, before)",
    "t = TensorArrayV3(n, dtype=float32)",
    "written = TensorArrayWriteV3(t[0], zero, squared, t[1])",
)


def test_producers_of_its_values_are_compiled() -> None:
    """The arithmetic before writes to a shared array is a cluster."""
    made = graph_def(
        *SHARED,
        "text = AsString(written)",
        "size = StringLength(text)",
        "read = TensorArrayReadV3(t[0], zero, written, dtype=float32, after=[size])",
        "y = Neg(read)",
        x="float32[3]",
    )
    with HotSession(made) as session:
        result = session.run("y:0", {"x:0": np.arange(3, dtype=np.float32)})
        np.testing.assert_array_equal(result, -(np.arange(3.0) ** 2))
        (cluster,) = (one for one in session.clusters if "squared" in one.nodes)
        assert (cluster.tier, cluster.nodes) == (COMPILED, ("before", "squared"))


def test_unshared_tensor_array_is_in_the_cluster() -> None:
    made = graph_def(
        *SHARED,
        "y = TensorArrayReadV3(t[0], zero, written, dtype=float32)",
        x="float32[3]",
    )
    with HotSession(made) as session:
        session.run("y:0", {"x:0": np.ones(3, np.float32)})
        (cluster,) = session.clusters
        assert cluster.tier == COMPILED
        assert {"t", "written", "y"} <= set(cluster.nodes)
