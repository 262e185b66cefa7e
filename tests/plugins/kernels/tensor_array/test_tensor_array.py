"""Tensor arrays beyond op cases: copies, lifetime, gradients across threads."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import Session, dtypes, errors, proto
from graphmill_plugins.kernels.tensor_array._tensor_array import TensorArray

X = np.arange(4, dtype=np.float32)


def array(size: int = 3, **options) -> TensorArray:
    return TensorArray(np, "a", dtypes.float32, size, **options)


def test_read_returns_written_data():
    made = array()
    made.write(1, X)
    assert made.read(1) is X


def test_a_cleared_element_is_not_kept_alive():
    import weakref

    made, value = array(), X.copy()
    gone = weakref.ref(value)
    made.write(0, value)
    del value
    made.read(0)
    assert gone() is None


def test_the_sum_of_gradients_leaves_the_gradients_alone():
    source = array()
    source.write(0, X)
    gradient = source.gradient("g")
    first = X.copy()
    for _ in range(3):
        gradient.write(0, first)
    np.testing.assert_array_equal(gradient.read(0), 3 * X)
    np.testing.assert_array_equal(first, X)


def test_an_array_that_adds_has_no_gradient():
    gradient = array().gradient("g")
    gradient.write(0, X)
    gradient.write(0, X)
    with pytest.raises(errors.InvalidArgumentError, match="gradients TensorArray"):
        gradient.gradient("h")


def test_a_gradient_of_cleared_elements_is_zeros_of_their_shape():
    source = array()
    source.write(0, X)
    source.read(0)
    np.testing.assert_array_equal(source.gradient("g", (2,)).read(0), np.zeros((2, 4)))


def test_a_growing_write_leaves_a_gap_that_is_not_written():
    made = array(0, dynamic_size=True)
    made.write(2, X)
    assert made.size == 3
    with pytest.raises(errors.InvalidArgumentError, match="not fully defined"):
        made.read(0)


def test_a_wrong_write_names_array_and_index():
    with pytest.raises(
        errors.InvalidArgumentError, match=r"TensorArray a: .* index 7 .* size is: 3"
    ):
        array().write(7, X)


def graph_of_arrays() -> proto.GraphDef:
    graph = proto.GraphDef()
    size = graph.node.add(name="n", op="Placeholder")
    size.attr["dtype"].type = dtypes.int32.enum
    made = graph.node.add(name="a", op="TensorArrayV3", input=["n"])
    made.attr["dtype"].type = dtypes.float32.enum
    graph.node.add(name="s", op="TensorArraySizeV3", input=["a", "a:1"])
    return graph


def test_arrays_do_not_outlive_their_step(graphmill_host):
    """Tensor arrays end with their step, whose container is cleared (clause S10)."""
    with Session(graph=graph_of_arrays(), host=graphmill_host) as session:
        for _ in range(2):
            assert session.run("s:0", {"n:0": np.int32(3)}) == 3
        manager = next(iter(session._impl.devices)).resource_mgr
        assert not [name for name in manager.containers() if "per_step" in name]
